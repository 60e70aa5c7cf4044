"""The calls of a LangSmith trace: each run of a tool, a retriever or a model as the event it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import UNSET

from replaykit.importers.langsmith.about import metadata
from replaykit.importers.langsmith.collecting import RunFields
from replaykit.importers.langsmith.messages import message_body, told
from replaykit.importers.langsmith.outcomes import error_in, is_apart, is_there, result_in, usage_in
from replaykit.importers.langsmith.requests import Requests, Setting
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, Raw
from replaykit.wire.fields import as_object, as_text

Asked = dict[str, Json]
"""The arguments of the calls that models asked for, by the call's id."""


def tool_call(fields: RunFields, common: dict[str, Any], asked: Asked, notes: list[str]) -> ToolCall:
    """The call of a tool or a retriever, with its answer as far as the file holds one."""
    name = fields.required_text("name")
    holds = "documents" if as_text(fields.value.get("run_type")).lower() == "retriever" else "output"
    error, result = _outcome(fields, holds)
    if error is None and result is UNSET:
        notes.append(f"run {fields.value['id']}: the file holds no answer of {name!r}, so a replay cannot give it")
    if is_apart(fields, "inputs"):
        notes.append(f"run {fields.value['id']}: the file does not hold the arguments of {name!r}")
    return ToolCall(
        **common,
        name=name,
        arguments_json=_arguments(fields, asked),
        result_json=ABSENT if result is UNSET else fields.kept(result, "outputs"),
        error=error,
    )


def llm_call(fields: RunFields, common: dict[str, Any], asked: Asked, requests: Requests) -> LlmCall:
    """The call of a model; the calls it asks for are added to `asked`."""
    outputs = fields.take("outputs")
    said = told(outputs)
    answer = said.answers[0].message if said.answers else None
    for call in said.answers[0].tool_calls if said.answers else ():
        if call.id:
            asked[call.id] = call.arguments
    about, setting, inputs = metadata(fields), requests.setting(fields), requests.inputs(fields)
    error, result = _outcome(fields, "output")
    usage = usage_in(fields, _counts(as_object(outputs), about))
    return LlmCall(
        **common,
        name=_model(inputs, setting, about) or said.model or fields.text("name") or "",
        arguments_json=requests.text(fields, inputs, setting),
        result_json=ABSENT if result is UNSET else fields.kept(answer or result, "outputs"),
        error=error,
        finish_reason=said.finish_reason,
        usage=usage or said.usage,
    )


def _model(inputs: Json, setting: Setting, about: dict[str, Json]) -> str:
    """The model that was asked for."""
    asked, values = as_object(inputs), setting.values
    named = (asked.get("model"), values.get("model"), values.get("model_name"), about.get("ls_model_name"))
    return next(filter(None, map(as_text, named)), "")


def _outcome(fields: RunFields, name: str) -> tuple[ErrorInfo | None, Json]:
    """The error, or the result; neither where the file holds none."""
    error, there = error_in(fields), is_there(fields, "outputs")
    if error is not None or not there:
        return error, UNSET
    result, told_of = result_in(fields.take("outputs"), name)
    return told_of, UNSET if told_of is not None and not result else result


def _arguments(fields: RunFields, asked: Asked) -> Raw:
    inputs = fields.take("inputs")
    if isinstance(inputs, dict) and inputs.keys() == {"input"} and isinstance(inputs["input"], str):
        inputs = _parsed(inputs, fields, asked)
    return fields.canonical({} if inputs is None else inputs, "inputs")


def _parsed(inputs: dict[str, Json], fields: RunFields, asked: Asked) -> Json:
    """Arguments that were logged as one text: as the model wrote them, or as the JSON they are."""
    outputs = as_object(fields.take("outputs"))
    answered = as_text((message_body(outputs.get("output")) or {}).get("tool_call_id"))
    if isinstance(asked.get(answered), dict):
        return asked[answered]
    try:
        value = orjson.loads(inputs["input"])
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return inputs
    return value if isinstance(value, dict) else inputs


def _counts(outputs: dict[str, Json], about: dict[str, Json]) -> Iterator[Json]:
    """Where a model's outputs, or its metadata, may say how many tokens it took."""
    yield outputs.get("usage_metadata")
    generations = outputs.get("generations")
    first = generations[0] if isinstance(generations, list) and generations else None
    first = first[0] if isinstance(first, list) and first else first
    message = message_body(as_object(first).get("message")) or message_body(outputs.get("output")) or {}
    yield message.get("usage_metadata")
    yield as_object(message.get("response_metadata")).get("token_usage")
    yield as_object(outputs.get("llm_output")).get("token_usage")
    yield about.get("usage_metadata")
