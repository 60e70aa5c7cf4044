"""Events of LangChain's `astream_events` (version 2): `{event, name, run_id, parent_ids, tags, metadata, data}`.

    on_chain_start | _end    on_chat_model_start | _end    on_tool_start | _end | _error    … and `_stream` in between

They describe LangSmith runs by their start and end, so they are converted to those and read as such. Events have no
times, but LangChain's ids do if they are UUIDs of version 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.langchain_messages import conversation
from replaykit.formats.core.registry import Found
from replaykit.formats.langchain.states import FORMAT, MESSAGES, are_messages
from replaykit.formats.langsmith import read_runs
from replaykit.model.events import AnyEvent
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_list, as_object, as_text, has_object, object_in, text_in, value_in

_KINDS = {"chat_model": "llm", "llm": "llm", "tool": "tool", "retriever": "retriever", "prompt": "prompt"}
_UUID7_LENGTH, _VERSION_AT, _TIME_DIGITS = 36, 14, 13


def is_event(value: Json) -> bool:
    event = as_object(value)
    is_named = text_in(event, "event").startswith("on_") and text_in(event, "run_id")
    return bool(is_named) and has_object(event, "data")


class Roots:
    """The events of each root run until it ends."""

    def __init__(self) -> None:
        self._items: dict[str, list[TraceItem]] = {}

    def add(self, item: TraceItem) -> Iterator[Found]:
        """Add an event; yield the run that it ends, if any."""
        if not is_event(item.value):
            yield item.error("expected an event: an object with `event`, `run_id` and `data`")
            return
        run_id, above = item.value["run_id"], _above(item.value)
        root = above[0] if above else run_id
        self._items.setdefault(root, []).append(item)
        if root == run_id and as_text(item.value["event"]).endswith(("_end", "_error")):
            yield from _runs(self._items.pop(root), root)

    def close(self) -> Iterator[Found]:
        """Yield the runs that did not end."""
        for root, items in self._items.items():
            yield from _runs(items, root)


def _runs(items: Sequence[TraceItem], root: str) -> Iterator[Found]:
    """Yield the run of a root. Positions in the list serve as times until the events are in order."""
    runs = _Runs(items, root).runs
    try:
        imported = read_runs([runs[root], *(run for key, run in runs.items() if key != root)], items[0].source.file)
    except InvalidFile as problem:
        yield problem
        return
    times = [_time_of(as_text(item.value["run_id"])) for item in items]
    yield from (_timed(run, times) for run in imported.runs)
    yield from imported.remarks


class _Runs:
    """LangSmith runs rebuilt from events, by id."""

    def __init__(self, items: Sequence[TraceItem], root: str) -> None:
        self.runs: dict[str, JsonObject] = {root: {"id": root, "name": "", "run_type": "chain", "start_time": 0}}
        for place, item in enumerate(items):
            self._add(place, item.value, root)

    def _add(self, place: int, event: JsonObject, root: str) -> None:
        run_id, kind, data = event["run_id"], event["event"].removeprefix("on_"), event["data"]
        run = self.runs.get(run_id)
        if run is None or not run["name"]:
            run = self.runs[run_id] = _begun(event, place, self._above(event, root))
        if kind.endswith("_start"):
            run["inputs"] = _inputs(data.get("input"), is_root=run_id == root)
        elif kind.endswith("_end"):
            run |= {"outputs": _outputs(data.get("output")), "end_time": place, "status": "success"}
            run.setdefault("inputs", _inputs(data.get("input"), is_root=run_id == root))
        elif kind.endswith("_error"):
            run |= {"error": _error(data.get("error")), "end_time": place, "status": "error"}

    def _above(self, event: JsonObject, root: str) -> str | None:
        """Return the nearest outer run that has events: some may have been filtered out."""
        if event["run_id"] == root:
            return None
        return next((run_id for run_id in reversed(_above(event)) if run_id in self.runs), root)


def _above(event: JsonObject) -> list[str]:
    """Return the runs around an event's run, outermost first."""
    found = event.get("parent_ids")
    if isinstance(found, list):
        return [run_id for run_id in found if run_id and isinstance(run_id, str)]
    return []


def _begun(event: JsonObject, place: int, above: str | None) -> JsonObject:
    kind = event["event"].removeprefix("on_").rpartition("_")[0]
    tags = event.get("tags")
    return {
        "id": event["run_id"],
        "name": text_in(event, "name") or "unnamed",
        "run_type": _KINDS.get(kind, "chain"),
        "parent_run_id": above,
        "start_time": place,
        "tags": tags if isinstance(tags, list) else [],
        "extra": {"metadata": object_in(event, "metadata")},
    }


def _inputs(value: Json, *, is_root: bool) -> Json:
    if is_root:
        return {"input": _question(value)}
    if isinstance(value, dict):
        return value
    return {"input": value}


def _question(value: Json) -> Json:
    """Return the question if the graph's input is nothing else."""
    question = as_object(value)
    if question.keys() == {MESSAGES}:
        messages = as_list(conversation(question[MESSAGES]))
        only = as_object(messages[0]) if len(messages) == 1 else {}
        if only.get("role") == "user" and "content" in only:
            return only["content"]
    return value


def _outputs(value: Json) -> JsonObject:
    state = as_object(value)
    if are_messages(state.get(MESSAGES)):
        return {"output": {MESSAGES: state[MESSAGES]}}  # a graph's answer is its last message
    return {"output": value}


def _error(value: Json) -> str:
    """Return an exception's text, or LangChain's form of objects that it cannot serialise."""
    if isinstance(value, str):
        return value
    return as_text(value_in(value, "repr")) or encode(value).decode()


def _timed(run: TraceRun, times: list[float]) -> TraceRun:
    """Return the run with times instead of positions."""
    events = tuple(_at(event, times) for event in run.events)
    known = [event.at for event in events if event.at]
    return replace(
        run,
        origin=Origin(kind="imported", format=FORMAT),
        started_at=times[0] or min(known, default=0.0),
        ended_at=None if run.status is RunStatus.RUNNING else max(known, default=None),
        events=events,
    )


def _at(event: AnyEvent, times: list[float]) -> AnyEvent:
    changed: dict[str, Any] = {"at": times[int(event.at)], "duration_s": 0.0}
    return replace(event, **changed)


def _time_of(run_id: str) -> float:
    """Return when an id was created, in seconds; 0 if it does not tell."""
    if len(run_id) != _UUID7_LENGTH or run_id[_VERSION_AT] != "7":
        return 0.0
    try:
        return int(run_id[:_TIME_DIGITS].replace("-", ""), 16) / 1000
    except ValueError:
        return 0.0
