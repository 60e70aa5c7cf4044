"""A record: one run that came in, or why it did not."""

from __future__ import annotations

from pathlib import Path
from sys import intern

import msgspec
from msgspec import Raw, Struct

from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.totals import total_of
from replaykit.model.run import TraceRun


class ImportRecord(Struct, frozen=True, kw_only=True):
    """One run of a file or of a service; without a run, `problem` says why there is none."""

    origin: str
    """The file, or what it was fetched from."""
    id: str = ""
    run: TraceRun | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


FAILED = "failed"


class Manifest(Struct, frozen=True, kw_only=True):
    """The share of a run that can be replayed."""

    calls: int = 0
    exact: int = 0
    score: float = 1.0
    summary: str = ""
    lacking: Raw = Raw(b"[]")
    """The calls that lack something, each with its number, its name and what it lacks, as JSON."""
    advice: tuple[str, ...] = ()
    """Advice on how to capture more."""


class CaseMade(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of making a case of a failed run."""

    directory: str
    result: str
    why: str = ""


class ImportEntry(Struct, frozen=True, kw_only=True):
    """The result of importing one run."""

    run: str
    origin: str
    result: str
    """imported, updated, unchanged, there or failed."""
    format: str = ""
    name: str = ""
    agent: str = ""
    status: str = ""
    started_at: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    replayable: Manifest = Manifest()
    session: str = ""
    """The file of its session."""
    case: CaseMade | None = None
    problem: str = ""


class ImportResult(Struct, frozen=True, kw_only=True):
    """The results of an import."""

    replaykit: int = 1
    dry_run: bool = False
    entries: tuple[ImportEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> list[ImportEntry]:
        """Runs that did not come in, or without a session or case that was asked for."""
        return [entry for entry in self.entries if entry.problem]

    @property
    def sessions(self) -> list[Path]:
        """The session files, each once."""
        return list(map(Path, dict.fromkeys(entry.session for entry in self.entries if entry.session)))


def entry_of(record: ImportRecord) -> ImportEntry:
    """Return the entry of a record that was not stored yet."""
    run = record.run
    if run is None:
        return ImportEntry(run=record.id, origin=record.origin, result=FAILED, problem=record.problem)
    used = total_of(run)
    return ImportEntry(
        run=run.id,
        origin=record.origin,
        result=FAILED,
        format=intern(run.origin.format or ""),
        name=run.name,
        agent=run.agent,
        status=run.status.value,
        started_at=run.started_at,
        model_calls=len(run.llm_calls),
        tool_calls=len(run.tool_calls),
        input_tokens=used.input_tokens or 0,
        output_tokens=used.output_tokens or 0,
        replayable=manifest_of(run),
    )


def manifest_of(run: TraceRun) -> Manifest:
    """The manifest of a run as a value that says everything."""
    found = replayability(run)
    return Manifest(
        calls=found.calls,
        exact=found.exact,
        score=round(found.score, 3) if found.lacking else 1.0,
        summary=intern(found.summary),
        lacking=Raw(msgspec.json.encode(found.lacking)),
        advice=tuple(map(intern, found.advice)),
    )
