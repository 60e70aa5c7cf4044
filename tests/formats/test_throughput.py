"""Large files: read in little memory, and into the same runs as small ones. How fast is measured in `bench/`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.matrix import sampled
from tests.memory import traced_memory

from replaykit.errors import InvalidFile
from replaykit.formats.core import piece_groups
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.otel import fast_json
from replaykit.model.run import TraceRun

BENCH = Path(__file__).parents[2] / "bench"
MEGABYTE = 1024 * 1024


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes files to measure with."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("importing")


def runs_in(name: str, source: Source) -> Iterator[TraceRun]:
    for found in IMPORTERS.get(name).read(source):
        assert isinstance(found, TraceRun), found
        yield found


@pytest.mark.parametrize(("name", "size"), [("otlp", 3 * MEGABYTE), ("langsmith", 300)])
def test_what_is_spilled_becomes_the_same_runs(
    made: Any, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    text = b"".join(made.FORMATS[name](size))
    in_memory = list(runs_in(name, Source(text, "f")))

    monkeypatch.setattr(piece_groups.PieceGroups.__init__, "__defaults__", (100_000,))
    spilled = list(runs_in(name, Source(text, "f")))

    assert len(in_memory) > 10
    assert sorted(spilled, key=lambda run: run.id) == sorted(in_memory, key=lambda run: run.id)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n \n"])
@pytest.mark.parametrize(("name", "size"), [("otlp", MEGABYTE), ("langsmith", 300)])
def test_a_large_file_becomes_the_same_runs_without_a_temporary_one(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int, start: bytes
) -> None:
    text = start + b"".join(made.FORMATS[name](size))
    (tmp_path / "f").write_bytes(text)
    in_memory = list(runs_in(name, Source(text, "f")))

    monkeypatch.setattr(piece_groups.PieceGroups.__init__, "__defaults__", (100_000,))
    monkeypatch.setattr(piece_groups.tempfile, "TemporaryFile", None)
    read_again = list(runs_in(name, read_source(tmp_path / "f")))

    assert read_again == in_memory


@pytest.mark.parametrize("kept_bytes", [0, 3000])
def test_spans_of_many_programs_become_the_same_runs(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    """More than what is kept of programs: their spans are put aside with what is said of theirs."""
    lines = [orjson.loads(line) for line in made.otlp_lines(MEGABYTE)]
    for number, line in enumerate(lines):
        said = {"key": "service.name", "value": {"stringValue": f"shop {number}"}}
        line["resourceSpans"][0]["resource"]["attributes"] = [said]
    text = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    (tmp_path / "f").write_bytes(text)
    in_memory = list(runs_in("otlp", Source(text, "f")))

    monkeypatch.setattr(fast_json, "_HEADS_BYTES", kept_bytes)
    monkeypatch.setattr(piece_groups.PieceGroups.__init__, "__defaults__", (100_000,))
    read_again = list(runs_in("otlp", read_source(tmp_path / "f")))

    assert len({run.metadata["service"] for run in in_memory}) > 2
    assert sorted(read_again, key=lambda run: run.id) == sorted(in_memory, key=lambda run: run.id)


def test_spans_are_found_again_however_a_line_is_written(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [orjson.loads(line) for line in made.otlp_lines(MEGABYTE)]
    spaced = b"".join(json.dumps(value, separators=(" ,  ", " : ")).encode() + b"\r\n" for value in values)
    listed = b"".join(orjson.dumps([value], option=orjson.OPT_APPEND_NEWLINE) for value in values)
    expected = list(runs_in("otlp", Source(spaced, "f")))

    monkeypatch.setattr(piece_groups.PieceGroups.__init__, "__defaults__", (100_000,))
    monkeypatch.setattr(piece_groups.tempfile, "TemporaryFile", None)
    for text in (spaced, listed):
        (tmp_path / "f").write_bytes(text)
        assert list(runs_in("otlp", read_source(tmp_path / "f"))) == expected


ITEMS = st.lists(st.sampled_from([b"{}", b'{"a":1}', b'{"a":11}', b"7", b'"' + b"x" * 100 + b'"']), max_size=8)


@given(ITEMS, st.sampled_from([b",", b" , ", b",\n"]), st.data())
def test_what_is_found_at_a_place_is_what_was_looked_for(items: list[bytes], by: bytes, data: st.DataObject) -> None:
    text = b'{"spans":[' + by.join(items) + b"]}"
    end = 0
    for item in items:
        place = fast_json.place_of(Raw(item), text, end)
        assert place is None or text[place : place + len(item)] == item
        assert place is None or place >= end
        end = end if place is None else place + len(item)
    wanted = data.draw(st.binary(min_size=1, max_size=3))
    assert (fast_json.place_of(Raw(wanted), text, 0) is None) >= (wanted not in text)


def test_the_runs_of_otlp_hold_all_that_its_spans_say(made: Any) -> None:
    text = b"".join(made.otlp_lines(2 * MEGABYTE))
    scopes = [orjson.loads(line)["resourceSpans"][0]["scopeSpans"][0] for line in text.splitlines()]
    spans = [span for scope in scopes for span in scope["spans"]]

    runs = list(runs_in("otlp", Source(text, "f")))

    assert {run.id for run in runs} == {span["traceId"] for span in spans}
    assert sum(len(run.llm_calls) for run in runs) == sum(span["name"].startswith("chat") for span in spans)
    assert sum(len(run.tool_calls) for run in runs) == sum(span["name"].startswith("execute") for span in spans)
    asked = {  # every conversation, as long as it was
        len(orjson.loads(pair["value"]["stringValue"]))
        for span in spans
        for pair in span["attributes"]
        if pair["key"] == "gen_ai.input.messages" and span["name"].startswith("chat")
    }
    assert {len(call.arguments["messages"]) for run in runs for call in run.llm_calls} == asked
    for call in (call for run in runs for call in run.llm_calls):
        assert bytes(call.arguments_json) == orjson.dumps(call.arguments, option=orjson.OPT_SORT_KEYS), "canonical"


def test_the_runs_of_langsmith_hold_all_that_its_lines_say(made: Any) -> None:
    text = b"".join(made.langsmith_lines(400))
    lines = [orjson.loads(line) for line in text.splitlines()]

    runs = list(runs_in("langsmith", Source(text, "f")))

    assert {run.id for run in runs} == {line["trace_id"] for line in lines}
    assert sum(len(run.llm_calls) for run in runs) == sum(line["run_type"] == "llm" for line in lines)
    assert sum(len(run.tool_calls) for run in runs) == sum(line["run_type"] == "tool" for line in lines)


@sampled(("name", "size"), [("otlp", 8 * MEGABYTE), ("langsmith", 1000)], count=1)
@pytest.mark.exhaustive
def test_memory_does_not_grow_with_the_file(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    monkeypatch.setattr(piece_groups.PieceGroups.__init__, "__defaults__", (2 * MEGABYTE,))
    peaks = []
    for times in (1, 3):
        file = tmp_path / f"{times}.jsonl"
        with file.open("wb") as stream:
            stream.writelines(made.FORMATS[name](times * size))
        peaks.append(peak_of(name, file))

    assert file.stat().st_size > 20 * MEGABYTE
    assert peaks[1] - peaks[0] < 1.5 * MEGABYTE


def peak_of(name: str, file: Path) -> int:
    with traced_memory() as peak:
        assert sum(1 for _run in runs_in(name, read_source(file))) > 40
    return peak()


def test_a_wrong_byte_in_a_span_stops_no_other_trace(made: Any) -> None:
    text = b"".join(made.otlp_lines(MEGABYTE))
    place = text.index(b"Looks into the shop", 200_000)
    wrong = text[:place] + b"\xff" + text[place + 1 :]
    expected = list(runs_in("otlp", Source(text, "f")))

    *read, problem = IMPORTERS.get("otlp").read(Source(wrong, "f"))

    assert isinstance(problem, InvalidFile)
    assert problem.line == text.count(b"\n", 0, place) + 1
    assert str(problem).count("1 spans are not OTLP: not JSON") == 1
    assert sum(run in read for run in expected) == len(expected) - 1
