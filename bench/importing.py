"""Trace files to import, made from a seed, and what reading them costs beside nothing but parsing their JSON.

OTLP: batches of spans on a line each, of several agents at work at once, in the order their spans end: model calls
with the whole conversation so far and the definitions of the tools, and the tools they call. LangSmith: a run on a
line, about eight to a trace, a LangGraph agent with LangChain's messages. Prompts, tools and results are as long as
those of tau-bench's airline agent: a system prompt of 6 KB, 14 tools, results of 0.6 KB, two model calls for a tool's.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clock import Stopwatch
from measurements import Numbers

AT_ONCE = 6
SPANS_A_LINE = 48
_AT_A_TIME = 8_000_000
_START_NS = 1_794_768_038_000_000_000
_TEXT = (
    "the order was sent on Monday and its parcel is still in the depot while a customer asks when to expect it so "
    "please look up what carrier has said about this refund and whether any payment of April is open for account"
)
_WORDS = _TEXT.split()
_SYSTEM = (
    "You are the support agent of a shop. Answer in the customer's language, politely and in short. Never promise what "
    'the tools do not confirm.\nLook up an order before you speak of it. "Refund" only what is paid.\n\n'
) * 27


def otlp_lines(size: int, seed: int = 7) -> Iterator[bytes]:
    """Export requests of about so many bytes in all."""
    chance = random.Random(seed)
    waiting: list[Iterator[dict[str, Any]]] = []
    batch: list[dict[str, Any]] = []
    written = 0
    while written < size or waiting:
        while len(waiting) < AT_ONCE and written < size:
            waiting.append(_trace(chance))
        place = chance.randrange(len(waiting))
        span = next(waiting[place], None)
        if span is None:
            waiting.pop(place)
        else:
            batch.append(span)
        if len(batch) >= SPANS_A_LINE or (batch and not waiting and written >= size):
            line = _line(batch)
            written += len(line)
            batch = []
            yield line
    if batch:
        yield _line(batch)


def langsmith_lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """So many runs, each as JSON."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        for run in _runs(chance)[: count - made]:
            made += 1
            yield json.dumps(run, separators=(",", ":")).encode() + b"\n"


def reading(work: Path, name: str, lines: Iterator[bytes], importer: str) -> Numbers:
    """CPU of reading a file into runs, that of `orjson.loads` of its lines, and the memory it took at most."""
    import resource

    import orjson

    from replaykit.formats.core.registry import IMPORTERS
    from replaykit.formats.core.source import Source, read_source
    from replaykit.model.run import TraceRun

    file = work / name
    first = next(lines)
    list(IMPORTERS.get(importer).read(Source(first, name)))  # warms what is imported on first use
    with file.open("wb") as stream:
        stream.write(first)
        stream.writelines(lines)
    parsed, read = Stopwatch(), Stopwatch()
    _parse(file, parsed, orjson.loads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = events = 0
    with read:
        for found in IMPORTERS.get(importer).read(read_source(file)):
            if not isinstance(found, TraceRun):
                raise RuntimeError(str(found))
            runs += 1
            events += len(found.events)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _parse(file, parsed, orjson.loads)  # before and after: a machine is not as fast at one time as at another
    parsed_s = parsed.cpu_s / 2
    size = file.stat().st_size
    file.unlink()
    return {
        "bytes": size,
        "runs": runs,
        "events": events,
        "mb_s": size / read.cpu_s / 1e6,
        "orjson_mb_s": size / parsed_s / 1e6,
        "times_orjson": read.cpu_s / parsed_s,
        "peak_bytes": peak * 1024,
        "before_bytes": before * 1024,
        "run_us": read.cpu_s / max(runs, 1) * 1e6,
    }


def _parse(file: Path, watch: Stopwatch, loads: Callable[[bytes], Any]) -> None:
    with file.open("rb") as stream:
        while lines := stream.readlines(_AT_A_TIME):
            with watch:
                for line in lines:
                    loads(line)


def _line(spans: list[dict[str, Any]]) -> bytes:
    scope = {"scope": {"name": "opentelemetry.instrumentation.openai_v2", "version": "2.4b0"}, "spans": spans}
    about = {"service.name": "shop", "telemetry.sdk.language": "python", "telemetry.sdk.version": "1.45.2"}
    held = {"resourceSpans": [{"resource": {"attributes": _pairs(about)}, "scopeSpans": [scope]}]}
    return json.dumps(held, separators=(",", ":")).encode() + b"\n"


def _trace(chance: random.Random) -> Iterator[dict[str, Any]]:
    """The spans of one agent, children first: 8 to 20 of them."""
    trace, root = f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(64):016x}"
    at = _START_NS + chance.randrange(10**15)
    began, tools = at, json.dumps(_tools())
    said = [
        {"role": "system", "parts": [{"type": "text", "content": _SYSTEM}]},
        {"role": "user", "parts": [{"type": "text", "content": _prose(chance, 30, 90)}]},
    ]
    question, turns, answer = said[1], chance.randint(5, 9), ""
    for turn in range(turns):
        count = 0 if turn == turns - 1 else chance.choice((0, 0, 1, 1, 1, 1, 2))
        calls = [_asked(chance) for _ in range(count)]
        answer = "" if calls else _prose(chance, 10, 60)
        parts: list[dict[str, Any]] = [{"type": "text", "content": answer}] if answer else []
        output = {"role": "assistant", "parts": [*parts, *calls], "finish_reason": "tool_call" if calls else "stop"}
        yield _span(chance, trace, root, "chat gpt-4o-mini", at, _model(chance, said, output, tools))
        said = [*said, {name: output[name] for name in ("role", "parts")}]
        at += 900_000_000
        for call in calls:
            result = _found(chance)
            yield _span(chance, trace, root, f"execute_tool {call['name']}", at, _tool(call, result))
            told = {"type": "tool_call_response", "id": call["id"], "response": result}
            said = [*said, {"role": "tool", "parts": [told]}]
            at += 90_000_000
        if not calls:
            said = [*said, {"role": "user", "parts": [{"type": "text", "content": _prose(chance, 5, 40)}]}]
    asked = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": trace[:8],
    }
    asked["gen_ai.input.messages"] = json.dumps([question])
    asked["gen_ai.output.messages"] = json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
    )
    yield _span(chance, trace, "", "invoke_agent support", began - 1000, asked, root, at)


