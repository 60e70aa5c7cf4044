"""Build trees of runs from the parts in a file: joined by id, linked by parent."""

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
    """A complete run with its parent and children."""

    __slots__ = ("children", "in_cycle", "parent", "path", "places", "source", "value")

    def __init__(self, value: Json, path: DocumentPath, source: Source) -> None:
        self.value = value
        self.path = path
        self.source = source
        """The line of the file that holds the run, or the whole file."""
        self.places: dict[str, tuple[Source, DocumentPath]] | None = None
        """The source and path of each field, if the run has several parts."""
        self.parent: RunNode | None = None
        self.children: list[RunNode] = []
        self.in_cycle = False

    @property
    def failed(self) -> bool:
        return isinstance(self.value, dict) and bool(self.value.get("error") or self.value.get("error_preview"))

    def fields(self) -> RunFields:
        """Return the run's fields; raise `InvalidFile` if it is not a run."""
        if self.in_cycle:
            raise self.source.error("its parents form a cycle", self.path)
        return RunFields(self)

    def add(self, value: JsonObject, path: DocumentPath, source: Source) -> None:
        """Add another part of the run; a later value wins unless it is empty."""
        if self.places is None:
            self.places = dict.fromkeys(self.value, (self.source, self.path))
            self.value = dict(self.value)
        for name, part in value.items():
            known_item, item = self.value.get(name), loaded(part)
            # A patch leaves out, or empties, what the post already said.
            if name in self.value and item in EMPTY and known_item is not None:
                continue
            # Both parts add settings and metadata of their own.
            both = name == "extra" and isinstance(known_item, dict) and isinstance(item, dict)
            self.value[name] = {**known_item, **item} if both else item
            self.places[name] = (source, path)


class RunFields(Fields):
    """The fields of a run whose parts may be in several places of a file."""

    __slots__ = ("_places",)

    def __init__(self, node: RunNode) -> None:
        super().__init__(node.source, node.value, node.path, "a run: an object with `id` and `run_type`")
        self._places = node.places or {}

    def take(self, *names: str) -> Json:
        """Take the first value that is not null, decoded if necessary; None if there is none."""
        for name in names:  # not recorded as taken, since `rest()` is never called for runs
            member = self.value.get(name)
            if member is not None:
                if type(member) is Raw:
                    member = self.value[name] = self.loaded(member, name)
                return member
        return None

    def text(self, *names: str) -> str | None:
        value = self.value.get(names[0])
        if type(value) is str:
            return value
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
    """Return the roots in file order; each run of the file is in exactly one tree."""
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
    for node in nodes.values():  # break reference cycles, which would stay in memory until the garbage collector runs
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
    """Add a run and all runs nested in it."""
    waiting: list[tuple[TraceItem, RunNode | None]] = [(TraceItem(source, value, path), None)]
    while waiting:
        item, parent = waiting.pop()
        node = _entered(nodes, item)
        if parent is not None and node.parent is None:
            node.parent = parent
        inside = list_in(item.value, "child_runs")
        if inside:
            children = TraceItem(source, inside, (*item.path, "child_runs")).members()
            # Reversed, because the last item added is the first one read, and runs are read in file order.
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
    """Return the run's id, which a patch may have in its `dotted_order` only."""
    run_id = value.get("id")
    if isinstance(run_id, str) and run_id:
        return run_id
    # A wrong type is reported when the run is read.
    if run_id is None:
        return next(reversed(_dotted_ids(value)), None)
    return None


def _dotted_ids(value: JsonObject) -> list[str]:
    segments = map(_SEGMENT.fullmatch, text_in(value, "dotted_order").split("."))
    return [segment[2] for segment in segments if segment]


def _parent(nodes: dict[str | DocumentPath, RunNode], key: str | DocumentPath, node: RunNode) -> RunNode | None:
    """Return the nearest outer run in the file."""
    if not isinstance(node.value, dict):
        return None
    return next((nodes[name] for name in ids_above(node.value) if name in nodes and name != key), None)


def ids_above(value: JsonObject) -> Iterator[str]:
    """Yield the ids of the outer runs, nearest first, as far as the run names them."""
    if has_text(value, "parent_run_id"):
        yield value["parent_run_id"]
    for parent in reversed(list_in(value, "parent_run_ids")):
        if isinstance(parent, str):
            yield parent
    yield from reversed(_dotted_ids(value)[:-1])


