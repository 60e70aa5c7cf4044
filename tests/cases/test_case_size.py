"""A case takes room for what was said in its run, not for how often an SDK sent it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import matrix

import replaykit as rk
from replaykit.checks import compare, reading
from replaykit.checks import conversation as checks_conversation
from replaykit.formats.files import import_trace
from replaykit.model import events
from replaykit.model.events import AnyEvent, LlmCall, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw
from replaykit.redaction import Redactor
from replaykit.redaction.text_edits import TextEdits


def conversation(count: int, more: str = "") -> list[dict[str, str]]:
    words = "word " * 120
    return [{"role": "user", "content": f"{number}: {more.format(number=number)}{words}"} for number in range(count)]


def run_of(count: int, kind: type[LlmCall] | type[ToolCall] = LlmCall, more: str = "") -> TraceRun:
    """A run of as many calls as there are messages in the end."""
    messages = conversation(count, more)
    calls: list[AnyEvent] = [
        kind(
            seq=seq,
            name="gpt-5",
            arguments_json=Raw(canonical({"messages": messages[: seq + 1], "temperature": 0})),
            result_json=raw({"role": "assistant", "content": f"answer {seq}"}),
        )
        for seq in range(count)
    ]
    return TraceRun(id="run-1", status=RunStatus.ERROR, events=tuple(calls), event_count=count)


def size_of(case: Path) -> int:
    return sum(file.stat().st_size for file in case.rglob("*") if file.is_file())


def test_a_case_grows_with_the_conversation_and_not_with_its_square(tmp_path: Path) -> None:
    for count in (25, 100):
        rk.scaffold(run_of(count), tmp_path / str(count))

    small, large = size_of(tmp_path / "25"), size_of(tmp_path / "100")
    assert large / small < 4.5
    assert large < 4 * len(json.dumps(conversation(100)))


class Work:
    """Counts what is done with the bytes of messages: each look of redaction, and each JSON text that is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.redacted_bytes = 0
        self.read_bytes = 0
        passes, hits_of, decode = Redactor.passes, TextEdits.hits, compare.decode

        def counted_passes(redactor: Redactor, raw: bytes) -> bool:
            self.redacted_bytes += len(raw)
            return passes(redactor, raw)

        def counted_hits(edits: TextEdits, text: str, *rest: Any) -> Any:
            self.redacted_bytes += len(text)
            return hits_of(edits, text, *rest)

        def counted_decode(text: Any) -> Any:
            self.read_bytes += len(text)
            return decode(text)

        monkeypatch.setattr(Redactor, "passes", counted_passes)
        monkeypatch.setattr(TextEdits, "hits", counted_hits)
        for module in (compare, checks_conversation, events, reading):
            monkeypatch.setattr(module, "decode", counted_decode)


@matrix(kind=[LlmCall, ToolCall], secret=["", "mail {number}@shop-{number}.com, "])
@pytest.mark.exhaustive
def test_the_work_of_a_case_grows_with_the_conversation_and_not_with_its_square(
    kind: type[LlmCall] | type[ToolCall], secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    for count in (30, 120):
        with monkeypatch.context() as patch:
            work = Work(patch)
            rk.scaffold(run_of(count, kind, secret), tmp_path / str(count))
            done.append(work)
    small, large = done

    # Four times the messages. What is quadratic takes nearly 16 times as much.
    assert large.redacted_bytes / small.redacted_bytes < 5.5
    assert large.read_bytes / small.read_bytes < 5.5


def test_an_imported_chat_takes_its_messages_a_few_times(tmp_path: Path) -> None:
    roles = ["user", "assistant"]
    chat = [{**message, "role": roles[number % 2]} for number, message in enumerate(conversation(60))]
    trace = tmp_path / "chat.json"
    trace.write_text(json.dumps({"model": "gpt-5", "messages": chat}))
    (run,) = import_trace(trace).runs

    rk.scaffold(run, tmp_path / "case", source_text=trace.read_bytes())

    assert size_of(tmp_path / "case") < 4 * trace.stat().st_size


@pytest.mark.parametrize("count", [1, 8])
def test_a_large_answer_is_kept_once_however_often_it_came(count: int, tmp_path: Path) -> None:
    page = "0123456789abcdef" * 20_000
    calls = tuple(
        ToolCall(seq=seq, name="fetch", arguments_json=raw({}), result_json=raw(page)) for seq in range(count)
    )
    run = TraceRun(id="run-1", status=RunStatus.ERROR, events=calls, event_count=count)

    rk.scaffold(run, tmp_path / "case", redact=False)

    assert size_of(tmp_path / "case") < len(page) + 20_000  # the notes show the beginning of each answer
