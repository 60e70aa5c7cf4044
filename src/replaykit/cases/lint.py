"""Lint: report every flaw of a case at once, each with its place and a hint."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import UNSET, Struct

from replaykit.cases.case import CASE_FILE, MAX_FLAWS, ReplayCase, build_case, find_case_flaws, open_case
from replaykit.cases.fixture_reader import MAX_FIXTURE_BYTES, FixtureReader
from replaykit.cases.fixtures import FIXTURES, fixture_files
from replaykit.cases.lint_rules import CASE_RULES, FIXTURE_RULES, Fixture, Subject, proof_flaws
from replaykit.cases.session import case_of_session, read_session
from replaykit.cases.session_shape import SESSION, looks_like_session
from replaykit.cases.takes import read_take, take_calls, take_names, takes_directory
from replaykit.documents.document import Document, FilePath, read_bytes
from replaykit.documents.shape import Flaw, FlawSeverity, find_flaws
from replaykit.errors import FormatTooNew, InvalidFile, UsageError, nearest
from replaykit.formats.files import import_trace
from replaykit.model.run import TraceRun
from replaykit.redaction.file_selection import TreeText, files_below, texts_of
from replaykit.redaction.files import Leak, file_redactor, leaks_in, missed_leaks
from replaykit.value_files import VALUES, value_names_in
from replaykit.wire.json_fields import as_object


class Problem(Struct, frozen=True, kw_only=True):
    """A flaw of a case: its place, a message, and a hint."""

    file: str
    """The file, as it was named."""
    line: int | None
    """The line, counted from 1; null for the file as a whole."""
    severity: FlawSeverity
    code: str
    """A stable identifier of this kind of problem."""
    message: str
    hint: str = ""
    """How to solve it."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.severity}: {self.message} [{self.code}]"


def lint_case(path: FilePath) -> list[Problem]:
    """Return all problems of a case, sorted by file and line; never raises for a wrong case."""
    return _lint(path)[1]


def lint_cases(paths: Iterable[FilePath], on_done: Callable[[], None] = lambda: None) -> list[Problem]:
    """Return all problems of some cases, including ids that several of them share."""
    problems: list[Problem] = []
    owners: dict[str, str] = {}
    for path in paths:
        document, found_problems = _lint(path)
        problems += found_problems
        on_done()
        case_id = as_object(document and document.value).get("id")
        if document is None or not isinstance(case_id, str):
            continue
        owner = owners.setdefault(case_id, document.file)
        if os.path.realpath(owner) != os.path.realpath(document.file):
            flaw = Flaw(("id",), "duplicate-id", f"the id {case_id!r} is also that of {owner}", "Rename one of them.")
            problems += located(document, [flaw])
    return problems


def _lint(path: FilePath) -> tuple[Document | None, list[Problem]]:
    try:
        document, directory = open_case(path)
    except (InvalidFile, FormatTooNew) as error:
        return None, [problem_of(error, str(path))]
    if Path(document.file).name != CASE_FILE and looks_like_session(document.value):
        flaws = list(islice(find_flaws(SESSION, document.value), MAX_FLAWS))
        flaws += [] if flaws else _session_proof(document)
        return document, located(document, flaws) + _secrets([Path(document.file)])
    fixtures, problems = _read_fixtures(directory)
    problems += _secrets(files_below(directory, ignored=True))
    flaws = list(find_case_flaws(document, directory))
    if not flaws:
        case = build_case(document, directory)
        problems += _take_problems(case)
        run, flaws, unreadable = _read_run(case)
        subject = Subject(case=case, fixtures=tuple(fixtures), run=run)
        for rule in CASE_RULES:
            flaws += islice(rule(subject), MAX_FLAWS)
        problems += unreadable + _fixture_problems(subject) + _unused_in(case)
    problems += located(document, flaws)
    return document, sorted(problems, key=lambda problem: (problem.file, problem.line or 0))


def _session_proof(document: Document) -> list[Flaw]:
    """Return a warning if the session was never seen to break its contract."""
    try:
        session = read_session(document)
    except (InvalidFile, FormatTooNew):  # it refers to another session file, which is linted by itself
        return []
    return list(proof_flaws(case_of_session(session, ())))


def _hint(leak: Leak) -> str:
    if leak.allow is UNSET:
        return "Redact it: replaykit redact CASE. If it is not a secret: allow = [...] in redaction.toml"
    return f'Remove it. If it is not a secret: allow = ["{leak.allow}"] in redaction.toml'


def _secrets(files: Iterable[Path]) -> list[Problem]:
    """Return secrets that must not be committed with the case; none if redaction is off."""
    return list(map(_secret, islice(_leaks(files), MAX_FLAWS)))


