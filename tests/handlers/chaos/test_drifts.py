"""Answers of models in every API's own form, streamed and not: cut, drifted, empty, and read back."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from replaykit.handlers.chaos.chance import SeededChance
from replaykit.handlers.chaos.drifts import drifted, truncated
from replaykit.handlers.chaos.fault_answers import of_model, wire_of
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import ErrorInfo
from replaykit.model.faults import Direction, Drift, Grade, ModelFault, ModelTrouble
from replaykit.model.values import raw
from replaykit.seam.http.request import HttpRequest, pending
from replaykit.seam.http.rewriting import chunks_of, written
from replaykit.seam.scope import Outcome, RunSession
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.routes import api_of

APIS = {
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "hi"}]}, "length"),
    "/v1/responses": ({"input": "hi"}, "max_output_tokens"),
    "/v1/completions": ({"prompt": "hi"}, "length"),
    "/v1/messages": ({"messages": [{"role": "user", "content": "hi"}]}, "max_tokens"),
    "/v1beta/models/g:generateContent": ({"contents": [{"parts": [{"text": "hi"}]}]}, "MAX_TOKENS"),
    "/v1beta/models/g:streamGenerateContent?alt=sse": ({"contents": [{"parts": [{"text": "hi"}]}]}, "MAX_TOKENS"),
    "/model/c/invoke": ({"messages": [{"role": "user", "content": "hi"}]}, "max_tokens"),
    "/model/c/invoke-with-response-stream": ({"messages": [{"role": "user", "content": "hi"}]}, "max_tokens"),
    "/api/chat": ({"messages": [{"role": "user", "content": "hi"}]}, "length"),
    "/api/generate": ({"prompt": "hi"}, "length"),
}
CHANCE = SeededChance(2**40 + 7)


class Talk:
    """One exchange with a model: what it was asked, and what it answered."""

    def __init__(self, path: str, stream: bool, said: ModelAnswer) -> None:
        body = orjson.dumps({"model": "m", **APIS[path][0], "stream": stream})
        self.request = HttpRequest(method="POST", url=f"http://127.0.0.1{path}", body=body)
        api = api_of("POST", path)
        assert api is not None
        self.api = api
        self.call = pending(RunSession(Replayer(Tape([]))).root, self.request, api)
        self.call.request = self.request
        self.outcome = written(api, said, wire_of(self.request, 200), request=body)

    def under(self, fault: ModelFault) -> Any:
        """What a client reads of the answer that the fault made."""
        altered = of_model(fault, CHANCE, self.call, self.api)(self.outcome)
        assert isinstance(altered, Outcome)
        assert altered.wire is not None
        read = self.api.read(self.request.body, altered.wire.status, chunks_of(altered, altered.wire))
        assert read.problem is None
        assert read.answer is not None
        assert altered.result_json == raw(read.answer.message)  # the log says what the wire says
        return read


@pytest.fixture(params=[(path, stream) for path in APIS for stream in (False, True)], ids=lambda param: f"{param}")
def place(request: pytest.FixtureRequest) -> tuple[str, bool]:
    found: tuple[str, bool] = request.param
    return found


def test_a_cut_answer_says_so_in_the_apis_own_word(place: tuple[str, bool]) -> None:
    read = Talk(*place, ModelAnswer(content="one two three four")).under(
        ModelFault(mode=ModelTrouble.TRUNCATED, max_tokens=2)
    )

    assert (read.answer.content, read.finish_reason) == ("one two", APIS[place[0]][1])


@pytest.mark.parametrize("drift", list(Drift))
def test_an_answer_that_drifted_can_be_read(place: tuple[str, bool], drift: Drift) -> None:
    said = ModelAnswer(content='{"user_name": "Ann Smith", "age": 3}')

    read = Talk(*place, said).under(ModelFault(mode=ModelTrouble.DRIFT, drift_type=drift))

    assert read.answer.content != said.content
    assert read.complete


def test_a_model_that_failed_has_no_answer_to_change() -> None:
    talk = Talk("/v1/messages", False, ModelAnswer(content="x"))
    failed = Outcome(error=ErrorInfo(type="overloaded_error"), wire=talk.outcome.wire)

    assert of_model(ModelFault(mode=ModelTrouble.TRUNCATED), CHANCE, talk.call, talk.api)(failed) is None


def test_arguments_of_a_tool_are_cut_and_renamed_where_a_model_says_nothing_else() -> None:
    said = ModelAnswer(tool_calls=(ToolUse(name="book", arguments={"flight_number": "LH 1", "seats": 2}),))
    fault = ModelFault(mode=ModelTrouble.DRIFT, severity=Grade.HIGH)

    cut = truncated(said, 2).tool_calls[0].arguments
    renamed = drifted(said, fault, CHANCE.dice()).tool_calls[0].arguments

    assert type(cut) is str
    assert '{"flight_number":"LH 1","seats":2}'.startswith(cut)
    assert renamed == {"flightNumber": "LH 1", "seats_value": 2}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [path for path in APIS if path not in ("/v1/completions", "/api/generate")])
def test_a_call_of_a_tool_is_cut_as_the_api_sends_it(path: str, stream: bool) -> None:
    arguments = {"flight_number": "LH 1", "seats": 2}
    talk = Talk(path, stream, ModelAnswer(tool_calls=(ToolUse(id="c1", name="book", arguments=arguments),)))

    altered = of_model(ModelFault(mode=ModelTrouble.TRUNCATED, max_tokens=1), CHANCE, talk.call, talk.api)(talk.outcome)

    assert isinstance(altered, Outcome)
    assert altered.wire is not None
    read = talk.api.read(talk.request.body, 200, chunks_of(altered, altered.wire))
    (cut,) = read.answer.tool_calls if read.answer else ()
    assert cut.arguments in ('{"fl', {"flight_number": "LH 1"})
    assert read.finish_reason == APIS[path][1]


@pytest.mark.parametrize(("severity", "changed"), [(Grade.LOW, 1), (Grade.MEDIUM, 2), (Grade.HIGH, 4)])
def test_the_severity_says_how_many_members_have_another_name(severity: Grade, changed: int) -> None:
    said = ModelAnswer(content=orjson.dumps({"a": 1, "b": 2, "c": 3, "d": 4}).decode())

    other = drifted(said, ModelFault(mode=ModelTrouble.DRIFT, severity=severity), CHANCE.dice())

    assert len(set(orjson.loads(other.content or "")) - {"a", "b", "c", "d"}) == changed


def test_json_in_a_fence_stays_in_it() -> None:
    said = ModelAnswer(content='Here:\n```json\n{"user_name": 1}\n```\nDone.')

    other = drifted(said, ModelFault(mode=ModelTrouble.DRIFT, severity=Grade.HIGH), CHANCE.dice())

    assert other.content == 'Here:\n```json\n{"userName":1}\n```\nDone.'


def test_a_shorter_answer_keeps_its_first_sentences_and_a_longer_one_all() -> None:
    said = ModelAnswer(content="One. Two. Three. Four.")

    def shifted(direction: Direction, factor: float) -> str:
        fault = ModelFault(mode=ModelTrouble.DRIFT, drift_type=Drift.VERBOSITY, direction=direction, factor=factor)
        return drifted(said, fault, CHANCE.dice()).content or ""

    assert shifted(Direction.COMPRESS, 2.0) == "One. Two."
    assert shifted(Direction.COMPRESS, 100.0) == "One."
    assert shifted(Direction.EXPAND, 4.0).startswith("One. Two. Three. Four. ")