def _span(
    chance: random.Random,
    trace: str,
    parent: str,
    name: str,
    at: int,
    attributes: dict[str, Any],
    own: str = "",
    ended: int = 0,
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": own or f"{chance.getrandbits(64):016x}",
        **({"parentSpanId": parent} if parent else {}),
        "flags": 256,
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(ended or at + 80_000_000),
        "attributes": _pairs(attributes),
        "status": {},
    }


def _model(chance: random.Random, said: list[dict[str, Any]], output: dict[str, Any], tools: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 1000,
        "gen_ai.response.id": f"chatcmpl-{chance.getrandbits(64):x}",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.finish_reasons": [output["finish_reason"]],
        "gen_ai.usage.input_tokens": sum(len(str(message)) for message in said) // 4,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.tool.definitions": tools,
        "gen_ai.input.messages": json.dumps(said),
        "gen_ai.output.messages": json.dumps([output]),
        "server.address": "api.example.com",
        "server.port": 443,
    }


def _tool(call: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call["name"],
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call["id"],
        "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
        "gen_ai.tool.call.result": json.dumps(result),
    }


def _asked(chance: random.Random) -> dict[str, Any]:
    name = chance.choice(("get_order", "get_user", "search_orders", "refund_order"))
    given = {"order_id": f"W{chance.randrange(10**6)}", "why": _prose(chance, 4, 10)}
    return {"type": "tool_call", "id": f"call_{chance.getrandbits(96):024x}", "name": name, "arguments": given}


def _found(chance: random.Random) -> dict[str, Any]:
    items = [
        {"sku": f"S{chance.randrange(10**5)}", "count": chance.randint(1, 9), "price": chance.randint(99, 9999) / 100}
        for _ in range(chance.randint(1, 6))
    ]
    return {
        "order_id": f"W{chance.randrange(10**6)}",
        "status": "sent",
        "items": items,
        "note": _prose(chance, 20, 100),
    }


def _tools() -> list[dict[str, Any]]:
    names = (
        *("get_order", "get_user", "search_orders", "refund_order", "send_mail", "open_ticket", "get_rates"),
        *("hold_order", "cancel_order", "change_address", "list_payments", "send_voucher", "think", "hand_over"),
    )
    about = "Looks into the shop's own records. Give the id as the customer wrote it, with its letter. "
    given = {
        "type": "object",
        "properties": {name: {"type": "string", "description": about} for name in ("order_id", "user_id", "why")},
        "required": ["why"],
    }
    return [{"type": "function", "name": name, "description": about * 2, "parameters": given} for name in names]


def _prose(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(least, most))).capitalize() + "."


def _pairs(items: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(item)} for name, item in items.items()]


def _value(item: Any) -> dict[str, Any]:
    if isinstance(item, int):
        return {"intValue": str(item)}
    if isinstance(item, float):
        return {"doubleValue": item}
    if isinstance(item, list):
        return {"arrayValue": {"values": [_value(each) for each in item]}}
    return {"stringValue": item}


