"""Golden traces as text and JSON: the one that was made, and what the agent did against it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from replaykit.cases.golden import Aspect, Golden
from replaykit.model.events import State
from replaykit.model.values import Json
from replaykit.report.panel import counted
from replaykit.runners.golden import GoldenResult
from replaykit.terminal import style


def golden_text(golden: Golden, file: Path, agent: str | None) -> str:
    """A new golden trace: its file, what it asserts, and how pytest runs it."""
    run = golden.run
    counts = {
        Aspect.CALLS: counted(len(run.tool_calls) + len(run.llm_calls), "call"),
        Aspect.STATES: counted(sum(isinstance(event, State) for event in run.events), "state"),
        Aspect.OUTCOME: f"the outcome ({run.status.value})",
    }
    lines = [
        f"Wrote {style(str(file), bold=True)}",
        f"  asserts  {', '.join(counts[aspect] for aspect in golden.asserts)}",
    ]
    if golden.ignore:
        lines.append(f"  ignores  {', '.join(golden.ignore)}")
    if agent is not None:
        lines.append(f"  checked  {agent} does the same")
    line = msgspec.json.encode(f"{golden.agent} = {agent or 'MODULE:FUNCTION'}").decode()  # TOML quotes as JSON does
    return "\n".join(
        [
            *lines,
            "",
            "Say in pytest's configuration which agent that is, such as in pyproject.toml:",
            "  [tool.pytest.ini_options]",
            f"  replaykit_agents = [{line}]",
            f"Next: pytest {file.parent}",
        ]
    )


def golden_json(golden: Golden, file: Path | None, result: GoldenResult | None) -> str:
    """The same for programs; without a file nothing was written."""
    document: dict[str, Json] = {
        "replaykit": 1,
        "file": None if file is None else str(file),
        "name": golden.name,
        "agent": golden.agent,
        "run": golden.run.id,
        "asserts": golden.asserts,
        "ignore": golden.ignore,
        "passed": None if result is None else result.passed,
        "failed": () if result is None else result.failed,
        "first": None if result is None else result.first,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
