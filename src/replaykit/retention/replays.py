"""Replays that were made, told by the evidence they left. The names of directories say when; few files are read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.model.nesting import decode_json
from replaykit.model.result import upgraded_verdict

_MOST = 2000
_STAMP = len("20240312-143200")


class Replays(Struct, frozen=True, kw_only=True):
    """How the replays of some days ended."""

    days: float
    total: int
    """All of them; the newest 2,000 were looked at."""
    looked_at: int = 0
    verdicts: dict[str, int] = {}
    success_rate: float | None = None
    """Those that came to an end, whatever the end: every verdict but `inconclusive`."""
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    latency_sum_s: float = 0.0


class _Deviation(Struct, frozen=True, kw_only=True):
    kind: str = ""


class _Result(Struct, frozen=True, kw_only=True):
    verdict: str
    duration_s: float = 0.0
    deviations: tuple[_Deviation, ...] = ()

    @property
    def upgraded(self) -> str:
        """The verdict in the words of today."""
        return upgraded_verdict(self.verdict, (deviation.kind for deviation in self.deviations))


_decode = msgspec.json.Decoder(_Result).decode


def replays_since(evidence: Path, *, days: float, now: float) -> Replays:
    """The replays of the last days."""
    names = _names(evidence, time.strftime("%Y%m%d-%H%M%S", time.gmtime(now - days * 86_400)))
    results = [result for name in names[:_MOST] if (result := _read(evidence / name / "result.json")) is not None]
    if not results:
        return Replays(days=days, total=len(names))
    verdicts: dict[str, int] = {}
    for result in results:
        verdicts[result.upgraded] = verdicts.get(result.upgraded, 0) + 1
    times = sorted(result.duration_s for result in results)
    return Replays(
        days=days,
        total=len(names),
        looked_at=len(results),
        verdicts=dict(sorted(verdicts.items())),
        success_rate=1 - verdicts.get("inconclusive", 0) / len(results),
        latency_p50_s=quantile(times, 0.5),
        latency_p95_s=quantile(times, 0.95),
        latency_sum_s=sum(times),
    )


def quantile(ordered: list[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    rank = -(-len(ordered) * round(share * 1000) // 1000)
    return ordered[max(0, rank - 1)]


def _names(evidence: Path, since: str) -> list[str]:
    """The directories of replays since a moment, the newest first."""
    try:
        with os.scandir(evidence) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    return sorted((name for name in names if name[:8].isdigit() and name[:_STAMP] >= since), reverse=True)


def _read(file: Path) -> _Result | None:
    """None for a replay that is under way, or whose file is none of ours."""
    try:
        return decode_json(file.read_bytes(), _Result)
    except (OSError, msgspec.MsgspecError):
        return None
