"""Files that were cut, damaged or mixed up: each is refused in words, or read in part with what was left out."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.formats.damage import as_lines
from tests.formats.examples import examples
from tests.formats.mixed_files import ALONE, TOGETHER, Maker, beside, cut, documents, flipped
from tests.formats.samples import sample, unpacked
from tests.matrix import examples as properties
from tests.matrix import sampled

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import import_source, importer_of, recognise
from replaykit.model.run import TraceRun, decode_run, encode_run

FORMATS = sorted(examples())
TIMES = properties(3)
LONGEST_S = 5.0
"""Of the processor's time, for a file that takes a few milliseconds."""
OPENAI_INSIDE = ("ai_sdk", "openai_chat")
"""Steps of the AI SDK hold the requests as they went to OpenAI: read as those, they are what they say."""
ONE_DOCUMENT = ("tau2",)
"""A file of it is one document, and a second one in it is an error."""
BINARY = (
    "openinference/openai_chat_agent.otlp.pb",
    "otel_genai/openai_v2_legacy_events.otlp_logs.pb",
    "inspect_ai/2026-11-15T18-37-42-00-00_refund_EzdQfopmebaPsBnsmrWbah.eval",
    "ag_ui/events.sse",
)
TOOL_USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
TOOL_CALL = {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t1", "toolName": "f", "input": {}}]}
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "t1", "function": {"name": "f", "arguments": "{}"}}],
}
ASKED = {"role": "user", "content": "go"}
STRANGE = {"traceId": "1" * 32, "spanId": "2" * 16, "attributes": [{"key": 1.5, "value": {"stringValue": "x"}}]}
STRANGE_SPAN = {"resourceSpans": [{"scopeSpans": [{"spans": [STRANGE]}]}]}


class Read(NamedTuple):
    """What an importer made of a file."""

    runs: list[TraceRun]
    said: list[str]
    """What was left out, why nothing more could be read, and remarks."""


def read(format: str, source: Source) -> Read:
    """Whatever the file is: nothing but our own error, soon, and runs that can be kept."""
    began = time.process_time()
    found = Read([], [])
    try:
        for one in IMPORTERS.get(format).read(source):
            if isinstance(one, TraceRun):
                found.runs.append(one)
            else:
                found.said.append(str(one))
    except InvalidFile as problem:
        found.said.append(str(problem))
        where = problem.file
    else:
        where = source.file
    assert where.startswith(source.file)
    for run in found.runs:
        check_run(run)
    assert time.process_time() - began < LONGEST_S
    return found


def check_run(run: TraceRun) -> None:
    assert run.id
    numbers = [event.seq for event in run.events]
    assert numbers == sorted(set(numbers))
    assert all(event.parent is None or event.parent < event.seq for event in run.events)
    assert encode_run(decode_run(encode_run(run))) == encode_run(run)


def guessed(source: Source) -> str | None:
    """The format that the file is taken for; asking never fails."""
    began = time.process_time()
    takers = [importer.name for importer in IMPORTERS.values() if importer.recognises(source)]
    assert time.process_time() - began < LONGEST_S
    return takers[0] if takers else None


def check_mixed(content: bytes, made_of: set[str]) -> None:
    """The file is refused, or read as what it was made of, or as something else and said so."""
    format = guessed(Source(content, "mixed.json"))
    if format is None:
        with pytest.raises(InvalidFile, match=r"mixed\.json"):
            import_source(Source(content, "mixed.json"))
        return
    found = read(format, Source(content, "mixed.json"))
    if format not in made_of:
        assert found.said or not found.runs, f"silently taken for {format}"


def cases(format: str, makers: tuple[Maker, ...]) -> Iterator[tuple[Random, Maker, str]]:
    for maker in makers:
        for turn in range(TIMES):
            random = Random(f"{format} {maker.__name__} {turn}")
            yield random, maker, random.choice([name for name in FORMATS if name != format])


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_was_cut_or_damaged_is_refused_or_read_in_part(format: str) -> None:
    for random, maker, _other in cases(format, ALONE):
        content = maker(random, examples()[format], b"")
        check_mixed(content, {format})
        read(format, Source(content, "mixed.json"))


@sampled("format", FORMATS, count=10)
def test_files_of_two_formats_in_one_are_refused_or_read_in_part(format: str) -> None:
    for random, maker, other in cases(format, TOGETHER):
        content = maker(random, examples()[format], examples()[other])
        check_mixed(content, {format, other})
        read(format, Source(content, "mixed.json"))
        read(other, Source(content, "mixed.json"))


@sampled("named", FORMATS, count=10, start=1)
def test_a_file_of_another_format_than_the_named_one_is_told(named: str) -> None:
    for format in FORMATS:
        found = read(named, Source(examples()[format], "other.json"))
        if format == named:
            assert found.runs
        elif (format, named) != OPENAI_INSIDE:
            assert found.said, f"{format} read as {named}"


@pytest.mark.parametrize("format", FORMATS)
def test_a_line_of_no_format_is_told_and_the_others_are_read(format: str) -> None:
    own = 2 * as_lines(documents(examples()[format]))
    stranger = as_lines([{"entirely": "something else", "of": ["no", "format"]}])

    alone, mixed = (read(format, Source(text, "lines.jsonl")) for text in (own, own + stranger))

    assert [run.id for run in mixed.runs] == [run.id for run in alone.runs]
    assert mixed.said != alone.said or format in ONE_DOCUMENT
    assert bool(mixed.runs) is (format not in ONE_DOCUMENT)


