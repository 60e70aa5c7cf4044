"""Bodies in pieces: nothing hides at a border, and every border stays."""

from __future__ import annotations

import json

import pytest

from replaykit.redaction import Redactor

SECRET = "sk-proj-" + "aB3dE5gH7jK9" * 5
MAIL = "jane@example.com"


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_plain_text_may_be_cut_anywhere(redactor: Redactor, size: int) -> None:
    body = f"grüße 🙂: the key {SECRET} and {MAIL} — end".encode()
    chunks = cut(body, size)

    after = redactor.chunks(chunks)

    assert len(after) == len(chunks)
    assert b"".join(after) == redactor.raw(body)
    assert SECRET.encode() not in b"".join(after)


def test_a_placeholder_stands_in_the_first_piece_it_touches(redactor: Redactor) -> None:
    after = redactor.chunks(["to ja", "ne@exam", "ple.com!", "ok"])

    assert after[0].startswith("to <email:")
    assert after[1:] == ["", "!", "ok"]


def openai(text: str, index: int = 0) -> dict[str, object]:
    return {"id": "c1", "choices": [{"index": index, "delta": {"content": text}}]}


def anthropic(text: str, index: int = 0) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def responses(text: str, index: int = 0) -> dict[str, object]:
    return {
        "type": "response.output_text.delta",
        "item_id": "m",
        "output_index": index,
        "sequence_number": len(text),
        "delta": text,
    }


def gemini(text: str, index: int = 0) -> dict[str, object]:
    return {"candidates": [{"content": {"parts": [{"text": text}]}, "index": index}]}


def vercel(text: str, index: int = 0) -> dict[str, object]:
    return {"type": "text-delta", "id": str(index), "delta": text}


@pytest.mark.parametrize("vendor", [openai, anthropic, responses, gemini, vercel])
@pytest.mark.parametrize("form", ["data: {}\n\n", "{}\n", "event: x\r\ndata: {}\r\n\r\n"])
def test_a_value_in_deltas_is_found_whatever_the_vendor(redactor: Redactor, vendor: object, form: str) -> None:
    pieces = ["my key ", SECRET[:9], SECRET[9:30], SECRET[30:] + ' "ok" ', f"and {MAIL[:4]}", MAIL[4:], "\nbye"]
    chunks = [form.format(json.dumps(vendor(piece))).encode() for piece in pieces]  # type: ignore[operator]

    after = redactor.chunks(chunks)

    whole = b"".join(after).decode()
    payloads = [line[line.index("{") :] for line in whole.splitlines() if "{" in line]
    events = [json.loads(payload) for payload in payloads]
    assert len(after) == len(chunks)
    assert len(events) == len(pieces)
    assert SECRET[9:30] not in whole
    assert MAIL[4:] not in whole
    assert whole.count("<openai-key:") == 1
    assert whole.count("<email:") == 1
    assert redactor.chunks(after) is after


def test_parts_that_are_numbered_apart_are_not_joined(redactor: Redactor) -> None:
    chunks = [
        json.dumps(openai(text, index)) + "\n" for text, index in [("jane@exam", 0), ("nothing", 1), ("ple.com", 0)]
    ]

    after = redactor.chunks(chunks)

    assert "nothing" in after[1]
    assert "ple.com" not in after[2]


def test_arguments_in_deltas_are_read_as_the_json_that_they_become(redactor: Redactor) -> None:
    pieces = ['{"pass', 'word": "hun', "ter2x", '", "n": 1}']
    chunks = [json.dumps({"index": 1, "delta": {"partial_json": piece}}) + "\n" for piece in pieces]

    after = redactor.chunks(chunks)

    joined = "".join(json.loads(chunk)["delta"]["partial_json"] for chunk in after)
    value = json.loads(joined)
    assert value["n"] == 1
    assert value["password"].startswith("<secret:")
    assert "ter2x" not in "".join(after)


def test_text_events_are_one_text(redactor: Redactor) -> None:
    after = redactor.chunks([b"data: jane@ex\n\n", b"data: ample.com\n\n", b"data: [DONE]\n\n"])

    assert b"ample.com" not in b"".join(after)
    assert after[2] == b"data: [DONE]\n\n"


def test_a_whole_answer_in_pieces_stays_valid_json(redactor: Redactor) -> None:
    body = json.dumps({"user": {"password": "hunter2", "n": 1.5}, "to": MAIL}).encode()

    after = redactor.chunks(cut(body, 5))

    assert json.loads(b"".join(after))["user"]["n"] == 1.5
    assert b"hunter2" not in b"".join(after)
    assert redactor.chunks([]) == []
