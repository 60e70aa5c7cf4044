"""From a trace file to its runs, whatever its format."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator

from replaykit.errors import InvalidFile, ReplayKitError, UsageError, nearest
from replaykit.formats.core.registry import (
    IMPORTERS,
    Found,
    Imported,
    Importer,
    importers_in_order,
    is_built_in,
    read_all,
)
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.unsupported import vendor_of

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def import_trace(path: str | os.PathLike[str], format: str | None = None) -> Imported:
    """The runs in a trace file, of the named format or of the one it looks like."""
    return import_source(read_source(path), format)


def import_source(source: Source, format: str | None = None) -> Imported:
    """The runs in a trace that was already read; `InvalidFile` when none of them can be."""
    return read_all(importer_of(source, format), source)


def find_runs(source: Source, format: str | None = None) -> Iterator[Found]:
    """Return what a trace file holds, one by one, without holding the whole file in memory."""
    return read_with(importer_of(source, format), source)


def read_with(importer: Importer, source: Source) -> Iterator[Found]:
    """Return what the importer finds; an exception of a plugin becomes an error of this file only."""
    try:
        yield from importer.read(source)
    except ReplayKitError:
        raise
    except Exception as error:
        raise InvalidFile(f"the importer {importer.name!r} failed: {error!r}", file=source.file) from error


def importer_of(source: Source, format: str | None = None) -> Importer:
    """The importer of the named format, or of the one that the file looks like."""
    if format is not None:
        return importer_named(format)
    found = recognise(source)
    if found is None or is_built_in(found.name):  # who has installed an importer for it knows better
        vendor = vendor_of(source)
        if vendor is not None:
            message = f"a session of {vendor.name}, which cannot be imported"
            raise InvalidFile(message, file=source.file, hint=vendor.way_out)
    if found is not None:
        return found
    if not source.is_lines and (source.is_text or source.head.lstrip()[:1] in (b"", b"{", b"[")):
        _ = source.value  # not even JSON? then say that, and where
    if source.head.startswith(_UTF16) and not source.head.startswith(codecs.BOM_UTF32_LE):
        hint = "Write it as UTF-8, such as: iconv -f UTF-16 -t UTF-8 FILE | replaykit import -"
        raise InvalidFile("the text is UTF-16; traces are read as UTF-8", file=source.file, hint=hint)
    raise InvalidFile(
        "not a trace of a known format",
        file=source.file,
        hint="If it is one, name its format with --format; all of them: replaykit help formats",
    )


def importer_named(format: str) -> Importer:
    """The importer of the format of that name; a `UsageError` names the nearest one."""
    if format not in IMPORTERS:
        hint = "All of them: replaykit help formats"
        raise UsageError(f"unknown format {format!r}; {nearest(format, IMPORTERS)}", hint=hint)
    return IMPORTERS.get(format)


def recognise(source: Source) -> Importer | None:
    """The importer of the format that the file looks like."""
    return next((importer for importer in importers_in_order() if importer.recognises(source)), None)
