"""Golden traces as text and JSON: the one that was made, and what the agent did against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from replaykit.candidates.golden import GoldenResult, GoldenUpdate
from replaykit.cases.golden import Aspect, Golden
from replaykit.model.events import State
from replaykit.model.values import JsonObject
from replaykit.report.layout import counted, to_json
from replaykit.report.recorded_and_current import with_sides
from replaykit.terminal import style, visible, visible_lines


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
    document: JsonObject = {
        "replaykit": 1,
        "file": None if file is None else str(file),
        "name": golden.name,
        "agent": golden.agent,
        "run": golden.run.id,
        "asserts": golden.asserts,
        "ignore": golden.ignore,
        "passed": None,
        "failed": (),
        "first": None,
    }
    if result is not None:
        document |= {"passed": result.passed, "failed": result.failed, "first": result.first}
    return to_json(document)


def updates_text(updates: Sequence[GoldenUpdate]) -> str:
    """Golden traces that an agent was run for: which of them are new."""
    return "\n".join(map(_update_line, updates))


def updates_json(updates: Sequence[GoldenUpdate]) -> str:
    """The same for programs."""
    document = {
        "replaykit": 1,
        "passed": all(update.passed for update in updates),
        "updates": list(map(_document, updates)),
    }
    return to_json(document)


def _document(update: GoldenUpdate) -> JsonObject:
    reason = update.problem
    if not update.passed:
        reason = reason or (update.after or update.before).text
    return {
        "file": str(update.file),
        "updated": update.after is not None,
        "passed": update.passed,
        "reason": reason,
    }


def _update_line(update: GoldenUpdate) -> str:
    if update.problem:
        return visible_lines(f"not updated {update.file}: {update.problem}")
    if update.after is None:
        verb = "unchanged" if update.passed else "would change"
        return f"{verb} {visible(str(update.file))}\n{_explained(update.before)}"
    if update.passed:
        return f"updated {visible(str(update.file))}"
    return f"updated {visible(str(update.file))}, but another run differs from it:\n{_explained(update.after)}"


def _explained(result: GoldenResult) -> str:
    return "\n".join(with_sides(result.text.splitlines()))
