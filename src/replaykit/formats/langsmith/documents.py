"""Read files of LangSmith runs: each run as it was written, with its path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypedDict, cast

import msgspec
from msgspec import Raw, Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.piece_groups import Piece, PieceGroups
from replaykit.formats.core.source import Source
from replaykit.model.json_positions import DocumentPath
from replaykit.model.nesting import check_nesting, decode_json
from replaykit.model.text_lines import words_of
from replaykit.model.values import NULL, Json, JsonObject, read_items
from replaykit.wire.json_fields import has_list, has_text

SUMMARY_FIELDS = (
    "session_name",
    "session_id",
    "project_id",
    "thread_id",
    "reference_example_id",
    "feedback_stats",
    "app_path",
)
"""Members that LangSmith itself adds to a run."""
# LangSmith's bookkeeping, which a run does not need.
_LEFT = words_of(
    "events serialized manifest manifest_id manifest_s3_id s3_urls attachments execution_order "
    "prompt_token_details completion_token_details prompt_cost_details completion_cost_details "
    "first_token_time price_model_id in_dataset is_in_dataset reference_dataset_id query_metadata "
    "share_token share_url tenant_id ls_user_id modified_at last_queued_at thread_evaluation_time "
    "total_tokens is_root child_run_ids direct_child_run_ids"
)


class _Extra(TypedDict, total=False):
    metadata: Any
    invocation_params: Raw


class _Members(TypedDict, total=False):
    """The members of a run that are read. A run with a wrong type in one is decoded in full, for a proper error."""

    id: str | None
    name: str | None
    run_type: str | None
    status: str | None
    error: Any
    error_preview: Any
    tags: list[Any] | None
    extra: _Extra | None
    metadata: dict[str, Any] | None
    inputs: Raw
    inputs_preview: Any
    inputs_s3_urls: Any
    outputs: Raw
    outputs_preview: Any
    outputs_s3_urls: Any
    start_time: Any
    end_time: Any
    latency_seconds: Any
    trace_id: str | None
    dotted_order: str | None
    parent_run_id: str | None
    parent_run_ids: list[Any] | None
    child_runs: list[Any] | None
    prompt_tokens: Any
    completion_tokens: Any
    prompt_cost: Any
    completion_cost: Any
    total_cost: Any
    session_name: Any
    session_id: Any
    project_id: Any
    thread_id: Any
    reference_example_id: Any
    feedback_stats: Any
    app_path: Any


KNOWN = frozenset((*_Members.__annotations__, *_LEFT))
_decode = msgspec.json.Decoder(_Members).decode


def members_of(text: bytes) -> JsonObject | None:
    """Return a run's known members, with inputs, outputs and settings still encoded; None if that is not possible."""
    try:
        check_nesting(text)
        if not text.isascii():
            text.decode()  # undecoded text could hide invalid UTF-8
        found = cast(JsonObject, _decode(text))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    for name in ("inputs", "outputs"):
        if found.get(name) == NULL:
            found[name] = None
    return found


def loaded(value: Json) -> Json:
    """Decode a member that is still JSON text; leave a malformed one to the reader that reports it."""
    try:
        if type(value) is Raw:
            return decode_json(value)
        return value
    except msgspec.MsgspecError:
        return value


FORMAT = "langsmith"

Document = tuple[Json, DocumentPath, Source]
"""A run or a part of one, its path, and its source."""

# Members that hold runs in API responses, webhooks and SDK requests; a patch comes after its post.
_LISTS = ("runs", "items", "post", "patch")
_MARKS = ("trace_id", "parent_run_id", "parent_run_ids", "child_runs", "session_id", "project_id")
_LOOK_AT = 5


def documents(source: Source) -> Iterator[list[Document] | InvalidFile]:
    """Yield lists of runs that may belong together, and an error for each line that is not JSON."""
    if not source.is_lines:
        yield [(run, path, source) for run, path in _documents(source.value)]
        return
    with PieceGroups(source.file, original=source.original()) as gathered:
        for line in source.documents():
            try:
                _gather(gathered, line)
            except InvalidFile as problem:
                yield problem
        groups: Iterable[list[Piece]] = (pieces for _trace, pieces in gathered.groups())
        if gathered.holds(_LOOSE):  # these may belong to any run of the file
            groups = [list(chain.from_iterable(groups))]
        for pieces in groups:
            found, problems = _read(source.file, pieces)
            yield from problems
            yield found


