"""No credential is written down: neither of a request, nor of a response, wherever it stands."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from tests.store.damaged import store_files

from replaykit.model.run import encode_run
from replaykit.seam.http.cleaning import (
    HIDDEN,
    clean_chunks,
    clean_headers,
    clean_json,
    clean_query,
    clean_url,
)

KEY = "sk-live-3141592653"


def test_no_secret_reaches_the_store(server, tapes, tmp_path):
    handed_out = {"access_token": KEY, "token_type": "bearer", "expires_in": 3600}
    url = server.says(
        "/token",
        chunks=[json.dumps(handed_out).encode()],
        headers=[("Content-Type", "application/json"), ("Set-Cookie", f"sid={KEY}; Path=/"), ("X-Api-Key", KEY)],
        framing="length",
    )
    place = url.removeprefix("http://")
    secrets = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "cookie": f"sid={KEY}"}
    asked = {"model": "m", "messages": [], "api_key": KEY, "tools": [{"type": "mcp", "authorization": KEY}]}
    chat = server.says("/v1/chat/completions", framing="length")

    async def with_aiohttp():
        async with aiohttp.ClientSession(headers=secrets) as session:
            async with session.post(f"{url}?key={KEY}", data={"client_secret": KEY}) as response:
                await response.read()

    def ask():
        httpx.get(f"http://user:{KEY}@{place}", params={"key": KEY, "q": "kept"}, headers=secrets)
        requests.post(url, data={"client_secret": KEY, "user": "kept"}, headers=secrets)
        requests.post(url, json={"login": {"password": KEY}, "user": "kept"}, auth=("user", KEY))
        httpx.post(chat, json=asked)
        asyncio.run(with_aiohttp())

    def look():
        ask()
        return b"".join(file.read_bytes() for file in store_files(tmp_path / "tapes.db"))  # before it is packed

    written = tapes.record(look)

    assert len(server.requests) == 5
    assert written.count(b"kept") >= 3
    assert KEY.encode() not in written
    assert KEY.encode() not in encode_run(tapes.run)


def test_another_key_finds_the_same_answer(server, tapes):
    url = server.says("/search", chunks=[b"found"], framing="length")

    def ask(key):
        return httpx.post(url, params={"key": key}, json={"api_key": key}, headers={"x-api-key": key}).text

    tapes.record(lambda: ask("recorded"))

    assert tapes.replay(lambda: ask("another")) == "found"


def test_a_cookie_keeps_its_name_and_is_sent_again(server, tapes):
    login = server.says("/login", headers=[("Set-Cookie", f"sid={KEY}; Path=/; HttpOnly")], framing="length")
    home = server.says("/home", framing="length")

    def visit():
        with httpx.Client() as client:
            client.get(login)
            return client.get(home).request.headers["cookie"]

    live, replayed = tapes.both(visit)

    assert live == f"sid={KEY}"
    assert replayed == f"sid={HIDDEN}"


@pytest.mark.parametrize(
    "name",
    ["Authorization", "X-API-Key", "api-key", "x-amz-security-token", "X-Csrf-Token", "x-goog-api-key", "Cookie"],
)
def test_secret_headers_are_hidden(name):
    assert clean_headers([(name, KEY)]) == ((name, HIDDEN),)


@pytest.mark.parametrize(
    "name",
    ["Content-Type", "x-request-id", "x-ratelimit-remaining-tokens", "x-amz-crc32", "X-Goog-Hash", "ETag", "Date"],
)
def test_headers_that_clients_look_at_stay_as_they_came(name):
    assert clean_headers([(name, "value")]) == ((name, "value"),)


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "X-Amz-Signature", "sig", "client_secret", "token"])
def test_secret_parameters_are_hidden(name):
    assert clean_query(f"{name}={KEY}&q=1") == [(name, HIDDEN), ("q", "1")]


@pytest.mark.parametrize("name", ["pageToken", "next_token", "continuation-token", "q", "tokens", "code"])
def test_parameters_that_tell_requests_apart_stay(name):
    assert clean_query(f"{name}=value") == [(name, "value")]


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://user:pw@Example.COM:443/a?b=1#frag", "https://example.com/a?b=1"),
        ("http://h:8080/p%20q?key=x&a=%C3%BC", "http://h:8080/p%20q?key=hidden&a=%C3%BC"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://h", "http://h"),
        ("not a url at all", "not a url at all"),
    ],
)
def test_urls_are_kept_without_what_is_secret(url, clean):
    assert clean_url(url) == clean


def test_members_of_a_body_are_hidden_by_their_names():
    body = {"password": KEY, "list": [{"apiKey": KEY}], "max_tokens": 5, "token": "a word", "secret_key": None}

    assert clean_json(body, json.dumps(body).encode()) == {
        "password": HIDDEN,
        "list": [{"apiKey": HIDDEN}],
        "max_tokens": 5,
        "token": "a word",
        "secret_key": None,
    }


def test_a_body_that_is_nested_very_deeply_is_no_problem(server, tapes):
    url = server.says("/deep", framing="length")
    deep = b'{"password": ' * 900 + b"1" + b"}" * 900

    def ask():
        return httpx.post(url, content=deep, headers={"content-type": "application/json"}).status_code

    live, replayed = tapes.both(ask)

    assert live == replayed == 200


@pytest.mark.parametrize(
    "text",
    [
        f'{{"access_token": "{KEY}", "expires_in": 1}}',
        f'{{"SecretAccessKey" : "{KEY}"}}',
        f"<Credentials><SessionToken>{KEY}</SessionToken></Credentials>",
    ],
)
@given(st.integers(1, 9))
def test_keys_that_an_answer_hands_out_are_made_illegible_wherever_it_is_cut(text, size):
    chunks = [text.encode()[start : start + size] for start in range(0, len(text), size)]

    cleaned = clean_chunks(chunks)

    assert KEY.encode() not in b"".join(cleaned)
    assert [len(chunk) for chunk in cleaned] == [len(chunk) for chunk in chunks]
    assert b"".join(cleaned) == text.replace(KEY, "x" * len(KEY)).encode()


@given(st.lists(st.binary(max_size=20)))
def test_any_other_answer_is_left_as_it_is(chunks):
    assert clean_chunks(chunks) == chunks
