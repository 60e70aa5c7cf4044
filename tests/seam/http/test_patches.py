"""Patches: there while a session is active and not a moment longer, on nothing that was not imported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import types

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3
from aiohttp import web

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.seam import patches
from replaykit.seam.http import aiohttp as aiohttp_translator

METHODS = [
    (httpx.HTTPTransport, "handle_request"),
    (httpx.AsyncHTTPTransport, "handle_async_request"),
    (httpx2.HTTPTransport, "handle_request"),
    (httpx2.AsyncHTTPTransport, "handle_async_request"),
    (urllib3.HTTPConnectionPool, "_make_request"),
    (aiohttp.ClientSession, "_request"),
]


def run_python(code):
    """What a fresh process prints that runs the code."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_patches_are_gone_when_the_last_session_ends():
    before = [vars(owner)[name] for owner, name in METHODS]

    with rk.replaying(rk.Tape([])):
        with rk.replaying(rk.Tape([])):
            pass
        inside = [vars(owner)[name] for owner, name in METHODS]

    assert all(new is not old for new, old in zip(inside, before, strict=True))
    assert [vars(owner)[name] for owner, name in METHODS] == before


def test_what_somebody_else_has_put_in_front_stays(server, tapes, monkeypatch):
    url = server.says("/path", framing="length")
    original = httpx.HTTPTransport.handle_request
    seen = []

    def watch():
        ours = httpx.HTTPTransport.handle_request

        def watching(transport, request):
            seen.append(request.method)
            return ours(transport, request)

        httpx.HTTPTransport.handle_request = watching
        httpx.get(url)

    try:
        tapes.record(watch)
        httpx.get(url)
    finally:
        httpx.HTTPTransport.handle_request = original

    assert seen == ["GET", "GET"]
    assert len(tapes.calls) == 1


def test_a_library_that_is_imported_inside_the_run_is_recorded(server):
    url = server.says("/path", chunks=[b"well"], framing="length")

    said = run_python(f"""
        import asyncio
        import replaykit as rk

        def work():
            import aiohttp, httpx, requests
            async def ask():
                async with aiohttp.ClientSession() as session, session.get({url!r}) as response:
                    return await response.text()
            return httpx.get({url!r}).text, requests.get({url!r}).text, asyncio.run(ask())

        with rk.record("late", store="store.db") as run:
            work()
        with rk.Store.open("store.db") as store:
            tape = rk.Tape.of(store.load(run.id))
        with rk.replaying(tape):
            print(work())
    """)

    assert said == "('well', 'well', 'well')"
    assert len(server.requests) == 3


def test_nothing_is_imported_for_a_run_without_http():
    said = run_python("""
        import sys
        import httpx, requests
        import replaykit as rk

        @rk.tool
        def search(query: str) -> str:
            return query

        before = set(sys.modules)
        with rk.record("plain", store="store.db"):
            search("x")
        new = set(sys.modules) - before
        print(sorted(name for name in new if name.startswith(("replaykit.wire", "replaykit.seam.http."))))
    """)

    assert said == "[]"


def test_no_http_library_is_imported_by_us():
    said = run_python("""
        import sys
        import replaykit as rk

        with rk.record("plain", store="store.db"):
            pass
        print([name for name in ("httpx", "httpx2", "requests", "urllib3", "aiohttp", "asyncio", "replaykit.wire")
               if name in sys.modules])
    """)

    assert said == "[]"


def test_a_method_that_is_not_there_is_told_and_nothing_else_breaks(monkeypatch):
    module = types.ModuleType("httpx")
    module.HTTPTransport = type("HTTPTransport", (), {})
    monkeypatch.setitem(sys.modules, "httpx", module)

    with pytest.warns(RuntimeWarning) as told:
        with rk.replaying(rk.Tape([])):
            pass

    assert len(told) == len(patches.HOOKS["httpx"])
    assert "httpx.HTTPTransport.handle_request is not there" in str(told[0].message)


