"""Keys for a replay: SDKs that refuse to start without one are given one that opens nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from replaykit.model.events import Call, LlmCall
from replaykit.programs.proxy_addresses import UPSTREAM
from replaykit.programs.sdk_variables import NAME

NO_KEY = "replaykit-needs-no-key"

_KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "google_gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "azure_openai": ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    "anthropic_foundry": ("ANTHROPIC_FOUNDRY_API_KEY",),
    "anthropic_aws": ("ANTHROPIC_AWS_API_KEY",),
    "anthropic_bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "anthropic_bedrock_mantle": ("AWS_BEARER_TOKEN_BEDROCK",),
    "aws_bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "anthropic_vertex": (),
    "anthropic_google_cloud": (),
    "google_vertex": (),
    "ollama": (),
}
"""For each upstream, the variables of which its SDK requires one, preferred one first. Others use NAME_API_KEY."""
_HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google_gemini",
    "api.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "api.x.ai": "xai",
    "api.deepseek.com": "deepseek",
    "openrouter.ai": "openrouter",
    "api.cohere.com": "cohere",
    "api.perplexity.ai": "perplexity",
    "api.fireworks.ai": "fireworks",
    "api.together.xyz": "together",
}
_MODELS = {
    **dict.fromkeys(("gpt", "o1", "o3", "o4", "chatgpt"), "openai"),
    "claude": "anthropic",
    "gemini": "google_gemini",
}
"""Providers by the beginning of their models' names."""
_DIALECTS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google_gemini"}


def recorded_upstreams(calls: Iterable[Call]) -> list[str]:
    """The upstreams that recorded calls went to through a proxy."""
    wires = (call.wire for call in calls if call.wire is not None)
    names = {value for wire in wires for key, value in wire.headers if key == UPSTREAM}
    return sorted(name for name in names if NAME.fullmatch(name))


def placeholder_keys(calls: Iterable[Call], environment: Mapping[str, str]) -> dict[str, str]:
    """Made-up keys for the SDKs of recorded calls that demand one and have none.

    For no others: a program may choose its provider by the key that is there.
    """
    known = list(calls)
    recorded = [call for call in known if call.wire is not None]
    traced = [call for call in known if call.wire is None and isinstance(call, LlmCall)]
    names = {*recorded_upstreams(recorded), *map(_provider, recorded), *map(_maker, traced)} - {""}
    key_names = [_KEYS.get(name, (f"{name.removesuffix('_api').upper().replace('-', '_')}_API_KEY",)) for name in names]
    return {keys[0]: NO_KEY for keys in key_names if keys and not any(environment.get(key) for key in keys)}


def _maker(call: Call) -> str:
    """Return the provider of the model that was called, judged by its name: a trace holds no more."""
    name = call.name.rpartition("/")[2].lower()
    return next((provider for prefix, provider in _MODELS.items() if name.startswith(prefix)), "")


def _provider(call: Call) -> str:
    """Return the provider whose API a recorded call uses: by its host or, failing that, by its path."""
    if call.wire is None:
        return ""
    from replaykit.wire.routes import api_of  # noqa: PLC0415 (most tapes hold nothing that went over the wire)

    known = _HOSTS.get(urlsplit(call.wire.url).hostname or "")
    api = None if known else api_of(call.wire.method, call.wire.url)
    return known or ("" if api is None else _DIALECTS.get(api.name.partition(".")[0], ""))
