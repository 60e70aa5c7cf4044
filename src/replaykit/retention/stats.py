"""Statistics: what the store holds, how it grows, and how runs, forks and replays end."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.signatures import FailureSignature, detect
from replaykit.errors import StoreError
from replaykit.model.nesting import decode_json
from replaykit.model.result import upgraded_verdict
from replaykit.model.run import RunHeader, RunStatus
from replaykit.retention.plan import RunGroup, group_runs
from replaykit.retention.policy import DAY_S, FOREVER
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.summaries import Contents, contents
from replaykit.store.vacuum import file_bytes, free_bytes

_MOST = 2000
_STAMP = len("20240312-143200")


class ReplayStats(Struct, frozen=True, kw_only=True):
    """The outcomes of the replays of some days."""

    days: float
    """The number of days counted."""
    total: int
    """The number of replays; only the newest 2,000 are examined."""
    looked_at: int = 0
    """The number of replays examined."""
    verdicts: dict[str, int] = {}
    """The number of replays of each verdict."""
    success_rate: float | None = None
    """The share of replays with any verdict but `inconclusive`."""
    latency_p50_s: float | None = None
    """The time that half of the replays did not exceed."""
    latency_p95_s: float | None = None
    """The time that 95 % of the replays did not exceed."""
    latency_sum_s: float = 0.0
    """The time of all replays together."""


class _Deviation(Struct, frozen=True, kw_only=True):
    kind: str = ""


class _Result(Struct, frozen=True, kw_only=True):
    verdict: str
    duration_s: float = 0.0
    deviations: tuple[_Deviation, ...] = ()

    @property
    def upgraded(self) -> str:
        """The verdict in the current vocabulary."""
        return upgraded_verdict(self.verdict, (deviation.kind for deviation in self.deviations))


class _CiItem(Struct, frozen=True, kw_only=True):
    part: str = ""
    verdict: str = ""
    duration_s: float = 0.0
    evidence: str = ""


class _CiLine(Struct, frozen=True, kw_only=True):
    """A line of the results of `ci`; only replays matter here."""

    item: _CiItem | None = None


def replays_since(evidence: Path, *, days: float, now: float, ci_results: Path | None = None) -> ReplayStats:
    """Return statistics of the last days' replays: those with evidence files, and those in the results of `ci`."""
    since = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now - days * DAY_S))
    names = _names(evidence, since)
    results: list[_Result] = []
    for name in names[:_MOST]:
        result = _read(evidence / name / "result.json")
        if result is not None:
            results.append(result)
    total = len(names)
    if ci_results is not None:
        for name in _names(ci_results, since):
            for result in _passed_in(ci_results / name):
                total += 1
                if len(results) < _MOST:
                    results.append(result)
    if not results:
        return ReplayStats(days=days, total=total)
    verdicts = Counter([result.upgraded for result in results])
    times = sorted([result.duration_s for result in results])
    return ReplayStats(
        days=days,
        total=total,
        looked_at=len(results),
        verdicts=dict(sorted(verdicts.items())),
        success_rate=1 - verdicts["inconclusive"] / len(results),
        latency_p50_s=quantile(times, 0.5),
        latency_p95_s=quantile(times, 0.95),
        latency_sum_s=sum(times),
    )


