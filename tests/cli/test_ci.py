"""`ci` when things go wrong around it: stopped, cancelled, twice at once, no agent, no room for the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from tests.cli.conftest import Ran
from tests.matrix import sampled

AGENT = """
import os, time
from pathlib import Path

def answer(question):
    return "fine"

def hangs(question):
    Path(f"under-way-{os.getpid()}").touch()
    time.sleep(1000)
"""


def project(agent: str | None = "answer", **parts: Any) -> None:
    Path("asked.py").write_text(AGENT)
    sessions = [{"id": name, "input": "x", "contract": "default"} for name in ("a", "b")]
    value = {
        "replaykit": 1,
        **({} if agent is None else {"agent": {"type": "python", "endpoint": f"asked:{agent}", "timeout": 60000}}),
        "contract": {"name": "default", "invariants": [{"id": "answers", "type": "output_not_empty"}]},
        "replays": {"sessions": sessions},
        **parts,
    }
    Path("replaykit.yaml").write_text(json.dumps(value))


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `ci` in a process of its own."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "replaykit", "ci", *arguments]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def under_way(count: int) -> list[int]:
    """The processes of agents that hang, once there are as many."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        found = [int(file.name.removeprefix("under-way-")) for file in Path().glob("under-way-*")]
        if len(found) == count:
            return found
        time.sleep(0.02)
    raise AssertionError("the agent was not asked")


