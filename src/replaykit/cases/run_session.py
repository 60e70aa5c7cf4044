"""Turn runs into sessions: their values, and their files.

A session file is written atomically, and only if it reads back the same.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from replaykit.cases.case import MAX_CASE_BYTES
from replaykit.cases.session import FAILED_FROM, read_session
from replaykit.cases.session_shape import MAX_LATENCY_MS, MAX_STATUS
from replaykit.cases.tagged_values import Say, build_tagged
from replaykit.config import make_home
from replaykit.documents.document import parse_document
from replaykit.documents.yaml_writer import emit_yaml
from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import ABSENT, NULL, JsonObject, Raw, canonical, decode, encode_pretty, raw
from replaykit.redaction.files import file_redactor, write_clean, writing
from replaykit.wire.json_fields import as_object

_NAME_CHARS = 150
_REASON_CHARS = 500


def session_of_run(run: TraceRun, contract: str = "") -> JsonObject:
    """Return a run as a session; raise `UsageError` if the run lacks what a session needs."""
    if run.input_json == NULL:
        raise UsageError(f"run {run.id}: its input is not known, so it cannot be asked again")
    calls = [seen(call) for call in _served_calls(run)]

    def build(say: Say) -> JsonObject:
        document: JsonObject = {
            "id": run.id,
            "name": _line(run.name, _NAME_CHARS) or run.id,
            "source": run.origin.format or run.origin.kind,
            "captured_at": dt.datetime.fromtimestamp(run.started_at, dt.UTC).isoformat(),
            "input": say(run.input_json),
            "tool_responses": [session_answer(call, say) for call in calls],
        }
        if run.error is not None:
            document["expected_failure"] = _line(str(run.error), _REASON_CHARS)
        if contract:
            return {**document, "contract": contract}
        return document

    return build_tagged(build)


def _served_calls(run: TraceRun) -> Iterator[ToolCall]:
    """Yield the calls whose answers a candidate gets."""
    unknown: set[str] = set()
    for call in run.tool_calls:
        if not call.answered:
            unknown.add(call.name)
        elif call.name in unknown:
            # A session serves the n-th answer to the n-th call: a missing answer would shift all later ones.
            raise UsageError(f"run {run.id}: an answer of {call.name!r} is not known, and later ones are")
        else:
            yield call


def _line(text: str, chars: int) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:chars].strip()


NO_ANSWER = 0
FAILED_STATUS = 500  # for an exception without a status
_SILENT = frozenset({"builtins.TimeoutError", "builtins.ConnectionError"})
_SILENT_NAME = re.compile(r"Timeout|Connect")  # an imported error has only a name, no base classes


class SeenCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call as the agent saw it."""

    name: str
    """The tool."""
    arguments_json: Raw = field(default=NULL, name="arguments")
    """What it was called with."""
    response_json: Raw = field(default=ABSENT, name="response")
    """What it answered."""
    error: str = ""
    """The error it failed with; empty if it did not."""
    status: int | None = None
    """The status of a failed tool; 0 if no answer came."""
    latency_ms: float = 0.0
    """How long it took."""


def seen(call: ToolCall) -> SeenCall:
    """Return a call as the agent saw it."""
    status, response = None, call.result_json or ABSENT
    if call.error is not None and is_raised(call):
        status, response = _failure(call.error)
    elif call.items_json is not None:
        response = Raw(b"[%b]" % b",".join(map(bytes, call.items_json)))
    return SeenCall(
        name=call.name,
        arguments_json=call.arguments_json,
        response_json=response,
        error="" if call.error is None else str(call.error),
        status=status,
        latency_ms=round(call.duration_s * 1000, 3),
    )


def session_answer(call: SeenCall, say: Say) -> JsonObject:
    """Return the call as an answer in a session."""
    entry: JsonObject = {"tool": call.name}
    arguments = say(call.arguments_json) if call.arguments_json else None
    if isinstance(arguments, dict):
        entry["arguments"] = arguments
    entry["response"] = say(call.response_json) if call.response_json else None
    if call.status is not None:
        entry["status"] = call.status if _is_failure(call.status) else FAILED_STATUS
    latency = min(round(call.latency_ms), MAX_LATENCY_MS)
    if latency > 0:
        return {**entry, "latency_ms": latency}
    return entry


def _failure(error: ErrorInfo) -> tuple[int, Raw]:
    """Return the status and the response of a failed tool."""
    attributes = as_object(decode(error.attributes_json)) if error.attributes_json else {}
    status = attributes.get("status")
    if type(status) is int and _is_failure(status):
        return status, raw(attributes.get("response", str(error)))
    return NO_ANSWER if _is_silence(error) else FAILED_STATUS, raw(str(error))


def _is_failure(status: int) -> bool:
    return FAILED_FROM <= status <= MAX_STATUS or status == NO_ANSWER


def _is_silence(error: ErrorInfo) -> bool:
    """True for an exception that means that no answer came."""
    return bool(_SILENT_NAME.search(error.type) or _SILENT & {f"{error.module}.{error.type}", *error.bases})


def session_text(session: JsonObject, file: Path) -> str:
    """Return the redacted text of a session file, JSON or YAML by suffix; raise `UsageError` if it cannot hold it."""
    redactor = file_redactor()
    session = session if redactor is None else redactor.value(session)
    if file.suffix.lower() == ".json":
        text = encode_pretty(session).decode()
    else:
        text = emit_yaml(session)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_CASE_BYTES:
        raise UsageError(f"it has more than {MAX_CASE_BYTES:,} bytes")
    document = parse_document(text, str(file))
    read_session(document)
    if canonical(document.value) != canonical(session):
        raise UsageError(f"{file.name} would not say exactly that", hint="Write YAML: it holds numbers of any size.")
    return text


def holds(file: Path, text: str) -> bool:
    """True if the file already has exactly this content."""
    return file.is_file() and file.read_bytes() == text.encode()


def write_session(file: Path, text: str) -> Path:
    """Write the file atomically."""
    with writing(file):
        make_home(file.parent)
        write_clean(file, text, file_redactor(), fail_closed=True)
    return file
