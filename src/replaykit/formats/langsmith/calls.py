"""The calls of a LangSmith trace: each run of a tool, a retriever or a model as the event it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import UNSET

from replaykit.formats.core.langchain_messages import message_body, read_outputs
from replaykit.formats.langsmith.requests import Requests, Setting
from replaykit.formats.langsmith.run_fields import error_in, is_apart, is_there, metadata, result_in, usage_in
from replaykit.formats.langsmith.run_tree import RunFields
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, Raw
from replaykit.wire.json_fields import as_object, as_text

CallArguments = dict[str, Json]
"""The arguments of the calls that models asked for, by the call's id."""


def tool_call(fields: RunFields, common: dict[str, Any], requested: CallArguments, notes: list[str]) -> ToolCall:
    """The call of a tool or a retriever, with its answer as far as the file holds one."""
    name = fields.required_text("name")
    if as_text(fields.value.get("run_type")).lower() == "retriever":
        holds = "documents"
    else:
        holds = "output"
    error, result = _outcome(fields, holds)
    if error is None and result is UNSET:
        notes.append(f"run {fields.value['id']}: the file holds no answer of {name!r}, so a replay cannot give it")
    if is_apart(fields, "inputs"):
        notes.append(f"run {fields.value['id']}: the file does not hold the arguments of {name!r}")
    return ToolCall(
        **common,
        name=name,
        arguments_json=_arguments(fields, requested),
        result_json=ABSENT if result is UNSET else fields.raw_value(result, "outputs"),
        error=error,
    )


def llm_call(fields: RunFields, common: dict[str, Any], requested: CallArguments, requests: Requests) -> LlmCall:
    """The call of a model; the calls it asks for are added to `requested`."""
    outputs = fields.take("outputs")
    response = read_outputs(outputs)
    if response.answers:
        answer = response.answers[0].message
    else:
        answer = None
    for call in response.answers[0].tool_calls if response.answers else ():
        if call.id:
            requested[call.id] = call.arguments
    own_metadata, setting, inputs = metadata(fields), requests.setting(fields), requests.inputs(fields)
    error, result = _outcome(fields, "output")
    usage = usage_in(fields, _counts(as_object(outputs), own_metadata))
    return LlmCall(
        **common,
        name=_model(inputs, setting, own_metadata) or response.model or fields.text("name") or "",
        arguments_json=requests.text(fields, inputs, setting),
        result_json=ABSENT if result is UNSET else fields.raw_value(answer or result, "outputs"),
        error=error,
        finish_reason=response.finish_reason,
        usage=usage or response.usage,
    )


def _model(inputs: Json, setting: Setting, metadata: dict[str, Json]) -> str:
    """The model that was asked for."""
    request, values = as_object(inputs), setting.values
    named = (request.get("model"), values.get("model"), values.get("model_name"), metadata.get("ls_model_name"))
    return next(filter(None, map(as_text, named)), "")


def _outcome(fields: RunFields, name: str) -> tuple[ErrorInfo | None, Json]:
    """The error, or the result; neither where the file holds none."""
    error, there = error_in(fields), is_there(fields, "outputs")
    if error is not None or not there:
        return error, UNSET
    result, told_of = result_in(fields.take("outputs"), name)
    return told_of, UNSET if told_of is not None and not result else result


def _arguments(fields: RunFields, requested: CallArguments) -> Raw:
    inputs = fields.take("inputs")
    if isinstance(inputs, dict) and inputs.keys() == {"input"} and isinstance(inputs["input"], str):
        inputs = _parsed(inputs, fields, requested)
    return fields.canonical({} if inputs is None else inputs, "inputs")


def _parsed(inputs: dict[str, Json], fields: RunFields, requested: CallArguments) -> Json:
    """Arguments that were logged as one text: as the model wrote them, or as the JSON they are."""
    outputs = as_object(fields.take("outputs"))
    answered = as_text((message_body(outputs.get("output")) or {}).get("tool_call_id"))
    if isinstance(requested.get(answered), dict):
        return requested[answered]
    try:
        value = orjson.loads(inputs["input"])
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return inputs
    if isinstance(value, dict):
        return value
    return inputs


def _counts(outputs: dict[str, Json], metadata: dict[str, Json]) -> Iterator[Json]:
    """Return the places in outputs and metadata that may hold token counts."""
    yield outputs.get("usage_metadata")
    generations = outputs.get("generations")
    if isinstance(generations, list) and generations:
        first = generations[0]
    else:
        first = None
    if isinstance(first, list) and first:
        first = first[0]
    message = message_body(as_object(first).get("message")) or message_body(outputs.get("output")) or {}
    yield message.get("usage_metadata")
    yield as_object(message.get("response_metadata")).get("token_usage")
    yield as_object(outputs.get("llm_output")).get("token_usage")
    yield metadata.get("usage_metadata")
