"""From a vendor's trace to a case that is replayed offline, with the real SDKs and frameworks.

Each agent is run once against a scripted model while somebody traces it: a gateway that logs requests, LangSmith, the
Agents SDK, OpenTelemetry, OpenInference, Langfuse. The trace is all that a case is made of. The same agent reproduces
its failure there without a model. One with another prompt leaves the tape, which is shown as a change of the prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from tests.integrations.traced.model_server import FINAL, ModelServer, corrected
from tests.integrations.traced.vendor_exports import langfuse_trace, phoenix_spans

HERE = Path(__file__).parent / "traced"
PROMPT, EDITED = "Look charges up before you answer.", "Look charges up before you answer, and never guess."
OLD = "agent_before"
PAIRS = [
    ("openai_chat_agent", "gateway"),
    ("openai_chat_agent", "langsmith"),
    ("openai_responses_agent", "gateway"),
    ("openai_responses_agent", "langsmith"),
    ("anthropic_agent", "gateway"),
    ("anthropic_agent", "langsmith"),
    ("gemini_agent", "gateway"),
    ("gemini_agent", "genai-spans"),
    ("langgraph_agent", "gateway"),
    ("langgraph_agent", "langchain"),
    ("openai_agents_agent", "agents"),
    ("openai_agents_agent", "agents-langsmith"),
    ("pydantic_ai_agent", "spans"),
    ("pydantic_ai_agent", "messages"),
    ("openai_chat_agent", "openinference"),
    ("openai_chat_agent", "phoenix"),
    ("openai_chat_agent", "langfuse"),
    ("openai_chat_agent", "langfuse-otlp"),
    ("openai_responses_agent", "openinference"),
    ("openai_responses_agent", "langfuse"),
    ("anthropic_agent", "openinference"),
    ("anthropic_agent", "phoenix"),
    ("anthropic_agent", "langfuse"),
    ("anthropic_agent", "langfuse-otlp"),
    ("langgraph_agent", "openinference"),
    ("langgraph_agent", "phoenix"),
    ("langgraph_agent", "langfuse"),
    ("langgraph_agent", "langfuse-otlp"),
]


@dataclass
class Project:
    """A directory with an agent, and a case that was made of a trace of it."""

    directory: Path
    module: str
    made: subprocess.CompletedProcess[str]

    def replay(self) -> dict[str, Any]:
        """The result of a replay of the agent as it is now."""
        done = self.replaykit("replay", "case", "--agent", f"{self.module}:answer", "--json")
        (result,) = json.loads(done.stdout)["results"]
        return dict(result)

    def retape(self, model_url: str) -> subprocess.CompletedProcess[str]:
        """Run the agent as it is now against a live model, for another take of the case."""
        target = f"{self.module}:answer"
        arguments = ("retape", "case", "--agent", target, "--live", "models", "--json")
        return self.replaykit(*arguments, MODEL_URL=model_url)

    def prove(self) -> subprocess.CompletedProcess[str]:
        """Replay the agent with the old prompt and the one with the new prompt."""
        return self.replaykit("prove", "case", "--bad", f"{OLD}:answer", "--good", f"{self.module}:answer")

    def replaykit(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ReplayKit in the project; MODEL_URL leads the agent to a live model."""
        return run("-m", "replaykit", *arguments, directory=self.directory, **variables)

    def edit_prompt(self) -> None:
        file = self.directory / f"{self.module}.py"
        text = file.read_text()
        assert PROMPT in text
        (self.directory / f"{OLD}.py").write_text(text)
        file.write_text(text.replace(PROMPT, EDITED))


def run(*arguments: str, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**known, "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", **variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    module, exporter = request.param
    return traced_project(module, exporter, tmp_path_factory.mktemp("project"))


def traced_project(module: str, exporter: str, directory: Path) -> Project:
    """Trace the agent with its real tools and a scripted model, and make a case of the trace."""
    for name in (module, "agent_tools", "trace_agent"):
        copy(HERE / f"{name}.py", directory)
    with ModelServer() as server:
        variables = {"MODEL_URL": server.url, "OPENAI_AGENTS_DISABLE_TRACING": "0"}
        traced = run("trace_agent.py", module, exporter, "trace.json", directory=directory, **variables)
        assert traced.stdout.strip() == FINAL, traced.stderr
    write_export(exporter, directory / "trace.json", server)
    (directory / "trace_agent.py").unlink()
    made = run("-m", "replaykit", "scaffold", "trace.json", "--out", "case", directory=directory)
    return Project(directory, module, made)


def write_export(exporter: str, file: Path, server: ModelServer) -> None:
    """Write what the vendor gives out of what it was sent, unless the exporter has written a file itself."""
    if exporter == "phoenix":
        file.write_text(json.dumps(phoenix_spans(json.loads(file.read_text()))))
    elif exporter == "langfuse":
        file.write_text(json.dumps(langfuse_trace(server.spans)))
    elif exporter == "langfuse-otlp":
        file.write_bytes(b"".join(server.spans))  # requests of protobuf that follow each other are one request
    elif not file.exists():
        file.write_text(json.dumps(server.pairs if exporter == "gateway" else server.batches))


def test_an_agent_is_red_offline_leaves_the_tape_with_a_new_prompt_and_is_green_after_one_retape(
    project: Project,
) -> None:
    assert project.made.returncode == 0, project.made.stdout + project.made.stderr

    same = project.replay()
    assert same["verdict"] == "reproduced", json.dumps(same, indent=1)
    assert same["evidence"]["used"] == same["evidence"]["recorded"]

    project.edit_prompt()
    edited = project.replay()
    assert edited["verdict"] == "diverged", json.dumps(edited, indent=1)
    (missing, *_) = [one["text"] for one in edited["deviations"] if one["kind"] == "missing"]
    assert "the system prompt is not the recorded one" in missing
    assert f"+ You are a billing agent. {EDITED}" in missing

    with ModelServer(corrected) as server:
        retaped = project.retape(server.url)
    assert retaped.returncode == 0, retaped.stdout + retaped.stderr
    (retape,) = json.loads(retaped.stdout)["retapes"]
    assert {one["answered_by"] for one in retape["asked"]} == {"live"}
    assert EDITED in retape["asked"][0]["difference"]

    green = project.replay()
    assert (green["verdict"], green["take"], green["offline"]) == ("fixed", "take-2", True), json.dumps(green, indent=1)
    proven = project.prove()
    assert proven.returncode == 0, proven.stdout + proven.stderr


def test_a_trace_that_lost_the_calls_of_tools_is_inconclusive_and_says_what_to_turn_on(tmp_path: Path) -> None:
    project = traced_project("gemini_agent", "langsmith", tmp_path)  # its wrapper keeps the texts of messages alone

    result = project.replay()

    assert "messages missing" in project.made.stdout + project.made.stderr
    assert result["verdict"] == "inconclusive", json.dumps(result, indent=1)
    assert "does not hold the messages that its models were sent" in result["reason"]


def test_a_case_of_one_vendor_is_replayed_on_the_sdk_of_another(tmp_path: Path) -> None:
    project = traced_project("openai_chat_agent", "gateway", tmp_path)
    copy(HERE / "anthropic_agent.py", tmp_path)
    project.module = "anthropic_agent"

    assert project.replay()["verdict"] == "reproduced"
