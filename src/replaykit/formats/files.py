"""Turn a trace file of any format into runs."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

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
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    has_list,
    has_object,
    joined_texts,
    object_in,
    objects_in,
    of_type,
    text_in,
)

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def import_trace(path: str | os.PathLike[str], format: str | None = None) -> Imported:
    """Return the runs in a trace file, of the named format or the recognised one."""
    return import_source(read_source(path), format)


def import_source(source: Source, format: str | None = None) -> Imported:
    """Return the runs in a trace; raise `InvalidFile` if none can be read."""
    return read_all(importer_of(source, format), source)


def find_runs(source: Source, format: str | None = None) -> Iterator[Found]:
    """Yield what a trace file holds without loading the whole file into memory."""
    return read_with(importer_of(source, format), source)


def read_with(importer: Importer, source: Source) -> Iterator[Found]:
    """Yield what the importer reads; turn an exception of a plugin into an error of this file only."""
    try:
        yield from importer.read(source)
    except ReplayKitError:
        raise
    except Exception as error:
        raise InvalidFile(f"the importer {importer.name!r} failed: {error!r}", file=source.file) from error


def importer_of(source: Source, format: str | None = None) -> Importer:
    """Return the importer of the named format, or of the format that the file looks like."""
    if format is not None:
        return importer_named(format)
    found = recognise(source)
    if found is None or is_built_in(found.name):  # an installed importer takes precedence
        vendor = vendor_of(source)
        if vendor is not None:
            message = f"a session of {vendor.name}, which cannot be imported"
            raise InvalidFile(message, file=source.file, hint=vendor.way_out)
    if found is not None:
        return found
    if not source.is_lines and (source.is_text or source.head.lstrip()[:1] in (b"", b"{", b"[")):
        _ = source.value  # raises if the file is not even JSON, with the line
    if source.head.startswith(_UTF16) and not source.head.startswith(codecs.BOM_UTF32_LE):
        hint = "Write it as UTF-8, such as: iconv -f UTF-16 -t UTF-8 FILE | replaykit import -"
        raise InvalidFile("the text is UTF-16; traces are read as UTF-8", file=source.file, hint=hint)
    raise InvalidFile(
        "not a trace of a known format",
        file=source.file,
        hint="If it is one, name its format with --format; all of them: replaykit help formats",
    )


def importer_named(format: str) -> Importer:
    """Return the importer of that name; a `UsageError` suggests the nearest one."""
    if format not in IMPORTERS:
        hint = "All of them: replaykit help formats"
        raise UsageError(f"unknown format {format!r}; {nearest(format, IMPORTERS)}", hint=hint)
    return IMPORTERS.get(format)


def recognise(source: Source) -> Importer | None:
    """Return the importer of the format that the file looks like."""
    return next((importer for importer in importers_in_order() if importer.recognises(source)), None)


_LOOKED_AT = 200  # messages
_GOOSE_PARTS = ("toolRequest", "toolResponse")
_CLINE_TOOL = re.compile(
    r"<(execute_command|read_file|write_to_file|replace_in_file|apply_diff|insert_content|search_files|list_files"
    r"|list_code_definition_names|browser_action|use_mcp_tool|access_mcp_resource|ask_followup_question"
    r"|attempt_completion|switch_mode|new_task)>\s*<\w+>"
)
_CLINE_USER = re.compile(r"<environment_details>|<task>|^\[\w+[^\]]*\] Result:", re.MULTILINE)
_CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context")


class UnsupportedFormat(Struct, frozen=True):
    """A known format that cannot be imported."""

    name: str
    way_out: str
    is_one: Callable[[list[Json]], bool]
    """Recognises the first values of a file."""


def vendor_of(source: Source) -> UnsupportedFormat | None:
    """Return the vendor of a file that cannot be imported, if its format is known."""
    values = list(source.first)
    for vendor in VENDORS:
        if vendor.is_one(values):
            return vendor
    return None


def _is_qwen_code(values: list[Json]) -> bool:
    for line in values:
        if text_in(line, "sessionId") and isinstance(object_in(line, "message").get("parts"), list):
            return True
    return False


def _is_goose(values: list[Json]) -> bool:
    return any(of_type(message.get("content"), *_GOOSE_PARTS) for message in _messages(values))


def _is_cline(values: list[Json]) -> bool:
    """Recognise tools that the model wrote as XML, and results in the user's next message."""
    has_call = has_result = False
    for message in _messages(values):
        text = joined_texts(message.get("content"))
        has_call = has_call or (message.get("role") == "assistant" and _CLINE_TOOL.search(text) is not None)
        has_result = has_result or (message.get("role") == "user" and _CLINE_USER.search(text) is not None)
    return has_call and has_result


def _is_codex(values: list[Json]) -> bool:
    for line in values:
        kind = text_in(line, "type")
        if kind in _CODEX_LINES and has_object(line, "payload"):
            return True
        if kind == "thread.started" and "thread_id" in line:
            return True
    return False


def _is_gemini_cli(values: list[Json]) -> bool:
    for session in as_objects(values[:1]):
        return "sessionId" in session and bool(of_type(session.get("messages"), "gemini"))
    return False


def _is_adk(values: list[Json]) -> bool:
    for session in as_objects(values[:1]):
        if ("appName" in session or "app_name" in session) and has_list(session, "events"):
            return True
        return "eval_set_id" in session and has_list(session, "eval_cases")
    return False


def _messages(values: list[Json]) -> Iterator[JsonObject]:
    """Yield the first messages of a file: in a list, one on each line, or in an object."""
    return islice(_all_messages(values), _LOOKED_AT)


def _all_messages(values: list[Json]) -> Iterator[JsonObject]:
    for value in values:
        fields = as_object(value)
        if isinstance(value, list):
            yield from as_objects(value)
        elif has_object(fields, "message"):
            yield fields["message"]
        elif "role" in fields:
            yield fields
        else:
            for name in ("messages", "conversation", "history"):
                yield from objects_in(fields, name)


_OTLP = "Send its OpenTelemetry spans to: replaykit serve. Or record the program: replaykit record -- COMMAND"
_RECORD = "Record the agent instead: replaykit record -- COMMAND"

VENDORS = (
    UnsupportedFormat("Qwen Code", _OTLP, _is_qwen_code),
    UnsupportedFormat("Goose", _OTLP, _is_goose),
    UnsupportedFormat("Cline or Roo Code", "Its tools are XML in the text, which is not read. " + _RECORD, _is_cline),
    UnsupportedFormat("Codex CLI", _OTLP, _is_codex),
    UnsupportedFormat("Gemini CLI", _OTLP, _is_gemini_cli),
    UnsupportedFormat("Google ADK", _OTLP, _is_adk),
)
"""The known formats, in the order in which a file is tried with them."""
