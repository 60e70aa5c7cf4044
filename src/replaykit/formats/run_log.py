"""The run log, `{"replaykit": 1, "run": …}`, as `model.run` writes it, or `model.compact_run` for a case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.formats.core.registry import of_each, register_format
from replaykit.formats.core.source import Source
from replaykit.model.compact_run import COMPACT_RUN_FORMAT, CompactRunFile, put_together
from replaykit.model.events import AnyEvent, Call
from replaykit.model.json_positions import DocumentPath
from replaykit.model.nesting import check_nesting
from replaykit.model.run import RunFile, TraceRun, decode_run
from replaykit.model.shared_parts import BadReference, ExpansionBudget, PartReader
from replaykit.model.struct_flaws import refused_part
from replaykit.model.values import Raw, dumps
from replaykit.value_files import ValueReader, is_value_name
from replaykit.wire.json_fields import value_in

FORMAT = "run_log"
_FIXTURES = "fixtures"  # next to a case's source trace


register_format(
    FORMAT,
    "ReplayKit's run log, as `replaykit export` writes it",
    lambda source: any(isinstance(value, dict) and "replaykit" in value and "run" in value for value in source.first),
    lambda source: of_each(source, lambda document: [read_run_log(document)]),
)


def read_run_log(source: Source) -> TraceRun:
    """Return the run in a document; raise `InvalidFile` if it is not a run log."""
    version = _version(source)
    content_type: type[Struct] = RunFile
    try:
        # Strip the whitespace of a pretty-printed file: equal arguments must be equal bytes again.
        check_nesting(source.text)
        text = msgspec.json.format(source.text, indent=-1)
        run = decode_run(text)
        events: Sequence[AnyEvent] = run.events
        if version == COMPACT_RUN_FORMAT:
            content_type = CompactRunFile
            events = _whole(source, events, msgspec.json.decode(text, type=CompactRunFile))
        events = tuple(map(_canonical, _in_order(source, events)))
        return replace(run, events=events)
    except msgspec.ValidationError:
        part = refused_part(source.text, content_type)
        raise source.error(part.reason, part.path) from None
    except (msgspec.MsgspecError, orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        raise source.error(f"not a run log: {error}") from None


def _version(source: Source) -> int:
    version = value_in(source.value, "replaykit")
    if type(version) is not int or version < 1:
        raise source.error("expected a version: `replaykit: 1`", ("replaykit",))
    if version > COMPACT_RUN_FORMAT:
        known = f"this ReplayKit reads up to {COMPACT_RUN_FORMAT}"
        raise FormatTooNew(f"{source.file}: a run log of version {version}; {known}")
    return version


def _whole(source: Source, events: Sequence[AnyEvent], file: CompactRunFile) -> list[AnyEvent]:
    """Return the events with their references resolved."""
    values = _CaseValues(source)
    parts = PartReader(file.parts, ExpansionBudget())
    found: list[AnyEvent] = []
    for index, (event, references) in enumerate(zip(events, file.run.events, strict=True)):
        whole = event
        if isinstance(event, Call) and (references.parts or references.values):
            path = ("run", "events", index)
            try:
                whole = put_together(event, references, parts, partial(values.read, path))  # type: ignore[assignment]
            except BadReference as error:
                raise source.error(error.reason, (*path, *error.place)) from None
        found.append(whole)
    return found


class _CaseValues:
    """The large values of a run log that is the source trace of a case."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._case = Path(source.file).parent
        self._values = ValueReader(self._case / _FIXTURES)

    def read(self, event_path: DocumentPath, member: str, name: str) -> Raw:
        """Return the value in a file of the case; raise `InvalidFile` about that file or the reference to it."""
        folder, _, inner = name.partition("/")
        if folder != _FIXTURES or not is_value_name(inner):
            reason = f"expected the name of a file in {_FIXTURES}/values/, not {name[:80]!r}"
            raise BadReference(("values", member), reason)
        if (self._case / _FIXTURES).is_symlink():
            raise BadReference(("values", member), f"{_FIXTURES} is a link")
        try:
            return self._values.read(inner)
        except InvalidFile as error:
            referrer = self._source.error("", (*event_path, "values", member))
            if referrer.line is None:
                place = referrer.file
            else:
                place = f"{referrer.file}:{referrer.line}"
            reason = f"{error.reason} ({place} refers to it)"
            raise InvalidFile(reason, file=error.file, line=error.line, hint=error.hint) from None


def _in_order(source: Source, events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events by number, as stores do; an edited log may have them in any order."""
    seen: set[int] = set()
    for index, event in enumerate(events):
        if event.seq in seen:
            raise source.error(f"another event has the number {event.seq} already", ("run", "events", index, "seq"))
        if event.parent is not None and event.parent >= event.seq:
            raise source.error("an event is inside of one that begins after it", ("run", "events", index, "parent"))
        seen.add(event.seq)
    return sorted(events, key=lambda event: event.seq)


def _canonical(event: AnyEvent) -> AnyEvent:
    """Return the event with sorted argument keys, for edited logs, and without `like`, which is for stores only."""
    if not isinstance(event, Call):
        return event
    text = dumps(orjson.loads(bytes(event.arguments_json)), option=orjson.OPT_SORT_KEYS)
    if text == bytes(event.arguments_json) and event.like is None:
        return event
    return replace(event, arguments_json=Raw(text), like=None)
