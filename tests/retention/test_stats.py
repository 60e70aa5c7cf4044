"""The figures of a store: each against what was put in, and the metrics against the format's own rules."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.model.events import ErrorInfo
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.report.stats import sparkline, stats_prometheus, stats_text
from replaykit.retention.policy import DAY_S
from replaykit.retention.stats import Stats, gather_stats, quantile, replays_since
from replaykit.testing import sample_call

NOW = 1_800_000_000.0


def add(store: rk.Store, run_id: str, days: float = 0.5, status: RunStatus = RunStatus.SUCCESS, **more: Any) -> None:
    start = NOW - days * DAY_S
    events = tuple(sample_call(seq, "x" * 500) for seq in range(4))
    store.add(TraceRun(id=run_id, status=status, started_at=start, ended_at=start + 1, events=events, **more))


def evidence(root: Path, name: str, **result: Any) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "result.json").write_text(json.dumps({"case_id": "c", "run": {"id": "r"}, **result}))


def stamp(days: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(NOW - days * DAY_S))


def figures(store: rk.Store, root: Path = Path("runs")) -> Stats:
    return gather_stats(store, root, now=NOW)


def test_runs_are_counted_by_status_and_age(store: rk.Store) -> None:
    for number, days in enumerate((0.5, 3, 20, 60, 500)):
        add(store, f"ok-{number}", days)
    add(store, "bad", 3, RunStatus.ERROR)
    store.begin(RunHeader(id="alive", started_at=NOW))
    with rk.Store.open(store.path) as other:
        other.begin(RunHeader(id="dead", started_at=NOW))
    store.share("thread").turn()
    shared = store.share("thread")
    with shared.turn():
        shared.write_header(RunHeader(id="thread", origin=Origin(format="langgraph")))

    stats = figures(store)

    assert (stats.runs, stats.threads, stats.events) == (8, 1, 24)
    assert stats.by_status == {"abandoned": 1, "error": 1, "running": 1, "success": 5}
    assert stats.by_age == {"under 1 day": 3, "under 7 days": 2, "under 30 days": 1, "under 90 days": 1, "older": 1}


def test_bytes_are_told_as_they_were_and_as_they_are(store: rk.Store) -> None:
    large = "0123456789abcdef" * 20_000
    store.add(TraceRun(id="a", status=RunStatus.SUCCESS, started_at=NOW - 1, events=(sample_call(0, large),)))

    stats = figures(store)

    assert stats.raw_bytes > 320_000 > 20_000 > stats.stored_bytes
    assert stats.ratio == round(stats.raw_bytes / stats.stored_bytes, 2)
    assert stats.file_bytes >= stats.stored_bytes


def test_growth_is_what_the_last_days_brought(store: rk.Store) -> None:
    add(store, "today")
    add(store, "yesterday", 1.5, RunStatus.ERROR)
    add(store, "long ago", 40)

    stats = figures(store)

    assert [(day.runs, day.failed) for day in stats.days[-3:]] == [(0, 0), (1, 1), (1, 0)]
    assert len(stats.days) == 14
    assert stats.growth_bytes_per_day == sum(day.stored_bytes for day in stats.days) / 14 > 0


def test_a_run_counts_as_checkpointed_when_its_whole_log_is_there(store: rk.Store) -> None:
    for name in "abcd":
        add(store, name)
    store.query("DELETE FROM packs WHERE key = (SELECT max(key) FROM packs)")
    assert figures(store).checkpoint_success_rate == 0.75


def test_forks_diverge_when_they_end_otherwise(store: rk.Store) -> None:
    add(store, "parent", output_json=raw("yes"))
    for name, output in (("same", "yes"), ("other", "no")):
        add(store, name, output_json=raw(output), origin=Origin(kind="forked", run="parent", step="s"))
    add(store, "failed", status=RunStatus.ERROR, origin=Origin(kind="forked", run="parent", step="s"))
    add(store, "orphan", origin=Origin(kind="forked", run="gone", step="s"))

    stats = figures(store)

    assert (stats.forks, stats.forks_diverged, stats.divergence_rate) == (3, 2, 2 / 3)


def test_the_ways_in_which_runs_fail_are_ranked(store: rk.Store) -> None:
    for number, message in enumerate(["the database is locked"] * 3 + ["no such customer at all"]):
        error = ErrorInfo(type="Boom", message=message)
        add(store, f"bad-{number}", 1 - number / 10, RunStatus.ERROR, error=error, output_json=raw("x"))

    stats = figures(store)

    found = [(one.signature, one.runs, one.newest) for one in stats.signatures if one.signature.startswith("run.error")]
    assert found == [
        ("run.error: the database is locked", 3, "bad-2"),
        ("run.error: no such customer at all", 1, "bad-3"),
    ]
    assert stats.failed_looked_at == 4


def test_no_event_is_decoded_to_count(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        add(store, f"ok-{number}")

    def refused(body: bytes) -> None:
        raise AssertionError("an event was decoded")

    monkeypatch.setattr("replaykit.store.sqlite.decode_events", refused)
    monkeypatch.setattr("replaykit.store.sqlite.decode_event", refused)
    assert figures(store).events == 20


def test_a_large_failed_run_is_not_looked_at(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.retention.stats._MOST_RAW", 100)
    add(store, "bad", status=RunStatus.ERROR)
    assert figures(store).failed_looked_at == 0


def test_replays_are_read_from_their_evidence(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for number, (verdict, seconds) in enumerate([("fixed", 1.0), ("fixed", 2.0), ("reproduced", 3.0), ("error", 9.0)]):
        evidence(root, f"{stamp(number + 1)}-case", verdict=verdict, duration_s=seconds)
    evidence(root, f"{stamp(40)}-old", verdict="error", duration_s=1)
    (root / f"{stamp(1)}-under-way").mkdir()
    evidence(root, f"{stamp(2)}-damaged", verdict="fixed")
    (root / f"{stamp(2)}-damaged" / "result.json").write_text("{")
    (root / "README.txt").write_text("not a replay")

    found = replays_since(root, days=30, now=NOW)

    assert (found.total, found.looked_at) == (6, 4)
    assert found.verdicts == {"fixed": 2, "inconclusive": 1, "reproduced": 1}
    assert (found.success_rate, found.latency_p50_s, found.latency_p95_s) == (0.75, 2.0, 9.0)
    assert found.latency_sum_s == 15.0


def test_replays_of_ci_that_passed_are_read_from_its_results(tmp_path: Path) -> None:
    evidence(tmp_path / "runs", f"{stamp(1)}-case", verdict="broken", duration_s=1.0)
    results = tmp_path / "ci"
    results.mkdir()
    items = [
        {"part": "replay", "verdict": "fixed", "duration_s": 2.0},
        {"part": "replay", "verdict": "broken", "duration_s": 1.0, "evidence": "runs/x"},
        {"part": "chaos", "verdict": "held", "duration_s": 9.0},
    ]
    lines = [{"kind": "ci-results"}, *({"item": item} for item in items), {"end": 3}]
    (results / f"{stamp(1)}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n{")
    (results / f"{stamp(40)}.jsonl").write_text(json.dumps({"item": items[0]}))

    found = replays_since(tmp_path / "runs", days=30, now=NOW, ci_results=results)

    assert (found.total, found.looked_at) == (2, 2)
    assert found.verdicts == {"broken": 1, "fixed": 1}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.95, 10), (0.9, 9), (0.01, 1), (1.0, 10)])
def test_a_quantile_is_one_of_the_values(share: float, expected: int) -> None:
    assert quantile([float(n) for n in range(1, 11)], share) == expected


def test_an_empty_store_has_no_rates(store: rk.Store) -> None:
    stats = figures(store)
    assert (stats.runs, stats.ratio, stats.checkpoint_success_rate, stats.divergence_rate) == (0, None, None, None)
    assert "none in 30 days" in stats_text(stats, bars=True)
    assert "nan" not in stats_prometheus(stats).lower()


def test_damage_is_counted_and_nothing_is_guessed(store: rk.Store) -> None:
    add(store, "a", status=RunStatus.ERROR)
    add(store, "b", status=RunStatus.ERROR)
    store.query("UPDATE runs SET header = substr(header, 1, 9) WHERE id = 'a'")
    store.query("UPDATE packs SET data = substr(data, 1, 9)")

    stats = figures(store)

    assert (stats.runs, stats.damaged, stats.failed_looked_at) == (1, 1, 0)
    assert "1 header cannot be read" in stats_text(stats)


LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{({LABEL}(?:,{LABEL})*)\}} (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def parsed(text: str) -> dict[str, dict[str, float]]:
    """Prometheus' text format, by its rules: one HELP and TYPE before the samples of a metric, which stand together."""
    assert text.endswith("\n")
    found: dict[str, dict[str, float]] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in found, "the samples of a metric stand together"
            found[current] = {}
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {current} gauge"
            assert not found[current]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == current
            assert sample[2] not in found[current], "a label set occurs once"
            found[current][sample[2]] = float(sample[3])
    return found


def test_metrics_keep_the_rules_of_their_format(store: rk.Store, tmp_path: Path) -> None:
    add(store, "ok")
    error = ErrorInfo(type="Boom", message='quote " backslash \\ and\nnewline')
    add(store, "bad", 0.4, RunStatus.ERROR, error=error)
    evidence(tmp_path / "runs", f"{stamp(1)}-case", verdict="fixed", duration_s=0.25)

    metrics = parsed(stats_prometheus(figures(store, tmp_path / "runs")))

    where = f'store="{store.path}"'
    assert metrics["replaykit_runs"] == {f'{where},status="error"': 1, f'{where},status="success"': 1}
    assert metrics["replaykit_replay_latency_seconds"][f'{where},quantile="0.95"'] == 0.25
    assert metrics["replaykit_replay_success_ratio"] == {where: 1.0}
    assert any("quote" in labels for labels in metrics["replaykit_failure_signatures"])
    assert metrics["replaykit_store_bytes"].keys() == {f'{where},kind="{k}"' for k in ("raw", "stored", "file", "free")}


def test_a_sparkline_has_a_bar_for_each_value() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▂▅█"
    assert sparkline([0, 0]) == "  "
