"""Fixtures: the frozen outcomes a candidate is served, as one readable file per tool or model.

    fixtures/lookup_billing.json
      {"replaykit": 1, "kind": "tool_call", "name": "lookup_billing", "calls": [
        {"call": 3, "path": "", "arguments": {…}, "result": …}, …]}

A call has a `result`, an `error`, the `items` of a stream, or none of them when the log holds no outcome, or when it
was abandoned (`"complete": false`). Kept are its number, path, arguments, outcome, duration, where it begins and ends
in the run (`span`), the call it was made inside of (`parent`), and of a model call the finish reason and usage; its
step and date belong to the run and are left out. Of a call that went over HTTP
`items` are the chunks of the response, and `wire` says the rest of it. Values stay the JSON text they are, tagged forms
included.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeVar

import msgspec
import orjson
from msgspec import Meta, Struct

from replaykit.cases.confine import inside
from replaykit.cases.document import read_bytes
from replaykit.cases.slug import slug
from replaykit.errors import FormatTooNew, InvalidFile, UsageError, nearest
from replaykit.model.events import Call, ErrorInfo, Exchange, LlmCall, Span, ToolCall, Usage, WireInfo
from replaykit.model.lines import line_of
from replaykit.model.nesting import NestedTooDeeply, check_nesting, line_nested_too_deeply
from replaykit.model.values import ABSENT, NULL, Json, Raw
from replaykit.redaction.files import clean_bytes
from replaykit.redaction.lazy import lazy
from replaykit.replayer.turns import ended_before

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

T = TypeVar("T", bound=Struct)

FIXTURE_FORMAT = 2
"""Version of the fixture file; readers accept every older one."""
FIXTURES = "fixtures"
"""The directory inside a case."""
MAX_FIXTURE_BYTES = 512 * 1024 * 1024
"""A file holds the largest response that is kept (256 MiB), written as base64."""

_BOM = b"\xef\xbb\xbf"
# Short lists on one line each. No value is touched: line breaks inside of texts are escaped.
_PAUSES = lazy(rb'"pauses_ms": \[\n[-+.\deE,\s]*\]')
_SPAN = lazy(rb'"span": \{(?:\s+"(?:begin|begin_s|end|end_s|loop)": [-+.\deE,\s\[\]]+){2,5}\}')
_PAIR = lazy(rb'\[\n\s+("(?:[^"\\]|\\.){0,300}"),\n\s+("(?:[^"\\]|\\.){0,300}")\n\s+\]')
_KINDS: dict[str, type[Call]] = {"tool_call": ToolCall, "llm_call": LlmCall, "exchange": Exchange}


class _Usage(Usage, frozen=True, forbid_unknown_fields=True):
    pass


class _Error(ErrorInfo, frozen=True, forbid_unknown_fields=True):
    pass


class _Wire(WireInfo, frozen=True, forbid_unknown_fields=True):
    pass


class _Span(Span, frozen=True, forbid_unknown_fields=True):
    pass


class _Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    call: Annotated[int, Meta(ge=0)]
    path: str = ""
    parent: int | None = None
    arguments: Raw = NULL
    result: Raw = ABSENT
    error: _Error | None = None
    items: tuple[Raw, ...] | None = None
    sent: Raw = ABSENT
    pauses_ms: tuple[float, ...] = ()
    mutated: tuple[str, ...] = ()
    complete: bool = True
    duration_s: float = 0.0
    span: _Span | None = None
    after: int | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None
    wire: _Wire | None = None


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replaykit: int
    kind: Literal["tool_call", "llm_call", "exchange"]
    name: str
    calls: tuple[_Call, ...]


class _Version(Struct, frozen=True):
    replaykit: int


def write_fixtures(
    directory: str | os.PathLike[str], calls: Iterable[Call], redactor: "Redactor | None" = None
) -> list[Path]:
    """The files written into `fixtures/` of a case's directory; those of other names there are left alone."""
    case = Path(directory)
    written: dict[Path, tuple[str, str]] = {}
    groups: dict[tuple[str, str], list[Call]] = {}
    ordered = sorted(calls, key=lambda call: call.seq)
    late = ended_before(ordered)
    for call in ordered:
        told = msgspec.structs.replace(call, after=late[call.seq]) if call.seq in late else call
        groups.setdefault((call.kind, call.name), []).append(told)
    for (kind, name), group in groups.items():
        file = _place(case, f"{slug(kind, name)}.json")
        if file in written:
            raise UsageError(f"{written[file]!r} and {(kind, name)!r} would share the file {file}")
        written[file] = (kind, name)
        _replace(file, clean_bytes(_encode(kind, name, group), redactor))
    return list(written)


