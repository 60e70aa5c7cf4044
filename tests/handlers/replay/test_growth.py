"""A replayed call costs the same however many are on the tape, whatever it is found by."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.matrix import sampled
from tests.memory import traced_memory
from tests.work_counter import lines_run

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.schedule import Schedule
from replaykit.handlers.replay.tape import Matcher, Tape
from replaykit.model.events import CallSpan, LlmCall, ToolCall
from replaykit.model.matching import MatchMode, MatchRules, OnMiss
from replaykit.model.values import Raw, canonical, raw
from replaykit.redaction.keys import VARIABLE
from replaykit.redaction.placeholders import key_id, placeholder

FEW, MORE, MANY = 30, 60, 120
COMPARED = 50  # recorded calls that a miss is compared with, at most
FLAT = 1.05
"""The most that a further call may cost with many calls beside one with few."""
COUNTED = 2000
CALL_BYTES = 1500
"""Of a call that is looked up and answered: its places in the indexes, what was asked, and the schedule."""
STARTED_AT = 1_700_000_000.0
KEY = b"a key for tests, thirty-two long"
THEIRS = b"their key, which nobody here has"
IGNORED = MatchRules(ignore=("$.request_id",))

Arguments = Callable[[int], dict[str, Any]]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY.hex())


@rk.tool
def lookup(**arguments: Any) -> int:
    raise AssertionError("this call is on the tape")


@rk.tool
def other(**arguments: Any) -> int:
    lookup(**arguments)
    return 0


def tape(arguments: Arguments, count: int, *, path: str = "", has_spans: bool = True) -> Tape:
    calls = []
    for index in range(count):
        moment_s = index * 0.001
        span = CallSpan(begin=2 * index, begin_s=moment_s, end=2 * index + 1, end_s=moment_s + 0.0005)
        call = ToolCall(
            seq=index,
            at=STARTED_AT + moment_s,
            name="lookup",
            path=path,
            arguments_json=Raw(canonical(arguments(index))),
            result_json=raw(index),
            span=span if has_spans else None,
        )
        calls.append(call)
    return Tape(calls, name="many", started_at=STARTED_AT)


def email(index: int, key: bytes = KEY) -> str:
    return placeholder(key, "email", f"kora{index}@tulen-sera.de")


def numbered(index: int) -> dict[str, Any]:
    return {"index": index}


def identified(index: int) -> dict[str, Any]:
    return {"q": "order 7", "request_id": f"r-{index}"}


def identified_anew(index: int) -> dict[str, Any]:
    return {"q": "order 7", "request_id": f"n-{index}"}


def redacted(index: int) -> dict[str, Any]:
    return {"index": index, "to": email(index)}


def in_clear(index: int) -> dict[str, Any]:
    return {"index": index, "to": f"kora{index}@tulen-sera.de"}


def work_of_calls(recorded: Tape, rules: MatchRules, arguments: Arguments, kind: str | None) -> int:
    """The lines that are run for a replay, from the matcher to what is said of it."""
    count = len(recorded)

    def work() -> None:
        with rk.replaying(recorded, rules) as replayer:
            for index in range(count):
                assert lookup(**arguments(index)) == index
        expect(replayer, kind, count)

    return lines_run(work)


def expect(replayer: Replayer, kind: str | None, count: int) -> None:
    kinds = [deviation.kind for deviation in replayer.all_deviations()]
    assert kinds == ([] if kind is None else [kind] * count)


def growth(work: Callable[[int], int]) -> float:
    """What a further call costs with many, beside what it costs with few. The start of a replay does not count."""
    work(2)  # what is imported and compiled on first use
    few, more, many = work(FEW), work(MORE), work(MANY)
    return ((many - more) / (MANY - MORE)) / ((more - few) / (MORE - FEW))


SCENES: dict[str, tuple[Arguments, Arguments, MatchRules, str | None]] = {
    "plain": (numbered, numbered, MatchRules(), None),
    "equal": (lambda _: {"job": 7}, lambda _: {"job": 7}, MatchRules(), None),
    "ignored": (identified, identified_anew, IGNORED, None),
    "ignored, anywhere": (identified, identified_anew, MatchRules(mode=MatchMode.ARGS, ignore=("$.request_id",)), None),
    "strict": (numbered, numbered, MatchRules(mode=MatchMode.STRICT), None),
    "sequence": (numbered, numbered, MatchRules(mode=MatchMode.SEQUENCE), None),
    "redacted": (redacted, in_clear, MatchRules(), None),
    "redacted and ignored": (
        lambda index: {"request_id": f"r-{index}", "to": email(7)},
        lambda index: {"request_id": f"n-{index}", "to": "kora7@tulen-sera.de"},
        IGNORED,
        None,
    ),
    "placeholders handed on": (redacted, redacted, MatchRules(), None),
    "another key": (
        lambda index: {"index": index, "to": email(index, THEIRS)},
        in_clear,
        MatchRules(redaction_key_id=key_id(THEIRS)),
        "rekeyed",
    ),
    "another key, equal": (
        lambda _: {"to": email(7, THEIRS)},
        lambda _: {"to": "kora7@tulen-sera.de"},
        MatchRules(redaction_key_id=key_id(THEIRS)),
        "rekeyed",
    ),
    "parts of placeholders": (
        lambda index: {"domain": f"tulen-sera{index}.de"},
        lambda index: {"domain": placeholder(KEY, "email", f"kora@tulen-sera{index}.de").partition("@")[2]},
        MatchRules(),
        None,
    ),
    "parts of placeholders, beside a number": (
        lambda index: {"domain": "tulen-sera.de", "index": index},
        lambda index: {"domain": placeholder(KEY, "email", "kora@tulen-sera.de").partition("@")[2], "index": index},
        MatchRules(),
        None,
    ),
    "now": (
        lambda index: {"at": STARTED_AT + index * 0.001, "index": index},
        lambda index: {"at": time.time(), "index": index},
        MatchRules(),
        "now",
    ),
    "now, equal": (
        lambda index: {"at": STARTED_AT + index * 0.001},
        lambda _: {"at": time.time()},
        MatchRules(),
        "now",
    ),
}


@sampled("scene", list(SCENES), count=8)
def test_a_call_costs_the_same_however_many_are_recorded(scene: str) -> None:
    recorded, asked, rules, kind = SCENES[scene]

    def work(count: int) -> int:
        return work_of_calls(tape(recorded, count), rules, asked, kind)

    assert growth(work) < FLAT


def test_a_call_that_has_moved_costs_the_same_however_many_are_recorded() -> None:
    def work(count: int) -> int:
        return work_of_calls(tape(numbered, count, path="/~worker#0"), MatchRules(), numbered, "moved")

    assert growth(work) < FLAT


MISSES: dict[str, Callable[[int], None]] = {
    "another argument": lambda index: lookup(index=-index - 1),
    "one and the same": lambda _: lookup(index=-1),
    "another tool": lambda index: other(index=index),
}


@pytest.mark.parametrize("missed", MISSES)
def test_a_miss_costs_the_same_however_many_calls_are_recorded(missed: str) -> None:
    """Most recorded calls are taken already: those that are left are found without a look at them."""

    def work(count: int) -> int:
        recorded = tape(numbered, 3 * count + COMPARED)

        def misses() -> None:
            with rk.replaying(recorded) as replayer:
                for index in range(3 * count, 0, -1):
                    assert lookup(index=index) == index
                for index in range(count):
                    with suppress(Divergence):
                        MISSES[missed](index)
            assert [deviation.kind for deviation in replayer.deviations] == ["missing"] * count

        return lines_run(misses)

    assert growth(work) < FLAT


def test_an_outcome_that_is_repeated_costs_the_same_however_many_are_recorded() -> None:
    def work(count: int) -> int:
        recorded = tape(numbered, count)

        def repeated() -> None:
            with rk.replaying(recorded, MatchRules(on_miss=OnMiss.REPEAT)) as replayer:
                for _ in range(2):
                    for index in range(count):
                        assert lookup(index=index) == index
            expect(replayer, "repeated", count)

        return lines_run(repeated)

    assert growth(work) < FLAT


def test_the_time_that_no_tape_holds_costs_the_same_however_many_calls_it_holds() -> None:
    def work(count: int) -> int:
        recorded = tape(numbered, count)

        def looks() -> None:
            with rk.replaying(recorded):
                for _ in range(count):
                    rk.now()

        return lines_run(looks)

    assert growth(work) < FLAT


def test_a_failed_call_of_a_model_costs_the_same_however_many_are_recorded() -> None:
    def work(count: int) -> int:
        calls = []
        for index in range(count):
            messages = [{"role": "user", "content": f"question {index}"}]
            arguments = canonical({"model": "gpt-5", "messages": messages})
            calls.append(LlmCall(seq=index, name="gpt-5", arguments_json=Raw(arguments)))
        matcher = Matcher(Tape(calls))
        assert not matcher.unknown_models()

        def ask() -> None:
            for index in range(count):
                assert matcher.is_asked_again(index)

        return lines_run(ask)

    assert growth(work) < FLAT


def test_a_look_at_the_clock_costs_the_same_however_many_calls_are_to_come() -> None:
    looked_at = 0

    class Counted(list[int]):
        def __getitem__(self, place: Any) -> Any:
            nonlocal looked_at
            found = super().__getitem__(place)
            looked_at += len(found) if isinstance(place, slice) else 1
            return found

    schedule = Schedule(tape(numbered, MANY).calls)
    schedule._order = Counted(schedule._order)
    for _ in range(MANY):
        assert list(schedule.due_between(0.0, 0.0015)) == [0, 1]

    assert looked_at <= 5 * MANY


@sampled("scene", ["plain", "equal", "ignored", "redacted"], count=2)
def test_a_served_call_takes_little_memory(scene: str) -> None:
    recorded, asked, rules, _ = SCENES[scene]
    with rk.replaying(tape(recorded, 1), rules):
        lookup(**asked(0))  # what is imported on first use
    calls = tape(recorded, COUNTED)

    with traced_memory() as peak, rk.replaying(calls, rules):
        for index in range(COUNTED):
            lookup(**asked(index))

    assert peak() / COUNTED < CALL_BYTES


def test_no_garbage_collection_goes_through_the_calls_of_a_tape() -> None:
    recorded = tape(numbered, COUNTED)
    with rk.replaying(recorded):
        for index in range(COUNTED):
            lookup(index=index)
        gc.collect()
        before = len(gc.get_objects())
        more = tape(numbered, COUNTED)
        with rk.replaying(more) as replayer:
            for index in range(COUNTED):
                lookup(index=index)
            gc.collect()

            assert len(gc.get_objects()) - before < COUNTED / 2
    assert len(replayer.events()) == COUNTED
