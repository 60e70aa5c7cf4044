"""Faults at the proxy: programs in any language meet them as HTTP."""

from __future__ import annotations

import gzip
import http.client
import json
from typing import Any

import pytest
from tests.programs.conftest import DONE, END, STREAM, Proxies, ProxyClient, Upstream, chunk, completion, event, whole

from replaykit.handlers.replay.world import World
from replaykit.model.faults import ChaosPlan, ModelFault, ModelTrouble, ToolFault, ToolTrouble
from replaykit.model.matching import ToolMode


def live_world(plan: ChaosPlan) -> World:
    return World(case_id="c1", tools={"*": ToolMode.LIVE}, models=ToolMode.LIVE, chaos=plan)


def of_model(mode: str, **options: Any) -> ChaosPlan:
    return ChaosPlan(llm_faults=(ModelFault(mode=ModelTrouble(mode), **options),))


def content(body: bytes) -> str:
    return str(json.loads(body)["choices"][0]["message"]["content"])


def faults(client: ProxyClient) -> list[tuple[str, ...]]:
    return [call.faults for call in client.run.calls]


def test_a_rate_limit_is_answered_and_the_upstream_not_asked(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.replay(live_world(of_model("rate_limit"))) as client:
        answer = client.chat()

    assert (answer.status, answer.headers["retry-after"], upstream.asked) == (429, "1", [])
    assert json.loads(answer.body)["error"]["code"] == "rate_limit_exceeded"
    assert faults(client) == [("model.rate_limit",)]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_live_answer_is_cut(proxies: Proxies, upstream: Upstream, is_packed: bool) -> None:
    body = completion("One two three four")
    packed = whole(gzip.compress(body), content_encoding="gzip") if is_packed else whole(body)
    upstream.script = lambda asked: [packed]

    with proxies.replay(live_world(of_model("truncated_response", max_tokens=2))) as client:
        answer = client.chat()

    assert content(answer.body) == "One two"
    assert "content-encoding" not in answer.headers
    assert faults(client) == [("model.truncated_response",)]


def test_a_live_stream_is_cut_and_still_a_stream(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [STREAM, *map(chunk, [event("One "), event("two "), event("three"), DONE]), END]

    with proxies.replay(live_world(of_model("truncated_response", max_tokens=2))) as client:
        answer = client.chat(stream=True)

    assert answer.headers["content-type"] == "text/event-stream"
    assert b"One two" in answer.body
    assert b"three" not in answer.body
    assert answer.body.endswith(DONE)


def test_a_recorded_answer_is_changed_and_the_tape_of_that_needs_no_chaos(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("One two three four"))]
    with proxies.record() as client:
        client.chat()
    recorded = client.run
    plan = of_model("truncated_response", max_tokens=3)

    with proxies.replay(World(case_id="c1", calls=recorded.events, chaos=plan)) as client:
        cut = client.chat()
    with proxies.replay(client.run) as client:
        again = client.chat()

    assert content(cut.body) == content(again.body) == "One two three"


def test_a_timeout_breaks_off_the_connection(proxies: Proxies, upstream: Upstream) -> None:
    with (
        proxies.replay(live_world(of_model("timeout"))) as client,
        pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)),
    ):
        client.chat()

    assert upstream.asked == []


def test_any_other_request_is_struck_by_its_url(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b'{"files": ["a", "b"]}')]
    fault = ToolFault(mode=ToolTrouble.EMPTY, match_url="*/files")

    with proxies.replay(live_world(ChaosPlan(tool_faults=(fault,)))) as client:
        files, others = client.ask("GET", "/openai/files"), client.ask("GET", "/openai/others")

    assert (files.body, others.body) == (b"{}", b'{"files": ["a", "b"]}')


def test_a_packed_answer_that_a_fault_leaves_as_it_is_can_still_be_read(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(gzip.compress(completion("no JSON")), content_encoding="gzip")]

    with proxies.replay(live_world(of_model("response_drift"))) as client:
        answer = client.chat()

    assert (content(answer.body), faults(client)) == ("no JSON", [()])
    assert "content-encoding" not in answer.headers
