"""Formats that cannot be imported, and look like others: they are refused by name, and never read as something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_trace

PARTS: list[Any] = [{"text": "list files"}]
QWEN = [
    {"uuid": "1", "parentUuid": None, "sessionId": "s", "type": "user", "message": {"role": "user", "parts": PARTS}},
    {
        "uuid": "2",
        "parentUuid": "1",
        "sessionId": "s",
        "type": "assistant",
        "message": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "ls", "args": {}}}]},
    },
]
GOOSE_CALL = {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "shell"}}}
GOOSE = [
    {"role": "user", "created": 1, "content": [{"type": "text", "text": "run the tests"}]},
    {"role": "assistant", "created": 2, "content": [GOOSE_CALL]},
]
CLINE = [
    {"role": "user", "content": [{"type": "text", "text": "<task>\nlist files\n</task>"}]},
    {"role": "assistant", "content": "I look.\n<execute_command>\n<command>ls</command>\n</execute_command>"},
    {"role": "user", "content": [{"type": "text", "text": "[execute_command for 'ls'] Result:\na b"}]},
    {"role": "assistant", "content": "<attempt_completion>\n<result>a b</result>\n</attempt_completion>"},
]
CODEX = [
    {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s", "cwd": "/"}},
    {"timestamp": "2026-01-01T00:00:01Z", "type": "response_item", "payload": {"type": "message", "role": "user"}},
]
GEMINI_CLI = {"sessionId": "s", "projectHash": "h", "messages": [{"type": "user"}, {"type": "gemini", "content": "Hi"}]}
ADK = {"id": "s", "appName": "trip", "userId": "u", "events": [{"author": "user", "content": {"parts": PARTS}}]}


def lines(values: list[Any]) -> str:
    return "\n".join(map(json.dumps, values))


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        (lines(QWEN), "Qwen Code"),
        (lines(GOOSE), "Goose"),
        (json.dumps({"id": "1", "working_dir": "/", "conversation": GOOSE}), "Goose"),
        (json.dumps({"messages": GOOSE}), "Goose"),
        (json.dumps(CLINE), "Cline or Roo Code"),
        (lines(CODEX), "Codex CLI"),
        (lines([{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]), "Codex CLI"),
        (json.dumps(GEMINI_CLI), "Gemini CLI"),
        (json.dumps(ADK), "Google ADK"),
        (json.dumps({"eval_set_id": "e", "eval_cases": []}), "Google ADK"),
    ],
)
def test_a_vendor_is_named_with_a_way_out(text: str, vendor: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(text)

    with pytest.raises(InvalidFile) as caught:
        import_trace(file)

    assert caught.value.reason == f"a session of {vendor}, which cannot be imported"
    assert "replaykit record -- COMMAND" in (caught.value.hint or "")


def test_talk_about_such_tools_is_a_conversation_like_any_other(tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "What does Cline write to run a command?"},
        {"role": "assistant", "content": "<execute_command>\n<command>ls</command>\n</execute_command>"},
    ]
    (tmp_path / "trace.json").write_text(json.dumps(talk))

    assert import_trace(tmp_path / "trace.json").format == "openai_chat"


def test_an_installed_importer_goes_before_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Rollouts:
        name, title = "my_codex", "Codex rollouts"

        def recognises(self, source: Source) -> bool:
            return "session_meta" in str(source.first)

        def read(self, source: Source) -> Any:
            yield "read by my own importer"

    importers = {importer.name: importer for importer in IMPORTERS.values()} | {"my_codex": Rollouts()}
    monkeypatch.setattr("replaykit.formats.core.registry.IMPORTERS", importers)
    (tmp_path / "trace.jsonl").write_text(lines(CODEX))

    with pytest.raises(InvalidFile, match="the file holds no run") as caught:
        import_trace(tmp_path / "trace.jsonl")

    assert caught.value.hint == "read by my own importer"
