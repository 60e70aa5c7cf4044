"""The server: OTLP over HTTP on loopback, as exporters speak it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import TRACE, document, logs, record, story

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.formats.spans.span import SpanReading
from replaykit.intake.receiver import otlp_http, server
from replaykit.intake.receiver.otlp_http import JSON, PROTOBUF, ExportReply, ExportRequest
from replaykit.intake.receiver.server import Server
from replaykit.intake.receiver.spool import Spool
from replaykit.intake.receiver.trace_processor import TraceProcessor

Client = Callable[[str], Awaitable[None]]


def served(desk: Any, client: Client, **options: Any) -> None:
    """Serve a desk while a client is at work, and end in good order."""

    async def all_of_it() -> None:
        one = Server(desk, **options)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(one.serve("127.0.0.1", 0, ready.set_result))
        done, _ = await asyncio.wait([serving, ready], timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert ready in done
        try:
            await asyncio.wait_for(client(ready.result()), 30)
        finally:
            one.end()
            await asyncio.wait_for(serving, 30)

    asyncio.run(all_of_it())


class Full:
    """A desk with its spool and store, closed at the end."""

    def __init__(self, directory: Path) -> None:
        self.store = rk.Store.open(directory / "store.db")
        self.spool = Spool(directory / "spool.db")
        self.desk = TraceProcessor(self.spool, self.store)

    def serve(self, client: Client) -> None:
        try:
            served(self.desk, client)
            self.runs = [header.id for header in self.store.headers()]
        finally:
            self.spool.close()
            self.store.close()


async def post(url: str, path: str, body: bytes, content_type: str = JSON, **headers: str) -> tuple[int, Any, bytes]:
    named = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, data=io.BytesIO(body), headers=named) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


def test_traces_and_logs_are_taken_in_both_encodings_and_answered_in_kind(tmp_path: Path) -> None:
    full = Full(tmp_path)
    text = json.dumps(document(*story())).encode()

    async def client(url: str) -> None:
        for body, kind, empty in ((text, JSON, b"{}"), (as_protobuf(document(*story())), PROTOBUF, b"")):
            status, headers, answer = await post(url, "/v1/traces", body, kind)
            assert (status, headers["content-type"], answer) == (200, kind, empty)
        zipped = gzip.compress(text)
        assert (await post(url, "/v1/traces", zipped, "application/json; charset=utf-8", Content_Encoding="gzip"))[
            0
        ] == 200
        told = json.dumps(logs(record(2, "gen_ai.choice", {"message": {}}))).encode()
        assert (await post(url, "/v1/logs", told))[0] == 200

    full.serve(client)

    assert full.runs == [TRACE]
    assert full.desk.totals.spans == 22


def test_bad_requests_are_told_what_is_wrong_and_the_server_goes_on(tmp_path: Path) -> None:
    full = Full(tmp_path)

    async def client(url: str) -> None:
        assert (await post(url, "/v1/traces", b"{"))[0] == 400
        status, headers, body = await post(url, "/v1/traces", b"\xff", PROTOBUF)
        assert (status, headers["content-type"], b"not OTLP" in body) == (400, PROTOBUF, True)
        assert (await post(url, "/v1/traces", b"x", "text/plain"))[0] == 415
        status, _headers, body = await post(url, "/v1/traces", bytes(otlp_http.MAX_BODY + 1))
        assert (status, b"smaller batches" in body) == (413, True)
        bomb = gzip.compress(bytes(otlp_http.MAX_INFLATED + 1))
        assert (await post(url, "/v1/traces", bomb, Content_Encoding="gzip"))[0] == 413
        status, _headers, body = await post(url, "/v1/metrics", b"{}")
        assert (status, b"OTEL_METRICS_EXPORTER=none" in body) == (404, True)
        assert (await post(url, "/v1/nothing", b"{}"))[0] == 404
        assert (await post(url, "/v1/traces", b"{}"))[0] == 200
        async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ok"})

    full.serve(client)


def test_a_body_of_unknown_length_that_is_too_long_is_refused(tmp_path: Path) -> None:
    full = Full(tmp_path)

    async def client(url: str) -> None:
        async def drip() -> Any:
            for _ in range(otlp_http.MAX_BODY // 2**20 + 2):
                yield bytes(2**20)

        async with aiohttp.ClientSession() as session:
            try:
                async with session.post(f"{url}/v1/traces", data=drip(), headers={"Content-Type": JSON}) as answer:
                    assert answer.status == 413
            except aiohttp.ClientConnectionError:
                pass  # it hung up before the client was done
        assert (await post(url, "/v1/traces", b"{}"))[0] == 200

    full.serve(client)


def test_a_body_that_never_comes_does_not_keep_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_S", 0.05)
    full = Full(tmp_path)

    async def client(url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99\r\n\r\n{"
        )
        assert b"408" in await reader.readline()
        writer.close()
        assert (await post(url, "/v1/traces", b"{}"))[0] == 200

    full.serve(client)


class Slow:
    """A desk that takes its time."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.took = 0

    def keep(self, request: ExportRequest, _reading: SpanReading) -> ExportReply:
        self.begun.set()
        assert self.go.wait(20)
        self.took += 1
        return otlp_http.accepted(request)

    def settle(self, *, limit: int = 100) -> int:
        return 0

    def tidy(self) -> None: ...

    def finish(self) -> None: ...


