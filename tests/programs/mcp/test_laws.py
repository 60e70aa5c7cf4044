"""Laws of a replay: whatever is asked in whatever order, every answer belongs to its question and bears its own id."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replaykit.handlers.recording.recorder import Recorder
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import AnyEvent, Call
from replaykit.programs.mcp.conversation import McpConversation
from replaykit.programs.mcp.messages import dump, id_key, is_client_call, parse
from replaykit.programs.mcp.playback import RecordedServer
from replaykit.seam.scope import CallAnswer, RunSession

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
IDS = st.integers() | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
QUESTIONS = st.tuples(st.sampled_from(["get", "put"]), st.sampled_from([{}, {"city": "a"}, {"city": "b"}, {"n": [1]}]))
NAME = "weather"


class Log:
    """A run that is kept in memory."""

    run_id = "run"

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def append(self, event: Any) -> None:
        self.events.append(event)

    def finish(self, header: Any) -> None: ...


class Heard:
    """What a client heard."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.messages.append(parse(dump(message)))

    def left(self, request: Any, answer: CallAnswer | None) -> None:
        self.messages.append(None)


def ask(number: Any, question: tuple[str, Any]) -> dict[str, Any]:
    name, arguments = question
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": number}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def recorded(questions: list[tuple[Any, Any]], order: list[int], steps: list[int]) -> list[Call]:
    """The calls of a client that asks all at once, and of a server that answers in that order, telling of its steps."""
    log, heard = Log(), Heard()
    talk = McpConversation(NAME, RunSession(Recorder(log)), heard, has_server=True)  # type: ignore[arg-type]
    for number, question in questions:
        assert talk.from_client(ask(number, question), heard)
    for place in order:
        number, question = questions[place]
        for step in range(steps[place]):
            told = {"progressToken": number, "progress": step}
            talk.from_server({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        result = {"question": list(question), "answer": place, "steps": steps[place]}
        talk.from_server({"jsonrpc": "2.0", "id": number, "result": result})
    return sorted((event for event in log.events if isinstance(event, Call)), key=lambda call: call.seq)


def played(calls: list[Call], told: list[str]) -> McpConversation:
    tape = Tape(call for call in calls if is_client_call(NAME, call))
    recorded_server = RecordedServer(NAME, calls, lambda text, kind: told.append(kind))
    return McpConversation(NAME, RunSession(Replayer(tape)), Heard(), has_server=False, recorded_server=recorded_server)


@st.composite
def conversations(draw: Any) -> tuple[Any, ...]:
    ids = draw(st.lists(IDS, min_size=1, max_size=8, unique_by=id_key))
    size = len(ids)
    questions = [(number, draw(QUESTIONS)) for number in ids]
    fresh = draw(st.lists(IDS, min_size=size, max_size=size, unique_by=id_key))
    steps = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    order, again = draw(st.permutations(range(size))), draw(st.permutations(range(size)))
    return questions, order, steps, again, fresh


@given(conversations())
def test_every_answer_belongs_to_its_question_and_bears_its_own_id(drawn: tuple[Any, ...]) -> None:
    questions, order, steps, again, fresh = drawn
    told: list[str] = []
    talk, heard = played(recorded(questions, order, steps), told), Heard()

    for place, number in zip(again, fresh, strict=True):
        assert not talk.from_client(ask(number, questions[place][1]), heard)

    answers = [message for message in heard.messages if "result" in message]
    asked = {id_key(number): questions[place][1] for place, number in zip(again, fresh, strict=True)}
    assert Counter(id_key(answer["id"]) for answer in answers) == Counter(asked.keys())
    for answer in answers:
        assert tuple(answer["result"]["question"]) == asked[id_key(answer["id"])]
    assert sorted(answer["result"]["answer"] for answer in answers) == sorted(range(len(questions)))
    assert not told


@given(conversations())
def test_progress_comes_before_its_answer_in_its_order_and_under_its_own_token(drawn: tuple[Any, ...]) -> None:
    questions, order, steps, again, fresh = drawn
    talk, heard = played(recorded(questions, order, steps), []), Heard()

    for place, number in zip(again, fresh, strict=True):
        talk.from_client(ask(number, questions[place][1]), heard)

    seen: dict[bytes, list[int]] = {}
    for message in heard.messages:
        if "method" in message:
            seen.setdefault(id_key(message["params"]["progressToken"]), []).append(message["params"]["progress"])
        else:
            assert seen.get(id_key(message["id"]), []) == list(range(message["result"]["steps"]))


@given(conversations())
def test_equal_questions_get_their_answers_in_the_order_they_were_asked(drawn: tuple[Any, ...]) -> None:
    questions, order, steps, _, _ = drawn
    talk, heard = played(recorded(questions, order, steps), []), Heard()

    for number, question in questions:
        talk.from_client(ask(number, question), heard)

    answers = [message["result"]["answer"] for message in heard.messages if "result" in message]
    assert answers == list(range(len(questions)))


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))
def test_any_result_comes_back_as_it_was(result: Any) -> None:
    log, heard = Log(), Heard()
    talk = McpConversation(NAME, RunSession(Recorder(log)), heard, has_server=True)  # type: ignore[arg-type]
    talk.from_client({"id": 1, "method": "x"}, heard)
    talk.from_server({"id": 1, "result": result})
    calls = [event for event in log.events if isinstance(event, Call)]

    played(calls, []).from_client({"id": "own", "method": "x"}, heard)

    assert json.dumps(heard.messages) == json.dumps([{"jsonrpc": "2.0", "id": "own", "result": result}])


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_what_is_no_json_is_a_value_error_and_nothing_else(text: bytes) -> None:
    try:
        parse(text)
    except ValueError:
        pass


@given(st.dictionaries(st.text(max_size=8), SCALARS | st.dictionaries(st.text(), SCALARS), max_size=6))
def test_nothing_that_is_said_by_either_side_breaks_a_conversation(message: dict[str, Any]) -> None:
    for extra in ({}, {"method": "tools/call"}, {"method": "notifications/cancelled"}, {"id": 1, "result": 1}):
        said = {**message, **extra}
        heard, log = Heard(), Log()
        live = McpConversation(NAME, RunSession(Recorder(log)), heard, has_server=True)  # type: ignore[arg-type]
        live.from_client(said, heard)
        live.from_server(said)
        live.end()
        played([event for event in log.events if isinstance(event, Call)], []).from_client(said, heard)