@sampled("format", FORMATS, count=10, start=1)
def test_thousands_of_records_of_no_format_are_told_soon(format: str) -> None:
    strangers = [{"entirely": "something else", "n": number} for number in range(1000)]

    found = read(format, Source(json.dumps(strangers, indent=1).encode(), "many.json"))

    assert found.said
    assert found.runs == []


@pytest.mark.parametrize("name", BINARY)
def test_binary_files_that_were_cut_or_damaged_are_refused_or_read_in_part(name: str) -> None:
    content = unpacked(sample(name))
    for turn in range(4 * TIMES):
        random = Random(f"{name} {turn}")
        broken = random.choice((cut, flipped, beside))(random, content, examples()["otlp"])
        importer = recognise(Source(broken, name))
        for format in (importer.name if importer else "otlp", random.choice(FORMATS)):
            read(format, Source(broken, name))


@pytest.mark.parametrize("format", FORMATS[:: len(FORMATS) // 6])
def test_packed_files_that_were_cut_or_damaged_are_refused_or_read_in_part(format: str, tmp_path: Path) -> None:
    packed = gzip.compress(examples()[format], mtime=0), sample("openai_chat/messages.json").read_bytes()
    for turn in range(TIMES):
        for content in packed:
            random = Random(f"{format} {turn}")
            file = tmp_path / "trace.json"
            file.write_bytes(random.choice((cut, flipped, beside))(random, content, b"{}"))
            try:
                name = importer_of(read_source(file)).name
            except InvalidFile:
                name = random.choice(FORMATS)
            read(name, read_source(file))


@pytest.mark.parametrize(
    ("format", "value", "told"),
    [
        ("openai_chat", [ASKED, TOOL_USE], "got Anthropic messages"),
        ("openai_chat", [ASKED, TOOL_CALL], "got an object with `role`, `content`"),
        ("openai_responses", [ASKED, TOOL_USE], "got Anthropic messages"),
        ("anthropic", [ASKED, TOOL_CALL], "got an object with `role`, `content`"),
        ("anthropic", [ASKED, CALLED], "got OpenAI chat completions"),
        ("openai_responses", {"run_id": "r", "input": "go", "events": [{"type": "error", "message": "x"}]}, "`run_id`"),
        (
            "claude_stream",
            [{"type": "system", "session_id": "s"}, {"session_id": "s", "steps": []}],
            "lines that do not belong to a stream: 1",
        ),
        ("otlp", [{"resourceSpans": []}, {"trajectory": []}], "not OTLP: expected an object with `resourceSpans`"),
        ("otlp", STRANGE_SPAN, "key: expected a text"),
        ("inspect", {"events": []}, "no event was logged"),
    ],
)
def test_what_a_format_would_lose_is_told(format: str, value: Any, told: str) -> None:
    found = read(format, Source(json.dumps(value).encode(), "x.json"))

    assert any(told in said for said in found.said), found.said


APIS = ("anthropic", "gemini", "openai_chat", "openai_responses")
PAIRS = {name: json.loads(examples()[name]) for name in APIS if name != "gemini"}
PAIRS["gemini"] = [{"request": {"contents": documents(examples()["gemini"])[0]}, "response": {"candidates": []}}]


@pytest.mark.parametrize(("format", "named"), [(a, b) for a in APIS for b in APIS if a != b])
def test_pairs_of_another_api_are_refused_with_the_name_of_their_format(format: str, named: str) -> None:
    pairs = PAIRS[format]

    found = read(named, Source(json.dumps(pairs, indent=1).encode(), "pairs.json"))

    assert found.runs == [], "half of it would be worse than nothing"
    assert len(found.said) == len(pairs)
    assert all(said.endswith(f"--format {format}") for said in found.said), found.said


def test_a_request_of_another_api_is_refused_though_of_its_answer_only_the_text_was_kept() -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "5"}]}
    pair = {"request": {"model": "m", "messages": [ASKED, TOOL_USE, result]}, "response": "It is 5."}

    found = read("openai_chat", Source(json.dumps(pair).encode(), "pair.json"))

    assert (found.runs, [said.split()[-1] for said in found.said]) == ([], ["anthropic"])


def test_lists_of_steps_on_lines_are_runs_of_the_ai_sdk() -> None:
    steps = documents(examples()["ai_sdk"])[0]

    found = import_source(Source(as_lines([steps, steps[:1]]), "results.jsonl"))

    assert (found.format, found.left_out) == ("ai_sdk", ())
    assert [len(run.llm_calls) for run in found.runs] == [3, 1]


def test_messages_of_langchain_that_count_tokens_are_none_of_gemini() -> None:
    message = {"type": "ai", "content": "done", "usage_metadata": {"input_tokens": 1}}

    assert guessed(Source(json.dumps([message, [message]]).encode(), "x.json")) != "gemini"
    assert read("gemini", Source(json.dumps([message]).encode(), "x.json")).runs == []
