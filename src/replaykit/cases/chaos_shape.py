"""The shape of faults in a file, and the plan that they describe."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from replaykit.cases.case_shape import MAX_SEED
from replaykit.documents.shape import (
    ANYTHING,
    FLAG,
    SOME_TEXT,
    Choice,
    Either,
    Flaw,
    Flaws,
    ListOf,
    MapOf,
    Number,
    Record,
    Shape,
    Text,
    describe,
    optional,
)
from replaykit.handlers.chaos.profiles import PROFILES, merged, profile
from replaykit.model.faults import (
    Attack,
    ChaosPlan,
    ContextAttack,
    Direction,
    Drift,
    Grade,
    ModelFault,
    ModelTrouble,
    Strategy,
    ToolFault,
    ToolTrouble,
)
from replaykit.model.json_positions import DocumentPath
from replaykit.model.jsonpath import parse_path
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import without_nulls

_MAX_COUNT = 1_000_000
_MAX_DELAY_MS = 3_600_000
_GRADES = {"subtle": Grade.LOW, "moderate": Grade.MEDIUM, "significant": Grade.HIGH}


class GradeWord(StrEnum):
    """The size of a drift, in our words and in Flakestorm's."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    SUBTLE = "subtle"
    MODERATE = "moderate"
    SIGNIFICANT = "significant"


class Share:
    """A number from 0 to 1."""

    expected = "a number from 0 to 1"

    def fits(self, value: Json) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if not 0 <= value <= 1:  # also refuses NaN
            yield Flaw(path, "bad-value", f"{path[-1] if path else 'value'}: expected {self.expected}, got {value!r}")

    def schema(self) -> JsonObject:
        return {"type": "number", "minimum": 0, "maximum": 1}


def _match_flaws(fault: JsonObject) -> Flaws:
    for path in fault.get("match") or ():
        try:
            parse_path(path)
        except ValueError as error:
            yield Flaw(("match", path), "bad-value", f"match: {error}", "Write a path such as $.city.")


_COUNT = Number(above=-1, at_most=_MAX_COUNT, whole=True)
_DELAY = Number(above=-1, at_most=_MAX_DELAY_MS)

_TOOL_FAULT = Record(
    {
        "tool": SOME_TEXT,
        "mode": Choice(ToolTrouble),
        "probability": optional(Share()),
        "after_calls": optional(_COUNT),
        "match": optional(MapOf(ANYTHING)),
        "match_url": optional(SOME_TEXT),
        "error_code": optional(Number(above=-1, at_most=599, whole=True)),
        "message": optional(Text()),
        "delay_ms": optional(_DELAY),
        "sleep": optional(FLAG),
        "payload": ANYTHING,
    },
    required=("mode",),
    notes={
        "tool": "A name, or a pattern with * and ?.",
        "after_calls": "It strikes from the next call on.",
        "match": "JSON paths into the arguments, and what has to stand there.",
        "match_url": "A pattern for the URL of HTTP requests.",
        "sleep": "Really wait for delay_ms.",
    },
    cross=_match_flaws,
)

_MODEL_FAULT = Record(
    {
        "model": SOME_TEXT,
        "mode": Choice(ModelTrouble),
        "probability": optional(Share()),
        "after_calls": optional(_COUNT),
        "max_tokens": optional(_COUNT),
        "delay_ms": optional(_DELAY),
        "sleep": optional(FLAG),
        "message": optional(Text()),
        "drift_type": optional(Choice(Drift)),
        "severity": optional(Choice(GradeWord)),
        "direction": optional(Choice(Direction)),
        "factor": optional(Number(above=0, at_most=1000)),
    },
    required=("mode",),
)

_ATTACK_MEMBERS: dict[str, Shape] = {
    "payload": optional(Text()),
    "payloads": optional(ListOf(SOME_TEXT)),
    "probability": optional(Share()),
    "trigger_probability": optional(Share()),
    "inject_at": optional(Either((SOME_TEXT, Number(above=-_MAX_COUNT, at_most=_MAX_COUNT, whole=True)))),
    "strategy": optional(Choice(Strategy)),
    "inject_tokens": optional(_COUNT),
    "after_calls": optional(_COUNT),
}


