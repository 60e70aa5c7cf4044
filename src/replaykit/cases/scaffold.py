"""Scaffold: a failed run becomes a case directory, all of it or none."""

from __future__ import annotations

import datetime as dt
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from replaykit.cases.case import CASE_FILE, CaseSource, ReplayCase, Scenario, dump_case, load_case
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S, MAX_SEED
from replaykit.cases.fixtures import FIXTURES, reference_names, value_writer, write_fixtures
from replaykit.cases.signatures import FailureSignature, detect, propose_desired, propose_semantic
from replaykit.cases.takes import move_into_place, remove
from replaykit.cases.timeline import render_notes, title_of
from replaykit.config import MAX_TIMEOUT_S
from replaykit.documents.document import FilePath
from replaykit.documents.slug import typeable
from replaykit.errors import InvalidFile, ReplayKitError, UsageError
from replaykit.formats import run_log
from replaykit.model.changed_files import changed_files
from replaykit.model.compact_run import WriteValue, encode_compact_run
from replaykit.model.json_layout import laid_out
from replaykit.model.matching import MatchRules, OnMiss, ToolErrors
from replaykit.model.run import TraceRun
from replaykit.model.shared_parts import LARGE_BYTES
from replaykit.model.tool_errors import EVERY_TOOL, tool_errors_in
from replaykit.model.values import Json, JsonObject, Raw
from replaykit.redaction.files import clean_bytes, clean_text, file_redactor, refuse_leaks
from replaykit.redaction.placeholders import holds_placeholder, key_id
from replaykit.value_files import VALUES
from replaykit.wire.json_fields import as_object

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

TRACE_FILE = "source-trace.json"
NOTES_FILE = "notes.md"
_OPEN_LEVELS = 3  # of the run log: a line for each event at least
_ASKS_AGAIN = ("max_tool_calls", "tool.ignored_error", "tool.unretried_error")
"""Signatures of agents that call again: a loop or a retry asks for more than was recorded, and meets the same wall."""


def scaffold(
    run: TraceRun,
    out: FilePath,
    *,
    source_text: bytes | None = None,
    source_format: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    remarks: Sequence[str] = (),
    force: bool = False,
    redact: bool | None = None,
) -> ReplayCase:
    """The case made from a run, written to the directory `out`.

    `source_text` is the trace the run was read from; without it the run log is kept in its place. `remarks` go
    into the notes. When no detector knows the failure, the case's `observed` is empty and the notes say so.

    Nothing secret gets into the case: it is redacted as it is made, whatever the run's store was opened with, and a
    finding that is left refuses it. `redact=False` is for made-up data; without it the environment decides.
    """
    redactor = file_redactor(redact)
    passed: list[Raw] = []
    if redactor is not None:
        run, passed = _redacted(run, redactor)
    signatures = detect(run)
    with _new_directory(Path(out), force=force) as (draft, target):
        (draft / FIXTURES).mkdir()
        values = value_writer(draft, redactor, passed)
        if source_text is None:
            source_text, source_format = encode_source_trace(run, values.write, redactor), run_log.FORMAT
        source = CaseSource(trace=TRACE_FILE, run=run.id.strip() or None, format=source_format or run.origin.format)
        case = _case(run, signatures, case_id=case_id or typeable(target.name), title=title, source=source)
        (draft / TRACE_FILE).write_bytes(clean_bytes(source_text, redactor))
        calls = [call for call in run.calls if call.answered or not call.complete]
        write_fixtures(draft, calls, redactor, values=values)
        case = _with_key_id(case, draft, redactor)
        texts = {NOTES_FILE: render_notes(case.title, run, signatures, remarks), CASE_FILE: dump_case(case)}
        for name, text in texts.items():
            (draft / name).write_text(clean_text(text, redactor), encoding="utf-8", newline="\n")
        _read_back(draft, out)
        for files in _DraftFiles.of(draft, out).in_portions():
            refuse_leaks(files, redactor)
    return load_case(out)


def _redacted(run: TraceRun, redactor: Redactor) -> tuple[TraceRun, list[Raw]]:
    """The run as it may be written, and those of its large results in which nothing was found."""
    from replaykit.redaction.events import Door  # noqa: PLC0415 (not where redaction is turned off)
    from replaykit.redaction.search import HitlessTexts  # noqa: PLC0415

    redactor.hitless_texts = HitlessTexts()
    door = Door(redactor)
    redacted = door.run(run)
    if not door.is_local:
        return redacted, []  # a value that a path leads to is looked at by itself, too
    passed = []
    for before, after in zip(run.calls, redacted.calls, strict=True):
        if after.result_json is before.result_json and len(after.result_json) >= LARGE_BYTES:
            passed.append(after.result_json)
    return redacted, passed


def case_of(run: TraceRun, *, case_id: str | None = None, title: str | None = None) -> ReplayCase:
    """The case a run makes, as a value: nothing is written, and the run itself is its tape."""
    name = case_id or typeable(run.name or run.id)
    return _case(run, detect(run), case_id=name, title=title, source=CaseSource(run=run.id.strip() or None))