def test_a_warning_that_is_an_error_leaves_nothing_behind(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", types.ModuleType("httpx"))
    before = urllib3.HTTPConnectionPool._make_request

    with pytest.raises(RuntimeWarning), rk.replaying(rk.Tape([])):
        pass

    assert urllib3.HTTPConnectionPool._make_request is before


def test_an_aiohttp_without_middlewares_is_told_and_left_alone():
    async def request(session, method, url):
        return method

    with pytest.warns(RuntimeWarning, match=r"neither recorded nor replayed; 3\.12\.1 or later is"):
        assert asyncio.run(aiohttp_translator.request(request, None, "GET", "http://nowhere/")) == "GET"


def test_transports_of_other_makes_are_left_alone(tapes):
    def answer(request):
        return httpx.Response(200, text="mocked")

    def ask():
        with httpx.Client(mounts={"all://": httpx.MockTransport(answer)}) as client:
            return client.get("http://nowhere/").text

    assert tapes.record(ask) == "mocked"
    assert tapes.calls == []


def test_a_transport_that_builds_on_the_usual_one_is_recorded(server, tapes):
    url = server.says("/path", *[{"status": status, "framing": "length"} for status in (503, 200)])

    class Insisting(httpx.HTTPTransport):
        def handle_request(self, request):
            response = super().handle_request(request)
            return super().handle_request(request) if response.status_code == 503 else response

    def ask():
        with httpx.Client(transport=Insisting()) as client:
            return client.get(url).status_code

    live, replayed = tapes.both(ask)

    assert live == replayed == 200
    assert [call.wire.status for call in tapes.calls] == [503, 200]


def test_a_layer_below_stands_aside(server, tapes, monkeypatch):
    url = server.says("/path", chunks=[b"once"], framing="length")

    def through_urllib3(transport, request):
        return httpx.Response(200, content=urllib3.request(request.method, str(request.url)).data)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", through_urllib3)

    live, replayed = tapes.both(lambda: httpx.get(url).content)

    assert live == replayed == b"once"
    assert len(tapes.calls) == 1


def test_middlewares_of_aiohttp_see_what_is_replayed(server, tapes):
    url = server.says("/path", *[{"status": status, "framing": "length"} for status in (401, 200)])
    seen = []

    async def authenticate(request, handler):
        response = await handler(request)
        seen.append((response.status, request.headers["Accept-Encoding"] == "identity"))
        return await handler(request) if response.status == 401 else response

    async def ask():
        async with aiohttp.ClientSession(middlewares=(authenticate,)) as session, session.get(url) as response:
            return response.status

    live, replayed = tapes.both(lambda: asyncio.run(ask()))

    assert live == replayed == 200
    assert seen == [(401, False), (401, False)]


def test_websockets_are_left_alone(tapes):
    async def echo(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(await socket.receive_str())
        await socket.close()
        return socket

    async def talk():
        app = web.Application()
        app.router.add_get("/", echo)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        try:
            async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{host}:{port}/") as socket:
                await socket.send_str("hello")
                return await socket.receive_str()
        finally:
            await runner.cleanup()

    assert tapes.record(lambda: asyncio.run(talk())) == "hello"
    assert tapes.calls == []


def test_sdks_that_try_again_after_any_exception_are_told_not_to(server, tapes):
    """As SDKs do that send this header: whatever `send` raises is a bad connection to them."""
    tries = []

    def insist(client, url):
        for _ in range(3):
            request = client.build_request("POST", url, headers={"x-stainless-retry-count": str(len(tries))})
            try:
                response = client.send(request)
            except Exception:
                tries.append("again")
                continue
            return response
        return None

    tapes.record(lambda: None)
    with httpx.Client() as client:
        refused = tapes.replay(lambda: insist(client, f"{server.url}/v1/messages"))

    assert tries == []
    assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
    assert "left its recording" in refused.json()["error"]["message"]
    with pytest.raises(Divergence):
        refused.raise_for_status()
    with pytest.raises(Divergence):
        assert refused.is_success


def test_a_tunnel_through_a_proxy_is_made_only_for_live_requests(server, tapes):
    server.says("nowhere.invalid:443", status=403, framing="length")

    def ask():
        proxies = {"https": server.url}
        try:
            return requests.get("https://nowhere.invalid/", proxies=proxies, timeout=10).status_code
        except requests.ConnectionError as error:
            return type(error)

    live, replayed = tapes.both(ask)

    assert live is replayed is requests.exceptions.ProxyError
    assert [call.name for call in tapes.calls] == ["GET nowhere.invalid/"]
    assert tapes.calls[0].error.type == "OSError"
