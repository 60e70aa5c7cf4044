"""What all importers of model APIs have in common: what is broken, mixed up or very long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.samples import sample, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core import threads as threads_module
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.model.run import TraceRun, decode_run, encode_run

SAMPLES = [
    "openai_chat/messages.json",
    "openai_chat/request_response_pairs.json",
    "openai_chat/stream_chunks.json",
    "openai_chat/error.json",
    "openai_responses/input_items.json",
    "openai_responses/request_response_pairs.json",
    "openai_responses/stream_events.json",
    "anthropic_messages/messages.json",
    "anthropic_messages/request_response_pairs.json",
    "anthropic_messages/stream_events.json",
    "anthropic_messages/error.json",
]
FORMATS = ["openai_chat", "openai_responses", "anthropic", "gemini", "har"]
TEXTS = {name: unpacked(sample(name)) for name in SAMPLES}


def archive() -> bytes:
    """The pairs of a sample as HTTP traffic."""
    entries = [
        {
            "startedDateTime": "2026-01-01T00:00:00Z",
            "request": {
                "method": "POST",
                "url": "/v1/chat/completions",
                "postData": {"text": json.dumps(one["request"])},
            },
            "response": {"status": 200, "content": {"text": json.dumps(one["response"])}},
        }
        for one in json.loads(TEXTS["openai_chat/request_response_pairs.json"])
    ]
    return json.dumps({"log": {"entries": entries}}).encode()


TEXTS["har"] = archive()
TEXTS["gemini"] = json.dumps(
    [
        {
            "request": {
                "model": "g",
                "contents": [{"role": "user", "parts": [{"text": "go"}]}],
                "config": {"top_k": 1},
            },
            "response": {
                "candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}}],
                "usageMetadata": {"promptTokenCount": 1},
            },
        },
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {"result": 1}}}]}]},
    ]
).encode()


def reads(text: bytes, format: str | None = None) -> list[TraceRun]:
    """The runs of whatever it is; none where it says in words what is wrong."""
    source = Source(text, "trace")
    try:
        importer = importer_of(source, format)
        found = list(importer.read(source))
    except InvalidFile:
        return []
    runs = [one for one in found if isinstance(one, TraceRun)]
    assert all(decode_run(encode_run(run)) == run for run in runs)
    assert all([event.seq for event in run.events] == list(range(len(run.events))) for run in runs)
    return runs


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_recognised_as_what_it_is_and_nothing_is_left_out(name):
    got = import_trace(sample(name))

    assert got.format == name.partition("/")[0].removesuffix("_messages")
    assert got.remarks == ()
    assert len(got.runs) == 1


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.floats(0, 1), st.sampled_from([None, *FORMATS]))
def test_a_truncated_file_is_a_clear_error_or_a_partial_import(name, share, format):
    reads(TEXTS[name][: int(len(TEXTS[name]) * share)], format)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A sample of which some values are something else."""
    value = json.loads(TEXTS[draw(st.sampled_from(sorted(TEXTS)))])
    others = [None, 0, -1, 1e308, 10**30, True, "", "x", [], {}, [None], {"type": 5}, [[]], {"role": []}, "\ud800"]
    other = st.sampled_from(list(map(json.dumps, others))).map(json.loads)
    for _ in range(draw(st.integers(1, 4))):
        place: Any = value
        while isinstance(place, list | dict) and place:
            keys = list(range(len(place))) if isinstance(place, list) else sorted(place)
            key = draw(st.sampled_from(keys))
            if not isinstance(place[key], list | dict) or not place[key] or draw(st.integers(0, 3)) == 0:
                place[key] = draw(other)
                break
            place = place[key]
    items = value if isinstance(value, list) and draw(st.booleans()) else [value]
    return b"\n".join(json.dumps(item).encode() for item in items)


@settings(max_examples=examples(60), deadline=None)
@given(mangled(), st.sampled_from([None, *FORMATS]))
def test_whatever_is_in_the_wrong_place_is_never_a_traceback(text, format):
    reads(text, format)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(sorted(TEXTS)), min_size=2, max_size=4), st.sampled_from([None, *FORMATS]))
