"""Gemini `generateContent`: contents, requests, responses, streams, batches; Gemini API and Vertex.

    [{role: user | model | function, parts: [{text} | {functionCall: {name, args}} | {functionResponse: …} | …]}]
    {contents, systemInstruction, tools, generationConfig}
    {candidates: [{content, finishReason}], usageMetadata, modelVersion, responseId}
    {error: {code, message, status}}

Names may be in the Python SDK's style (`function_call`, `usage_metadata`). Calls mostly have no ids: results are
matched by name. `core.exchanges` describes the shapes around these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.formats.core.exchanges import ConversationApi, register_api, text_or_parts
from replaykit.formats.core.threads import Used
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire import gemini
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    filled_in,
    has_object,
    objects_in,
    text_in,
    value_in,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "gemini"

_PARTS = words_of(
    "text functionCall functionResponse inlineData fileData executableCode codeExecutionResult "
    "function_call function_response inline_data file_data executable_code code_execution_result"
)
_OPAQUE = ("args", "response", "parametersJsonSchema")  # members with names of the user's own inside
_UNDERSCORE = re.compile(r"(?<=[a-z0-9])_([a-z])")
_RESULTS = ({"result"}, {"output"})
_OK = "OUTCOME_OK"
_DEPTH = 40


def read_messages(contents: Json) -> list[Json]:
    """Return the contents of a request; each function result becomes a message."""
    if not isinstance(contents, list):
        contents = [contents]
    found: list[Json] = []
    for content in contents:
        if isinstance(content, str):
            found += _read_content({"parts": [{"text": content}]})
        elif isinstance(content, dict):
            found += _read_content(_camel(content))
    return found


def _read_content(content: JsonObject) -> Iterator[JsonObject]:
    if content.get("role") == "model":
        for answer in gemini.DIALECT.read_response({"candidates": [{"content": content}]}).answers:
            yield answer.message
        return
    rest: list[Json] = []
    has_results = False
    for part in objects_in(content, "parts"):
        if has_object(part, "functionResponse"):
            has_results = True
            yield _result(part["functionResponse"])
        else:
            rest.append(part)
    if rest or not has_results:
        yield {"role": "user", "content": text_or_parts(rest)}


def _result(result: JsonObject) -> JsonObject:
    response = result.get("response")
    message: JsonObject = {"role": "tool", "content": response, "name": text_in(result, "name")}
    if isinstance(response, dict) and set(response) in _RESULTS:  # how SDKs wrap results that are not objects
        message["content"] = next(iter(response.values()))
    if isinstance(response, dict) and set(response) == {"error"}:
        message["status"] = "error"
    if text_in(result, "id"):
        message["tool_call_id"] = result["id"]
    return message


def _used(answer: ModelAnswer) -> list[Used]:
    """Return the code that the provider ran, each piece with its result."""
    found: list[Used] = []
    for part in as_objects(list(answer.parts)):
        if has_object(part, "executableCode"):
            found.append(Used(use=ToolUse(name="code_execution", arguments=part["executableCode"])))
        elif has_object(part, "codeExecutionResult") and found:
            result = part["codeExecutionResult"]
            failed = result.get("outcome", _OK) != _OK
            if failed:
                content = text_in(result, "output", "outcome")
            else:
                content = result
            found[-1] = Used(use=found[-1].use, content=content, failed=failed)
    return found


def _is_message(item: JsonObject) -> bool:
    parts = item.get("parts")
    if not isinstance(parts, list) or item.get("role", "user") not in ("user", "model", "function", "system", None):
        return False
    for part in parts:
        if not isinstance(part, dict) or "type" in part or part.keys().isdisjoint(_PARTS):
            return False
    return True


def _is_event(item: JsonObject) -> bool:
    """Return whether this is a stream event; each one is a response."""
    if not item.keys().isdisjoint(("promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata")):
        return "contents" not in item and "type" not in item  # LangChain's messages have `usage_metadata`, too
    return any("content" in found or "finishReason" in found for found in objects_in(item, "candidates"))


def _begins(event: JsonObject, before: JsonObject) -> bool:
    ids = [filled_in(part, "responseId", "response_id") for part in (event, before)]
    if all(ids):
        return bool(ids[0] != ids[1])
    return any(filled_in(part, "finishReason", "finish_reason") for part in objects_in(before, "candidates"))


def _is_certain(item: JsonObject) -> bool:
    contents = objects_in(item, "contents")
    wrong = item.get("body") if "exception" in item else item
    return (
        (_is_message(item) and bool(item["parts"]))
        or (bool(contents) and all(map(_is_message, contents)))
        or _is_event(item)
        or as_object(value_in(wrong, "error")).keys() >= {"code", "message", "status"}
    )


def _camel(value: Json, depth: int = _DEPTH) -> Json:
    """Return the value with names in the API's style."""
    if isinstance(value, list) and depth:
        return [_camel(item, depth - 1) for item in value]
    if not isinstance(value, dict) or not depth:
        return value
    found = without_nulls(_camel_names(value))
    for name, item in found.items():
        if name not in _OPAQUE:
            found[name] = _camel(item, depth - 1)
    return found


def _camel_names(value: JsonObject) -> JsonObject:
    return {_UNDERSCORE.sub(lambda found: found[1].upper(), name): item for name, item in value.items()}


def _normalize_request(body: JsonObject) -> JsonObject:
    """Return the request without `config`, where the SDK puts everything but the contents."""
    named = _camel_names(body)
    config = as_object(named.pop("config", None))
    return named | without(_camel(config), *named)


def _whole(response: Json) -> Json:
    if isinstance(response, dict) and _is_message(response):
        return {"candidates": [{"content": _camel(response)}]}
    return _camel(response)


CONVERSATION_API = ConversationApi(
    dialect=gemini.DIALECT,
    conversation="contents",
    read_messages=read_messages,
    is_message=_is_message,
    is_response=_is_event,
    is_event=_is_event,
    begins=_begins,
    is_certain=_is_certain,
    whole=_whole,
    normalize_request=_normalize_request,
    used=_used,
)

register_api(FORMAT, "Gemini generateContent: contents, requests, responses, streams, batches", CONVERSATION_API)
