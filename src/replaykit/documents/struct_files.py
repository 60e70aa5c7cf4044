"""JSON files with one struct: check their version, and report errors with their line."""

# Annotations are values here: msgspec would compile string annotations once for every class.

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from replaykit.documents.document import read_bytes
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.model.json_positions import line_of
from replaykit.model.nesting import decode_json
from replaykit.model.struct_flaws import refused_part

T = TypeVar("T", bound=Struct)


class FileVersion(Struct):
    """The version in a file, whatever else it holds."""

    replaykit: int


def read_struct(
    file: Path, content_type: type[T], *, newest: int, noun: str, limit_bytes: int, hint: str | None = None
) -> T:
    """Read a file; raise `FormatTooNew` for a newer version, and `InvalidFile` for any other flaw.

    `noun` names the version in messages: `proof format {}`.
    """
    text = read_bytes(file, limit_bytes=limit_bytes)
    version = _decode(text, FileVersion, file, hint).replaykit
    if version > newest:
        raise FormatTooNew(f"{file}: {noun.format(version)}, this version reads up to {newest}")
    return _decode(text, content_type, file, hint)


def _decode(text: bytes, content_type: type[T], file: Path, hint: str | None) -> T:
    try:
        return decode_json(text, content_type)
    except msgspec.ValidationError:
        part = refused_part(text, content_type)
        line = line_of(text, part.path) if part.path else None
        raise InvalidFile(part.reason, file=str(file), line=line, hint=hint) from None
    except msgspec.MsgspecError as error:
        raise InvalidFile(str(error), file=str(file), hint=hint) from None
