"""Whatever comes over the wire is read without harm: any bytes, any JSON, any value in any place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.wire.api import ModelApi
from replaykit.wire.eventstream import encode_frames
from replaykit.wire.frames import Frame
from replaykit.wire.model_calls import ModelAnswer, ModelCall
from replaykit.wire.request_keys import match_key
from replaykit.wire.routes import api_of

PATHS = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/model/m/invoke-with-response-stream",
    "/v1/models/m:streamGenerateContent?alt=sse",
    "/v1/models/m:streamGenerateContent",
    "/api/chat",
    "/api/generate",
]
paths = pytest.mark.parametrize("path", PATHS)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def api(path: str) -> ModelApi:
    found = api_of("POST", path)
    assert found is not None
    return found


def harmless(spoken: ModelApi, request: bytes, status: int, response: bytes) -> ModelCall:
    call = spoken.read(request, status, [response])
    json.dumps([call.answer.message if call.answer else None, call.arguments, call.finish_reason, call.response_id])
    match_key(spoken, request)
    return call


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at the path."""
    if not path:
        return new
    if isinstance(value, dict):
        return {key: put(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [put(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]


@paths
@settings(max_examples=examples(20))
@given(request=st.binary(max_size=60), status=st.integers(100, 599), response=st.binary(max_size=200))
def test_any_bytes_are_read(path: str, request: bytes, status: int, response: bytes) -> None:
    harmless(api(path), request, status, response)


@paths
@settings(max_examples=examples(15))
@given(request=anything, response=anything)
def test_any_json_is_read(path: str, request: Any, response: Any) -> None:
    harmless(api(path), json.dumps(request).encode(), 200, json.dumps(response).encode())


@settings(max_examples=examples(25))
@given(data=st.data())
def test_any_value_may_stand_in_any_place_of_an_exchange(exchange: Any, data: st.DataObject) -> None:
    request = json.loads(exchange.request)
    changed = put(request, data.draw(st.sampled_from(places(request))), data.draw(anything))
    events = decoded(exchange)
    at = data.draw(st.integers(0, len(events) - 1))
    events[at] = put(events[at], data.draw(st.sampled_from(places(events[at]))), data.draw(anything))

    call = harmless(exchange.api, json.dumps(changed).encode(), 200, encoded(exchange, events))

    if call.answer is not None:
        exchange.api.write(ModelAnswer(), request=exchange.request, like=[encoded(exchange, events)])


def decoded(exchange: Any) -> list[Any]:
    """The events of a response; a body is one."""
    text = exchange.response.decode("utf-8", "replace")
    if text[0] == "\0":
        return [{"type": "message_start", "message": {"content": [{"type": "text", "text": "x"}], "usage": {}}}]
    if text[0] == "[":
        return list(json.loads(text))
    if text[0] == "{" and exchange.name.endswith("body"):
        return [json.loads(text)]
    lines = text.splitlines() if text[0] == "{" else [line[6:] for line in text.splitlines() if "data: {" in line]
    return [json.loads(line) for line in lines]


def encoded(exchange: Any, events: list[Any]) -> bytes:
    said = [json.dumps(event) for event in events]
    if exchange.response[:1] == b"\0":
        return b"".join(encode_frames([Frame(one.encode()) for one in said]))
    if exchange.response[:1] == b"[":
        return f"[{','.join(said)}]".encode()
    if exchange.response[:1] == b"{":
        return "\n".join(said).encode()
    return "".join(f"data: {one}\n\n" for one in said).encode()


@paths
@pytest.mark.parametrize(
    "text", [b"[" * 5000, b"{" * 5000, b'{"a":' * 900 + b"1" + b"}" * 900, b"data: " + b"[" * 5000 + b"\n\n"]
)
def test_nesting_without_end_is_read(path: str, text: bytes) -> None:
    harmless(api(path), text, 200, text)
    harmless(api(path), text, 500, text)


def test_an_index_from_the_wire_sizes_nothing() -> None:
    huge = 10**15
    streams = {
        "/v1/chat/completions": {"choices": [{"index": huge, "delta": {"tool_calls": [{"index": huge, "id": "a"}]}}]},
        "/v1/responses": {
            "type": "response.output_text.delta",
            "output_index": huge,
            "content_index": huge,
            "delta": "x",
        },
        "/v1/messages": {"type": "content_block_delta", "index": huge, "delta": {"type": "text_delta", "text": "x"}},
        "/v1/models/m:streamGenerateContent?alt=sse": {
            "candidates": [
                {
                    "index": huge,
                    "content": {
                        "parts": [
                            {
                                "functionCall": {
                                    "partialArgs": [{"jsonPath": f"$.a[{huge // 10**7}]", "stringValue": "x"}]
                                }
                            }
                        ]
                    },
                }
            ]
        },
    }
    for path, event in streams.items():
        call = harmless(api(path), b"{}", 200, f"data: {json.dumps(event)}\n\n".encode())

        assert call.answer is not None
        assert len(json.dumps(call.answer.message)) < 500
