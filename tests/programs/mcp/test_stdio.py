"""A client and a server over standard input and output: recorded by a shim between them, then the server played."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

from replaykit.errors import ReplayKitError, StoreError
from replaykit.model.events import Exchange, Note, ToolCall
from replaykit.model.matching import ErrorSpec, MatchRules, OnMiss
from replaykit.programs.launcher import INJECT_DIRECTORY
from replaykit.programs.mcp.conversation import McpConversation
from replaykit.programs.mcp.messages import MISS
from replaykit.programs.mcp.shim_session import join_session, server_environment
from replaykit.programs.plan import Mode, ProgramPlan

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": {"name": "c", "version": "1"}}


def tool_call(number: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def text_of(answer: Any) -> str:
    return str(answer["result"]["content"][0]["text"])


def test_a_tool_call_is_recorded_under_the_server_and_its_tool(weather: Any) -> None:
    with weather.recorded() as client:
        answer = client.tool(7, "echo", city="Bern")

    call = weather.calls["weather.echo"]
    assert isinstance(call, ToolCall)
    assert call.arguments == {"city": "Bern"}
    assert call.result == answer["result"]
    assert call.path == "/!mcp-weather#0"


def test_other_requests_are_exchanges_by_their_method(weather: Any) -> None:
    with weather.recorded() as client:
        client.request(1, "initialize", HELLO)
        tools = client.request(2, "tools/list", {})

    calls = weather.calls
    assert isinstance(calls["MCP weather tools/list"], Exchange)
    assert calls["MCP weather tools/list"].result == tools["result"]
    assert calls["MCP weather initialize"].arguments == {}
    assert calls["MCP weather meanwhile"].items[0]["message"]["params"] == HELLO


def test_answers_come_back_in_any_order_with_the_ids_of_whoever_asks(weather: Any, own_directory: Path) -> None:
    marker = own_directory / "started"
    with weather.recorded("--marker", str(marker)) as client:
        recorded = {city: client.tool(number, "echo", city=city) for number, city in enumerate("abc")}
    assert marker.exists()
    marker.unlink()

    with weather.replayed() as client:
        given = {city: client.tool(f"id-{city}", "echo", city=city) for city in "cab"}

    assert {city: answer["id"] for city, answer in given.items()} == {"a": "id-a", "b": "id-b", "c": "id-c"}
    assert {city: answer["result"] for city, answer in given.items()} == {
        city: answer["result"] for city, answer in recorded.items()
    }
    assert not marker.exists()
    assert not weather.deviations


def test_the_same_question_gets_its_answers_one_after_the_other(weather: Any) -> None:
    with weather.recorded() as client:
        recorded = [client.tool(number, "echo")["result"] for number in range(3)]

    with weather.replayed() as client:
        given = [client.tool(number, "echo")["result"] for number in range(3)]

    assert given == recorded
    assert len({json.dumps(result) for result in recorded}) == 3


def test_parallel_requests_are_answered_whatever_order_the_server_took(weather: Any) -> None:
    with weather.recorded() as client:
        asked = [tool_call(n, "hold", of=3, n=n) for n in range(3)]
        client.send(*asked)
        came = [client.receive() for _ in range(3)]

    with weather.replayed() as client:
        client.send(*reversed(asked))
        again = [client.receive() for _ in range(3)]

    assert [answer["id"] for answer in came] == [2, 1, 0]
    assert {answer["id"]: answer["result"] for answer in again} == {answer["id"]: answer["result"] for answer in came}


@sampled("number", [0, -1, 2**70, 1.5, "", "seven", "1", True, None, [1], {"a": 1}], count=4)
def test_ids_of_any_type_are_kept(weather: Any, number: Any) -> None:
    with weather.recorded() as client:
        recorded = client.tool(number, "echo")

    with weather.replayed() as client:
        given = client.tool("other", "echo")
        assert client.request(number, "ping") == {"jsonrpc": "2.0", "id": number, "result": {}}

    assert recorded["id"] == number
    assert type(recorded["id"]) is type(number)
    assert given["id"] == "other"
    assert given["result"] == recorded["result"]


def test_one_and_the_text_one_are_two_ids(weather: Any) -> None:
    with weather.recorded() as client:
        client.send(*(tool_call(n, "hold", of=2, n=n) for n in (1, "1")))
        answers = [client.receive() for _ in range(2)]

    results = {json.dumps(call.arguments["n"]): call.result for call in weather.run.tool_calls}
    assert results == {json.dumps(answer["id"]): answer["result"] for answer in answers}


def test_an_error_is_replayed_as_the_error_it_was(weather: Any) -> None:
    with weather.recorded() as client:
        recorded = client.tool(1, "refuse")
        failed = client.tool(2, "fail")

    with weather.replayed() as client:
        assert client.tool(1, "refuse") == recorded
        assert client.tool(2, "fail") == failed

    assert recorded["error"] == {"code": -32602, "message": "no such city", "data": [1]}
    assert weather.calls["weather.refuse"].error.message == "no such city"
    assert failed["result"]["isError"]


def test_progress_is_told_again_under_the_token_of_whoever_asks(weather: Any) -> None:
    params = {"name": "progress", "arguments": {"steps": 3}}
    with weather.recorded() as client:
        client.request(1, "tools/call", {**params, "_meta": {"progressToken": "one"}})
        recorded = client.before()

    with weather.replayed() as client:
        client.request(1, "tools/call", {**params, "_meta": {"progressToken": 99}})
        given = client.before()

    assert [told["params"] for told in recorded] == [{"progressToken": "one", "progress": n} for n in range(3)]
    assert [told["params"] for told in given] == [{"progressToken": 99, "progress": n} for n in range(3)]
    assert weather.calls["weather.progress"].items_json is None
    assert len(weather.calls["MCP weather meanwhile"].items) == 3


def test_who_wants_no_progress_is_told_none(weather: Any) -> None:
    params = {"name": "progress", "arguments": {"steps": 2}}
    with weather.recorded() as client:
        client.request(1, "tools/call", {**params, "_meta": {"progressToken": "one"}})

    with weather.replayed() as client:
        assert text_of(client.request(1, "tools/call", params))
        assert client.before() == []


def sampled(client: Any, number: Any, answer: Any) -> tuple[Any, Any]:
    """What the server asks on the way, and what it answers in the end."""
    client.send(tool_call(number, "sample"))
    asked = client.receive()
    assert client.silent()
    client.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
    return asked, client.receive()


def test_what_the_server_asks_its_client_is_asked_again_before_the_answer(weather: Any) -> None:
    with weather.recorded() as client:
        asked, answer = sampled(client, 1, {"result": {"model": "m", "content": "snow"}})

    with weather.replayed() as client:
        asked_again, given = sampled(client, 1, {"result": {"model": "m", "content": "snow", "_meta": {"x": 1}}})

    assert asked_again["method"] == asked["method"] == "sampling/createMessage"
    assert asked_again["params"] == asked["params"]
    assert given["result"] == answer["result"]
    assert "snow" in text_of(given)
    assert not weather.deviations


@pytest.mark.parametrize("other", [{"result": {"content": "rain"}}, {"error": {"code": -1, "message": "no"}}])
def test_another_answer_to_the_server_is_accepted_and_told(weather: Any, other: Any) -> None:
    with weather.recorded() as client:
        _, answer = sampled(client, 1, {"result": {"content": "snow"}})

    with weather.replayed() as client:
        _, given = sampled(client, 1, other)

    assert given["result"] == answer["result"]
    (deviation,) = weather.deviations
    assert deviation.kind == "answer"
    assert "snow" in deviation.text


def test_what_the_server_says_on_its_own_comes_after_the_same_call(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")
        client.tool(2, "change")
        changed = client.receive()

    with weather.replayed() as client:
        client.tool(2, "change")
        assert client.receive() == changed
        client.tool(1, "echo")
        assert client.silent()

    call = weather.calls["MCP weather says notifications/tools/list_changed"]
    assert call.parent == weather.calls["weather.change"].seq
    assert not weather.deviations


def test_what_the_server_asks_once_the_client_has_begun_waits_for_that(weather: Any) -> None:
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    roots = {"result": {"roots": [{"uri": "file:///x"}]}}
    with weather.recorded("--roots") as client:
        client.request(1, "initialize", HELLO)
        client.send(begun)
        asked = client.receive()
        client.send({"jsonrpc": "2.0", "id": asked["id"], **roots})
        client.tool(2, "echo")

    with weather.replayed() as client:
        client.request(1, "initialize", HELLO)
        assert client.silent()
        client.send(begun)
        again = client.receive()
        client.send({"jsonrpc": "2.0", "id": again["id"], **roots})
        client.tool(2, "echo")

    assert asked["method"] == again["method"] == "roots/list"
    assert weather.calls["MCP weather asks roots/list"].result == roots["result"]
    assert not weather.deviations


def test_a_request_that_the_client_gave_up_waits_to_be_given_up_again(weather: Any) -> None:
    give_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "reason": "slow"}}
    with weather.recorded() as client:
        client.send(tool_call(5, "hang"), give_up)
        client.tool(6, "echo")

    with weather.replayed() as client:
        client.send(tool_call(8, "hang"))
        assert client.silent()
        client.send({**give_up, "params": {"requestId": 8}})
        assert client.tool(9, "echo")["id"] == 9
        assert client.before() == []

    call = weather.calls["weather.hang"]
    assert not call.complete
    assert call.error is None
    assert not weather.deviations


def test_a_server_that_dies_in_a_call_dies_there_again(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")
        assert client.tool(2, "die") is None
        recorded = client.before()
    assert weather.code == 3

    with weather.replayed() as client:
        client.tool(1, "echo")
        assert client.tool(2, "die") is None
        assert client.before() == recorded

    assert weather.code == 3
    assert recorded[0]["params"]["data"] == "I die"
    call = weather.calls["weather.die"]
    assert not call.complete
    assert call.error.message == "the server ended with exit code 3"


def test_a_server_that_ends_between_calls_ends_there_again(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")
        client.tool(2, "leave")
        assert client.receive() is None

    with weather.replayed() as client:
        client.tool(2, "leave")
        assert client.tool(1, "echo")["id"] == 1  # it had answered this before it ended
        assert client.receive() is None

    assert weather.code == 4
    assert not weather.deviations


def test_a_server_that_died_dies_even_if_the_client_leaves_something_out(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")
        client.tool(2, "die")

    with weather.replayed() as client:
        assert client.tool(2, "die") is None

    assert weather.code == 3
    assert [deviation.kind for deviation in weather.deviations] == ["unused"]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_the_signal_that_killed_a_server_is_in_the_exit_code(weather: Any, name: str) -> None:
    number = getattr(signal, name)
    code = f"import os,sys; sys.stdin.readline(); os.kill(os.getpid(), {int(number)})"
    with weather.recorded(command=[sys.executable, "-I", "-c", code]) as client:
        assert client.request(1, "initialize") is None

    assert weather.code == 128 + number


def test_a_batch_is_answered_with_a_batch(weather: Any) -> None:
    calls = [tool_call(n, "echo", n=n) for n in (1, 2)]
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    with weather.recorded() as client:
        client.send([*calls, told])
        recorded = client.receive()

    with weather.replayed() as client:
        client.send([told, calls[1], calls[0]])
        given = client.receive()
        client.send([calls[0]])  # asked once too often, and still a batch
        refused = client.receive()

    assert sorted(given, key=lambda answer: answer["id"]) == recorded
    assert refused[0]["error"]["code"] == MISS


def test_a_batch_does_not_wait_for_what_nobody_answered(weather: Any) -> None:
    with weather.recorded() as client:
        client.send([tool_call(1, "echo"), tool_call(2, "hang")])
        (recorded,) = client.receive()

    with weather.replayed() as client:
        client.send([tool_call(1, "echo"), tool_call(2, "hang")])
        assert client.receive() == [recorded]
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        assert client.request(3, "ping")["result"] == {}
        assert client.before() == []


def test_pings_are_answered_and_leave_nothing_behind(weather: Any) -> None:
    with weather.recorded() as client:
        recorded = client.request(1, "ping")

    with weather.replayed() as client:
        assert [client.request(n, "ping")["result"] for n in range(5)] == [{}] * 5

    assert recorded["result"] == {}
    assert list(weather.run.events) == []
    assert not weather.deviations


def test_garbage_of_the_server_reaches_its_client_as_it_is_and_is_no_message(weather: Any) -> None:
    with weather.recorded() as client:
        client.send(tool_call(1, "garbage"))
        lines = [client.line() for _ in range(6)]

    with weather.replayed() as client:
        assert client.tool(1, "garbage")["result"] == json.loads(lines[-1])["result"]
        assert client.before() == []

    assert lines[:5] == [b"Listening on port 8000", b"", b"{not json}", b"[]", b"42"]
    notes = [event.content for event in weather.run.events if isinstance(event, Note)]
    assert notes == ["Listening on port 8000\n", "{not json}\n", "[]\n", "42\n"]


def test_a_line_of_the_client_that_is_no_message_is_passed_on_and_refused_in_a_replay(weather: Any) -> None:
    with weather.recorded() as client:
        client.write(b"\n{oops\n")
        recorded = client.receive()
        client.tool(1, "echo")

    with weather.replayed() as client:
        client.write(b"\n{oops\n")
        given = client.receive()
        client.send({"jsonrpc": "2.0", "id": 4})
        neither = client.receive()
        assert client.tool(1, "echo")["id"] == 1

    assert recorded["error"]["code"] == given["error"]["code"] == -32700
    assert given["id"] is None
    assert neither["id"] == 4
    assert neither["error"]["code"] == -32600


def test_half_an_emoji_and_huge_numbers_come_through_unchanged(weather: Any) -> None:
    strange = {"half": "\ud83d", "huge": 2**80, "tiny": -(2**64)}
    with weather.recorded() as client:
        recorded = client.tool(1, "echo", **strange)

    with weather.replayed() as client:
        given = client.tool(2, "echo", **strange)

    assert json.loads(text_of(recorded).rpartition(" ")[0]) == strange
    assert given["result"] == recorded["result"]


@pytest.mark.parametrize("mebibytes", [5, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_a_message_of_many_megabytes_passes(weather: Any, mebibytes: int) -> None:
    size = mebibytes * 1024 * 1024
    asked = tool_call(1, "big", bytes=size)
    with weather.recorded() as client:
        client.send(asked)
        recorded = client.line()

    with weather.replayed() as client:
        client.send(asked)
        assert client.line() == recorded.replace(b'": ', b'":').replace(b', "', b',"')

    assert len(recorded) > size


def test_a_large_question_is_matched_like_any_other(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "big", bytes=1, filler="y" * 1_000_000)

    with weather.replayed() as client:
        assert client.tool(1, "big", bytes=1, filler="y" * 1_000_000)["result"]["content"][0]["text"] == "x"
        assert "error" in client.tool(2, "big", bytes=1, filler="y" * 1_000_001)


def test_a_miss_names_the_nearest_recorded_call_and_the_difference(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo", city="Bern")

    with weather.replayed() as client:
        error = client.tool(1, "echo", city="Rome")["error"]
        client.tool(2, "echo", city="Bern")

    assert error["code"] == MISS
    assert "left its recording" in error["message"]
    assert error["data"]["nearest"] == {"name": "weather.echo", "arguments": {"city": "Bern"}}
    assert error["data"]["differences"] == ["changed   $.city: 'Bern' → 'Rome'"]
    assert [deviation.kind for deviation in weather.deviations] == ["missing"]


def test_a_question_about_the_server_may_be_asked_more_often_than_it_was(weather: Any) -> None:
    with weather.recorded() as client:
        first = client.request(1, "tools/list", {})
        second = client.request(2, "tools/list", {})

    with weather.replayed() as client:
        given = [client.request(n, "tools/list", {})["result"] for n in range(4)]

    assert given == [first["result"], second["result"], second["result"], second["result"]]
    assert [deviation.kind for deviation in weather.deviations] == ["repeated", "repeated"]


def test_a_tool_is_not_called_more_often_than_it_was(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")

    with weather.replayed() as client:
        client.tool(1, "echo")
        error = client.tool(2, "echo")["error"]
    assert "every recording of it has been served" in error["message"]

    with weather.replayed(MatchRules(on_miss=OnMiss.REPEAT)) as client:
        once, twice = (client.tool(n, "echo")["result"] for n in (1, 2))
    assert once == twice


def test_the_rules_of_the_case_hold(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo", city="Bern", at=1)

    with weather.replayed(MatchRules(ignore=("$.at",))) as client:
        assert "Bern" in text_of(client.tool(1, "echo", city="Bern", at=2))
    fault = MatchRules(on_miss=OnMiss.FAULT, fault=ErrorSpec(type="Timeout", message="too slow"))
    with weather.replayed(fault) as client:
        assert client.tool(1, "echo", city="Rome")["error"]["message"] == "Timeout: too slow"
    with weather.replayed(MatchRules(on_miss=OnMiss.LIVE, live=("weather.echo",))) as client:
        assert "no MCP server is started in a replay" in client.tool(1, "echo", city="Rome")["error"]["message"]


def test_a_client_of_another_version_finds_its_handshake(weather: Any) -> None:
    with weather.recorded() as client:
        recorded = client.request(1, "initialize", HELLO)

    with weather.replayed() as client:
        other = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "d", "version": "9"}}
        unknown = client.request(
            0, "server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
        )
        assert client.request(1, "initialize", other)["result"] == recorded["result"]

    assert unknown["error"]["code"] == -32601
    assert [deviation.kind for deviation in weather.deviations] == ["handshake"]


def test_what_a_client_says_beside_the_request_does_not_count(weather: Any) -> None:
    with weather.recorded() as client:
        client.request(1, "tools/call", {"name": "echo", "_meta": {"vendor/toolUseId": "a"}})

    with weather.replayed() as client:
        assert "result" in client.request(1, "tools/call", {"name": "echo", "_meta": {"vendor/toolUseId": "b"}})

    assert not weather.deviations


def test_answers_to_what_the_server_required_are_a_part_of_the_call(weather: Any) -> None:
    asked = {"name": "echo", "arguments": {"q": 1}}
    replies = {"requestState": "opaque", "inputResponses": {"k": {"action": "accept"}}}
    with weather.recorded() as client:
        client.request(1, "tools/call", asked)
        client.request(2, "tools/call", {**asked, **replies})

    with weather.replayed() as client:
        second = client.request(2, "tools/call", {**asked, **replies})
        other = client.request(3, "tools/call", {**asked, **replies, "inputResponses": {"k": {"action": "decline"}}})

    last = weather.run.tool_calls[-1]
    assert last.arguments == {"q": 1, "_mcp": replies}
    assert second["result"] == last.result
    assert other["error"]["code"] == MISS


def test_a_client_that_goes_away_leaves_what_was_under_way_unanswered(weather: Any) -> None:
    with weather.recorded() as client:
        client.send(tool_call(1, "hang"))
        client.tool(2, "echo")
        client.close()
        assert client.receive() is None
    assert weather.code == 0

    with weather.replayed() as client:
        client.send(tool_call(1, "hang"))
        assert client.tool(2, "echo")["id"] == 2
        assert client.before() == []

    call = weather.calls["weather.hang"]
    assert not call.complete
    assert call.error is None


def test_a_server_that_does_not_end_with_its_client_is_ended(weather: Any) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    with weather.recorded(command=[sys.executable, "-I", "-c", stubborn], grace_s=0.05) as client:
        client.close()
        assert client.receive() is None

    assert weather.code == 0


def test_a_server_that_cannot_be_started_is_named(weather: Any) -> None:
    with weather.recorded(command=["no-such-server", "--token=secret"]) as client:
        assert client.receive() is None

    assert isinstance(weather.problem, ReplayKitError)
    assert "'no-such-server': No such file or directory" in str(weather.problem)
    assert "secret" not in str(weather.problem)


def test_a_server_that_could_not_be_started_is_not_there_in_a_replay_either(weather: Any) -> None:
    with weather.recorded(command=["no-such-server"]) as client:
        assert client.receive() is None
    code = weather.problem.exit_code

    with weather.replayed() as client:
        assert client.receive() is None

    assert weather.code == code
    assert not weather.deviations
    assert weather.calls["MCP weather ends"].error.message == "the server ended with exit code 3"


def test_what_cannot_be_written_down_ends_the_shim(weather: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("replaykit.handlers.recording.recorder.Recorder.keep", full)
    with weather.recorded() as client:
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert client.receive() is None

    assert isinstance(weather.problem, StoreError)


def test_the_server_is_the_world_and_takes_no_part_in_the_recording(
    weather: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAYKIT_SESSION", "here")
    monkeypatch.setenv("API_KEY", "sk-very-secret")
    with weather.recorded() as client:
        answer = client.tool(1, "environment", names=["REPLAYKIT_SESSION", "API_KEY"])

    seen = json.loads(text_of(answer).rpartition(" ")[0])
    assert seen == {"REPLAYKIT_SESSION": None, "API_KEY": "sk-very-secret"}


def test_the_environment_of_a_server_is_that_of_its_client_but_for_what_is_ours() -> None:
    proxy = "http://127.0.0.1:40123"
    plan = ProgramPlan(
        mode=Mode.RECORD, run_id="r", store="s", proxy=proxy, upstreams={"api": "https://api.example/v1"}
    )
    ours = dict.fromkeys(("REPLAYKIT_SESSION", "REPLAYKIT_RECORDING", "REPLAYKIT_PROXY", "REPLAYKIT_ALONE"), "x")
    led = {
        "PYTHONPATH": f"{INJECT_DIRECTORY}{os.pathsep}/own",
        "API_BASE_URL": f"{proxy}/api",
        "OTHER": f"{proxy}0/api",
    }

    kept = server_environment({**ours, **led, "HOME": "/h"}, plan)

    assert kept == {
        "PYTHONPATH": "/own",
        "API_BASE_URL": "https://api.example/v1",
        "OTHER": f"{proxy}0/api",
        "HOME": "/h",
    }


def test_no_value_of_the_environment_is_written_down(weather: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-very-secret")
    with weather.recorded() as client:
        client.tool(1, "echo")

    assert b"weather.echo" in weather.written()
    assert b"sk-very-secret" not in weather.written()


def test_servers_of_one_name_that_start_in_another_order_find_their_answers(weather: Any) -> None:
    with weather.recording() as first, join_session("weather", weather.directory / "session-1") as second:
        recorded = {
            city: answer_to(own, tool_call(1, "echo", city=city)) for own, city in ((first, "a"), (second, "b"))
        }

    with (
        weather.replaying() as first,
        join_session("weather", weather.directory / "session-2") as second,
        join_session("weather", weather.directory / "session-2") as third,
    ):
        given = {city: answer_to(own, tool_call(2, "echo", city=city)) for own, city in ((first, "b"), (second, "a"))}
        more = answer_to(third, tool_call(3, "echo", city="a"))

    assert {city: answer["result"] for city, answer in given.items()} == {
        city: answer["result"] for city, answer in recorded.items()
    }
    assert more["result"] == recorded["a"]["result"]
    assert [deviation.kind for deviation in weather.deviations] == ["moved", "moved", "moved"]


class Heard(list[Any]):
    """What a client hears."""

    def send(self, message: Any) -> None:
        self.append(message)

    def left(self, request: Any, answer: Any) -> None: ...


def answer_to(own: Any, message: Any) -> Any:
    """The answer of a server that is recorded, or played, by this part."""
    heard = Heard()
    live = own.plan.mode is Mode.RECORD
    talk = McpConversation("weather", own.session, heard, has_server=live, recorded_server=own.recorded_server)
    if talk.from_client(message, heard):
        answer = {"id": message["id"], "result": {"content": [{"text": f"answer to {message['params']['arguments']}"}]}}
        talk.from_server(answer)
        return answer
    return heard[0]


def test_two_servers_of_one_name_have_parts_of_their_own(weather: Any) -> None:
    with weather.recording(), join_session("weather", weather.directory / "session-1"):
        pass

    names = [part.name for part in weather.parts(weather.directory / "session-1")]
    assert names == ["mcp-weather#0", "mcp-weather#1"]
