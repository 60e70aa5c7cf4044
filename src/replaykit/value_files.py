"""Value files: large values of a case, each in a file named after its content.

    fixtures/values/2c26b46b68ffc68ff99b453c1d304134.json

Equal values share a file. The name is the beginning of the SHA-256 of the file's bytes, so a changed file is noticed
when it is read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import orjson

from replaykit.errors import InvalidFile
from replaykit.model.nesting import NestedTooDeeply, check_nesting
from replaykit.model.values import Raw

VALUES = "values"
"""The folder beside the fixture files."""
MAX_VALUE_BYTES = 512 * 1024 * 1024
_DIGEST_CHARS = 32
_NAME = re.compile(rf"{VALUES}/[0-9a-f]{{{_DIGEST_CHARS}}}\.json")
_CONTAINERS = (ord("{"), ord("["))
_ALTERED = "its content does not match its name"
_RESTORE = "Restore it, or write the value into the call itself instead of the name of this file."


def is_value_name(name: str) -> bool:
    """Return whether a text is the name of a value file, as spelled in fixture files."""
    return _NAME.fullmatch(name) is not None


def value_names_in(text: str) -> set[str]:
    """Return the names of value files in the text of a fixture file or source trace."""
    return set(_NAME.findall(text))


def value_text(value: Raw) -> bytes:
    """Return the content of a value's file, with objects and lists indented for people and diffs."""
    if memoryview(value)[0] in _CONTAINERS:
        return msgspec.json.format(bytes(value), indent=2) + b"\n"
    return bytes(value) + b"\n"


def value_name(text: bytes) -> str:
    """Return the name of the file with this content."""
    import hashlib  # noqa: PLC0415 (slow to import, and few cases have large values)

    return f"{VALUES}/{hashlib.sha256(text).hexdigest()[:_DIGEST_CHARS]}.json"


class ValueWriter:
    """Writes large values to the `values` folder of a directory of fixtures.

    `passed` are values that redaction has already left unchanged. They are not searched again, because megabytes take
    long.
    """

    def __init__(self, folder: Path, clean: Callable[[bytes], bytes], passed: Iterable[Raw] = ()) -> None:
        self._folder = folder
        self._clean = clean
        self._passed = {id(value): value for value in passed}
        self._names: dict[int, tuple[Raw, str]] = {}
        """By identity of the value, which is kept alive so that the id cannot be reused."""

    def write(self, value: Raw) -> str:
        """Write the redacted value unless its file exists; return the file's name."""
        known = self._names.get(id(value))
        if known is not None:
            return known[1]
        is_passed = id(value) in self._passed
        text = value_text(value if is_passed else Raw(self._clean(bytes(value))))
        name = value_name(text)
        file = self._folder / name
        if not os.path.lexists(file):
            file.parent.mkdir(exist_ok=True)
            draft = file.with_name(f".{file.name}.{os.getpid()}")
            draft.write_bytes(text)
            # Renaming makes the file appear whole, even if several processes write it.
            draft.replace(file)
        self._names[id(value)] = value, name
        return name


class ValueReader:
    """Reads value files, each once, and verifies that their content matches their name."""

    def __init__(self, folder: Path, held: Iterable[Raw] = ()) -> None:
        self._folder = folder
        self._held = held
        self._held_by_name: dict[str, Raw] | None = None
        self._values: dict[str, Raw] = {}

    def read(self, name: str) -> Raw:
        """Return the value in a file; raise `InvalidFile` if it is missing, altered or not a regular file."""
        if name not in self._values:
            self._values[name] = self._read(name)
        return self._values[name]

    def _read(self, name: str) -> Raw:
        file = self._folder / name
        text = _plain_file(file)
        if value_name(text) != name:
            text = text.replace(b"\r\n", b"\n")  # as git checks files out on Windows; JSON texts escape both
        if value_name(text) != name:
            raise InvalidFile(_ALTERED, file=str(file), hint=_RESTORE)
        held = self._held_under(name)
        if held is not None:
            return held
        try:
            check_nesting(text)
            orjson.loads(text)  # strict, with line numbers for errors; the value itself stays text
        except NestedTooDeeply as error:
            raise InvalidFile(str(error), file=str(file)) from None
        except orjson.JSONDecodeError as error:
            raise InvalidFile(f"not JSON: {error.msg}", file=str(file), line=error.lineno) from None
        return Raw(msgspec.json.format(text, indent=-1))

    def _held_under(self, name: str) -> Raw | None:
        """Return an equal value that is already in memory, to avoid a second copy."""
        if self._held_by_name is None:
            self._held_by_name = {value_name(value_text(value)): value for value in self._held}
        return self._held_by_name.get(name)


def _plain_file(file: Path) -> bytes:
    """Return the content of a file, refusing links, also as its folder."""
    try:
        if file.parent.is_symlink():
            raise InvalidFile("its folder is a link", file=str(file))
        # O_NONBLOCK keeps a FIFO from blocking open(). `is_symlink` below covers systems without O_NOFOLLOW.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as stream:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or file.is_symlink():
                raise InvalidFile("not a regular file", file=str(file))
            if found.st_size > MAX_VALUE_BYTES:
                raise InvalidFile(f"larger than {MAX_VALUE_BYTES:,} bytes", file=str(file))
            data = stream.read(found.st_size + 1)  # Python allocates as much as may be read
            if len(data) > found.st_size:  # the file has grown meanwhile
                data += stream.read(MAX_VALUE_BYTES + 1 - len(data))
            return data
    except FileNotFoundError:
        raise InvalidFile("no such file", file=str(file), hint=_RESTORE) from None
    except OSError as error:
        reason = "a link" if file.is_symlink() else error.strerror
        raise InvalidFile(f"cannot be read: {reason}", file=str(file)) from None
