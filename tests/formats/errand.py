"""The errand that Claude Code ran for the samples: another one than the story, since it has tools of its own.

It reads a file that is not there and lists the directory, both at once, then runs a command that fails. Its answer is
the story's.
"""

from __future__ import annotations

from tests.formats.story import ANSWER, PARTS, check_story

from replaykit.formats.core.replayability import replayability
from replaykit.model.run import TraceRun

ASKED = "Look at notes.txt and missing.txt"
SAID = {"status", "output", "models", "call ids", "tokens", "times", "order"}
"""What of the story it shares."""


def check_errand(run: TraceRun, *, is_asked: bool = True) -> None:
    """The run is the errand. A stream does not tell what was asked."""
    check_story(run, PARTS.keys() - SAID - ({"replayable"} if is_asked else set()))
    assert run.input == (ASKED if is_asked else None)
    assert run.output.strip() == ANSWER
    made = [(call.name, call.arguments.get("command") or call.arguments["file_path"]) for call in run.tool_calls]
    assert [name for name, _what in made] == ["Read", "Bash", "Bash"]
    assert [what for _name, what in made][1:] == ["ls; cat notes.txt", "exit 3"]
    missing, listed, failed = run.tool_calls
    assert missing.error is not None
    assert missing.error.message.startswith("File does not exist.")
    assert missing.error.message.endswith("ccproj.")
    assert listed.error is None
    assert "notes.txt\nhello" in str(listed.result["stdout"] if isinstance(listed.result, dict) else listed.result)
    assert failed.error is not None
    assert failed.error.message == "Exit code 3"
    asked = [[use["id"] for use in call.result["tool_calls"]] for call in run.llm_calls]
    assert asked == [["toolu_A1", "toolu_B2"], ["toolu_C3"], []]
    assert [call.usage and call.usage.input_tokens for call in run.llm_calls] == [528, 528, 528]
    assert {call.name for call in run.llm_calls} == {"claude-sonnet-4-5"}
    told = [message.get("tool_call_id") for message in run.llm_calls[-1].arguments["messages"]]
    assert [call_id for call_id in told if call_id] == ["toolu_A1", "toolu_B2", "toolu_C3"]
    assert (replayability(run).score == 1.0) is is_asked
    assert (run.agent, run.agent_version) == ("claude-code", "2.1.325")
    assert run.id == "95799865-d91f-4711-b306-1910def14468"