def holds_runs(source: Source) -> bool:
    """Return whether one of the first items looks like a run: the very first may be a bad one."""
    found = (run for value in source.first for run in islice(_documents(value), _LOOK_AT))
    return any(_is_run(run) for run, _path in found)


def _is_run(value: Json) -> bool:
    """Return whether an object has a `dotted_order`, or a run type and a member that places it in a trace."""
    if not isinstance(value, dict):
        return False
    typed = has_text(value, "run_type") and any(name in value for name in _MARKS)
    return typed or has_text(value, "dotted_order")


def _documents(value: Json) -> Iterator[tuple[Json, DocumentPath]]:
    parts: Iterable[tuple[DocumentPath, Json]] = [((), value)]
    if isinstance(value, list):
        parts = (((index,), part) for index, part in enumerate(value))
    for path, part in parts:
        names = _lists(part)
        if not names:
            yield part, path
        for name in names:
            yield from ((run, (*path, name, number)) for number, run in enumerate(part[name]))


def _lists(part: Json) -> list[str]:
    if not isinstance(part, dict) or "run_type" in part:
        return []
    return [name for name in _LISTS if has_list(part, name)]


class _Head(Struct):
    """The members that tell whether an object is a run, and in which trace."""

    id: str | None = None
    trace_id: str | None = None
    dotted_order: str | None = None
    parent_run_id: str | None = None
    parent_run_ids: list[str] | None = None
    run_type: str | None = None
    runs: Raw = Raw()
    items: Raw = Raw()
    post: Raw = Raw()
    patch: Raw = Raw()

    @property
    def trace(self) -> str:
        """The id of the root run, as far as it is known."""
        first = (self.dotted_order or "").partition(".")[0].partition("Z")[2]
        above = self.parent_run_ids[0] if self.parent_run_ids else self.parent_run_id and _LOOSE
        return self.trace_id or first or above or self.id or _LOOSE

    @property
    def lists(self) -> list[Raw]:
        """The lists of runs in an object that is not a run itself."""
        return [held for held in (self.runs, self.items, self.post, self.patch) if held]

    @property
    def is_known(self) -> bool:
        """True for a run without unknown members."""
        return type(self) is _Known and not self.lists


_LOOSE = "?"  # the key of runs that name only a parent, or nothing at all
# The head of a run that has known members only.
_Known: Any = msgspec.defstruct(
    "_Known",
    [(name, Raw, Raw()) for name in KNOWN.difference(_Head.__struct_fields__)],
    bases=(_Head,),
    forbid_unknown_fields=True,
)
_head = msgspec.json.Decoder(_Head).decode
_known: Callable[[bytes | Raw], _Head] = msgspec.json.Decoder(_Known).decode


def _gather(gathered: PieceGroups, line: Source) -> None:
    """Group the runs on a line by trace; raise `InvalidFile` if it is not JSON."""
    text = line.text
    try:
        check_nesting(text)
        for part in read_items(text) if text[:64].lstrip()[:1] == b"[" else (text,):
            head = _head_of(part)
            if head.run_type is None and (lists := head.lists):
                for run in chain.from_iterable(map(read_items, lists)):
                    own = _head_of(run)
                    gathered.add(own.trace, bytes(run), line.line, own.is_known)
            elif part is text and gathered.reads_again:
                gathered.add_place(head.trace, line.at, len(text), line.line, head.is_known)
            else:
                gathered.add(head.trace, bytes(part), line.line, head.is_known)
    except msgspec.MsgspecError:
        _ = line.value
        gathered.add(_LOOSE, text, line.line)  # a member has a wrong type; `_read` reports it


def _head_of(run: bytes | Raw) -> _Head:
    try:
        return _known(run)
    except msgspec.ValidationError:
        return _head(run)


def _read(file: str, pieces: Iterable[Piece]) -> tuple[list[Document], list[InvalidFile]]:
    found: list[Document] = []
    problems: list[InvalidFile] = []
    for text, line, is_known in pieces:
        source = Source(text, file, line=line)
        members = members_of(text) if is_known else None
        if members is not None:
            found.append((members, (), source))
            continue
        try:
            found += [(run, path, source) for run, path in _documents(source.value)]
        except InvalidFile as problem:
            problems.append(problem)
    return found, problems
