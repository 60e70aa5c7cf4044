"""prune, keep, stats, backup, restore and verify --repair, as people and programs type them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.testing import sample_call

DAY_S = 86_400
Command = Callable[..., Any]
STORE = Path(".replaykit/store.db")


@pytest.fixture
def filled(own_directory: Path) -> Path:
    """A store with an old run that succeeded, one that failed, and a young one."""
    with rk.Store.open(STORE) as store:
        for name, days, status in (("old", 20, "success"), ("bad", 20, "error"), ("young", 1, "success")):
            end = time.time() - days * DAY_S
            error = ErrorInfo(type="Boom", message="the database is locked") if status == "error" else None
            store.add(
                TraceRun(
                    id=f"run-{name}",
                    name=name,
                    status=RunStatus(status),
                    started_at=end - 1,
                    ended_at=end,
                    error=error,
                    events=(sample_call(0, "x" * 300),),
                )
            )
    return STORE


def ids() -> set[str]:
    with rk.Store.open(STORE, read_only=True) as store:
        return {header.id.removeprefix("run-") for header in store.headers()}


def test_prune_says_what_would_go_and_then_lets_it_go(replaykit: Command, filled: Path) -> None:
    told = replaykit("store", "prune", "--dry-run")
    assert told.code == 0
    assert "run-old  old   success" in told.out
    assert "1 run: successful and older than 14 days" in told.out
    assert "1 run would be deleted" in told.out
    assert told.out.endswith("2 would stay. To delete: replaykit store prune\n")
    assert ids() == {"old", "bad", "young"}

    done = replaykit("store", "prune")

    assert done.code == 0
    assert "1 run deleted" in done.out
    assert ids() == {"bad", "young"}
    assert replaykit("store", "prune").out.startswith("0 runs deleted")


def test_prune_tells_programs_everything(replaykit: Command, filled: Path) -> None:
    told = replaykit("store", "prune", "--dry-run", "--json").json
    assert told["dry_run"] is True
    (run,) = told["runs"]
    assert {"run": "run-old", "status": "success", "why": "successful and older than 14 days"}.items() <= run.items()
    assert run["size_bytes"] == told["freed_bytes"] > 0
    done = replaykit("store", "prune", "--json").json
    assert (done["dry_run"], done["kept"]) == (False, 2)
    assert done["file_bytes"] <= done["file_bytes_before"]


def test_prune_follows_the_configuration(replaykit: Command, filled: Path) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {successful: 30 days, failed: 2 weeks}\n")
    replaykit("store", "prune")
    assert ids() == {"old", "young"}


def test_prune_leaves_what_a_case_names(replaykit: Command, filled: Path, make_case: Command) -> None:
    make_case("billing", source={"run": "run-old"})
    done = replaykit("store", "prune")
    assert "1 old run stays: named by a case" in done.out
    assert "old" in ids()
    Path("elsewhere").mkdir()
    Path("cases/billing").rename("elsewhere/billing")
    Path("replaykit.yaml").write_text("replaykit: 1\ncases: [elsewhere]\n")
    replaykit("store", "prune")
    assert "old" in ids()


def test_prune_takes_nothing_while_a_case_cannot_be_read(replaykit: Command, filled: Path) -> None:
    Path("cases/broken").mkdir(parents=True)
    Path("cases/broken/case.yaml").write_text("source: {run: [")
    done = replaykit("store", "prune")
    assert done.code == 2
    assert "cases/broken/case.yaml:1" in done.err
    assert ids() == {"old", "bad", "young"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("retention: {succesful: 3 days}", "replaykit.yaml:2: unknown key 'succesful' in retention; did you mean"),
        ("retention: {failed: 3 dyas}", "replaykit.yaml:2: retention.failed: no unit 'dyas' of time; did you mean"),
        ("retention: {failed: soon}", "retention.failed: expected a duration such as `14 days` or `forever`"),
        ("retention: {max_size: 3 MX}", "retention.max_size: no unit 'MX' of size"),
        ("retention: {failed: -0.5}", "retention.failed: expected a number of at least 0"),
        ("retention: {max_runs: 1.5}", "retention.max_runs: expected a whole number"),
        ("retention: {sample: 1.5}", "retention.sample: expected a number"),
        ("retention: {auto: yes please}", "retention.auto: expected true or false"),
        ("retention:\n  tags:\n    x: {max_run: 1}", "replaykit.yaml:4: unknown key 'max_run' in retention.tags.x"),
    ],
)
def test_a_wrong_policy_is_named_with_its_line_and_nothing_goes(
    replaykit: Command, filled: Path, said: str, error: str
) -> None:
    Path("replaykit.yaml").write_text(f"replaykit: 1\n{said}\n")
    done = replaykit("store", "prune")
    assert done.code == 2
    assert error in done.err
    assert ids() == {"old", "bad", "young"}


def test_a_policy_is_read_as_it_is_meant(own_directory: Path) -> None:
    from replaykit.retention.policy import FOREVER, RetentionLimits, RetentionPolicy, RetentionRule

    Path("replaykit.yaml").write_text(
        """replaykit: 1
