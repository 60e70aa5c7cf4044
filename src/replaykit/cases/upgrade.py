"""Upgrade: rewrite a case of an older format in the current one. What people wrote stays as they wrote it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import load_case, open_case
from replaykit.cases.case_shape import CASE_FORMAT
from replaykit.cases.document import read_bytes
from replaykit.cases.fixtures import FIXTURE_FORMAT, fixture_files, read_fixture
from replaykit.errors import InvalidFile, StoreError
from replaykit.model.lines import line_of

_VERSION = re.compile(rb"""(["']?replaykit["']?\s*:\s*)(\d+)""")


class Rewritten(Struct, frozen=True):
    """A file, and its text in the current format."""

    file: Path
    text: bytes


def outdated_files(path: str | os.PathLike[str]) -> list[Rewritten]:
    """Return the files of a case that an older version wrote, each with its new text; the case must be a sound one.

    Every format so far only adds to the one before it, so a new version number is all that changes.
    """
    case = load_case(path)
    document, _ = open_case(path)
    found = [_rewritten(case.file, document.value["replaykit"], CASE_FORMAT, document.line(("replaykit",)))]
    for file in fixture_files(case.directory):
        read_fixture(file)  # says what is wrong with it
        text = read_bytes(file)
        version = msgspec.json.decode(text, type=_Version).replaykit
        found.append(_rewritten(file, version, FIXTURE_FORMAT, line_of(text, ("replaykit",))))
    return [one for one in found if one is not None]


def write_files(files: list[Rewritten]) -> None:
    """Write the new texts, each file whole or not at all."""
    for one in files:
        draft = one.file.with_name(f".{one.file.name}.{os.getpid()}")
        try:
            draft.write_bytes(one.text)
            draft.replace(one.file)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreError(f"{one.file} cannot be written: {error.strerror}") from None


class _Version(Struct):
    replaykit: int


def _rewritten(file: Path, version: int, current: int, line: int | None) -> Rewritten | None:
    if version >= current:
        return None
    text = read_bytes(file)
    found = _VERSION.search(text, _start_of(text, line or 1))
    if found is None or int(found[2]) != version:
        hint = f"Write `replaykit: {current}` there yourself."
        raise InvalidFile("its version stands where it cannot be rewritten", file=str(file), hint=hint)
    return Rewritten(file, text[: found.start(2)] + str(current).encode() + text[found.end(2) :])


def _start_of(text: bytes, line: int) -> int:
    """The position at which a line begins."""
    start = 0
    for _ in range(line - 1):
        start = text.index(b"\n", start) + 1
    return start
