"""The proxy: what it passes on, what it writes down, and what it gives out again."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import msgspec
import pytest
from tests.programs.conftest import (
    DONE,
    END,
    STREAM,
    Asked,
    Proxies,
    ProxyClient,
    Upstream,
    chunk,
    completion,
    event,
    post,
    question,
    read_until,
    whole,
)

from replaykit.handlers.replay.world import World
from replaykit.model.events import StoredEvent
from replaykit.model.matching import MatchMode, MatchRules, OnMiss, ToolMode
from replaykit.programs.process_log import _DetachableWriter
from replaykit.seam.http.cleaning import SEEN


def chunks_of(answer: bytes) -> list[bytes]:
    """The frames of a chunked response."""
    frames, rest = [], answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        frames.append(rest[:length])
        rest = rest[length + 2 :]
    return frames


def test_a_model_call_is_recorded_and_served_again_when_nobody_answers_any_more(
    proxies: Proxies, upstream: Upstream
) -> None:
    upstream.script = lambda asked: [whole(completion("Hi."))]
    with proxies.record() as client:
        live = client.chat()
    run = client.run
    upstream.close()

    with proxies.replay(run) as client:
        again = client.chat()

    (call,) = run.llm_calls
    assert (call.name, call.result["content"], call.path) == ("small", "Hi.", "/!proxy")
    assert call.arguments["messages"] == [{"role": "user", "content": "hello"}]
    assert live.body == again.body == completion("Hi.")
    assert (again.status, again.headers["content-type"]) == (200, "application/json")
    assert client.deviations(run) == []


def test_headers_beyond_ascii_come_as_they_were_sent(proxies: Proxies, upstream: Upstream) -> None:
    told = "x-name: é".encode()
    upstream.script = lambda asked: [whole(b"{}").replace(b"\r\n", b"\r\n" + told + b"\r\n", 1)]
    with proxies.record() as client, client.raw(post("/openai/files", b"a")) as connection:
        live = read_until(connection)
    with proxies.replay(client.run) as client, client.raw(post("/openai/files", b"a")) as connection:
        again = read_until(connection)

    assert told in live.split(b"\r\n")
    assert told in again.split(b"\r\n")


def test_a_stream_is_served_with_the_chunks_it_was_recorded_with(proxies: Proxies, upstream: Upstream) -> None:
    pieces = [event("He"), event("llo é")[:25], event("llo é")[25:], DONE]  # the second cut is inside of a character
    upstream.script = lambda asked: [STREAM, *map(chunk, pieces), END]
    with proxies.record() as client:
        client.chat(stream=True)
    run = client.run

    with (
        proxies.replay(run) as client,
        client.raw(post("/openai/chat/completions", question(stream=True))) as connection,
    ):
        answer = read_until(connection)

    assert run.llm_calls[0].result["content"] == "Hello é"
    assert chunks_of(answer) == [*pieces, b""]


def test_the_head_is_passed_on_before_the_first_chunk_comes(proxies: Proxies, upstream: Upstream) -> None:
    has_read = threading.Event()
    upstream.script = lambda asked: [STREAM, has_read, chunk(event("first")), END]

    with (
        proxies.record() as client,
        client.raw(post("/openai/chat/completions", question(stream=True))) as connection,
    ):
        early = read_until(connection, b"\r\n\r\n")
        has_read.set()
        rest = read_until(connection)

    assert b"text/event-stream" in early
    assert event("first") in rest


def test_the_first_chunk_is_passed_on_before_the_second_one_comes(proxies: Proxies, upstream: Upstream) -> None:
    has_read = threading.Event()
    upstream.script = lambda asked: [STREAM, chunk(event("first")), has_read, chunk(event("second")), END]

    with (
        proxies.record() as client,
        client.raw(post("/openai/chat/completions", question(stream=True))) as connection,
    ):
        early = read_until(connection, event("first"))
        has_read.set()
        rest = read_until(connection)

    assert event("second") not in early
    assert event("second") in rest


def test_a_request_body_is_passed_on_while_it_comes_when_it_is_large(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.programs.proxy_handler.WHOLE_BODY", 1000)
    upstream.script = lambda asked: [whole(b'{"ok": true}')]
    big = b"x" * 5_000_000

    with proxies.record() as client:
        client.ask("POST", "/openai/files", big, content_type="application/octet-stream")
    run = client.run
    with proxies.replay(run) as client:
        again = client.ask("POST", "/openai/files", big, content_type="application/octet-stream")
        other = client.ask("POST", "/openai/files", big + b"y", content_type="application/octet-stream")

    (call,) = run.calls
    assert upstream.asked[0].body == big
    assert upstream.asked[0].headers["content-length"] == "5000000"
    assert set(call.arguments["body"]) == {"sha256", "bytes"}
    assert call.arguments["body"]["bytes"] == 5_000_000
    assert (again.status, again.body) == (200, b'{"ok": true}')
    assert other.status == 409


def test_the_hash_of_a_large_form_does_not_depend_on_its_boundary(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.programs.proxy_handler.WHOLE_BODY", 1000)

    def form(boundary: str) -> tuple[bytes, str]:
        part = f'--{boundary}\r\ncontent-disposition: form-data; name="f"\r\n\r\n'.encode() + b"x" * 300_000
        return part + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"

    (first, first_type), (second, second_type) = form("a1b2c3"), form("9z8y7x6w")
    with proxies.record() as client:
        client.ask("POST", "/openai/files", first, content_type=first_type)
    run = client.run
    with proxies.replay(run) as client:
        again = client.ask("POST", "/openai/files", second, content_type=second_type)

    assert again.status == 200


def test_what_a_model_api_does_not_know_is_an_exchange_under_the_name_of_its_upstream(
    proxies: Proxies, upstream: Upstream
) -> None:
    upstream.script = lambda asked: [whole(b'{"data": []}')]
    with proxies.record() as client:
        client.ask("GET", "/openai/models?limit=2&api_key=sk-secret")
    run = client.run
    elsewhere = {"openai": "https://api.openai.com/v1"}

    with proxies.replay(run, upstreams=elsewhere) as client:
        again = client.ask("GET", "/openai/models?limit=2&api_key=another")

    (call,) = run.calls
    assert (call.kind, call.name) == ("exchange", "GET openai/models")
    assert call.wire is not None
    assert call.wire.url == f"{upstream.url}/v1/models?limit=2&api_key=hidden"
    assert again.body == b'{"data": []}', "the recording is found whatever the upstream's address is by then"


def test_keys_are_passed_on_and_never_written(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("Hi."), set_cookie="session=abc123; Path=/", x_api_key="k-987")]

    with proxies.record() as client:
        client.ask("POST", "/openai/chat/completions", question(), x_api_key="k-123", cookie="a=b")

    assert upstream.asked[0].headers["authorization"] == "Bearer sk-very-secret"
    assert upstream.asked[0].headers["x-api-key"] == "k-123"
    written = msgspec.json.encode(client.run)
    for secret in (b"sk-very-secret", b"k-123", b"abc123", b"k-987"):
        assert secret not in written


def test_headers_of_the_connection_are_not_passed_on(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b"{}", keep_alive="timeout=5", x_kept="yes")]

    with proxies.record() as client:
        answer = client.ask("GET", "/openai/models", connection="close, x-hop", x_hop="1", te="trailers", x_own="2")

    seen = upstream.asked[0].headers
    assert seen["x-own"] == "2"
    assert not {"x-hop", "te"} & seen.keys()
    assert seen["host"] == upstream.url.removeprefix("http://")
    assert answer.headers["x-kept"] == "yes"
    assert "keep-alive" not in answer.headers


def test_bodies_are_asked_for_uncompressed(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.ask("GET", "/openai/models", accept_encoding="gzip, br")

    assert upstream.asked[0].headers["accept-encoding"] == "identity"


def test_a_server_that_compresses_all_the_same_is_recorded_as_it_is_and_read_through_it(
    proxies: Proxies, upstream: Upstream
) -> None:
    packed = gzip.compress(completion("Hi."))
    upstream.script = lambda asked: [whole(packed, content_encoding="gzip")]
    with proxies.record() as client:
        live = client.chat()
    run = client.run

    with proxies.replay(run) as client:
        again = client.chat()

    assert live.body == again.body == packed
    assert again.headers["content-encoding"] == "gzip"
    assert run.llm_calls[0].result["content"] == "Hi."


def test_a_marked_request_is_passed_on_without_its_mark_and_not_written(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        answer = client.ask("POST", "/openai/chat/completions", question(), **{SEEN: "1"})

    assert answer.status == 200
    assert SEEN not in upstream.asked[0].headers
    assert client.run.events == ()


def test_the_response_says_which_upstream_it_came_from(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        answer = client.ask("GET", "/anthropic/v1/models")

    assert answer.headers["x-replaykit-upstream"] == "anthropic"


def test_an_error_of_the_api_is_recorded_and_served(proxies: Proxies, upstream: Upstream) -> None:
    told = b'{"error": {"type": "server_error", "message": "try again"}}'
    upstream.script = lambda asked: [whole(told, "503 Service Unavailable", retry_after="1")]
    with proxies.record() as client:
        client.chat()
    run = client.run

    with proxies.replay(run) as client:
        again = client.chat()

    assert run.llm_calls[0].error is not None
    assert "try again" in run.llm_calls[0].error.message
    assert (again.status, again.body, again.headers["retry-after"]) == (503, told, "1")


def test_the_event_is_in_the_store_when_the_response_has_ended(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("Hi.")) if b"false" in asked.body else STREAM + chunk(DONE) + END]

    with proxies.record() as client:
        for number in range(20):
            client.chat(stream=bool(number % 2))
            assert len(client.run.events) == number + 1


@pytest.mark.parametrize("streamed", [True, False])
def test_the_end_is_not_sent_before_it_is_written_down(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    big = b"x" * 200_000
    upstream.script = lambda asked: [STREAM, chunk(big), END] if streamed else [whole(big)]
    has_read, too_early = threading.Event(), []
    append = _DetachableWriter.append

    def slowly(self: _DetachableWriter, event: StoredEvent) -> None:
        too_early.append(has_read.wait(0.3))  # time enough for a client that has it all
        append(self, event)

    with proxies.record() as client:
        monkeypatch.setattr(_DetachableWriter, "append", slowly)
        client.ask("GET", "/openai/files/1/content")
        has_read.set()

    assert too_early == [False]


def test_the_same_question_gets_its_answers_in_the_order_they_came(proxies: Proxies, upstream: Upstream) -> None:
    numbers = count()
    upstream.script = lambda asked: [whole(completion(f"answer {next(numbers)}"))]
    with proxies.record() as client:
        live = [client.chat().body for _ in range(3)]

    with proxies.replay(client.run) as client:
        again = [client.chat().body for _ in range(3)]

    assert again == live
    assert len(set(live)) == 3


def test_a_miss_is_an_error_that_sdks_understand_and_do_not_try_again(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.chat("hello")
    run = client.run

    with proxies.replay(run) as client:
        answer = client.chat("good bye")

    told = json.loads(answer.body)
    assert (answer.status, answer.headers["x-should-retry"]) == (409, "false")
    assert told["error"]["type"] == "replay_miss"
    assert "- hello\n    + good bye" in told["error"]["message"]
    assert [deviation.kind for deviation in client.deviations(run)] == ["missing", "unused"]
    assert "good bye" in client.deviations(run)[0].text
    assert len(upstream.asked) == 1, "nothing was done for real"


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/anthropic/v1/messages", ("error", "message")),
        ("/openai/v1beta/models/g:generateContent", ("error", "message")),
        ("/openai/api/chat", ("error",)),
        ("/openai/model/claude/invoke", ("message",)),
    ],
)
def test_each_api_finds_the_message_where_it_looks_for_one(
    proxies: Proxies, path: str, member: tuple[str, ...]
) -> None:
    with proxies.replay(World(case_id="c1")) as client:
        told = json.loads(client.ask("POST", path, question()).body)

    for name in member:
        told = told[name]
    assert isinstance(told, str)
    assert "left its recording" in told


def test_a_miss_may_repeat_the_last_answer(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.chat()

    with proxies.replay(client.run, MatchRules(on_miss=OnMiss.REPEAT)) as client:
        answers = [client.chat().status for _ in range(3)]

    assert answers == [200, 200, 200]


def test_a_miss_may_be_done_for_real_where_the_case_says_so(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.chat("hello")
    run = client.run
    upstream.script = lambda asked: [whole(completion("live"))]

    with proxies.replay(run, MatchRules(on_miss=OnMiss.LIVE, live=("small",))) as client:
        client.chat("hello")
        answer = client.chat("good bye")

    assert answer.body == completion("live")
    assert len(upstream.asked) == 2
    assert [call.result["content"] if call.result else None for call in client.run.llm_calls] == [None, "live"]


def test_models_that_are_live_are_asked(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("live"))]

    with proxies.replay(World(case_id="c1", models=ToolMode.LIVE)) as client:
        assert client.chat().body == completion("live")


def test_an_upstream_that_nobody_has_placed_is_asked_for(proxies: Proxies) -> None:
    world = World(case_id="c1", models=ToolMode.LIVE)

    with proxies.replay(world, upstreams={"openai": ""}) as client:
        answer = client.chat()

    assert answer.status == 404
    assert b"--upstream openai=URL" in answer.body


def test_ids_that_a_provider_minted_do_not_matter(proxies: Proxies, upstream: Upstream) -> None:
    def turn(call_id: str) -> list[dict[str, object]]:
        call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": "1"}]

    with proxies.record() as client:
        client.ask("POST", "/openai/chat/completions", question(messages=turn("call_a")))

    with proxies.replay(client.run) as client:
        assert client.ask("POST", "/openai/chat/completions", question(messages=turn("call_b"))).status == 200


def test_sequence_goes_by_position_when_the_case_says_so(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.chat("hello")

    with proxies.replay(client.run, MatchRules(mode=MatchMode.SEQUENCE)) as client:
        assert client.chat("good bye").status == 200


def test_responses_are_given_out_at_the_pace_they_came(
    proxies: Proxies, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.script = lambda asked: [STREAM, chunk(event("a")), chunk(event("b")), chunk(DONE), END]
    with proxies.record() as client:
        client.chat(stream=True)
    run = client.run
    (call,) = run.llm_calls
    assert call.wire is not None
    slow = msgspec.structs.replace(
        call, duration_s=2.0, wire=msgspec.structs.replace(call.wire, pauses_ms=(100, 0, 400))
    )
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))

    monkeypatch.setattr("replaykit.programs.proxy_responses.asyncio.sleep", sleep)
    with proxies.replay(World(case_id="c1", calls=(slow,)), speed=2.0) as client:
        answer = client.chat(stream=True)

    assert waits == [0.75, 0.05, 0.0, 0.2]
    assert answer.body == event("a") + event("b") + DONE


def test_a_connection_is_kept_for_further_requests(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [STREAM, chunk(event("a")), END]
    with proxies.record() as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        for _ in range(5):
            connection.request(
                "POST", "/openai/chat/completions", question(stream=True), {"content-type": "text/plain"}
            )
            first = connection.sock
            assert connection.getresponse().read() == event("a")
            assert connection.sock is first
        connection.close()

    assert len(client.run.events) == 5
    assert upstream.connections == 1


def test_a_client_of_http_1_0_gets_a_plain_body(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [STREAM, chunk(event("a")), chunk(DONE), END]
    answers = []
    with proxies.record() as client:
        with client.raw(post("/openai/chat/completions", question(stream=True), version="1.0")) as connection:
            answers.append(read_until(connection))
    run = client.run
    with proxies.replay(run) as client:
        with client.raw(post("/openai/chat/completions", question(stream=True), version="1.0")) as connection:
            answers.append(read_until(connection))

    for answer in answers:
        assert answer.startswith(b"HTTP/1.0 200")
        assert answer.endswith(b"\r\n\r\n" + event("a") + DONE)


def test_head_has_headers_and_no_body(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [b'HTTP/1.1 200 OK\r\ncontent-length: 1234\r\netag: "x"\r\n\r\n']
    with proxies.record() as client:
        live = client.ask("HEAD", "/openai/models")
    with proxies.replay(client.run) as client:
        again = client.ask("HEAD", "/openai/models")

    for answer in (live, again):
        assert (answer.status, answer.body) == (200, b"")
        assert (answer.headers["content-length"], answer.headers["etag"]) == ("1234", '"x"')


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_statuses_without_a_body_are_served(proxies: Proxies, upstream: Upstream, status: str) -> None:
    upstream.script = lambda asked: [f"HTTP/1.1 {status}\r\n\r\n".encode()]
    with proxies.record() as client:
        live = client.ask("DELETE", "/openai/files/1")
    with proxies.replay(client.run) as client:
        again = client.ask("DELETE", "/openai/files/1")

    assert (live.status, live.body) == (again.status, again.body) == (int(status[:3]), b"")


def test_a_chunked_upload_is_passed_on(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.ask("POST", "/openai/chat/completions", iter([question()[:10], question()[10:]]))

    assert upstream.asked[0].body == question()
    assert client.run.llm_calls[0].arguments == json.loads(question())


def test_a_client_that_waits_to_be_told_to_continue_is_told(proxies: Proxies, upstream: Upstream) -> None:
    head = post("/openai/chat/completions", b"").replace(b"content-length: 0", b"content-length: %d" % len(question()))
    asking = head.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n")

    with proxies.record() as client, client.raw(asking) as connection:
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(question())
        assert read_until(connection).startswith(b"HTTP/1.1 200")

    assert "expect" not in upstream.asked[0].headers


def test_a_hundred_requests_at_once_are_all_recorded_and_all_served(proxies: Proxies, upstream: Upstream) -> None:
    def answer(asked):  # type: ignore[no-untyped-def]
        said = json.loads(asked.body)["messages"][0]["content"]
        return [STREAM, *(chunk(event(f"{said} {part}")) for part in range(5)), chunk(DONE), END]

    upstream.script = answer
    texts = [f"question {number}" for number in range(100)]
    with proxies.record() as client, ThreadPoolExecutor(100) as pool:
        live = list(pool.map(lambda text: client.chat(text, stream=True).body, texts))
    run = client.run
    upstream.close()
    with proxies.replay(run) as client, ThreadPoolExecutor(100) as pool:
        again = list(pool.map(lambda text: client.chat(text, stream=True).body, reversed(texts)))

    assert len(run.llm_calls) == 100
    assert again == live[::-1]
    assert all(text.encode() in body for text, body in zip(texts, live, strict=True))
    assert client.deviations(run) == []


def test_the_path_is_passed_on_as_it_is_spelled(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        client.ask("GET", "/openai/files/a%2fb%7E%20c//?q=%c3%a9&x=1+2&x=3")

    assert upstream.asked[0].path == "/v1/files/a%2fb%7E%20c//?q=%c3%a9&x=1+2&x=3"


def test_redirects_are_the_programs_affair(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b"", "307 Temporary Redirect", location="/elsewhere")]

    with proxies.record() as client:
        answer = client.ask("GET", "/openai/models")

    assert (answer.status, answer.headers["location"], len(upstream.asked)) == (307, f"{upstream.url}/elsewhere", 1)


def test_a_program_that_follows_a_redirect_stays_at_the_proxy(proxies: Proxies, upstream: Upstream) -> None:
    ways = {"/v1/old": "/v1/new", "/v1/new": f"{upstream.url}/v1/newer"}

    def moved(asked: Asked) -> list[bytes]:
        way = ways.get(asked.path)
        return [whole(b"here") if way is None else whole(b"", "307 Temporary Redirect", Location=way)]

    def follow(client: ProxyClient) -> tuple[list[str], bytes]:
        answer, led = client.ask("GET", "/openai/old"), []
        while answer.status == 307:
            led.append(answer.headers["location"])
            answer = client.ask("GET", led[-1])
        return led, answer.body

    upstream.script = moved
    with proxies.record() as client:
        live = follow(client)
        run = client.run
    upstream.close()
    with proxies.replay(run) as client:
        again = follow(client)

    assert live == again == (["/openai/new", "/openai/newer"], b"here")
    assert [call.name for call in run.calls] == ["GET openai/old", "GET openai/new", "GET openai/newer"]


def test_an_sdk_that_takes_a_gateway_to_hold_the_version_is_served_where_nobody_says_which_gateway(
    proxies: Proxies, upstream: Upstream
) -> None:
    upstream.script = lambda _: [whole(b'{"type": "message", "role": "assistant", "content": []}')]
    proxies.upstreams = {"anthropic": f"{upstream.url}/gateway/v1"}
    with proxies.record() as client:
        live = client.ask("POST", "/anthropic/messages", question())
    run = client.run

    with proxies.replay(run, upstreams={"anthropic": "https://api.anthropic.com"}) as client:
        again = client.ask("POST", "/anthropic/messages", question())

    assert [asked.path for asked in upstream.asked] == ["/gateway/v1/messages"]
    assert [call.name for call in run.llm_calls] == ["small"]
    assert (again.status, again.body) == (200, live.body)


def test_an_sdk_that_leaves_out_the_version_reaches_the_same_api(proxies: Proxies) -> None:
    bases = {"anthropic": "https://api.anthropic.com"}

    with proxies.replay(World(case_id="c1"), upstreams=bases) as client:
        answers = [
            client.ask("POST", path, question()).body for path in ("/anthropic/messages", "/anthropic/v1/messages")
        ]

    assert answers[0] == answers[1]
    assert b"model `small`" in answers[0]


def test_an_unknown_upstream_is_named_with_the_nearest_known_one(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        answer = client.ask("GET", "/opnai/models")

    assert answer.status == 404
    assert "did you mean 'openai'?" in json.loads(answer.body)["message"]
    assert upstream.asked == []
    assert client.run.events == ()


def test_a_page_that_was_led_here_by_a_name_of_its_own_is_refused(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        refused = client.ask("GET", "/openai/models", host="attacker.example")
        served = client.ask("GET", "/openai/models", host=f"localhost:{client.port}")

    assert (refused.status, served.status) == (403, 200)


def test_websockets_are_refused(proxies: Proxies, upstream: Upstream) -> None:
    with proxies.record() as client:
        answer = client.ask("GET", "/openai/realtime", upgrade="websocket", connection="upgrade")

    assert answer.status == 403
    assert b"websockets" in answer.body


def test_what_is_no_http_is_answered_and_forgotten(proxies: Proxies, capfd: pytest.CaptureFixture[str]) -> None:
    with proxies.record() as client:
        with client.raw(b"\x16\x03\x01\x02\x00 what is this\r\n\r\n") as connection:
            assert read_until(connection).startswith(b"HTTP/1.0 400")
        assert client.run.events == ()

    assert capfd.readouterr() == ("", "")


def test_as_a_forward_proxy_it_records_plain_http_and_serves_it_again(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b"sunny")]
    url = f"http://127.0.0.1:{upstream.port}/weather?city=Oslo"
    with proxies.record() as client:
        live = client.ask("GET", url)
    run = client.run
    upstream.close()

    with proxies.replay(run) as client:
        again = client.ask("GET", url)
        refused = client.ask("GET", "http://stripe.example/charges", user_agent="my-agent/2")

    (call,) = run.calls
    assert call.name == f"GET 127.0.0.1:{upstream.port}/weather"
    assert live.body == again.body == b"sunny"
    assert refused.status == 409
    assert "stripe.example/charges" in client.deviations(run)[0].text


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_a_tunnel_is_refused_and_who_wanted_it_is_named(proxies: Proxies, mode: str) -> None:
    world = World(case_id="c1")
    asking = b"CONNECT api.stripe.com:443 HTTP/1.1\r\nhost: api.stripe.com:443\r\nuser-agent: node-fetch/3 x\r\n\r\n"

    with proxies.record() if mode == "record" else proxies.replay(world) as client, client.raw(asking) as connection:
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 403")
    assert b"api.stripe.com:443" in answer
    told = client.deviations(world)
    if mode == "record":
        assert told == []
        assert b"--upstream NAME=https://api.stripe.com" in answer
    else:
        assert [deviation.kind for deviation in told] == ["network"]
        assert "node-fetch/3" in told[0].text
        assert "(process " in told[0].text


def test_the_port_is_open_at_once_and_closed_at_the_end(proxies: Proxies) -> None:
    with proxies.record() as client:
        port = client.port

    with pytest.raises(OSError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()


def test_a_recording_made_in_process_can_be_served_to_other_processes(proxies: Proxies, upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("Hi."))]
    with proxies.record() as client:
        client.chat()
    inside = [msgspec.structs.replace(call, path="/~worker#0") for call in client.run.llm_calls]

    with proxies.replay(World(case_id="c1", calls=tuple(inside))) as client:
        assert client.chat().body == completion("Hi.")


def test_connections_that_send_no_whole_head_are_closed(proxies: Proxies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.programs.proxy.HEAD_S", 0.2)

    with proxies.record() as client:
        with client.raw(b"POST /openai/chat/completions HTTP/1.1\r\nhost: ") as dripping, client.raw(b"") as silent:
            for connection in (dripping, silent):
                with contextlib.suppress(ConnectionError):
                    assert connection.recv(100) == b""
        assert client.chat().status == 200