def test_mixed_up_files_are_never_a_traceback(names, format):
    values = [json.loads(TEXTS[name]) for name in names]
    reads(b"\n".join(json.dumps(value).encode() for value in values), format)
    reads(json.dumps(values).encode(), format)


KEYS = ["request", "response", "messages", "input", "contents", "role", "content", "parts", "type", "choices", "body"]
KEYS += [
    "error",
    "candidates",
    "output",
    "custom_id",
    "object",
    "data",
    "chunks",
    "log",
    "entries",
    "message",
    "events",
]
WORDS = ["user", "assistant", "model", "message", "tool_use", "function_call", "error", "response", "list", "text"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(60), deadline=None)
@given(ANYTHING, st.sampled_from([None, *FORMATS]))
def test_any_value_is_read_or_refused(value, format):
    reads(json.dumps(value).encode(), format)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", [b"", b"hello", b"\x00\x01", b"data: hello\n\n", b"[" * 300, b"5", b"{}", b"[]"])
def test_what_is_no_trace_is_refused_in_words(format, text):
    with pytest.raises(InvalidFile):
        import_source(Source(text, "trace"), format)


def test_no_format_takes_what_the_native_one_reads():
    native = {"run_id": "r", "status": "success", "events": [{"type": "message", "role": "user", "content": "go"}]}

    for format in FORMATS:
        source = Source(json.dumps(native).encode(), "x")
        assert not IMPORTERS.get(format).recognises(source)
        with pytest.raises(InvalidFile):
            import_source(source, format)


def conversations(count: int, rounds: int) -> list[dict[str, Any]]:
    """Pairs of many conversations, round after round."""
    said: list[list[dict[str, Any]]] = [[{"role": "user", "content": f"question {number}"}] for number in range(count)]
    lines = []
    for round_ in range(rounds):
        for messages in said:
            answer = {"role": "assistant", "content": f"{messages[0]['content']}: {round_}"}
            lines.append(
                {"request": {"model": "m", "messages": list(messages)}, "response": {"choices": [{"message": answer}]}}
            )
            messages += [answer, {"role": "user", "content": "more"}]
    return lines


def test_conversations_that_go_on_beside_each_other_are_told_apart():
    lines = conversations(20, 3)
    got = import_source(Source(b"\n".join(json.dumps(line).encode() for line in lines), "log.jsonl"))

    assert [(run.input, len(run.llm_calls), run.output) for run in got.runs] == [
        (f"question {number}", 3, f"question {number}: 2") for number in range(20)
    ]


@pytest.mark.parametrize("limit", ["MAX_OPEN", "MAX_OPEN_BYTES"])
def test_a_conversation_that_went_on_long_ago_is_taken_for_ended(monkeypatch, limit):
    monkeypatch.setattr(threads_module, limit, {"MAX_OPEN": 5, "MAX_OPEN_BYTES": 1000}[limit])
    lines = conversations(20, 1)
    source = Source(b"\n".join(json.dumps(line).encode() for line in lines), "log.jsonl")
    found = importer_of(source).read(source)

    first = next(found)
    assert isinstance(first, TraceRun)
    assert first.input == "question 0"
    assert len(list(found)) == 19


class Read(Source):
    """A log that counts how many of its lines were read."""

    lines = 0

    def documents(self) -> Iterator[Source]:
        for line in super().documents():
            self.lines += 1
            yield line


def test_of_a_long_log_only_so_many_conversations_are_held_at_once():
    lines = conversations(500, 1)
    source = Read(b"\n".join(json.dumps(line).encode() for line in lines), "log.jsonl")
    held = []
    for count, found in enumerate(importer_of(source).read(source)):
        assert isinstance(found, TraceRun)
        held.append(source.lines - count)

    assert len(held) == 500
    assert max(held) == threads_module.MAX_OPEN + 1