def has_ended(pid: int) -> bool:
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(os.name != "posix", reason="signals")
@sampled("jobs", ["1", "2"], count=1, start=1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_that_is_stopped_says_that_there_is_no_report_and_leaves_nobody_behind(
    started: Callable[..., subprocess.Popen[str]], jobs: str, number: signal.Signals, code: int
) -> None:
    project("hangs")
    Path("reports").mkdir()
    Path("reports/ci.md").write_text("of yesterday")
    ci = started("-o", "reports", "-j", jobs)
    agents = under_way(int(jobs))

    ci.send_signal(number)
    out, err = ci.communicate(timeout=60)

    assert (ci.returncode, out) == (code, "")
    assert "no verdict, no report\nreports/ci.md is from an earlier run\n" in err
    assert [file.name for file in Path("reports").iterdir()] == ["ci.md"]
    assert all(has_ended(pid) for pid in agents)


def test_two_at_once_in_one_directory_give_whole_reports_and_their_own_results(
    started: Callable[..., subprocess.Popen[str]],
) -> None:
    project()

    both = [started("-o", "reports", "--json"), started("-o", "reports", "--json")]
    told = [json.loads(ci.communicate(timeout=60)[0]) for ci in both]

    assert [ci.returncode for ci in both] == [0, 0]
    assert not Path(".replaykit/runs").exists()
    assert len(list(Path(".replaykit/ci").iterdir())) == 2
    assert all(len(document["items"]) == 2 for document in told)
    assert sorted(file.name for file in Path("reports").iterdir()) == ["ci.html", "ci.json", "ci.md", "junit.xml"]
    assert json.loads(Path("reports/ci.json").read_text()) in told
    assert Xml.parse("reports/junit.xml").getroot().get("tests") == "2"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device without room")
def test_a_report_without_room_is_an_error_with_its_path(replaykit: Callable[..., Ran]) -> None:
    project()

    ran = replaykit("ci", "--junit", "/dev/full", "--markdown", "ci.md")

    assert ran.code == 3
    assert "error: /dev/full cannot be written: No space left on device" in ran.err
    assert "passed: score 100" in ran.out
    assert "wrote ci.md" in ran.err


def test_annotations_come_even_where_a_report_cannot_be_written(
    replaykit: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    project("missing")
    Path("file").touch()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    ran = replaykit("ci", "--junit", "file/junit.xml")

    assert ran.code == 3
    assert ran.err.count("::error ") == 2


def test_a_configuration_without_an_agent_is_told_what_to_add(replaykit: Callable[..., Ran]) -> None:
    project(agent=None)

    ran = replaykit("ci")

    assert ran.code == 2
    assert "replaykit.yaml names no agent" in ran.err


@pytest.mark.parametrize("configured", [None, "missing"], ids=["none", "another"])
def test_a_candidate_on_the_command_line_takes_the_place_of_the_configured_agent(
    replaykit: Callable[..., Ran], configured: str | None
) -> None:
    project(agent=configured)

    ran = replaykit("ci", "--agent", "asked:answer")

    assert ran.code == 0, ran.out + ran.err


def test_an_agent_that_cannot_be_loaded_is_told_once(replaykit: Callable[..., Ran]) -> None:
    project("missing", inputs=["x"], mutations={"count": 3})

    ran = replaykit("ci")

    assert ran.code == 3
    assert ran.out.count("has no attribute 'missing'") == 1
    assert "also     5 more with the same cause\n             mutation" in ran.out


def test_two_sessions_of_one_id_are_wrong_files_and_the_others_are_run(replaykit: Callable[..., Ran]) -> None:
    sessions = [{"id": name, "input": "x", "contract": "default"} for name in ("a", "b", "a")]
    project(replays={"sessions": sessions})

    ran = replaykit("ci", "--json")

    items = {item["id"]: item for item in ran.json["items"]}
    assert ran.code == ran.json["exit_code"] == 2
    assert {name: item["outcome"] for name, item in items.items()} == {"a": "error", "b": "passed", "a (2)": "error"}
    assert "the id 'a' is also that of replaykit.yaml" in items["a"]["reason"]
    assert replaykit("replay").code == 2


def test_init_and_a_session_are_enough(replaykit: Callable[..., Ran]) -> None:
    replaykit("init")
    Path("asked.py").write_text(AGENT)
    Path("replays").mkdir()
    Path("replays/a.yaml").write_text("id: a\ninput: x\ncontract: default\n")
    text = Path("replaykit.yaml").read_text()
    Path("replaykit.yaml").write_text(
        text
        + "agent: {type: python, endpoint: 'asked:answer'}\n"
        + "contract: {name: default, invariants: [{id: answers, type: output_not_empty}]}\n"
        + "replays: {sessions: [{file: replays/a.yaml}]}\n"
    )

    ran = replaykit("ci")

    assert (ran.code, ran.out.splitlines()[-1]) == (0, "passed: score 100; 1 passed")
    assert "note: 'cases' contains no case and no session\n" in ran.err


def test_a_green_without_a_red_is_named_and_fails_where_a_proof_is_required(replaykit: Callable[..., Ran]) -> None:
    project()

    plain = replaykit("ci")
    strict = replaykit("ci", "--require-proof", "--json", "--junit", "junit.xml")

    assert (plain.code, strict.code) == (0, 1)
    assert "note: green, but never seen red in their current form: a, b" in plain.out
    items = strict.json["items"]
    assert [(item["outcome"], item["verdict"]) for item in items if item["part"] == "replay"] == [
        ("failed", "unproven")
    ] * 2
    assert "fixed, but never seen red" in Path("junit.xml").read_text()
    assert items[-1]["command"].startswith("replaykit prove -c replaykit.yaml")


def test_a_proven_case_passes_where_a_proof_is_required(replaykit: Callable[..., Ran], case: Path) -> None:
    Path("both.py").write_text("def bad(q): raise RuntimeError(q)\ndef good(q): return 'fine'\n")
    config = {"replaykit": 1, "agent": {"type": "python", "endpoint": "both:good"}, "cases": ["cases"]}
    Path("replaykit.yaml").write_text(json.dumps(config))

    assert replaykit("ci", "--require-proof").code == 1
    assert replaykit("prove", case, "--bad", "both:bad").code == 0
    ran = replaykit("ci", "--require-proof")

    assert ran.code == 0
    assert "never seen red" not in ran.out


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_agent_behind_a_cache_gets_the_same_verdicts_from_any_number_of_workers(
    replaykit: Callable[..., Ran], jobs: int
) -> None:
    project("cached")
    Path("asked.py").write_text(
        "from functools import lru_cache\nimport replaykit as rk\n"
        "@rk.tool\ndef look(q): raise AssertionError('done for real')\n"
        "@lru_cache\ndef cached(q): return look(q)\n"
    )
    answers = [{"tool": "look", "response": "fine"}]
    sessions = [{"id": n, "input": "x", "contract": "default", "tool_responses": answers} for n in ("a", "b", "c")]
    value = json.loads(Path("replaykit.yaml").read_text())
    Path("replaykit.yaml").write_text(json.dumps({**value, "replays": {"sessions": sessions}}))

    ran = replaykit("ci", "--json", "-j", jobs)

    assert [item["verdict"] for item in ran.json["items"]] == ["fixed"] * 3, ran.json