def quantile(ordered: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted list does not exceed."""
    # In integers: a float product could round up to the next rank.
    rank = -(-len(ordered) * round(share * 1000) // 1000)
    return ordered[max(0, rank - 1)]


def _names(evidence: Path, since: str) -> list[str]:
    """Return the names of the replays since a moment, newest first."""
    try:
        with os.scandir(evidence) as entries:
            # Names begin with a UTC timestamp, so they compare like times.
            names = [entry.name for entry in entries if entry.name[:8].isdigit() and entry.name[:_STAMP] >= since]
    except OSError:
        return []
    return sorted(names, reverse=True)


def _read(file: Path) -> _Result | None:
    """Return a replay's result; None if it is still running, or the file is not a result."""
    try:
        return decode_json(file.read_bytes(), _Result)
    except (OSError, msgspec.MsgspecError):
        return None


def _passed_in(file: Path) -> Iterator[_Result]:
    """Yield the replays of a `ci` run that left no evidence files."""
    try:
        with file.open("rb") as lines:
            for line in lines:
                item = msgspec.json.decode(line, type=_CiLine).item
                if item is not None and item.part == "replay" and not item.evidence:
                    yield _Result(verdict=item.verdict, duration_s=item.duration_s)
    except (OSError, msgspec.MsgspecError):  # the run is not finished, or the file is not a result
        return


ABANDONED = "abandoned"
_AGES = {1: "under 1 day", 7: "under 7 days", 30: "under 30 days", 90: "under 90 days", FOREVER: "older"}
_DAYS_SHOWN = 14
_MOST_FORKS = 1000
_MOST_FAILED = 200
_MOST_RAW = 4_000_000  # larger runs take too long to examine
_TIME_S = 0.3
_GENERAL_CODES = frozenset({"status", "no_output"})


class Day(Struct, frozen=True, kw_only=True):
    """The stored runs that began on one day."""

    day: str
    """The date in UTC, such as `2026-02-15`."""
    runs: int = 0
    """The number of runs that began that day."""
    failed: int = 0
    """The number of those that failed."""
    stored_bytes: int = 0
    """The size of their logs in the store."""


class Signature(Struct, frozen=True, kw_only=True):
    """A way in which runs fail."""

    signature: str
    """The failure in words."""
    runs: int
    """The number of runs that failed like this."""
    newest: str
    """The newest run that failed like this."""


class Stats(Struct, frozen=True, kw_only=True):
    """A store in figures. A rate over nothing is null."""

    replaykit: int = 1
    """Version of this format."""
    store: str
    """The file of the store."""
    runs: int
    """The number of runs, without LangGraph threads."""
    threads: int
    """The number of LangGraph threads."""
    by_status: dict[str, int]
    """The number of runs of each status; `abandoned` is a recording that was killed."""
    by_age: dict[str, int]
    """The number of runs of each age."""
    events: int
    """The number of events of all runs."""
    raw_bytes: int
    """The size of all logs before compression."""
    stored_bytes: int
    """The size of all logs in the store."""
    ratio: float | None
    """The ratio of raw to stored bytes."""
    file_bytes: int
    """The size of the store's file."""
    free_bytes: int
    """The free space in that file."""
    growth_bytes_per_day: float
    """The average over `days`."""
    days: tuple[Day, ...]
    checkpoint_success_rate: float | None
    """The share of finished runs whose whole log is on disk."""
    forks: int
    """The number of examined forks: the newest whose parent is in the store."""
    forks_diverged: int
    """The number of those that ended differently from their parent."""
    divergence_rate: float | None
    """The share of forks with another status, output or error than their parent."""
    replays: ReplayStats
    failed_looked_at: int
    """The number of failed runs examined."""
    signatures: tuple[Signature, ...]
    """The signatures of the examined runs, most frequent first."""
    damaged: int
    """The number of runs with an unreadable header."""


def gather_stats(
    store: SQLiteStore,
    evidence: Path,
    *,
    replay_days: float = 30,
    now: float | None = None,
    ci_results: Path | None = None,
) -> Stats:
    """Return the statistics of a store and of the replays that left evidence. Only some failed runs are decoded."""
    now = time.time() if now is None else now
    stored = contents(store)
    groups = group_runs(stored.runs)
    runs = [group for group in groups if not group.is_thread]
    days = _days(runs, stored, now)
    forks, diverged = _forks(store, runs)
    looked_at, signatures = _signatures(store, runs, stored)
    return Stats(
        store=str(store.path),
        runs=len(runs),
        threads=len(groups) - len(runs),
        by_status=dict(sorted(Counter(map(_word, runs)).items())),
        by_age=_ages(runs, now),
        events=sum(size.events for size in stored.sizes.values()),
        raw_bytes=stored.raw_bytes,
        stored_bytes=stored.stored_bytes,
        ratio=round(stored.raw_bytes / stored.stored_bytes, 2) if stored.stored_bytes else None,
        file_bytes=file_bytes(store),
        free_bytes=free_bytes(store),
        growth_bytes_per_day=sum(day.stored_bytes for day in days) / len(days),
        days=days,
        checkpoint_success_rate=_share(*_checkpointed(runs, stored)),
        forks=forks,
        forks_diverged=diverged,
        divergence_rate=_share(diverged, forks),
        replays=replays_since(evidence, days=replay_days, now=now, ci_results=ci_results),
        failed_looked_at=looked_at,
        signatures=signatures,
        damaged=len(stored.damage),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _word(group: RunGroup) -> str:
    if group.root.status is RunStatus.RUNNING and not any(run.alive for run in group.runs):
        return ABANDONED
    return group.root.status


def _ages(groups: Iterable[RunGroup], now: float) -> dict[str, int]:
    names = list(_AGES.values())
    counts = dict.fromkeys(names, 0)
    for group in groups:
        counts[names[bisect_right(list(_AGES), (now - group.time) / DAY_S)]] += 1
    return counts


def _days(groups: Iterable[RunGroup], stored: Contents, now: float) -> tuple[Day, ...]:
    """Return the last days, oldest first; each ends at this time of day."""
    runs, failed, stored_bytes = Counter[int](), Counter[int](), Counter[int]()
    for group in groups:
        age = int((now - group.root.started_at) // DAY_S)
        runs[age] += 1
        failed[age] += not group.is_success and _word(group) != RunStatus.RUNNING
        for run in group.runs:
            stored_bytes[age] += stored.sizes[run.number].stored
    days: list[Day] = []
    for age in reversed(range(_DAYS_SHOWN)):
        name = time.strftime("%Y-%m-%d", time.gmtime(now - age * DAY_S))
        days.append(Day(day=name, runs=runs[age], failed=failed[age], stored_bytes=stored_bytes[age]))
    return tuple(days)


def _checkpointed(groups: Iterable[RunGroup], stored: Contents) -> tuple[int, int]:
    """Return the number of runs with their whole log, and the number of finished runs."""
    whole = over = 0
    for group in groups:
        if _word(group) != RunStatus.RUNNING:
            over += 1
            whole += group.root.event_count == stored.sizes[group.root.number].events
    return whole, over


def _forks(store: SQLiteStore, groups: Sequence[RunGroup]) -> tuple[int, int]:
    """Return how many of the newest forks have a stored parent, and how many of those ended differently."""
    ids = {group.root.id for group in groups}
    forks = []
    for group in groups:
        origin = group.root.origin
        if origin.step is not None and origin.run in ids and group.root.status != RunStatus.RUNNING:
            forks.append(group.root)
    compared = diverged = 0
    for fork in forks[-_MOST_FORKS:]:
        try:
            own, parent = store.header(fork.id), store.header(str(fork.origin.run))
        except StoreError:  # damaged, or deleted by another process
            continue
        compared += 1
        diverged += _outcome(own) != _outcome(parent)
    return compared, diverged


def _outcome(header: RunHeader) -> tuple[object, ...]:
    return header.status, bytes(header.output_json), str(header.error)


def _signatures(store: SQLiteStore, groups: Sequence[RunGroup], stored: Contents) -> tuple[int, tuple[Signature, ...]]:
    """Return the number of failed runs examined and their signatures: the newest, as many as fit in `_TIME_S`."""
    failed = [group.root for group in groups if not group.is_success and group.root.status is not RunStatus.RUNNING]
    deadline, looked_at = time.monotonic() + _TIME_S, 0
    counts = Counter[str]()
    newest: dict[str, str] = {}
    for run in sorted(failed, key=lambda run: run.started_at, reverse=True)[:_MOST_FAILED]:
        if time.monotonic() > deadline:
            break
        if stored.sizes[run.number].raw > _MOST_RAW:
            continue
        try:
            signatures = detect(store.load(run.id))
        except StoreError:
            continue
        looked_at += 1
        for text in _specific_texts(signatures):
            counts[text] += 1
            newest.setdefault(text, run.id)
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return looked_at, tuple(Signature(signature=text, runs=counts[text], newest=newest[text]) for text in ranked[:10])


def _specific_texts(signatures: list[FailureSignature]) -> list[str]:
    """Return the specific signatures of a failure; the general ones only if there are no others."""
    specific = [signature for signature in signatures if signature.code not in _GENERAL_CODES]
    texts = [f"{one.assertion.kind}: {_value(one.assertion.value)}" for one in specific or signatures]
    return list(dict.fromkeys(texts))


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
