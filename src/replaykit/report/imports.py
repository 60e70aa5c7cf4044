"""What became of the runs of an import."""

from __future__ import annotations

import time
from collections import Counter

import msgspec
from click import style

from replaykit.importing.job import Entry, ImportResult
from replaykit.model.values import printable
from replaykit.report.panel import counted, short, table


def import_json(result: ImportResult) -> str:
    """Everything that is known."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def import_text(result: ImportResult) -> str:
    """A line for each run that came in, and what they add up to."""
    rows = [_row(entry) for entry in result.entries if entry.run]
    counts = Counter(entry.result for entry in result.entries)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    lines = [table(["run", "result", "status", "started (UTC)", "tools", "name → session"], rows)] if rows else []
    sessions = f"; {counted(len(result.sessions), 'session')}" if result.sessions else ""
    would = "nothing was written; it would be: " if result.dry_run else ""
    return "\n".join([*lines, f"{would}{told or 'no runs'}{sessions}"])


def problems_text(result: ImportResult) -> str:
    """What went wrong, a block each."""
    mark = style("error", fg="red", bold=True)
    return "\n".join(f"{mark}: {_named(entry)}{_lines(entry.problem)}" for entry in result.failed)


def _lines(text: str) -> str:
    """What a server or a file said, without anything that a terminal would obey."""
    return "\n".join(map(printable, text.splitlines()))


def _named(entry: Entry) -> str:
    return f"{short(entry.run, 80)}: " if entry.run and entry.run not in entry.problem else ""


def _row(entry: Entry) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.started_at)) if entry.started_at else ""
    name = f"{entry.name} → {entry.session}" if entry.session else entry.name
    return [short(entry.run, 60), entry.result, entry.status, when, str(entry.tool_calls), name]
