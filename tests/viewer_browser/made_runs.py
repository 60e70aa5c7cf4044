"""Runs made of events: a long one, one with hostile payloads, and two whose prompts differ in one word."""

from __future__ import annotations

from collections.abc import Iterator

from tests.viewer_browser.hostile import PAYLOADS

from replaykit.model.events import AnyEvent, ErrorInfo, LlmCall, Message, ToolCall, Usage
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json, Raw, encode

LONG = 100_000
FAILS_AT = 70_000
STARTED = 1_760_000_000.0


def raw(value: Json) -> Raw:
    return Raw(encode(value))


def made_runs() -> Iterator[TraceRun]:
    yield long_run("long", LONG)
    yield hostile_run()
    yield prompt_run("prompt-a", "refuse politely")
    yield prompt_run("prompt-b", "refuse firmly")
    yield values_run()


def run_of(name: str, events: list[AnyEvent], *, output: Json = "done", failed: bool = False) -> TraceRun:
    header = RunHeader(
        id=name,
        name=name,
        status=RunStatus.ERROR if failed else RunStatus.SUCCESS,
        error=ErrorInfo(type="TimeoutError", message="the gateway timed out") if failed else None,
        input_json=raw("go"),
        output_json=raw(output),
        started_at=STARTED,
        ended_at=STARTED + len(events),
        event_count=len(events),
    )
    return TraceRun.of(header, tuple(events))


def long_run(name: str, count: int) -> TraceRun:
    """A run of many tool calls, one of which fails."""
    events: list[AnyEvent] = []
    for seq in range(count):
        failed = seq == FAILS_AT
        call = ToolCall(
            seq=seq,
            at=STARTED + seq,
            duration_s=0.7,
            name=f"tool_{seq % 7}",
            arguments_json=raw({"id": seq}),
            result_json=raw({"row": seq}),
            error=ErrorInfo(type="TimeoutError", message="the gateway timed out") if failed else None,
        )
        events.append(call)
    return run_of(name, events, failed=True)


def hostile_run() -> TraceRun:
    """Each payload as the name of a tool, as an argument, as a key, as a result, as an error and as a message."""
    events: list[AnyEvent] = []
    for payload in PAYLOADS:
        text = payload if isinstance(payload, str) else "deep"
        call = ToolCall(
            seq=len(events),
            at=STARTED + len(events),
            duration_s=0.5,
            step=text[:200],
            name=text[:500] or "tool",
            arguments_json=raw({"payload": payload, text[:300]: 1}),
            result_json=raw([payload, {text[:300]: payload}]),
            error=ErrorInfo(type=text[:200] or "Error", message=text, traceback=text) if len(events) % 3 == 0 else None,
        )
        events.append(call)
        events.append(
            Message(seq=len(events), at=STARTED + len(events), role=text[:100] or "user", content_json=raw(text))
        )
        events.append(model_call(len(events), [("system", text), ("user", text)], text))
    hostile = str(PAYLOADS[0])
    return run_of("hostile", events, output=hostile, failed=True)


def model_call(seq: int, messages: list[tuple[str, str]], answer: str) -> LlmCall:
    return LlmCall(
        seq=seq,
        at=STARTED + seq,
        duration_s=0.9,
        name="gpt-5-mini",
        arguments_json=raw(
            {"model": "gpt-5-mini", "messages": [{"role": role, "content": text} for role, text in messages]}
        ),
        result_json=raw({"role": "assistant", "content": answer}),
        usage=Usage(input_tokens=120, output_tokens=8, cost_usd=0.0021),
    )


def prompt_run(name: str, rule: str) -> TraceRun:
    """A model call with a prompt of 300 lines, one of which holds the rule, among equal calls."""
    lines = [f"Rule {number}: answer question {number} from the handbook." for number in range(300)]
    lines[207] = f"Rule 207: {rule} when a customer asks for a refund after 30 days."
    calls: list[AnyEvent] = []
    for seq in range(12):
        calls.append(
            ToolCall(
                seq=seq,
                at=STARTED + seq,
                duration_s=0.5,
                name="lookup",
                arguments_json=raw({"page": seq}),
                result_json=raw("ok"),
            )
        )
    question = ("user", "May I send it back?")
    calls.append(model_call(12, [("system", "\n".join(lines)), question], rule))
    calls.append(
        model_call(13, [("system", "\n".join(lines)), question, ("assistant", rule), ("user", "Why?")], "See rule 207.")
    )
    return run_of(name, calls, output=rule)


def values_run() -> TraceRun:
    """An amount that a tool answers, a model repeats in another spelling, and a second tool gets."""
    order = {
        "id": 9007199254740993,
        "total": 1234.5,
        "items": [{"sku": f"A{number}", "count": number} for number in range(150)],
    }
    overlapping = ToolCall(
        seq=1,
        at=STARTED + 1.2,
        duration_s=2.5,
        name="get_user",
        arguments_json=raw({"id": "u9"}),
        result_json=raw({"name": "Ada"}),
    )
    events: list[AnyEvent] = [
        ToolCall(
            seq=0,
            at=STARTED + 1,
            duration_s=2,
            name="get_order",
            arguments_json=raw({"id": "W123"}),
            result_json=raw(order),
        ),
        overlapping,
        model_call(2, [("user", "Refund W123")], "I refund 1,234.50 for order W123."),
        ToolCall(
            seq=3,
            at=STARTED + 5,
            duration_s=1,
            name="refund",
            arguments_json=raw({"amount": 1234.5}),
            result_json=raw("ok"),
        ),
    ]
    return run_of("values", events, output="I refunded 1234.5.")
