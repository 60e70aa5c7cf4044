"""A run with one of everything that has a span."""

from __future__ import annotations

from replaykit.model.events import ErrorInfo, Exchange, LlmCall, ToolCall, Usage, WireInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw

BEGAN = 1_760_000_000.25

CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is order 7?"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}],
    "parameters": {"temperature": 0, "max_completion_tokens": 50, "seed": 7, "n": 2, "stop": "END", "user": "bob"},
}
ASKS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"order": 7}}]}
BODY = '{"id":"chatcmpl-1","model":"gpt-5-mini-2026","choices":[]}'
STREAM = (
    'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"claude-x"}}\n\n',
    "more",
)


def wire(url: str, kind: str = "application/json", status: int = 200) -> WireInfo:
    return WireInfo(method="POST", url=url, status=status, headers=(("Content-Type", kind),), pauses_ms=(120.0, 3.0))


def everything() -> TraceRun:
    late = ErrorInfo(type="ReadTimeout", module="httpx", message="read timed out", traceback="Traceback …")
    events = (
        LlmCall(
            seq=0,
            at=BEGAN + 0.1,
            duration_s=0.5,
            step="plan",
            name="gpt-5-mini",
            arguments_json=Raw(canonical(CHAT)),
            result_json=raw(ASKS),
            items_json=(raw(BODY),),
            finish_reason="tool_calls",
            usage=Usage(input_tokens=11, output_tokens=5, cost_usd=0.002),
            wire=wire("https://api.openai.com/v1/chat/completions"),
        ),
        ToolCall(
            seq=1,
            at=BEGAN + 0.7,
            duration_s=0.2,
            step="act",
            name="lookup",
            arguments_json=Raw(canonical({"order": 7})),
            result_json=raw({"status": "shipped"}),
        ),
        Exchange(
            seq=2,
            at=BEGAN + 0.71,
            duration_s=0.1,
            step="act",
            parent=1,
            name="GET",
            wire=WireInfo(method="GET", url="http://orders.test:8080/7", status=200),
        ),
        LlmCall(
            seq=3,
            at=BEGAN + 1,
            duration_s=0.4,
            step="act",
            name="claude-x",
            arguments_json=Raw(canonical({"system": "Be kind.", "messages": [{"role": "user", "content": "hi"}]})),
            result_json=raw({"role": "assistant", "content": "It is on its way.", "tool_calls": []}),
            items_json=tuple(map(raw, STREAM)),
            finish_reason="end_turn",
            usage=Usage(input_tokens=7, output_tokens=6),
            wire=wire("https://api.anthropic.com/v1/messages", "text/event-stream; charset=utf-8"),
        ),
        LlmCall(
            seq=4,
            at=BEGAN + 1.5,
            duration_s=5,
            name="gemini-3",
            arguments_json=Raw(canonical({"messages": [{"role": "user", "parts": [{"text": "hi"}]}]})),
            error=late,
            wire=wire("https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent", status=0),
        ),
        Exchange(
            seq=5,
            at=BEGAN + 7,
            duration_s=0.1,
            name="POST",
            wire=WireInfo(method="POST", url="https://hooks.test/x", status=503),
        ),
        ToolCall(seq=6, at=BEGAN + 7.5, name="refund", arguments_json=Raw(b"{}"), error=late, faults=("timeout",)),
        Exchange(seq=7, at=BEGAN + 8, name="rk.now", result_json=raw(1)),
    )
    return TraceRun(
        id="20251009-085320-4000aabbcc",
        name="orders",
        agent="clerk",
        agent_version="1.2",
        input_json=raw("Where is order 7?"),
        output_json=raw("It is on its way."),
        status=RunStatus.SUCCESS,
        started_at=BEGAN,
        ended_at=BEGAN + 9,
        tags=("keep",),
        events=events,
        event_count=len(events),
    )
