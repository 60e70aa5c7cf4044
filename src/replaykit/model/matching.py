"""Matching rules: how a replayed call finds its recorded answer, and what happens when there is none."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from replaykit.errors import UsageError, nearest


class MatchMode(StrEnum):
    """The parts of a call that must agree before a recorded outcome is served."""

    STRICT = "strict"  # the exact recorded order, names and arguments
    CAUSAL = "causal"  # path, arguments and occurrence; then arguments and occurrence anywhere
    ARGS = "args"  # arguments and occurrence, wherever the call came from
    SEQUENCE = "sequence"  # the n-th call of that name; other arguments are reported, not refused


class OnMiss(StrEnum):
    """The answer to a call that is not on the tape."""

    ERROR = "error"  # stop and explain
    LIVE = "live"  # do it for real; allow-listed names only
    FAULT = "fault"  # raise the error the case names
    REPEAT = "repeat"  # serve the last outcome recorded for this call


class ToolMode(StrEnum):
    """The source of a tool's answers in a replay."""

    RECORDED = "recorded"  # the tape
    LIVE = "live"  # the tool itself is called
    BLOCKED = "blocked"  # nowhere: a call is refused


class ModelMatch(StrEnum):
    """The part that the model and its parameters play where a call is found by its conversation."""

    EXACT = "exact"  # the model, and the parameters that the trace has
    IGNORE = "ignore"  # messages and tools decide


class ToolErrors(StrEnum):
    """The end of a tool's failed calls in a replay, if the trace holds only the text the model read."""

    RETURNED = "returned"  # the tool returns that text
    RAISED = "raised"  # the tool raises an exception


class ErrorSpec(Struct, frozen=True, kw_only=True):
    """An error to raise, as a case spells it."""

    type: str
    message: str = ""


class MatchRules(Struct, frozen=True, kw_only=True):
    """The rules by which one case matches its candidate's calls."""

    mode: MatchMode = MatchMode.CAUSAL
    ignore: tuple[str, ...] = ()
    """JSON paths of members that are left out of the comparison; see `model.jsonpath`."""
    on_miss: OnMiss = OnMiss.ERROR
    live: tuple[str, ...] = ()
    """The names that may be done for real when `on_miss` is `live`; `models` is every model, `*` is anything."""
    fault: ErrorSpec | None = None
    """The error that is raised when `on_miss` is `fault`."""
    network: tuple[str, ...] = ()
    """Hosts, or `host:port`, that may be connected to in a replay; `*` is any. Of a case, those that it asks for."""
    model: ModelMatch | None = None
    """None: of calls that were recorded over the wire everything is compared; of those that a trace tells of, messages
    and tools."""
    redaction_key_id: str = ""
    """The id of the key that the tape was redacted with; empty if unknown."""

    def __post_init__(self) -> None:
        """Words are taken for what they say: `mode="args"` is `MatchMode.ARGS`, and any other word is an error."""
        for name, kind in (("mode", MatchMode), ("on_miss", OnMiss), ("model", ModelMatch)):
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                force_setattr(self, name, _word(name, value, kind))


def _word(name: str, value: str, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{name}={value!r}; {nearest(str(value), map(str, kind))}") from None
