"""Routes: find the API of an exchange by its path, never by its host."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from replaykit.wire import anthropic, gemini, ollama, openai_chat, openai_legacy, openai_responses
from replaykit.wire.api import Framing, ModelApi
from replaykit.wire.dialect import ApiDialect

_SSE = re.compile(r"(?:^|&)(?:\$|%24)?alt=sse(?:&|$)")
_ORIGIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@lru_cache(maxsize=256)  # agents use few addresses
def api_of(method: str, target: str, content_type: str = "") -> ModelApi | None:
    """Return the API of a request from its method, path or URL, and content type; None if it is not a model call.

    A path only suggests the API: if the bodies are of another kind, `ModelApi.read` reports it.
    """
    if method.upper() != "POST" or not _may_be_json(content_type):
        return None
    path, _, query = _ORIGIN.sub("", target).partition("#")[0].partition("?")
    path = path.rstrip("/")
    for pattern, dialects, framing in _ROUTES:
        found = pattern.search(path)
        if found is not None:
            return _api(found.groupdict(), query, dialects, framing)
    return None


def _may_be_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or "json" in kind or kind == "text/plain"


def _api(
    parts: dict[str, str | None], query: str, dialects: dict[str | None, ApiDialect], framing: Framing
) -> ModelApi:
    """Return the API that the parts of a path name."""
    dialect = dialects[parts.get("kind")]
    if dialect is gemini.DIALECT and _SSE.search(query):
        framing = Framing.SSE
    streamed = None
    if "stream" in parts:
        streamed = parts["stream"] is not None
    return ModelApi(dialect=dialect, framing=framing, model=unquote(parts.get("model") or ""), streamed=streamed)


# The paths of each API, the dialects by the last word of the path, and the framing of streams.
_ROUTES: tuple[tuple[re.Pattern[str], dict[str | None, ApiDialect], Framing], ...] = (
    (
        re.compile(r"(?:/deployments/(?P<model>[^/]+))?/(?P<kind>chat/completions|responses|completions|embeddings)$"),
        {
            "chat/completions": openai_chat.DIALECT,
            "responses": openai_responses.DIALECT,
            "completions": openai_legacy.COMPLETIONS,
            "embeddings": openai_legacy.EMBEDDINGS,
        },
        Framing.SSE,
    ),
    (re.compile(r"/v1/messages$"), {None: anthropic.DIALECT}, Framing.SSE),
    (
        re.compile(r"/model/(?P<model>[^/]+)/invoke(?P<stream>-with-response-stream)?$"),
        {None: anthropic.DIALECT},
        Framing.AWS,
    ),
    (
        # Vertex has token counting as a model of Anthropic's.
        re.compile(
            r"/publishers/anthropic/models/(?!count-tokens:\w+$)(?P<model>[^/]+)"
            r":(?:rawPredict|(?P<stream>streamRawPredict))$"
        ),
        {None: anthropic.DIALECT},
        Framing.SSE,
    ),
    (
        re.compile(
            r"/(?:models|tunedModels|endpoints)/(?P<model>[^/]+):(?:generateContent|(?P<stream>streamGenerateContent))$"
        ),
        {None: gemini.DIALECT},
        Framing.ARRAY,
    ),
    (re.compile(r"/api/(?P<kind>chat|generate)$"), {"chat": ollama.CHAT, "generate": ollama.GENERATE}, Framing.LINES),
)
