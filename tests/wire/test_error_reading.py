"""Errors are read in whatever form an API or a gateway writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.model.events import ErrorInfo
from replaykit.model.values import decode
from replaykit.wire.api import error_of
from replaykit.wire.routes import api_of


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ({"error": {"message": "slow", "type": "rate_limit_error", "code": "x"}}, "rate_limit_error", "slow"),
        ({"error": {"message": "slow", "type": None, "code": "quota"}}, "quota", "slow"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "slow"}}, "overloaded_error", "slow"),
        ({"error": {"code": 429, "message": "slow", "status": "EXHAUSTED"}}, "EXHAUSTED", "slow"),
        ([{"error": {"code": 429, "message": "slow", "status": "EXHAUSTED"}}], "EXHAUSTED", "slow"),
        ({"error": "slow"}, "http_429", "slow"),
        ({"message": "slow"}, "http_429", "slow"),
        ({"Message": "slow"}, "http_429", "slow"),
        ({"object": "error", "message": "slow", "type": "TooSlow"}, "TooSlow", "slow"),
        ({"detail": "slow"}, "http_429", "slow"),
        ({"detail": [{"loc": 1}]}, "http_429", '[{"loc":1}]'),
        ({"error": {"message": {"text": 5}}}, "http_429", '{"text":5}'),
        ({}, "http_429", ""),
        ([], "http_429", ""),
        (5, "http_429", ""),
    ],
)
def test_an_error_has_a_type_and_a_message(body: Any, kind: str, message: str) -> None:
    error = error_of(body, 429)

    assert (error.type, error.message) == (kind, message)
    assert decode(error.attributes_json)["status"] == 429


def test_what_else_identifies_it_is_kept() -> None:
    error = error_of({"error": {"message": "bad", "code": "invalid", "param": "model", "other": [1]}}, 400)

    assert decode(error.attributes_json) == {"status": 400, "code": "invalid", "param": "model"}
    assert error_of({"error": {"message": "bad"}}) == ErrorInfo(type="error", message="bad")


def test_a_page_of_some_proxy_is_an_error_too(exchange: Any) -> None:
    call = exchange.api.read(exchange.request, 502, [b"<html>", b"Bad Gateway\xff</html>", b"x" * 9000])

    assert call.error.type == "http_502"
    assert call.error.message.startswith("<html>Bad Gateway\ufffd</html>")
    assert len(call.error.message) == 2000
    assert (call.answer, call.complete, call.problem) == (None, True, None)


def test_an_error_may_come_as_a_stream() -> None:
    api = api_of("POST", "/v1/messages")
    assert api is not None

    event = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "slow"}}\n\n'
    call = api.read(b'{"messages": []}', 529, [event])

    assert (call.error.type, call.error.message) == ("overloaded_error", "slow")
    assert decode(call.error.attributes_json) == {"status": 529}


def test_an_error_keeps_the_request(exchange: Any) -> None:
    call = exchange.api.read(exchange.request, 500, [json.dumps({"error": {"message": "oops"}}).encode()])

    assert (call.messages, call.tools, call.model) == (
        exchange.read().messages,
        exchange.read().tools,
        exchange.read().model,
    )


def test_a_status_of_an_error_outweighs_an_answer_beside_it() -> None:
    api = api_of("POST", "/v1/chat/completions")
    assert api is not None

    call = api.read(b'{"messages": []}', 500, [b'{"choices": [{"message": {"content": "x"}}]}'])

    assert (call.answer, call.error.type) == (None, "http_500")
