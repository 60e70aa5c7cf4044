"""An API is known by the shape of the path, whatever the host."""

from __future__ import annotations

import pytest

from replaykit.wire.api import Framing
from replaykit.wire.routes import api_of

BEDROCK = "anthropic.claude-opus-4-5-v1:0"
VERTEX = "/v1/projects/p/locations/l/publishers"


@pytest.mark.parametrize(
    ("target", "name", "model", "streamed", "framing"),
    [
        ("/v1/chat/completions", "openai.chat", "", None, Framing.SSE),
        ("https://api.example.com/v1/chat/completions", "openai.chat", "", None, Framing.SSE),
        ("http://localhost:11434/v1/chat/completions?x=1#y", "openai.chat", "", None, Framing.SSE),
        ("/api/v1/chat/completions/", "openai.chat", "", None, Framing.SSE),
        ("/chat/completions", "openai.chat", "", None, Framing.SSE),
        ("/openai/deployments/my%20gpt/chat/completions?api-version=1", "openai.chat", "my gpt", None, Framing.SSE),
        ("/v1beta/openai/chat/completions", "openai.chat", "", None, Framing.SSE),
        ("/v1/responses", "openai.responses", "", None, Framing.SSE),
        ("/openai/responses?api-version=1", "openai.responses", "", None, Framing.SSE),
        ("/v1/completions", "openai.completions", "", None, Framing.SSE),
        ("/openai/deployments/d/embeddings", "openai.embeddings", "d", None, Framing.SSE),
        ("/v1/messages?beta=true", "anthropic.messages", "", None, Framing.SSE),
        ("/anthropic/v1/messages", "anthropic.messages", "", None, Framing.SSE),
        (f"/model/{BEDROCK}/invoke", "anthropic.messages", BEDROCK, False, Framing.AWS),
        ("/model/a%3A0/invoke-with-response-stream", "anthropic.messages", "a:0", True, Framing.AWS),
        (f"{VERTEX}/anthropic/models/claude:rawPredict", "anthropic.messages", "claude", False, Framing.SSE),
        (f"{VERTEX}/anthropic/models/claude:streamRawPredict", "anthropic.messages", "claude", True, Framing.SSE),
        ("/v1beta/models/gemini-3:generateContent?key=k", "gemini.generate", "gemini-3", False, Framing.ARRAY),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", "gemini.generate", "g", True, Framing.SSE),
        ("/v1beta/models/g:streamGenerateContent?key=k&%24alt=sse", "gemini.generate", "g", True, Framing.SSE),
        ("/v1beta/models/g:streamGenerateContent?key=alt=sse", "gemini.generate", "g", True, Framing.ARRAY),
        (f"{VERTEX}/google/models/g:generateContent", "gemini.generate", "g", False, Framing.ARRAY),
        ("/v1/projects/p/locations/l/endpoints/7:generateContent", "gemini.generate", "7", False, Framing.ARRAY),
        ("/api/chat", "ollama.chat", "", None, Framing.LINES),
        ("/api/generate", "ollama.generate", "", None, Framing.LINES),
    ],
)
def test_a_path_names_its_api(target: str, name: str, model: str, streamed: bool | None, framing: Framing) -> None:
    api = api_of("post", target, "application/json; charset=utf-8")

    assert api is not None
    assert (api.name, api.model, api.streamed, api.framing) == (name, model, streamed, framing)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "",
        "/v1/models",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/threads/thread_1/messages",
        "/v1/responses/resp_1/cancel",
        "/v1/responses/input_tokens",
        f"{VERTEX}/anthropic/models/count-tokens:rawPredict",
        f"{VERTEX}/mistralai/models/m:rawPredict",
        "/v1internal:generateContent",
        "/v1beta/models/g:countTokens",
        "/v1/chat/completions/chatcmpl-1",
        "/xchat/completionsx",
        "/search?next=/v1/messages",
        "/page#/v1/messages",
        "http://[bad/v1/models",
    ],
)
def test_other_paths_are_no_model_calls(target: str) -> None:
    assert api_of("POST", target) is None


def test_only_a_post_of_json_is_a_model_call() -> None:
    assert api_of("GET", "/v1/chat/completions") is None
    assert api_of("POST", "/v1/chat/completions", "multipart/form-data; boundary=x") is None
    assert api_of("POST", "/v1/chat/completions", "application/vnd.api+json") is not None
    assert api_of("POST", "/v1/chat/completions", "") is not None
