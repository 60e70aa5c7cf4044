"""Archives of HTTP traffic: calls of model APIs as they went over the wire."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
import zlib
from typing import Any

import httpx
import pytest
import zstandard
from tests.formats.samples import sample, unpacked
from tests.formats.story import ANSWER, check_story

import replaykit as rk
from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, importer_of
from replaykit.handlers.replay.keys import key_of
from replaykit.model.events import Usage
from replaykit.model.run import RunStatus, encode_run
from replaykit.wire.request_keys import match_key
from replaykit.wire.routes import api_of

CHAT = "https://user:pw@api.openai.com/v1/chat/completions?api-key=SECRETQUERY"
RESPONSES = "https://api.openai.com/v1/responses"
ANTHROPIC = "https://api.anthropic.com/v1/messages?beta=true"
GEMINI = (
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:streamGenerateContent?alt=sse&key=SECRETQUERY"
)
HEADERS = [{"name": "Authorization", "value": "Bearer SECRETHEADER"}, {"name": "x-api-key", "value": "SECRETHEADER"}]


def pairs(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(unpacked(sample(name)))
    return found


def entry(url: str, request: Any, response: Any, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """An entry that began so many seconds after midnight."""
    text = response if isinstance(response, str) else json.dumps(response)
    content = {"mimeType": "application/json", "text": text, **more.pop("content", {})}
    cookies = [{"name": "Set-Cookie", "value": "session=SECRETHEADER"}]
    return {
        "startedDateTime": dt.datetime.fromtimestamp(1767225600 + at, dt.UTC).isoformat(),
        "time": 500.0,
        "request": {
            "method": "POST",
            "url": url,
            "headers": HEADERS,
            "postData": {"mimeType": "application/json", "text": json.dumps(request)},
        },
        "response": {"status": 200, "statusText": "OK", "headers": cookies, "content": content} | more,
    }


def har(*entries: Any) -> Imported:
    log = {"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": list(entries)}}
    return import_source(Source(json.dumps(log, indent=1).encode(), "traffic.har"))


def traffic(url: str, name: str) -> list[dict[str, Any]]:
    return [entry(url, one["request"], one["response"], at) for at, one in enumerate(pairs(name))]


def test_the_story_over_the_wire_is_a_run_in_the_order_of_time():
    first, second, third = traffic(CHAT, "openai_chat/request_response_pairs.json")
    got = har(third, first, second)

    assert (got.format, got.remarks) == ("har", ())
    (run,) = got.runs
    check_story(run)
    assert [call.at for call in run.llm_calls] == [1767225600.0, 1767225601.0, 1767225602.0]
    assert [call.duration_s for call in run.llm_calls] == [0.5] * 3
    assert next((call.at, call.duration_s) for call in run.tool_calls) == (1767225600.5, 0.5)
    assert run.ended_at == 1767225602.5


@pytest.mark.parametrize(
    ("url", "name", "lacks"),
    [
        (RESPONSES, "openai_responses/request_response_pairs.json", {"type of the error", "messages", "system"}),
        (ANTHROPIC, "anthropic_messages/request_response_pairs.json", {"messages"}),
    ],
)
def test_other_apis_tell_the_story_with_the_bodies_they_sent(url, name, lacks):
    got = har(*traffic(url, name))

    (run,) = got.runs
    check_story(run, lacks)
    assert [call.arguments for call in run.llm_calls] == [one["request"] for one in pairs(name)]


def test_a_call_holds_what_went_over_the_wire_so_that_it_can_be_served():
    (run,) = har(*traffic(CHAT, "openai_chat/request_response_pairs.json")).runs
    (first, *_) = pairs("openai_chat/request_response_pairs.json")

    call = run.llm_calls[0]
    assert call.wire is not None
    assert (call.wire.method, call.wire.status, call.wire.reason) == ("POST", 200, "OK")
    assert call.items is not None
    assert json.loads(call.items[0]) == first["response"]
    api = api_of("POST", CHAT)
    assert api is not None
    assert key_of(call) == match_key(api, json.dumps(first["request"]).encode())


def test_a_candidates_own_calls_are_served_from_the_archive():
    (run,) = har(*traffic(CHAT, "openai_chat/request_response_pairs.json")).runs
    asked = pairs("openai_chat/request_response_pairs.json")

    with rk.replaying(rk.Tape.of(run)):
        came = [httpx.post("https://api.openai.com/v1/chat/completions", json=one["request"]) for one in asked]

    assert [answer.json() for answer in came] == [one["response"] for one in asked]


def test_nothing_secret_is_kept():
    (run,) = har(*traffic(CHAT, "openai_chat/request_response_pairs.json")).runs

    text = encode_run(run)
    assert b"SECRET" not in text
    assert b"pw@" not in text
    assert run.llm_calls[0].wire is not None
    assert run.llm_calls[0].wire.url == "https://api.openai.com/v1/chat/completions"
    assert run.llm_calls[0].wire.headers == (("content-type", "application/json"),)


def packed(data: bytes, encoding: str) -> dict[str, Any]:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress, "": bytes, "br": bytes}
    text = base64.b64encode(pack[encoding](data)).decode()
    return {
        "content": {"text": text, "encoding": "base64"},
        "headers": [{"name": "Content-Encoding", "value": encoding}],
    }


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "zstd", "br"])
def test_bodies_in_base64_and_compressed_are_read(encoding):
    one = pairs("openai_chat/request_response_pairs.json")[2]
    data = json.dumps(one["response"]).encode()
    (run,) = har(entry(CHAT, one["request"], "", **packed(data, encoding))).runs

    assert run.output == ANSWER
    assert run.llm_calls[-1].items is not None
    assert json.loads(run.llm_calls[-1].items[0]) == one["response"]


def test_a_body_that_is_marked_as_compressed_and_is_not_is_read_as_it_is():
    one = pairs("openai_chat/request_response_pairs.json")[2]
    headers = [{"name": "content-encoding", "value": "gzip"}]
    (run,) = har(entry(CHAT, one["request"], one["response"], headers=headers)).runs

    assert run.output == ANSWER


def test_a_packed_body_that_would_never_end_is_read_only_so_far(monkeypatch):
    monkeypatch.setattr("replaykit.formats.har.MAX_BODY", 1000)
    one = pairs("openai_chat/request_response_pairs.json")[2]
    (run,) = har(entry(CHAT, one["request"], "", **packed(b" " * 10_000_000, "gzip"))).runs

    assert run.llm_calls[-1].items is not None
    assert len(run.llm_calls[-1].items[0]) == 1000
    assert run.status is RunStatus.ERROR


def test_streams_are_put_together():
    one = pairs("openai_chat/stream_chunks.json")[2]
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in one["chunks"]) + "data: [DONE]\n\n"
    (run,) = har(entry(CHAT, {**one["request"], "stream": True}, text)).runs
    assert (run.output.strip(), run.llm_calls[-1].usage) == (ANSWER, Usage(input_tokens=200, output_tokens=31))

    cut = har(entry(CHAT, one["request"], text[: len(text) // 2])).runs[0]
    assert cut.llm_calls[-1].complete is False
    assert replayability(cut).lacking[0].lacks == (Lack.CUT,)

    contents = [{"role": "user", "parts": [{"text": "go"}]}]
    piece = {"candidates": [{"content": {"role": "model", "parts": [{"text": "1"}]}, "finishReason": "STOP"}]}
    (run,) = har(entry(GEMINI, {"contents": contents}, f"data: {json.dumps(piece)}\r\n\r\n")).runs
    assert (run.input, run.output, run.llm_calls[0].name) == ("go", "1", "gemini-x")
    assert run.llm_calls[0].wire is not None
    assert run.llm_calls[0].wire.url.endswith(":streamGenerateContent?alt=sse")


def test_apis_without_a_voice_of_their_own_are_model_calls_too():
    ollama = {"model": "llama", "message": {"role": "assistant", "content": "1"}, "done": True, "done_reason": "stop"}
    asked = {"model": "llama", "messages": [{"role": "user", "content": "go"}], "stream": False}
    legacy = {"id": "cmpl-1", "object": "text_completion", "choices": [{"text": "2", "finish_reason": "stop"}]}
    got = har(
        entry("http://localhost:11434/api/chat", asked, ollama),
        entry("https://api.openai.com/v1/completions", {"model": "old", "prompt": "say"}, legacy, 1),
    )

    assert [(run.input, run.output) for run in got.runs] == [("go", "1"), ("say", "2")]


def test_errors_of_the_api_and_of_the_connection():
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "go"}]}
    slow = {"error": {"message": "slow down", "type": "rate_limit", "param": None, "code": None}}
    none = entry(CHAT, request, "", 1, status=0, statusText="", _error="net::ERR_ABORTED")
    (run,) = har(entry(CHAT, request, slow, status=429), none).runs

    first, second = run.llm_calls
    assert (first.error and first.error.type, second.error and second.error.type) == ("rate_limit", "ConnectionError")
    assert first.wire is not None
    assert first.wire.status == 429
    assert run.error is not None
    assert (run.status, run.error.message) == (RunStatus.ERROR, "net::ERR_ABORTED")


def test_two_conversations_are_two_runs_and_other_entries_are_counted():
    page = {
        "startedDateTime": "2026-01-01T00:00:00Z",
        "time": 1,
        "request": {"method": "GET", "url": "https://x.test/"},
    }
    other = {"request": {"model": "m", "messages": [{"role": "user", "content": "other"}]}}
    answer = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
    got = har(
        page, *traffic(CHAT, "openai_chat/request_response_pairs.json"), entry(CHAT, other["request"], answer), page
    )

    assert [run.output for run in got.runs] == [ANSWER, "ok"] or [run.output for run in got.runs] == ["ok", ANSWER]
    assert got.notes == ("2 other entries are no calls of a model API",)


def test_a_response_without_its_content_is_lacking_and_the_advice_says_so():
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "go"}]}
    (run,) = har(entry(CHAT, request, "")).runs

    manifest = replayability(run)
    assert manifest.lacking[0].lacks == (Lack.CUT, Lack.RESULT)
    assert manifest.advice == ("Save the HAR with content: some tools leave out bodies, or large ones.",)


def test_a_bad_entry_is_left_out_with_its_line():
    got = har(*traffic(CHAT, "openai_chat/request_response_pairs.json"), 5, {"request": 7})

    assert len(got.runs) == 1
    assert ["expected an entry, got a number" in problem for problem in got.left_out] == [True, False]
    assert all(problem.startswith("traffic.har:") for problem in got.left_out)


def test_an_archive_without_models_says_so():
    with pytest.raises(InvalidFile, match="the file holds no run") as caught:
        har({"request": {"method": "GET", "url": "https://x.test/"}})
    assert caught.value.hint == "1 other entry is no call of a model API"

    with pytest.raises(InvalidFile, match="expected a HAR"):
        import_source(Source(b"[1]", "x.har"), "har")
    with pytest.raises(InvalidFile, match="not a trace of a known format"):
        importer_of(Source(b'{"log": {"entries": 5}}', "x.har"))
