"""From the parts of runs in a file to trees of runs: put together by id, linked by parent."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from replaykit.formats.core.fields import Fields, TraceItem, error_of, error_of_repr, json_type
from replaykit.formats.core.langchain_messages import message_body
from replaykit.formats.core.replayability import stated_usage
from replaykit.formats.core.source import Source
from replaykit.formats.langsmith.documents import KNOWN, SUMMARY_FIELDS, Document, loaded
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.json_positions import DocumentPath
from replaykit.model.nesting import decode_json
from replaykit.model.values import Json, JsonObject, Raw
from replaykit.wire.json_fields import EMPTY, count_in, filled, has_text, list_in, object_in, text_in, without

_SEGMENT = re.compile(r"(\d{8}T\d{12})Z(.+)")


class RunNode:
    """A run of the file, whole, among its parent and children."""

    __slots__ = ("children", "in_circle", "parent", "path", "places", "source", "value")

    def __init__(self, value: Json, path: DocumentPath, source: Source) -> None:
        self.value = value
        self.path = path
        self.source = source
        """The line of the file that holds it, or the whole file."""
        self.places: dict[str, tuple[Source, DocumentPath]] | None = None
        """The source and path of each field of a run that has several parts."""
        self.parent: RunNode | None = None
        self.children: list[RunNode] = []
        self.in_circle = False

    @property
    def failed(self) -> bool:
        return isinstance(self.value, dict) and bool(self.value.get("error") or self.value.get("error_preview"))

    def fields(self) -> RunFields:
        """Its fields; an error when it is no run at all."""
        if self.in_circle:
            raise self.source.error("its parents form a circle", self.path)
        return RunFields(self)

    def add(self, value: JsonObject, path: DocumentPath, source: Source) -> None:
        """Another part of the same run; of two values the later counts, unless it says nothing."""
        if self.places is None:
            self.places = dict.fromkeys(self.value, (self.source, self.path))
            self.value = dict(self.value)
        for name, part in value.items():
            held, item = self.value.get(name), loaded(part)
            if name in self.value and item in EMPTY and held is not None:
                continue
            both = name == "extra" and isinstance(held, dict) and isinstance(item, dict)
            self.value[name] = {**held, **item} if both else item
            self.places[name] = (source, path)


class RunFields(Fields):
    """The fields of a run whose parts may stand in several places of a file."""

    __slots__ = ("_places",)

    def __init__(self, node: RunNode) -> None:
        super().__init__(node.source, node.value, node.path, "a run: an object with `id` and `run_type`")
        self._places = node.places or {}

    def take(self, *names: str) -> Json:
        """The value under the first of the names that is there, read where it is text still; None when none is."""
        for name in names:  # what was taken is not noted: nobody asks a run for its rest
            found = self.value.get(name)
            if found is not None:
                if type(found) is Raw:
                    found = self.value[name] = self.loaded(found, name)
                return found
        return None

    def text(self, *names: str) -> str | None:
        found = self.value.get(names[0])
        if type(found) is str:
            return found
        return super().text(*names)

    def loaded(self, text: Raw, name: str) -> Json:
        """Return the JSON value of a member's text."""
        try:
            return decode_json(text)
        except msgspec.MsgspecError as error:
            raise self.error(f"not JSON: {error}", name) from None

    def _place_of(self, names: tuple[str, ...]) -> tuple[Source, DocumentPath]:
        name = self.key(*names)
        if name is None or name not in self._places:
            return super()._place_of(names)
        source, path = self._places[name]
        return source, (*path, name)


def collect(documents: Iterable[Document]) -> list[RunNode]:
    """The roots, in the order of the file; each run of the file is once in their trees."""
    nodes: dict[str | DocumentPath, RunNode] = {}
    for value, path, source in documents:
        _add(nodes, value, path, source)
    for key, node in nodes.items():
        if node.parent is None:
            node.parent = _parent(nodes, key, node)
    for node in nodes.values():
        if node.parent is not None:
            node.parent.children.append(node)
    roots = _roots(nodes.values())
    for node in nodes.values():  # circles would stay in memory until Python looks for them
        node.parent = None
    return roots


