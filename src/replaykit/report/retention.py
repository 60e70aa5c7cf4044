"""Results of pruning, copying and repairing a store, as text and JSON."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.model.run import RunHeader
from replaykit.report.layout import JsonResult, coloured, counted, indented, short, table, to_json
from replaykit.retention.policy import shown_bytes
from replaykit.retention.prune import PruneResult
from replaykit.store.backup import Copied
from replaykit.store.protocol import Damage
from replaykit.store.repair.salvage import Salvaged
from replaykit.terminal import style, visible


class CopiedStore(JsonResult, frozen=True, kw_only=True):
    """A backup, or the store that was made of one."""

    file: str
    """The file that was written."""
    runs: int
    """The number of runs in it."""
    size_bytes: int


class StoreHealth(JsonResult, frozen=True, kw_only=True):
    """Whether a store is whole."""

    whole: bool
    """True when nothing is damaged."""
    damage: Sequence[Damage]
    """Everything that is damaged."""


class TaggedRun(Struct, frozen=True, kw_only=True):
    """A run and its tags."""

    id: str
    """The id of the run."""
    tags: Sequence[str]
    """All tags of the run; one that is tagged `keep` is never pruned."""


class TaggedRuns(JsonResult, frozen=True, kw_only=True):
    """The runs that were protected from pruning, or no longer are."""

    runs: Sequence[TaggedRun]
    """The runs that were named."""


_SHOWN = 20


def pruned_text(result: PruneResult) -> str:
    """Return which runs were deleted and why, and the space that was freed."""
    lines: list[str] = []
    if result.runs:
        shown = result.runs[:_SHOWN]
        rows = []
        for run in shown:
            day = time.strftime("%Y-%m-%d", time.gmtime(run.ended_at))
            name, status = short(run.name, 24), coloured(run.status.value)
            rows.append((run.run, name, status, day, shown_bytes(run.size_bytes), run.why))
        lines.append(table(("run", "name", "status", "ended", "bytes", "why"), rows, numbers=("bytes",)))
        if len(result.runs) > len(shown):
            lines.append(f"… and {len(result.runs) - len(shown)} more; all of them: --json")
        lines.append("")
        lines += [f"{counted(count, 'run')}: {why}" for why, count in Counter(run.why for run in result.runs).items()]
    for why, count in result.stays.items():
        verb = "stays" if count == 1 else "stay"
        lines.append(f"{counted(count, 'old run')} {verb}: {why}")
    lines += indented(result.notes, "note: ")
    return "\n".join([*lines, _summary(result)])


def _summary(result: PruneResult) -> str:
    runs, size = counted(len(result.runs), "run"), shown_bytes(result.freed_bytes)
    if result.dry_run:
        planned = f"{runs} would be deleted (about {size}), {result.remaining} would stay"
        return f"{planned}. To delete: replaykit store prune" if result.runs else planned
    before, after = shown_bytes(result.file_bytes_before), shown_bytes(result.file_bytes)
    return f"{runs} deleted (about {size}), {result.remaining} stay. The file had {before}, and has {after}."


def copied_json(copied: Copied) -> str:
    """A backup or a restored store, for programs."""
    return to_json(CopiedStore(file=str(copied.file), runs=copied.runs, size_bytes=copied.size_bytes))


def tagged_json(headers: Sequence[RunHeader]) -> str:
    """Runs and their tags, for programs."""
    return to_json(TaggedRuns(runs=[TaggedRun(id=header.id, tags=header.tags) for header in headers]))


def health_json(damage: Sequence[Damage]) -> str:
    """What is damaged in a store, for programs."""
    return to_json(StoreHealth(whole=not damage, damage=damage))


def copied_text(copied: Copied) -> str:
    """A backup or a restored store, for people."""
    return f"{copied.file}: {counted(copied.runs, 'run')}, {shown_bytes(copied.size_bytes)}, none damaged"


def salvaged_text(result: Salvaged, source: Path) -> str:
    """Return what was saved and lost, and what to type next."""
    lines = [f"{style('lost', fg='red')}  {visible(str(loss))}" for loss in result.lost]
    lines.append(f"{counted(result.runs, 'run')} with {counted(result.events, 'event')} saved in {result.store}")
    where = f" --store {shlex.quote(str(source))}"
    lines.append(f"To replace the damaged store: replaykit store restore {shlex.quote(result.store)}{where} --force")
    return "\n".join(lines)
