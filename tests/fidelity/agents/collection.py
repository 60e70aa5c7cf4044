"""Shared by all agents of the collection: how one is declared, and the marks it leaves.

A tool says `ran("name")` first of all, so that a tool that runs for real in a replay is seen. An agent says
`took("branch")` for each decision, so that a replay that decides otherwise is seen, whatever its verdict is.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import replaykit as rk

F = TypeVar("F", bound=Callable[..., Any])
MARKS = "FIDELITY_MARKS"
SERVER = "FIDELITY_SERVER"


@dataclass(frozen=True)
class Declared:
    """The input of an agent, and what a replay of it has to say."""

    input: str
    inconclusive: dict[str, str] = field(default_factory=dict)
    """For each way in which a replay cannot tell: a word of the reason. Everything else is `reproduced`."""
    may_be_inconclusive: dict[str, str] = field(default_factory=dict)
    """Likewise, where `reproduced` is as good an answer."""
    takes_s: float = 0.0
    """More than a few seconds: recorded in one way only."""


def failing(
    text: str,
    *,
    inconclusive: dict[str, str] | None = None,
    may_be_inconclusive: dict[str, str] | None = None,
    takes_s: float = 0.0,
) -> Callable[[F], F]:
    """Declare an agent that fails with this input."""

    def declare(agent: F) -> F:
        agent.declared = Declared(text, inconclusive or {}, may_be_inconclusive or {}, takes_s)  # type: ignore[attr-defined]
        return agent

    return declare


def every_way(word: str) -> dict[str, str]:
    """The same word in each way of replaying."""
    return dict.fromkeys(("agent", "script", "program", "in_process"), word)


def ran(tool: str) -> None:
    """Leave a mark: the body of a tool is running."""
    _mark(f"ran {tool}")


def took(branch: str) -> None:
    """Leave a mark: the agent went this way."""
    _mark(f"took {branch}")


def _mark(line: str) -> None:
    if file := os.environ.get(MARKS):
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)


def server() -> str:
    """The address of the server on this machine that stands for the network."""
    return os.environ[SERVER]


def main(namespace: dict[str, Any]) -> None:
    """Run the agent that the command line names with what comes on standard input; `--record` records it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("agent")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    agent = namespace[options.agent]
    text = sys.stdin.read()
    if not options.record:
        print(_called(agent, text))
        return
    with rk.record(options.agent, input=text) as run:
        run.output = _called(agent, text)


def _called(agent: Callable[[str], Any], text: str) -> Any:
    answer = agent(text)
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer
