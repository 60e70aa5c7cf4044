"""Failed tool calls of imported runs: returned as text, or raised?

Many traces show only what the model was told about a failed call: `Error: no such order`. The tool may have returned
that text, or raised an exception that the agent turned into it. Such a call holds both: the text as its result, and the
error that the text reports; `error.raised` says which of the two happened. A case can override it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from replaykit.model.events import Call, ErrorInfo, ToolCall
from replaykit.model.values import Raw

if TYPE_CHECKING:
    from replaykit.model.matching import ToolErrors

EVERY_TOOL = "*"


class EndedCall(Protocol):
    """The outcome of a call."""

    @property
    def result_json(self) -> Raw: ...
    @property
    def error(self) -> ErrorInfo | None: ...


def is_raised(outcome: EndedCall) -> bool:
    """Return whether a call ended with an exception, not with a result that reports one."""
    return outcome.error is not None and (outcome.error.raised or not outcome.result_json)


def is_switchable(call: Call) -> bool:
    """Return whether a failed call's text is known too, so that a replay can either return it or raise the error."""
    return isinstance(call, ToolCall) and call.error is not None and bool(call.result_json)


def tool_errors_in(calls: Iterable[Call]) -> dict[str, ToolErrors]:
    """Return how the failed calls of each tool end, for tools where a replay could do either.

    A tool whose failures ended in both ways counts as raising.
    """
    from replaykit.model.matching import ToolErrors  # noqa: PLC0415 (only imported runs have such calls)

    found: dict[str, ToolErrors] = {}
    for call in calls:
        if is_switchable(call) and found.get(call.name) is not ToolErrors.RAISED:
            found[call.name] = ToolErrors.RAISED if is_raised(call) else ToolErrors.RETURNED
    return found


def with_tool_errors(calls: Iterable[Call], modes: Mapping[str, ToolErrors]) -> Iterator[Call]:
    """Yield the calls, with failures ending as `modes` says for the tool's name; `*` stands for all other tools."""
    from replaykit.model.matching import ToolErrors  # noqa: PLC0415 (only imported runs have such calls)

    for call in calls:
        mode = modes.get(call.name, modes.get(EVERY_TOOL))
        if mode is None or call.error is None or not is_switchable(call):
            yield call
            continue
        error = replace(call.error, raised=mode is ToolErrors.RAISED)
        yield replace(call, error=error)
