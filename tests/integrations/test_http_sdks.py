"""The real SDKs, recorded and replayed: the same objects out of the same bytes, with the server dead.

A server on loopback speaks every API, answers no two requests alike, and sends in small chunks that respect no
boundary. Models answer through `Api.write`, so that what is tested here is the way of the bytes.
"""

from __future__ import annotations

import asyncio
import http.server
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
import pytest
import requests
from google import genai
from tests.store.damaged import store_files

import replaykit as rk
from replaykit.errors import Divergence, ReplayKitError
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.routes import api_of

# What the SDKs have to warn each other of is none of our business.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "UserWarning")]

ASK: list[Any] = [{"role": "user", "content": "weather in Zürich?"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
KEY = "sk-live-2718281828"
PIECE = 37


class World:
    """The server, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.hits = 0
        self.busy = 0  # how many requests are turned away first
        self.keys: list[str] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def respond(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, str, bytes]:
        with self._lock:
            self.hits += 1
            number = next(self._numbers)
            if self.busy:
                self.busy -= 1
                return 429, "application/json", b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'
        if method == "PUT":
            return 200, "application/xml", b""
        api = api_of(method, path, headers.get("content-type", ""))
        if api is None:
            return 200, "application/json", json.dumps({"path": path, "number": number}).encode()
        call = ToolUse(id=f"call_{number}", name="get_weather", arguments={"city": "Zürich ❄", "number": number})
        written = api.write(ModelAnswer(content=f"answer {number}: schön", tool_calls=(call,)), request=body)
        return 200, written.content_type, b"".join(written.chunks)


@pytest.fixture
def world() -> Iterator[World]:
    here = World()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, kind, answer = here.respond(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            for start in range(0, len(answer), PIECE):
                piece = answer[start : start + PIECE]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_PUT = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] (clients leave when they like)
    here.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield here
    server.shutdown()
    server.server_close()
    thread.join()


Agent = Callable[[], Any]


class Twice:
    """Records what an agent does, and lets it do it again with nobody answering."""

    def __init__(self, world: World, store: rk.Store) -> None:
        self._world = world
        self._store = store

    def __call__(self, agent: Agent) -> tuple[Any, Any]:
        with rk.record("sdk", store=self._store) as run:
            live = agent()
        self.run = self._store.load(run.id)
        hits = self._world.hits
        with rk.replaying(rk.Tape.of(self.run)) as replayer:
            replayed = agent()
        assert self._world.hits == hits
        assert [deviation.text for deviation in replayer.deviations] == []
        self.served = replayer.events()
        return live, replayed

    @property
    def calls(self) -> list[Any]:
        return list(self.run.calls)


@pytest.fixture
def twice(world: World, store: rk.Store) -> Twice:
    return Twice(world, store)


def openai_stream(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        stream = client.chat.completions.create(model="gpt", messages=ASK, tools=TOOLS, stream=True)
        return [chunk.model_dump(mode="json") for chunk in stream]


def openai_plain(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        asked = [client.chat.completions.create(model="gpt", messages=ASK, tools=TOOLS) for _ in range(3)]
        return [completion.model_dump(mode="json") for completion in asked]


async def openai_gather(url: str, **options: Any) -> Any:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, **options) as client:

        async def one(number: int) -> Any:
            said = [*ASK, {"role": "user", "content": str(number)}]
            stream = await client.chat.completions.create(model="gpt", messages=said, tools=TOOLS, stream=True)
            return [chunk.model_dump(mode="json") async for chunk in stream]

        return await asyncio.gather(*map(one, range(5)))


def anthropic_stream(url: str) -> Any:
    with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
        with client.messages.stream(model="claude", max_tokens=99, messages=ASK) as stream:
            kinds = [event.type for event in stream]
            return kinds, stream.get_final_message().model_dump(mode="json")


async def anthropic_async(url: str) -> Any:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
        async with client.messages.stream(model="claude", max_tokens=99, messages=ASK) as stream:
            return (await stream.get_final_message()).model_dump(mode="json")


def gemini_stream(url: str) -> Any:
    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    try:
        return [c.model_dump(mode="json") for c in client.models.generate_content_stream(model="g", contents="hi")]
    finally:
        client.close()


async def gemini_async(url: str) -> Any:
    client = genai.Client(api_key=KEY, http_options={"base_url": url}).aio
    try:
        stream = await client.models.generate_content_stream(model="g", contents="hi")
        return [chunk.model_dump(mode="json") async for chunk in stream]
    finally:
        await client.aclose()


async def with_aiohttp(url: str) -> Any:
    body = {"model": "m", "messages": ASK, "stream": True}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/tool?q=3") as response:
            plain = await response.json()
        async with session.post(f"{url}/v1/chat/completions", json=body) as response:
            return plain, b"".join([chunk async for chunk, _ in response.content.iter_chunks()]).decode()


def everything(url: str) -> dict[str, Any]:
    body = {"model": "m", "messages": ASK, "stream": True}
    return {
        "openai stream": openai_stream(url),
        "anthropic stream": anthropic_stream(url),
        "openai, five at once": asyncio.run(openai_gather(url)),
        "anthropic async stream": asyncio.run(anthropic_async(url)),
        "openai, the same three times": openai_plain(url),
        "gemini stream": gemini_stream(url),
        "gemini async stream": asyncio.run(gemini_async(url)),
        "httpx": httpx.get(f"{url}/tool?q=1").json(),
        "requests": requests.get(f"{url}/tool?q=2").json(),
        "requests stream": list(requests.post(f"{url}/v1/chat/completions", json=body, stream=True).iter_content(None)),
        "aiohttp": asyncio.run(with_aiohttp(url)),
    }


def test_every_sdk_gets_the_same_objects_out_of_the_same_bytes(world, twice):
    live, replayed = twice(lambda: everything(world.url))

    assert {name for name in live if live[name] != replayed[name]} == set()
    assert world.hits == len(twice.calls) == 18
    assert [event.items for event in twice.served] == [call.items for call in twice.calls]
    assert {len(item.encode() if isinstance(item, str) else item) for item in twice.calls[0].items[:-1]} == {PIECE}
    assert len({json.dumps(completion) for completion in live["openai, the same three times"]}) == 3


def test_calls_of_models_are_shown_as_such_whichever_sdk_made_them(world, twice):
    twice(lambda: everything(world.url))

    models = [call for call in twice.calls if call.kind == "llm_call"]
    assert {call.name for call in models} == {"gpt", "claude", "g", "m"}
    assert len(models) == 15
    for call in models:
        assert call.complete
        assert call.result["content"].endswith("schön")
        assert call.result["tool_calls"][0]["arguments"]["city"] == "Zürich ❄"
        assert call.finish_reason
        assert call.usage is not None or call.name != "claude"


def test_no_key_is_in_the_log(world, twice, store, tmp_path):
    def look() -> bytes:
        everything(world.url)
        return b"".join(file.read_bytes() for file in store_files(tmp_path / "store.db"))

    with rk.record("sdk", store=store):
        written = look()

    assert b"Z\xc3\xbcrich" in written
    assert KEY.encode() not in written


def test_openai_over_aiohttp(world, twice):
    def gather() -> Any:
        return asyncio.run(openai_gather(world.url, http_client=openai.DefaultAioHttpClient()))

    live, replayed = twice(gather)

    assert live == replayed
    assert {call.kind for call in twice.calls} == {"llm_call"}


def test_openai_responses(world, twice):
    def ask() -> Any:
        with openai.OpenAI(base_url=f"{world.url}/v1", api_key=KEY) as client:
            plain = client.responses.create(model="gpt", input="hi").model_dump(mode="json")
            with client.responses.stream(model="gpt", input="hi") as stream:
                return plain, [event.type for event in stream], stream.get_final_response().output_text

    live, replayed = twice(ask)

    assert live == replayed


def test_a_client_that_tries_again_does_so_in_the_replay(world, twice):
    def ask() -> Any:
        with openai.OpenAI(base_url=f"{world.url}/v1", api_key=KEY) as client:
            return client.chat.completions.create(model="gpt", messages=ASK).model_dump(mode="json")

    world.busy = 2
    live, replayed = twice(ask)

    assert live == replayed
    assert [call.wire.status for call in twice.calls] == [429, 429, 200]


def test_a_client_that_was_there_before(world, twice):
    with openai.OpenAI(base_url=f"{world.url}/v1", api_key=KEY) as client:
        client.chat.completions.create(model="gpt", messages=ASK)
        live, replayed = twice(lambda: client.chat.completions.create(model="gpt", messages=ASK).choices[0].message)

    assert live == replayed


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would look for prices on the network
    return pytest.importorskip("litellm")


def test_litellm(world, twice, litellm):
    common: dict[str, Any] = {"messages": ASK, "api_key": KEY}
    openai_like = {**common, "model": "openai/gpt", "api_base": f"{world.url}/v1"}
    claude_like = {**common, "model": "anthropic/claude-x", "api_base": world.url}

    async def asked() -> list[Any]:
        plain = [await litellm.acompletion(**how) for how in (openai_like, claude_like)]
        stream = [chunk async for chunk in await litellm.acompletion(**openai_like, stream=True)]
        return [answer.choices[0].message.content for answer in plain] + [
            "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        ]

    def ask() -> list[Any]:
        plain = [litellm.completion(**how).choices[0].message for how in (openai_like, claude_like)]
        return [(said.content, said.tool_calls[0].function.arguments) for said in plain] + asyncio.run(asked())

    live, replayed = twice(ask)

    assert live == replayed
    assert [call.kind for call in twice.calls] == ["llm_call"] * 5


def boto(service: str, url: str, **options: Any) -> Any:
    boto3 = pytest.importorskip("boto3")
    config = pytest.importorskip("botocore.config")
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="AKIAEXAMPLE",
        aws_secret_access_key=KEY,
        config=config.Config(**options),
    )


def test_bedrock_through_boto3(world, twice):
    client = boto("bedrock-runtime", world.url)
    body = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": ASK})

    def ask() -> Any:
        plain = client.invoke_model(modelId="anthropic.claude", body=body)["body"].read()
        stream = client.invoke_model_with_response_stream(modelId="anthropic.claude", body=body)["body"]
        return plain, [event["chunk"]["bytes"] for event in stream]

    live, replayed = twice(ask)

    assert live == replayed
    assert [call.kind for call in twice.calls] == ["llm_call", "llm_call"]
    assert all(call.result["content"].endswith("schön") for call in twice.calls)


def test_uploads_through_boto3(world, twice, tmp_path):
    client = boto("s3", world.url, s3={"addressing_style": "path"})
    (tmp_path / "file.bin").write_bytes(bytes(range(256)) * 100)

    def put() -> Any:
        with open("file.bin", "rb") as file:
            done = client.put_object(Bucket="b", Key="k", Body=file)
        return done["ResponseMetadata"]["HTTPStatusCode"]

    live, replayed = twice(put)

    assert live == replayed == 200


def misses(world: World) -> dict[str, Agent]:
    url = world.url
    options: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": KEY}
    return {
        "openai": lambda: openai.OpenAI(**options).chat.completions.create(model="x", messages=ASK),
        "openai stream": lambda: openai.OpenAI(**options).chat.completions.create(model="x", messages=ASK, stream=True),
        "openai async": lambda: asyncio.run(openai_gather(url)),
        "openai aiohttp": lambda: asyncio.run(openai_gather(url, http_client=openai.DefaultAioHttpClient())),
        "anthropic": lambda: anthropic_stream(url),
        "anthropic async": lambda: asyncio.run(anthropic_async(url)),
        "gemini": lambda: gemini_stream(url),
        "gemini async": lambda: asyncio.run(gemini_async(url)),
        "bedrock": lambda: boto("bedrock-runtime", url).invoke_model(modelId="m", body=b"{}"),
        "s3, standard retries": lambda: boto("s3", url, retries={"mode": "standard"}).list_buckets(),
    }


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of clients that are left as they are when it is raised
@pytest.mark.parametrize("sdk", misses(World()))
def test_a_miss_reaches_the_caller_as_it_is_and_is_not_tried_again(sdk, world):
    ask = misses(world)[sdk]
    with rk.replaying(rk.Tape([])):  # what takes long the first time is done
        with pytest.raises(Divergence):
            ask()

    with rk.replaying(rk.Tape([])) as replayer, pytest.raises(Divergence) as caught:
        ask()

    assert "left its recording" in str(caught.value)
    assert 1 <= len(replayer.deviations) <= (5 if "openai a" in sdk else 1)  # up to five at once, none of them twice
    assert world.hits == 0


def test_litellm_tells_of_a_miss_in_an_error_of_its_own(world, litellm):
    with rk.replaying(rk.Tape([])) as replayer, pytest.raises(Exception, match="left its recording") as caught:
        litellm.completion(model="openai/gpt", messages=ASK, api_base=f"{world.url}/v1", api_key=KEY)

    assert not isinstance(caught.value, ReplayKitError)
    assert len(replayer.deviations) == 1


@contextmanager
def http2_server(body: bytes) -> Iterator[str]:
    """Answers over HTTP/2, with trailers, whatever it is asked."""
    connection = pytest.importorskip("h2.connection")
    config = pytest.importorskip("h2.config")
    import socket

    import h2.events

    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            peer, _ = listening.accept()
        except OSError:
            return
        with peer:
            h2_side = connection.H2Connection(config=config.H2Configuration(client_side=False))
            h2_side.initiate_connection()
            peer.sendall(h2_side.data_to_send())
            while data := peer.recv(65536):
                for event in h2_side.receive_data(data):
                    if isinstance(event, h2.events.StreamEnded):
                        h2_side.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/plain")])
                        h2_side.send_data(event.stream_id, body)
                        h2_side.send_headers(event.stream_id, [("x-checksum", "1")], end_stream=True)
                peer.sendall(h2_side.data_to_send())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def test_http2(twice):
    with http2_server(b"two") as url:

        def ask() -> Any:
            with httpx.Client(http1=False, http2=True) as client:
                response = client.get(url)
                return response.text, response.http_version, response.reason_phrase, list(response.headers.raw)

        live, replayed = twice(ask)

    assert live == replayed
    assert live[:3] == ("two", "HTTP/2", "OK")
