"""W11, W12, W13, W14, W15, W16, W19: contracts by path, reset, speed, and agents in Python that misbehave."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

Run = Callable[..., Any]
SAFETY = {"name": "Safety", "invariants": [{"id": "answers", "type": "output_not_empty"}]}


def test_w11_a_contract_by_path_is_relative_to_the_configuration(files: Any, replaykit: Run) -> None:
    files.write("conf/contracts/safety.yaml", json.dumps(SAFETY))
    files.write("conf/agents.py", "def echo(question):\n    return question\n")
    files.config("agents:echo", name="conf/flakestorm.yaml", contract=None)
    session = files.session("replays/deep/s.yaml", contract="./contracts/safety.yaml")

    ran = replaykit("replay", session, "-c", "conf/flakestorm.yaml", "--json")

    assert (ran.code, [finding["id"] for finding in ran.result["desired"]]) == (0, ["answers"])


def test_w11_a_name_goes_before_a_path(files: Any, replaykit: Run) -> None:
    files.write("Safety", json.dumps({"name": "Safety", "invariants": [{"id": "of-file", "type": "completes"}]}))
    files.agents("def echo(question):\n    return question\n")
    files.config("agents:echo", contract=SAFETY)

    ran = replaykit("replay", files.session(contract="Safety"), "--json")

    assert [finding["id"] for finding in ran.result["desired"]] == ["answers"]


STATEFUL = """
    seen = []
    def stateful(question):
        seen.append(question)
        return "unavailable" if len(seen) == 1 else "$5"
    def forget():
        seen.clear()
