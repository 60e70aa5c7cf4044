"""Calls beside a redacted tape: a placeholder is its value under the same key, and its kind under another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.handlers.replay.handler import Replayer, replaying
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import ToolCall
from replaykit.model.matching import MatchMode, MatchRules, OnMiss
from replaykit.model.values import raw
from replaykit.redaction.keys import VARIABLE
from replaykit.redaction.placeholders import key_id, old_placeholder, placeholder

ALICE, BOB, MALLORY = "alice@acme.com", "bob@acme.com", "mallory@evil.org"
KEY = b"a key for tests, thirty-two long"
THEIRS = b"their key, which nobody here has"


@rk.tool
def lookup(who: str) -> str:
    return f"found {who.split('@')[0]}"


@rk.tool
def send(phone: str) -> str:
    return f"sent to {phone[-4:]}"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY.hex())


def recorded(*people: str) -> Tape:
    """A tape of looking up these people, redacted with the key of this project."""
    with rk.record("people") as run:
        for who in people:
            lookup(who)
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return Tape.of(store.load(run.id))


def old_tape(kind: str, value: str, argument: str = "who", name: str = "lookup") -> Tape:
    """A tape as older versions made it."""
    arguments = raw({argument: old_placeholder(KEY, kind, value)})
    return Tape([ToolCall(seq=0, name=name, arguments_json=arguments, result_json=raw("found"))])


def on_machine_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


def kinds(replayer: Replayer) -> list[str]:
    return [deviation.kind for deviation in replayer.deviations]


def test_each_value_is_given_its_own_answer() -> None:
    with replaying(recorded(ALICE, BOB)) as replayer:
        assert lookup(BOB) == "found bob"
        assert lookup(ALICE) == "found alice"

    assert "missing" not in kinds(replayer)


def test_a_value_that_was_not_recorded_is_given_nobodys_answer() -> None:
    with replaying(recorded(ALICE)) as replayer, pytest.raises(Divergence):
        lookup(MALLORY)

    assert kinds(replayer) == ["missing"]


@pytest.mark.parametrize("mode", list(MatchMode))
def test_in_every_mode_the_value_and_its_placeholder_are_the_same(mode: MatchMode) -> None:
    for said in (ALICE, placeholder(KEY, "email", ALICE), ALICE.upper(), placeholder(KEY, "email", ALICE).upper()):
        with replaying(recorded(ALICE), MatchRules(mode=mode)) as replayer:
            assert lookup(said) == "found alice"
        assert kinds(replayer) == []


def test_another_spelling_of_a_phone_is_the_same_phone() -> None:
    with rk.record("phones") as run:
        send("+1 415-555-0132")
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        tape = Tape.of(store.load(run.id))

    for said in ("+1 (415) 555 0132", "+14155550132", "(415) 555-0132", placeholder(KEY, "phone", "+14155550132")):
        with replaying(tape):
            send(said)
    with replaying(tape), pytest.raises(Divergence):
        send("+1 415-555-0133")


def test_without_the_key_the_only_call_that_fits_is_given_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = recorded(ALICE)
    on_machine_without_the_key(monkeypatch)

    with replaying(tape) as replayer:
        assert lookup(ALICE) == "found alice"

    assert kinds(replayer) == ["rekeyed"]
    assert VARIABLE in replayer.deviations[0].text


def test_without_the_key_nobody_is_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = recorded(ALICE, BOB)
    on_machine_without_the_key(monkeypatch)

    with replaying(tape) as replayer, pytest.raises(Divergence, match="2 recorded calls differ") as caught:
        lookup(ALICE)

    assert kinds(replayer) == ["ambiguous"]
    assert VARIABLE in str(caught.value)


def test_without_the_key_what_is_handed_on_is_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = recorded(ALICE, BOB)
    on_machine_without_the_key(monkeypatch)

    with replaying(tape) as replayer:
        assert lookup(placeholder(KEY, "email", BOB)) == "found bob"
        assert lookup(placeholder(KEY, "email", ALICE)) == "found alice"
        with pytest.raises(Divergence):
            lookup(placeholder(KEY, "email", MALLORY))

    assert [kind for kind in kinds(replayer) if kind != "moved"] == ["missing"]


@rk.tool
def introduce(one: str, other: str) -> str:
    return "done"


def test_without_the_key_a_value_of_its_own_excuses_nothing_that_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with rk.record("two") as run:
        introduce(ALICE, BOB)
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        tape = Tape.of(store.load(run.id))
    on_machine_without_the_key(monkeypatch)

    with replaying(tape) as replayer, pytest.raises(Divergence):
        introduce(placeholder(KEY, "email", MALLORY), BOB)
    with replaying(tape):
        introduce(placeholder(KEY, "email", ALICE), BOB)

    assert kinds(replayer) == ["missing"]


def test_without_the_key_one_recorded_person_is_not_two_people(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = recorded(ALICE, ALICE)
    on_machine_without_the_key(monkeypatch)

    with replaying(tape) as replayer:
        assert lookup(ALICE) == "found alice"
        with pytest.raises(Divergence):
            lookup(MALLORY)
        assert lookup(ALICE) == "found alice"

    assert kinds(replayer) == ["rekeyed", "missing", "rekeyed"]


def test_without_the_key_a_loop_is_repeated_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = recorded(ALICE)
    on_machine_without_the_key(monkeypatch)

    with replaying(tape, MatchRules(on_miss=OnMiss.REPEAT)) as replayer:
        assert [lookup(ALICE) for _ in range(3)] == ["found alice"] * 3

    assert kinds(replayer) == ["rekeyed", "repeated", "repeated"]


@pytest.mark.parametrize(
    ("recorded_with", "expected"), [(KEY, ["missing"]), (THEIRS, ["rekeyed"])], ids=["the same", "another"]
)
def test_a_case_says_which_key_it_was_made_with(recorded_with: bytes, expected: list[str]) -> None:
    rules = MatchRules(redaction_key_id=key_id(recorded_with))

    with replaying(recorded(ALICE), rules) as replayer, contextlib.suppress(Divergence):
        lookup(MALLORY)

    assert kinds(replayer) == expected


VALUES = {
    "email": ALICE,
    "phone": "+1 415 555 0132",
    "card": "4111 1111 1111 1111",
    "ssn": "123-45-6789",
    "ip": "93.184.216.34",
    "iban": "DE89 3704 0044 0532 0130 00",
}


@pytest.mark.parametrize(("kind", "value"), VALUES.items())
@pytest.mark.parametrize("said", [lambda _, value: value, lambda *what: placeholder(KEY, *what)], ids=["value", "new"])
def test_placeholders_of_older_versions_are_still_their_values(
    kind: str, value: str, said: Callable[[str, str], str]
) -> None:
    with replaying(old_tape(kind, value)) as replayer:
        assert lookup(said(kind, value)) == "found"
    with replaying(old_tape(kind, value)), pytest.raises(Divergence):
        lookup(said(kind, VALUES[kind].replace("1", "2") if kind == "ip" else OTHERS[kind]))

    assert kinds(replayer) == []


OTHERS = {
    "email": MALLORY,
    "phone": "+1 415 555 0133",
    "card": "5555 5555 5555 4444",
    "ssn": "123-45-6780",
    "iban": "GB29 NWBK 6016 1331 9268 19",
}


def test_a_national_number_of_an_older_version_is_found() -> None:
    with replaying(old_tape("phone", "(415) 555-0132", "phone", "send")):
        assert send("(415) 555-0132") == "found"


def test_a_tape_that_was_not_redacted_is_matched_as_it_is() -> None:
    call: Any = ToolCall(
        seq=0, name="lookup", arguments_json=raw({"who": "alice@acme.com, SSN 912-34-5678"}), result_json=raw("found")
    )

    with replaying(Tape([call])) as replayer:
        assert lookup("alice@acme.com, SSN 912-34-5678") == "found"

    assert kinds(replayer) == []
    assert msgspec.json.encode(call)
