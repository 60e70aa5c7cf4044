"""Streams are cut into frames by their bytes alone, however they came in chunks."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replaykit.wire import frames as module
from replaykit.wire.eventstream import EventStreamSplitter, encode_frames
from replaykit.wire.frames import ArraySplitter, Frame, LineSplitter, Splitter, SseSplitter

KINDS = [SseSplitter, LineSplitter, ArraySplitter, EventStreamSplitter]


def split(splitter: Splitter, *chunks: bytes) -> tuple[list[Frame], str | None]:
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    frames += splitter.close()
    return frames, splitter.problem


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted(place % (len(whole) + 1) for place in places)
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def sse(text: bytes) -> list[Frame]:
    frames, problem = split(SseSplitter(), text)
    assert problem is None
    return frames


class TestSse:
    def test_an_event_has_data_and_may_have_a_name(self) -> None:
        assert sse(b"event: ping\ndata: {}\n\ndata: x\n\n") == [Frame(b"{}", "ping"), Frame(b"x")]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_lines_end_in_three_ways(self, end: bytes) -> None:
        text = end.join([b"event: a", b"data: 1", b"", b"data: 2", b"data: 3", b"", b""])

        assert sse(text) == [Frame(b"1", "a"), Frame(b"2\n3")]

    def test_only_one_space_after_the_colon_is_dropped(self) -> None:
        assert sse(b"data:a\n\ndata: a\n\ndata:  a\n\ndata\n\n") == [
            Frame(b"a"),
            Frame(b"a"),
            Frame(b" a"),
            Frame(b""),
        ]

    def test_comments_ids_and_retries_are_passed_over(self) -> None:
        assert sse(b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\ndata: x\n\n:\n\n") == [Frame(b"x")]

    def test_a_name_without_data_is_no_event_and_does_not_stick(self) -> None:
        assert sse(b"event: a\n\ndata: x\n\n") == [Frame(b"x")]

    def test_a_byte_order_mark_at_the_start_is_dropped(self) -> None:
        assert sse(b"\xef\xbb\xbfdata: x\n\n") == [Frame(b"x")]

    def test_what_never_ended_is_given_but_not_as_whole(self) -> None:
        assert sse(b"data: x\n\ndata: [DONE]") == [Frame(b"x"), Frame(b"[DONE]", whole=False)]
        assert sse(b"event: a\ndata: x\n") == [Frame(b"x", "a", whole=False)]

    def test_a_line_that_is_no_field_is_told(self) -> None:
        frames, problem = split(SseSplitter(), b"data: x\n\n<html>oops\n\ndata: y\n\n")

        assert frames == [Frame(b"x"), Frame(b"y")]
        assert problem == "a line that is not a field of an event: b'<html>oops'"

    def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(self) -> None:
        assert sse(b"event: \xff\ndata: x\n\n") == [Frame(b"x", "\ufffd")]


class TestLines:
    def test_every_line_is_a_frame(self) -> None:
        assert split(LineSplitter(), b'{"a": 1}\n\n  \r\n{"b": 2}\r\n')[0] == [Frame(b'{"a": 1}'), Frame(b'{"b": 2}\r')]

    def test_the_last_line_may_lack_its_end(self) -> None:
        assert split(LineSplitter(), b"{}\n{")[0] == [Frame(b"{}"), Frame(b"{", whole=False)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('a"\\{}[],é\n'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


class TestArrays:
    @given(st.lists(json_values, max_size=4), st.lists(st.integers(0, 10_000), max_size=12), st.sampled_from([None, 2]))
    def test_the_items_of_an_array_are_its_frames(
        self, values: list[object], places: list[int], indent: int | None
    ) -> None:
        text = json.dumps(values, indent=indent, ensure_ascii=False).encode()

        frames, problem = split(ArraySplitter(), *cut(text, places))

        assert [json.loads(frame.data) for frame in frames] == values
        assert all(frame.whole for frame in frames)
        assert problem is None

    def test_an_array_without_its_end_was_cut(self) -> None:
        end = Frame(b"", whole=False)

        assert split(ArraySplitter(), b'[{"a": "]"},{"b"')[0] == [
            Frame(b'{"a": "]"}'),
            Frame(b'{"b"', whole=False),
            end,
        ]
        assert split(ArraySplitter(), b"[{}")[0] == [Frame(b"{}", whole=False), end]
        assert split(ArraySplitter(), b"[{},")[0] == [Frame(b"{}"), end]


STREAMS = {
    SseSplitter: b"event: a\r\ndata: {\r\ndata: }\r\n\r\r\n\n: c\ndata: \xc3\xa9\n\nbad\n\ndata: x",
    LineSplitter: b'{"a": "\xe2\x9d\x84"}\r\n\n{"b": 2}\n{"c',
    ArraySplitter: b'[{"a": "\\\\"},\r\n["\\"]", {"b": [1, 2]}], "\xe2\x9d\x84\\\\\\"", 5 ] ',
    EventStreamSplitter: b"".join(encode_frames([Frame(b'{"type": "x"}'), Frame(b"[1, 2]"), Frame(b"")])) + b"\0\0",
}


@pytest.mark.parametrize("kind", KINDS)
@given(places=st.lists(st.integers(0, 10_000), max_size=30))
@example(places=list(range(400)))
def test_frames_depend_on_the_bytes_alone(kind: type[Splitter], places: list[int]) -> None:
    whole = STREAMS[kind]

    assert split(kind(), *cut(whole, places)) == split(kind(), whole)


@pytest.mark.parametrize("kind", KINDS)
@given(whole=st.binary(max_size=80), places=st.lists(st.integers(0, 100), max_size=10))
@example(whole=b"\r\n\r\ndata: \r", places=[1, 2, 3])
@example(whole=b'["\\', places=[2, 3])
def test_so_do_the_frames_of_any_bytes(kind: type[Splitter], whole: bytes, places: list[int]) -> None:
    assert split(kind(), *cut(whole, places)) == split(kind(), whole)


@pytest.mark.parametrize(
    ("kind", "endless"), [(SseSplitter, b"data: "), (SseSplitter, b":"), (LineSplitter, b"{"), (ArraySplitter, b'["')]
)
def test_what_never_ends_is_not_kept_without_bound(
    kind: type[Splitter], endless: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FRAME", 1000)
    splitter = kind()

    frames = splitter.feed(endless)
    for _ in range(50):
        frames += splitter.feed(b"x" * 100)

    assert [*frames, *splitter.close()] in ([], [Frame(b"", whole=False)])
    assert splitter.problem
    assert "more than 1000 bytes" in splitter.problem


def test_an_event_of_many_lines_is_not_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FRAME", 1000)
    frames, problem = split(SseSplitter(), *[b"data: 0123456789\n"] * 100, b"\n", b"data: next\n\n")

    assert frames == [Frame(b"next")]
    assert problem == "an event of more than 1000 bytes"
