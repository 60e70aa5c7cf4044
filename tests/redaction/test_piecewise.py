"""Piece by piece: what a look at each distinct message gives is what a look at the whole conversation gives."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples
from tests.redaction.made_up_secrets import drawn, hexed, pem

from replaykit.model.text_splice import common_prefix
from replaykit.redaction import Redactor
from replaykit.redaction.pieces import Pieces, grown_pieces, joined, pieces_of
from replaykit.redaction.piecewise import Piecewise
from replaykit.redaction.redactor import LEAST_BYTES
from replaykit.redaction.rules import with_additions

KEY = b"a key for tests, thirty-two long"
REDACTOR = Redactor(KEY)
PASSWORD = "zXc7-vBn9-Qwe4"
SECRETS = [
    "jane.doe@example.com", "4111 1111 1111 1111", "DE89370400440532013000", "+49 30 12345678", "203.0.113.77",
    "sk-proj-" + "aB3dE5gH7jK9" * 4, "AKIAIOSFODNN7EXAMPLE", drawn(40, seed=3), hexed(32), pem(), pem()[:120],
    f"password: {PASSWORD}", PASSWORD, "CPF 11144477735", "4111+1111+1111+1111", "a=b+c&d=e", "postgres://u:p4ssw0rd@h/x",
    "eyJwYXNzd29yZCI6ICJodW50ZXIyLWFuZC1tb3JlIn0=",
]  # fmt: skip
SIGNS = [
    "password", "password:", "<password>", "</password>", "mistral", "twilio", "AKIAIOSFODNN7EXAMPLE", "ssn",
    "service_account", "user,password\nann,Zx8!kk29\n", "bob,Qy7?mm31\n", "token=", '\\"', "-----END PRIVATE KEY-----",
    "my pin", "1234", "12-34-56", "=", "+", "seed phrase", "mysql -p", "İ", "é密码", "\\u0070assword", "[[", "iban",
]  # fmt: skip
WORDS = ["the order is late", "and so on", " ", "\n", '"', "'", "{", "}", ",", ": ", "é", "x" * 40, "page 3 of 7"]
texts = st.lists(st.sampled_from(SECRETS + SIGNS + WORDS) | st.sampled_from(WORDS), max_size=6).map(" ".join)
values = texts | st.integers(0, 10**8) | st.booleans() | st.none()
members = st.dictionaries(
    st.sampled_from(["content", "phone", "pin", "password", "name", "value", "api_key", "arguments", "id"]),
    values
    | st.lists(values, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "token", "iban"]), values, max_size=2),
    max_size=3,
)
padding = {"padding": "a message is longer than what is too short to be a piece at all"}
messages = members.map(lambda own: {"role": "user", **own, **padding})
conversations = st.lists(messages, min_size=2, max_size=6)


def calls_of(conversation: list[dict[str, Any]], **more: Any) -> list[bytes]:
    """The model calls of a conversation: each over all messages so far."""
    ends = range(2, len(conversation) + 1)
    return [json.dumps({"messages": conversation[:end], **more}, ensure_ascii=False).encode() for end in ends]


@settings(max_examples=examples(100), deadline=None)
@given(conversation=conversations, more=st.dictionaries(st.sampled_from(["model", "user", "key"]), texts, max_size=2))
def test_a_conversation_is_redacted_as_a_look_at_all_of_it_would(conversation: Any, more: Any) -> None:
    piecewise = Piecewise(REDACTOR)
    for raw in calls_of(conversation, **more):
        by_pieces = piecewise.redacted(raw)
        assert by_pieces is None or by_pieces == REDACTOR.raw(raw)


@settings(max_examples=examples(30), deadline=None)
@given(conversation=conversations, allowed=st.sampled_from([PASSWORD, SECRETS[0]]))
def test_names_and_allowed_values_of_a_project_count_in_every_piece(conversation: Any, allowed: str) -> None:
    redactor = Redactor(KEY, with_additions(keys=["padding"], allow=[allowed]))
    piecewise = Piecewise(redactor)
    for raw in calls_of(conversation):
        by_pieces = piecewise.redacted(raw)
        assert by_pieces is None or by_pieces == redactor.raw(raw)


@settings(max_examples=examples(150), deadline=None)
@given(
    pool=st.lists(messages, min_size=2, max_size=8),
    histories=st.lists(st.lists(st.integers(0, 7), min_size=2, max_size=7), min_size=2, max_size=6),
    more=st.sampled_from([{}, {"model": "m"}, {"user": SECRETS[0]}, {"api_key": PASSWORD}, {"tools": [padding]}]),
    is_nested=st.booleans(),
)
def test_a_history_that_was_changed_is_redacted_as_a_look_at_all_of_it_would(
    pool: Any, histories: list[list[int]], more: Any, is_nested: bool
) -> None:
    piecewise = Piecewise(REDACTOR)
    for picks in histories:
        for end in range(2, len(picks) + 1):
            conversation: Any = [pool[pick % len(pool)] for pick in picks[:end]]
            value = {"body": {"a": [conversation]} if is_nested else {"messages": conversation}, **more}
            raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            by_pieces = piecewise.redacted(raw)
            assert by_pieces is None or by_pieces == REDACTOR.raw(raw)


def test_a_value_between_two_messages_that_both_give_it_away_is_found() -> None:
    key_id = {"role": "user", "content": "AKIAIOSFODNN7EXAMPLE", **padding}
    secret = {"role": "user", "content": "ibPEg9wgcL1AEmrL6dEJPaAE6STwROMd8ZzaVh74", **padding}
    raw = json.dumps({"messages": [key_id, secret, key_id]}).encode()

    assert b"ibPEg9wg" not in REDACTOR.raw(raw)
    assert Piecewise(REDACTOR).redacted(raw) in (None, REDACTOR.raw(raw))


rows = st.lists(
    st.sampled_from([{}, {"a": "b" * 60}, {"a": "c" * 200}, "{},{}", [], [{"a": "d" * 70}], 7]), min_size=2, max_size=8
)
long_rows = st.lists(rows.map(lambda row: {"long": "x" * 40_000, "rows": row}), max_size=2)


@settings(max_examples=examples(300), deadline=None)
@given(
    head=rows | long_rows,
    tail=rows | long_rows,
    ends=st.lists(st.integers(0, 8), min_size=2, max_size=3),
    separator=st.sampled_from([",", ", "]),
)
def test_pieces_of_a_text_that_begins_like_another_are_its_pieces(
    head: list[Any], tail: list[Any], ends: list[int], separator: str
) -> None:
    values = [{"a": head, "b": {"rows": [*tail[:end], *tail[end + 1 :]]}} for end in ends]
    values += [{"a": head, "b": [{"long": "y" * 40_000, "rows": tail[:end]}]} for end in ends]
    texts = [json.dumps(value, separators=(separator, ":")).encode() for value in values]
    for one, other in itertools.pairwise(texts):
        before, pieces = pieces_of(one), pieces_of(other)
        assert before is not None
        assert pieces is not None

        grown = grown_pieces(before, other, common_prefix(one, other))

        assert (grown is None) is (before.flat == 0 or before.spans[0].end > common_prefix(one, other))
        if grown is not None:
            whole = {"rest": pieces.rest, "texts": pieces.texts, "places": pieces.places}
            assert vars(grown[0]) == vars(pieces) | whole
            assert grown[0].texts[: grown[1]] == before.texts[: grown[1]]


@settings(max_examples=examples(50), deadline=None)
@given(value=st.lists(messages, max_size=4), indent=st.sampled_from([None, 2]), is_lines=st.booleans())
def test_pieces_and_the_rest_are_the_text(value: Any, indent: int | None, is_lines: bool) -> None:
    text = json.dumps({"a": value, "b": [{"c": value}]}, indent=indent)
    raw = "\n".join([json.dumps({"a": value})] * 2 if is_lines else [text]).encode()

    pieces = pieces_of(raw)

    assert pieces is not None
    assert joined(pieces.rest, pieces.places, pieces.texts) == raw
    assert all(isinstance(json.loads(piece), dict) for piece in pieces.texts)


def message(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content, **padding}


def shown(*conversation: dict[str, Any]) -> bytes | None:
    (raw,) = calls_of(list(conversation))[-1:]
    return Piecewise(REDACTOR).redacted(raw)


def test_most_conversations_with_secrets_are_redacted_piece_by_piece() -> None:
    alone = [secret for secret in SECRETS if "BEGIN" not in secret and "AKIA" not in secret]
    secrets = [message(f"the note says {secret} and more") for secret in alone]

    assert shown(*secrets) is not None


def test_a_value_that_one_message_names_is_replaced_in_all_others() -> None:
    after = shown(message(f"my password: {PASSWORD}"), message("thank you"), message(f"it was {PASSWORD} before"))

    assert after is not None
    assert PASSWORD.encode() not in after


def test_a_member_is_told_by_its_name_where_something_is_found_in_another_message() -> None:
    after = shown(message("write to jane.doe@example.com"), {**message("hello"), "phone": "12 34 56"})

    assert after is not None
    assert b"12 34 56" not in after


def test_texts_behind_a_name_are_looked_at_where_another_message_holds_a_sign() -> None:
    raw = json.dumps({"messages": [{**message("hello"), "pin": None}, {**message("hello"), "phone": ["12-34-56"]}]})

    after = Piecewise(REDACTOR).redacted(raw.encode())

    assert after == REDACTOR.raw(raw.encode())
    assert b"12-34-56" not in after


OPENING = [message("hello"), message("write to jane.doe@example.com")]
FAR = 5000 * "word "


@pytest.mark.parametrize(
    ("before", "new"),
    [
        pytest.param([message(f"it was {PASSWORD} before")], message(f"my password: {PASSWORD}"), id="a value"),
        pytest.param([message("ssn: 12-34-56-78-90")], message("room 4711"), id="digits in another message"),
        pytest.param([message("a=b+c 4111+1111+1111+1111")], message("q=a+b&c=d"), id="a form in another message"),
        pytest.param([{**message("hi"), "phone": "12 34 56"}], message(f"{SECRETS[5]}"), id="the first finding"),
        pytest.param(
            [message(f"{FAR} AKIAIOSFODNN7EXAMPLE")], message("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), id="a pair"
        ),
    ],
)
@pytest.mark.parametrize("opening", [OPENING, OPENING[:1]], ids=["with a finding", "without"])
def test_a_new_message_changes_what_is_seen_in_those_before_it(opening: Any, before: Any, new: Any) -> None:
    conversation = [*opening, *before, message("thank you"), new, message("bye")]
    piecewise = Piecewise(REDACTOR)
    for raw in calls_of(conversation):
        by_pieces = piecewise.redacted(raw)

        assert by_pieces is None or by_pieces == plainly(raw)


def plainly(raw: bytes) -> bytes:
    """The text after a look at the whole of it."""
    redactor = Redactor(KEY)
    redactor._by_pieces = lambda raw, name: None  # type: ignore[method-assign]
    return redactor.raw(raw)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"my key id is {SECRETS[6]}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY is the other half"),
        ("we use mistral", drawn(32, seed=5)),
        (pem()[:200], pem()[200:]),
    ],
)
def test_what_is_secret_only_beside_the_message_before_is_left_to_a_look_at_all(first: str, second: str) -> None:
    assert shown({**padding, "content": first}, {"content": second, **padding}) is None


def test_a_long_conversation_is_looked_at_once_for_each_message() -> None:
    long = [message(f"question {number}: " + "the order is late and so on. " * 20) for number in range(60)]
    found: list[bytes] = []

    class Counting(Redactor):
        def passes(self, raw: bytes) -> bool:
            found.append(raw)
            return super().passes(raw)

    redactor = Counting(KEY)
    calls = [raw for raw in calls_of(long) if len(raw) >= LEAST_BYTES]
    for raw in calls:
        assert redactor.raw(raw) is raw

    pieces = [raw for raw in found if b"padding" in raw and raw.startswith(b"{")]
    assert len(pieces) == len(set(pieces))


def test_a_name_that_is_there_twice_makes_no_pieces() -> None:
    row = json.dumps(message("hello")).encode()

    assert pieces_of(b'{"a": [%b, %b], "a": 1}' % (row, row)) is None


def test_borders_are_where_pieces_begin_and_where_the_last_ends() -> None:
    raw = calls_of([message("one"), message("two")], model="m")[-1]
    pieces = pieces_of(raw)

    assert isinstance(pieces, Pieces)
    assert [(before, behind) for _, before, behind in pieces.borders()] == [(-1, 0), (0, 1), (1, -1)]
