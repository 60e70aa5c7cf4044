"""Matching rules: how a replayed call finds its recorded answer, and what happens if there is none."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from replaykit.errors import UsageError, nearest


class MatchMode(StrEnum):
    """The parts of a call that must agree before a recorded outcome is served."""

    STRICT = "strict"  # the exact recorded order, names and arguments
    CAUSAL = "causal"  # path, arguments and occurrence; then arguments and occurrence anywhere
    ARGS = "args"  # arguments and occurrence, wherever the call came from
    SEQUENCE = "sequence"  # the n-th call of that name; different arguments are reported, not refused


class OnMiss(StrEnum):
    """The response to a call that is not on the tape."""

    ERROR = "error"  # stop and explain
    LIVE = "live"  # call it for real; allowed names only
    FAULT = "fault"  # raise the error the case names
    REPEAT = "repeat"  # serve the last outcome recorded for this call


class ToolMode(StrEnum):
    """The source of a tool's answers in a replay."""

    RECORDED = "recorded"  # the tape
    LIVE = "live"  # the tool itself
    BLOCKED = "blocked"  # none: calls are refused


class ModelMatch(StrEnum):
    """How the model and its parameters count when a call is matched by its conversation."""

    EXACT = "exact"  # the model must agree, and so must the parameters that the trace has
    IGNORE = "ignore"  # only messages and tools are compared


class ToolErrors(StrEnum):
    """How a tool's failed calls end in a replay, if the trace has only the text that the model read."""

    RETURNED = "returned"  # the tool returns that text
    RAISED = "raised"  # the tool raises an exception


class ErrorSpec(Struct, frozen=True, kw_only=True):
    """An error to raise, as declared in a case."""

    type: str
    message: str = ""


class MatchRules(Struct, frozen=True, kw_only=True):
    """The rules by which a case matches its candidate's calls."""

    mode: MatchMode = MatchMode.CAUSAL
    ignore: tuple[str, ...] = ()
    """JSON paths of members that are excluded from the comparison; see `model.jsonpath`."""
    on_miss: OnMiss = OnMiss.ERROR
    live: tuple[str, ...] = ()
    """The names that may be called for real if `on_miss` is `live`; `models` is every model, `*` is anything."""
    fault: ErrorSpec | None = None
    """The error to raise if `on_miss` is `fault`."""
    network: tuple[str, ...] = ()
    """Hosts, or `host:port`, that a replay may connect to; `*` is any. In a case, those that it asks for."""
    model: ModelMatch | None = None
    """None compares everything in calls recorded over the wire, and messages and tools in imported calls."""
    redaction_key_id: str = ""
    """The id of the key that the tape was redacted with; empty if unknown."""

    def __post_init__(self) -> None:
        """Convert words to enums: `mode="args"` becomes `MatchMode.ARGS`, and an unknown word raises `UsageError`."""
        for name, kind in (("mode", MatchMode), ("on_miss", OnMiss), ("model", ModelMatch)):
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                force_setattr(self, name, _word(name, value, kind))


def _word(name: str, value: str, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{name}={value!r}; {nearest(str(value), map(str, kind))}") from None