def read_fixtures(directory: str | os.PathLike[str]) -> list[Call]:
    """Every call in `fixtures/` of a case's directory, in order; none when there is no such directory."""
    calls = [call for file in fixture_files(directory) for call in read_fixture(file)]
    return sorted(calls, key=lambda call: call.seq)


def fixture_files(directory: str | os.PathLike[str]) -> list[Path]:
    """The fixture files of a case, by name; `InvalidFile` when one leads out of the case's directory."""
    case = Path(directory)
    folder = case / FIXTURES
    if not folder.is_dir():
        return []
    names = sorted(n for n in os.listdir(folder) if n.endswith(".json") and not n.startswith("."))
    return [_place(case, name) for name in names]


def read_fixture(file: Path) -> list[Call]:
    """The calls in one fixture file, in the order they stand there; `InvalidFile` says what is wrong, and where."""
    text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES).removeprefix(_BOM)
    name = str(file)
    try:
        check_nesting(text)
        orjson.loads(text)  # for its strictness and its line numbers; the values themselves stay text
    except NestedTooDeeply as error:
        raise InvalidFile(str(error), file=name, line=line_nested_too_deeply(text)) from None
    except orjson.JSONDecodeError as error:
        raise InvalidFile(f"not JSON: {error.msg}", file=name, line=error.lineno) from None
    _refuse_newer(text, name)
    try:
        content = msgspec.json.decode(text, type=_File)
        return [_build(content, index, text, name) for index in range(len(content.calls))]
    except msgspec.MsgspecError as error:
        _raise_readable(str(error), text, name)


def _place(case: Path, name: str) -> Path:
    try:
        return inside(case, f"{FIXTURES}/{name}")
    except ValueError as error:
        raise InvalidFile(str(error), file=str(case / FIXTURES / name)) from None


