"""Piece by piece: what a look at each distinct message gives is what a look at the whole conversation gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.redaction.makers import drawn, hexed, pem

from replaykit.redaction import Redactor
from replaykit.redaction.pieces import LEAST_BYTES, Pieces, joined, pieces_of
from replaykit.redaction.piecewise import Piecewise
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


@settings(max_examples=100, deadline=None)
@given(conversation=conversations, more=st.dictionaries(st.sampled_from(["model", "user", "key"]), texts, max_size=2))
def test_a_conversation_is_redacted_as_a_look_at_all_of_it_would(conversation: Any, more: Any) -> None:
    piecewise = Piecewise(REDACTOR)
    for raw in calls_of(conversation, **more):
        by_pieces = piecewise.redacted(raw)
        assert by_pieces is None or by_pieces == REDACTOR.raw(raw)


@settings(max_examples=30, deadline=None)
@given(conversation=conversations, allowed=st.sampled_from([PASSWORD, SECRETS[0]]))
def test_names_and_allowed_values_of_a_project_count_in_every_piece(conversation: Any, allowed: str) -> None:
    redactor = Redactor(KEY, with_additions(keys=["padding"], allow=[allowed]))
    piecewise = Piecewise(redactor)
    for raw in calls_of(conversation):
        by_pieces = piecewise.redacted(raw)
        assert by_pieces is None or by_pieces == redactor.raw(raw)


@settings(max_examples=50, deadline=None)
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
