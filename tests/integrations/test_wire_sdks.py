"""The real SDKs accept what `ModelApi.write` writes, and `ModelApi.read` reads what they sent and were sent.

A server on loopback answers every request with a written answer, in small chunks that respect no boundary.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import anthropic
import google.genai as genai
import openai
import pytest
from google.genai import types as google_types

from replaykit.wire.api import ModelApi
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

ASK = "How is the weather in Zürich?"
PLAIN = ModelAnswer(content="Snow, all day. ❄")
CALLS = ModelAnswer(
    content="I will look.",
    thinking="The user wants the weather.",
    tool_calls=(
        ToolUse(id="call_one", name="get_weather", arguments={"city": "Zürich", "deep": {"id": [1, None, 2.5]}}),
        ToolUse(name="get_forecast", arguments={}),
    ),
)
REFUSAL = ModelAnswer(refusal="I will not talk about the weather.")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
NAMES = ("get_weather", "get_forecast")

Seen = dict[str, Any]
Client = Callable[[str], Seen]


class Scripted:
    """A server that answers with one answer, whatever the API, and keeps the last exchange."""

    def __init__(self, answer: ModelAnswer, like: list[bytes]) -> None:
        self.answer = answer
        self.like = like
        self.api: ModelApi | None = None
        self.request = b""
        self.response = b""

    def respond(self, path: str, request: bytes) -> tuple[str, bytes]:
        self.api = api_of("POST", path, "application/json")
        assert self.api is not None, path
        written = self.api.write(self.answer, request=request, like=self.like)
        self.request, self.response = request, b"".join(written.chunks)
        return written.content_type, self.response

    def reading(self) -> ModelCall:
        assert self.api is not None
        return self.api.read(self.request, 200, [self.response])


@contextmanager
def serving(scripted: Scripted) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["content-length"]))
            content_type, body = scripted.respond(self.path, request)
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for start in range(0, len(body), 37):
                piece = body[start : start + 37]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def chat_tools() -> list[Any]:
    return [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]


def seen_chat(completion: Any) -> Seen:
    message = completion.choices[0].message
    calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    thinking = getattr(message, "reasoning_content", None)
    return {
        "content": message.content,
        "thinking": thinking,
        "refusal": message.refusal,
        "calls": calls,
        "why": completion.choices[0].finish_reason,
    }


def chat(url: str) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": ASK}]
        return seen_chat(client.chat.completions.create(model="gpt", messages=messages, tools=chat_tools()))


def chat_stream(url: str) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": ASK}]
        with client.chat.completions.stream(model="gpt", messages=messages, tools=chat_tools()) as stream:
            return seen_chat(stream.until_done().get_final_completion())


def azure(url: str) -> Seen:
    with openai.AzureOpenAI(azure_endpoint=url, api_key="x", api_version="2025-04-01-preview", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": ASK}]
        return seen_chat(client.chat.completions.create(model="mine", messages=messages, tools=chat_tools()))


def seen_response(response: Any) -> Seen:
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "content": response.output_text or None,
        "thinking": "".join(thoughts) or None,
        "refusal": next((part.refusal for part in parts if part.type == "refusal"), None),
        "calls": [(call.call_id, call.name, json.loads(call.arguments)) for call in calls],
        "why": response.status,
    }


def response_tools() -> list[Any]:
    return [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in NAMES]


def responses(url: str) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        return seen_response(client.responses.create(model="gpt", input=ASK, tools=response_tools()))


def responses_stream(url: str) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        with client.responses.stream(model="gpt", input=ASK, tools=response_tools()) as stream:
            return seen_response(stream.until_done().get_final_response())


def seen_message(message: Any) -> Seen:
    details = message.stop_details
    return {
        "content": "".join(block.text for block in message.content if block.type == "text") or None,
        "thinking": "".join(block.thinking for block in message.content if block.type == "thinking") or None,
        "refusal": details.explanation if details else None,
        "calls": [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
        "why": message.stop_reason,
    }


def message_request() -> dict[str, Any]:
    tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    return {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": ASK}], "tools": tools}


def messages(url: str) -> Seen:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        return seen_message(client.messages.create(**message_request()))


def messages_stream(url: str) -> Seen:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        with client.messages.stream(**message_request()) as stream:
            return seen_message(stream.get_final_message())


def vertex(url: str) -> Seen:
    kwargs: dict[str, Any] = {"project_id": "p", "region": "r", "access_token": "t", "max_retries": 0}
    with anthropic.AnthropicVertex(base_url=f"{url}/v1", **kwargs) as client:
        return seen_message(client.messages.create(**message_request()))


def vertex_stream(url: str) -> Seen:
    kwargs: dict[str, Any] = {"project_id": "p", "region": "r", "access_token": "t", "max_retries": 0}
    with anthropic.AnthropicVertex(base_url=f"{url}/v1", **kwargs) as client:
        with client.messages.stream(**message_request()) as stream:
            return seen_message(stream.get_final_message())


def bedrock_client(url: str) -> Any:
    kwargs: dict[str, Any] = {"aws_access_key": "a", "aws_secret_key": "b", "aws_region": "r", "max_retries": 0}
    return anthropic.AnthropicBedrock(base_url=url, **kwargs)


def bedrock(url: str) -> Seen:
    with bedrock_client(url) as client:
        return seen_message(client.messages.create(**message_request()))


def bedrock_stream(url: str) -> Seen:
    with bedrock_client(url) as client, client.messages.stream(**message_request()) as stream:
        return seen_message(stream.get_final_message())


def seen_ollama(answers: list[Any]) -> Seen:
    calls = [call.function for answer in answers for call in answer.message.tool_calls or []]
    return {
        "content": "".join(answer.message.content or "" for answer in answers) or None,
        "thinking": "".join(answer.message.thinking or "" for answer in answers) or None,
        "refusal": None,
        "calls": [("", call.name, dict(call.arguments)) for call in calls],
        "why": answers[-1].done_reason,
    }


def ollama_chat(url: str) -> Seen:
    import ollama

    with ollama.Client(host=url) as client:
        return seen_ollama([client.chat("qwen", [{"role": "user", "content": ASK}], tools=chat_tools())])


def ollama_stream(url: str) -> Seen:
    import ollama

    with ollama.Client(host=url) as client:
        stream = client.chat("qwen", [{"role": "user", "content": ASK}], tools=chat_tools(), stream=True)
        return seen_ollama(list(stream))


def seen_candidates(responses: list[Any]) -> Seen:
    parts = [part for response in responses for part in response.candidates[0].content.parts or []]
    calls = [part.function_call for part in parts if part.function_call]
    return {
        "content": "".join(part.text for part in parts if part.text and not part.thought) or None,
        "thinking": "".join(part.text for part in parts if part.text and part.thought) or None,
        "refusal": None,
        "calls": [(call.id or "", call.name, call.args) for call in calls],
        "why": responses[-1].candidates[0].finish_reason.value,
    }


def google_config() -> Any:
    declared = [google_types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in NAMES]
    return google_types.GenerateContentConfig(
        tools=[google_types.Tool(function_declarations=declared)],
        automatic_function_calling=google_types.AutomaticFunctionCallingConfig(disable=True),
    )


def gemini(url: str) -> Seen:
    with genai.Client(api_key="x", http_options={"base_url": url}) as client:
        return seen_candidates([client.models.generate_content(model="g", contents=ASK, config=google_config())])


def gemini_stream(url: str) -> Seen:
    with genai.Client(api_key="x", http_options={"base_url": url}) as client:
        stream = client.models.generate_content_stream(model="g", contents=ASK, config=google_config())
        return seen_candidates(list(stream))


CLIENTS: list[Client] = [
    chat,
    chat_stream,
    azure,
    responses,
    responses_stream,
    messages,
    messages_stream,
    vertex,
    vertex_stream,
    gemini,
    gemini_stream,
    *((bedrock, bedrock_stream) if find_spec("botocore") else ()),
    *((ollama_chat, ollama_stream) if find_spec("ollama") else ()),
]
IDS = {"gemini.generate": [True, False], "ollama.chat": [False, False]}
"""Which of the two calls has an id in the SDK: the first was given one, and some APIs mint none."""
REFUSING = [client for client in CLIENTS if "gemini" not in client.__name__ and "ollama" not in client.__name__]
WHY = {
    "openai.chat": ("stop", "tool_calls"),
    "openai.responses": ("completed", "completed"),
    "anthropic.messages": ("end_turn", "tool_use"),
    "gemini.generate": ("STOP", "STOP"),
    "ollama.chat": ("stop", "stop"),
}


def ask(client: Client, answer: ModelAnswer, like: list[bytes] | None = None) -> tuple[Seen, Scripted]:
    scripted = Scripted(answer, like or [])
    with serving(scripted) as url:
        return client(url), scripted


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_text_arrives_in_the_sdk(client: Client) -> None:
    seen, scripted = ask(client, PLAIN)
    call = scripted.reading()

    assert seen == {"content": PLAIN.content, "thinking": None, "refusal": None, "calls": [], "why": WHY[call.api][0]}
    assert call.answer == PLAIN
    assert call.problem is None
    assert call.complete


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_thinking_and_parallel_tool_calls_arrive_in_the_sdk(client: Client) -> None:
    seen, scripted = ask(client, CALLS)
    call = scripted.reading()

    assert (seen["content"], seen["thinking"]) == (CALLS.content, CALLS.thinking)
    assert [called[1:] for called in seen["calls"]] == [(use.name, use.arguments) for use in CALLS.tool_calls]
    assert [bool(called[0]) for called in seen["calls"]] == IDS.get(call.api, [True, True])
    assert seen["why"] == WHY[call.api][1]
    assert [(use.name, use.arguments) for use in call.answer.tool_calls] == [called[1:] for called in seen["calls"]]
    assert call.answer.tool_calls[0].id == "call_one"
    assert call.problem is None


@pytest.mark.parametrize("client", REFUSING, ids=lambda client: client.__name__)
def test_a_refusal_arrives_in_the_sdk(client: Client) -> None:
    seen, scripted = ask(client, REFUSAL)

    assert (seen["content"], seen["refusal"], seen["calls"]) == (None, REFUSAL.refusal, [])
    assert scripted.reading().answer == REFUSAL


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_an_answer_that_was_changed_twice_is_still_taken(client: Client) -> None:
    _, first = ask(client, CALLS)

    seen, scripted = ask(client, PLAIN, [first.response])

    assert (seen["content"], seen["thinking"], seen["calls"]) == (PLAIN.content, None, [])
    assert scripted.reading().response_id == first.reading().response_id
