"""The environment variables that lead a program's SDKs to the proxy, and keys for those that refuse to start without.

A variable that the user has set already names the upstream. For one that is not set, the upstream is the SDK's own
default, if it has one. Names and defaults come from the SDKs' sources. A key for a replay gives access to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from urllib.parse import urlsplit

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.events import Call, LlmCall
from replaykit.programs.proxy_addresses import UPSTREAM

UPSTREAM_PREFIX = "REPLAYKIT_UPSTREAM_"
"""`REPLAYKIT_UPSTREAM_STRIPE=https://api.stripe.com` adds an upstream `stripe`, and sets STRIPE_BASE_URL."""

NAME = re.compile(r"[a-z][a-z0-9_-]*")
_ENDINGS = ("_base_url", "_endpoint", "_host", "_base")
_OLLAMA_PORT = 11434


class Upstream(Struct, frozen=True):
    """An API behind the proxy."""

    name: str
    variable: str
    """The variable that points the program to it."""
    base: str
    """Its address; empty if a replay does not know it."""


_VERTEX = ("ANTHROPIC_VERTEX_BASE_URL",)
# The variables that set the address of one API in its SDKs, and its default address; empty if it has none.
_SDKS: dict[tuple[str, ...], str] = {
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"): "https://api.openai.com/v1",
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"): "https://api.anthropic.com",
    ("GOOGLE_GEMINI_BASE_URL",): "https://generativelanguage.googleapis.com",
    ("OLLAMA_HOST", "OLLAMA_API_BASE"): f"http://127.0.0.1:{_OLLAMA_PORT}",
    _VERTEX: "",  # depends on the region
    ("GOOGLE_VERTEX_BASE_URL",): "",
    ("AZURE_OPENAI_ENDPOINT",): "",
    ("ANTHROPIC_FOUNDRY_BASE_URL",): "",
    ("ANTHROPIC_GOOGLE_CLOUD_BASE_URL",): "",
    ("ANTHROPIC_AWS_BASE_URL",): "",
    ("ANTHROPIC_BEDROCK_BASE_URL",): "",
    ("ANTHROPIC_BEDROCK_MANTLE_BASE_URL",): "",
    ("AWS_BEDROCK_BASE_URL",): "",
    ("GROQ_BASE_URL",): "",
    ("LITELLM_PROXY_API_BASE",): "",
}
_KNOWN = frozenset(chain.from_iterable(_SDKS))
# AWS signatures cover the host name, so these requests would be refused if they came through the proxy.
_SIGNED = frozenset(
    {
        "ANTHROPIC_AWS_BASE_URL",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        "AWS_BEDROCK_BASE_URL",
    }
)
_TOKENS = ("AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY")


def _vertex_address(environment: Mapping[str, str]) -> str:
    region = environment.get("CLOUD_ML_REGION", "")
    places = {"": "", "global": "aiplatform", "us": "aiplatform.us.rep", "eu": "aiplatform.eu.rep"}
    place = places.get(region, f"{region}-aiplatform")
    return f"https://{place}.googleapis.com/v1" if place else ""


def find_upstreams(
    environment: Mapping[str, str], extra_upstreams: Mapping[str, str] | None = None, used: Collection[str] = ()
) -> list[Upstream]:
    """Return the APIs that a program with this environment may call through the proxy.

    `extra_upstreams` are further ones, by name; `used` are the names of those that a recording used.
    """
    named = {}
    for variable, base in environment.items():
        if variable.startswith(UPSTREAM_PREFIX):
            named[variable.removeprefix(UPSTREAM_PREFIX).lower()] = base
    named |= extra_upstreams or {}
    upstreams = {upstream.name: upstream for upstream in _sdk_upstreams(environment)}
    for name, base in named.items():
        upstreams[name] = Upstream(name, upstream_variable(name), checked_address(name, base))
    for name in used:
        upstreams.setdefault(name, Upstream(name, upstream_variable(name), ""))
    return list(upstreams.values())


def checked_address(name: str, base: str) -> str:
    """Return the address of an upstream that the user names; raise `UsageError` if address or name is invalid."""
    if not NAME.fullmatch(name):
        raise UsageError(f"upstream {name!r}: a name is small letters, digits, `-` and `_`")
    if not _is_address(base):
        raise UsageError(f"upstream {name}={base}: expected an address such as https://api.example.com/v1")
    return base.rstrip("/")


def upstream_name(variable: str) -> str:
    """Return the upstream of a variable: `openai` for OPENAI_BASE_URL, `openai_api` for OPENAI_API_BASE."""
    name = variable.lower()
    for ending in _ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def upstream_variable(name: str) -> str:
    """Return the variable of an upstream."""
    for variable in sorted(_KNOWN):
        if upstream_name(variable) == name:
            return variable
    ending = "_BASE" if name.endswith("_api") else "_BASE_URL"
    return name.upper().replace("-", "_") + ending


def proxy_variables(upstreams: Iterable[Upstream], proxy: str) -> dict[str, str]:
    """Return the variables with their values."""
    return {upstream.variable: f"{proxy}/{upstream.name}" for upstream in upstreams}


def _sdk_upstreams(environment: Mapping[str, str]) -> Iterable[Upstream]:
    signed = not any(environment.get(token) for token in _TOKENS)
    for variables, default in {**_SDKS, _VERTEX: _vertex_address(environment)}.items():
        # If one of several is set, the others stay unset: SDKs differ in which of them takes precedence.
        for variable in list(filter(environment.get, variables)) or variables:
            base = _base(variable, environment.get(variable) or default)
            if base and not (signed and variable in _SIGNED):
                yield Upstream(upstream_name(variable), variable, base)
    for variable, value in environment.items():
        if variable.endswith("_API_BASE") and variable not in _KNOWN and _is_address(value):
            yield Upstream(upstream_name(variable), variable, value.rstrip("/"))


def _base(variable: str, value: str) -> str:
    if variable == "OLLAMA_HOST":
        value = _ollama(value)
    if _is_address(value):
        return value.rstrip("/")
    return ""


def _ollama(value: str) -> str:
    """Expand Ollama's short form of an address, which its server also uses to listen."""
    scheme, _, place = value.rpartition("://")
    host, slash, path = place.partition("/")
    if not re.search(r":\d+$", host):
        host += {"http": ":80", "https": ":443"}.get(scheme, f":{_OLLAMA_PORT}")
    host = re.sub(r"^(?:0\.0\.0\.0)?:", "127.0.0.1:", host)
    return f"{scheme or 'http'}://{host}{slash}{path}"


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