def dotted_time(order: str | None) -> float | None:
    """Return the start time in the last segment of a `dotted_order`."""
    segment = _SEGMENT.fullmatch((order or "").rpartition(".")[2])
    if segment is None:
        return None
    try:
        return dt.datetime.fromisoformat(f"{segment[1][:15]}.{segment[1][15:]}Z").timestamp()
    except ValueError:
        return None


def _add(nodes: dict[str | DocumentPath, RunNode], value: Json, path: DocumentPath, source: Source) -> None:
    """Enter a run and the runs inside of it, however deep."""
    waiting: list[tuple[TraceItem, RunNode | None]] = [(TraceItem(source, value, path), None)]
    while waiting:
        item, parent = waiting.pop()
        node = _entered(nodes, item)
        if parent is not None and node.parent is None:
            node.parent = parent
        inside = list_in(item.value, "child_runs")
        if inside:
            children = TraceItem(source, inside, (*item.path, "child_runs")).members()
            # The last one in is the first one out, and runs are read in the order of the file.
            waiting += reversed([(child, node) for child in children])


def _entered(nodes: dict[str | DocumentPath, RunNode], item: TraceItem) -> RunNode:
    own = _id(item.value) if isinstance(item.value, dict) else None
    key = own or (item.source.line, *item.path)
    node = nodes.get(key)
    if node is None:
        node = nodes[key] = RunNode(item.value, item.path, item.source)
    elif isinstance(item.value, dict):
        node.add(item.value, item.path, item.source)
    return node


def _id(value: JsonObject) -> str | None:
    """The run's id; a patch may have it in its `dotted_order` only."""
    run_id = value.get("id")
    if isinstance(run_id, str) and run_id:
        return run_id
    if run_id is None:
        return next(reversed(_dotted_ids(value)), None)
    return None


def _dotted_ids(value: JsonObject) -> list[str]:
    segments = map(_SEGMENT.fullmatch, text_in(value, "dotted_order").split("."))
    return [segment[2] for segment in segments if segment]


def _parent(nodes: dict[str | DocumentPath, RunNode], key: str | DocumentPath, node: RunNode) -> RunNode | None:
    """The nearest run above it that is in the file."""
    if not isinstance(node.value, dict):
        return None
    return next((nodes[name] for name in ids_above(node.value) if name in nodes and name != key), None)


def ids_above(value: JsonObject) -> Iterator[str]:
    """The ids of the runs around this one, nearest first, as far as it names them."""
    if has_text(value, "parent_run_id"):
        yield value["parent_run_id"]
    for parent in reversed(list_in(value, "parent_run_ids")):
        if isinstance(parent, str):
            yield parent
    yield from reversed(_dotted_ids(value)[:-1])


def _roots(nodes: Iterable[RunNode]) -> list[RunNode]:
    """The runs with no parent; of runs that are each other's parents, the first in the file."""
    roots: list[RunNode] = []
    reached: set[int] = set()
    # What no root leads to is left for the second round: runs in circles.
    for circles in (False, True):
        for node in nodes:
            if id(node) in reached or (node.parent is not None and not circles):
                continue
            node.in_circle = circles
            roots.append(node)
            waiting = [node]
            while waiting:
                found = waiting.pop()
                if id(found) not in reached:
                    reached.add(id(found))
                    waiting.extend(found.children)
    return roots


def metadata(fields: RunFields) -> JsonObject:
    """The metadata of a run, wherever its version of the format keeps it."""
    held, own = object_in(fields.object("extra"), "metadata"), fields.object("metadata")
    if own:
        return {**held, **own}
    return held


