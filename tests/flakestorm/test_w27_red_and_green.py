"""W27, W28: a session is proven red with the old agent and green with the new one; deviations are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.matrix import sampled

Run = Callable[..., Any]


def test_w27_a_session_is_proven_with_the_agent_that_failed_and_the_one_that_does_not(
    files: Any, replaykit: Run
) -> None:
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("prove", session, "-c", "flakestorm.yaml", "--bad", "agents:inventive")

    assert ran.code == 0
    assert "proven: red → green" in ran.out


@sampled(
    ("bad", "good"),
    [("agents:honest", "agents:honest"), ("agents:inventive", "agents:inventive"), ("agents:stray", "agents:honest")],
    count=1,
    start=2,
)
def test_w27_nothing_is_proven_when_the_bad_agent_does_not_fail_on_the_tape_or_the_good_one_does(
    files: Any, replaykit: Run, bad: str, good: str
) -> None:
    files.agents("""
        @rk.tool
        def unheard_of(question):
            return question
        def stray(question):
            return unheard_of(question)
    """)
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("prove", session, "--bad", bad, "--good", good)

    assert ran.code == 1
    assert "not proven" in ran.out


def test_w28_other_arguments_than_those_written_down_are_told_and_do_not_fail(files: Any, replaykit: Run) -> None:
    files.agents("""
        def asking(question):
            return web_search("other words")
    """)
    files.config("agents:asking")
    answer = {"tool": "web_search", "response": "unavailable", "arguments": {"query": "these words"}}

    ran = replaykit("replay", files.session(tool_responses=[answer]), "--json")

    assert ran.result["verdict"] == "fixed"
    assert [told["kind"] for told in ran.result["deviations"]] == ["arguments"]


def test_w28_lint_checks_sessions_too(files: Any, replaykit: Run) -> None:
    files.write("replays/good.yaml", files.incident)
    assert replaykit("lint", "replays").code == 0

    files.write("replays/bad.yaml", files.incident.replace("contract:", "contrat:").replace("status: 0", "status: -4"))
    ran = replaykit("lint", "replays")

    assert ran.code == 1
    assert "bad.yaml:14: error: unknown key 'contrat'; did you mean 'contract'?" in ran.out
    assert "bad.yaml:12: error: tool_responses[1].status: expected a whole number" in ran.out