def _runs(chance: random.Random) -> list[dict[str, Any]]:
    """The runs of a LangGraph agent: about eight, the root first."""
    trace = _id(chance)
    project = _id(chance)
    at = 1_794_768_038.0 + chance.randrange(10**6)
    said = [_human(chance, _prose(chance, 30, 90))]
    root = _run(trace, project, "LangGraph", "chain", at, trace, [])
    root["inputs"] = {"messages": list(said)}
    runs = [root]
    turns = chance.randint(2, 3)
    for turn in range(turns):
        at += 1
        node = _run(_id(chance), project, "agent", "chain", at, trace, [root], step=2 * turn + 1)
        calls = [] if turn == turns - 1 else [_asked(chance) for _ in range(chance.choice((1, 2)))]
        spoken = _ai(chance, "" if calls else _prose(chance, 20, 80), calls)
        model = _run(_id(chance), project, "ChatOpenAI", "llm", at + 0.01, trace, [root, node], step=2 * turn + 1)
        _call_model(model, said, spoken)
        node["inputs"], node["outputs"] = {"messages": list(said)}, {"messages": [spoken]}
        said.append(spoken)
        runs += [node, model]
        for call in calls:
            at += 0.1
            tool = _run(_id(chance), project, call["name"], "tool", at, trace, [root], step=2 * turn + 2)
            told = _told(chance, call)
            tool["inputs"], tool["outputs"] = {"input": str(call["arguments"])}, {"output": told["kwargs"]}
            said.append(told)
            runs.append(tool)
    root["outputs"] = {"messages": list(said)}
    return runs


def _id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _run(
    own: str,
    project: str,
    name: str,
    kind: str,
    at: float,
    trace: str,
    above: list[dict[str, Any]],
    step: int | None = None,
) -> dict[str, Any]:
    stamp = f"2026{int(at) % 12 + 1:02}{int(at) % 28 + 1:02}T{int(at) % 24:02}{int(at * 7) % 60:02}{int(at) % 60:02}"
    stamp += f"{int(at * 1e6) % 10**6:06}Z"
    iso = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}.{stamp[15:21]}+00:00"
    about = {"ls_provider": "openai", "revision_id": "4f0c2d1", "thread_id": trace[:8]}
    return {
        "id": own,
        "name": name,
        "run_type": kind,
        "start_time": iso,
        "end_time": iso,
        "status": "success",
        "error": None,
        "inputs": {},
        "outputs": {},
        "extra": {
            "metadata": about | ({} if step is None else {"langgraph_step": step, "langgraph_node": name}),
            "runtime": {"sdk": "langsmith-py", "sdk_version": "0.14.17", "platform": "Linux", "runtime": "python"},
        },
        "tags": ["seq:step:1"],
        "parent_run_id": above[-1]["id"] if above else None,
        "parent_run_ids": [one["id"] for one in above],
        "trace_id": trace,
        "dotted_order": ".".join([*(one["dotted_order"].rpartition(".")[2] for one in above), stamp + own]),
        "session_id": project,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "total_cost": None,
        "events": [{"name": "start", "time": iso}, {"name": "end", "time": iso}],
        "app_path": f"/o/0/projects/p/{project}/r/{own}",
        "in_dataset": False,
        "feedback_stats": None,
    }


def _call_model(run: dict[str, Any], said: list[dict[str, Any]], spoken: dict[str, Any]) -> None:
    system = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "SystemMessage"]}
    system["kwargs"] = {"content": _SYSTEM, "type": "system"}
    run["inputs"] = {"messages": [[system, *said]]}
    generation = {"text": spoken["kwargs"]["content"], "generation_info": {"finish_reason": "stop"}, "message": spoken}
    run["outputs"] = {"generations": [[generation]], "llm_output": {"model_name": "gpt-4o-mini"}, "type": "LLMResult"}
    run["extra"]["invocation_params"] = {"model": "gpt-4o-mini", "temperature": 0.5, "tools": _tools()}
    run |= {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980, "total_cost": "0.000183"}


def _human(chance: random.Random, text: str) -> dict[str, Any]:
    names = ["langchain", "schema", "messages", "HumanMessage"]
    return {
        "lc": 1,
        "type": "constructor",
        "id": names,
        "kwargs": {"content": text, "type": "human", "id": _id(chance)},
    }


def _ai(chance: random.Random, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    asked = [{"name": c["name"], "args": c["arguments"], "id": c["id"], "type": "tool_call"} for c in calls]
    counted = {"input_tokens": 900, "output_tokens": 80, "total_tokens": 980}
    about = {"model_name": "gpt-4o-mini-2024-07-18", "finish_reason": "tool_calls" if calls else "stop"}
    kwargs = {"content": text, "type": "ai", "id": f"run-{_id(chance)}", "tool_calls": asked, "invalid_tool_calls": []}
    kwargs |= {"usage_metadata": counted, "response_metadata": about}
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": kwargs}


def _told(chance: random.Random, call: dict[str, Any]) -> dict[str, Any]:
    kwargs = {"content": json.dumps(_found(chance)), "type": "tool", "name": call["name"], "tool_call_id": call["id"]}
    kwargs |= {"id": _id(chance), "status": "success"}
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": kwargs}


FORMATS: dict[str, Callable[[int], Iterator[bytes]]] = {"otlp": otlp_lines, "langsmith": langsmith_lines}
