"""Statistics: what the store holds, how it grows, and how runs, forks and replays end."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.signatures import FailureSignature, detect
from replaykit.errors import StoreError
from replaykit.model.run import RunStatus
from replaykit.retention.policy import DAY_S
from replaykit.retention.replays import Replays, replays_since
from replaykit.retention.units import Unit, units_of
from replaykit.store.space import file_bytes, free_bytes
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.summaries import Contents, contents

ABANDONED = "abandoned"
_AGES = (1, 7, 30, 90)
_DAYS_SHOWN = 14
_MOST_FORKS = 1000
_MOST_FAILED = 200
_MOST_RAW = 4_000_000  # a run above this takes long to look at
_TIME_S = 0.3
_SAYS_LITTLE = frozenset({"status", "no_output"})


class Day(Struct, frozen=True, kw_only=True):
    """The runs that began on one day and are still there."""

    day: str
    runs: int = 0
    failed: int = 0
    stored_bytes: int = 0


class Signature(Struct, frozen=True, kw_only=True):
    """A way in which runs fail."""

    signature: str
    runs: int
    newest: str
    """The newest run that failed like this."""


class Stats(Struct, frozen=True, kw_only=True):
    """A store in figures. A rate of nothing is null."""

    replaykit: int = 1
    store: str
    runs: int
    threads: int
    by_status: dict[str, int]
    by_age: dict[str, int]
    events: int
    raw_bytes: int
    stored_bytes: int
    ratio: float | None
    """How many bytes each stored byte stands for."""
    file_bytes: int
    free_bytes: int
    growth_bytes_per_day: float
    """Over the days below."""
    days: tuple[Day, ...]
    checkpoint_success_rate: float | None
    """Runs that ended with their whole log on disk, of all that are not being recorded."""
    forks: int
    forks_diverged: int
    divergence_rate: float | None
    """Forks that ended otherwise than the run they come from: another status, output or error."""
    replays: Replays
    failed_looked_at: int
    signatures: tuple[Signature, ...]
    """Of the failed runs that were looked at, the newest ones."""
    damaged: int
    """Runs whose headers cannot be read."""


def gather(store: SQLiteStore, evidence: Path, *, replay_days: float = 30, now: float | None = None) -> Stats:
    """The figures of a store, and of the replays that left evidence. No event is decoded but of some failed runs."""
    now = time.time() if now is None else now
    found = contents(store)
    units = units_of(found.runs)
    runs = [unit for unit in units if not unit.is_thread]
    days = _days(runs, found, now)
    forks, diverged = _forks(store, runs)
    looked_at, signatures = _signatures(store, runs, found)
    return Stats(
        store=str(store.path),
        runs=len(runs),
        threads=len(units) - len(runs),
        by_status=dict(sorted(Counter(map(_word, runs)).items())),
        by_age=_ages(runs, now),
        events=sum(size.events for size in found.sizes.values()),
        raw_bytes=found.raw_bytes,
        stored_bytes=found.stored_bytes,
        ratio=round(found.raw_bytes / found.stored_bytes, 2) if found.stored_bytes else None,
        file_bytes=file_bytes(store),
        free_bytes=free_bytes(store),
        growth_bytes_per_day=sum(day.stored_bytes for day in days) / len(days),
        days=days,
        checkpoint_success_rate=_share(*_checkpointed(runs, found)),
        forks=forks,
        forks_diverged=diverged,
        divergence_rate=_share(diverged, forks),
        replays=replays_since(evidence, days=replay_days, now=now),
        failed_looked_at=looked_at,
        signatures=signatures,
        damaged=len(found.damage),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _word(unit: Unit) -> str:
    if unit.root.status is not RunStatus.RUNNING:
        return unit.root.status
    return unit.root.status if any(run.alive for run in unit.runs) else ABANDONED


def _ages(units: Iterable[Unit], now: float) -> dict[str, int]:
    names = [*(f"under {days} {'day' if days == 1 else 'days'}" for days in _AGES), "older"]
    counts = dict.fromkeys(names, 0)
    for unit in units:
        counts[names[bisect_right(_AGES, (now - unit.time) / DAY_S)]] += 1
    return counts


def _days(units: Iterable[Unit], found: Contents, now: float) -> tuple[Day, ...]:
    """The last days, the oldest first; each ends at this time of day."""
    tallies = [[0, 0, 0] for _ in range(_DAYS_SHOWN)]
    for unit in units:
        age = int((now - unit.root.started_at) // DAY_S)
        if 0 <= age < _DAYS_SHOWN:
            tally = tallies[age]
            tally[0] += 1
            tally[1] += not unit.is_success and _word(unit) != RunStatus.RUNNING
            tally[2] += sum(found.sizes[run.number].stored for run in unit.runs)
    return tuple(
        Day(
            day=time.strftime("%Y-%m-%d", time.gmtime(now - age * DAY_S)),
            runs=tallies[age][0],
            failed=tallies[age][1],
            stored_bytes=tallies[age][2],
        )
        for age in reversed(range(_DAYS_SHOWN))
    )


def _checkpointed(units: Iterable[Unit], found: Contents) -> tuple[int, int]:
    """How many runs have their whole log, and of how many that can be asked."""
    over = [unit for unit in units if _word(unit) != RunStatus.RUNNING]
    whole = [unit for unit in over if unit.root.event_count == found.sizes[unit.root.number].events]
    return len(whole), len(over)


def _forks(store: SQLiteStore, units: Sequence[Unit]) -> tuple[int, int]:
    """How many of the newest forks can be compared with what they come from, and how many ended otherwise."""
    ids = {unit.root.id for unit in units}
    forks = [
        unit.root
        for unit in units
        if unit.root.origin.step is not None and unit.root.origin.run in ids and unit.root.status != RunStatus.RUNNING
    ][-_MOST_FORKS:]
    compared = diverged = 0
    for fork in forks:
        try:
            own, parent = store.header(fork.id), store.header(str(fork.origin.run))
        except StoreError:  # damaged, or deleted meanwhile
            continue
        compared += 1
        diverged += _outcome(own) != _outcome(parent)
    return compared, diverged


def _outcome(header: msgspec.Struct) -> tuple[object, ...]:
    status, output, error = (getattr(header, name) for name in ("status", "output_json", "error"))
    return status, bytes(output), str(error)


def _signatures(store: SQLiteStore, units: Sequence[Unit], found: Contents) -> tuple[int, tuple[Signature, ...]]:
    """How the newest failed runs failed: as many as can be looked at in a moment."""
    failed = [unit.root for unit in units if not unit.is_success and unit.root.status is not RunStatus.RUNNING]
    give_up, looked_at = time.monotonic() + _TIME_S, 0
    counts: dict[str, int] = {}
    newest: dict[str, str] = {}
    for run in sorted(failed, key=lambda run: run.started_at, reverse=True)[:_MOST_FAILED]:
        if time.monotonic() > give_up:
            break
        if found.sizes[run.number].raw > _MOST_RAW:
            continue
        try:
            signatures = detect(store.load(run.id))
        except StoreError:
            continue
        looked_at += 1
        for text in _telling(signatures):
            counts[text] = counts.get(text, 0) + 1
            newest.setdefault(text, run.id)
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return looked_at, tuple(Signature(signature=text, runs=counts[text], newest=newest[text]) for text in ranked[:10])


def _telling(signatures: list[FailureSignature]) -> list[str]:
    """What sets this failure apart; that it failed, and without an answer, only where there is nothing else."""
    telling = [one for one in signatures if one.code not in _SAYS_LITTLE] or signatures
    texts = (f"{one.assertion.kind}: {_value(one.assertion.value)}" for one in telling)
    return list(dict.fromkeys(texts))


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
