"""Exchanges in a run: where they belong, how they end, and what of them is a call of a model."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx
import pytest
import requests

import replaykit as rk
from replaykit.errors import Divergence, Unreplayable
from replaykit.model.events import Exchange, LlmCall
from replaykit.model.matching import MatchRules, OnMiss
from replaykit.seam.http import call as http_call
from replaykit.seam.http import request as http_request

JSON = [("Content-Type", "application/json")]
SSE = [("Content-Type", "text/event-stream")]
QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Weather in Zürich?"}]}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Snow ❄"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3},
}


def numbered(count, **answer):
    """Answers that differ, so that a mix-up shows."""
    return [{"chunks": [b"answer %d" % number], "framing": "length", **answer} for number in range(count)]


def events(*contents, done=True):
    chunks = [{"choices": [{"index": 0, "delta": {"content": content}}]} for content in contents]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    text = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def sliced(data, size=7):
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_a_call_of_a_model_is_read_as_one(server, tapes):
    url = server.says("/v1/chat/completions", chunks=[json.dumps(COMPLETION).encode()], headers=JSON, framing="length")

    live, replayed = tapes.both(lambda: httpx.post(url, json=QUESTION).json())

    assert replayed == live == COMPLETION
    (call,) = tapes.calls
    assert isinstance(call, LlmCall)
    assert (call.name, call.arguments) == ("gpt-4o", QUESTION)
    assert call.result == {"role": "assistant", "content": "Snow ❄", "tool_calls": []}
    assert (call.finish_reason, call.usage.input_tokens, call.usage.output_tokens) == ("stop", 12, 3)
    assert (call.wire.method, call.wire.url, call.wire.status) == ("POST", url, 200)


def test_a_stream_of_a_model_is_read_as_its_answer_and_kept_as_its_chunks(server, tapes):
    chunks = sliced(events("Snow", " ❄ in Zürich"))
    url = server.says("/v1/chat/completions", chunks=chunks, headers=SSE)

    def ask():
        with httpx.stream("POST", url, json=QUESTION | {"stream": True}) as response:
            return list(response.iter_raw())

    live, replayed = tapes.both(ask)

    assert replayed == live
    (call,) = tapes.calls
    assert call.result["content"] == "Snow ❄ in Zürich"
    assert (call.finish_reason, call.complete) == ("stop", True)
    assert b"".join(item.encode() if isinstance(item, str) else item for item in call.items) == b"".join(chunks)


def test_who_stops_at_the_last_event_of_a_stream_has_all_of_it(server, tapes):
    gate = threading.Event()
    url = server.says("/v1/chat/completions", chunks=[events("Snow"), b": too late\n\n"], headers=SSE, gate=gate)

    def ask():
        with httpx.stream("POST", url, json=QUESTION | {"stream": True}) as response:
            return next(response.iter_raw())

    tapes.record(ask)
    gate.set()

    assert (tapes.calls[0].complete, tapes.calls[0].finish_reason) == (True, "stop")
    with_end = tapes.replay(lambda: httpx.post(url, json=QUESTION | {"stream": True}).content)
    assert with_end == events("Snow")


def test_who_does_not_wait_for_the_end_of_a_body_has_all_of_it(server, tapes):
    url = server.says("/body", chunks=[b"all of it"], framing="length")

    def look():
        with httpx.stream("GET", url) as response:
            return next(response.iter_raw())

    assert tapes.record(look) == b"all of it"
    assert tapes.calls[0].complete
    assert tapes.replay(lambda: httpx.get(url).content) == b"all of it"


@pytest.mark.parametrize(
    ("chunks", "breaks", "content", "error"),
    [
        ([events("Sno", done=False)[:70]], True, "Sno", "RemoteProtocolError"),
        ([b"data: {broken\n\n", events("Snow")], False, "Snow", None),
        ([b'data: {"error": {"type": "overloaded_error", "message": "busy"}}\n\n'], False, None, "overloaded_error"),
        ([], False, None, None),
    ],
)
def test_a_stream_of_a_model_that_goes_wrong_is_kept_as_far_as_it_came(chunks, breaks, content, error, server, tapes):
    url = server.says("/v1/chat/completions", chunks=chunks, headers=SSE, breaks=breaks)

    def ask():
        try:
            return httpx.post(url, json=QUESTION | {"stream": True}).content
        except httpx.HTTPError as failure:
            return type(failure), str(failure)

    live, replayed = tapes.both(ask)

    assert replayed == live
    (call,) = tapes.calls
    assert (call.result or {}).get("content") == content
    assert (call.error.type if call.error else None) == error
    assert call.complete is not breaks


def test_a_packed_answer_of_a_model_is_read_through_its_encoding(server, tapes):
    packed = gzip.compress(json.dumps(COMPLETION).encode())
    url = server.says("/v1/chat/completions", chunks=[packed], headers=[*JSON, ("Content-Encoding", "gzip")])

    live, replayed = tapes.both(lambda: httpx.post(url, json=QUESTION).json())

    assert replayed == live
    assert tapes.calls[0].result["content"] == "Snow ❄"


def test_a_model_that_is_busy_and_then_answers_does_so_again(server, tapes):
    busy = {"status": 429, "chunks": [b'{"error": {"type": "rate_limit", "message": "slow down"}}'], "headers": JSON}
    url = server.says("/v1/chat/completions", busy, {"chunks": [json.dumps(COMPLETION).encode()], "headers": JSON})

    def insist():
        return [httpx.post(url, json=QUESTION).status_code for _ in range(2)]

    live, replayed = tapes.both(insist)

    assert live == replayed == [429, 200]
    assert [call.error.type if call.error else None for call in tapes.calls] == ["rate_limit", None]


def test_a_question_is_the_same_whatever_ids_were_minted_and_however_it_is_written(server, tapes):
    url = server.says("/v1/chat/completions", chunks=[json.dumps(COMPLETION).encode()], headers=JSON)

    def asked(call_id, **layout):
        call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": "1"}]
        body = json.dumps({"messages": said, "model": "gpt-4o", "user": call_id}, **layout)
        return httpx.post(url, content=body, headers={"content-type": "application/json"}).json()

    tapes.record(lambda: asked("call_recorded"))

    assert tapes.replay(lambda: asked("call_other", indent=4, sort_keys=True)) == COMPLETION


def test_a_question_that_was_not_asked_is_told_by_what_it_asks_and_not_by_minted_ids(server, tapes):
    url = server.says("/v1/chat/completions", chunks=[json.dumps(COMPLETION).encode()], headers=JSON)

    def asked(ids, last="1", **more):
        said = []
        for call_id in (f"{ids}_{number}" for number in range(5)):
            call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            said += [{"role": "assistant", "tool_calls": [call]}]
            said += [{"role": "tool", "tool_call_id": call_id, "content": "1"}]
        said[-1]["content"] = last
        return httpx.post(url, json={"messages": said, "model": "gpt-4o", "user": ids, **more}).json()

    tapes.record(lambda: asked("recorded"))

    with pytest.raises(Divergence) as changed:
        tapes.replay(lambda: asked("other", last="2"))
    assert "message 10, the result of `f`, is not the recorded one:\n    - 1\n    + 2" in str(changed.value)
    with pytest.raises(Divergence, match="every recording of it has been served"):
        tapes.replay(lambda: [asked("other"), asked("another")])


def test_another_model_is_told_by_the_one_that_was_asked(server, tapes):
    url = server.says("/v1/chat/completions", chunks=[json.dumps(COMPLETION).encode()], headers=JSON)
    tapes.record(lambda: httpx.post(url, json=QUESTION))

    with pytest.raises(Divergence, match=r"changed   \$\.model: 'gpt-4o' → 'gpt-5'") as caught:
        tapes.replay(lambda: httpx.post(url, json={**QUESTION, "model": "gpt-5"}))

    assert "match.ignore" not in (caught.value.hint or "")  # it would not help: a model is found by its name


def test_of_questions_that_differ_in_minted_ids_alone_the_very_same_one_goes_first(server, tapes):
    answers = [{"chunks": [json.dumps({**COMPLETION, "id": f"answer-{n}"}).encode()], "headers": JSON} for n in "ab"]
    url = server.says("/v1/chat/completions", *answers)

    def asked(call_id):
        call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": "1"}]
        return httpx.post(url, json={"messages": said, "model": "gpt-4o"}).json()["id"]

    assert tapes.record(lambda: [asked("call_1"), asked("call_2")]) == ["answer-a", "answer-b"]
    assert tapes.replay(lambda: [asked("call_2"), asked("call_1")]) == ["answer-b", "answer-a"]
    assert tapes.replay(lambda: [asked("call_9"), asked("call_1")]) == ["answer-a", "answer-b"]


def test_what_happens_inside_a_tool_belongs_to_it_and_not_to_its_replay(server, tapes):
    url = server.says("/inner", chunks=[b"1"], framing="length")

    @rk.tool
    def look(place: str) -> str:
        return requests.get(url, params={"place": place}).text

    live, replayed = tapes.both(lambda: look("Zürich"))

    assert live == replayed == "1"
    inner, outer = sorted(tapes.calls, key=lambda call: call.kind)
    assert isinstance(inner, Exchange)
    assert (inner.parent, inner.path) == (outer.seq, "/look#0")
    assert inner.arguments == {"query": [["place", "Zürich"]]}


def test_equal_requests_in_threads_and_tasks_get_their_own_answers(server, tapes):
    url = server.says("/same", *numbered(12))
    barrier = threading.Barrier(3)

    def in_thread(_number):
        barrier.wait(timeout=10)
        return [requests.get(url).text for _ in range(2)]

    async def in_tasks():
        async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:

            async def with_httpx():
                return [(await client.get(url)).text for _ in range(2)]

            async def with_aiohttp():
                async with session.get(url) as response:
                    return await response.text()

            return await asyncio.gather(with_httpx(), with_aiohttp(), with_httpx(), with_aiohttp())

    def work():
        with ThreadPoolExecutor(3) as pool:
            return [*pool.map(in_thread, range(3)), *asyncio.run(in_tasks())]

    live, replayed = tapes.both(work)

    assert replayed == live
    assert len({text for texts in live[:3] for text in texts}) == 6


def test_clients_that_were_there_before_are_recorded(server, tapes):
    url = server.says("/path", *numbered(6))
    with httpx.Client() as client, requests.Session() as session:
        before = client.get(url).text, session.get(url).text

        def ask():
            return client.get(url).text, session.get(url).text

        live, replayed = tapes.both(ask)

    assert before == ("answer 0", "answer 1")
    assert live == replayed == ("answer 2", "answer 3")


def test_a_response_that_is_still_open_when_the_run_ends_is_in_the_log(server, tapes):
    gate = threading.Event()
    url = server.says("/open", chunks=[b"1", b"2"], gate=gate)
    with httpx.Client() as client:
        open_ones = []

        def leave_open():
            open_ones.append(client.send(client.build_request("GET", url), stream=True).iter_raw())
            return next(open_ones[-1])

        live = tapes.record(leave_open)
        gate.set()

        assert list(open_ones[0]) == [b"2"]  # reading on harms nobody
        assert (tapes.calls[0].items, tapes.calls[0].complete) == (["1"], False)
        assert tapes.replay(leave_open) == live == b"1"


@pytest.mark.parametrize("library", ["httpx", "requests"])
def test_a_response_that_is_dropped_is_in_the_log_when_the_run_ends(library, server, store):
    """And not before: the garbage collector may come while something else is being written."""
    gate = threading.Event()
    url = server.says("/drop", chunks=[b"1", b"2"], gate=gate)
    with httpx.Client() as client, requests.Session() as session:

        def look():
            if library == "httpx":
                next(client.send(client.build_request("GET", url), stream=True).iter_raw())
            else:
                session.get(url, stream=True)
            gc.collect()

        with rk.record("dropped", store=store) as run:
            look()
            during = len(store.load(run.id).events)
        gate.set()

    (call,) = store.load(run.id).calls
    assert (during, call.items, call.complete) == (0, ["1"] if library == "httpx" else [], False)


def left_behind(url, ended, said):
    """A thread that asks for something when its run has ended."""

    def late():
        ended.wait(timeout=10)
        try:
            said.append(httpx.get(url).text)
        except rk.Divergence as error:
            said.append(error)

    return threading.Thread(target=late)


def test_a_thread_that_outlives_the_run_goes_on_undisturbed(server, tapes):
    url = server.says("/late", *numbered(2))
    ended, said = threading.Event(), []
    thread = left_behind(url, ended, said)

    tapes.record(thread.start)
    ended.set()
    thread.join(timeout=10)

    assert said == ["answer 0"]
    assert tapes.calls == []


def test_a_thread_that_outlives_its_run_reaches_nobody_in_a_replay_that_comes_after(server, tapes):
    url = server.says("/late", *numbered(2))
    ended, said = threading.Event(), []
    thread = left_behind(url, ended, said)

    tapes.record(thread.start)
    with rk.replaying(rk.Tape([])) as replayer:
        ended.set()
        thread.join(timeout=10)

    assert isinstance(said[0], rk.Divergence)
    assert [deviation.kind for deviation in replayer.deviations] == ["missing"]


@pytest.mark.parametrize("library", ["httpx", "aiohttp"])
@pytest.mark.parametrize("moment", ["before the answer", "in the middle of it"])
def test_who_was_cancelled_while_waiting_waits_again(library, moment, server, tapes):
    gate = threading.Event()
    chunks = [b"", b"late"] if moment == "before the answer" else [b"first", b"late"]
    url = server.says("/stuck", chunks=chunks, framing="length", gate=gate)
    got = []

    async def read():
        if library == "httpx":
            async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
                async for chunk in response.aiter_raw():
                    got.append(chunk)
        else:
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                async for chunk in response.content.iter_any():
                    got.append(chunk)

    async def cancelled():
        got.clear()
        task = asyncio.create_task(read())
        for _ in range(2000):
            await asyncio.sleep(0.001)
            if (server.requests and not chunks[0]) or got or task.done():
                break
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return list(got)

    live = tapes.record(lambda: asyncio.run(cancelled()))
    gate.set()

    assert tapes.replay(lambda: asyncio.run(cancelled())) == live == [chunk for chunk in chunks[:1] if chunk]
    assert (tapes.calls[0].complete, tapes.calls[0].error.type) == (False, "CancelledError")


def test_a_response_that_is_too_large_is_passed_on_and_not_kept(server, tapes, monkeypatch):
    monkeypatch.setattr(http_call, "KEPT_BYTES", 1000)
    url = server.says("/large", chunks=[b"x" * 600, b"y" * 600])

    live = tapes.record(lambda: httpx.get(url).content)

    assert len(live) == 1200
    assert tapes.calls[0].items == []
    with pytest.raises(Unreplayable, match="1200 bytes, of at most 1000"):
        tapes.replay(lambda: httpx.get(url))


def test_large_bodies_pass_both_ways(server, tapes):
    size = 20 * 1024 * 1024
    url = server.says("/large", chunks=[b"\x00" * size], framing="length")

    def swap():
        return len(requests.post(url, data=b"\xff" * size).content)

    live, replayed = tapes.both(swap)

    assert live == replayed == size
    (call,) = tapes.calls
    assert len(server.requests[0].body) == size
    assert call.arguments["body"]["bytes"] == size


def test_a_large_request_is_known_by_its_hash(server, tapes, monkeypatch):
    monkeypatch.setattr(http_request, "WHOLE_BODY", 10)
    url = server.says("/large", framing="length")
    tapes.record(lambda: httpx.post(url, content=b"x" * 11))

    assert tapes.replay(lambda: httpx.post(url, content=b"x" * 11).status_code) == 200
    with pytest.raises(Divergence):
        tapes.replay(lambda: httpx.post(url, content=b"x" * 10 + b"y"))


def test_uploads_are_the_same_whatever_boundary_was_drawn(server, tapes):
    url = server.says("/upload", framing="length")

    async def with_aiohttp():
        form = aiohttp.FormData()
        form.add_field("file", b"\x00\x01", filename="a.bin")
        async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
            return response.status

    def upload():
        file = {"file": ("a.bin", b"\x00\x01")}
        return (
            httpx.post(url, files=file).status_code,
            requests.post(url, files=file).status_code,
            asyncio.run(with_aiohttp()),
        )

    live, replayed = tapes.both(upload)

    assert live == replayed == (200, 200, 200)


def test_a_recording_of_httpx_can_be_replayed_by_another_library(server, tapes):
    url = server.says("/path", chunks=[gzip.compress(b"well")], headers=[("Content-Encoding", "gzip")])
    tapes.record(lambda: [httpx.get(url).text for _ in range(2)])

    async def with_aiohttp():
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.text()

    assert tapes.replay(lambda: (requests.get(url).text, asyncio.run(with_aiohttp()))) == ("well", "well")


def test_rules_on_misses_hold_for_exchanges(server, tapes):
    url = server.says("/again", *numbered(3))
    other = server.says("/other", chunks=[b"live"], framing="length")
    tapes.record(lambda: [httpx.get(url).text for _ in range(2)])
    name = f"GET {other.removeprefix('http://')}"

    repeat = MatchRules(on_miss=OnMiss.REPEAT)
    assert tapes.replay(lambda: [httpx.get(url).text for _ in range(4)], rules=repeat)[1:] == ["answer 1"] * 3

    with rk.replaying(rk.Tape.of(tapes.run), MatchRules(on_miss=OnMiss.LIVE, live=(name,))) as replayer:
        assert httpx.get(other).text == "live"
    assert [event.items for event in replayer.events()] == [["live"]]


def test_a_fork_asks_before_it_does_more_than_look(server, store):
    look = server.says("/look", *numbered(4))
    order = server.says("/order", chunks=[b"ordered"], framing="length")

    def agent(item):
        first = httpx.get(look, params={"item": item}).text
        second = httpx.get(look, params={"after": first}).text
        return httpx.post(order, json={"item": item, "because": second}).text

    with rk.record("shop", input="lamp", store=store) as run:
        run.output = agent("lamp")

    changed = rk.Edits(result=["none left"])
    _, journey = rk.fork(run.id, "step_1", changed, agent=agent, store=store)

    name = f"POST {order.removeprefix('http://')}"
    assert journey.status == "error"
    assert f"the fork wants to do this for real: {name}" in journey.error
    assert [request.path for request in server.requests][3:] == ["/look?after=none+left"]

    _, journey = rk.fork(run.id, "step_1", changed, agent=agent, store=store, live=[name])
    assert journey.output == "ordered"