def _roots(nodes: Iterable[RunNode]) -> list[RunNode]:
    """Return the runs without a parent; of a cycle of parents, the first run in the file."""
    roots: list[RunNode] = []
    reached: set[int] = set()
    # Runs in cycles are reached from no root; the second round makes roots of them.
    for cycles in (False, True):
        for node in nodes:
            if id(node) in reached or (node.parent is not None and not cycles):
                continue
            node.in_cycle = cycles
            roots.append(node)
            waiting = [node]
            while waiting:
                below = waiting.pop()
                if id(below) not in reached:
                    reached.add(id(below))
                    waiting.extend(below.children)
    return roots


def metadata(fields: RunFields) -> JsonObject:
    """Return a run's metadata, which versions of the format keep in different places."""
    extra, own = object_in(fields.object("extra"), "metadata"), fields.object("metadata")
    if own:
        return {**extra, **own}
    return extra


def run_metadata(runs: Sequence[RunFields]) -> JsonObject:
    """Return the root's metadata, LangSmith's additions to it, and all unknown members."""
    root = runs[0]
    summary = {name: root.value[name] for name in SUMMARY_FIELDS if root.value.get(name)}
    unknown = {run.value["id"]: without(run.value, *KNOWN) for run in runs if not run.value.keys() <= KNOWN}
    return metadata(root) | filled({"langsmith": summary, "unmapped": unknown})


def tags(fields: RunFields) -> tuple[str, ...]:
    return fields.texts("tags")


_LINKS = {"parent_run_id": str, "trace_id": str, "dotted_order": str, "parent_run_ids": list, "child_runs": list}


def check_links(fields: RunFields) -> None:
    """Raise `InvalidFile` if a member that links runs has the wrong type: the run would end up in the wrong place."""
    for name, kind in _LINKS.items():
        value = fields.value.get(name)
        if value is not None and type(value) is not kind:
            raise fields.error(f"expected {'a text' if kind is str else 'a list'}, got {json_type(value)}", name)


_TRACEBACK = "Traceback (most recent call last)"

_INPUTS = ("input_tokens", "prompt_tokens")
_OUTPUTS = ("output_tokens", "completion_tokens")


def error_in(fields: Fields) -> ErrorInfo | None:
    """Return a run's error; the SDK writes an exception's repr and traceback as one text."""
    error = fields.take("error", "error_preview")
    if not error:
        return None
    if not isinstance(error, str):
        return error_of(error)
    # The repr comes first, then the traceback.
    head, mark, trace = error.partition(_TRACEBACK)
    info = error_of_repr(head)
    return ErrorInfo(type=info.type, module=info.module, message=info.message, traceback=mark + trace or None)


def result_in(value: Json, name: str) -> tuple[Json, ErrorInfo | None]:
    """Return the result in a run's outputs, unwrapped from `name`, or the error that it describes."""
    if isinstance(value, dict) and value.keys() == {name}:
        value = value[name]
    message = message_body(value)
    if message is None:
        return value, None
    content = message["content"]
    # The model saw this text; the run itself may count as successful.
    if message["type"] == "tool" and message.get("status") == "error":
        error = error_of(content, "ToolError")
        return content, replace(error, raised=bool(content))
    return content, None


def is_stored_elsewhere(fields: Fields, name: str) -> bool:
    """Return whether inputs or outputs are stored elsewhere, or shown as a preview only."""
    return fields.take(name) in (None, {}) and bool(fields.take(f"{name}_s3_urls", f"{name}_preview"))


def has_value(fields: Fields, name: str) -> bool:
    """Return whether the file holds the run's inputs or outputs."""
    return fields.take(name) is not None and not is_stored_elsewhere(fields, name)


def usage_in(fields: Fields, messages: Iterable[Json]) -> Usage | None:
    """Return tokens and cost of one model call: LangSmith's counts, or else those in the messages."""
    input_tokens, output_tokens = _count(fields, "prompt_tokens"), _count(fields, "completion_tokens")
    for counts in messages:
        if input_tokens or output_tokens:
            break
        input_tokens, output_tokens = count_in(counts, *_INPUTS), count_in(counts, *_OUTPUTS)
    # Zero tokens on both sides are unknown, not free.
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
    """Return an amount from a number, or a decimal as text."""
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
