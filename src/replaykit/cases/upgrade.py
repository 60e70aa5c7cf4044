"""Upgrade: rewrite a case of an older format in the current one, leaving people's own words alone."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase, load_case, open_case
from replaykit.cases.case_shape import CASE_FORMAT
from replaykit.cases.fixture_reader import FIXTURE_FORMAT, MAX_FIXTURE_BYTES
from replaykit.cases.fixtures import (
    FIXTURES,
    encode_fixture,
    fixture_files,
    read_fixture,
    reference_names,
)
from replaykit.cases.proof import proof_after, proof_path
from replaykit.cases.scaffold import encode_source_trace
from replaykit.documents.document import FilePath, read_bytes
from replaykit.documents.struct_files import FileVersion
from replaykit.errors import InvalidFile
from replaykit.formats import run_log
from replaykit.formats.files import import_trace
from replaykit.model.json_positions import line_of
from replaykit.model.run import RUN_FORMAT
from replaykit.model.values import Raw
from replaykit.redaction.files import file_redactor, replace_file, writing
from replaykit.value_files import value_name, value_text

_VERSION = re.compile(rb"""(["']?replaykit["']?\s*:\s*)(\d+)""")


class Rewritten(Struct, frozen=True):
    """A file and its text in the current format."""

    file: Path
    text: bytes


def outdated_files(path: FilePath) -> list[Rewritten]:
    """Return the outdated files of a valid case, each with its new text.

    Only the version number of a file changes, unless its calls share parts or hold large values: these are moved into
    shared parts and files of their own. A proof that still holds is carried over.
    """
    case = load_case(path)
    document, _ = open_case(path)
    current = _with_version(case.file, document.value["replaykit"], CASE_FORMAT, document.line(("replaykit",)))
    values = _NewValues(case.directory / FIXTURES)
    fixtures = [_fixture(file, values) for file in fixture_files(case.directory)]
    trace = _source_trace(case, values)
    outdated = list(filter(None, (current, *fixtures, trace)))
    rewritten = {fixture.file: fixture.text for fixture in fixtures if fixture is not None}
    proof = proof_path(case)
    text = proof_after(case, rewritten) if rewritten else None
    if proof is not None and text is not None:
        outdated.append(Rewritten(proof, text))
    # Values come before the files that name them: an interrupted upgrade leaves a readable case.
    return [*values.files(), *outdated]


def write_files(files: list[Rewritten]) -> None:
    """Write the new texts, each file atomically."""
    for rewritten in files:
        file = rewritten.file
        with writing(file):
            file.parent.mkdir(exist_ok=True)
            replace_file(file, rewritten.text)


class _NewValues:
    """Collects the large values that get files of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, bytes] = {}

    def write(self, value: Raw) -> str:
        """Collect a value; return the name of its file."""
        text = value_text(value)
        name = value_name(text)
        self._texts[name] = text
        return name

    def files(self) -> list[Rewritten]:
        return [Rewritten(self._folder / name, text) for name, text in self._texts.items()]


class _UpgradedReferences(Struct):
    """The references in a fixture file; most have none."""

    parts: dict[str, Raw] = {}
    calls: tuple[_CallReferences, ...] = ()


class _CallReferences(Struct):
    values: dict[str, str] = {}


def _fixture(file: Path, values: _NewValues) -> Rewritten | None:
    calls = read_fixture(file)  # raises for an invalid file
    text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES)
    version = msgspec.json.decode(text, type=FileVersion).replaykit
    if version >= FIXTURE_FORMAT:
        return None
    if calls:
        compact = encode_fixture(calls, values.write, reference_names(file_redactor(foreign=True)))
        references = msgspec.json.decode(compact, type=_UpgradedReferences)
        if references.parts or any(call.values for call in references.calls):
            return Rewritten(file, compact)
    return _with_version(file, version, FIXTURE_FORMAT, line_of(text, ("replaykit",)))


def _source_trace(case: ReplayCase, values: _NewValues) -> Rewritten | None:
    """Return the run log in its current form if that takes less than half the space."""
    file = case.trace_path
    if file is None or not file.is_file() or case.source.format != run_log.FORMAT:
        return None
    text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES)
    try:
        version = msgspec.json.decode(text, type=FileVersion).replaykit
    except msgspec.MsgspecError:  # compressed, or one of several lines
        return None
    if version != RUN_FORMAT:
        return None
    (run,) = import_trace(file, run_log.FORMAT).runs
    compact = encode_source_trace(run, values.write, file_redactor(foreign=True))
    if 2 * len(compact) <= len(text):
        return Rewritten(file, compact)
    return None


def _with_version(file: Path, version: int, current: int, line: int | None) -> Rewritten | None:
    """Replace the version number of a file, and nothing else."""
    if version >= current:
        return None
    text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES)
    match = _VERSION.search(text, _start_of(text, line or 1))
    if match is None or int(match[2]) != version:
        hint = f"Write `replaykit: {current}` there yourself."
        raise InvalidFile("its version stands where it cannot be rewritten", file=str(file), hint=hint)
    return Rewritten(file, text[: match.start(2)] + str(current).encode() + text[match.end(2) :])


def _start_of(text: bytes, line: int) -> int:
    """Return the offset of a line."""
    start = 0
    for _ in range(line - 1):
        start = text.index(b"\n", start) + 1
    return start
