"""The judge in a configuration; `trials.judging` creates a judge from it."""

from __future__ import annotations

from msgspec import Struct

from replaykit.documents.shape import ANYTHING, Either, MapOf, Record, Text
from replaykit.model.values import Json, JsonObject

SPEC = Text(
    "openai:MODEL, anthropic:MODEL, python:MODULE:FUNCTION or the name of a plugin's judge",
    pattern=r"^(openai|anthropic):\S+$(?!\n)|^python:[\w.]+:[\w.]+$(?!\n)"
    r"|^(?!(openai|anthropic|python|person)$)[a-z][a-z0-9_-]*$(?!\n)",
)


class JudgeSpec(Struct, frozen=True, kw_only=True):
    """The judge of a project."""

    use: str
    parameters: JsonObject = {}


_MODEL = Text("openai:MODEL or anthropic:MODEL", pattern=r"^(openai|anthropic):\S+$(?!\n)")


def _with_parameters(use: Text, use_note: str) -> Either:
    """Return the shape of a judge: its name, or a mapping with its name and its parameters."""
    notes = {
        "use": use_note,
        "parameters": "What the model is asked with, such as temperature; its answers are kept by it.",
    }
    return Either((use, Record({"use": use, "parameters": MapOf(ANYTHING)}, required=("use",), notes=notes)))


JUDGE = _with_parameters(SPEC, "openai:MODEL, anthropic:MODEL, python:MODULE:FUNCTION or the name of a plugin's judge.")
MODEL = _with_parameters(_MODEL, "openai:MODEL or anthropic:MODEL.")


def judge_spec_of(value: Json) -> JudgeSpec:
    """Return the judge that a valid value describes."""
    if isinstance(value, str):
        return JudgeSpec(use=value)
    return JudgeSpec(**value)
