"""What a case costs beside what was said in its run: bytes, CPU and memory of scaffolding and replaying."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import workloads
from clock import Stopwatch, disk_bytes, process_cost
from measurements import Numbers

_PAGE_BYTES = 1_000_000
_PARAGRAPH_BYTES = 20_000
_AGENT = f"""\
import random
import replaykit as rk
from workloads import prose

@rk.tool
def fetch(page: int) -> str:
    rng = random.Random(page)
    paragraph = prose(rng, {_PARAGRAPH_BYTES})
    text = "".join(f"{{page}} {{rng.random()}} {{paragraph}}\\n" for _ in range({_PAGE_BYTES // _PARAGRAPH_BYTES}))
    return text[:{_PAGE_BYTES}]

def read_pages(count: int) -> str:
    for page in range(count):
        fetch(page)
    raise RuntimeError("nothing was found on any page")

def record(count: int) -> None:
    try:
        with rk.record("pages", input=count):
            read_pages(count)
    except RuntimeError:
        print("recorded")
"""


def growing_case(rk: ModuleType, work: Path, count: int) -> Numbers:
    """Record, scaffold and replay `count` model calls over a conversation that grows by a message of 1 KB a call."""
    messages = workloads.messages(count)

    @rk.tool
    def complete(messages: list[dict[str, Any]]) -> dict[str, str]:
        return {"role": "assistant", "content": f"answer {len(messages)}"}

    def converse(_input: Any = None) -> None:
        for index in range(count):
            complete(messages=messages[: index + 1])
        raise RuntimeError("the conversation went nowhere")

    with rk.Store.open(work / "store.db") as store:
        with Stopwatch() as recording, suppress(RuntimeError), rk.record("conversation", store=store):
            converse()
        run = store.load("conversation")
    with Stopwatch() as scaffolding:
        rk.scaffold(run, work / "case")
    with Stopwatch() as replaying:
        result = rk.replay(work / "case", converse)
    if result.verdict != "reproduced":
        raise RuntimeError(f"the conversation is {result.verdict}, not reproduced")
    return {
        "bytes": disk_bytes(work / "case"),
        "record_s": recording.cpu_s,
        "scaffold_s": scaffolding.cpu_s,
        "replay_s": replaying.cpu_s,
    }


def growing_model_case(rk: ModuleType, work: Path, count: int) -> Numbers:
    """The same over HTTP: requests to a model on loopback, as SDKs send them. `agent_s`: making their bodies alone."""
    messages = [{"role": "user", "content": message["content"]} for message in workloads.messages(count)]
    server = HTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def bodies() -> Iterator[bytes]:
        for index in range(count):
            yield json.dumps({"model": "gpt-5", "messages": messages[: index + 1]}).encode()

    def converse(_input: Any = None) -> None:
        for body in bodies():
            connection = HTTPConnection("127.0.0.1", server.server_port)
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            connection.getresponse().read()
            connection.close()
        raise RuntimeError("the conversation went nowhere")

    with rk.Store.open(work / "store.db") as store:
        with suppress(RuntimeError), rk.record("conversation", store=store):
            converse()
        run = store.load("conversation")
    server.shutdown()
    rk.scaffold(run, work / "case")
    with Stopwatch() as replaying:
        result = rk.replay(work / "case", converse)
    if result.verdict != "reproduced":
        raise RuntimeError(f"the conversation is {result.verdict}, not reproduced")
    with Stopwatch() as agent:
        for _ in bodies():
            pass
    return {"replay_s": replaying.cpu_s, "agent_s": agent.cpu_s}


class _Model(BaseHTTPRequestHandler):
    """Answers every request alike."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "go on"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"object": "chat.completion", "model": "gpt-5", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def imported_case(source: str, work: Path, count: int) -> Numbers:
    """Scaffold a chat of `count` messages, 2.75 KB each on average, from a file, in a process of its own."""
    file = work / "chat.json"
    file.write_text(json.dumps({"model": "gpt-5", "messages": _chat(count)}))
    arguments = ["-c", _command("scaffold", str(file), "--out", "case", "--allow-incomplete")]
    cost = process_cost(arguments, cwd=work, env=os.environ | {"PYTHONPATH": source}, expect="Created case")
    return {"bytes": disk_bytes(work / "case"), "scaffold_s": cost.cpu_s, "source_bytes": file.stat().st_size}


def large_case(source: str, work: Path, count: int) -> Numbers:
    """Record `count` results of 1 MB, scaffold the run, and replay the agent, each in a process of its own."""
    (work / "agent.py").write_text(_AGENT)
    places = [str(work), source, str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}

    def cost(statement: str, expect: str) -> Stopwatch:
        return process_cost(["-c", statement], cwd=work, env=environment, expect=expect)

    recording = cost(f"from agent import record; record({count})", "recorded")
    scaffolding = cost(_command("scaffold", "pages", "--out", "case"), "Ready: reproduced")
    replaying = cost(_command("replay", "case", "--agent", "agent:read_pages"), "REPRODUCED")
    return {
        "bytes": disk_bytes(work / "case"),
        "record_s": recording.cpu_s,
        "scaffold_s": scaffolding.cpu_s,
        "scaffold_times": scaffolding.cpu_s / recording.cpu_s,
        "scaffold_peak_bytes": scaffolding.peak_bytes,
        "replay_s": replaying.cpu_s,
        "replay_peak_bytes": replaying.peak_bytes,
    }


def _command(*words: str) -> str:
    """The statement of a `replaykit` command that ends with 0 also where its verdict is red."""
    return (
        "import sys; from replaykit.__main__ import main\n"
        f"sys.argv = {['replaykit', *words]!r}\n"
        "try: main()\n"
        "except SystemExit as end: sys.exit(end.code not in (None, 0, 1, 3))"
    )


def _chat(count: int) -> list[dict[str, Any]]:
    """A chat with a tool: amounts, dates and numbers in it, as orders have them."""
    rng = random.Random(4)
    chat: list[dict[str, Any]] = [{"role": "system", "content": workloads.prose(rng, 2550)}]
    order = 0
    while len(chat) < count:
        order += 1
        call = {"name": "lookup", "arguments": json.dumps({"order": order})}
        found = {"order": order, "paid": f"{order}.95 EUR", "on": f"2024-03-{order % 28 + 1:02}"}
        chat += [
            {"role": "user", "content": f"Order {order}, 12.{order % 90 + 10} EUR: {workloads.prose(rng, 2550)}"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{order}", "function": call}]},
            {
                "role": "tool",
                "tool_call_id": f"call_{order}",
                "content": json.dumps(found) + workloads.prose(rng, 5600),
            },
            {"role": "assistant", "content": workloads.prose(rng, 2550)},
        ]
    return chat[:count]
