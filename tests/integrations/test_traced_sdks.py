"""The real SDKs read what is written for calls that only a trace tells of: streams, tool calls, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest
from google import genai
from google.genai import errors, types

from replaykit.formats.core.talk import Talk
from replaykit.handlers.replay.handler import Replayer, replaying
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import ErrorInfo, Usage
from replaykit.wire.model_calls import ModelAnswer, ToolUse

ASKED: Any = [{"role": "user", "content": "Is it lost?"}]
USE = ToolUse(id="call_1", name="search", arguments={"query": "é 7"})
LIMIT = ErrorInfo(type="RateLimitError", message="Error code: 429 - {'error': {'message': 'Slow down.'}}")
Said = tuple[str, list[tuple[str, dict[str, Any]]]]


def tape(answer: ModelAnswer | None = None, error: ErrorInfo | None = None) -> Tape:
    talk = Talk()
    talk.says("user", "Is it lost?")
    talk.answers(answer, error=error, model="traced", usage=Usage(input_tokens=3, output_tokens=4))
    return Tape.of(talk.run(id="r1", format="otlp"))


def chat() -> Said:
    client = openai.OpenAI(api_key="none")
    with client.chat.completions.stream(model="gpt-5", messages=ASKED) as stream:
        message: Any = stream.get_final_completion().choices[0].message
    calls = message.tool_calls or ()
    return message.content or "", [(call.function.name, openai_arguments(call.function)) for call in calls]


def openai_arguments(function: Any) -> dict[str, Any]:
    return dict(json.loads(function.arguments))


def chat_over_aiohttp() -> Said:
    async def ask() -> Any:
        async with openai.AsyncOpenAI(api_key="none", http_client=openai.DefaultAioHttpClient()) as client:
            return await client.chat.completions.create(model="gpt-5", messages=ASKED)

    message = asyncio.run(ask()).choices[0].message
    calls = message.tool_calls or ()
    return message.content or "", [(call.function.name, openai_arguments(call.function)) for call in calls]


def responses() -> Said:
    with openai.OpenAI(api_key="none").responses.stream(model="gpt-5", input="Is it lost?") as stream:
        response = stream.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    return response.output_text, [(call.name, openai_arguments(call)) for call in calls]


def messages() -> Said:
    client = anthropic.Anthropic(api_key="none")
    with client.messages.stream(model="claude-5", max_tokens=9, messages=ASKED) as stream:
        content: Any = stream.get_final_message().content
    texts = [block.text for block in content if block.type == "text"]
    return "".join(texts), [(block.name, block.input) for block in content if block.type == "tool_use"]


def generate() -> Said:
    client = genai.Client(api_key="none")
    parts: list[types.Part] = []
    for piece in client.models.generate_content_stream(model="gemini-3", contents="Is it lost?"):
        assert piece.candidates
        assert piece.candidates[0].content
        parts += piece.candidates[0].content.parts or ()
    calls = [part.function_call for part in parts if part.function_call]
    return "".join(part.text or "" for part in parts), [(str(call.name), dict(call.args or {})) for call in calls]


def local() -> Said:
    pieces = list(ollama.Client(host="http://127.0.0.1:11434").chat(model="llama", messages=ASKED, stream=True))
    calls = [call.function for piece in pieces for call in piece.message.tool_calls or ()]
    return "".join(piece.message.content or "" for piece in pieces), [(c.name, dict(c.arguments)) for c in calls]


SDKS = [chat, chat_over_aiohttp, responses, messages, generate, local]


def with_reply(on: Tape, ask: Callable[[], Said]) -> tuple[Said, Replayer]:
    with replaying(on) as replayer:
        return ask(), replayer


@pytest.mark.parametrize("ask", SDKS, ids=lambda ask: ask.__name__)
def test_an_sdk_reads_a_text_and_a_call_of_a_tool(ask: Callable[[], Said]) -> None:
    said, replayer = with_reply(tape(ModelAnswer(content="Let me see.", tool_calls=(USE,))), ask)

    assert said == ("Let me see.", [("search", {"query": "é 7"})])
    assert [one.kind for one in replayer.all_deviations()] == ["unused"]  # the tool, which nobody calls here


RAISED: list[tuple[Callable[[], Said], type[Exception]]] = [
    (chat, openai.RateLimitError),
    (chat_over_aiohttp, openai.RateLimitError),
    (responses, openai.RateLimitError),
    (messages, anthropic.RateLimitError),
    (generate, errors.ClientError),
    (local, ollama.ResponseError),
]


@pytest.mark.parametrize(("ask", "kind"), RAISED, ids=[ask.__name__ for ask, _ in RAISED])
def test_an_sdk_raises_its_own_error_and_asks_once(ask: Callable[[], Said], kind: type[Exception]) -> None:
    with replaying(tape(error=LIMIT)) as replayer, pytest.raises(kind, match=r"Slow down\."):
        ask()

    assert not replayer.all_deviations()


def test_an_sdk_that_asks_again_after_a_timeout_is_not_told_off() -> None:
    error = ErrorInfo(type="APITimeoutError", message="Request timed out.")

    with replaying(tape(error=error)) as replayer, pytest.raises(openai.APITimeoutError):
        openai.OpenAI(api_key="none", max_retries=1).chat.completions.create(model="gpt-5", messages=ASKED)

    assert not replayer.all_deviations()
