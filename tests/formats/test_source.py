"""Sources: files of any size, packed or not, read no further than asked, with the line of what is wrong."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.memory import traced_memory

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import STDIN, FileSource, PipeSource, Source, read_source
from replaykit.formats.files import importer_of

DOCUMENTS = [{"n": 1, "text": "ä"}, {"n": 2}, [3], {"n": 4}]
LINES = "".join(f"{json.dumps(document)}\n" for document in DOCUMENTS).encode()
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "zst of a stream": lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
}
packs = pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS.keys())


class Dribble(io.RawIOBase):
    """A pipe: it cannot go back, and gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int = 7) -> None:
        self._data = data
        self._size = size
        self.given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        found = self._data[self.given : self.given + min(self._size, size)]
        self.given += len(found)
        return found


def file_of(data: bytes, name: str = "trace") -> Source:
    Path(name).write_bytes(data)
    return read_source(name)


def pipe_of(data: bytes) -> Source:
    return PipeSource(Dribble(data))


WAYS: dict[str, Callable[[bytes], Source]] = {"file": file_of, "pipe": pipe_of, "bytes": lambda data: Source(data, "x")}
ways = pytest.mark.parametrize("way", [file_of, pipe_of], ids=["file", "pipe"])
all_ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def values(source: Source) -> list[object]:
    return [document.value for document in source.documents()]


@packs
@ways
def test_lines_are_documents_packed_or_not(pack: Callable[[bytes], bytes], way: Callable[[bytes], Source]) -> None:
    source = way(pack(LINES))

    assert source.is_text
    assert source.is_lines
    assert source.first == tuple(DOCUMENTS)
    assert values(source) == DOCUMENTS


@packs
@ways
def test_one_document_is_read_as_a_whole(pack: Callable[[bytes], bytes], way: Callable[[bytes], Source]) -> None:
    source = way(pack(json.dumps(DOCUMENTS, indent=1).encode()))

    assert not source.is_lines
    assert source.first == (DOCUMENTS,)
    (only,) = source.documents()
    assert only.value == DOCUMENTS


@all_ways
def test_a_document_on_one_line_is_no_file_of_lines(way: Callable[[bytes], Source]) -> None:
    for text in (b'{"a": [1, 2]}', b'{"a": [1, 2]}\n', b'\n\n{"a": [1, 2]}\n\n'):
        source = way(text)
        assert (source.is_lines, source.first, values(source)) == (False, ({"a": [1, 2]},), [{"a": [1, 2]}])


@all_ways
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"  \r\n \r\n"])
def test_ends_of_lines_and_empty_lines_do_not_matter(way: Callable[[bytes], Source], end: bytes) -> None:
    source = way(end.join([b'{"a": 1}', b'{"b": 2}', b""]))

    assert values(source) == [{"a": 1}, {"b": 2}]


@all_ways
@pytest.mark.parametrize("text", [b'{"a": 1}', b'{"a": 1}\n{"b": 2}'])
def test_a_byte_order_mark_is_no_part_of_the_text(way: Callable[[bytes], Source], text: bytes) -> None:
    source = way(b"\xef\xbb\xbf" + text)

    assert source.head == text
    assert source.first[0] == {"a": 1}
    assert values(source)[0] == {"a": 1}


@packs
@pytest.mark.parametrize("text", [b"", b" \n\r\n\t "])
def test_an_empty_file_says_so(pack: Callable[[bytes], bytes], text: bytes) -> None:
    source = file_of(pack(text))

    assert (source.is_lines, source.first) == (False, ())
    with pytest.raises(InvalidFile, match="trace: the file is empty"):
        values(source)


@all_ways
def test_a_bad_line_says_so_with_its_number_and_stops_no_other(way: Callable[[bytes], Source]) -> None:
    source = way(b'{"a": 1}\n\n{"b": \n{"c": 3}\n')
    found: list[object] = []
    for document in source.documents():
        try:
            found.append(document.value)
        except InvalidFile as error:
            found.append((error.line, error.reason.split(":")[0]))

    assert found == [{"a": 1}, (3, "not JSON"), {"c": 3}]


