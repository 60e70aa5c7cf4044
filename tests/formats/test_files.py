"""Trace files of any sort, good and bad."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError, UsageError
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Note
from replaykit.model.run import TraceRun, encode_run

SEARCH_LOOP = Path(__file__).parents[2] / "examples" / "traces" / "search-loop.json"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"", None, "empty"),
        (b" \n\t", None, "empty"),
        (b"hello", 1, "not JSON"),
        (b'{\n"a": 1,\n}', 2, "not JSON: trailing comma"),
        (b'{"a": "\xff"}', 1, "not JSON"),
        (b"[" * 5000, 1, "not JSON: nested deeper than 500 levels"),
        (b"{}", None, "not a trace of a known format"),
        (b"[]", None, "not a trace of a known format"),
        (b'"text"', None, "not a trace of a known format"),
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path, text, line, message):
    file = tmp_path / "trace.json"
    file.write_bytes(text)

    with pytest.raises(InvalidFile) as caught:
        import_trace(file)

    assert message in caught.value.reason
    assert caught.value.line == line


def test_a_missing_file_a_directory_and_a_pipe_are_told_apart(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    for name, message in [("none.json", "no such file"), ("", "is a directory"), ("pipe", "not a regular file")]:
        with pytest.raises(InvalidFile, match=message):
            import_trace(tmp_path / name)


def test_a_file_above_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("replaykit.formats.core.source.MAX_BYTES", 100)
    file = tmp_path / "big.json"
    file.write_bytes(b" " * 101)

    with pytest.raises(InvalidFile, match="larger than 100 bytes"):
        _ = read_source(file).text


def test_a_format_can_be_named_and_a_wrong_name_is_told():
    assert import_trace(SEARCH_LOOP, "replaykit").format == "replaykit"

    with pytest.raises(UsageError, match="did you mean 'replaykit'"):
        import_trace(SEARCH_LOOP, "replaykti")


def test_a_byte_order_mark_does_no_harm():
    text = b"\xef\xbb\xbf" + SEARCH_LOOP.read_bytes()

    assert import_source(Source(text, "t")).runs == import_trace(SEARCH_LOOP).runs


def test_a_run_log_comes_back_as_the_run_it_was():
    run = import_trace(SEARCH_LOOP).runs[0]

    got = import_source(Source(encode_run(run), "run.json"))

    assert got.format == "run_log"
    assert got.runs == (run,)


def test_a_run_log_that_was_reformatted_by_hand_is_the_same_run():
    run = import_trace(SEARCH_LOOP.with_name("wrong-tool-argument.json")).runs[0]

    pretty = msgspec.json.format(encode_run(run), indent=4)

    assert import_source(Source(pretty, "run.json")).runs == (run,)


def test_a_run_log_of_a_newer_version_is_refused_with_what_to_do():
    with pytest.raises(FormatTooNew) as caught:
        import_source(Source(b'{"replaykit": 3, "run": {"id": "r"}}', "run.json"))

    assert "version 3" in str(caught.value)
    assert "pip install" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b'{"replaykit": "1",\n"run": {}}', 1),
        (b'{"replaykit": 1,\n"run": {}}', 2),
        (b'{"replaykit": 1,\n"run": {"id": "r", "events": [\n{"type": "tool_call", "seq": 0}]}}', 3),
        (b'{"replaykit": 1,\n"run": {"id": "r", "events": [{"type": "note",\n"seq": "x"}]}}', 3),
    ],
)
def test_a_damaged_run_log_is_told_with_its_line(text, line):
    with pytest.raises(InvalidFile) as caught:
        import_source(Source(text, "run.json"))

    assert caught.value.line == line


def test_another_importer_can_be_added():
    class Lines:
        name = "lines"
        title = "Lines"

        def recognises(self, source):
            return source.text.startswith(b"LINES")

        def read(self, source):
            yield import_trace(SEARCH_LOOP).runs[0]

    IMPORTERS.register("lines")(Lines())
    try:
        assert import_source(Source(b"LINES\n...", "x")).runs[0].id == "run-billing-2024-0312"
    finally:
        del IMPORTERS._entries["lines"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.sampled_from([b"{" * 9, b'{"events":[],"run_id":', b'{"replaykit":1,"run":[]}']))
@example(b'{"replaykit": 1, "run": {"id": "r", "input": ' + b"[" * 500 + b"]" * 500 + b"}}")
def test_any_bytes_give_a_run_or_an_error_of_ours(tmp_path, text):
    file = tmp_path / "trace.json"
    file.write_bytes(text)

    for format in (None, *IMPORTERS):
        try:
            import_trace(file, format)
        except ReplayKitError as error:
            assert str(error)  # noqa: PT017 (either way is fine, a crash is not)


@settings(max_examples=examples(200))
@given(st.data())
def test_a_damaged_trace_gives_a_run_or_an_error_of_ours(data):
    text = bytearray(SEARCH_LOOP.read_bytes())
    for _hit in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        text[start : start + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=4))

    try:
        import_source(Source(bytes(text), "t.json"))
    except ReplayKitError as error:
        assert str(error)  # noqa: PT017 (either way is fine, a crash is not)


def test_events_of_a_run_log_come_in_the_order_of_their_numbers():
    events = [Note(seq=seq, name=f"n{seq}") for seq in (4, 0, 2)]
    run = TraceRun(id="r", name="n", events=tuple(events))

    (read,) = import_source(Source(encode_run(run), "run.json")).runs

    assert [event.seq for event in read.events] == [0, 2, 4]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seq": 0}, "another event has the number 0 already"),
        ({"seq": 1, "parent": 1}, "an event is inside of one that begins after it"),
    ],
)
def test_events_of_a_run_log_whose_numbers_cannot_be_are_refused(more, message):
    events = (Note(seq=0, name="a"), Note(**{"name": "b", **more}))
    text = msgspec.json.format(encode_run(TraceRun(id="r", name="n", events=events)))

    with pytest.raises(InvalidFile, match=message) as caught:
        import_source(Source(text, "run.json"))

    assert caught.value.line is not None
