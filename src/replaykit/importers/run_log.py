"""The run log export, `{"replaykit": 1, "run": …}`: what `model.run.encode_run` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import orjson

from replaykit.errors import FormatTooNew
from replaykit.importers.items import of_each
from replaykit.importers.registry import IMPORTERS, Found
from replaykit.importers.source import Source
from replaykit.model.events import AnyEvent, Call
from replaykit.model.lines import split_where
from replaykit.model.nesting import check_nesting
from replaykit.model.run import RUN_FORMAT, TraceRun, decode_run
from replaykit.model.values import Raw

FORMAT = "run_log"


class RunLogImporter:
    """Reads a run that ReplayKit itself wrote."""

    name = FORMAT
    title = "ReplayKit's run log, as `replaykit export` writes it"

    def recognises(self, source: Source) -> bool:
        return any(isinstance(value, dict) and "replaykit" in value and "run" in value for value in source.first)

    def read(self, source: Source) -> Iterator[Found]:
        yield from of_each(source, lambda document: [read_run_log(document)])


IMPORTERS.register(FORMAT)(RunLogImporter())


def read_run_log(source: Source) -> TraceRun:
    """The run of one document; `InvalidFile` when it is none."""
    _check_version(source)
    try:
        # Without the blanks of a pretty-printed file: equal arguments have to be equal bytes again.
        check_nesting(source.text)
        run = decode_run(msgspec.json.format(source.text, indent=-1))
        events = tuple(map(_canonical, _in_order(source, run.events)))
        return msgspec.structs.replace(run, events=events)
    except msgspec.ValidationError as error:
        raise source.error(*split_where(str(error))) from None
    except (msgspec.MsgspecError, orjson.JSONEncodeError, orjson.JSONDecodeError) as error:
        raise source.error(f"not a run log: {error}") from None


def _check_version(source: Source) -> None:
    value = source.value
    version = value.get("replaykit") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        raise source.error("expected a version: `replaykit: 1`", ("replaykit",))
    if version > RUN_FORMAT:
        raise FormatTooNew(f"{source.file}: a run log of version {version}; this ReplayKit reads up to {RUN_FORMAT}")


def _in_order(source: Source, events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """The events by their numbers, as stores give them back; a hand that edits a log may have mixed those up."""
    seen: set[int] = set()
    for index, event in enumerate(events):
        if event.seq in seen:
            raise source.error(f"another event has the number {event.seq} already", ("run", "events", index, "seq"))
        if event.parent is not None and event.parent >= event.seq:
            raise source.error("an event is inside of one that begins after it", ("run", "events", index, "parent"))
        seen.add(event.seq)
    return sorted(events, key=lambda event: event.seq)


def _canonical(event: AnyEvent) -> AnyEvent:
    """The event with its arguments' keys sorted, for a log that was edited by hand; `like` is for stores only."""
    if not isinstance(event, Call):
        return event
    text = orjson.dumps(orjson.loads(bytes(event.arguments_json)), option=orjson.OPT_SORT_KEYS)
    if text == bytes(event.arguments_json) and event.like is None:
        return event
    return msgspec.structs.replace(event, arguments_json=Raw(text), like=None)
