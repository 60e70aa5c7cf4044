"""Inspect AI logs: `.eval`, a zip with a document for each sample, and `.json`, one document with all of them.

    header.json                    {"version", "status", "eval": {"task", "model", …}, "plan", "results", "stats"}
    _journal/start.json            the same before the evaluation ended
    samples/ID_epoch_N.json        {"id", "epoch", "input", "target", "messages", "output", "scores", "error", "limit",
                                    "events": [{"event": "model" | "tool" | "span_begin" | …}], "attachments", "uuid"}

    LOG.json                       the header with "samples": […]

Each sample of each epoch is a run.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

import zstandard

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.registry import Found, of_each, read_each, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.inspect.samples import FORMAT, read_sample
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, has_object, has_text, objects_in, text_in, value_in, without

_HEADERS = ("header.json", "_journal/start.json")
_TAIL_BYTES = 64 * 1024
_EVENTS = words_of("model tool state step span_begin sample_init score info")
_NO_SAMPLES = "the log holds no samples; Inspect keeps them unless it is run with --no-log-samples"
_NO_EVENTS = "no event was logged"


def _recognises(source: Source) -> bool:
    try:
        if source.head.startswith(MAGIC):
            ends = source.head + source.text[-_TAIL_BYTES:]
            return any(name.encode() in ends for name in _HEADERS)
    except InvalidFile:
        return False
    return any(_is_log(value) or _is_sample(value) for value in source.first[:1])


def _read_file(source: Source) -> Iterator[Found]:
    if source.head.startswith(MAGIC):
        yield from _read_archive(Archive(source))
        return
    yield from of_each(source, _read_document)


register_format(FORMAT, "Inspect AI logs: `.eval` and `.json`", _recognises, _read_file)


def _is_log(value: Json) -> bool:
    return has_object(value, "eval") and has_text(value, "status") and "version" in value


def _is_sample(value: Json) -> bool:
    """Return whether this is a single sample, or a list of events."""
    if not isinstance(value, dict) or "run_id" in value:
        return False
    events = objects_in(value, "events")[:8]
    return any(event.get("event") in _EVENTS and "timestamp" in event for event in events)


def _read_archive(archive: Archive) -> Iterator[Found]:
    names = archive.names
    for name in _HEADERS:
        if name in names:
            break
    else:
        raise InvalidFile(f"expected a zip with {_HEADERS[0]}", file=archive.file)
    header = as_object(archive.document(name).value)
    yield from _header_notes(header)
    samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    if not samples:
        yield _NO_SAMPLES

    def read(name: str) -> TraceRun:
        document = archive.document(name)
        return read_sample(header, Fields(document, document.value, (), "a sample"))

    yield from read_each(samples, read)


def _read_document(source: Source) -> Iterator[Found]:
    value = source.value
    if _is_sample(value):
        yield read_sample({}, Fields(source, value))
        return
    if value_in(value, "events") == []:
        yield _NO_EVENTS
        return
    log = Fields(source, value, (), "a log: an object with `eval` and `samples`")
    if not _is_log(value):
        raise source.error("expected a log of Inspect: an object with `version`, `status`, `eval` and `samples`")
    samples = list(log.members("samples"))
    yield from _header_notes(value)
    if not samples:
        yield _NO_SAMPLES
    header = without(value, "samples")
    yield from read_each(samples, lambda sample: read_sample(header, sample.fields("a sample")))


def _header_notes(header: JsonObject) -> Iterator[str]:
    """Yield a note on an evaluation that did not end well."""
    status = text_in(header, "status")
    if status in ("error", "cancelled"):
        note = f"the evaluation of {text_in(header.get('eval'), 'task')} ended with {status}"
        yield ": ".join(filter(None, (note, text_in(header.get("error"), "message"))))


MAX_ENTRY_BYTES = 256 * 1024 * 1024
"""The largest unpacked document."""
MAX_TOTAL_BYTES = 8 * 1024 * 1024 * 1024
"""The largest total of all documents."""
MAGIC = b"PK\x03\x04"
_ZSTD_METHOD = 93  # `zipfile` itself supports zstd only from Python 3.14 on
_MAX_WINDOW = 128 * 1024 * 1024
# The fields of a local file header: signature, and the lengths of name and extra field.
_LOCAL = struct.Struct("<4s22xHH")
_BAD = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # encrypted
    NotImplementedError,
)


class Archive:
    """The documents of a zip by name."""

    def __init__(self, source: Source) -> None:
        self.file = source.file
        self._data = source.text
        self._left = MAX_TOTAL_BYTES
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(self._data))
        except _BAD as error:
            raise InvalidFile(f"not a zip that can be read: {error}", file=source.file) from None

    @property
    def names(self) -> list[str]:
        """The names in file order, without duplicates."""
        return list(dict.fromkeys(self._zip.namelist()))

    def document(self, name: str) -> Source:
        """Return a document; raise `InvalidFile` if it cannot be unpacked or is too large."""
        file = f"{self.file}!{name}"
        limit = min(MAX_ENTRY_BYTES, self._left)
        try:
            entry = self._zip.getinfo(name)
            text = self._unpack(entry, limit + 1)
        except _BAD as error:
            raise InvalidFile(f"cannot be unpacked: {error}", file=file) from None
        if len(text) > limit:
            raise InvalidFile(f"larger than {limit:,} bytes", file=file)
        self._left -= len(text)
        return Source(text, file)

    def _unpack(self, entry: zipfile.ZipInfo, size: int) -> bytes:
        if entry.compress_type != _ZSTD_METHOD:
            with self._zip.open(entry) as stream:
                return stream.read(size)
        if entry.flag_bits & 1:
            raise RuntimeError("it is encrypted")
        signature, name_size, more_size = _LOCAL.unpack_from(self._data, entry.header_offset)
        if signature != MAGIC:
            raise zipfile.BadZipFile("no entry where the directory says there is one")
        start = entry.header_offset + _LOCAL.size + name_size + more_size
        packed = self._data[start : start + entry.compress_size]
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        # Large entries consist of several frames.
        with decompressor.stream_reader(packed, read_across_frames=True) as reader:
            text = reader.read(size)
        if len(text) < size and zlib.crc32(text) != entry.CRC:
            raise zipfile.BadZipFile("its checksum is wrong")
        return text
