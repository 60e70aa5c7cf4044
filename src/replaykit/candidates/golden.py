"""Replay a golden trace: the agent runs again in the recorded world and must behave as recorded.

One comparison with the recording covers calls, states and outcome.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.candidates.agent_run import AgentCall
from replaykit.candidates.comparable import by_cause, comparable
from replaykit.cases.golden import Aspect, Golden, read_golden, write_golden
from replaykit.checks.assertions import runs_alike
from replaykit.checks.verdict import LEFT_THE_TAPE, SPOILT
from replaykit.errors import Divergence, UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.events import AnyEvent, Call, State
from replaykit.model.jsonpath import parse_path
from replaykit.model.matching import MatchRules, OnMiss
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.terminal import visible
from replaykit.travel.compare import compare
from replaykit.travel.compare_result import Comparison, DivergenceKind, EntryKind, FirstDivergence

_STOPPED = LEFT_THE_TAPE | SPOILT  # calls without the recorded answer
_DIFFERENCES = 5  # number of differences shown at the first divergence


class GoldenResult(Struct, frozen=True, kw_only=True):
    """The result of an agent against a golden trace."""

    golden: Golden
    run: TraceRun
    """The agent's run."""
    comparison: Comparison
    """The recording and this run, without what may differ."""
    failed: tuple[Aspect, ...] = ()
    """The asserted aspects that differ."""
    first: FirstDivergence | None = None
    """The first difference."""
    stopped: tuple[Deviation, ...] = ()
    """Calls without a recorded answer, and connections that belong to no call."""
    served: Mapping[int, Call] = {}
    """The recorded call that answered each call, by the call's number in this run."""

    @property
    def passed(self) -> bool:
        """True if every asserted aspect matches and the recording answered every call."""
        return not self.failed

    @property
    def text(self) -> str:
        """A few lines about the first divergence, or a statement that there is none."""
        name = self.golden.name
        if self.passed:
            return visible(f"golden trace {name}: the same {', '.join(self.golden.asserts)}")
        if self.first is None:
            text = f"golden trace {name}: the agent left its recording"
            for deviation in self.stopped[:1]:
                text += "".join(f"\n  {line}" for line in deviation.text.splitlines())
            return "\n".join(map(visible, text.split("\n")))
        lines = [f"golden trace {name} differs {self.first.where}: {self.first.text}"]
        if self.first.a_text or self.first.b_text:
            lines.append(f"  recorded  {self.first.a_text or '(nothing)'}")
            lines.append(f"  now       {self.first.b_text or '(nothing)'}")
        found = self.first.differences
        lines += [f"  {difference}" for difference in found[:_DIFFERENCES]]
        if len(found) > _DIFFERENCES:
            lines.append(f"  … {len(found) - _DIFFERENCES} more")
        marks = "  asserted"
        for aspect in self.golden.asserts:
            sign = "✗" if aspect in self.failed else "✓"
            marks += f"  {aspect} {sign}"
        return "\n".join(map(visible, [*lines, marks]))


@checked('rk.check_golden("fixtures/golden_traces/billing.golden.json", agent)')
def check_golden(
    golden: Golden | str | os.PathLike[str], agent: Callable[..., Any], *, allow_connect: Sequence[str] = ()
) -> GoldenResult:
    """Run an agent against a golden trace: `assert result.passed, result.text`.

    `allow_connect` names addresses (`HOST:PORT`) that it may reach; nothing else is done for real.

    >>> result = rk.check_golden("fixtures/golden_traces/refunds.golden.json", agent)
    >>> assert result.passed, result.text
    """
    golden_file = golden if isinstance(golden, Golden) else read_golden(golden)
    return replay_golden(golden_file, agent, connect=_addresses(allow_connect))


def _addresses(allow_connect: Sequence[str]) -> Sequence[str]:
    """Return the validated addresses."""
    if not allow_connect:
        return ()
    from replaykit.candidates.consent import consent_of  # noqa: PLC0415 (imports the isolation; few tests need it)

    return consent_of(connect=allow_connect).connect


