"""Scaffold: turn a failed run into a case directory, atomically."""

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
_OPEN_LEVELS = 3  # nesting levels of the run log on lines of their own: at least a line per event
# Signatures of agents that call again: a loop or retry needs more answers than recorded, so the last one repeats.
_ASKS_AGAIN = ("max_tool_calls", "tool.ignored_error", "tool.unretried_error")


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
    """Make a case from a run, in the directory `out`.

    `source_text` is the trace that the run came from; without it, the case keeps the run log. `remarks` go into the
    notes. If no detector knows the failure, `observed` is empty and the notes say so.

    The case is redacted as it is written, whatever the store was opened with, and a leak that remains refuses it.
    `redact=False` is for made-up data; by default the environment decides.
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
    """Return the redacted run, and its large results without findings."""
    from replaykit.redaction.events import Door  # noqa: PLC0415 (only if redaction is on)
    from replaykit.redaction.search import HitlessTexts  # noqa: PLC0415

    redactor.hitless_texts = HitlessTexts()
    door = Door(redactor)
    redacted = door.run(run)
    if not door.is_local:
        return redacted, []  # a rule for a path may still change a value, so none has passed
    passed = []
    for before, after in zip(run.calls, redacted.calls, strict=True):
        if after.result_json is before.result_json and len(after.result_json) >= LARGE_BYTES:
            passed.append(after.result_json)
    return redacted, passed


def case_of(run: TraceRun, *, case_id: str | None = None, title: str | None = None) -> ReplayCase:
    """Return the case of a run without writing it; the run itself is its tape."""
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
    """Note the redaction key in a case with placeholders: replays under another key compare them by kind."""
    if redactor is None or not any(map(holds_placeholder, _DraftFiles.of(draft, draft).values())):
        return case
    match = msgspec.structs.replace(case.scenario.match, redaction_key_id=key_id(redactor.key))
    return msgspec.structs.replace(case, scenario=msgspec.structs.replace(case.scenario, match=match))


def _read_back(draft: Path, out: FilePath) -> None:
    """Refuse a draft that cannot be read. The error must not name the draft, which is gone by then."""
    try:
        load_case(draft)
    except InvalidFile as error:
        raise UsageError(f"no case {os.fspath(out)!r} can be made of this run: {error.reason}") from error


def _tool_errors(run: TraceRun) -> tuple[tuple[str, ToolErrors], ...]:
    """Return how failed tool calls end in a replay; empty if the trace leaves no doubt."""
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
    """Return twice the recorded duration, for candidates that really wait, and at least the default."""
    is_recorded = any(call.span is not None for call in run.calls)
    length_s = run.duration_s or 0.0 if is_recorded else 0.0
    return min(max(DEFAULT_TIMEOUT_S, math.ceil(2 * length_s)), MAX_TIMEOUT_S)


def _seed(seed: Json) -> int | None:
    if type(seed) is int and 0 <= seed <= MAX_SEED:
        return seed
    return None


def _environment(run: TraceRun) -> tuple[tuple[str, str], ...]:
    """Return the recorded environment variables; the user decides whether a replay sets them."""
    variables = {**as_object(_program(run).get("environment"))}
    if run.chance.hash_seed:
        variables["PYTHONHASHSEED"] = run.chance.hash_seed
    return tuple((name, value) for name, value in variables.items() if isinstance(value, str) and "\0" not in value)


def _program(run: TraceRun) -> JsonObject:
    """Return the metadata of a recorded program."""
    return as_object(as_object(run.metadata).get("program"))


def encode_source_trace(run: TraceRun, write_value: WriteValue, redactor: Redactor | None) -> bytes:
    """Return the run log that a case keeps; its large values are files in the fixtures' folder."""
    text = encode_compact_run(run, lambda value: f"{FIXTURES}/{write_value(value)}", reference_names(redactor))
    return laid_out(text, open_levels=_OPEN_LEVELS)


class _DraftFiles(Mapping[str, bytes]):
    """The files of a draft by their final names; contents are read on access and not held."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    @classmethod
    def of(cls, draft: Path, out: FilePath) -> _DraftFiles:
        files = [file for file in sorted(draft.rglob("*")) if file.is_file()]
        return cls({os.path.join(out, file.relative_to(draft)): file for file in files})

    def in_portions(self) -> Iterator[_DraftFiles]:
        """Yield each value file by itself, and all others together: a leak check holds what it has searched."""
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
    """Give a draft and its target; the draft replaces the target if the block succeeds, and is removed otherwise."""
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
        # `--force --out .` must not delete a home directory.
        raise UsageError(
            f"{str(out)!r} holds no {CASE_FILE}, so it is not replaced", hint="Name another one with --out."
        )
