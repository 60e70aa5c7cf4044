"""The door of a log: runs, events and states as they may be written."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.changes import StateFold
from replaykit.model.events import ErrorEvent, ErrorInfo, Exchange, LlmCall, Message, State, ToolCall, WireInfo
from replaykit.model.run import TraceRun, encode_run
from replaykit.model.values import Raw, canonical, decode, encode, raw
from replaykit.redaction import Redactor
from replaykit.redaction.events import Door
from replaykit.redaction.rules import with_additions

MAIL = "jane.doe@example.com"
DOOR = Door(Redactor(b"a key for tests, thirty-two long"))
SHOWN = DOOR.redactor.text(MAIL)


def with_states(states: list[Any]) -> TraceRun:
    fold, events = StateFold(), []
    for seq, state in enumerate(states):
        whole, change = fold.advance(state)
        events.append(State(seq=seq, state_json=whole, change=change))
    return TraceRun(id="r", events=tuple(events))


def states_of(run: TraceRun) -> list[Any]:
    fold, found = StateFold(), []
    for event in run.events:
        assert isinstance(event, State)
        fold.apply(event)
        found.append(decode(Raw(fold.text)))
    return found


WORDS = st.sampled_from(["hello", MAIL, f"to {MAIL}", ""])
VALUES = st.recursive(WORDS | st.integers(-9, 9), lambda v: st.lists(v, max_size=4), max_leaves=6)
STATES = st.lists(st.dictionaries(st.sampled_from(["log", "who", MAIL]), VALUES, max_size=3) | VALUES, max_size=6)


@given(STATES)
def test_every_state_of_a_run_comes_through_without_what_may_not_be_written(states: list[Any]) -> None:
    shown = DOOR.run(with_states(states))

    assert MAIL.encode() not in encode_run(shown)
    assert states_of(shown) == [
        msgspec.json.decode(msgspec.json.encode(s).replace(MAIL.encode(), SHOWN.encode())) for s in states
    ]
    assert DOOR.run(shown) == shown


LONG = "so it goes on and on, " * 60
SECRET = "Zk93nf83jfA8s7dfh2kq"
TOLD = [
    {"api_key": SECRET},
    {"name": "password", "value": SECRET},
    [["password", SECRET]],
    ["--password", SECRET],
    f"export API_TOKEN={SECRET}",
    f"https://jane:{SECRET}@example.com/",
    {"headers": {"Authorization": f"Bearer {SECRET}"}},
]


def appended(state: Any, told: Any) -> None:
    state["agent"]["log"].append(told)


def as_a_member(state: Any, told: Any) -> None:
    state["agent"]["extra"] = told


def in_an_old_item(state: Any, told: Any) -> None:
    state["agent"]["log"][1]["extra"] = told


def in_its_place(state: Any, told: Any) -> None:
    state["agent"] = {"log": [told, *state["agent"]["log"]]}


def in_a_long_one(state: Any, told: Any) -> None:
    state["notes"] = [{"said": LONG, "told": [told] * 8} for _ in range(8)]


def said_again(state: Any, told: Any) -> None:
    state["agent"]["log"].append(told)
    state["agent"]["log"].append(f"It said {SECRET}.")


@pytest.mark.parametrize("change", [appended, as_a_member, in_an_old_item, in_its_place, in_a_long_one, said_again])
@pytest.mark.parametrize("told", TOLD, ids=lambda told: str(told)[:24])
def test_what_a_long_state_comes_to_hold_is_not_written(change: Any, told: Any) -> None:
    state: Any = {"step": 0, "agent": {"log": [{"said": LONG, "n": n} for n in range(9)]}}
    writer, reader = StateFold(cleaning=DOOR), StateFold()
    alone = DOOR.text(canonical({"it": told}), "")
    assert SECRET.encode() not in alone, "it is found when there is nothing else"

    for step in range(6):
        state["step"] = step
        state["agent"]["log"][step]["n"] = step + 50
        if step == 2:
            change(state, told)
        whole, written = writer.advance(state)
        event = State(seq=step, state_json=whole, change=written)
        reader.apply(event)

        assert SECRET.encode() not in msgspec.json.encode(event)
        as_a_whole = DOOR.text(encode(state["agent"]), "agent")
        assert decode(reader.text)["agent"] == decode(as_a_whole)


def test_a_long_list_under_a_name_that_tells_stays_hidden_when_an_item_changes() -> None:
    words = [f"{LONG}{n}" for n in range(9)]
    fold = StateFold(cleaning=DOOR)
    for step in range(4):
        words[step] = f"{SECRET}{step}"
        whole, change = fold.advance({"password": words})

        assert SECRET.encode() not in msgspec.json.encode(State(seq=step, state_json=whole, change=change))


def test_a_path_counts_from_the_root_of_a_long_state() -> None:
    door = Door(Redactor(DOOR.redactor.key, with_additions(paths=["$.inner.code"])))
    fold = StateFold(cleaning=door)
    for step in range(4):
        inner = {"log": [LONG] * 9, "code": f"open {SECRET}{step}"}
        whole, change = fold.advance({"agent": {"inner": inner}})

        assert SECRET.encode() not in msgspec.json.encode(State(seq=step, state_json=whole, change=change))


def test_a_run_with_nothing_to_hide_is_the_same_to_the_last_byte() -> None:
    state = State(seq=0, state_json=Raw(b'{"m":[{"$lc":["HumanMessage",{"content":"x"}]}],"n":1.50}'))
    run = TraceRun(id="r", events=(state, Message(seq=1, role="user", content_json=raw("hello"))))

    assert encode_run(DOOR.run(run)) == encode_run(run)


def test_the_spelling_of_values_beside_a_secret_stays() -> None:
    state = State(seq=0, state_json=Raw(f'{{"m":[{{"$lc":["{MAIL}",1.50]}}],"n":1.50}}'.encode()))

    (shown,) = DOOR.run(TraceRun(id="r", events=(state,))).events

    assert bytes(shown.state_json) == f'{{"m":[{{"$lc":["{SHOWN}",1.50]}}],"n":1.50}}'.encode()


def call(**fields: Any) -> Any:
    return ToolCall(seq=0, name="find", arguments_json=Raw(canonical({"q": "x"})), **fields)


PLACES = {
    "arguments": ToolCall(seq=0, name="find", arguments_json=Raw(canonical({"q": MAIL}))),
    "asked": call(asked_json=raw({"q": MAIL})),
    "result": call(result_json=raw([MAIL])),
    "error": call(
        error=ErrorInfo(type="ValueError", message=MAIL, args_json=raw((MAIL,)), traceback=f"File x\n{MAIL}")
    ),
    "items": call(items_json=(raw("to jane.d"), raw("oe@example.com now"))),
    "items that are no text": call(items_json=(raw({"a": 1}), raw({"to": MAIL}))),
    "the name": ToolCall(seq=0, name=f"mail {MAIL}", path=f"/mail {MAIL}#0", step=f"to {MAIL}"),
    "why a model ended": LlmCall(seq=0, name="m", finish_reason=f"refused {MAIL}"),
    "a role": Message(seq=0, role=MAIL, content_json=raw("hello")),
    "metadata of a state": State(seq=0, state_json=raw({}), about_json=raw({"user": MAIL})),
    "a message": Message(seq=0, role="user", content_json=raw({"text": MAIL})),
    "an error": ErrorEvent(seq=0, error=ErrorInfo(type="E", message=MAIL)),
    "a URL": Exchange(seq=0, name="GET a/b", wire=WireInfo(method="GET", url=f"http://a/b?to={MAIL}"), items_json=()),
    "a header": Exchange(
        seq=0, name="GET a/b", wire=WireInfo(method="GET", url="http://a/", headers=(("x-to", MAIL),)), items_json=()
    ),
    "a reason": Exchange(
        seq=0, name="GET a/b", wire=WireInfo(method="GET", url="http://a/", reason=f"No {MAIL}"), items_json=()
    ),
    "deltas": Exchange(
        seq=0,
        name="GET a/b",
        wire=WireInfo(method="GET", url="http://a/", headers=(("content-type", "text/event-stream"),)),
        items_json=(raw('data: {"delta": "jane.d"}\n\n'), raw('data: {"delta": "oe@example.com"}\n\n')),
    ),
    "chunks of bytes": Exchange(
        seq=0,
        name="GET a/b",
        wire=WireInfo(method="GET", url="http://a/"),
        items_json=(raw(b"\xff jane.d"), raw("oe@exam"), raw(b"ple.com \xfe")),
    ),
}


@pytest.mark.parametrize("event", PLACES.values(), ids=PLACES.keys())
def test_no_place_of_an_event_is_left_out(event: Any) -> None:
    shown = msgspec.json.encode(DOOR.event(event))

    assert b"jane" not in shown
    assert b"example.com" not in shown
    in_base64 = any(SHOWN.encode() in base64.b64decode(text) for text in re.findall(rb'"\$bytes":"([^"]+)"', shown))
    assert SHOWN.encode() in shown or in_base64


def test_a_compressed_body_that_holds_a_secret_is_written_unpacked() -> None:
    import zlib

    packer = zlib.compressobj(wbits=31)
    body = packer.compress(f"to {MAIL}".encode()) + packer.flush()
    wire = WireInfo(method="GET", url="http://a/", status=200, headers=(("Content-Encoding", "gzip"), ("x", "y")))

    shown = DOOR.event(Exchange(seq=0, name="GET a/", wire=wire, items_json=(raw(body),)))
    clean = DOOR.event(Exchange(seq=0, name="GET a/", wire=wire, items_json=(raw(b"not gzip"),)))

    assert isinstance(shown, Exchange)
    assert shown.wire is not None
    assert (shown.items, shown.wire.headers) == ([f"to {SHOWN}"], (("x", "y"),))
    assert isinstance(clean, Exchange)
    assert clean.items == [b"not gzip"]


def test_a_header_that_is_told_by_its_name_alone_is_not_written() -> None:
    wire = WireInfo(method="GET", url="http://a/", headers=(("x-api-key", "open sesame twice"), ("x", "y")))

    shown = DOOR.event(Exchange(seq=0, name="GET a/", wire=wire, items_json=()))

    assert b"sesame" not in msgspec.json.encode(shown)


def test_a_usual_call_is_looked_at_once_and_stays_the_same_object() -> None:
    events = [
        raw(f'data: {{"id": "c1", "choices": [{{"index": 0, "delta": {{"content": "{word}"}}}}]}}\n\n')
        for word in "abc"
    ]
    wire = WireInfo(method="POST", url="http://127.0.0.1:4000/v1", headers=(("content-type", "text/event-stream"),))
    streamed = call(result_json=raw("abc"), items_json=tuple(events), wire=wire)
    looks: list[bytes] = []

    class Counting(Redactor):
        def passes(self, raw: bytes) -> bool:
            looks.append(raw)
            return super().passes(raw)

    door = Door(Counting(b"a key"))
    door.event(streamed)
    looks.clear()

    assert door.event(streamed) is streamed
    assert len(looks) == 1


def test_an_answer_off_a_tape_has_been_seen_to_and_what_was_asked_has_not() -> None:
    recorded = call(result_json=raw([MAIL]))
    asked = ToolCall(seq=0, name="find", arguments_json=Raw(canonical({"q": MAIL})), result_json=recorded.result_json)

    assert DOOR.event(recorded, recorded) is recorded
    assert DOOR.event(recorded) is not recorded
    assert MAIL not in str(DOOR.event(asked, recorded).arguments)  # type: ignore[union-attr]
