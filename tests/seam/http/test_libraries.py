"""Every library: what is replayed is what was live, to the byte, the header and the exception."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import aiohttp
import httpx
import pytest
import requests
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples, sampled

import replaykit as rk
from replaykit.errors import Divergence, Unreplayable
from replaykit.model.matching import ErrorSpec, MatchRules, OnMiss
from replaykit.redaction import Redactor
from replaykit.seam.http.call import HttpRequest
from replaykit.seam.http.cleaning import clean_headers

TEXT = [("Content-Type", "text/plain; charset=utf-8")]
SNOW = "Zürich: ❄ all day".encode()

ANSWERS = {
    "a plain body": {
        "chunks": [b'{"ok": true}'],
        "headers": [("Content-Type", "application/json")],
        "framing": "length",
    },
    "an empty body": {"framing": "length"},
    "an empty stream": {"headers": TEXT},
    "a stream cut inside of characters": {"chunks": [SNOW[:2], SNOW[2:9], SNOW[9:]], "headers": TEXT},
    "bytes that are no text": {"chunks": [b"\x00\xff\xfe", b"\x80" * 50]},
    "a body until the connection closes": {"chunks": [b"to the", b" end"], "framing": "close"},
    "HTTP/1.0": {"chunks": [b"old"], "framing": "close", "version": "HTTP/1.0"},
    "no content": {"status": 204, "framing": "none"},
    "not modified": {"status": 304, "headers": [("ETag", '"1"')], "framing": "none"},
    "not found": {"status": 404, "chunks": [b"nowhere"], "framing": "length"},
    "a broken server": {"status": 500, "chunks": [b"<h1>oh", b" no</h1>"]},
    "a status of its own": {"status": 599, "reason": "Too Tired", "chunks": [b"z"], "framing": "length"},
    "a redirect": {"status": 302, "headers": [("Location", "/elsewhere")], "framing": "length"},
    "headers more than once": {"headers": [("X-One", "1"), ("X-Two", "a"), ("x-one", "2")], "framing": "length"},
    "a header in Latin-1": {"headers": [("X-Name", "caf\u00e9")], "framing": "length"},
    "gzip that nobody asked for": {
        "chunks": [gzip.compress(SNOW, mtime=0)[:7], gzip.compress(SNOW, mtime=0)[7:]],
        "headers": [("Content-Encoding", "gzip")],
    },
    "a stream that breaks": {"chunks": [b"one ", b"two "], "breaks": True},
    "a body that is too short": {"chunks": [b"only this"], "framing": "length", "announced": 100, "breaks": True},
    "a stream that breaks at once": {"breaks": True},
    "no HTTP": {"nonsense": b"SSH-2.0-OpenSSH\r\n\r\n", "breaks": True},
    "nothing": {"nonsense": b"\r\n", "breaks": True},
}


def sliced(data, size=7):
    return [data[start : start + size] for start in range(0, len(data), size)]


@sampled("answer", ANSWERS, count=2)
def test_a_replayed_response_is_the_live_one(answer, fetch, server, tapes):
    url = server.says("/path", **ANSWERS[answer])

    live, replayed = tapes.both(lambda: fetch(url))

    assert replayed == live
    assert (live.error is not None) == ANSWERS[answer].get("breaks", False)
    assert live.error or live.body == b"".join(ANSWERS[answer].get("chunks", []))


def test_a_head_has_the_length_and_no_body(fetch, server, tapes):
    url = server.says("/path", chunks=[b"x" * 77], framing="length")

    live, replayed = tapes.both(lambda: fetch(url, "HEAD"))

    assert replayed == live
    assert ("Content-Length", "77") in live.headers
    assert live.body == b""


def test_a_connection_that_is_refused_is_refused_again(fetch, server, tapes):
    live, replayed = tapes.both(lambda: fetch("http://127.0.0.1:9/"))

    assert live.error is not None
    assert replayed.error[0] is live.error[0]
    assert tapes.calls[0].wire.status == 0


def test_exceptions_of_aiohttp_know_their_request(server, tapes):
    url = server.says("/nonsense", nonsense=b"SSH-2.0-OpenSSH\r\n\r\n")

    async def fail():
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientResponseError) as nonsense:
                await session.get(url)
            with pytest.raises(aiohttp.ClientConnectorError) as refused:
                await session.get("http://127.0.0.1:9/")
        error = refused.value
        return str(nonsense.value.request_info.real_url), error.host, error.port, error.os_error.errno, str(error)

    live, replayed = tapes.both(lambda: asyncio.run(fail()))

    assert replayed == live
    assert live[:3] == (url, "127.0.0.1", 9)


def test_exceptions_of_urllib3_know_their_connection_and_their_pool(server, tapes):
    gate = threading.Event()
    stuck = server.says("/stuck", chunks=[b"1", b"2"], framing="length", gate=gate)

    def fail():
        with pytest.raises(urllib3.exceptions.NewConnectionError) as refused:
            urllib3.request("GET", "http://127.0.0.1:9/", retries=False)
        with pytest.raises(urllib3.exceptions.ReadTimeoutError) as late:
            urllib3.request("GET", stuck, timeout=0.3, retries=False)
        return refused.value.conn.port, late.value.pool.host, late.value.args

    live = tapes.record(fail)
    server.hears(1)
    gate.set()

    assert tapes.replay(fail)[:2] == live[:2] == (9, "127.0.0.1")


def test_the_first_chunk_is_there_before_the_second_is_sent(fetch, server, tapes):
    gate = threading.Event()
    url = server.says("/slow", chunks=[b"first", b"second"], gate=gate)

    seen = tapes.record(lambda: fetch(url, stop_after=1))

    assert not gate.is_set()
    assert seen.chunks == (b"first",)
    gate.set()


def test_chunks_are_kept_as_they_came_with_the_time_between_them(fetch, server, tapes):
    chunks = [b"data: 1\n\n", b"data: 2\n", b"\ndata: 3\n\n"]
    url = server.says("/events", chunks=chunks, headers=TEXT)

    tapes.record(lambda: fetch(url))

    (call,) = tapes.calls
    assert "".join(call.items) == b"".join(chunks).decode()
    assert len(call.wire.pauses_ms) == len(call.items)
    assert (call.kind, call.name, call.complete) == ("exchange", f"GET {url.removeprefix('http://')}", True)


def test_a_stream_that_is_left_is_replayed_as_far_as_it_was_read(fetch, server, tapes):
    gate = threading.Event()
    url = server.says("/long", chunks=[b"1", b"2", b"3"], gate=gate)

    live = tapes.record(lambda: fetch(url, stop_after=1))
    gate.set()

    (call,) = tapes.calls
    assert (call.items, call.complete, call.error) == (["1"], False, None)
    assert tapes.replay(lambda: fetch(url, stop_after=1)) == live
    with pytest.raises(Unreplayable, match="was left after 1 chunks"):
        tapes.replay(lambda: fetch(url))


def test_a_stream_that_is_left_is_in_the_log_when_it_is_closed(fetch, server, store):
    gate = threading.Event()
    url = server.says("/long", chunks=[b"1", b"2", b"3"], gate=gate)

    with rk.record("left", store=store) as run:
        fetch(url, stop_after=1)
        written = [call.items for call in store.load(run.id).calls]
    gate.set()

    assert written == [["1"]]


def test_a_body_that_can_be_read_once_reaches_the_server(fetch, server, tapes):
    url = server.says("/upload", framing="length")

    def pieces():
        yield b"one "
        yield b"two"

    async def apieces():
        for piece in pieces():
            yield piece

    def upload():
        return fetch(url, "POST", content=apieces() if fetch.is_async else pieces())

    live, replayed = tapes.both(upload)

    assert replayed == live
    assert server.requests[0].body == b"one two"
    assert tapes.calls[0].arguments == {"body": "one two"}


def test_a_file_reaches_the_server(fetch, server, tapes, tmp_path):
    (tmp_path / "upload.bin").write_bytes(b"\x00\x01" * 5000)
    url = server.says("/upload", framing="length")

    def upload():
        with open("upload.bin", "rb") as file:
            return fetch(url, "PUT", content=file.read() if fetch.name.endswith("async") else file)

    live, replayed = tapes.both(upload)

    assert replayed == live
    assert server.requests[0].body == b"\x00\x01" * 5000


def test_bodies_are_asked_for_unpacked_and_the_mark_stays_in_the_process(fetch, server, tapes):
    url = server.says("/path", framing="length")

    tapes.record(lambda: fetch(url))

    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert "x-replaykit-seen" not in server.requests[0].headers


def test_the_mark_goes_to_nobody_but_the_proxy(tapes, monkeypatch):
    monkeypatch.setenv("REPLAYKIT_SESSION", "anywhere")
    here, there = "http://127.0.0.1:4000/openai/v1", "https://api.openai.com/v1"

    assert HttpRequest(method="GET", url=here).amended == {"x-replaykit-seen": "1"}
    assert HttpRequest(method="GET", url=there).amended == {}


def test_what_the_caller_has_signed_is_sent_as_it_is():
    signed = (("accept-encoding", "gzip"), ("authorization", "AWS4-HMAC-SHA256 SignedHeaders=accept-encoding;host"))

    assert HttpRequest(method="GET", url="http://h/", headers=signed[:1]).amended == {"accept-encoding": "identity"}
    assert HttpRequest(method="GET", url="http://h/", headers=signed).amended == {}


def test_the_mark_is_set_where_a_proxy_takes_it_off(fetch, server, tapes, monkeypatch):
    monkeypatch.setenv("REPLAYKIT_SESSION", "anywhere")
    url = server.says("/path", framing="length")

    tapes.record(lambda: fetch(url))
    fetch(url)

    assert [request.headers.get("x-replaykit-seen") for request in server.requests] == ["1", None]


def test_what_was_not_recorded_is_a_divergence_that_reaches_the_caller(fetch, server, tapes):
    url = server.says("/known", framing="length")
    tapes.record(lambda: fetch(url))

    with pytest.raises(Divergence, match="request `GET "):
        tapes.replay(lambda: fetch(f"{server.url}/unknown"))

    assert [deviation.kind for deviation in tapes.replayer.deviations] == ["missing"]


def test_a_fault_is_raised_as_the_library_raises_it(fetch, server, tapes):
    tapes.record(lambda: None)
    names = {"requests": "ReadTimeoutError", "urllib3": "ReadTimeoutError", "aiohttp": "ServerTimeoutError"}
    names["http.client"] = "TimeoutError"
    name = names.get(fetch.name, "ReadTimeout")
    rules = MatchRules(on_miss=OnMiss.FAULT, fault=ErrorSpec(type=name, message="too slow"))

    seen = tapes.replay(lambda: fetch(f"{server.url}/any"), rules=rules)

    assert "too slow" in seen.error[1]
    assert "Timeout" in seen.error[0].__name__


chunkings = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
tokens = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(lambda name: f"X-{name}")
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)


def is_kept(header: tuple[str, str]) -> bool:
    """True for one that neither its name nor its value gives cause to hide."""
    return clean_headers([header]) == (header,) and Redactor(b"k").header(*header) == header[1]


kept = st.tuples(tokens, values).filter(is_kept)


@settings(max_examples=examples(12))
@given(chunks=chunkings, headers=st.lists(kept, max_size=5), length=st.booleans())
def test_any_chunks_and_headers_come_back(chunks, headers, length, fetch, server, tapes):
    url = server.says("/any", chunks=chunks, headers=headers, framing="length" if length else "chunked")

    live, replayed = tapes.both(lambda: fetch(url))

    assert replayed == live
    assert live.body == b"".join(chunks)


def test_responses_of_requests_are_whole(server, tapes):
    server.says("/start", status=307, headers=[("Location", "/json")], framing="length")
    server.says(
        "/json",
        chunks=[b'{"n": [1, 2]}'],
        headers=[("Content-Type", "application/json"), ("Set-Cookie", "sid=1; Path=/"), ("Link", '</p2>; rel="next"')],
        framing="length",
    )

    def look():
        with requests.Session() as session:
            response = session.post(f"{server.url}/start", json={"q": 1})
            lines = list(session.get(f"{server.url}/json", stream=True).iter_lines())
        return (
            response.json(),
            response.url,
            [(hop.status_code, hop.url, hop.is_redirect) for hop in response.history],
            response.links,
            response.encoding,
            list(session.cookies.keys()),
            dict(response.headers),
            response.request.headers["Accept-Encoding"],
            lines,
        )

    live, replayed = tapes.both(look)

    assert [call.name.split("/")[-1] for call in tapes.calls] == ["start", "json", "json"]
    assert replayed[:6] == live[:6]
    assert replayed[7:] == live[7:]
    assert replayed[6] == live[6] | {"Set-Cookie": "sid=hidden; Path=/"}


def test_responses_of_aiohttp_are_whole(server, tapes):
    server.says("/start", status=303, headers=[("Location", "/json")], framing="length")
    server.says(
        "/json",
        chunks=[b'{"n":', b" [1, 2]}\n", b"tail"],
        headers=[("Content-Type", "application/json; charset=utf-8"), ("Set-Cookie", "sid=1; Path=/")],
    )
    server.says("/teapot", status=418, reason="Short and Stout", framing="length")

    async def look():
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.post(f"{server.url}/start", json={"q": 1}) as response:
                text, history = await response.text(), [(hop.status, str(hop.url)) for hop in response.history]
                seen = [text, history, str(response.url), response.method, response.charset, response.content_type]
                seen += [list(response.cookies), response.request_info.headers["Accept-Encoding"], response.ok]
            async with session.get(f"{server.url}/json") as response:
                seen += [await response.content.readline(), await response.content.readexactly(2)]
                seen += [await response.content.read(), response.content.at_eof(), response.closed]
            async with session.get(f"{server.url}/json") as response:
                seen.append([line async for line in response.content])
            response = await session.get(f"{server.url}/teapot")
            try:
                response.raise_for_status()
            except aiohttp.ClientResponseError as error:
                seen.append((error.status, error.message, str(error.request_info.real_url)))
            await session.get(f"{server.url}/teapot")  # is neither read nor released
            return [*seen, [cookie.key for cookie in session.cookie_jar]]

    live, replayed = tapes.both(lambda: asyncio.run(look()))

    assert replayed == live
    assert live[:2] == ['{"n": [1, 2]}\ntail', [(303, f"{server.url}/start")]]


def test_what_aiohttp_unpacks_is_kept_unpacked(server, tapes):
    packed = gzip.compress(b"one " * 500)
    url = server.says("/packed", chunks=sliced(packed), headers=[("Content-Encoding", "gzip")])
    whole = server.says("/whole", chunks=[packed], headers=[("Content-Encoding", "gzip")], framing="length")

    async def read():
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as first, session.get(whole) as second:
                return await first.text(), await second.text()

    live, replayed = tapes.both(lambda: asyncio.run(read()))

    assert live == replayed == ("one " * 500, "one " * 500)
    assert "".join(tapes.calls[0].items) == "one " * 500
    assert tapes.replay(lambda: (httpx.get(url).text, requests.get(whole).text)) == live


def test_responses_of_urllib3_are_whole(server, tapes):
    server.says("/start", status=302, headers=[("Location", "/text")], framing="length")
    server.says(
        "/text", chunks=[gzip.compress(b"one\ntwo\n")], headers=[("Content-Encoding", "gzip")], framing="length"
    )

    def look():
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"{server.url}/start")
            again = pool.request("GET", f"{server.url}/text", preload_content=False)
            first, rest = again.read(3), again.read()
            lines = list(pool.request("GET", f"{server.url}/text", preload_content=False))
            return response.data, response.geturl(), response.status, first, rest, lines, again.closed

    live, replayed = tapes.both(look)

    assert replayed == live
    assert live[:3] == (b"one\ntwo\n", "/text", 200)
    assert live[3:6] == (b"one", b"\ntwo\n", [b"one\n", b"two\n"])


def test_a_body_that_is_read_in_small_portions_is_kept_in_large_pieces(server, tapes):
    chunked = server.says("/chunked", chunks=[b"one two three\n" * 1000, b"four\n"])
    plain = server.says("/plain", chunks=[b"one two three\n" * 3000], framing="length")

    def read():
        with urllib3.PoolManager() as pool:
            first = b"".join(pool.request("GET", chunked, preload_content=False).stream(1))
            response = pool.request("GET", plain, preload_content=False)
            lines = [response.readline() for _ in range(3001)]
        return first, lines

    live, replayed = tapes.both(read)

    assert replayed == live
    assert live[1][-2:] == [b"one two three\n", b""]
    assert [len(call.items) for call in tapes.calls] == [2, 3]
    assert [len(call.wire.pauses_ms) for call in tapes.calls] == [2, 3]


@pytest.mark.parametrize("portion", [1, 4, 9, 50, 200, None])
def test_a_body_that_is_too_short_is_so_again_however_it_is_read(portion, server, tapes):
    url = server.says("/short", chunks=[b"only this"], framing="length", announced=100, breaks=True)

    def with_requests():
        return b"".join(requests.get(url, stream=True).iter_content(portion))

    def with_urllib3():
        response = urllib3.request("GET", url, preload_content=False, retries=False)
        return b"".join(iter(lambda: response.read(portion), b""))

    def failures():
        for read in (with_requests, with_urllib3, lambda: requests.get(url).content):
            with pytest.raises((requests.RequestException, urllib3.exceptions.HTTPError)) as caught:
                read()
            yield type(caught.value), str(caught.value)

    live, replayed = tapes.both(lambda: list(failures()))

    assert replayed == live
    assert [call.complete for call in tapes.calls] == [False] * 3


def test_a_length_that_is_not_minded_is_not_minded_again(server, tapes):
    url = server.says("/short", chunks=[b"only this"], framing="length", announced=100, breaks=True)

    def read():
        with urllib3.PoolManager(retries=False) as pool:
            response = pool.request("GET", url, preload_content=False, enforce_content_length=False)
            return b"".join(response.stream(4))

    assert tapes.both(read) == (b"only this", b"only this")


def test_retries_of_the_library_are_exchanges_of_their_own(server, tapes):
    url = server.says("/busy", *[{"status": 503, "framing": "length"}, {"chunks": [b"well"], "framing": "length"}] * 2)

    def insist():
        retries = urllib3.Retry(2, status_forcelist=[503], backoff_factor=0)
        with requests.Session() as session, urllib3.PoolManager(retries=retries) as pool:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
            return session.get(url).content, pool.request("GET", url).data

    live, replayed = tapes.both(insist)

    assert live == replayed == (b"well", b"well")
    assert [call.wire.status for call in tapes.calls] == [503, 200, 503, 200]


def test_a_time_out_is_raised_again_without_the_wait(server, tapes):
    gate = threading.Event()
    url = server.says("/stuck", chunks=[b"1", b"2"], framing="length", gate=gate)
    short = 0.3

    async def with_aiohttp():
        timeout = aiohttp.ClientTimeout(total=short)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return await response.read()

    def failures():
        for read in (
            lambda: httpx.get(url, timeout=short),
            lambda: requests.get(url, timeout=short),
            lambda: urllib3.request("GET", url, timeout=short, retries=False),
            lambda: asyncio.run(with_aiohttp()),
        ):
            with pytest.raises(Exception) as caught:
                read()
            yield type(caught.value), str(caught.value)

    live = tapes.record(lambda: list(failures()))
    server.hears(4)
    gate.set()
    replayed = tapes.replay(lambda: list(failures()))

    assert [kind.__name__ for kind, _ in live] == ["ReadTimeout", "ConnectionError", "ReadTimeoutError", "TimeoutError"]
    assert [kind for kind, _ in replayed] == [kind for kind, _ in live]
    assert replayed[0] == live[0]


def test_urllib_sees_in_a_replay_what_it_saw(server, tapes):
    url = server.says("/text", chunks=[b"one\n", b"two\n"])
    moved = server.says("/moved", status=302, headers=[("location", url)], framing="length")
    missing = server.says("/missing", chunks=[b"no such page"], status=404, framing="length")
    stuck = server.says("/stuck", chunks=[b"a", b"b"], gate=threading.Event())
    breaks = server.says("/breaks", chunks=[b"a"], breaks=True)

    def read(url, body=None):
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=0.5) as response:
            return response.status, response.url, list(response.headers.items()), response.read(2), response.readlines()

    def attempts():
        seen = [read(url), read(moved), read(url, b"name=value")]
        for failing in (missing, stuck, breaks, "http://127.0.0.1:9/"):
            try:
                seen.append(read(failing))
            except urllib.error.HTTPError as error:
                with error:
                    seen.append((type(error), str(error), type(error.reason), error.read()))
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None)
                seen.append((type(error), str(error), type(reason), b""))
        return seen

    live, replayed = tapes.both(attempts)

    assert replayed == live
    assert [type(one[0]) for one in live] == [int, int, int, type, type, type, type]
    assert [call.name.partition(" ")[0] for call in tapes.calls] == ["GET"] * 3 + ["POST"] + ["GET"] * 4


def test_a_connection_of_http_client_serves_requests_one_after_the_other(server, tapes):
    url = server.says("/text", chunks=[b"hello"], framing="length")
    server.says("/empty", status=204, framing="length")

    def attempts():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        connection.connect()
        seen = []
        for method, path in (("GET", "/text"), ("HEAD", "/text"), ("GET", "/empty"), ("POST", "/text")):
            connection.putrequest(method, path)
            connection.putheader("content-length", "4" if method == "POST" else "0")
            connection.endheaders(b"body" if method == "POST" else None)
            response = connection.getresponse()
            seen.append((response.status, response.read(2), response.read()))
        connection.close()
        return seen

    live, replayed = tapes.both(attempts)

    assert replayed == live == [(200, b"he", b"llo"), (200, b"", b""), (204, b"", b""), (200, b"he", b"llo")]
    assert tapes.calls[-1].arguments == {"body": "body"}


def test_requests_of_urllib3_are_recorded_once(server, tapes):
    url = server.says("/text", chunks=[b"hello"], framing="length")

    live, replayed = tapes.both(lambda: (requests.get(url).text, urllib3.request("GET", url).data))

    assert replayed == live
    assert len(tapes.calls) == 2


def test_a_response_of_http_client_that_nobody_closes_is_kept_as_far_as_it_was_read(server, tapes):
    url = server.says("/text", chunks=[b"one", b"two"], headers=[("connection", "close")])

    def attempts():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        connection.request("GET", "/text")
        return connection.getresponse().read1()

    live, replayed = tapes.both(attempts)

    assert replayed == live == b"one"
    (call,) = tapes.calls
    assert (call.complete, call.items) == (False, ["one"])
