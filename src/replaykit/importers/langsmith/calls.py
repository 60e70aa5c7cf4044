"""The calls of a LangSmith trace: each run of a tool, a retriever or a model as the event it is."""

from __future__ import annotations

from typing import Any

import orjson

from replaykit.importers.langsmith.about import metadata
from replaykit.importers.langsmith.collecting import RunFields
from replaykit.importers.langsmith.messages import conversation, message_body, told
from replaykit.importers.langsmith.outcomes import error_in, is_apart, is_there, result_in, usage_in
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, Raw
from replaykit.wire.fields import as_object, as_text, without

Asked = dict[str, Json]
"""The arguments of the calls that models asked for, by the call's id."""

_TOLD_APART = ("model", "model_name", "tools", "_type", "stream", "streaming")


def tool_call(fields: RunFields, common: dict[str, Any], asked: Asked, notes: list[str]) -> ToolCall:
    """The call of a tool or a retriever, with its answer as far as the file holds one."""
    name = fields.required_text("name")
    holds = "documents" if as_text(fields.value.get("run_type")).lower() == "retriever" else "output"
    error, result = _outcome(fields, holds)
    if error is None and not result:
        notes.append(f"run {fields.value['id']}: the file holds no answer of {name!r}, so a replay cannot give it")
    if is_apart(fields, "inputs"):
        notes.append(f"run {fields.value['id']}: the file does not hold the arguments of {name!r}")
    return ToolCall(**common, name=name, arguments_json=_arguments(fields, asked), result_json=result, error=error)


def llm_call(fields: RunFields, common: dict[str, Any], asked: Asked) -> LlmCall:
    """The call of a model; the calls it asks for are added to `asked`."""
    outputs = fields.value.get("outputs")
    said = told(outputs)
    answer = said.answers[0].message if said.answers else None
    for call in said.answers[0].tool_calls if said.answers else ():
        if call.id:
            asked[call.id] = call.arguments
    about = metadata(fields)
    setting = as_object(fields.object("extra").get("invocation_params"))
    error, result = _outcome(fields, "output")
    usage = usage_in(fields, *_counts(as_object(outputs)), about.get("usage_metadata"))
    return LlmCall(
        **common,
        name=_model(fields, setting, about) or said.model or fields.text("name") or "",
        arguments_json=fields.canonical(_request(fields.take("inputs"), setting), "inputs"),
        result_json=fields.kept(answer, "outputs") if answer and result else result,
        error=error,
        finish_reason=said.finish_reason,
        usage=usage or said.usage,
    )


def _model(fields: RunFields, setting: dict[str, Json], about: dict[str, Json]) -> str:
    """The model that was asked for."""
    asked = as_object(fields.value.get("inputs"))
    named = (asked.get("model"), setting.get("model"), setting.get("model_name"), about.get("ls_model_name"))
    return next(filter(None, map(as_text, named)), "")


def _outcome(fields: RunFields, name: str) -> tuple[ErrorInfo | None, Raw]:
    """The error, or the result; neither where the file holds none."""
    error, there = error_in(fields), is_there(fields, "outputs")
    if error is not None or not there:
        return error, ABSENT
    result, told_of = result_in(fields.value["outputs"], name)
    return told_of, ABSENT if told_of else fields.kept(result, "outputs")


def _arguments(fields: RunFields, asked: Asked) -> Raw:
    inputs = fields.take("inputs")
    if isinstance(inputs, dict) and inputs.keys() == {"input"} and isinstance(inputs["input"], str):
        inputs = _parsed(inputs, fields, asked)
    return fields.canonical({} if inputs is None else inputs, "inputs")


def _parsed(inputs: dict[str, Json], fields: RunFields, asked: Asked) -> Json:
    """Arguments that were logged as one text: as the model wrote them, or as the JSON they are."""
    outputs = as_object(fields.value.get("outputs"))
    answered = as_text((message_body(outputs.get("output")) or {}).get("tool_call_id"))
    if isinstance(asked.get(answered), dict):
        return asked[answered]
    try:
        value = orjson.loads(inputs["input"])
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return inputs
    return value if isinstance(value, dict) else inputs


def _request(inputs: Json, setting: dict[str, Json]) -> Json:
    """What was asked: the inputs, and of the settings what they do not say."""
    if not isinstance(inputs, dict):
        return {"messages": conversation(inputs)} if inputs is not None else {}
    request = without(inputs, "model", "stream")
    if "messages" in request:
        request["messages"] = conversation(request["messages"])
    if setting.get("tools") and "tools" not in request:
        request["tools"] = setting["tools"]
    rest = {key: value for key, value in setting.items() if key not in (*_TOLD_APART, *inputs) and value is not None}
    return {**request, "parameters": rest} if rest and "parameters" not in request else request


def _counts(outputs: dict[str, Json]) -> list[Json]:
    """Where a model's outputs may say how many tokens it took."""
    generations = outputs.get("generations")
    first = generations[0] if isinstance(generations, list) and generations else None
    first = first[0] if isinstance(first, list) and first else first
    message = message_body(as_object(first).get("message")) or message_body(outputs.get("output")) or {}
    return [
        outputs.get("usage_metadata"),
        message.get("usage_metadata"),
        as_object(message.get("response_metadata")).get("token_usage"),
        as_object(outputs.get("llm_output")).get("token_usage"),
    ]
