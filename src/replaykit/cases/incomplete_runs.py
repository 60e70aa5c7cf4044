"""Runs that a trace tells too little of: a case of one would break in a replay, and nobody would know why."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import UsageError
from replaykit.formats.core.replayability import Lack, Lacking, Replayability, leaves_out_answer, replayability
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun

ALLOW = "--allow-incomplete"
_BREAKING = {Lack.ARGUMENTS, Lack.RESULT, Lack.HIDDEN}
"""Without these a call is not found on the tape, or has nothing to answer; what is only cut is served as it is."""
_SHOWN = 20
_ADVICE = "Export the run again, with what goes into its calls and what comes out of them."


def refuse_incomplete(run: TraceRun) -> None:
    """A `UsageError` for an imported run of which a case could serve no tool call, or no call at all."""
    if run.origin.kind != "imported":  # what was recorded here lacks nothing but what never happened
        return
    found = replayability(run)
    tools = {event.seq for event in run.events if isinstance(event, ToolCall)}
    broken = {one.seq for one in found.lacking if _BREAKING & set(one.lacks)}
    if tools and tools <= broken:
        if len(tools) == 1:
            why = "its only tool call cannot"
        else:
            why = f"none of its {len(tools)} tool calls can"
    elif found.calls and not tools and all(Lack.RESULT in one.lacks for one in found.lacking) and not found.exact:
        why = "none of its calls has an answer, so none can"
    else:
        return
    lines = [*_calls(found, tools or broken), *(found.advice or (_ADVICE,)), f"Make the case all the same: {ALLOW}"]
    raise UsageError(f"run {run.id[:80]!r} is too incomplete for a case: {why} be replayed", hint="\n".join(lines))


def incompleteness(run: TraceRun) -> tuple[str, ...]:
    """What an imported run lacks and what would help, in lines for people; none where it lacks nothing."""
    if run.origin.kind != "imported":
        return ()
    found = replayability(run)
    if found.lacking:
        lines = (f"{found.summary[0].upper()}{found.summary[1:]}.", *_calls(found), *found.advice)
    else:
        lines = ()
    return (*_ends(run), *lines)


def _ends(run: TraceRun) -> Iterator[str]:
    """What the trace does not say of the two ends of the run."""
    if run.input is None:
        yield "The trace does not say what the run was given: write it into `scenario.input`."
    if leaves_out_answer(run):
        yield "The trace does not say what the run answered: `observed` says nothing of it."


def _calls(found: Replayability, only: set[int] | None = None) -> Iterator[str]:
    lacking_calls = [one for one in found.lacking if only is None or one.seq in only]
    yield from map(_line, lacking_calls[:_SHOWN])
    if len(lacking_calls) > _SHOWN:
        yield f"and {len(lacking_calls) - _SHOWN} more calls"


def _line(one: Lacking) -> str:
    words = {Lack.CUT: "a value is cut", Lack.HIDDEN: "a value is hidden"}
    missing = [lack.value for lack in one.lacks if lack not in words]
    parts = [f"no {', no '.join(missing)}"] if missing else []
    parts += [words[lack] for lack in one.lacks if lack in words]
    return f"{one.name or 'a model'} (event {one.seq}): {', '.join(parts)}"
