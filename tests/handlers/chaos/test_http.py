"""Faults of exchanges and models over HTTP: each library meets what it would meet, in the API's own words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from tests.matrix import sampled

import replaykit as rk
from replaykit.model.faults import (
    ChaosPlan,
    Direction,
    Drift,
    Grade,
    ModelFault,
    ModelTrouble,
    ToolFault,
    ToolTrouble,
)
from replaykit.wire.routes import api_of

CHAT = "/v1/chat/completions"
Asked = Callable[..., tuple[int, dict[str, str], str]]
TIMEOUTS = {
    "httpx": httpx.ReadTimeout,
    "httpx_async": httpx.ReadTimeout,
    "requests": requests.ReadTimeout,
    "aiohttp": aiohttp.ServerTimeoutError,
}


def _body(stream: bool) -> dict[str, Any]:
    return {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}


def _with_httpx(url: str, stream: bool | None = None) -> tuple[int, dict[str, str], str]:
    with httpx.Client() as client:
        answer = client.get(url) if stream is None else client.post(url, json=_body(stream))
        return answer.status_code, dict(answer.headers), answer.text


def _with_httpx_async(url: str, stream: bool | None = None) -> tuple[int, dict[str, str], str]:
    async def ask() -> tuple[int, dict[str, str], str]:
        async with httpx.AsyncClient() as client:
            answer = await (client.get(url) if stream is None else client.post(url, json=_body(stream)))
            return answer.status_code, dict(answer.headers), answer.text

    return asyncio.run(ask())


def _with_requests(url: str, stream: bool | None = None) -> tuple[int, dict[str, str], str]:
    with requests.Session() as session:
        answer = session.get(url) if stream is None else session.post(url, json=_body(stream))
        return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.text


def _with_aiohttp(url: str, stream: bool | None = None) -> tuple[int, dict[str, str], str]:
    async def ask() -> tuple[int, dict[str, str], str]:
        async with aiohttp.ClientSession() as session:
            asked = session.get(url) if stream is None else session.post(url, json=_body(stream))
            async with asked as answer:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, headers, await answer.text()

    return asyncio.run(ask())


LIBRARIES: dict[str, Asked] = {
    "httpx": _with_httpx,
    "httpx_async": _with_httpx_async,
    "requests": _with_requests,
    "aiohttp": _with_aiohttp,
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def of_tool(mode: str, **options: Any) -> ChaosPlan:
    return ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble(mode), match_url="*/weather", **options),))


def of_model(mode: str, **options: Any) -> ChaosPlan:
    return ChaosPlan(llm_faults=(ModelFault(mode=ModelTrouble(mode), **options),))


def said(text: str) -> dict[str, Any]:
    """What the model answered, whether as a stream or not."""
    read = api_of("POST", CHAT).read(b'{"messages": []}', 200, [text.encode()])  # type: ignore[union-attr]
    assert read.answer is not None
    assert read.complete
    assert read.problem is None
    return {"content": read.answer.content, "finish": read.finish_reason}


@sampled(
    ("mode", "expected"),
    [
        ("malformed", '{"city":"Paris","tex\ufffd\ufffd{'),
        ("empty", "{}"),
        ("partial", '{"city":"Paris"}'),
        ("malicious_response", '{"city":"Paris","text":"obey"}'),
    ],
    count=2,
)
def test_a_response_is_changed_live_and_from_the_tape_alike(
    worlds: Any, model: str, library: str, mode: str, expected: str
) -> None:
    def agent(_: str) -> str:
        return LIBRARIES[library](f"{model}/weather")[2]

    calm = worlds.live(agent)
    live = worlds.live(agent, of_tool(mode, payload="obey"))
    taped = worlds.taped(agent, calm.events, of_tool(mode, payload="obey"))

    assert live.output == taped.output == expected
    assert next(live.calls).faults == next(taped.calls).faults == (f"tool.{mode}",)
    assert worlds.taped(agent, live.events).output == expected  # without chaos: it is on the tape


def test_a_status_is_answered_in_the_servers_place(worlds: Any, model: str, asked: list[str], library: str) -> None:
    run = worlds.live(lambda _: LIBRARIES[library](f"{model}/weather")[::2], of_tool("error", error_code=502))

    assert run.output[0] == 502
    assert json.loads(run.output[1])["error"]["code"] == 502
    assert asked == []


def test_a_timeout_is_the_librarys_own(worlds: Any, model: str, library: str) -> None:
    def agent(_: str) -> str:
        with pytest.raises(TIMEOUTS[library]):
            LIBRARIES[library](f"{model}/weather")
        with pytest.raises(TIMEOUTS[library]):
            LIBRARIES[library](model + CHAT, False)
        return "as it should be"

    plan = ChaosPlan(tool_faults=of_tool("timeout").tool_faults, llm_faults=(ModelFault(mode=ModelTrouble.TIMEOUT),))

    assert worlds.live(agent, plan).output == "as it should be"


def test_an_error_without_a_status_is_a_connection_that_failed(worlds: Any, model: str) -> None:
    def agent(_: str) -> str:
        with pytest.raises(httpx.ConnectError):
            _with_httpx(f"{model}/weather")
        return "as it should be"

    assert worlds.live(agent, of_tool("error", error_code=0)).output == "as it should be"


@pytest.mark.parametrize("stream", [False, True])
def test_a_rate_limit_is_a_429_with_a_time_to_come_again(worlds: Any, model: str, library: str, stream: bool) -> None:
    run = worlds.live(lambda _: LIBRARIES[library](model + CHAT, stream), of_model("rate_limit", delay_ms=2500))
    status, headers, text = run.output

    assert (status, headers["retry-after"], headers["retry-after-ms"]) == (429, "3", "2500")
    assert json.loads(text)["error"]["code"] == "rate_limit_exceeded"
    call = next(run.calls)
    assert (call.faults, call.error.type) == (("model.rate_limit",), "rate_limit_exceeded")


def test_unless_it_is_said_a_rate_limit_makes_no_sdk_wait(worlds: Any, model: str) -> None:
    status, headers, _ = worlds.live(lambda _: _with_httpx(model + CHAT, False), of_model("rate_limit")).output

    assert (status, headers["retry-after"], headers["retry-after-ms"]) == (429, "1", "1")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/v1/messages", ["error", "type", "rate_limit_error"]),
        ("/v1beta/models/gemini-pro:generateContent", ["error", "status", "RESOURCE_EXHAUSTED"]),
        ("/v1/responses", ["error", "type", "rate_limit_exceeded"]),
        ("/model/claude/invoke", ["message"]),
        ("/api/chat", ["error"]),
    ],
)
def test_each_api_says_in_its_own_words_that_there_is_too_much(
    worlds: Any, model: str, url: str, expected: list[str]
) -> None:
    run = worlds.live(lambda _: _with_httpx(model + url, False), of_model("rate_limit"))

    body = json.loads(run.output[2])
    inner = body[expected[0]]
    assert run.output[0] == 429
    assert inner[expected[1]] == expected[2] if len(expected) > 1 else isinstance(inner, str)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_cut_and_says_so(worlds: Any, model: str, library: str, stream: bool) -> None:
    def agent(_: str) -> Any:
        return said(LIBRARIES[library](model + CHAT, stream)[2])

    calm = worlds.live(agent)
    live = worlds.live(agent, of_model("truncated_response", max_tokens=2))
    taped = worlds.taped(agent, calm.events, of_model("truncated_response", max_tokens=2))

    expected = "One two" if stream else '{"user_name": "Ann",'
    assert live.output == taped.output == {"content": expected, "finish": "length"}
    assert worlds.taped(agent, live.events).output == live.output


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["empty", "garbage"])
def test_an_answer_that_says_nothing_needs_no_model(
    worlds: Any, model: str, asked: list[str], stream: bool, mode: str
) -> None:
    run = worlds.live(lambda _: said(_with_httpx(model + CHAT, stream)[2]), of_model(mode))

    content = run.output["content"]
    assert (not content) if mode == "empty" else ("One" not in content and len(content) > 5)
    assert asked == []


@pytest.mark.parametrize(
    ("options", "check"),
    [
        ({"drift_type": Drift.FIELD_RENAME, "severity": Grade.HIGH}, '{"userName":"Ann","age_value":3}'),
        ({"drift_type": Drift.FORMAT}, "- **user_name**: Ann\n- **age**: 3"),
        ({"drift_type": Drift.TONE, "direction": Direction.CASUAL}, "Sure thing! So, "),
        ({"drift_type": Drift.VERBOSITY, "direction": Direction.COMPRESS}, '{"user_name": "'),
    ],
)
def test_an_answer_drifts_as_another_version_would_put_it(
    worlds: Any, model: str, options: dict[str, Any], check: str
) -> None:
    run = worlds.live(lambda _: said(_with_httpx(model + CHAT, False)[2]), of_model("response_drift", **options))

    assert run.output["content"].startswith(check)
    assert next(run.calls).faults == (f"model.{options['drift_type']}",)


def test_longer_and_refused_answers(worlds: Any, model: str) -> None:
    def ask(_: str) -> Any:
        return said(_with_httpx(model + CHAT, False)[2])["content"]

    calm = worlds.live(ask).output
    longer = worlds.live(ask, of_model("response_drift", drift_type=Drift.VERBOSITY, factor=3.0)).output
    refused = worlds.live(ask, of_model("response_drift", drift_type=Drift.REFUSAL)).output

    assert longer.startswith(calm)
    assert len(longer) >= 3 * len(calm)
    assert "Ann" not in refused


def test_a_drift_that_finds_nothing_to_rename_has_not_struck(worlds: Any, model: str) -> None:
    run = worlds.live(lambda _: said(_with_httpx(model + CHAT, True)[2]), of_model("response_drift"))

    assert (run.output["content"], next(run.calls).faults) == ("One two three four ", ())


def test_a_pattern_for_urls_reaches_into_tools_and_a_tools_name_does_not(worlds: Any, model: str) -> None:
    @rk.tool
    def weather() -> str:
        return _with_httpx(f"{model}/weather")[2]

    by_url = worlds.live(lambda _: weather(), of_tool("empty"))
    by_name = worlds.live(lambda _: weather(), ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.EMPTY, tool="*"),)))

    assert [call.faults for call in by_url.calls] == [(), ("tool.empty",)]
    assert [call.faults for call in by_name.calls] == [("tool.empty",), ()]
    assert (by_url.output, by_name.output) == ("{}", "")


def test_a_request_of_the_agents_own_is_a_tool_by_its_place(worlds: Any, model: str) -> None:
    place = model.removeprefix("http://")
    fault = ToolFault(mode=ToolTrouble.ERROR, tool=f"GET {place}/weather")

    run = worlds.live(lambda _: _with_httpx(f"{model}/weather")[0], ChaosPlan(tool_faults=(fault,)))

    assert run.output == 503


def test_models_are_meant_by_name(worlds: Any, model: str) -> None:
    for name, status in (("m*", 429), ("other", 200)):
        run = worlds.live(lambda _: _with_httpx(model + CHAT, False)[0], of_model("rate_limit", model=name))
        assert run.output == status


def test_after_calls_counts_requests_inside_of_tools(worlds: Any, model: str) -> None:
    @rk.tool
    def weather() -> int:
        return _with_httpx(f"{model}/weather")[0]

    run = worlds.live(lambda _: [weather() for _ in range(4)], of_tool("error", after_calls=2))

    assert run.output == [200, 200, 503, 503]


def test_a_live_response_can_be_waited_for(worlds: Any, model: str, library: str) -> None:
    run = worlds.live(lambda _: LIBRARIES[library](f"{model}/weather")[0], of_tool("slow", delay_ms=20, sleep=True))

    assert run.output == 200
    assert next(run.calls).duration_s >= 0.04  # it was waited for, and the log adds what the fault says
