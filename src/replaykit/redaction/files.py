"""Write files without secrets: redacted before the first byte is written, refused if anything is left.

Files for git fail closed: they are checked again when they are complete, and a finding is an error. Values that go into
several files or reports are redacted once, as values (`clean_struct`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from replaykit.errors import StoreError, UsageError
from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor
    from replaykit.redaction.second_check import SecondCheck

T = TypeVar("T", bound=Struct)

_SHOWN = 5
_MISSED = "a second check finds what may be a secret in this file, and redaction did not replace it"
_ALLOW = "Remove it at its source. If it is not a secret, allow it by its hash in redaction.toml:"
_REASON = "what is secret or personal must not get into this file, and it was not replaced"


class Leak(Struct, frozen=True, order=True):
    """A finding in a file: its position and kind, but never the value itself."""

    file: str
    """The file, or the run in a store."""
    line: int
    """The line, counted from 1; 0 for a run in a store."""
    column: int
    """The column, counted from 1."""
    kind: str
    """The kind of data, such as `email`."""
    path: str = ""
    """The JSON path, if the file is JSON."""
    allow: str | UnsetType = UNSET
    """For findings of the second check only: the hash that allows the value."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column} {self.kind}"
        if self.allow is UNSET:
            return place
        return f'{place} (second check; no secret? In redaction.toml: allow = ["{self.allow}"])'


def file_redactor(redact: bool | None = None, *, foreign: bool = False) -> Redactor | None:
    """Return the redactor for files of this project; None if redaction is off.

    `redact` overrides the environment unless it is None. `foreign` is for read-only use: no key is created.
    """
    from replaykit.redaction.project import is_on, project_redactor  # noqa: PLC0415 (many files are written without)

    if redact is None:
        redact = is_on()
    if not redact:
        return None
    return project_redactor(foreign=foreign)


def clean_text(text: str, redactor: Redactor | None) -> str:
    """Return the redacted text."""
    if redactor is None:
        return text
    return redactor.text(text)


def clean_bytes(data: bytes, redactor: Redactor | None) -> bytes:
    """Return redacted JSON or text; binary data stays as it is."""
    if redactor is None:
        return data
    return redactor.raw(data)


def clean_struct(value: T, redactor: Redactor | None, kind: type[T] | None = None) -> T:
    """Return a value with all of its texts redacted, and values next to telling names.

    `kind` is the type to decode, if the class of the value does not determine it.
    """
    kind = kind or type(value)
    if redactor is None:
        return value
    before = msgspec.json.encode(value)
    after = redactor.raw(before)
    if after is before:
        return value
    try:
        return msgspec.json.decode(after, type=kind)
    except msgspec.MsgspecError:  # a placeholder replaced a number where the type requires one
        plain = msgspec.json.decode(before)
        return msgspec.convert(_texts_of(plain, redactor), kind)


def _texts_of(value: Json, redactor: Redactor) -> Json:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, list):
        return [_texts_of(item, redactor) for item in value]
    if isinstance(value, dict):
        return {redactor.text(name): _texts_of(item, redactor) for name, item in value.items()}
    return value


def write_clean(file: Path, data: bytes | str, redactor: Redactor | None, *, fail_closed: bool = False) -> None:
    """Write a redacted file atomically: readers see the old file or the new one.

    With `fail_closed`, remaining findings raise `UsageError`, and nothing is written.
    """
    if isinstance(data, str):
        data = data.encode()
    clean = clean_bytes(data, redactor)
    if fail_closed:
        refuse_leaks({str(file): clean}, redactor)
    replace_file(file, clean)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Raise a `StoreError` that names the file if writing inside the block fails."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}") from None


def replace_file(file: Path, data: bytes) -> None:
    """Replace a file's content and keep its permissions; a link is replaced, not followed."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        if file.is_file() and not file.is_symlink():
            beside.chmod(file.stat().st_mode & 0o7777)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def leaks_in(name: str, data: bytes | str, redactor: Redactor | None) -> list[Leak]:
    """Return what redaction would replace in a file."""
    if redactor is None:
        return []
    return [Leak(name, leak.line, leak.column, leak.kind, leak.path) for leak in redactor.scan(data)]


def missed_leaks(
    name: str, data: bytes | str, redactor: Redactor | None, check: SecondCheck | None = None
) -> list[Leak]:
    """Return what only the second check finds in a file; pass `check` to reuse one for several files."""
    if redactor is None:
        return []
    from replaykit.redaction.second_check import SecondCheck  # noqa: PLC0415 (only what leaves the machine needs it)

    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    suspicions = (check or SecondCheck(redactor.rules)).suspicions(data)
    if not suspicions:
        return []
    text = data.decode("utf-8", "surrogateescape")
    known_leaks = redactor.scan(text)
    leaks = []
    for suspicion in suspicions:
        start, end = suspicion.start, suspicion.end
        if any(leak.start < end and start < leak.end for leak in known_leaks):
            continue
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        leaks.append(Leak(name, line, column, suspicion.rule, allow=suspicion.allowance))
    return leaks


def refuse_leaks(files: Mapping[str, bytes], redactor: Redactor | None, check: SecondCheck | None = None) -> None:
    """Raise `UsageError` if one of these files, by their display names, still has a finding.

    Pass `check` to reuse one for the parts of a large file.
    """
    if redactor is None:
        return
    leaks: list[Leak] = []
    for name, data in files.items():
        leaks += leaks_in(name, data, redactor)
    if leaks:
        raise UsageError(f"{_REASON}:\n{listed(leaks)}", hint=HINT)
    from replaykit.redaction.second_check import SecondCheck  # noqa: PLC0415 (only what leaves the machine needs it)

    check = check or SecondCheck(redactor.rules)
    for name, data in files.items():
        leaks += missed_leaks(name, data, redactor, check)
    if leaks:
        hashes = ", ".join([f'"{leak.allow}"' for leak in leaks[:_SHOWN]])
        places = listed([replace(leak, allow=UNSET) for leak in leaks])
        raise UsageError(f"{_MISSED}:\n{places}", hint=f"{_ALLOW}\n  allow = [{hashes}]")


HINT = (
    'Remove it at its source. If it is not a secret, allow it in redaction.toml: allow = ["…"]\n'
    "All of it is made up? --no-redact, or REPLAYKIT_REDACT=off"
)
"""Advice for people with a finding."""


def listed(leaks: Iterable[Leak]) -> str:
    """Return the first findings, one on each line."""
    every = list(leaks)
    lines = [f"  {leak}" for leak in every[:_SHOWN]]
    if len(every) > _SHOWN:
        lines.append(f"  and {len(every) - _SHOWN} more")
    return "\n".join(lines)