def _case(
    run: TraceRun, signatures: Sequence[FailureSignature], *, case_id: str, title: str | None, source: CaseSource
) -> ReplayCase:
    observed = tuple(signature.assertion for signature in signatures)
    asks_again = any(assertion.kind in _ASKS_AGAIN for assertion in observed)
    match = MatchRules(on_miss=OnMiss.REPEAT if asks_again else OnMiss.ERROR)
    program = _program(run)
    return ReplayCase(
        id=case_id,
        title=title or title_of(run, signatures),
        source=source,
        scenario=Scenario(
            input_json=run.input_json,
            tool_errors=_tool_errors(run),
            match=match,
            clock=_clock(run),
            timeout_s=_timeout_s(run),
            stdin=program.get("stdin") is True,
            seed=run.chance.seed or _seed(program.get("seed")),
            not_held=run.chance.not_held,
            held_up_s=run.chance.held_up_s,
            after_calls_s=min(run.chance.after_calls_s, MAX_TIMEOUT_S),
            changed_files=changed_files(run.events),
            environment=_environment(run),
        ),
        observed=observed,
        desired=tuple(propose_desired(run, signatures)),
        semantic=tuple(propose_semantic(run, signatures)),
        tags=tuple(filter(str.strip, run.tags)),
    )


def _with_key_id(case: ReplayCase, draft: Path, redactor: Redactor | None) -> ReplayCase:
    """The case with a word on which key made its placeholders, where it has some: with another, kinds are compared."""
    if redactor is None or not any(map(holds_placeholder, _DraftFiles.of(draft, draft).values())):
        return case
    match = msgspec.structs.replace(case.scenario.match, redaction_key_id=key_id(redactor.key))
    return msgspec.structs.replace(case, scenario=msgspec.structs.replace(case.scenario, match=match))


def _read_back(draft: Path, out: FilePath) -> None:
    """Refuse a draft that cannot be read: it must not become a case. The file it would name is gone by then."""
    try:
        load_case(draft)
    except InvalidFile as error:
        raise UsageError(f"no case {os.fspath(out)!r} can be made of this run: {error.reason}") from error


def _tool_errors(run: TraceRun) -> tuple[tuple[str, ToolErrors], ...]:
    """Return how failed calls of tools end in a replay; nothing where the trace leaves no doubt."""
    by_tool = tool_errors_in(run.calls)
    modes = set(by_tool.values())
    if len(modes) == 1:
        return ((EVERY_TOOL, modes.pop()),)
    return tuple(by_tool.items())


def _clock(run: TraceRun) -> str | None:
    if not run.started_at:
        return None
    with suppress(ValueError, OverflowError, OSError):
        moment = dt.datetime.fromtimestamp(run.started_at, dt.UTC)
        return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
    return None


def _timeout_s(run: TraceRun) -> int:
    """Twice as long as a recorded run took, for candidates that wait in earnest; never less than the usual time."""
    is_recorded = any(call.span is not None for call in run.calls)
    length_s = run.duration_s or 0.0 if is_recorded else 0.0
    return min(max(DEFAULT_TIMEOUT_S, math.ceil(2 * length_s)), MAX_TIMEOUT_S)


def _seed(seed: Json) -> int | None:
    if type(seed) is int and 0 <= seed <= MAX_SEED:
        return seed
    return None


def _environment(run: TraceRun) -> tuple[tuple[str, str], ...]:
    """Variables whose values the recording wrote down; whether a replay sets them is not up to the file."""
    variables = {**as_object(_program(run).get("environment"))}
    if run.chance.hash_seed:
        variables["PYTHONHASHSEED"] = run.chance.hash_seed
    return tuple((name, value) for name, value in variables.items() if isinstance(value, str) and "\0" not in value)


def _program(run: TraceRun) -> JsonObject:
    """Return what a recording of a whole program says of it."""
    return as_object(as_object(run.metadata).get("program"))


def encode_source_trace(run: TraceRun, write_value: WriteValue, redactor: Redactor | None) -> bytes:
    """Return the run log that a case keeps of a recorded run; large values are those of the fixtures' folder."""
    text = encode_compact_run(run, lambda value: f"{FIXTURES}/{write_value(value)}", reference_names(redactor))
    return laid_out(text, open_levels=_OPEN_LEVELS)


class _DraftFiles(Mapping[str, bytes]):
    """The files of a draft by the names they will have; each is read when it is looked at, and not held."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    @classmethod
    def of(cls, draft: Path, out: FilePath) -> _DraftFiles:
        """All files of a draft."""
        files = [file for file in sorted(draft.rglob("*")) if file.is_file()]
        return cls({os.path.join(out, file.relative_to(draft)): file for file in files})

    def in_portions(self) -> Iterator[_DraftFiles]:
        """Each value file by itself, since a check remembers what it has looked at; the others all together."""
        yield _DraftFiles({name: file for name, file in self._files.items() if file.parent.name != VALUES})
        yield from (_DraftFiles({name: file}) for name, file in self._files.items() if file.parent.name == VALUES)

    def __getitem__(self, name: str) -> bytes:
        return self._files[name].read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@contextmanager
def _new_directory(out: Path, *, force: bool) -> Iterator[tuple[Path, Path]]:
    """A draft beside the target that takes its place when the block ends well, and goes away when it does not."""
    target = Path(os.path.realpath(out))
    _refuse_occupied(target, out, force=force)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        yield draft, target
        move_into_place(draft, target)
    except OSError as error:
        raise ReplayKitError(f"the case {str(out)!r} could not be written: {error}") from error
    finally:
        remove(draft)


def _refuse_occupied(target: Path, out: Path, *, force: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{str(out)!r} is a file; a case is a directory", hint="Name another one with --out.")
    if not any(target.iterdir()):
        return
    if not force:
        raise UsageError(
            f"{str(out)!r} exists and is not empty", hint="Replace it with --force, or name another --out."
        )
    if not (target / CASE_FILE).is_file():
        # `--force --out .` must not cost anybody a home directory.
        raise UsageError(
            f"{str(out)!r} holds no {CASE_FILE}, so it is not replaced", hint="Name another one with --out."
        )
