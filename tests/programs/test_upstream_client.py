"""Upstreams, asked for real: what they are sent, and what is made of their answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from yarl import URL

from replaykit.programs.upstream_client import UpstreamClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Scripted:
    """A server that writes down what it is sent, and answers with the next of some bytes; b"" closes."""

    def __init__(self, *answers: bytes) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._answers = list(answers)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if b"chunked" in head.lower():
                    body = await reader.readuntil(b"0\r\n\r\n")
                self.asked.append(head + body)
                answer = self._answers.pop(0)
                if not answer:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def asked(server: Any, send: Callable[[UpstreamClient, str], Awaitable[Any]], host: str = "127.0.0.1") -> Any:
    async def main() -> Any:
        listening = await asyncio.start_server(server, host, 0)
        upstreams = UpstreamClient()
        try:
            port = listening.sockets[0].getsockname()[1]
            return await asyncio.wait_for(send(upstreams, f"http://{host}:{port}"), 30)
        finally:
            await upstreams.close()
            listening.close()
            await asyncio.wait_for(listening.wait_closed(), 5)

    return asyncio.run(main())


async def told(upstreams: UpstreamClient, method: str, url: str, *more: Any) -> tuple[int, bytes]:
    async with await upstreams.send(method, URL(url, encoded=True), *more) as answer:
        return answer.status, await answer.content.read()


def test_headers_go_on_byte_by_byte() -> None:
    server = Scripted(OK)

    asked(server, lambda up, url: told(up, "GET", f"{url}/a%2Fb?c=%20", [("x-name", "Ã©"), ("x-name", "\xff")]))

    first, *lines = server.asked[0].split(b"\r\n")
    assert first == b"GET /a%2Fb?c=%20 HTTP/1.1"
    assert [line for line in lines if line.startswith(b"x-name")] == [b"x-name: \xc3\xa9", b"x-name: \xff"]
    assert [line for line in lines if line.lower().startswith((b"user-agent", b"accept", b"content-"))] == []


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_body_has_its_own_length_whatever_was_said(method: str) -> None:
    server = Scripted(OK)

    asked(server, lambda up, url: told(up, method, url, [("Content-Length", "99")], b"body"))

    assert server.asked[0].lower().count(b"content-length: ") == 1
    assert server.asked[0].endswith(b"\r\nContent-Length: 4\r\n\r\nbody")


def test_a_connection_is_used_again() -> None:
    server = Scripted(OK, OK)

    async def twice(upstreams: UpstreamClient, url: str) -> list[tuple[int, bytes]]:
        return [await told(upstreams, "POST", url, [], b"a"), await told(upstreams, "POST", url, [], b"b")]

    assert asked(server, twice) == [(200, b"ok"), (200, b"ok")]
    assert server.connections == 1


def test_the_answer_to_a_head_request_has_no_body_and_keeps_its_connection() -> None:
    server = Scripted(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", OK)

    async def both(upstreams: UpstreamClient, url: str) -> list[tuple[int, bytes]]:
        return [await told(upstreams, "HEAD", url, []), await told(upstreams, "GET", url, [])]

    assert asked(server, both) == [(200, b""), (200, b"ok")]
    assert server.connections == 1


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("POST", 1)])
def test_what_changes_nothing_is_asked_again_when_the_connection_was_closed(method: str, times: int) -> None:
    server = Scripted(b"", OK)

    async def send(upstreams: UpstreamClient, url: str) -> object:
        try:
            return await told(upstreams, method, url, [], b"a")
        except aiohttp.ServerDisconnectedError as error:
            return type(error)

    assert asked(server, send) == ((200, b"ok") if times > 1 else aiohttp.ServerDisconnectedError)
    assert len(server.asked) == times


def test_hints_before_the_answer_are_passed_over() -> None:
    server = Scripted(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)

    assert asked(server, lambda up, url: told(up, "GET", url, [])) == (200, b"ok")


def test_what_is_no_http_is_an_error_that_says_so() -> None:
    server = Scripted(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    with pytest.raises(aiohttp.ClientError, match="the answer is not HTTP"):
        asked(server, lambda up, url: told(up, "POST", url, []))


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def test_a_body_that_comes_in_pieces_goes_on_in_pieces() -> None:
    server = Scripted(OK)

    assert asked(server, lambda up, url: told(up, "POST", url, [], pieces(b"one", b"twelve"))) == (200, b"ok")
    assert server.asked[0].endswith(b"\r\n\r\n3\r\none\r\n6\r\ntwelve\r\n0\r\n\r\n")


def test_a_body_that_breaks_off_ends_the_request() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("no more")

    with pytest.raises(aiohttp.ClientConnectionError, match=r"cannot be sent: ValueError\('no more'\)"):
        asked(Scripted(OK), lambda up, url: told(up, "POST", url, [], broken()))


def test_an_answer_that_comes_before_all_is_sent_is_given() -> None:
    given = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers a request before it has read it."""
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")
        await given.wait()
        writer.transport.abort()

    async def send(upstreams: UpstreamClient, url: str) -> tuple[int, bytes]:
        try:
            return await told(upstreams, "POST", url, [], bytes(20_000_000))
        finally:
            given.set()

    assert asked(refuse, send) == (413, b"large")


def test_a_proxy_on_the_way_is_asked_with_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Scripted(OK, OK)

    async def send(_: UpstreamClient, url: str) -> list[tuple[int, bytes]]:
        monkeypatch.setenv("http_proxy", url.replace("//", "//user:word@"))
        monkeypatch.delenv("no_proxy", raising=False)
        behind = UpstreamClient()
        try:
            return [await told(behind, "GET", "http://api.test/v1?a=b", []) for _ in range(2)]
        finally:
            await behind.close()

    assert asked(server, send) == [(200, b"ok"), (200, b"ok")]
    assert all(request.startswith(b"GET http://api.test/v1?a=b HTTP/1.1\r\n") for request in server.asked)
    assert all(b"\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n" in request for request in server.asked)


def test_credentials_in_an_address_are_sent_unless_the_program_has_its_own() -> None:
    server = Scripted(OK, OK)

    async def send(upstreams: UpstreamClient, url: str) -> None:
        place = url.replace("//", "//user:word@")
        await told(upstreams, "GET", place, [])
        await told(upstreams, "GET", place, [("authorization", "Bearer own")])

    asked(server, send)

    sent = [line for request in server.asked for line in request.split(b"\r\n") if line.lower()[:5] == b"autho"]
    assert sent == [b"Authorization: Basic dXNlcjp3b3Jk", b"authorization: Bearer own"]