def run_metadata(runs: Sequence[RunFields]) -> JsonObject:
    """The metadata of the first, which is the root; what LangSmith says of it; and all fields that are not known."""
    root = runs[0]
    summary = {name: root.value[name] for name in SUMMARY_FIELDS if root.value.get(name)}
    unknown = {run.value["id"]: without(run.value, *KNOWN) for run in runs if not run.value.keys() <= KNOWN}
    return metadata(root) | filled({"langsmith": summary, "unmapped": unknown})


def tags(fields: RunFields) -> tuple[str, ...]:
    """The run's tags."""
    return fields.texts("tags")


_LINKS = {"parent_run_id": str, "trace_id": str, "dotted_order": str, "parent_run_ids": list, "child_runs": list}


def check_links(fields: RunFields) -> None:
    """An error where a field that places the run among others is of the wrong type: it would be put elsewhere."""
    for name, kind in _LINKS.items():
        found = fields.value.get(name)
        if found is not None and type(found) is not kind:
            raise fields.error(f"expected {'a text' if kind is str else 'a list'}, got {json_type(found)}", name)


_TRACEBACK = "Traceback (most recent call last)"

_INPUTS = ("input_tokens", "prompt_tokens")
_OUTPUTS = ("output_tokens", "completion_tokens")


def error_in(fields: Fields) -> ErrorInfo | None:
    """The error a run ended with; the SDK writes an exception's repr and its traceback as one text."""
    error = fields.take("error", "error_preview")
    if not error:
        return None
    if not isinstance(error, str):
        return error_of(error)
    head, mark, trace = error.partition(_TRACEBACK)
    info = error_of_repr(head)
    return ErrorInfo(type=info.type, module=info.module, message=info.message, traceback=mark + trace or None)


def result_in(value: Json, name: str) -> tuple[Json, ErrorInfo | None]:
    """The result in a run's outputs, out of the `name` that stands alone in them, or the error it tells of."""
    if isinstance(value, dict) and value.keys() == {name}:
        value = value[name]
    message = message_body(value)
    if message is None:
        return value, None
    content = message["content"]
    if message["type"] == "tool" and message.get("status") == "error":
        error = error_of(content, "ToolError")
        return content, replace(error, raised=bool(content))
    return content, None


def is_apart(fields: Fields, name: str) -> bool:
    """True when the run's inputs or outputs are known to be elsewhere: stored apart, or shown as a preview only."""
    return fields.take(name) in (None, {}) and bool(fields.take(f"{name}_s3_urls", f"{name}_preview"))


def is_there(fields: Fields, name: str) -> bool:
    """True when the file holds the run's inputs or outputs."""
    return fields.take(name) is not None and not is_apart(fields, name)


def usage_in(fields: Fields, spoken: Iterable[Json]) -> Usage | None:
    """Tokens and money of one model call: as LangSmith counted them, else as one of `spoken` says."""
    input_tokens, output_tokens = _count(fields, "prompt_tokens"), _count(fields, "completion_tokens")
    for counts in spoken:
        if input_tokens or output_tokens:
            break
        input_tokens, output_tokens = count_in(counts, *_INPUTS), count_in(counts, *_OUTPUTS)
    if not input_tokens and not output_tokens:
        input_tokens = output_tokens = None
    parts = _money(fields, "prompt_cost"), _money(fields, "completion_cost")
    cost = _money(fields, "total_cost")
    if cost is None and parts != (None, None):
        cost = sum(filter(None, parts), 0.0)
    return stated_usage(input_tokens, output_tokens, cost)


def _count(fields: Fields, name: str) -> int | None:
    number = fields.number(name)
    if number is not None and (number < 0 or number != int(number)):
        raise fields.error("expected a count", name)
    if number is None:
        return None
    return int(number)


def _money(fields: Fields, name: str) -> float | None:
    """An amount: a number, or a decimal as text."""
    amount_text = fields.take(name)
    if not isinstance(amount_text, str):
        return fields.number(name)
    try:
        amount = float(amount_text)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise fields.error(f"expected an amount, got {amount_text[:40]!r}", name)
    return amount
