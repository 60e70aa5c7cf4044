"""Honest runs get no signature, and runs whose answers are made up get one."""

from __future__ import annotations

import hashlib

import pytest
from tests.cases.honest_runs import FRESH, HONEST, MADE_UP, Chat

from replaykit.cases.signatures import detect
from replaykit.checks.assertions import parse_assertion
from replaykit.model.result import Side

MAX_FALSE_HELD_OUT = 3
MAX_FALSE_FRESH = 2
"""So many of the 52 and of the 22 runs that no rule was tuned on get a signature; more is a step back."""


def is_tuning(chat: Chat) -> bool:
    """True for the half that rules are tuned on, by the same hash as in `bench.signatures`."""
    return int(hashlib.sha256(chat.name.encode()).hexdigest(), 16) % 2 == 0


@pytest.mark.parametrize("chat", [chat for chat in HONEST if is_tuning(chat)], ids=lambda chat: chat.name)
def test_an_honest_run_has_no_signature(chat):
    assert [signature.text for signature in detect(chat.run())] == []


def test_few_honest_runs_that_nothing_was_tuned_on_have_a_signature():
    held_out = [chat for chat in HONEST if not is_tuning(chat)]

    false_alarms = sum(bool(detect(chat.run())) for chat in held_out)

    assert len(held_out) >= 50
    assert false_alarms <= MAX_FALSE_HELD_OUT


def test_few_honest_runs_that_were_written_when_the_rules_were_done_have_a_signature():
    assert sum(bool(detect(chat.run())) for chat in FRESH) <= MAX_FALSE_FRESH


@pytest.mark.parametrize("chat", MADE_UP, ids=lambda chat: chat.name)
def test_a_made_up_figure_gets_a_signature(chat):
    assert detect(chat.run())


def test_a_person_may_still_ask_for_every_figure_to_be_in_a_source():
    chat = next(chat for chat in HONEST if chat.name == "celsius-to-fahrenheit")

    strict = parse_assertion("output.grounded", True).check(chat.run(), Side.DESIRED)
    lenient = parse_assertion("output.grounded", {"derive": "anything"}).check(chat.run(), Side.DESIRED)

    assert (strict.holds, lenient.holds) == (False, True)
    assert "107" in strict.text
