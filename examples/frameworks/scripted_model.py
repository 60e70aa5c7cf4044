"""A model on the loopback interface that says what a script says: OpenAI's two protocols, Anthropic's and Gemini's.

A turn is what it asks for at once: names of tools, with arguments. After the last turn it answers with what the tools
said. Which turn it is, the conversation in the request tells; a request without tools is answered with text at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Turn = Sequence[tuple[str, dict[str, Any]]]
TURNS: Sequence[Turn] = [[("get_weather", {"city": "Paris é"}), ("get_time", {"zone": "CET"})]]
PIECE = 41  # bytes that are sent of a stream at once: it ends where no event does


def joined(results: Sequence[str]) -> str:
    return f"It is {' and '.join(results)}."


class ScriptedModel:
    """The server, for as long as the block lasts. `connections` and `bodies` are what it was asked."""

    def __init__(self, turns: Sequence[Turn] = TURNS, answer: Callable[[Sequence[str]], str] = joined) -> None:
        self.turns, self.answer = turns, answer
        self.connections = 0
        self.bodies: list[Any] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def say(self, body: Any, turn: int, results: list[str]) -> tuple[Turn, str]:
        """What it asks for next, or the text it answers with."""
        self.bodies.append(body)
        if body.get("tools") and turn < len(self.turns):
            return self.turns[turn], ""
        return [], self.answer(results)


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            model.connections += 1
            super().setup()

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = urlsplit(self.path).path
            speak = next((speak for end, speak in PROTOCOLS.items() if path.endswith(end)), None)
            if speak is None:
                return self._send(404, [json.dumps({"error": {"message": f"no {path}"}})])
            whole, events = speak(model, body)
            streamed = body.get("stream") or path.endswith("streamGenerateContent")
            return self._send(200, events, "text/event-stream") if streamed else self._send(200, [json.dumps(whole)])

        def _send(self, status: int, texts: Sequence[str], kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.send_header("connection", "close")  # no client is left with an open socket
            self.end_headers()
            text = "".join(texts).encode()
            for piece in (text[start : start + PIECE] for start in range(0, len(text), PIECE)):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

    return Handler


def text_of(content: Any) -> str:
    """The text of a message's content, which may come in parts."""
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def event(told: Any, kind: str | None = None) -> str:
    name = f"event: {kind}\n" if kind else ""
    return f"{name}data: {json.dumps(told, ensure_ascii=False)}\n\n"


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def chat_completions(model: ScriptedModel, body: Any) -> tuple[Any, list[str]]:
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    results = [text_of(message["content"]) for message in body["messages"] if message["role"] == "tool"]
    asked, text = model.say(body, turn, results)
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in asked]
    calls = [{"id": f"call_{turn}_{i}", "type": "function", "function": f} for i, f in enumerate(functions)]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    finish = "tool_calls" if calls else "stop"
    about = {"id": f"chatcmpl-{turn}", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}

    def chunk(delta: Any, reason: str | None = None) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return event({**about, "object": "chat.completion.chunk", "choices": choices})

    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": part}) for part in halves(text) if part)]
    for index, call in enumerate(calls):
        empty = {**call, "index": index, "function": {**functions[index], "arguments": ""}}
        events.append(chunk({"tool_calls": [empty]}))
        for part in halves(functions[index]["arguments"]):
            events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    events += [chunk({}, finish), event({**about, "object": "chat.completion.chunk", "choices": [], "usage": usage})]
    return whole, [*events, "data: [DONE]\n\n"]


def responses(model: ScriptedModel, body: Any) -> tuple[Any, list[str]]:
    given = body["input"] if isinstance(body["input"], list) else []
    kinds = [item.get("type", "message") for item in given]
    asks = [kind == "function_call" for kind in kinds]
    turn = sum(ask and not before for before, ask in zip([False, *asks], asks, strict=False))
    if body.get("previous_response_id"):  # only what came after that answer is sent
        turn += int(body["previous_response_id"].removeprefix("resp_")) + 1
    results = [text_of(item["output"]) for item in given if item.get("type") == "function_call_output"]
    asked, text = model.say(body, turn, results)
    output: list[Any] = [
        {"type": "function_call", "id": f"fc_{turn}_{i}", "call_id": f"call_{turn}_{i}", "status": "completed"}
        | {"name": name, "arguments": json.dumps(arguments)}
        for i, (name, arguments) in enumerate(asked)
    ]
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        output = [{"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed"}]
        output[0]["content"] = [part]
    whole: Any = {"id": f"resp_{turn}", "object": "response", "created_at": 1, "model": body["model"]}
    whole |= {"status": "completed", "output": output, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    whole["usage"] = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    whole["usage"] |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return whole, list(_response_events(whole))


def _response_events(whole: Any) -> Iterator[str]:
    told: list[Any] = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "function_call":
            begun, kind, pieces = {**item, "arguments": ""}, "function_call_arguments", halves(item["arguments"])
        else:
            begun, kind, pieces = {**item, "content": []}, "output_text", halves(item["content"][0]["text"])
            at["content_index"] = 0
        told.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if kind == "output_text":
            part = {"type": "output_text", "text": "", "annotations": []}
            told.append({"type": "response.content_part.added", **at, "part": part})
        told += [{"type": f"response.{kind}.delta", **at, "delta": piece, "logprobs": []} for piece in pieces]
        told.append({"type": "response.output_item.done", "output_index": index, "item": item})
    told.append({"type": "response.completed", "response": whole})
    for number, each in enumerate(told):
        yield event({**each, "sequence_number": number}, each["type"])


def anthropic_messages(model: ScriptedModel, body: Any) -> tuple[Any, list[str]]:
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    results = [text_of(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
    asked, text = model.say(body, turn, results)
    content: list[Any] = [{"type": "text", "text": text}] if text else []
    for i, (name, given) in enumerate(asked):
        content.append({"type": "tool_use", "id": f"toolu_{turn}_{i}", "name": name, "input": given})
    reason = {"stop_reason": "tool_use" if asked else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 7, "output_tokens": 5}
    about = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
    begun = {**about, "content": [], "stop_reason": None, "stop_sequence": None}
    told: list[Any] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty, kind, field, pieces = {**block, "text": ""}, "text_delta", "text", halves(text)
        else:
            pieces = halves(json.dumps(block["input"]))
            empty, kind, field = {**block, "input": {}}, "input_json_delta", "partial_json"
        told.append({"type": "content_block_start", "index": index, "content_block": empty})
        for piece in pieces:
            told.append({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}})
        told.append({"type": "content_block_stop", "index": index})
    told += [{"type": "message_delta", "delta": reason, "usage": usage}, {"type": "message_stop"}]
    return {**about, **reason, "content": content}, [event(each, each["type"]) for each in told]


def gemini(model: ScriptedModel, body: Any) -> tuple[Any, list[str]]:
    turn = sum(content.get("role") == "model" for content in body["contents"])
    parts = [part for content in body["contents"] for part in content["parts"]]
    answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    results = [text_of(next(iter(answer.values()), "")) for answer in answers]
    asked, text = model.say(body, turn, results)
    calls: list[Any] = [{"functionCall": {"name": name, "args": given}} for name, given in asked]

    def told(parts: list[Any]) -> Any:
        usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
        content = {"role": "model", "parts": parts}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}

    pieces = [[call] for call in calls] if calls else [[{"text": piece}] for piece in halves(text)]
    return told(calls or [{"text": text}]), [event(told(piece)) for piece in pieces]


PROTOCOLS = {
    "/chat/completions": chat_completions,
    "/responses": responses,
    "/messages": anthropic_messages,
    "enerateContent": gemini,
}