def replay_golden(
    golden: Golden, agent: Callable[..., Any], *, live: Sequence[str] = (), connect: Sequence[str] = ()
) -> GoldenResult:
    """Run the agent as `check_golden` does, but really call the tools in `live` where the recording has no answer."""
    rules = MatchRules(
        ignore=golden.ignore,
        on_miss=OnMiss.LIVE if live else OnMiss.ERROR,
        live=tuple(live),
        network=tuple(connect),
    )
    world = World(
        case_id=golden.name,
        input_json=golden.run.input_json,
        calls=tuple(golden.run.calls),  # type: ignore[arg-type]
        rules=rules,
        run_id=golden.run.id,
    )
    call = AgentCall(world)
    run = call.run(agent)
    comparison, first, failed = _judged(golden, run)
    deviations = call.replayer.deviations
    if not failed and any(deviation.kind in {*_STOPPED, "live"} for deviation in deviations):
        failed = golden.asserts  # behaviour after an unrecorded answer says nothing
    return GoldenResult(
        golden=golden,
        run=run,
        comparison=comparison,
        failed=failed,
        first=first,
        stopped=tuple(deviation for deviation in deviations if deviation.kind in _STOPPED),
        served=call.replayer.served(),
    )


def _judged(golden: Golden, run: TraceRun) -> tuple[Comparison, FirstDivergence | None, tuple[Aspect, ...]]:
    ignore = [parse_path(path) for path in golden.ignore]
    try:
        recorded, now = runs_alike(golden.run, run)
        recorded, now = comparable(recorded, golden.asserts, ignore), comparable(now, golden.asserts, ignore)
        comparison, first = _compared(recorded, now)
    except (ValueError, KeyError) as error:  # hand-edited changes may not fold to valid JSON
        raise UsageError(f"the states of golden trace {golden.name!r} cannot be read: {error}") from None
    unkept = _unkept(recorded, now)
    holds = {
        Aspect.CALLS: all(entry.kind is EntryKind.SAME for entry in comparison.entries),
        Aspect.STATES: not comparison.states and unkept is None,
        Aspect.OUTCOME: comparison.outcome.equal,
    }
    if unkept is not None and (first is None or first.kind is DivergenceKind.OUTCOME):
        first = unkept
    return comparison, first, tuple(aspect for aspect in golden.asserts if not holds[aspect])


def _compared(recorded: TraceRun, now: TraceRun) -> tuple[Comparison, FirstDivergence | None]:
    """Compare the runs as logged; if they differ, also compare them independently of task and thread scheduling."""
    logged = compare(recorded, now)
    if logged.identical:
        return logged, None
    causal = compare(by_cause(recorded), by_cause(now))
    scheduled = logged.first is None or logged.first.kind in (DivergenceKind.ORDER, DivergenceKind.STATE)
    return causal, causal.first if scheduled or causal.identical else logged.first


def _unkept(recorded: TraceRun, now: TraceRun) -> FirstDivergence | None:
    """Return the first state if only one run has states.

    Comparing two agents ignores that difference, a golden trace must not.
    """
    a, b = _first_state(recorded), _first_state(now)
    divergence = partial(FirstDivergence, kind=DivergenceKind.STATE, event="state")
    if a is not None and b is None:
        return divergence(text="state, kept only in the recording", a_seq=a.seq, a_step=a.step)
    if b is not None and a is None:
        return divergence(text="state, kept only now", b_seq=b.seq, b_step=b.step)
    return None


def _first_state(run: TraceRun) -> State | None:
    return next((event for event in run.events if isinstance(event, State)), None)


def accepted(result: GoldenResult) -> Golden:
    """Return the golden trace with the new run, or raise `Divergence` if a call has no answer to record."""
    if result.stopped:
        first = result.stopped[0]
        what = f"there is no answer to record for `{first.name}`: " if first.name else ""
        raise Divergence(f"{what}{first.text}", index=first.index or 0)
    return replace(result.golden, run=as_happened(result))


class GoldenUpdate(Struct, frozen=True, kw_only=True):
    """The result of running the agent for a new golden trace."""

    file: Path
    before: GoldenResult
    """The comparison with the old golden trace."""
    after: GoldenResult | None = None
    """The comparison with the new one; None if the old one stays."""
    problem: str = ""
    """The reason why the golden trace could not be updated."""

    @property
    def passed(self) -> bool:
        """True when the agent does what the file says now."""
        return (self.after or self.before).passed