def test_under_back_pressure_others_are_asked_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WAITING", 100)
    slow = Slow()

    async def client(url: str) -> None:
        first = asyncio.create_task(post(url, "/v1/traces", b"{}".ljust(60)))
        await asyncio.to_thread(slow.begun.wait, 20)
        status, headers, _body = await post(url, "/v1/traces", b"{}".ljust(60))
        assert (status, headers["retry-after"]) == (429, str(otlp_http.RETRY_AFTER_S))
        slow.go.set()
        assert (await first)[0] == 200
        assert (await post(url, "/v1/traces", b"{}".ljust(60)))[0] == 200

    served(slow, client)

    assert slow.took == 2


def test_a_request_that_is_being_written_when_the_server_ends_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SENDING_S", 0.2)
    slow = Slow()
    answers: list[int] = []

    async def client(url: str) -> None:
        waiting = asyncio.create_task(post(url, "/v1/traces", b"{}"))
        await asyncio.to_thread(slow.begun.wait, 20)
        waiting.add_done_callback(lambda task: answers.append(task.result()[0]))
        asyncio.get_running_loop().call_later(0.6, slow.go.set)  # longer than what is being sent is waited for

    served(slow, client)

    assert (slow.took, answers) == (1, [200])


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do() -> None:
    async def client(url: str) -> None:
        port = int(url.rpartition(":")[2])
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            await Server(slow).serve("127.0.0.1", port, lambda _url: None)  # type: ignore[arg-type]

    slow = Slow()
    slow.go.set()
    served(slow, client)


def hosts_desk(tmp_path: Path, client: Client, *allowed: str) -> int:
    """Serve with these further host names; gives how many spans were taken."""
    full = Full(tmp_path)
    try:
        served(full.desk, client, allowed_hosts=allowed)
        return full.desk.totals.spans
    finally:
        full.spool.close()
        full.store.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:4318"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:4318"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example:3000"},
        {"Host": "localhost", "Origin": "file://"},
    ],
)
def test_a_page_that_somebody_else_serves_adds_no_runs(tmp_path: Path, headers: dict[str, str]) -> None:
    text = json.dumps(document(*story())).encode()

    async def client(url: str) -> None:
        status, _headers, body = await post(url, "/v1/traces", text, **headers)
        assert (status, b"--allow-host" in body) == (403, True)
        async with aiohttp.ClientSession() as session, session.get(url + "/healthz", headers=headers) as answer:
            assert answer.status == 403

    assert hosts_desk(tmp_path, client) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:4318"},
        {"Host": "LOCALHOST"},
        {"Host": "app.localhost"},
        {"Host": "[::1]:4318"},
        {"Host": "192.168.1.7:4318"},
        {"Host": "collector:4318"},
        {"Host": "Collector.Example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "https://collector.example"},
    ],
)
def test_this_machine_addresses_and_names_that_are_allowed_are_served(tmp_path: Path, headers: dict[str, str]) -> None:
    async def client(url: str) -> None:
        assert (await post(url, "/v1/traces", json.dumps(document(*story())).encode(), **headers))[0] == 200

    assert hosts_desk(tmp_path, client, "collector", "collector.example") > 0


def test_connections_that_send_no_whole_head_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    full = Full(tmp_path)

    async def client(url: str) -> None:
        place = url.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(place[0], int(place[1])) for _ in range(50)]
        for _, writer in silent[:25]:
            writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert (await post(url, "/v1/traces", json.dumps(document(*story())).encode()))[0] == 200

    full.serve(client)