def _leaks(files: Iterable[Path]) -> Iterator[Leak]:
    redactor = file_redactor(foreign=True)
    if redactor is None:
        return
    for text in texts_of(files):
        if isinstance(text, TreeText):
            yield from leaks_in(text.name, text.data, redactor)
            yield from missed_leaks(text.name, text.data, redactor)


def _secret(leak: Leak) -> Problem:
    return Problem(
        file=leak.file,
        line=leak.line,
        severity=FlawSeverity.ERROR,
        code="secret",
        message=f"{leak.kind} in column {leak.column}: secrets and personal data do not belong in a case",
        hint=_hint(leak),
    )


def _read_fixtures(directory: Path) -> tuple[list[Fixture], list[Problem]]:
    fixtures: list[Fixture] = []
    problems = []
    try:
        files = fixture_files(directory)
    except InvalidFile as error:
        return [], [problem_of(error, str(directory / FIXTURES))]
    reader = FixtureReader(directory / FIXTURES)
    for file in files:
        try:
            fixtures += [Fixture(file, index, call) for index, call in enumerate(reader.read(file))]
        except (InvalidFile, FormatTooNew) as error:
            problems.append(problem_of(error, str(file)))
    return fixtures, problems


def _take_problems(case: ReplayCase) -> list[Problem]:
    """Return the first problem of each take."""
    problems = []
    folder = takes_directory(case)
    for name in take_names(folder):
        try:
            read_take(case, name)
            take_calls(case, name)
        except (InvalidFile, FormatTooNew) as error:
            problems.append(problem_of(error, str(folder / name)))
    return problems


def _unused_in(case: ReplayCase) -> list[Problem]:
    """Warn about value files that no call refers to."""
    try:
        files = fixture_files(case.directory)
    except InvalidFile:  # reported already
        return []
    trace = case.trace_path
    if trace is not None and trace.is_file():
        files.append(trace)
    folder = case.directory / FIXTURES / VALUES
    if not folder.is_dir():
        return []
    names = {f"{VALUES}/{name}" for name in os.listdir(folder)}
    for file in files:
        text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES).decode(errors="replace")
        names.difference_update(value_names_in(text))
    problems = []
    for name in sorted(names)[:MAX_FLAWS]:
        flaw = Flaw((), "unused-value", "no call refers to this file", "Remove it.", FlawSeverity.WARNING)
        problems.append(_problem(str(case.directory / FIXTURES / name), None, flaw))
    return problems


def _read_run(case: ReplayCase) -> tuple[TraceRun | None, list[Flaw], list[Problem]]:
    """Return the run the case was made from, or the problems: of the case, or of the trace itself."""
    trace = case.trace_path
    if trace is None:
        return None, [], []
    if not trace.exists():
        message = f"the source trace {case.source.trace!r} does not exist"
        return None, [Flaw(("source", "trace"), "missing-trace", message, "Restore it, or remove the key.")], []
    try:
        runs = {run.id: run for run in import_trace(trace, case.source.format).runs}
    except (InvalidFile, FormatTooNew) as error:
        return None, [], [problem_of(error, str(trace))]
    except UsageError as error:
        return None, [Flaw(("source", "format"), "bad-value", f"source.format: {error.message}")], []
    run_id = case.source.run
    if run_id is None:
        return next(iter(runs.values()), None), [], []
    if run_id not in runs:
        message = f"the trace has no run {run_id!r}; {nearest(run_id[:80], runs)}"
        return None, [Flaw(("source", "run"), "missing-run", message, "Name a run of the trace.")], []
    return runs[run_id], [], []


def _fixture_problems(subject: Subject) -> list[Problem]:
    flaws: defaultdict[Path, list[Flaw]] = defaultdict(list)
    for rule in FIXTURE_RULES:
        for fixture, flaw in islice(rule(subject), MAX_FLAWS):
            flaws[fixture.file].append(flaw)
    problems: list[Problem] = []
    for file, file_flaws in flaws.items():
        problems += located(Document(None, file=str(file), text=read_bytes(file)), file_flaws)
    return problems


def located(document: Document, flaws: list[Flaw]) -> list[Problem]:
    """Return the flaws of a document as problems with file and line."""
    lines = document.lines([flaw.path for flaw in flaws]) if flaws else []
    return list(map(partial(_problem, document.file), lines, flaws))


def _problem(file: str, line: int | None, flaw: Flaw) -> Problem:
    return Problem(file=file, line=line, severity=flaw.severity, code=flaw.code, message=flaw.message, hint=flaw.hint)


def problem_of(error: InvalidFile | FormatTooNew, file: str) -> Problem:
    """Return an unreadable file as a problem."""
    if isinstance(error, FormatTooNew):
        code, line, message = "format-too-new", None, error.message
    else:
        code, line, message, file = "invalid-file", error.line, error.reason, error.file
    return _problem(file, line, Flaw((), code, message, error.hint or "Correct the file."))