retention:
  successful: 36 hours
  failed: forever
  max_runs: 5000
  max_size: 1.5 GB
  tags: {release: forever, experiment: {successful: 2, max_size: 10 MiB}}
  agents: {billing: {failed: 1 week}}
  threads: 30 days
  sample: 0.1
  auto: true
"""
    )
    assert rk.load_project("replaykit.yaml").retention == RetentionPolicy(
        successful_s=1.5 * DAY_S,
        failed_s=FOREVER,
        limits=RetentionLimits(max_runs=5000, max_bytes=1_500_000_000),
        tags={
            "release": RetentionRule(successful_s=FOREVER, failed_s=FOREVER),
            "experiment": RetentionRule(successful_s=2 * DAY_S, limits=RetentionLimits(max_bytes=10 * 1024 * 1024)),
        },
        agents={"billing": RetentionRule(failed_s=7 * DAY_S)},
        threads_s=30 * DAY_S,
        sample=0.1,
        auto=True,
    )


def test_prune_auto_does_nothing_unless_it_is_on(replaykit: Command, filled: Path) -> None:
    assert replaykit("store", "prune", "--auto") == (0, "", "")
    assert "old" in ids()
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {auto: true}\n")
    replaykit("store", "prune", "--auto")
    assert "old" not in ids()


@pytest.mark.parametrize("verb", [["prune"], ["prune", "--dry-run"], ["stats"], ["keep", "x"], ["backup", "b.db"]])
def test_where_there_is_no_store_none_is_made(replaykit: Command, verb: list[str]) -> None:
    done = replaykit("store", *verb)
    assert done.code == 3
    assert "there is no store at .replaykit/store.db" in done.err
    assert not STORE.exists()


def test_kept_runs_stay_until_that_is_undone(replaykit: Command, filled: Path) -> None:
    assert replaykit("store", "keep", "run-old", "young") == (0, "run-old  stays\nrun-young  stays\n", "")
    assert "1 old run stays: tagged 'keep'" in replaykit("store", "prune").out
    assert replaykit("store", "keep", "old", "--undo", "--json").json == {
        "replaykit": 1,
        "runs": [{"id": "run-old", "tags": []}],
    }
    replaykit("store", "prune")
    assert ids() == {"bad", "young"}


def test_keep_takes_all_or_none(replaykit: Command, filled: Path) -> None:
    done = replaykit("store", "keep", "run-old", "nobody")
    assert done.code == 3
    assert "no run 'nobody'" in done.err
    with rk.Store.open(STORE) as store:
        assert store.header("run-old").tags == ()


def test_a_run_that_is_being_recorded_needs_no_keeping(replaykit: Command, filled: Path) -> None:
    with rk.record("now", store=STORE) as run:
        done = replaykit("store", "keep", run.id)
    assert done.code == 2
    assert f"When it has ended: replaykit store keep {run.id}" in done.err
    assert replaykit("store", "keep", run.id).code == 0


def test_stats_are_text_json_or_metrics(replaykit: Command, filled: Path) -> None:
    text = replaykit("store", "stats")
    assert text.code == 0
    assert "3: 1 error, 2 success" in text.out
    assert "run.error: the database is locked  (run-bad)" in text.out
    told = replaykit("store", "stats", "--json").json
    assert (told["runs"], told["by_status"]) == (3, {"error": 1, "success": 2})
    metrics = replaykit("store", "stats", "--prometheus").out
    assert 'replaykit_runs{store=".replaykit/store.db",status="success"} 2\n' in metrics
    assert replaykit("store", "stats", "--prometheus", "--json").code == 2


def test_backup_and_restore(replaykit: Command, filled: Path) -> None:
    done = replaykit("store", "backup", "copy.db")
    assert done.code == 0
    assert done.out.startswith("copy.db: 3 runs, ")
    assert replaykit("store", "backup", "copy.db").code == 2
    assert replaykit("store", "backup", "nowhere/copy.db").code == 2
    replaykit("store", "prune")
    refused = replaykit("store", "restore", "copy.db")
    assert refused.code == 2
    assert "replaykit store restore copy.db --force" in refused.err
    assert replaykit("store", "restore", "copy.db", "--force", "--json").json["runs"] == 3
    assert ids() == {"old", "bad", "young"}


def test_repair_saves_what_is_whole_and_lists_what_is_lost(replaykit: Command, filled: Path) -> None:
    with rk.Store.open(STORE) as store:
        number = store.number_of("run-bad")
        store.query("UPDATE packs SET data = substr(data, 1, 40) WHERE key >> 32 = ?", number)
    before = STORE.read_bytes()

    done = replaykit("store", "verify", "--repair")

    assert done.code == 3
    assert "lost  run run-bad, event 0: damaged\n" in done.out
    assert "3 runs with 2 events saved in .replaykit/store-salvaged.db" in done.out
    assert STORE.read_bytes() == before
    assert replaykit("store", "verify", "--repair").code == 2  # the file is there already
    assert replaykit("store", "verify", "--store", ".replaykit/store-salvaged.db").code == 0
    replaykit(*done.out.splitlines()[-1].partition("replaykit ")[2].split())
    assert replaykit("store", "verify").code == 0
    assert ids() == {"old", "bad", "young"}


def test_repair_of_a_whole_store_loses_nothing(replaykit: Command, filled: Path) -> None:
    told = replaykit("store", "verify", "--repair", "--out", "new.db", "--json").json
    assert told == {"replaykit": 1, "store": "new.db", "runs": 3, "events": 3, "lost": []}


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(5000), bytes(9000)])
def test_repair_of_what_holds_nothing_gives_an_empty_store_and_no_traceback(
    replaykit: Command, own_directory: Path, content: bytes
) -> None:
    Path("s.db").write_bytes(content)
    done = replaykit("store", "verify", "--repair", "--store", "s.db", "--json")
    assert json.loads(done.out)["runs"] == 0
    assert done.err == ""
    assert Path("s.db").read_bytes() == content


def test_options_that_do_not_go_together_are_refused(replaykit: Command, filled: Path) -> None:
    assert replaykit("store", "verify", "--out", "x.db").code == 2
    assert replaykit("store", "prune", "--compact", "--dry-run").code == 2
    assert replaykit("store", "verify", "--repair", "--out", "nowhere/x.db").code == 2


def test_a_recorded_program_that_succeeds_may_leave_nothing(replaykit: Command, spawned: Command) -> None:
    Path("agent.py").write_text("import sys; sys.exit(int(sys.argv[1]))")
    dropped = spawned("record", "--sample", "0", "--no-proxy", "--json", "--", "python", "agent.py", "0")
    failed = spawned("record", "--sample", "0", "--no-proxy", "--json", "--", "python", "agent.py", "1")

    assert (dropped.code, failed.code) == (0, 1)
    assert "not kept: only a share of successful runs is" in dropped.err
    assert dropped.json["runs"] == []
    assert {failed.json["runs"][0]["id"]} == ids()
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {sample: 0}\n")
    assert spawned("record", "--no-proxy", "--json", "--", "python", "agent.py", "0").json["runs"] == []
    assert spawned("record", "--sample", "2", "--", "python", "agent.py", "0").code == 2
