"""What both example runners share: the runner contract, and a world that answers from the case's fixtures.

A runner is any program. ReplayKit tells it in environment variables where the case is, and reads the JSON it
writes. This one uses the standard library only, so it shows the whole contract.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

Agent = Callable[["World", str], str]


class ToolFailed(Exception):
    """A tool did not answer; the text is what the agent gets to see."""


class LimitReached(Exception):
    """The agent used up what it was given."""


class DeadlinePassed(Exception):
    """The agent took too long."""


class World:
    """The tools of the agent, frozen: each call gets the outcome that was recorded for it."""

    def __init__(self, fixtures: pathlib.Path) -> None:
        self.calls: list[dict[str, Any]] = []
        self._outcomes: dict[str, list[dict[str, Any]]] = {}
        self._served: dict[str, int] = {}
        for file in sorted(fixtures.glob("*.json")):
            fixture = json.loads(file.read_text(encoding="utf-8"))
            if fixture["kind"] == "tool_call":
                for entry in fixture["calls"]:
                    call = _whole_call(entry, fixture.get("parts", {}), fixtures)
                    self._outcomes.setdefault(_key(fixture["name"], call["arguments"]), []).append(call)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool: its recorded result comes back, its recorded error is raised."""
        outcome = self._next_outcome(_key(tool, arguments))
        error = outcome.get("error")
        output = outcome.get("result") if error is None else f"{error['type']}: {error['message']}"
        self.calls.append({"tool_name": tool, "tool_args": arguments, "tool_output": output})
        if error is not None:
            raise ToolFailed(output)
        return output

    def _next_outcome(self, key: str) -> dict[str, Any]:
        outcomes = self._outcomes.get(key)
        if not outcomes:
            return {"error": {"type": "NotRecorded", "message": f"the fixtures hold no answer for {key}"}}
        served = self._served.get(key, 0)
        self._served[key] = served + 1
        # Who asks more often than was recorded meets what a loop would have met: the last answer again.
        return outcomes[min(served, len(outcomes) - 1)]


def run(agents: dict[str, Agent]) -> None:
    """Run the agent that the source trace names, and write what it did to the output path."""
    trace = json.loads(pathlib.Path(os.environ["REPLAYKIT_SOURCE_TRACE_PATH"]).read_text(encoding="utf-8"))
    agent = agents.get(trace.get("agent", ""))
    if agent is None:
        sys.exit(f"no agent here for {trace.get('agent')!r}; known: {', '.join(agents)}")
    world = World(pathlib.Path(os.environ["REPLAYKIT_FIXTURES_DIR"]))
    report = _report(agent, world, _question(trace))
    output = json.dumps(report, ensure_ascii=False, indent=2)
    pathlib.Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).write_text(output, encoding="utf-8")


def _report(agent: Agent, world: World, question: str) -> dict[str, Any]:
    status, answer, errors = "success", None, []
    try:
        answer = agent(world, question)
    except DeadlinePassed as error:
        status, errors = "timeout", [str(error)]
    except (LimitReached, ToolFailed) as error:
        status, errors = "error", [str(error)]
    return {
        "run_id": f"candidate-{pathlib.Path(os.environ['REPLAYKIT_CASE_PATH']).parent.name}",
        "status": status,
        "final_output": answer,
        "tool_calls": world.calls,
        "errors": errors,
    }


def _question(trace: dict[str, Any]) -> str:
    return next(event["content"] for event in trace["events"] if event["type"] == "input_message")


def _whole_call(call: dict[str, Any], parts: dict[str, list[Any]], fixtures: pathlib.Path) -> dict[str, Any]:
    """Put a call together: its shared arguments from the file's parts, its large values from files of their own."""
    whole = {"arguments": {}, **call}
    for path, reference in call.get("parts", {}).items():
        _put(whole["arguments"], path.split("."), _part(parts[path], reference))
    for path, name in call.get("values", {}).items():
        _put(whole, path.split("."), json.loads((fixtures / name).read_text(encoding="utf-8")))
    return whole


def _part(items: list[Any], reference: int | str) -> Any:
    """One item for a number; for a text such as `0-3,7` a list of these items."""
    if isinstance(reference, int):
        return items[reference]
    ends = [positions.split("-") for positions in reference.split(",")]
    return [item for end in ends for item in items[int(end[0]) : int(end[-1]) + 1]]


def _put(place: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        place = place[step]
    place[int(path[-1]) if isinstance(place, list) else path[-1]] = value


def _key(tool: str, arguments: Any) -> str:
    return f"{tool}({json.dumps(arguments, sort_keys=True, ensure_ascii=False)})"