"""


@pytest.mark.parametrize(("reset", "verdicts"), [("agents:forget", {"fixed"}), (None, {"fixed"})])
def test_w12_the_agent_is_reset_before_each_case(
    files: Any, replaykit: Run, reset: str | None, verdicts: set[str]
) -> None:
    files.agents(STATEFUL)
    files.config("agents:stateful", agent={"reset_function": reset})
    for name in "abc":
        files.session(f"replays/{name}.yaml")

    ran = replaykit("replay", "replays", "-j", 1, "--json")

    assert {result["verdict"] for result in ran.results} == verdicts


def test_w12_a_reset_that_fails_is_an_error_of_that_case(files: Any, replaykit: Run) -> None:
    files.agents("def broken():\n    raise RuntimeError('no way back')\n")
    files.config(agent={"reset_function": "agents:broken"})

    ran = replaykit("replay", files.session(), "--json")

    assert ran.code == 3
    assert "could not be reset: RuntimeError: no way back" in ran.result["reason"]


@pytest.mark.exhaustive
def test_w13_chaos_of_the_configuration_stays_out_of_replays(files: Any, replaykit: Run) -> None:
    files.agents("""
        def echo(question):
            return web_search(question)
    """)
    files.config("agents:echo", chaos={"tool_faults": [{"tool": "*", "mode": "error", "error_code": 500}]})
    session = files.session(tool_responses=[{"tool": "web_search", "response": "unavailable"}])

    assert replaykit("replay", session).code == 0


def test_w14_a_directory_of_sessions_and_cases_is_one_suite(files: Any, replaykit: Run) -> None:
    files.write("suite/replays/incident.yaml", files.incident)
    sides = {"observed": [{"status_is": "error"}], "desired": [{"status_is": "success"}]}
    files.write(
        "suite/cases/hello/case.yaml",
        json.dumps({"replaykit": 1, "id": "hello", "scenario": {"input": "x"}, **sides}),
    )
    files.agents("""
        def both(question):
            return question if question == "x" else honest(question)
    """)
    files.config("agents:both")

    ran = replaykit("replay", "suite", "--json")

    assert ran.code == 0
    assert [result["case_id"] for result in ran.results] == ["hello", "incident-2026-02-15"]
    assert all(Path(result["directory"], "result.json").is_file() for result in ran.results)


@pytest.mark.exhaustive
def test_w15_cases_run_side_by_side(files: Any, replaykit: Run) -> None:
    """Two agents that wait for one another: alone, neither would end in time."""
    files.agents("""
        def meeting(question):
            Path(question).touch()
            other = {"a": "b", "b": "a"}[question]
            while not Path(other).exists():
                time.sleep(0.01)
            return "unavailable"
    """)
    files.config("agents:meeting", advanced={"concurrency": 2})
    for name in "ab":
        files.session(f"replays/{name}.yaml", input=name)

    assert replaykit("replay", "replays").code == 0


def test_w16_a_timeout_holds_and_the_next_case_runs_in_a_fresh_process(files: Any, replaykit: Run) -> None:
    files.agents("""
        def sleepy(question):
            if question == "sleep":
                try:
                    web_search("before")
                except rk.ToolError:
                    pass
                time.sleep(60)
            return f"unavailable {os.getpid()}"
    """)
    files.config("agents:sleepy", agent={"timeout": 700})
    files.session("replays/a.yaml", input="x")
    files.session("replays/b.yaml", input="sleep", tool_responses=[{"tool": "web_search", "status": 500}])
    files.session("replays/c.yaml", input="y")
    began = time.monotonic()

    ran = replaykit("replay", "replays", "-j", 1, "--json")

    assert time.monotonic() - began < 30
    assert [result["verdict"] for result in ran.results] == ["fixed", "broken", "fixed"]
    runs = [result["run"] for result in ran.results]
    assert runs[1]["status"] == "timeout"
    assert [event["name"] for event in runs[1]["events"]] == ["web_search"]
    assert runs[0]["output"] != runs[2]["output"]


@sampled(
    ("ending", "verdict", "told"),
    [
        ("sys.exit(3)", "broken", "SystemExit"),
        ("os._exit(3)", "inconclusive", "exit code 3"),
        ("os.kill(os.getpid(), 9)", "inconclusive", "signal 9"),
        ("raise MemoryError('full')", "broken", "MemoryError"),
    ],
    count=1,
)
def test_w16_an_agent_that_ends_its_process_is_one_failed_case(
    files: Any, replaykit: Run, ending: str, verdict: str, told: str
) -> None:
    files.agents(f"""
        def ending(question):
            if question == "end":
                print("last words", file=sys.stderr)
                {ending}
            return "unavailable"
    """)
    files.config("agents:ending")
    files.session("replays/a.yaml", input="end")
    files.session("replays/b.yaml", input="go on")

    ran = replaykit("replay", "replays", "-j", 1, "--json")

    assert [result["verdict"] for result in ran.results] == [verdict, "fixed"]
    assert told in json.dumps(ran.results[0])
    assert "last words" in Path(ran.results[0]["directory"], "stderr.log").read_text()


def test_w16_an_agent_that_returns_nothing_has_no_output(files: Any, replaykit: Run) -> None:
    files.agents("def nothing(question):\n    return None\n")
    files.config("agents:nothing", contract={"name": "C", "invariants": [{"id": "x", "type": "output_not_empty"}]})

    ran = replaykit("replay", files.session(contract="C"), "--json")

    assert (ran.code, ran.result["verdict"]) == (1, "broken")
    assert "output" not in ran.result["run"]


def test_w16_the_configurations_directory_is_where_agents_are_imported_from(files: Any, replaykit: Run) -> None:
    files.write("deep/own_agent.py", "import words\ndef answer(question):\n    return words.SAID\n")
    files.write("deep/words.py", "SAID = 'unavailable'\n")
    files.config("own_agent:answer", name="deep/flakestorm.yaml")

    assert "PYTHONPATH" not in os.environ or "deep" not in os.environ["PYTHONPATH"]
    assert replaykit("replay", files.session(), "-c", "deep/flakestorm.yaml").code == 0


def test_w19_a_configuration_with_an_agent_and_a_contract_is_enough_and_other_blocks_are_told(
    files: Any, replaykit: Run
) -> None:
    session = files.write("replays/incident_001.yaml", files.incident)
    assert replaykit("replay", session).err.count("note:") == 0

    blocks = {"model": {"provider": "ollama"}, "invariants": [{"type": "x"}], "output": {}}
    files.config(**blocks)
    ran = replaykit("replay", session)

    assert ran.code == 0
    for key in blocks:
        assert f"`{key}` is not read" in ran.err
