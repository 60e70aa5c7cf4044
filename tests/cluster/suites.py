"""A project whose agents do well, badly, and kill what runs them; and its results without what differs each time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from replaykit.cli import run
from replaykit.redaction.placeholders import placeholder

KEY = b"a key for tests, thirty-two long"
AGENT = """
import os
import signal
from pathlib import Path

import replaykit as rk

LOG = Path({log!r})

@rk.tool
def lookup(order):
    return {{"status": "shipped"}}

@rk.tool
def find(who):
    return {{"status": "shipped"}}

def parent_of(pid):
    return int(Path(f"/proc/{{pid}}/stat").read_text().rsplit(")", 1)[1].split()[1])

def kill(generations):
    pid = os.getpid()
    for _ in range(generations):
        pid = parent_of(pid)
    os.kill(pid, signal.SIGKILL)

def answer(question):
    print("asked", question, flush=True)
    with LOG.open("a") as log:
        log.write(f"{{question}}\\n")
    word = question.split()[-1]
    if word == "crash":
        os._exit(3)
    if word == "once" and LOG.read_text().count(question) == 1:
        kill(3)  # the agent's worker, the process of the chunk, the worker of the engine
    if word == "process":
        kill(2)
    if word == "worker":
        kill(3)
    status = find(who="alice@acme.com")["status"] if word == "redacted" else lookup(order=7)["status"]
    return f"It was {{status}}; the secret is {{os.environ.get('DRIVER_SECRET')}}."
"""
CONTRACT = {"name": "default", "invariants": [{"id": "shipped", "type": "contains", "value": "shipped"}]}
FAULT = {"tool_faults": [{"tool": "lookup", "mode": "error", "error_code": 503}]}


def suite(*words: str, count: int = 12, **parts: Any) -> Path:
    """Write a project with sessions; the n-th word is the last of what the n-th asks. Gives the log of the agent."""
    log = Path("agent.log").absolute()
    Path("shop.py").write_text(AGENT.format(log=str(log)))
    Path("replays").mkdir(exist_ok=True)
    for number in range(count):
        word = words[number] if number < len(words) else "fine"
        response = {"tool": "lookup", "response": {"status": "lost" if word == "lost" else "shipped"}, "status": 200}
        if word == "redacted":
            response |= {"tool": "find", "arguments": {"who": placeholder(KEY, "email", "alice@acme.com")}}
        session = {
            "id": f"s{number:03}",
            "input": f"{number} {word}",
            "contract": "default",
            "tool_responses": [response],
        }
        Path("replays", f"s{number:03}.json").write_text(json.dumps(session))
    agent = {"type": "python", "endpoint": "shop:answer", "timeout": 20000}
    project = {"replaykit": 1, "agent": agent, "contract": CONTRACT, "cases": ["replays"], **parts}
    Path("replaykit.yaml").write_text(json.dumps(project))
    return log


def result_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Return the exit code and the JSON of a command, without its times."""
    capsys.readouterr()
    code = run([*arguments, "--json"])
    return int(code), without_times(json.loads(capsys.readouterr().out))


_TIMES = frozenset({"duration_s", "latency_ms", "at", "started_at", "ended_at", "directory"})
_DIRECTORY = re.compile(r'(?<=File ")/.*(?=/shop.py)')
_EVIDENCE = re.compile(r"\d{8}-\d{6}-|~\d+$")  # the time, and a number for runs of the same second


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in _TIMES}
    if isinstance(value, list):
        return [without_times(part) for part in value]
    if isinstance(value, str):
        return _DIRECTORY.sub("", _EVIDENCE.sub("", value))
    return value


def verdicts(document: Any) -> dict[str, str]:
    return {item["id"]: item["verdict"] for item in document["items"]}


def evidence_files(root: Path = Path(".replaykit/runs")) -> dict[str, str]:
    """Return the logs of the runs that left some."""
    files = sorted(root.rglob("*.log"))
    return {_EVIDENCE.sub("", str(file.relative_to(root))): file.read_text() for file in files}
