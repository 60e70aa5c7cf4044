"""How much of a tape a candidate used: the evidence that a verdict rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from replaykit.candidates.attempt import Attempt
from replaykit.cases.case import ReplayCase
from replaykit.errors import ReplayKitError
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, LlmCall, ToolCall
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.result import Deviation, Evidence, EvidenceSource
from replaykit.model.run import TraceRun
from replaykit.seam.time_and_chance import MACHINE


def evidence_of(case: ReplayCase, attempt: Attempt) -> Evidence:
    """Return the evidence of an attempt, as the case accepts it."""
    evidence = attempt.evidence
    if evidence is None:  # of a candidate that does not count
        from replaykit.candidates.worlds import world_of  # noqa: PLC0415 (reads the fixtures; our own candidates count)

        evidence = reported_on(world_of(case), attempt.run)
        if attempt.watched and evidence.used:
            evidence = msgspec.structs.replace(evidence, how=EvidenceSource.SERVED)
    if case.rests_on_output and not evidence.used:
        return msgspec.structs.replace(evidence, how=EvidenceSource.OUTPUT)
    return evidence


def served_from(world: World, run: TraceRun | None, deviations: Iterable[Deviation]) -> Evidence:
    """Return what was used of a tape that ReplayKit served, by the recorded calls it says were not made."""
    recorded = sum(1 for _ in _to_be_used(world))
    unused = sum(1 for one in deviations if one.kind == "unused" and one.name not in MACHINE)
    used = recorded - unused
    if used <= 0:
        used = _matched(world, run) + _struck(run)
    return _evidence(used, recorded, EvidenceSource.SERVED)


def reported_on(world: World, run: TraceRun | None) -> Evidence:
    """Return what a candidate says it used of a tape: the calls it reports that are on it."""
    recorded = sum(1 for _ in _to_be_used(world))
    return _evidence(_matched(world, run), recorded, EvidenceSource.REPORTED)


def _evidence(used: int, recorded: int, how: EvidenceSource) -> Evidence:
    return Evidence(used=used, recorded=recorded, how=how if used else EvidenceSource.NONE)


def _to_be_used(world: World) -> Iterator[Call]:
    """The recorded calls that a candidate is to be answered from: not those that were made inside of a tool, which
    answers for them, none that was refused, and none of the machine."""
    calls = [call for call in world.calls if isinstance(call, Call) and _was_answered(call)]
    tools = {call.seq for call in calls if isinstance(call, ToolCall)}
    for call in calls:
        if call.parent not in tools and _mode(world, call) is ToolMode.RECORDED:
            yield call


def _mode(world: World, call: Call) -> ToolMode:
    if isinstance(call, LlmCall):
        return world.models
    return world.tools.get(call.name, world.tools.get("*", ToolMode.RECORDED))


def _matched(world: World, run: TraceRun | None) -> int:
    """How many calls of a run are on the tape, by name and arguments; by name alone where the tape goes by order."""
    if run is None:
        answered_calls = []
    else:
        answered_calls = [call for call in run.calls if _was_answered(call)]
    if not answered_calls:
        return 0
    # Few runs are counted like this, and matching brings in the seam.
    from replaykit.handlers.replay.keys import as_pending  # noqa: PLC0415
    from replaykit.handlers.replay.tape import Matcher, Tape  # noqa: PLC0415

    tape = Tape(call for call in world.calls if isinstance(call, Call) and _mode(world, call) is ToolMode.RECORDED)
    is_sequence = world.rules.mode is MatchMode.SEQUENCE
    mode = MatchMode.SEQUENCE if is_sequence else MatchMode.ARGS
    matcher = Matcher(tape, mode, world.rules.ignore, model=world.rules.model)
    return sum(matcher.take(as_pending(call)) is not None for call in answered_calls)


def _was_answered(call: Call) -> bool:
    """True for a call that was not refused by a replay; the machine does not count."""
    is_refused = call.error is not None and call.error.module == ReplayKitError.__module__
    return not is_refused and call.name not in MACHINE


def _struck(run: TraceRun | None) -> int:
    """How many calls were answered by an injected fault, in the place of the tape."""
    if run is None:
        return 0
    return sum(1 for call in run.calls if call.faults)