NO_KEY = "replaykit-needs-no-key"

# For each upstream, the variables of which its SDK requires one, preferred one first. Others use NAME_API_KEY.
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
# Providers by prefixes of their models' names.
_MODELS = {
    **dict.fromkeys(("gpt", "o1", "o3", "o4", "chatgpt"), "openai"),
    "claude": "anthropic",
    "gemini": "google_gemini",
}
_DIALECTS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google_gemini"}


def recorded_upstreams(calls: Iterable[Call]) -> list[str]:
    """Return the upstreams that recorded calls reached through a proxy."""
    names: set[str] = set()
    for call in calls:
        for header, value in call.wire.headers if call.wire is not None else ():
            if header == UPSTREAM and NAME.fullmatch(value):
                names.add(value)
    return sorted(names)


def placeholder_keys(calls: Iterable[Call], environment: Mapping[str, str]) -> dict[str, str]:
    """Return placeholder keys for the SDKs of recorded calls that require one and have none.

    For no others: a program may choose its provider by the key that is there.
    """
    known = list(calls)
    names = {*recorded_upstreams(known), *map(_provider, known)} - {""}
    placeholders = {}
    for name in names:
        usual = f"{name.removesuffix('_api').upper().replace('-', '_')}_API_KEY"
        keys = _KEYS.get(name, (usual,))
        if keys and not any(map(environment.get, keys)):
            placeholders[keys[0]] = NO_KEY
    return placeholders


def _provider(call: Call) -> str:
    """Return the provider of a call, by its host or its path; by the model's name for a call from a trace. Empty if it
    is unknown."""
    if call.wire is None:
        name = call.name.rpartition("/")[2].lower() if isinstance(call, LlmCall) else ""
        return next((provider for prefix, provider in _MODELS.items() if name.startswith(prefix)), "")
    if known := _HOSTS.get(urlsplit(call.wire.url).hostname or ""):
        return known
    from replaykit.wire.routes import api_of  # noqa: PLC0415 (most tapes hold nothing that went over the wire)

    api = api_of(call.wire.method, call.wire.url)
    return "" if api is None else _DIALECTS.get(api.name.partition(".")[0], "")
