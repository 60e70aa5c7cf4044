"""Routes: which API an exchange speaks, by the shape of its path and never by its host."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

from replaykit.wire import anthropic, gemini, ollama, openai_chat, openai_legacy, openai_responses
from replaykit.wire.api import Framing, ModelApi

_SSE = re.compile(r"(?:^|&)(?:\$|%24)?alt=sse(?:&|$)")
_ORIGIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@lru_cache(maxsize=256)  # an agent asks at few places
def api_of(method: str, target: str, content_type: str = "") -> ModelApi | None:
    """The API of a request, from its method, its path or URL, and its content type; None when it is no model call.

    A path says only what an exchange looks like: where the bodies are of another kind, `ModelApi.read` says so.
    """
    if method.upper() != "POST" or not _may_be_json(content_type):
        return None
    path, _, query = _ORIGIN.sub("", target).partition("#")[0].partition("?")
    path = path.rstrip("/")
    for pattern, make in _ROUTES:
        found = pattern.search(path)
        if found is not None:
            return make(found, query)
    return None


def _may_be_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or "json" in kind or kind == "text/plain"


def _openai(found: re.Match[str], _query: str) -> ModelApi:
    dialect = {
        "chat/completions": openai_chat.DIALECT,
        "responses": openai_responses.DIALECT,
        "completions": openai_legacy.COMPLETIONS,
        "embeddings": openai_legacy.EMBEDDINGS,
    }[found["kind"]]
    return ModelApi(dialect=dialect, model=unquote(found["model"] or ""))


def _anthropic(_found: re.Match[str], _query: str) -> ModelApi:
    return ModelApi(dialect=anthropic.DIALECT)


def _bedrock(found: re.Match[str], _query: str) -> ModelApi:
    return ModelApi(
        dialect=anthropic.DIALECT,
        framing=Framing.AWS,
        model=unquote(found["model"]),
        streamed=found["stream"] is not None,
    )


def _vertex(found: re.Match[str], _query: str) -> ModelApi | None:
    if found["model"] == "count-tokens":
        return None
    return ModelApi(dialect=anthropic.DIALECT, model=unquote(found["model"]), streamed=found["stream"] is not None)


def _gemini(found: re.Match[str], query: str) -> ModelApi:
    return ModelApi(
        dialect=gemini.DIALECT,
        framing=Framing.SSE if _SSE.search(query) else Framing.ARRAY,
        model=unquote(found["model"]),
        streamed=found["stream"] is not None,
    )


def _ollama(found: re.Match[str], _query: str) -> ModelApi:
    if found["kind"] == "chat":
        dialect = ollama.CHAT
    else:
        dialect = ollama.GENERATE
    return ModelApi(dialect=dialect, framing=Framing.LINES)


_ROUTES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], ModelApi | None]], ...] = (
    (
        re.compile(r"(?:/deployments/(?P<model>[^/]+))?/(?P<kind>chat/completions|responses|completions|embeddings)$"),
        _openai,
    ),
    (re.compile(r"/v1/messages$"), _anthropic),
    (re.compile(r"/model/(?P<model>[^/]+)/invoke(?P<stream>-with-response-stream)?$"), _bedrock),
    (
        re.compile(r"/publishers/anthropic/models/(?P<model>[^/]+):(?:rawPredict|(?P<stream>streamRawPredict))$"),
        _vertex,
    ),
    (
        re.compile(
            r"/(?:models|tunedModels|endpoints)/(?P<model>[^/]+):(?:generateContent|(?P<stream>streamGenerateContent))$"
        ),
        _gemini,
    ),
    (re.compile(r"/api/(?P<kind>chat|generate)$"), _ollama),
)