@all_ways
def test_a_bad_first_line_hides_no_other(way: Callable[[bytes], Source]) -> None:
    source = way(b'starting up\n{"a": 1}\n{"b": 2}\n')

    assert source.is_lines
    assert source.first == ({"a": 1}, {"b": 2})
    first, *others = source.documents()
    with pytest.raises(InvalidFile, match=":1: not JSON"):
        _ = first.value
    assert [other.value for other in others] == [{"a": 1}, {"b": 2}]


@all_ways
def test_a_list_with_an_item_on_each_line_is_one_document(way: Callable[[bytes], Source]) -> None:
    for text in (b'[\n{"a": 1},\n{"b": 2}\n]', b'[{"a": 1},\n{"b": 2}]', b"[\n[],\n[{}]\n]"):
        source = way(text)
        assert not source.is_lines
        assert values(source) == [json.loads(text)]


@all_ways
def test_a_list_on_each_line_is_a_document_each(way: Callable[[bytes], Source]) -> None:
    assert values(way(b'[{"a": 1}]\n[{"b": 2}, {"c": 3}]\n')) == [[{"a": 1}], [{"b": 2}, {"c": 3}]]


def test_an_error_in_a_line_bears_the_line_of_the_file() -> None:
    _, second = file_of(b'{"a": 1}\n{"b": {"c": 2}}').documents()

    assert second.error("no such thing", ("b", "c")).line == 2
    assert str(second.error("no such thing", ("b",))) == "trace:2: no such thing"


