"""Bodies in pieces: nothing hides at a border, and every border stays."""

from __future__ import annotations

import json
import re
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.redaction import Redactor
from replaykit.redaction.stream_texts import ALSO_APART, TELLS_APART, Alike, joined_texts, tokens_of
from replaykit.redaction.streams import _events, _members, is_plainly_clean

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

    assert after[0].startswith("to p-")
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
    assert whole.count("redacted.invalid") == 1
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


members = st.sampled_from(
    ["id", "index", "type", "name", "content", "delta", "key", "value", "a.b", "ab", "a[0]", "", "ü"]
)
said = st.sampled_from(["", "a", "b", "index", "name", 'say "x"', "back\\", "\n", "日", 0, 1, 1.0, True, None])
values = st.recursive(
    said, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=4), max_leaves=8
)
events = st.dictionaries(members, values, min_size=1, max_size=4)
small, few, letters = st.sampled_from([0, 1]), st.sampled_from(["a", "b"]), st.sampled_from("cdefghi")
calls = st.fixed_dictionaries(
    {"index": small}, optional={"id": few, "arguments": letters, "function": st.just({"name": "a"})}
)
choices = st.fixed_dictionaries(
    {"index": small, "delta": st.fixed_dictionaries({"content": letters, "calls": st.lists(calls)})}
)
usual = st.fixed_dictionaries(
    {"choices": st.lists(choices, max_size=2)}, optional={"id": few, "type": few, "text": letters}
)
lines = st.sampled_from(
    ["event: x", ": ping", "data: [DONE]", "data: [1, 2]", "{no json", 'data:{"id": "a", "id": "b"}']
)
single = (events | usual).map(lambda event: "data: " + json.dumps(event)) | lines
texts = st.sampled_from(
    ["", "c", "d", "e f", r"\n", r"\"", r"\\", r"\u00e9", r"\u00", "e9", r"\ud83d", r"\ude00", r"\q", "\t", "é", "日"]
)
templates = st.sampled_from(
    [
        '{"id": "a", "model": "T", "choices": [{"index": 0, "delta": {"content": "T"}}]}',
        '{"type":"delta","item":"T","parts":["T", {"text":"T"}, "T"]}',
        '{"id": "T", "text": "T"}',
        '{"name": "T", "value": "T"}',
        '{"key": "T", "value": "T"}',
        '{"key": "index", "value": "T"}',
        '{"text": "T", "text": "T"}',
        '{"te\\u0069d": {"i\\u0064": "T", "x": "T"}}',
        '["T", "T"]',
        '{"text": "T"} x',
        '{"text": "T", "open',
        '{"seq": N, "index": 0, "text": "T"}',
        '{"index": N, "output_index": N, "text": "T"}',
        '{"text": "T", "list": [N, N, "T"], "more": {"n":N}}',
    ]
)
numbers = st.sampled_from(["0", "1", "12", "01", "-1", "1.5", "2e5"])


@st.composite
def alike(draw: st.DrawFn) -> list[str]:
    """Events of one form, valid or not."""
    template, few = draw(templates), draw(st.lists(texts, min_size=1, max_size=3))
    return ["data: " + filled(draw, template, st.sampled_from(few)) for _ in range(draw(st.integers(1, 4)))]


def filled(draw: st.DrawFn, template: str, some: st.SearchStrategy[str]) -> str:
    """The template with a text for each T, and a number for each N."""
    return re.sub("[TN]", lambda mark: draw(some if mark[0] == "T" else numbers), template)


@given(st.lists(single.map(lambda line: [line]) | alike(), max_size=4).map(lambda lists: [*chain(*lists)]))
@example(['{"id": "\\u00e9", "text": "x"}', '{"id": "\\u00e9", "text": "y"}', '{"id": "é", "text": "z"}'])
@example(['{"key": "id", "value": "x"}', '{"key": "id", "value": "y"}', '{"key": "type", "value": "x"}'])
@example(['{"text": "x\\u00"}', '{"text": "e9"}', '{"text": "z"}'])
@settings(max_examples=examples(600))
@pytest.mark.exhaustive
def test_a_quick_look_at_a_stream_sees_all_that_a_close_one_joins(stream: list[str]) -> None:
    body = "\n\n".join(stream)

    quick = joined_texts(body.encode())

    if quick is not None:
        seen = [text.decode("utf-8", "surrogatepass") for text in quick]
        assert [text for text in joined_closely(body) if text not in seen] == []


@pytest.mark.parametrize("vendor", [openai, anthropic, responses, gemini, vercel])
def test_events_that_differ_in_texts_and_numbers_alone_are_read_as_one(vendor: object) -> None:
    said = [json.dumps(vendor(word)).encode() for word in ("The ", "ord\n", '"er"', "é", "\\")]  # type: ignore[operator]
    first, *others = [(line, tokens_of(line) or []) for line in said]
    run = Alike(*first)

    assert all(run.takes(*other) for other in others)
    assert run.count == 5
    assert 'The ord\\n\\"er\\"' in json.dumps(run.value())


def joined_closely(body: str) -> list[str]:
    found = list(_events(body))
    groups = [parts for apart in (TELLS_APART, ALSO_APART) for parts in _members(found, apart).values()]
    plain = "".join(event.text for event in found if event.members is None)
    return [plain, *("".join(part.text for part in parts) for parts in groups if len(parts) > 1)]


@pytest.mark.parametrize("vendor", [openai, anthropic, responses, gemini, vercel])
def test_a_usual_stream_needs_no_closer_look(redactor: Redactor, vendor: object) -> None:
    said = [vendor(word) for word in ("The ", "order was ", "sent\n", '"today"', ".")]  # type: ignore[operator]
    body = "".join(f"event: delta\ndata: {json.dumps(event)}\n\n" for event in said) + "data: [DONE]\n\n"

    assert joined_texts(body.encode()) is not None
    assert is_plainly_clean(redactor, body.encode())


@pytest.mark.parametrize(
    "line", ['{"id": "a", "id": "b"}', '{"name": "index", "value": "x"}', '{"a": [["x"]]}', '{"a b": {"c": "x"}}']
)
def test_what_is_joined_in_a_way_of_its_own_is_left_to_a_close_look(line: str) -> None:
    assert joined_texts(f"data: {line}\n\n".encode()) is None