def _inject_flaws(attack: JsonObject) -> Flaws:
    place = attack.get("inject_at")
    if isinstance(place, str) and place.startswith("$"):
        try:
            parse_path(place)
        except ValueError as error:
            yield Flaw(
                ("inject_at",), "bad-value", f"inject_at: {error}", "Write a path such as $.messages[0].content."
            )


_ATTACK = Record({"type": Choice(Attack), **_ATTACK_MEMBERS}, required=("type",), cross=_inject_flaws)
_BY_TYPE = Record({attack.value: optional(Record(_ATTACK_MEMBERS, cross=_inject_flaws)) for attack in Attack})


class Attacks:
    """A list of attacks, one attack, or a mapping from types to options."""

    expected = "a list of attacks"

    def fits(self, value: Json) -> bool:
        return isinstance(value, list | dict)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        shape: Shape = _BY_TYPE
        if isinstance(value, list):
            shape = ListOf(_ATTACK)
        elif "type" in value:
            shape = _ATTACK
        return shape.flaws(value, path)

    def schema(self) -> JsonObject:
        return {"anyOf": [ListOf(_ATTACK).schema(), _ATTACK.schema(), _BY_TYPE.schema()]}


class Profile:
    """The name of a profile."""

    expected = "the name of a profile"

    def fits(self, value: Json) -> bool:
        return isinstance(value, str)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if value not in PROFILES:
            message = f"{'.'.join(map(str, path))}: no profile {describe(value)}"
            yield Flaw(path, "bad-value", message, f"One of: {', '.join(PROFILES)}")

    def schema(self) -> JsonObject:
        return {"enum": list(PROFILES)}


_FAULTS: dict[str, Shape] = {
    "profile": optional(Profile()),
    "seed": optional(Number(above=-1, at_most=MAX_SEED, whole=True)),
    "tool_faults": optional(ListOf(_TOOL_FAULT)),
    "llm_faults": optional(ListOf(_MODEL_FAULT)),
    "context_attacks": optional(Attacks()),
}

CHAOS: Shape = optional(Record(_FAULTS), Profile())
"""The shape of `chaos`: faults, or just the name of a profile."""
SCENARIO = Record({"name": SOME_TEXT, **_FAULTS}, required=("name",))
"""A world of a matrix."""
CHAOS_MATRIX: Shape = optional(ListOf(SCENARIO))
"""The shape of `chaos_matrix`."""


def plan_of(value: Json, *, seed: int = 0) -> ChaosPlan:
    """Build the plan that valid faults describe; those of a profile come last."""
    options: JsonObject = {"profile": value} if isinstance(value, str) else value or {}
    own = ChaosPlan(
        seed=options["seed"] if options.get("seed") is not None else seed,
        tool_faults=tuple(_built(ToolFault, fault) for fault in options.get("tool_faults") or ()),
        llm_faults=tuple(_built(ModelFault, _graded(fault)) for fault in options.get("llm_faults") or ()),
        context_attacks=tuple(_built(ContextAttack, attack) for attack in _attacks(options.get("context_attacks"))),
    )
    named = options.get("profile")
    if named is None:
        return own
    return merged(own, profile(named, seed=own.seed))


def _built(kind: type[msgspec.Struct], options: JsonObject) -> Json:
    return msgspec.convert(without_nulls(options), kind)


def _graded(fault: JsonObject) -> JsonObject:
    grade = fault.get("severity")
    if grade is None:
        return fault
    return {**fault, "severity": _GRADES.get(grade, grade)}


def _attacks(value: Json) -> Iterator[JsonObject]:
    listed = value or ()
    if isinstance(value, dict):
        listed = [value]
        if "type" not in value:
            listed = [{"type": name, **(options or {})} for name, options in value.items()]
    for attack in listed:
        options = without_nulls(attack)
        triggered = options.pop("trigger_probability", None)
        yield options if triggered is None else {"probability": triggered, **options}