def update_golden(
    file: Path,
    agent: Callable[..., Any],
    *,
    live: Sequence[str] = (),
    allow_connect: Sequence[str] = (),
    dry_run: bool = False,
) -> GoldenUpdate:
    """Run the agent, and rewrite the golden trace if its behaviour changed.

    Tools and models in `live` are really called where the recording has no answer.
    """
    before = replay_golden(read_golden(file), agent, live=live, connect=_addresses(allow_connect))
    if before.passed or dry_run:
        return GoldenUpdate(file=file, before=before)
    try:
        after = write_accepted(file, before, agent, allow_connect=allow_connect)
    except Divergence as error:
        return GoldenUpdate(file=file, before=before, problem=str(error))
    return GoldenUpdate(file=file, before=before, after=after)


def write_accepted(
    file: Path, result: GoldenResult, agent: Callable[..., Any], *, allow_connect: Sequence[str]
) -> GoldenResult:
    """Write a new golden trace from the result, and return the agent's comparison with it."""
    golden = accepted(result)
    write_golden(file, golden)
    return check_golden(golden, agent, allow_connect=allow_connect)


def as_happened(result: GoldenResult) -> TraceRun:
    """Return the agent's run as a log that replaces the recorded one."""
    recorded, now = result.golden.run, result.run
    events = tuple(_merged(result))
    return replace(
        now,
        name=recorded.name,
        agent=recorded.agent,
        agent_version=recorded.agent_version,
        tags=recorded.tags,
        metadata_json=recorded.metadata_json,
        started_at=recorded.started_at,
        ended_at=recorded.ended_at,
        error=now.error and replace(now.error, traceback=None),
        origin=replace(now.origin, run=recorded.origin.run or recorded.id),
        events=events,
        event_count=len(events),
    )


def _merged(result: GoldenResult) -> Iterator[AnyEvent]:
    """Yield all events of the run, renumbered, with the recorded events inside each served call after it."""
    inside: dict[int | None, list[AnyEvent]] = defaultdict(list)
    for event in result.golden.run.events:
        if not isinstance(event, State):  # states are changes from one to the next, so only this run's own ones fit
            inside[event.parent].append(event)
    times = _Times(result.golden.run)
    numbers: dict[int | None, int | None] = {None: None}
    events: list[AnyEvent] = []

    def add(event: AnyEvent, parent: int | None) -> int:
        events.append(replace(event, seq=len(events), parent=parent))
        return len(events) - 1

    def add_inside(recorded: int, parent: int) -> None:
        for event in inside[recorded]:
            add_inside(event.seq, add(event, parent))

    for event in result.run.events:
        known = result.served.get(event.seq)
        place = numbers.get(event.parent)
        if known is None:
            numbers[event.seq] = add(times.as_golden(event), place)
        else:
            times.last = known.at
            number = add(_as_recorded(known, event), place)
            numbers[event.seq] = number
            add_inside(known.seq, number)
    return iter(events)


def _as_recorded(known: Call, event: AnyEvent) -> AnyEvent:
    return replace(known, step=event.step, path=event.path)  # type: ignore[return-value]


class _Times:
    """Times from the recording, for unchanged events and those that follow them."""

    def __init__(self, recorded: TraceRun) -> None:
        self.last = recorded.started_at
        self._known: dict[tuple[str, str | None, str], list[float]] = defaultdict(list)
        for event in reversed(recorded.events):
            if not isinstance(event, Call):
                self._known[self._sort(event)].append(event.at)

    def as_golden(self, event: AnyEvent) -> AnyEvent:
        """Return the event with the time of its next recorded counterpart, or of the preceding event."""
        times = self._known[self._sort(event)]
        self.last = times.pop() if times else self.last
        return replace(event, at=self.last)

    def _sort(self, event: AnyEvent) -> tuple[str, str | None, str]:
        return str(event.__struct_config__.tag), event.step, event.path
