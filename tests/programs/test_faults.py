"""The proxy when things break: the program sees the same break again, and nothing half is ever given out as whole."""

from __future__ import annotations

import http.client
import socket
import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.matrix import sampled
from tests.programs.conftest import (
    CLOSE,
    DONE,
    END,
    RESET,
    STREAM,
    Proxies,
    ProxyClient,
    Upstream,
    chunk,
    completion,
    event,
    post,
    question,
    read_until,
    wait_for,
    whole,
)

from replaykit.errors import ReplayKitError, StoreError, Unreplayable
from replaykit.handlers.replay.world import World
from replaykit.model.events import LlmCall, WireInfo
from replaykit.model.values import Raw, canonical, raw
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import launch_environment
from replaykit.programs.plan import Mode, ProgramPlan

BROKEN = (http.client.IncompleteRead, ConnectionError, http.client.RemoteDisconnected)


def tried(client: ProxyClient, **more: Any) -> tuple[bytes, bool]:
    """What was read of a streamed answer, and whether it came to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    data = b""
    try:
        connection.request("POST", "/openai/chat/completions", question(**more), {"content-type": "application/json"})
        answer = connection.getresponse()
        while piece := answer.read1(65536):
            data += piece
        return data, not (answer.length or 0)
    except BROKEN:
        return data, False
    finally:
        connection.close()


@pytest.mark.parametrize("how", [RESET, CLOSE])
def test_a_stream_that_broke_off_breaks_off_again(proxies: Proxies, upstream: Upstream, how: object) -> None:
    has_read = threading.Event()
    upstream.script = lambda asked: [STREAM, chunk(event("half a")), has_read, how]

    with proxies.record() as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        connection.request("POST", "/openai/chat/completions", question(stream=True), {"content-type": "text/plain"})
        answer = connection.getresponse()
        assert answer.read1(65536) == event("half a")
        has_read.set()
        with pytest.raises(BROKEN):
            answer.read()
        connection.close()
    run = client.run
    with proxies.replay(run) as client:
        again = tried(client, stream=True)

    (call,) = run.llm_calls
    assert (call.complete, call.result["content"]) == (False, "half a")
    assert call.error is not None
    assert again == (event("half a"), False)


def test_a_body_that_is_shorter_than_it_said_is_shorter_again(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("Hi."))[:-5], CLOSE]

    with proxies.record() as client:
        live = tried(client)
    with proxies.replay(client.run) as client:
        again = tried(client)

    assert live == again == (completion("Hi.")[:-5], False)


@pytest.mark.parametrize("how", [RESET, CLOSE])
def test_a_connection_that_broke_before_an_answer_breaks_again(
    proxies: Proxies, upstream: Upstream, how: object
) -> None:
    upstream.script = lambda asked: [how]

    with proxies.record() as client:
        live = tried(client)
    run = client.run
    with proxies.replay(run) as client:
        again = tried(client)

    (call,) = run.llm_calls
    assert live == again == (b"", False)
    assert call.wire is not None
    assert (call.wire.status, call.complete) == (0, False)


def test_an_upstream_that_is_not_there_is_named_in_the_run(proxies: Proxies, upstream: Upstream) -> None:
    upstream.close()

    with proxies.record() as client:
        live = tried(client)
    run = client.run
    with proxies.replay(run) as client:
        again = tried(client)

    assert live == again == (b"", False)
    assert run.llm_calls[0].error is not None
    assert f"{upstream.url}/v1/chat/completions" in run.llm_calls[0].error.message


def test_a_broken_answer_to_an_old_client_does_not_look_whole(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [STREAM, chunk(event("half a")), CLOSE]
    asking = post("/openai/chat/completions", question(stream=True), version="1.0")

    with proxies.record() as client:
        tried(client, stream=True)
    with proxies.replay(client.run) as client, client.raw(asking) as connection:
        with pytest.raises(ConnectionResetError):
            while connection.recv(65536):
                pass


def test_a_program_that_leaves_is_noticed_and_what_came_is_kept(proxies: Proxies, upstream: Upstream) -> None:
    never = threading.Event()
    upstream.script = lambda asked: [STREAM, chunk(event("half a")), never]
    with proxies.record() as client:
        with client.raw(post("/openai/chat/completions", question(stream=True))) as connection:
            read_until(connection, event("half a"))
        wait_for(lambda: len(client.run.events) == 1)
    run = client.run
    never.set()

    with proxies.replay(run) as client:
        again = tried(client, stream=True)

    (call,) = run.llm_calls
    assert call.complete is False
    assert call.error is not None
    assert "left" in call.error.message
    assert again == (event("half a"), False), "there is no more of it, and it is not given out as all"


def test_a_program_that_leaves_before_the_answer_is_noticed(proxies: Proxies, upstream: Upstream) -> None:
    never = threading.Event()
    upstream.script = lambda asked: [never]

    with proxies.record() as client:
        with client.raw(post("/openai/chat/completions", question())):
            wait_for(lambda: len(upstream.asked) == 1)
        wait_for(lambda: len(client.run.events) == 1)
    never.set()

    assert client.run.llm_calls[0].complete is False


def test_an_upstream_that_sends_byte_by_byte_is_passed_on_byte_by_byte(proxies: Proxies, upstream: Upstream) -> None:
    text = event("slow") + DONE
    has_read = [threading.Event() for _ in text]

    def script(asked):  # type: ignore[no-untyped-def]
        yield STREAM
        for number, byte in enumerate(text):
            yield chunk(bytes([byte]))
            yield has_read[number]
        yield END

    upstream.script = script
    with proxies.record() as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        connection.request("POST", "/openai/chat/completions", question(stream=True), {"content-type": "text/plain"})
        answer = connection.getresponse()
        read = b""
        for waiting in has_read:
            read += answer.read1(1)
            waiting.set()
        assert answer.read() == b""
        connection.close()

    assert read == text
    assert len(client.run.llm_calls[0].items or []) == len(text)
    assert client.run.llm_calls[0].result["content"] == "slow"


@sampled(
    "pieces",
    [
        [b"data: {not json\n\n", DONE],
        [b"\xff\xfe\x00 garbage", b"\n\n"],
        [event("no end to it")],
        [b'event: error\ndata: {"error": {"message": "overloaded"}}\n\n'],
        [b"data: " + b"x" * 200_000 + b"\n\n"],
    ],
    count=2,
)
def test_a_malformed_stream_is_passed_on_and_served_as_it_is(
    proxies: Proxies, upstream: Upstream, pieces: list[bytes]
) -> None:
    upstream.script = lambda asked: [STREAM, *map(chunk, pieces), END]

    with proxies.record() as client:
        live = tried(client, stream=True)
    with proxies.replay(client.run) as client:
        again = tried(client, stream=True)

    assert live == again == (b"".join(pieces), True)


@sampled("megabytes", [5, 50], count=1)
def test_many_megabytes_go_through_both_ways(proxies: Proxies, upstream: Upstream, megabytes: int) -> None:
    big = b"all work and no play" * 50_000 * megabytes
    upstream.script = lambda asked: [
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(asked.body),
        *(asked.body[start : start + 1_000_000] for start in range(0, len(asked.body), 1_000_000)),
    ]
    sent = {"content_type": "application/octet-stream"}

    with proxies.record() as client:
        live = client.ask("POST", "/openai/files", big, **sent)
    upstream.close()
    with proxies.replay(client.run) as client:
        again = client.ask("POST", "/openai/files", big, **sent)

    assert live.body == big
    assert again.body == big


def test_header_bytes_that_are_no_utf_8_do_not_stop_it(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-name: caf\xe9\r\n\r\n{}"]

    with proxies.record() as client:
        live = client.ask("GET", "/openai/models", x_own="caf\xe9")
    with proxies.replay(client.run) as client:
        again = client.ask("GET", "/openai/models", x_own="caf\xe9")

    assert (live.status, again.status, again.body) == (200, 200, b"{}")


def test_what_cannot_be_written_is_not_given_out_as_an_answer(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.script = lambda asked: [STREAM, chunk(event("a")), chunk(DONE), END]

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    with pytest.raises(ReplayKitError, match="the disk is full"):
        with proxies.record() as client:
            monkeypatch.setattr("replaykit.programs.process_log._DetachableWriter.append", full)
            live = tried(client, stream=True)
            monkeypatch.undo()

    assert live[1] is False


def test_the_proxy_outlives_a_request_that_could_not_be_written(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(ReplayKitError, match="disk I/O error"):
        with proxies.record() as client:
            with monkeypatch.context() as patched:
                patched.setattr("replaykit.programs.process_log._DetachableWriter.append", full)
                tried(client)
            assert client.chat().status == 200

    assert len(client.run.events) == 1


def wire_call(**wire: Any) -> LlmCall:
    told = {"method": "POST", "url": "http://127.0.0.1/v1/chat/completions", "status": 200, **wire}
    return LlmCall(
        seq=0,
        name="small",
        arguments_json=Raw(canonical({"messages": [], "model": "small"})),
        items_json=(raw("x"),),
        wire=WireInfo(**told),
    )


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (wire_call(headers=(("x-a", "1\r\nset-cookie: evil=1"),)), "control character is in its header 'x-a'"),
        (wire_call(headers=(("x a", "1"),)), "'x a' is not a valid header name"),
        (wire_call(headers=(("", "1"),)), "'' is not a valid header name"),
        (wire_call(reason="OK\r\nx: y"), "control character is in its reason"),
        (wire_call(status=99), "99 is not a valid response status"),
        (wire_call(status=700), "700 is not a valid response status"),
        (msgspec.structs.replace(wire_call(), items_json=(Raw(b'{"$bytes": "%%%"}'),)), "chunk 0 is damaged"),
    ],
)
def test_a_tape_that_cannot_be_served_stops_the_replay_before_it_starts(
    tmp_path: Path, call: LlmCall, why: str
) -> None:
    plan = ProgramPlan(mode=Mode.REPLAY, run_id="r1", store=str(tmp_path / "parts.db"))

    with pytest.raises(Unreplayable, match=why.replace("(", r"\(")) as caught:
        with launch_environment(plan, World(case_id="c1", calls=(call,)), tmp_path, LaunchOptions()):
            pytest.fail("it started")

    assert "call 0, `small`" in str(caught.value)
    assert not (tmp_path / "plan.json").exists()


def test_chunks_that_somebody_wrote_as_json_are_served_as_its_text(proxies: Proxies, upstream: Upstream) -> None:
    by_hand = msgspec.structs.replace(wire_call(), items_json=(Raw(completion("By hand.")),))

    with proxies.replay(World(case_id="c1", calls=(by_hand,))) as client:
        answer = client.ask("POST", "/openai/chat/completions", b'{"messages": [], "model": "small"}')

    assert b"By hand." in answer.body


def test_ending_does_not_wait_for_an_upstream_that_never_answers(proxies: Proxies, upstream: Upstream) -> None:
    never = threading.Event()
    upstream.script = lambda asked: [never]
    with proxies.record() as client:
        connection = socket.create_connection(("127.0.0.1", client.port), timeout=20)
        connection.sendall(post("/openai/chat/completions", question()))
        wait_for(lambda: len(upstream.asked) == 1)
    never.set()
    connection.close()

    assert [call.complete for call in client.run.llm_calls] == [False]


def test_a_body_that_cannot_be_read_is_the_programs_fault_and_nobody_elses(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise web.RequestPayloadError("not enough data")

    with proxies.record() as client:
        with monkeypatch.context() as patched:
            patched.setattr("replaykit.programs.proxy_handler.Body.read", broken)
            answer = client.chat()
        assert client.chat().status == 200

    assert answer.status == 400
    assert b"not enough data" in answer.body
    assert len(client.run.events) == 1


def test_an_upload_that_breaks_off_is_nobodys_failure(proxies: Proxies, upstream: Upstream) -> None:
    head = b"POST /openai/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n"

    with proxies.record() as client:
        with client.raw(head + b"only the beginning"):
            pass
        assert client.chat().status == 200

    assert [asked.path for asked in upstream.asked] == ["/v1/chat/completions"]


def test_what_is_no_http_from_an_upstream_is_a_broken_connection(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [b"SSH-2.0-OpenSSH_9.6\r\n", CLOSE]

    with proxies.record() as client:
        live = tried(client)
    with proxies.replay(client.run) as client:
        again = tried(client)

    assert live == again == (b"", False)
