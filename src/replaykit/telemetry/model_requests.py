"""Who a model call went to, and what was asked of it, in the words of the GenAI conventions."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

UNKNOWN = "unknown"
"""The provider where nothing tells it; the conventions want one named."""
_HOSTS = {
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "models.ai.azure.com": "azure.ai.inference",
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "moonshot.ai": "moonshot_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}
_APIS = {
    "openai.chat": ("openai", "chat"),
    "openai.responses": ("openai", "chat"),
    "openai.completions": ("openai", "text_completion"),
    "openai.embeddings": ("openai", "embeddings"),
    "anthropic.messages": ("anthropic", "chat"),
    "gemini.generate": ("gcp.gen_ai", "generate_content"),
    "ollama.chat": ("ollama", "chat"),
    "ollama.generate": ("ollama", "text_completion"),
}
_FAMILIES = {
    "gpt": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "deepseek": "deepseek",
    "grok": "x_ai",
    "command": "cohere",
    "kimi": "moonshot_ai",
}


class RequestAttributes(NamedTuple):
    """The provider, operation and address of a model request."""

    provider: str
    operation: str
    host: str = ""
    port: int = 0


@lru_cache(256)
def model_request(method: str, url: str) -> RequestAttributes:
    """Of a call that went over the wire: by its host, else by the API it speaks."""
    from replaykit.wire.routes import api_of  # noqa: PLC0415 (all APIs; a run may have no model in it)

    api = api_of(method, url)
    provider, operation = (UNKNOWN, "chat") if api is None else _APIS.get(api.name, (UNKNOWN, "chat"))
    host, port = address(url)
    return RequestAttributes(_of_host(host) or provider, operation, host, port)


@lru_cache(256)
def named(model: str) -> RequestAttributes:
    """Of a call of which only the model is known: by its family, where that is one provider's alone."""
    family = model.rpartition("/")[2].partition("-")[0].partition(":")[0].lower()
    return RequestAttributes(_FAMILIES.get(family, UNKNOWN), "chat")


@lru_cache(256)
def address(url: str) -> tuple[str, int]:
    """The host of a URL and its port; nothing where it has none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", 0


def _of_host(host: str) -> str:
    if host.endswith(".amazonaws.com") and "bedrock" in host:
        return "aws.bedrock"
    labels = host.split(".")
    return next((found for n in range(len(labels)) if (found := _HOSTS.get(".".join(labels[n:])))), "")
