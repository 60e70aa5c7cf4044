"""The figures of a store as text, JSON and Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replaykit.report.layout import counted, labelled, room, short, tally, with_hint
from replaykit.retention.policy import shown_bytes
from replaykit.retention.stats import Stats

_BARS = "▁▂▃▄▅▆▇█"


def stats_text(stats: Stats, *, bars: bool = False) -> str:
    """Everything, for people; `bars` draws the days."""
    rows = [*_runs(stats), *_space(stats, bars), *_rates(stats)]
    width = max(len(name) for name, _ in rows)
    lines = [labelled(name, f" {text}", width) for name, text in rows]
    if stats.signatures:
        looked_at = stats.failed_looked_at
        lines += ["", f"Causes of the newest {looked_at} failures" if looked_at > 1 else "Cause of the only failure"]
        for signature in stats.signatures:
            newest = f"({signature.newest})"
            shown = short(signature.signature, room(len(newest) + 10, plain=70))
            lines.append(f"{signature.runs:>6}  {shown}  {newest}")
    if stats.damaged:
        lines += ["", f"{counted(stats.damaged, 'header')} cannot be read: replaykit store verify"]
    return with_hint("\n".join(lines), "All figures: replaykit store stats --json")


def _runs(stats: Stats) -> Iterator[tuple[str, str]]:
    yield "runs", ": ".join(filter(None, (str(stats.runs), tally(stats.by_status))))
    yield "by age", tally(stats.by_age) or "none"
    if stats.threads:
        yield "threads", str(stats.threads)


def _space(stats: Stats, bars: bool) -> Iterator[tuple[str, str]]:
    packed = f"{shown_bytes(stats.raw_bytes)}, stored in {shown_bytes(stats.stored_bytes)}"
    if stats.ratio is not None:
        packed += f" ({stats.ratio:.1f}:1)"
    yield "logs", packed
    yield "file", f"{shown_bytes(stats.file_bytes)}, {shown_bytes(stats.free_bytes)} of it free"
    growth = f"{shown_bytes(stats.growth_bytes_per_day)} per day"
    if not bars:
        yield "growth", growth
    else:
        yield "growth", f"{growth}  {sparkline([day.stored_bytes for day in stats.days])}"
        yield "runs per day", sparkline([day.runs for day in stats.days])


def _rates(stats: Stats) -> Iterator[tuple[str, str]]:
    if stats.checkpoint_success_rate is not None:
        yield "complete", f"{_percent(stats.checkpoint_success_rate)} of runs have their whole log"
    replays = stats.replays
    some = f" (the newest {replays.looked_at})" if replays.looked_at < replays.total else ""
    ended = f"{replays.total or 'none'} in {replays.days:g} days{some}"
    if replays.success_rate is not None:
        ended += f": {_percent(replays.success_rate)} completed"
    yield "replays", "; ".join(filter(None, (ended, tally(replays.verdicts))))
    if replays.latency_p50_s is not None and replays.latency_p95_s is not None:
        yield "latency", f"p50 {replays.latency_p50_s:.2f} s, p95 {replays.latency_p95_s:.2f} s"
    forks = str(stats.forks or "none")
    if stats.divergence_rate is not None:
        forks += f": {_percent(stats.divergence_rate)} ended differently from their parent"
    yield "forks", forks


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def sparkline(values: Sequence[float]) -> str:
    """A row of bars; an empty one is a value of nothing."""
    most = max(values, default=0)
    return "".join(_BARS[min(len(_BARS) - 1, int(value / most * len(_BARS)))] if value > 0 else " " for value in values)


def stats_prometheus(stats: Stats) -> str:
    """The figures in Prometheus' text format."""
    replays, store = stats.replays, {"store": stats.store}
    families = [
        ("runs", "Runs in the store, by how they ended.", _each("status", stats.by_status)),
        ("runs_by_age", "Runs in the store, by their age.", _each("age", stats.by_age)),
        ("threads", "Threads of LangGraph in the store.", [({}, stats.threads)]),
        ("events", "Events in the store.", [({}, stats.events)]),
        (
            "store_bytes",
            "Bytes of logs as they were and as they are stored, of the file, and of what is free in it.",
            _each(
                "kind",
                {
                    "raw": stats.raw_bytes,
                    "stored": stats.stored_bytes,
                    "file": stats.file_bytes,
                    "free": stats.free_bytes,
                },
            ),
        ),
        ("store_growth_bytes_per_day", "Bytes stored a day.", [({}, stats.growth_bytes_per_day)]),
        ("checkpoint_success_ratio", "Runs whose whole log is on disk.", [({}, stats.checkpoint_success_rate)]),
        ("replays", "Replays in the window, by verdict.", _each("verdict", replays.verdicts)),
        ("replay_success_ratio", "Replays that completed.", [({}, replays.success_rate)]),
        (
            "replay_latency_seconds",
            "How long replays took.",
            [({"quantile": "0.5"}, replays.latency_p50_s), ({"quantile": "0.95"}, replays.latency_p95_s)],
        ),
        ("forks", "Forks whose parent is in the store.", [({}, stats.forks)]),
        ("fork_divergence_ratio", "Forks that ended differently from their parent.", [({}, stats.divergence_rate)]),
        (
            "failure_signatures",
            "How the newest failed runs failed.",
            [({"signature": signature.signature}, signature.runs) for signature in stats.signatures],
        ),
        ("damaged_runs", "Runs whose headers cannot be read.", [({}, stats.damaged)]),
    ]
    return "".join(line for name, text, samples in families for line in _family(name, text, samples, store))


_Samples = Iterable[tuple[dict[str, str], float | None]]


def _each(label: str, counts: dict[str, int]) -> _Samples:
    return [({label: value}, count) for value, count in counts.items()]


def _family(name: str, text: str, samples: _Samples, common: dict[str, str]) -> Iterator[str]:
    """A metric with its samples; one without a value is left out."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    yield f"# HELP replaykit_{name} {text}\n# TYPE replaykit_{name} gauge\n"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in {**common, **labels}.items())
        yield f"replaykit_{name}{{{pairs}}} {value!r}\n"


def _escaped(value: str) -> str:
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
