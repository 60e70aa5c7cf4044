"""One connection, with nothing that carries it: what is written down when, and what is said again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from replaykit.handlers.recording.recorder import Recorder
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import AnyEvent, Call, ToolCall
from replaykit.model.values import raw
from replaykit.programs.mcp.conversation import McpConversation
from replaykit.programs.mcp.messages import SUBSCRIPTION, is_client_call, response_of, server_gone_error
from replaykit.programs.mcp.playback import RecordedServer
from replaykit.seam.scope import RunSession

ROOTS = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}


class Wire:
    """A recorded conversation and its replay, with what was written and what was heard."""

    run_id = "run"

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.heard: list[Any] = []
        self.left_open: list[Any] = []
        self.told: list[str] = []
        self.live = McpConversation("w", RunSession(Recorder(self)), self, has_server=True)  # type: ignore[arg-type]

    def append(self, event: Any) -> None:
        self.events.append(event)

    def finish(self, header: Any) -> None: ...

    def send(self, message: Any) -> None:
        self.heard.append(message)

    def end_request(self, request: Any, answer: Any) -> None:
        self.left_open.append((request["id"], answer))

    def client(self, *messages: Any) -> None:
        for message in messages:
            assert self.live.from_client(message, self)

    def server(self, *messages: Any) -> None:
        for message in messages:
            self.live.from_server(message)

    @property
    def calls(self) -> list[Call]:
        return sorted((event for event in self.events if isinstance(event, Call)), key=lambda call: call.seq)

    def replay(self) -> McpConversation:
        tape = Tape(call for call in self.calls if is_client_call("w", call))
        recorded_server = RecordedServer("w", self.calls, lambda text, kind: self.told.append(f"{kind}: {text}"))
        return McpConversation("w", RunSession(Replayer(tape)), self, has_server=False, recorded_server=recorded_server)


def ask(number: Any, method: str = "x", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def answer(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def say(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_a_request_that_is_given_up_is_written_down_at_once(wire: Wire) -> None:
    wire.client(ask(1), say("notifications/cancelled", requestId=1))

    assert [(call.name, call.complete) for call in wire.calls] == [("MCP w x", False), ("MCP w meanwhile", True)]
    assert wire.calls[1].items == [
        {"from": "client", "message": {"method": "notifications/cancelled", "params": {"requestId": None}}}
    ]


def test_an_answer_that_comes_too_late_is_a_note(wire: Wire) -> None:
    wire.client(ask(1), say("notifications/cancelled", requestId=1))
    wire.server(answer(1, {}))

    assert wire.events[-1].name == "MCP w answers what nobody asked"  # type: ignore[union-attr]


def test_pings_of_either_side_leave_nothing_behind(wire: Wire) -> None:
    wire.client(ask(1))
    wire.server(ask(1, "ping"), ask(2, "ping"))
    wire.client(ask(2, "ping"), answer(2, {}), answer(1, {}))
    wire.server(answer(2, {}), answer(1, "done"))

    wire.replay().from_client(ask(7), wire)

    assert [event.name for event in wire.events] == ["MCP w x"]
    assert wire.heard == [answer(7, "done")]


def test_requests_that_share_an_id_are_answered_first_come_first_served(wire: Wire) -> None:
    wire.client(ask(1, "a"), ask(1, "b"))
    wire.server(answer(1, "first"), answer(1, "second"))

    assert {call.name: call.result for call in wire.calls} == {"MCP w a": "first", "MCP w b": "second"}


def test_what_belongs_to_a_subscription_is_given_under_the_id_of_whoever_listens(wire: Wire) -> None:
    wire.client(ask("listen-1", "subscriptions/listen"), ask(2, "tools/call", name="get"))
    wire.server(
        say("notifications/tools/list_changed", _meta={SUBSCRIPTION: "listen-1"}),
        answer(2, {"content": []}),
        answer("listen-1", {"_meta": {SUBSCRIPTION: "listen-1"}}),
    )

    wire.replay().from_client(ask("listen-9", "subscriptions/listen"), wire)

    changed, closed = wire.heard
    assert changed["params"]["_meta"] == {SUBSCRIPTION: "listen-9"}
    assert closed == answer("listen-9", {"_meta": {SUBSCRIPTION: "listen-9"}})


def test_what_names_no_request_belongs_to_none_that_only_listens(wire: Wire) -> None:
    wire.client(ask(1, "subscriptions/listen"))
    wire.server(say("notifications/message", level="info"))

    assert [call.name for call in wire.calls] == ["MCP w says notifications/message"]


def test_two_questions_of_the_server_at_once_are_told_apart(wire: Wire) -> None:
    wire.client(ask(1))
    wire.server({**ROOTS, "id": "r1"}, {**ROOTS, "id": "r2", "method": "sampling/createMessage"})
    wire.client(answer("r2", {"content": "snow"}), answer("r1", {"roots": []}))
    wire.server(answer(1, "done"))

    talk = wire.replay()
    talk.from_client(ask(5), wire)
    roots, sampling = wire.heard
    talk.from_client(answer(roots["id"], {"roots": []}), wire)
    assert len(wire.heard) == 2
    talk.from_client(answer(sampling["id"], {"content": "snow"}), wire)

    assert (roots["method"], sampling["method"]) == ("roots/list", "sampling/createMessage")
    assert wire.heard[2:] == [answer(5, "done")]
    assert not wire.told


def test_a_server_that_did_not_wait_for_its_client_does_not_wait_again(wire: Wire) -> None:
    wire.client(ask(1))
    wire.server(ROOTS, answer(1, "done"))
    wire.client(answer(1, {"roots": []}))

    wire.replay().from_client(ask(7), wire)

    assert [message.get("method") for message in wire.heard] == ["roots/list", None]


def test_a_question_that_the_server_takes_back_is_taken_back_under_its_new_id(wire: Wire) -> None:
    wire.client(ask(1))
    wire.server({**ROOTS, "id": "r1"}, say("notifications/cancelled", requestId="r1"), answer(1, "done"))

    wire.replay().from_client(ask(7), wire)

    asked, taken_back, _ = wire.heard
    assert asked["id"] != "r1"
    assert taken_back["params"]["requestId"] == asked["id"]


def test_a_client_that_never_says_it_has_begun_is_told_before_its_next_answer(wire: Wire) -> None:
    wire.client(ask(1, "initialize"))
    wire.server(answer(1, {}), say("notifications/message", level="info"))
    wire.client(ask(2))
    wire.server(answer(2, "done"))

    talk = wire.replay()
    talk.from_client(ask(1, "initialize"), wire)
    talk.from_client(ask(2), wire)

    assert [message.get("method", message.get("id")) for message in wire.heard] == [1, "notifications/message", 2]


def test_what_the_server_says_before_it_is_asked_is_said_at_the_beginning(wire: Wire) -> None:
    wire.server(say("notifications/message", level="info"))
    wire.client(ask(1))
    wire.server(answer(1, "done"))

    wire.replay().begin()

    assert wire.heard == [say("notifications/message", level="info")]


def test_what_another_process_of_the_server_said_at_its_beginning_is_not_said_here(wire: Wire) -> None:
    wire.server(say("notifications/message", level="info"))
    wire.events = [msgspec.structs.replace(event, path="/~mcp-w#1") for event in wire.events]

    wire.replay().begin()

    assert wire.heard == []


def test_a_server_that_died_has_first_given_its_other_answers(wire: Wire) -> None:
    wire.client(ask(1, "a"))
    wire.server(answer(1, "done"))
    wire.client(ask(2, "b"))
    wire.live.end(server_gone_error(3), server_first=True)

    talk = wire.replay()
    talk.from_client(ask(2, "b"), wire)
    assert talk.gone == 3
    assert not talk.is_drained()
    talk.from_client(ask(1, "a"), wire)

    assert talk.is_drained()
    assert wire.heard == [answer(1, "done")]


def test_an_answer_is_written_with_what_was_said_on_the_way_before_anybody_sees_it(wire: Wire) -> None:
    wire.client(ask(1, "tools/call", name="get", arguments={"a": 1}))
    wire.server(say("notifications/message", level="info"), answer(1, {"content": []}))

    call, meanwhile = wire.calls
    assert isinstance(call, ToolCall)
    assert meanwhile.parent == call.seq
    assert meanwhile.arguments == {"call": "w.get"}
    assert [type(event).__name__ for event in wire.events] == ["Exchange", "ToolCall"]


def test_a_request_that_nobody_answered_can_be_given_up_in_a_replay(wire: Wire) -> None:
    wire.client(ask(1))
    wire.live.end()

    talk = wire.replay()
    talk.from_client(ask(4), wire)
    assert wire.left_open[-1][1] is not None
    talk.from_client(say("notifications/cancelled", requestId=4), wire)

    assert wire.left_open[-1] == (4, None)
    assert wire.heard == []


@pytest.mark.parametrize("error", ["no object", {"code": -1}, {"message": 5, "code": 2}, None])
def test_an_error_that_is_none_comes_back_as_it_was(wire: Wire, error: Any) -> None:
    wire.client(ask(1))
    wire.server({"jsonrpc": "2.0", "id": 1, "error": error})

    wire.replay().from_client(ask(2), wire)

    assert wire.heard == [{"jsonrpc": "2.0", "id": 2, "error": error}]


@pytest.mark.parametrize(
    ("result", "given"),
    [("snow", "snow"), ({"temp": 3}, None), ([1, 2], "[1,2]"), (None, "null")],
)
def test_a_result_that_somebody_wrote_by_hand_is_given_as_a_tool_would(result: Any, given: str | None) -> None:
    call = ToolCall(seq=0, name="w.get", result_json=raw(result))

    answered = response_of(call, 1, "tool_call")["result"]

    assert answered == (result if given is None else {"content": [{"type": "text", "text": given}]})


def test_parameters_that_are_a_list_are_arguments_as_they_are(wire: Wire) -> None:
    wire.client(
        {"id": 1, "method": "x", "params": [1, 2]},
        ask(2, "tools/call", name=5),
        ask(3, "tools/call", name="t", arguments=[1]),
    )
    wire.live.end()

    assert [(call.name, call.arguments) for call in wire.calls] == [
        ("MCP w x", [1, 2]),
        ("MCP w tools/call", {"name": 5}),
        ("w.t", {"_mcp": {"arguments": [1]}}),
    ]
