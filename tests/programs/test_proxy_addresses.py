"""Addresses of the proxy in what is written: none is left there, and every one can be told again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.programs.proxy_addresses import (
    UpstreamRouter,
    end_to_end_headers,
    proxied_location,
    split_target,
    upstream_address,
)
from replaykit.seam.foreign_threads import Nobody
from replaykit.seam.scope import RunSession, pending_call

BASES = {"openai": "https://api.openai.com/v1", "crm": "http://10.0.0.5:8080", "anthropic": "https://api.anthropic.com"}
PROXY = "http://127.0.0.1:40123"
paths = st.text("abc/%2F-.:", max_size=12).map(lambda text: f"/{text}" if text else "")
queries = st.sampled_from(["", "?a=1", "?a=/x/y&b"])


@given(st.sampled_from(["openai", "crm"]), paths, queries)
def test_a_path_at_the_proxy_is_a_path_at_its_upstream(name: str, path: str, query: str) -> None:
    assert split_target(f"/{name}{path}{query}", BASES) == (name, path + query)
    assert upstream_address(f"{PROXY}/{name}{path}{query}", PROXY, BASES) == f"{BASES[name]}{path}{query}"


@given(st.sampled_from(["https://api.openai.com/v1", "http://127.0.0.1:40124/openai/x", "http://127.0.0.1:401/x"]))
def test_other_addresses_stay_as_they_are(url: str) -> None:
    assert upstream_address(url, PROXY, BASES) == url
    assert upstream_address(url, "", {}) == url


def test_the_version_of_one_api_is_added_where_it_is_missing() -> None:
    assert split_target("/anthropic/messages", BASES) == ("anthropic", "/v1/messages")
    assert split_target("/anthropic/v1/messages", BASES) == ("anthropic", "/v1/messages")
    assert split_target("/anthropic/messages", {"anthropic": "http://gateway/x"}) == ("anthropic", "/messages")


@pytest.mark.parametrize(
    ("location", "way"),
    [
        ("/v1/files/7", "/gateway/files/7"),
        ("https://gw.example/v1/files?a=1#b", "/gateway/files?a=1#b"),
        ("files/7", "/gateway/chat/files/7"),
        ("?again=1", "/gateway/chat/completions?again=1"),
        ("/v1", "/gateway"),
        ("https://gw.example/v1/", "/gateway/"),
        ("/login", "https://gw.example/login"),
        ("/v10/x", "https://gw.example/v10/x"),
        ("//cdn.example/v1/x", "https://cdn.example/v1/x"),
        ("http://gw.example/v1/x", "http://gw.example/v1/x"),
        ("http://[not", "http://[not"),
    ],
)
@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("account", ["", "user:word@"])
def test_a_redirect_below_an_upstream_stays_at_the_proxy_and_any_other_is_whole(
    location: str, way: str, account: str, end: str
) -> None:
    base = f"https://{account}gw.example/v1"

    assert proxied_location(location, f"{base}/chat/completions", "gateway", base + end) == way


@given(st.lists(st.tuples(st.sampled_from(["Connection", "X-A", "x-b", "TE", "Host", "Content-Type"]), st.just("x-a"))))
def test_headers_of_one_connection_never_stay(headers: list[tuple[str, str]]) -> None:
    kept = end_to_end_headers(headers)

    names = {name.lower() for name, _ in kept}
    assert not names & {"connection", "te", "host"}
    assert ("x-a" in names) == (("X-A", "x-a") in headers and ("Connection", "x-a") not in headers)
    assert [pair for pair in headers if pair in kept] == kept


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ([], "GET openai/models"),
        (["GET openai/models"], "GET openai/models"),
        (["GET api.openai.com/v1/models"], "GET api.openai.com/v1/models"),
        (["GET openai/models", "GET api.openai.com/v1/models"], "GET openai/models"),
        (["GET other.example/v1/models"], "GET openai/models"),
    ],
)
def test_a_tape_that_was_recorded_without_a_proxy_is_found_by_the_address_behind_it(
    recorded: list[str], name: str
) -> None:
    handler = UpstreamRouter(Nobody(), PROXY, BASES, recorded)
    scope = RunSession(handler).root

    for spelled in ("GET 127.0.0.1:40123/openai/models", "GET elsewhere.example/x"):
        call = pending_call("exchange", spelled, b"{}", scope, 0.0)
        handler.serve(call)
        assert call.name == (name if "openai" in spelled else spelled)


def test_tools_whose_names_look_like_addresses_keep_them() -> None:
    handler = UpstreamRouter(Nobody(), PROXY, BASES)
    call = pending_call("tool_call", "GET 127.0.0.1:40123/openai/models", b"{}", RunSession(handler).root, 0.0)

    handler.serve(call)

    assert call.name == "GET 127.0.0.1:40123/openai/models"
