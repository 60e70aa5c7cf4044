"""Programs in any language are served the model calls that only a trace tells of, by the proxy or in their process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.programs.agents import LOOP, STRANGER, write

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.cases.scaffold import scaffold
from replaykit.formats.core.talk import Talk
from replaykit.model.run import RunStatus, TraceRun
from replaykit.wire.model_calls import ModelAnswer, ToolUse

USES = (
    ToolUse(id="a", name="get_weather", arguments={"city": "Paris"}),
    ToolUse(id="b", name="get_time", arguments={"zone": "CET"}),
)
KEYS = "import os; print(*(name for name in os.environ if name.endswith('_API_KEY')))"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_BASE", "_API_KEY")) or name.startswith("REPLAYKIT_"):
            monkeypatch.delenv(name)


def traced(system: str | None = None, model: str = "gpt-5") -> TraceRun:
    talk = Talk(system=system)
    talk.says("user", "weather and time?")
    talk.answers(ModelAnswer(tool_calls=USES), model=model)
    talk.returns("sunny in Paris", call_id="a")
    talk.returns("noon CET", call_id="b")
    talk.answers(ModelAnswer(content="No idea."), model=model)
    return talk.run(id="r1", format="anthropic", status=RunStatus.ERROR)


def replayed(run: TraceRun, *command: str) -> rk.ReplayResult:
    case = scaffold(run, f"cases/{run.id}", force=True)
    return rk.replay(case, CommandCandidate(command), timeout_s=60, evidence="evidence")


@pytest.mark.parametrize("python", [STRANGER, [sys.executable]], ids=["at the proxy", "in its process"])
def test_a_program_is_served_what_a_trace_tells_of(python: list[str]) -> None:
    result = replayed(traced(), *python, write(LOOP))

    assert {one.name for one in result.deviations if one.kind != "moved"} == {"get_weather", "get_time"}
    assert result.evidence.used == 2
    assert result.run is not None
    assert "No idea." in str(result.run.output)


def test_a_program_that_asks_something_else_is_told_how_its_prompt_differs() -> None:
    result = replayed(traced("Be kind."), *STRANGER, write(LOOP))

    (missing,) = [one.text for one in result.deviations if one.kind == "missing"]
    assert result.verdict == "diverged"
    assert "message 1 is one of the user, and one of the system was recorded:" in missing
    assert "- Be kind." in missing


def test_an_sdk_that_demands_a_key_gets_one_for_the_maker_of_the_model() -> None:
    result = replayed(traced(model="claude-5"), *STRANGER, write(KEYS))

    assert (Path(str(result.directory)) / "stdout.log").read_text().strip() == "ANTHROPIC_API_KEY"
