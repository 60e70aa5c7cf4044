"""Which variables lead a program to the proxy, and what becomes of those that the user has set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import UsageError
from replaykit.model.events import Exchange, LlmCall, WireInfo
from replaykit.programs.proxy_addresses import UPSTREAM
from replaykit.programs.sdk_variables import (
    NO_KEY,
    Upstream,
    checked_address,
    find_upstreams,
    placeholder_keys,
    proxy_variables,
    recorded_upstreams,
    upstream_name,
    upstream_variable,
)

PROXY = "http://127.0.0.1:40123"


def found(environment: dict[str, str], **given: str) -> dict[str, str]:
    """The upstreams by their variables."""
    return {upstream.variable: upstream.base for upstream in find_upstreams(environment, given)}


def test_sdks_that_nobody_has_configured_are_led_to_their_own_apis() -> None:
    assert found({}) == {
        "OPENAI_BASE_URL": "https://api.openai.com/v1",
        "OPENAI_API_BASE": "https://api.openai.com/v1",
        "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
        "ANTHROPIC_API_BASE": "https://api.anthropic.com",
        "GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com",
        "OLLAMA_HOST": "http://127.0.0.1:11434",
        "OLLAMA_API_BASE": "http://127.0.0.1:11434",
    }


def test_each_variable_has_a_place_of_its_own_at_the_proxy() -> None:
    told = proxy_variables(find_upstreams({}), PROXY)

    assert told["OPENAI_BASE_URL"] == f"{PROXY}/openai"
    assert told["OPENAI_API_BASE"] == f"{PROXY}/openai_api"
    assert told["OLLAMA_HOST"] == f"{PROXY}/ollama"
    assert len(set(told.values())) == len(told)


def test_what_the_user_has_set_is_where_the_upstream_is() -> None:
    mine = found({"OPENAI_BASE_URL": "http://localhost:4000/v1/"})

    assert mine["OPENAI_BASE_URL"] == "http://localhost:4000/v1"


def test_of_variables_for_one_api_those_that_are_not_set_stay_unset_when_one_is() -> None:
    mine = found({"OPENAI_API_BASE": "http://localhost:4000"})

    assert mine["OPENAI_API_BASE"] == "http://localhost:4000"
    assert "OPENAI_BASE_URL" not in mine, "LiteLLM would take that one first"


@pytest.mark.parametrize(
    "variable",
    [
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_API_BASE",
        "GOOGLE_VERTEX_BASE_URL",
        "ANTHROPIC_FOUNDRY_BASE_URL",
        "ANTHROPIC_VERTEX_BASE_URL",
        "GEMINI_API_BASE",
        "GROQ_API_BASE",
        "SOME_NEW_API_BASE",
    ],
)
def test_an_api_that_has_no_address_of_its_own_is_led_here_only_when_the_user_names_one(variable: str) -> None:
    assert variable not in found({})
    assert found({variable: "https://mine.example.com/x/"})[variable] == "https://mine.example.com/x"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east5", "us-east5-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_claude_on_vertex_is_where_its_region_is(region: str, host: str) -> None:
    assert found({"CLOUD_ML_REGION": region})["ANTHROPIC_VERTEX_BASE_URL"] == f"https://{host}/v1"


def test_requests_that_are_signed_for_their_host_are_left_alone() -> None:
    mine = {"ANTHROPIC_BEDROCK_BASE_URL": "https://bedrock-runtime.us-east-1.amazonaws.com"}

    assert "ANTHROPIC_BEDROCK_BASE_URL" not in found(mine)
    assert "ANTHROPIC_BEDROCK_BASE_URL" in found({**mine, "AWS_BEARER_TOKEN_BEDROCK": "t"})


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("localhost", "http://localhost:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":5000", "http://127.0.0.1:5000"),
        ("https://gpu.example.com", "https://gpu.example.com:443"),
        ("http://gpu.example.com:9999/prefix/", "http://gpu.example.com:9999/prefix"),
    ],
)
def test_ollamas_short_addresses_are_understood(host: str, base: str) -> None:
    assert found({"OLLAMA_HOST": host})["OLLAMA_HOST"] == base


def test_what_is_no_address_is_left_as_it_is() -> None:
    assert "OPENAI_BASE_URL" not in found({"OPENAI_BASE_URL": "not an address"})
    assert "AZURE_API_BASE" not in found({"AZURE_API_BASE": "http://[broken"})


def test_others_are_named_by_a_variable_or_by_an_option() -> None:
    mine = {"REPLAYKIT_UPSTREAM_STRIPE": "https://api.stripe.com/"}

    assert found(mine)["STRIPE_BASE_URL"] == "https://api.stripe.com"
    assert found(mine, stripe="http://127.0.0.1:1")["STRIPE_BASE_URL"] == "http://127.0.0.1:1", "the option wins"
    assert found({}, openai="http://127.0.0.1:2")["OPENAI_BASE_URL"] == "http://127.0.0.1:2"
    assert found({}, **{"my-crm": "http://127.0.0.1:3"})["MY_CRM_BASE_URL"] == "http://127.0.0.1:3"


@pytest.mark.parametrize("name", ["", "Stripe", "a/b", "a b", "1st", "ä"])
def test_a_name_that_is_no_word_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError, match="a name is"):
        checked_address(name, "https://api.example.com")


@pytest.mark.parametrize("address", ["", "api.example.com", "ftp://x", "https://", "http://a:b:c"])
def test_an_address_that_is_none_is_wrong_usage(address: str) -> None:
    with pytest.raises(UsageError, match="expected an address"):
        checked_address("stripe", address)


def test_a_replay_leads_to_whatever_the_recording_used() -> None:
    used = {
        upstream.name: upstream
        for upstream in find_upstreams({}, used=["azure_openai", "groq_api", "stripe", "openai"])
    }

    assert used["azure_openai"] == Upstream("azure_openai", "AZURE_OPENAI_ENDPOINT", "")
    assert used["groq_api"].variable == "GROQ_API_BASE"
    assert used["stripe"].variable == "STRIPE_BASE_URL"
    assert used["openai"].base == "https://api.openai.com/v1", "what is known is not forgotten"


@given(st.sampled_from([*found({}), "AZURE_OPENAI_ENDPOINT", "GROQ_API_BASE", "X_BASE_URL"]))
def test_the_variable_of_a_variables_upstream_is_that_variable(variable: str) -> None:
    assert upstream_variable(upstream_name(variable)) == variable


def wired(url: str, *headers: tuple[str, str]) -> LlmCall:
    return LlmCall(seq=0, name="m", wire=WireInfo(method="POST", url=url, status=200, headers=headers))


def test_which_upstreams_a_recording_used_stands_in_its_responses() -> None:
    calls = [
        wired("https://x/v1/chat/completions", (UPSTREAM, "openai")),
        wired("https://x/v1/messages", ("server", "x"), (UPSTREAM, "anthropic")),
        wired("https://x/v1/messages", (UPSTREAM, "anthropic")),
        wired("https://x/v1/messages", (UPSTREAM, "../evil")),
        Exchange(seq=1, name="rk.now"),
    ]

    assert recorded_upstreams(calls) == ["anthropic", "openai"]


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (wired("https://api.openai.com/v1/chat/completions"), "OPENAI_API_KEY"),
        (wired("https://api.anthropic.com/v1/messages"), "ANTHROPIC_API_KEY"),
        (wired("https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"), "GEMINI_API_KEY"),
        (wired("https://api.groq.com/openai/v1/chat/completions"), "GROQ_API_KEY"),
        (wired("http://127.0.0.1:4000/v1/chat/completions"), "OPENAI_API_KEY"),
        (wired("http://127.0.0.1:4000/x", (UPSTREAM, "azure_openai")), "AZURE_OPENAI_API_KEY"),
        (wired("http://127.0.0.1:4000/x", (UPSTREAM, "groq_api")), "GROQ_API_KEY"),
    ],
)
def test_an_sdk_that_demands_a_key_is_given_one(call: LlmCall, key: str) -> None:
    assert placeholder_keys([call], {}) == {key: NO_KEY}


def test_keys_that_are_there_are_kept_and_no_others_are_made_up() -> None:
    anthropic = wired("https://api.anthropic.com/v1/messages")

    assert placeholder_keys([anthropic], {"ANTHROPIC_API_KEY": "mine"}) == {}
    assert placeholder_keys([anthropic], {"ANTHROPIC_AUTH_TOKEN": "mine"}) == {}, "one of them is enough"
    assert placeholder_keys([], {}) == {}
    assert placeholder_keys([wired("http://127.0.0.1:11434/api/chat", (UPSTREAM, "ollama"))], {}) == {}
