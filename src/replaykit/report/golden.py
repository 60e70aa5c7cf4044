"""Golden traces as text and JSON: the one that was made, and what the agent did against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.golden import GoldenResult, GoldenUpdate
from replaykit.cases.golden import Aspect, Golden
from replaykit.model.events import State
from replaykit.report.layout import JsonResult, counted, to_json
from replaykit.report.recorded_and_current import with_sides
from replaykit.terminal import style, visible, visible_lines
from replaykit.travel.compare_result import FirstDivergence


class GoldenReport(JsonResult, frozen=True, kw_only=True):
    """A golden trace that was made, and what the agent did against it."""

    file: str | None
    """The file that was written; None if the agent did something else."""
    name: str
    """The name of the golden trace."""
    agent: str
    """The name of the agent that the run recorded, which pytest's configuration maps to a function."""
    run: str
    """The id of the run."""
    asserts: Sequence[Aspect]
    """What a later run must match."""
    ignore: Sequence[str]
    """JSON paths of members that change every time."""
    passed: bool | None = None
    """Whether the agent did the same once more; None if it was not run."""
    failed: Sequence[Aspect] = ()
    """The aspects in which the agent did something else."""
    first: FirstDivergence | None = None
    """The earliest place where the agent did something else."""


class UpdatedGolden(Struct, frozen=True, kw_only=True):
    """One golden trace that the agent was run for."""

    file: str
    """The file of the golden trace."""
    updated: bool
    """True when a new recording was written."""
    passed: bool
    """True when the agent does what the file says now."""
    reason: str
    """Why it did not pass; empty if it did."""


class GoldenUpdates(JsonResult, frozen=True, kw_only=True):
    """The golden traces that the agent was run for."""

    passed: bool
    """True when every golden trace passed."""
    updates: Sequence[UpdatedGolden]
    """Every golden trace, in the order they were named."""


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
            "Name the agent in pytest's configuration, for example in pyproject.toml:",
            "  [tool.pytest.ini_options]",
            f"  replaykit_agents = [{line}]",
            f"Next: pytest {file.parent}",
        ]
    )


def golden_json(golden: Golden, file: Path | None, result: GoldenResult | None) -> str:
    """The same for programs; without a file nothing was written."""
    report = GoldenReport(
        file=None if file is None else str(file),
        name=golden.name,
        agent=golden.agent,
        run=golden.run.id,
        asserts=golden.asserts,
        ignore=golden.ignore,
    )
    if result is not None:
        report = replace(report, passed=result.passed, failed=result.failed, first=result.first)
    return to_json(report)


def updates_text(updates: Sequence[GoldenUpdate]) -> str:
    """Golden traces that an agent was run for: which of them are new."""
    return "\n".join(map(_update_line, updates))


def updates_json(updates: Sequence[GoldenUpdate]) -> str:
    """The same for programs."""
    passed = all(update.passed for update in updates)
    return to_json(GoldenUpdates(passed=passed, updates=list(map(_document, updates))))


def _document(update: GoldenUpdate) -> UpdatedGolden:
    reason = update.problem
    if not update.passed:
        reason = reason or (update.after or update.before).text
    return UpdatedGolden(file=str(update.file), updated=update.after is not None, passed=update.passed, reason=reason)


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
