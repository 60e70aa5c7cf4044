"""Results of an import, and how much of each run can be replayed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sized

from msgspec.structs import replace

from replaykit.intake.cases import CaseResult
from replaykit.intake.entries import ImportEntry, ImportResult
from replaykit.report.layout import coloured, counted, indented, short, table, tally, to_json, with_hint
from replaykit.terminal import style, visible

MAX_ROWS = 200
"""Rows that are printed at most; `--json` has them all."""
MAX_PROBLEMS = 100
MAX_INCOMPLETE = 20
_CASE_WORDS: dict[str, str] = {
    CaseResult.CREATED: "made",
    CaseResult.THERE: "there already",
    CaseResult.SAME: "that fail like another",
}
_HEAD = ["run", "result", "status", "started (UTC)", "tools", "name → session"]
_DRY_HEAD = ["run", "result", "status", "format", "started (UTC)", "models", "tools", "tokens", "replayable", "name"]
_OPTIONAL = ("tokens", "models", "tools", "format", "started (UTC)", "status")
"""Columns to leave out, in this order, on a narrow terminal."""
_NUMBERS = ("models", "tools", "tokens", "replayable")


def import_json(result: ImportResult) -> Iterator[str]:
    """Everything that is known, piece by piece: there may be very many runs."""
    before, after = to_json(replace(result, entries=())).split('"entries": []')
    yield f'{before}"entries": ['
    separator = "\n    "
    for entry in result.entries:
        yield separator + to_json(entry).replace("\n", "\n    ")
        separator = ",\n    "
    if result.entries:
        yield "\n  "
    yield f"]{after}"


def import_text(result: ImportResult, names: Mapping[str, str]) -> str:
    """Return a line for each run that came in, what cannot be replayed, the cases, and what they add up to.

    `names` are how the ids of runs in the store are printed.
    """
    return "\n".join([*_runs(result, names), *_incomplete(result, names), *_cases(result, names), _total(result)])


def problems_text(result: ImportResult) -> str:
    """Return the problems of an import, a block each."""
    lines = [f"{_named(entry)}{_lines(entry.problem)}" for entry in result.failed[:MAX_PROBLEMS]]
    lines += _more(result.failed, MAX_PROBLEMS)
    return "\n".join(indented(lines, f"{style('error', fg='red', bold=True)}: "))


def _more(found: Sized, shown: int) -> Iterator[str]:
    if len(found) > shown:
        yield f"and {len(found) - shown:,} more; --json has them all"


def _runs(result: ImportResult, names: Mapping[str, str]) -> Iterator[str]:
    found = [entry for entry in result.entries if entry.run]
    if not found:
        return
    row, head = _row, _HEAD
    if result.dry_run:
        row, head = _dry_row, _DRY_HEAD
    optional = [name for name in _OPTIONAL if name in head]
    text = table(head, [row(entry, names) for entry in found[:MAX_ROWS]], optional=optional, numbers=_NUMBERS)
    yield with_hint(text, "All columns in full: --json")
    yield from _more(found, MAX_ROWS)


def _row(entry: ImportEntry, names: Mapping[str, str]) -> list[str]:
    words = (coloured(entry.result), coloured(entry.status))
    return [_run(entry, names), *words, _when(entry), str(entry.tool_calls), _name(entry)]


def _run(entry: ImportEntry, names: Mapping[str, str]) -> str:
    return short(names.get(entry.run, entry.run), 60)


def _name(entry: ImportEntry) -> str:
    return f"{entry.name} → {entry.session}" if entry.session else entry.name


def _dry_row(entry: ImportEntry, names: Mapping[str, str]) -> list[str]:
    tokens = entry.input_tokens + entry.output_tokens
    return [
        _run(entry, names),
        coloured(entry.result),
        coloured(entry.status),
        entry.format,
        _when(entry),
        str(entry.model_calls),
        str(entry.tool_calls),
        f"{tokens:,}" if tokens else "",
        f"{entry.replayable.score:.0%}" if entry.replayable.calls else "",
        _name(entry),
    ]


def _when(entry: ImportEntry) -> str:
    try:
        if entry.started_at:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.started_at))
        return ""
    except (ValueError, OverflowError, OSError):
        return str(entry.started_at)


def _incomplete(result: ImportResult, names: Mapping[str, str]) -> Iterator[str]:
    """The runs of which not everything can be replayed, and what would help, each advice once."""
    lacking = [entry for entry in result.entries if entry.run and entry.replayable.score < 1]
    if not lacking:
        return
    yield style(f"{counted(len(lacking), 'run')} cannot be replayed completely:", fg="yellow")
    for entry in lacking[:MAX_INCOMPLETE]:
        yield f"  {_run(entry, names)}: {entry.replayable.summary}"
    yield from indented(_more(lacking, MAX_INCOMPLETE))
    for advice in dict.fromkeys(text for entry in lacking for text in entry.replayable.advice):
        yield f"  {style('to do better', bold=True)}: {visible(advice)}"


def _cases(result: ImportResult, names: Mapping[str, str]) -> Iterator[str]:
    """The cases of failed runs, and which were left out and why."""
    found = [(entry, entry.case) for entry in result.entries if entry.case is not None]
    if not found:
        return
    rows = []
    for entry, case in found[:MAX_ROWS]:
        why = f" ({case.why})" if case.why else ""
        rows.append([_run(entry, names), coloured(case.result), f"{case.directory}{why}"])
    yield table(["failed run", "case", "where"], rows, is_cut=False)
    yield from _more(found, MAX_ROWS)


def _total(result: ImportResult) -> str:
    runs: Counter[str] = Counter()
    cases = dict.fromkeys(_CASE_WORDS.values(), 0)
    for entry in result.entries:
        runs[entry.result] += 1
        if entry.case is not None and entry.case.result in _CASE_WORDS:
            cases[_CASE_WORDS[entry.case.result]] += 1
    text = tally(dict(sorted(runs.items()))) or "no runs"
    if result.sessions:
        text += f"; {counted(len(result.sessions), 'session')}"
    if any(cases.values()):
        text += f"; cases: {tally(cases)}"
    return f"nothing was written; a real import would give: {text}" if result.dry_run else text


def _lines(text: str) -> str:
    """Return a foreign text with its control characters spelled out."""
    return "\n".join(map(visible, text.splitlines()))


def _named(entry: ImportEntry) -> str:
    """Return the origin and the run of an entry, unless its problem names them already."""
    names = (visible(entry.origin), short(entry.run, 80))
    return "".join(f"{name}: " for name in names if name and name not in entry.problem)
