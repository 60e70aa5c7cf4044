"""Model drifts: the answer of another model version, and answers that are cut off or garbage."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import orjson
from msgspec.structs import replace

from replaykit.handlers.chaos.answers import partial
from replaykit.model.faults import Direction, Drift, Grade, ModelFault
from replaykit.model.values import Json
from replaykit.wire.model_calls import ModelAnswer, ToolUse

_REFUSALS = (
    "I'm sorry, but I can't help with that request.",
    "I have to decline: this is not something I am able to assist with.",
    "Unfortunately I'm unable to provide an answer to this.",
)
_FILLERS = (
    "To put that into context, a few further remarks may be of use.",
    "It is worth keeping in mind that circumstances differ from case to case.",
    "In summary, the points above should be considered together.",
    "As always, please verify the details before you rely on them.",
)
_TONES = {
    Direction.FORMAL: ("Please be advised of the following. ", " Kindly do not hesitate to enquire further."),
    Direction.CASUAL: ("Sure thing! So, ", " Hope that helps, cheers!"),
}
_NOISE = "¤§¶†‡◊□▯ﬀłøæß¿¡~^|\\"
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def truncated(answer: ModelAnswer, max_tokens: int, *, as_objects: bool = False) -> ModelAnswer:
    """Cut the answer off after that many words, or its last tool call in the middle of the arguments.

    `as_objects`: the API sends arguments as an object, which can only lose members.
    """
    if answer.content:
        words = re.findall(r"\s*\S+", answer.content)
        return replace(answer, content="".join(words[:max_tokens]), tool_calls=())
    calls = [_cut_call(call, max_tokens, as_objects) for call in answer.tool_calls[-1:]]
    return replace(answer, tool_calls=(*answer.tool_calls[:-1], *calls))


def _cut_call(call: ToolUse, max_tokens: int, as_objects: bool) -> ToolUse:
    if as_objects:
        return replace(call, arguments=partial(call.arguments))
    if type(call.arguments) is str:
        text = call.arguments
    else:
        text = orjson.dumps(call.arguments).decode()
    return replace(call, arguments=text[: min(len(text) // 2, 4 * max_tokens)])


def garbage(dice: random.Random) -> ModelAnswer:
    """Return an answer of meaningless characters."""
    words = ("".join(dice.choices(_NOISE, k=dice.randint(2, 9))) for _ in range(dice.randint(5, 20)))
    return ModelAnswer(content=" ".join(words))


def drifted(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    """Return the answer with the fault's drift."""
    return _DRIFTS[fault.drift_type](answer, fault, dice)


def _renamed(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    value, before, after = _json_in(answer.content or "")
    if value is not None:
        other = _rename(value, fault.severity, dice)
        return replace(answer, content=f"{before}{orjson.dumps(other).decode()}{after}")
    calls = [replace(call, arguments=_rename(call.arguments, fault.severity, dice)) for call in answer.tool_calls]
    return replace(answer, tool_calls=tuple(calls))


def _rename(value: Json, grade: Grade, dice: random.Random) -> Json:
    """Rename some of the members of every object."""
    if type(value) is list:
        return [_rename(item, grade, dice) for item in value]
    if type(value) is not dict:
        return value
    count = {Grade.LOW: min(1, len(value)), Grade.MEDIUM: (len(value) + 1) // 2, Grade.HIGH: len(value)}[grade]
    chosen = set(dice.sample(list(value), count))
    return {_other_name(key) if key in chosen else key: _rename(item, grade, dice) for key, item in value.items()}


def _other_name(name: str) -> str:
    """Swap camelCase and snake_case; append `_value` to a plain word."""
    if "_" in name.strip("_"):
        first, *rest = name.split("_")
        return first + "".join(word.capitalize() for word in rest)
    snake = _HUMP.sub(lambda hump: f"_{hump[1].lower()}", name)
    if snake != name:
        return snake
    return f"{name}_value"


def _verbosity(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    text, factor = answer.content or "", max(fault.factor, 1.0)
    if fault.direction is Direction.COMPRESS:
        sentences = _SENTENCE.split(text)
        remaining = sentences[: max(1, int(len(sentences) / factor))]
        short = " ".join(remaining)
        return _saying(answer, short if len(remaining) < len(sentences) else short[: max(1, int(len(short) / factor))])
    longer = [text] if text else []
    while sum(map(len, longer)) < factor * max(len(text), 1):
        longer.append(dice.choice(_FILLERS))
    return _saying(answer, " ".join(longer))


def _format(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    value, _, _ = _json_in(answer.content or "")
    if type(value) is dict:
        return _saying(answer, "\n".join(f"- **{key}**: {_plainly(item)}" for key, item in value.items()))
    if value is not None:
        return _saying(answer, "\n".join(f"- {_plainly(item)}" for item in value))
    return _saying(answer, f"```json\n{orjson.dumps({'response': answer.content or ''}).decode()}\n```")


def _refusal(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    return ModelAnswer(content=dice.choice(_REFUSALS))


def _tone(answer: ModelAnswer, fault: ModelFault, dice: random.Random) -> ModelAnswer:
    before, after = _TONES.get(fault.direction) or dice.choice(list(_TONES.values()))
    return _saying(answer, f"{before}{answer.content or ''}{after}")


def _saying(answer: ModelAnswer, text: str) -> ModelAnswer:
    return replace(answer, content=text)


def _plainly(value: Json) -> str:
    if type(value) is str:
        return value
    return orjson.dumps(value).decode()


def _json_in(text: str) -> tuple[Json, str, str]:
    """Return the JSON object or list in a text, with or without a Markdown fence, and the text around it."""
    before, fence, rest = text.partition("```json\n")
    inner, closing, after = rest.partition("\n```")
    prefix = suffix = ""
    if fence and closing:
        prefix, text, suffix = f"{before}{fence}", inner, f"{closing}{after}"
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None, "", ""
    if type(value) in (dict, list):
        return value, prefix, suffix
    return None, "", ""


_DRIFTS: dict[Drift, Callable[[ModelAnswer, ModelFault, random.Random], ModelAnswer]] = {
    Drift.FIELD_RENAME: _renamed,
    Drift.VERBOSITY: _verbosity,
    Drift.FORMAT: _format,
    Drift.REFUSAL: _refusal,
    Drift.TONE: _tone,
}
