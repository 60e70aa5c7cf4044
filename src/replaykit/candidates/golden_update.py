"""A new truth for a golden trace: the run as it happened, with what was served as it was recorded.

What did not change keeps its times, its arguments and whatever else the recording knows of it, so that the file's
diff shows what the agent does otherwise and nothing more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from replaykit.candidates.golden import GoldenResult, check_golden, replay_golden
from replaykit.cases.golden import Golden, read_golden, write_golden
from replaykit.errors import Divergence
from replaykit.model.events import AnyEvent, Call, State
from replaykit.model.run import TraceRun


def accepted(result: GoldenResult) -> Golden:
    """The golden trace with the run as it happened; a Divergence where a call got no answer that could be kept."""
    if result.stopped:
        first = result.stopped[0]
        if first.name:
            what = f"there is no answer to record for `{first.name}`: "
        else:
            what = ""
        raise Divergence(f"{what}{first.text}", index=first.index or 0)
    return msgspec.structs.replace(result.golden, run=as_happened(result))


class GoldenUpdate(Struct, frozen=True, kw_only=True):
    """What became of a golden trace when the agent was run for a new one."""

    file: Path
    before: GoldenResult
    """The agent against the golden trace as it was."""
    after: GoldenResult | None = None
    """The agent against the new one; None where the old one stands."""
    problem: str = ""
    """Why there is no new one though the agent does something else."""

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
    """Run the agent, and write what it does as the new golden trace if that differs from the one in the file.

    Tools and models named in `live` are called for real where the recording has no answer.
    """
    from replaykit.candidates.consent import consent_of  # noqa: PLC0415 (brings in the isolation; few need it)

    connect = consent_of(connect=allow_connect).connect if allow_connect else ()
    before = replay_golden(read_golden(file), agent, live=live, connect=connect)
    if before.passed or dry_run:
        return GoldenUpdate(file=file, before=before)
    try:
        after = write_accepted(file, before, agent, allow_connect=allow_connect)
    except Divergence as error:
        return GoldenUpdate(file=file, before=before, problem=str(error))
    return GoldenUpdate(file=file, before=before, after=after)


def write_accepted(
    file: Path, result: GoldenResult, agent: Callable[..., Any], *, allow_connect: Sequence[str] = ()
) -> GoldenResult:
    """Write the golden trace with the run as it happened; return how the agent does against that."""
    golden = accepted(result)
    write_golden(file, golden)
    return check_golden(golden, agent, allow_connect=allow_connect)


def as_happened(result: GoldenResult) -> TraceRun:
    """What the agent did, as a run log of its own that goes back to the recorded one."""
    recorded, now = result.golden.run, result.run
    events = tuple(_merged(result))
    return msgspec.structs.replace(
        now,
        name=recorded.name,
        agent=recorded.agent,
        agent_version=recorded.agent_version,
        tags=recorded.tags,
        metadata_json=recorded.metadata_json,
        started_at=recorded.started_at,
        ended_at=recorded.ended_at,
        error=now.error and msgspec.structs.replace(now.error, traceback=None),
        origin=msgspec.structs.replace(now.origin, run=recorded.origin.run or recorded.id),
        events=events,
        event_count=len(events),
    )


def _merged(result: GoldenResult) -> Iterator[AnyEvent]:
    """Every event of the run, the inside of served calls behind them, numbered afresh."""
    inside: dict[int | None, list[AnyEvent]] = defaultdict(list)
    for event in result.golden.run.events:
        if not isinstance(event, State):  # the states of this run lead from one to the next
            inside[event.parent].append(event)
    times = _Times(result.golden.run)
    numbers: dict[int | None, int | None] = {None: None}
    events: list[AnyEvent] = []

    def add(event: AnyEvent, parent: int | None) -> int:
        events.append(msgspec.structs.replace(event, seq=len(events), parent=parent))
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
    return msgspec.structs.replace(known, step=event.step, path=event.path)  # type: ignore[return-value]


class _Times:
    """When things happened in the recording: for whatever did not change, and for what came after it."""

    def __init__(self, recorded: TraceRun) -> None:
        self.last = recorded.started_at
        self._known: dict[tuple[str, str | None, str], list[float]] = defaultdict(list)
        for event in reversed(recorded.events):
            if not isinstance(event, Call):
                self._known[self._sort(event)].append(event.at)

    def as_golden(self, event: AnyEvent) -> AnyEvent:
        """The event, with the time of the recorded one of its sort whose turn it is, or of what came before it."""
        times = self._known[self._sort(event)]
        self.last = times.pop() if times else self.last
        return msgspec.structs.replace(event, at=self.last)

    def _sort(self, event: AnyEvent) -> tuple[str, str | None, str]:
        return str(event.__struct_config__.tag), event.step, event.path