def _replace(file: Path, text: bytes) -> None:
    """Whole or not at all, and never through a link."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(text)
    draft.replace(file)


def _encode(kind: str, name: str, calls: list[Call]) -> bytes:
    entries = [_entry(call) for call in calls]
    content = {"replaykit": FIXTURE_FORMAT, "kind": kind, "name": name, "calls": entries}
    text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    text = _SPAN.sub(_on_one_line, text)
    text = _PAUSES.sub(_on_one_line, text)
    if all(call.wire is None for call in calls):
        return text
    return _PAIR.sub(rb"[\1, \2]", text)


def _on_one_line(rows: re.Match[bytes]) -> bytes:
    line = b" ".join(rows[0].split())
    return re.sub(rb"([\[{]) | ([\]}])", rb"\1\2", line)


def _entry(call: Call) -> dict[str, Json]:
    entry: dict[str, Json] = {"call": call.seq, "path": call.path}
    if call.parent is not None:
        entry["parent"] = call.parent
    entry["arguments"] = call.request_json
    if call.result_json:
        entry["result"] = call.result_json
    if call.error is not None:
        entry["error"] = call.error
    if call.items_json is not None:
        entry["items"] = call.items_json
    if call.sent_json:
        entry["sent"] = call.sent_json
    if call.pauses_ms:
        entry["pauses_ms"] = call.pauses_ms
    if call.mutated:
        entry["mutated"] = call.mutated
    if not call.complete:
        entry["complete"] = False
    if call.duration_s:
        entry["duration_s"] = call.duration_s
    if call.span is not None:
        entry["span"] = call.span
    if call.after is not None:
        entry["after"] = call.after
    if isinstance(call, LlmCall):
        extra = {"finish_reason": call.finish_reason, "usage": call.usage}
        entry |= {key: value for key, value in extra.items() if value is not None}
    if call.wire is not None:
        entry["wire"] = call.wire
    return entry


def _build(content: _File, index: int, text: bytes, file: str) -> Call:
    entry = content.calls[index]
    where = ("calls", index)
    extra: dict[str, Json] = {}
    if content.kind == "llm_call":
        extra = {"finish_reason": entry.finish_reason, "usage": _plain(entry.usage, Usage)}
    elif entry.finish_reason is not None or entry.usage is not None:
        raise _error("only an llm_call has a finish_reason and usage", text, file, where)
    if entry.result and entry.error is not None and entry.wire is None:  # a stream may tell some, and then break
        raise _error("a call has a result or an error, not both", text, file, where)
    try:
        arguments = Raw(orjson.dumps(orjson.loads(bytes(entry.arguments)), option=orjson.OPT_SORT_KEYS))
    except TypeError:  # orjson reads deeper than it writes
        raise _error("nested too deeply", text, file, (*where, "arguments")) from None
    return _KINDS[content.kind](
        seq=entry.call,
        name=content.name,
        path=entry.path,
        parent=entry.parent,
        arguments_json=arguments,
        result_json=_compact(entry.result),
        error=_plain_error(entry.error),
        items_json=None if entry.items is None else tuple(map(_compact, entry.items)),
        sent_json=_compact(entry.sent),
        pauses_ms=entry.pauses_ms,
        mutated=entry.mutated,
        complete=entry.complete,
        duration_s=entry.duration_s,
        span=_plain(entry.span, Span),
        after=entry.after,
        wire=_plain(entry.wire, WireInfo),
        **extra,
    )


def _compact(text: Raw) -> Raw:
    # ABSENT itself, not its equal: the model leaves a field out by identity.
    return Raw(msgspec.json.format(bytes(text), indent=-1)) if text else ABSENT


def _plain_error(error: _Error | None) -> ErrorInfo | None:
    if error is None:
        return None
    fields = {name: getattr(error, name) for name in ErrorInfo.__struct_fields__}
    texts = {name: _compact(fields[name]) for name in ("args_json", "attributes_json")}
    return ErrorInfo(**{**fields, **texts})


def _plain(value: T | None, kind: type[T]) -> T | None:
    """The value as the model has it, without the strictness of the file."""
    return value and kind(**{name: getattr(value, name) for name in kind.__struct_fields__})


def _refuse_newer(text: bytes, file: str) -> None:
    try:
        version = msgspec.json.decode(text, type=_Version).replaykit
    except msgspec.MsgspecError:
        return  # the whole file is looked at next, and says it better
    if version > FIXTURE_FORMAT:
        raise FormatTooNew(f"{file}: fixture format {version}, this version reads up to {FIXTURE_FORMAT}")
    if version < 1:
        raise _error(f"replaykit: expected the format version {FIXTURE_FORMAT}", text, file, ("replaykit",))


def _error(message: str, text: bytes, file: str, path: tuple[str | int, ...]) -> InvalidFile:
    return InvalidFile(message, file=file, line=line_of(text, path))


def _raise_readable(said: str, text: bytes, file: str) -> NoReturn:
    """msgspec's sentence with the line it is about, and the nearest key for an unknown one."""
    message, _, where = said.partition(" - at `$")
    steps = re.findall(r"\.([^.\[`]+)|\[(\d+)\]", where)
    path: tuple[str | int, ...] = tuple(key or int(index) for key, index in steps)
    unknown = re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL)
    if unknown:
        key = unknown[1]
        message = f"unknown key {key[:40]!r}; {nearest(key[:40], _known_keys(path))}"
        path = (*path, key)
    else:
        message = message[:1].lower() + message[1:]
        message = f"{'.'.join(map(str, path))}: {message}" if path else message
    raise _error(message, text, file, path) from None


def _known_keys(path: tuple[str | int, ...]) -> list[str]:
    by_depth: dict[int, type[Struct]] = {0: _File, 2: _Call}
    by_name: dict[str | int, type[Struct]] = {"usage": _Usage, "wire": _Wire, "span": _Span}
    struct = by_depth.get(len(path)) or by_name.get(path[-1], _Error)
    return [info.encode_name for info in msgspec.structs.fields(struct)]
