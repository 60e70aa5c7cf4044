"""W2, W4, W5: what fails, is missing or asks nothing never ends with 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.matrix import sampled

Run = Callable[..., Any]


def test_w02_a_replay_that_fails_ends_with_1(files: Any, replaykit: Run) -> None:
    files.config("agents:inventive")
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("replay", session)

    assert ran.code == 1
    assert "BROKEN" in ran.out


def test_w02_a_directory_in_which_one_fails_ends_with_1(files: Any, replaykit: Run) -> None:
    files.agents("""
        def picky(question):
            return "unavailable" if question == "a" else "$5"
    """)
    files.config("agents:picky")
    files.session("replays/a.yaml", input="a")
    files.session("replays/b.yaml", input="b")

    ran = replaykit("replay", "replays", "--json")

    assert (ran.code, [r["verdict"] for r in ran.results]) == (1, ["fixed", "broken"])


@sampled(
    ("said", "told"),
    [
        ({"contract": "No Such Contract"}, "no contract 'No Such Contract'"),
        ({"contract": None}, "names no contract"),
        ({"contract": "default"}, "no contract 'default'"),
        ({"contract": "./contracts/nowhere.yaml"}, "no contract './contracts/nowhere.yaml'"),
        ({"contract": "../elsewhere.yaml"}, "leaves"),
    ],
    count=2,
)
def test_w04_a_session_without_its_contract_is_an_error(
    files: Any, replaykit: Run, said: dict[str, Any], told: str
) -> None:
    files.session("replays/a.yaml", **said)
    files.session("replays/b.yaml", input="unavailable")
    files.agents("def echo(question):\n    return question\n")
    files.config("agents:echo")

    ran = replaykit("replay", "replays", "--json")

    assert ran.code == 2
    assert [result["verdict"] for result in ran.results] == ["inconclusive", "fixed"]
    assert told in ran.results[0]["reason"]
    assert "replays/a.yaml:1" in ran.results[0]["reason"]
    assert told in ran.err


def test_w04_a_contract_of_which_nothing_applies_is_an_error(files: Any, replaykit: Run) -> None:
    contract = {
        "name": "Faults only",
        "invariants": [{"id": "x", "type": "output_not_empty", "when": "tool_faults_active"}],
    }
    files.config(contract=contract)

    ran = replaykit("replay", files.session(contract="Faults only", tool_responses=[{"tool": "web_search"}]))

    assert ran.code == 2
    assert "no invariant of the contract 'Faults only' applies" in ran.err


def test_w04_a_session_without_a_name_of_a_contract_keeps_the_one_called_default(files: Any, replaykit: Run) -> None:
    files.agents("def echo(question):\n    return question\n")
    files.config("agents:echo", contract={"name": "default", "invariants": [{"id": "x", "type": "output_not_empty"}]})

    assert replaykit("replay", files.session(contract=None)).code == 0


def test_w05_a_path_that_does_not_exist_ends_with_2(files: Any, replaykit: Run) -> None:
    ran = replaykit("replay", "replays/nope.yaml")

    assert ran.code == 2
    assert "'replays/nope.yaml' does not exist" in ran.err


def test_w05_an_empty_directory_ends_with_5(files: Any, replaykit: Run) -> None:
    Path("replays").mkdir()

    assert replaykit("replay", "replays").code == 5


def test_w05_directories_are_searched_all_the_way_down(files: Any, replaykit: Run) -> None:
    files.write("replays/2026/02/incident.yaml", files.incident)

    assert replaykit("replay", "replays").code == 0


def test_w05_without_a_path_the_sessions_of_the_configuration_are_run(files: Any, replaykit: Run) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    inline = {"id": "inline-001", "input": "?", "contract": "Finance Agent Contract", "tool_responses": []}
    files.agents("""
        def lenient(question):
            return "unavailable" if question == "?" else honest(question)
    """)
    files.config("agents:lenient", replays={"sessions": [{"file": "replays/incident_001.yaml"}, inline]})

    ran = replaykit("replay", "-c", "flakestorm.yaml", "--json")

    assert ran.code == 0
    assert [result["case_id"] for result in ran.results] == ["incident-2026-02-15", "inline-001"]


def test_w05_a_configuration_that_names_nothing_ends_with_5(files: Any, replaykit: Run) -> None:
    assert replaykit("replay", "-c", "flakestorm.yaml").code == 5


def test_w05_nothing_at_all_ends_with_2(replaykit: Run) -> None:
    ran = replaykit("replay", "--agent", "agents:honest")

    assert ran.code == 2
    assert "nothing to replay" in ran.err


def test_without_an_agent_anywhere_the_error_says_how_to_name_one(files: Any, replaykit: Run) -> None:
    files.write("replaykit.yaml", "replaykit: 1\n")

    ran = replaykit("replay", files.session(), "-c", "replaykit.yaml")

    assert ran.code == 2
    assert "replaykit.yaml names no agent" in ran.err
    assert "--agent MODULE:FUNCTION" in ran.err


def test_an_agent_on_the_command_line_wins_over_the_configurations(files: Any, replaykit: Run) -> None:
    session = files.write("replays/incident_001.yaml", files.incident)

    assert replaykit("replay", session).code == 0
    assert replaykit("replay", session, "--agent", "agents:inventive").code == 1
