"""AWS event streams: frames that prove themselves, and exceptions among them."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.wire.eventstream import EventStreamSplitter, encode_frames
from replaykit.wire.frames import Frame

DAMAGED = "a damaged frame in an AWS event stream"


def header(name: str, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + bytes([kind]) + value


def text(name: str, value: str) -> bytes:
    return header(name, 7, struct.pack(">H", len(value)) + value.encode())


def frame(payload: bytes, *headers: bytes) -> bytes:
    told = b"".join(headers)
    sizes = struct.pack(">II", 16 + len(told) + len(payload), len(told))
    message = sizes + struct.pack(">I", zlib.crc32(sizes)) + told + payload
    return message + struct.pack(">I", zlib.crc32(message))


def split(whole: bytes) -> tuple[list[Frame], str | None]:
    splitter = EventStreamSplitter()
    return [*splitter.feed(whole), *splitter.close()], splitter.problem


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_what_is_written_is_read(events: list[bytes]) -> None:
    written = b"".join(encode_frames([Frame(event) for event in events]))

    assert split(written) == ([Frame(event) for event in events], None)


def test_a_changed_byte_is_found_wherever_it_is() -> None:
    whole = b"".join(encode_frames([Frame(b"one")]))
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1

        assert split(bytes(changed)) == ([], DAMAGED)


def test_after_a_damaged_frame_nothing_is_believed() -> None:
    good = b"".join(encode_frames([Frame(b"one")]))
    splitter = EventStreamSplitter()

    assert splitter.feed(good) == [Frame(b"one")]
    assert splitter.feed(good[:-1] + b"!") == []
    assert splitter.feed(good) == []
    assert splitter.close() == []
    assert splitter.problem == DAMAGED


@pytest.mark.parametrize("size", [0, 15, 2**31])
def test_a_size_that_cannot_be_is_damage_and_nothing_is_kept_for_it(size: int) -> None:
    sizes = struct.pack(">II", size, 0)

    assert split(sizes + struct.pack(">I", zlib.crc32(sizes))) == ([], DAMAGED)


def test_a_frame_that_was_cut_is_not_whole() -> None:
    whole = b"".join(encode_frames([Frame(b"one")]))

    frames, problem = split(whole[:-1])

    assert ([frame.whole for frame in frames], problem) == ([False], None)


def test_headers_of_every_type_are_read_over() -> None:
    values = {0: b"", 1: b"", 2: b"x", 3: b"xx", 4: b"xxxx", 5: b"x" * 8, 6: b"\0\2ab", 8: b"x" * 8, 9: b"x" * 16}
    odd = [header(f"h{kind}", kind, value) for kind, value in values.items()]

    assert split(frame(b'{"bytes": "aGk="}', *odd, text(":message-type", "event"))) == ([Frame(b"hi")], None)


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05ab",
        b"\x01a",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x09x",
        b"\x01a\x63",
        b"\x01\xff\x07\x00\x01a",
        b"\x01a\x04xx",
    ],
)
def test_headers_that_make_no_sense_are_damage(headers: bytes) -> None:
    assert split(frame(b"{}", headers)) == ([], DAMAGED)


def test_an_exception_is_an_error_event() -> None:
    thrown = frame(
        b'{"message": "Too many tokens"}',
        text(":exception-type", "throttlingException"),
        text(":message-type", "exception"),
    )
    failed = frame(b"", text(":error-code", "500"), text(":error-message", "oops"), text(":message-type", "error"))

    frames, problem = split(thrown + failed)

    assert [json.loads(frame.data)["error"] for frame in frames] == [
        {"type": "throttlingException", "message": "Too many tokens"},
        {"type": "500", "message": "oops"},
    ]
    assert problem is None


@pytest.mark.parametrize("payload", [b"", b"{}", b'{"bytes": 5}', b'{"bytes": "!"}', b"[]", b"\xff"])
def test_a_payload_without_an_event_is_given_as_it_is(payload: bytes) -> None:
    assert [frame.data for frame in split(frame(payload, text(":message-type", "event")))[0]] == [payload]
