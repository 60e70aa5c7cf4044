"""A model server on the loopback interface that answers as a script says: OpenAI, Anthropic, Gemini and Ollama.

It first asks for two tools at once, and when it has their results, answers with what they said. Streams are cut into
pieces at places that have nothing to do with their events.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 37


class FakeModels:
    """The server, for as long as the block lasts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.asked))
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeModels:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(self.path)
            number = len(asked)
            if self.path.endswith("/chat/completions"):
                stream, answer = body.get("stream"), openai(body, number)
            elif self.path.endswith("/v1/messages"):
                stream, answer = body.get("stream"), anthropic(body, number)
            elif "enerateContent" in self.path:
                stream, answer = "stream" in self.path, gemini(body)
            elif self.path.endswith("/api/chat"):
                stream, answer = body.get("stream", True), ollama(body)
            else:
                return self._whole(404, {"error": {"message": f"no {self.path}"}})
            return self._stream(answer) if stream else self._whole(200, json.loads(answer[-1]))

        def do_GET(self) -> None:
            asked.append(self.path)
            self._whole(200, {"object": "list", "data": [{"id": "small", "object": "model", "created": 1}]})

        def _whole(self, status: int, value: Any) -> None:
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, events: list[str]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            text = "".join(events[:-1]).encode()
            for start in range(0, len(text), PIECE):
                piece = text[start : start + PIECE]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

    return Handler


def _results(texts: list[str]) -> str:
    return f"It is {' and '.join(texts)}."


def openai(body: Any, number: int) -> list[str]:
    """The events of a stream, and last the whole answer."""
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    calls = [("get_weather", ['{"ci', 'ty": "Par', 'is é"}']), ("get_time", ['{"zone": "', 'CET"}'])]
    made = [
        {"id": f"call_{number}_{i}", "type": "function", "function": {"name": name, "arguments": "".join(parts)}}
        for i, (name, parts) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": _results(results)} if results else {"role": "assistant", "content": None}
    if not results:
        message["tool_calls"] = made
    reason = "stop" if results else "tool_calls"
    about = {"id": f"chatcmpl-{number}", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    whole = {**about, "object": "chat.completion", "usage": usage}
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]

    def event(delta: Any, finish: str | None = None) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        told = {**about, "object": "chat.completion.chunk", "choices": choices}
        return f"data: {json.dumps(told, ensure_ascii=False)}\n\n"

    return [*_openai_events(event, results, made, calls, reason), json.dumps(whole)]


def _openai_events(event: Any, results: list[str], made: Any, calls: Any, reason: str) -> Iterator[str]:
    yield event({"role": "assistant", "content": ""})
    for word in _results(results).split(" ") if results else []:
        yield event({"content": f"{word} "})
    for index, (name, parts) in enumerate(calls if not results else []):
        function = {"name": name, "arguments": ""}
        yield event(
            {"tool_calls": [{"index": index, "id": made[index]["id"], "type": "function", "function": function}]}
        )
        for part in parts:
            yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield event({}, reason)
    yield "data: [DONE]\n\n"


def anthropic(body: Any, number: int) -> list[str]:
    """The events of a stream, and last the whole answer."""
    last = body["messages"][-1]["content"]
    results = [block["content"] for block in last if block["type"] == "tool_result"] if isinstance(last, list) else []
    blocks: list[Any] = [
        {"type": "tool_use", "id": f"toolu_{number}_0", "name": "get_weather", "input": {"city": "Paris é"}},
        {"type": "tool_use", "id": f"toolu_{number}_1", "name": "get_time", "input": {"zone": "CET"}},
    ]
    if results:
        blocks = [{"type": "text", "text": _results(results)}]
    reason = "end_turn" if results else "tool_use"
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
    usage = {"input_tokens": 7, "output_tokens": 5}
    whole = {**message, "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def event(kind: str, **told: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **told}, ensure_ascii=False)}\n\n"

    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events = [event("message_start", message=begun)]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        start = {**block, "text": ""} if is_text else {**block, "input": {}}
        events.append(event("content_block_start", index=index, content_block=start))
        text = block["text"] if is_text else json.dumps(block["input"], ensure_ascii=False)
        for piece in (text[:5], text[5:]):
            delta = {"type": "text_delta", "text": piece}
            if not is_text:
                delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    events.append(event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage))
    return [*events, event("message_stop"), json.dumps(whole)]


def gemini(body: Any) -> list[str]:
    """The events of a stream, and last the whole answer."""
    said = body["contents"][-1]["parts"][0]["text"]

    def told(text: str) -> Any:
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}
        return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}

    return [f"data: {json.dumps(told(part))}\r\n\r\n" for part in ("You said ", said)] + [
        json.dumps(told(f"You said {said}"))
    ]


def ollama(body: Any) -> list[str]:
    """The lines of a stream, and last the whole answer."""
    said = body["messages"][-1]["content"]

    def told(text: str, *, done: bool) -> Any:
        message = {"role": "assistant", "content": text}
        return {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done}

    lines = [json.dumps(told(part, done=False)) + "\n" for part in ("You said ", said)]
    return [*lines, json.dumps(told("", done=True)) + "\n", json.dumps(told(f"You said {said}", done=True))]