@pytest.mark.parametrize("name", ["gz", "zst", "zst of a stream"])
@ways
def test_a_pack_that_was_cut_is_never_taken_for_a_short_one(name: str, way: Callable[[bytes], Source]) -> None:
    lines = b"".join(b'{"id": "%s"}\n' % os.urandom(40).hex().encode() for _ in range(400))
    packed = PACKS[name](lines)

    for cut in (len(packed) - 1, len(packed) - 9, len(packed) // 2, 5):
        with pytest.raises(InvalidFile, match="cannot be unpacked"):
            values(way(packed[:cut]))


@pytest.mark.parametrize("name", ["gz", "zst"])
def test_a_damaged_pack_says_so(name: str) -> None:
    summed = {**PACKS, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}
    packed = bytearray(summed[name](LINES * 50))
    packed[len(packed) // 2] ^= 0xFF

    with pytest.raises(InvalidFile, match="cannot be unpacked"):
        values(file_of(bytes(packed)))


@pytest.mark.parametrize("name", ["gz", "zst", "zst of a stream"])
@ways
def test_packs_behind_one_another_are_read_to_the_end(name: str, way: Callable[[bytes], Source]) -> None:
    packed = b"".join(PACKS[name](f'{{"n": {number}}}\n'.encode()) for number in range(3))

    assert values(way(packed)) == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize("name", ["gz", "zst"])
def test_a_bomb_is_stopped_at_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1024 * 1024
    monkeypatch.setattr("replaykit.formats.core.source.MAX_BYTES", limit)
    source = file_of(PACKS[name](b"[" + b" " * 64 * limit + b"]"))

    with traced_memory() as peak, pytest.raises(InvalidFile, match=r"(larger|longer) than 1,048,576 bytes"):
        values(source)
    assert peak() < 48 * limit


def test_a_window_that_would_take_all_memory_is_refused() -> None:
    # A frame whose header asks for a window of 3.75 TiB.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0xFF]) + b"\x01\x00\x00"

    with pytest.raises(InvalidFile, match="cannot be unpacked"):
        values(file_of(frame))


@all_ways
def test_a_line_that_is_too_long_is_told_with_its_number(
    way: Callable[[bytes], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.formats.core.source.MAX_BYTES", 100)
    lines = [b'{"a": 1}'] * 12 + [b'{"b": "%s"}' % (b"x" * 200)]

    with pytest.raises(InvalidFile) as caught:
        values(way(b"\n".join(lines)))

    assert (caught.value.line, caught.value.reason) == (13, "longer than 100 bytes")


def test_a_long_file_of_lines_is_never_held() -> None:
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    Path("long.jsonl").write_bytes(line * 40_000)

    with traced_memory() as peak:
        source = read_source("long.jsonl")
        assert source.first
        count = sum(1 for document in source.documents() if document.value)

    assert count == 40_000
    assert peak() < 10_000_000


def test_recognising_what_comes_through_a_pipe_reads_little_of_it() -> None:
    pipe = Dribble(LINES * 100_000, size=1 << 16)
    source = PipeSource(pipe)

    assert source.first
    assert pipe.given <= 1 << 17
    assert sum(1 for _ in source.documents()) == 4 * 100_000


def test_a_pipe_is_not_kept_while_it_is_read() -> None:
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    source = PipeSource(Dribble(line * 40_000, size=1 << 16))

    with traced_memory() as peak:
        assert sum(1 for document in source.documents() if document.value) == 40_000

    assert peak() < 10_000_000


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))

    source = read_source(STDIN)

    assert source.file == "-"
    assert values(source) == DOCUMENTS


@pytest.mark.parametrize("data", [b"\x00\x01{}", b"\x89PNG\r\n\x1a\n\x00", b"\xff\xfe{\x00}\x00", b"\xc3\x28"])
def test_a_binary_file_is_no_text_and_has_no_first_document(data: bytes) -> None:
    source = file_of(data)

    assert (source.is_text, source.is_lines, source.first) == (False, False, ())
    assert [document is source for document in source.documents()] == [True]


def test_a_file_knows_whether_it_is_packed() -> None:
    packed = {}
    for name, pack in PACKS.items():
        source = file_of(pack(LINES), name)
        assert isinstance(source, FileSource)
        packed[name] = source.is_packed

    assert packed == {"plain": False, "gz": True, "zst": True, "zst of a stream": True}


def test_files_are_closed_when_nobody_reads_on() -> None:
    """A file that is left open is a warning, and warnings are errors here."""
    for pack in PACKS.values():
        documents = file_of(pack(LINES)).documents()
        next(iter(documents))
        del documents


@given(st.binary(max_size=200), st.sampled_from(["plain", "gz", "zst"]), st.booleans(), st.integers(0, 300))
def test_any_bytes_give_values_or_an_error_with_the_file(data: bytes, name: str, piped: bool, cut: int) -> None:
    packed = PACKS[name](data)[:cut]
    source = PipeSource(Dribble(packed)) if piped else file_of(packed)
    blamed: list[str] = []

    try:
        assert isinstance(source.first, tuple)
        for document in source.documents():
            _ = document.value
    except InvalidFile as error:
        blamed.append(error.file)

    assert set(blamed) <= {"-" if piped else "trace"}


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), min_size=1), min_size=2),
    st.sampled_from(list(PACKS)),
    st.sampled_from([b"\n", b"\r\n", b"\n \n"]),
    st.booleans(),
)
def test_what_was_written_as_lines_is_read_as_it_was(
    documents: list[dict[str, object]], name: str, end: bytes, piped: bool
) -> None:
    data = PACKS[name](end.join(json.dumps(document).encode() for document in documents))
    source = PipeSource(Dribble(data)) if piped else file_of(data)

    assert values(source) == documents


@ways
def test_half_of_a_character_and_what_is_no_number_do_not_cost_the_file(way: Callable[[bytes], Source]) -> None:
    source = way(b'{"cut": "half \\ud83d", "whole": "\\ud83d\\ude00",\n"score": [NaN, -Infinity]}\n')

    assert source.value == {"cut": "half \ufffd", "whole": "\U0001f600", "score": ["nan", "-inf"]}


@pytest.mark.parametrize(
    "text", [b'["\\ud83d"', b"[NaN," + b"[" * 50_000, b'{"a": "\\ud83d"}'.decode().encode("utf-16-le")]
)
def test_what_is_broken_otherwise_is_still_no_json(text: bytes) -> None:
    with pytest.raises(InvalidFile, match="not JSON"):
        _ = Source(text, "x").value


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_trace_in_utf_16_says_so(encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""

    with pytest.raises(InvalidFile, match=r"(?s)UTF-16.*iconv"):
        importer_of(file_of(mark + '{"messages": []}'.encode(encoding)))
