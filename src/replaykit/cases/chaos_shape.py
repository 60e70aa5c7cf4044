"""The shape of faults in a file, and the plan that they make."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from replaykit.cases.case_shape import MAX_SEED
from replaykit.documents.document import Path
from replaykit.documents.shape import (
    Anything,
    Choice,
    Either,
    Flag,
    Flaw,
    ListOf,
    MapOf,
    Nothing,
    Number,
    Record,
    Shape,
    Text,
    describe,
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
from replaykit.model.jsonpath import parse_path
from replaykit.model.values import Json

_MAX_COUNT = 1_000_000
_MAX_DELAY_MS = 3_600_000
_GRADES = {"subtle": Grade.LOW, "moderate": Grade.MEDIUM, "significant": Grade.HIGH}


class GradeWord(StrEnum):
    """How much drifts: our words, and those of Flakestorm."""

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

    def flaws(self, value: Json, path: Path) -> Iterator[Flaw]:
        if not 0 <= value <= 1:  # true for NaN as well
            yield Flaw(path, "bad-value", f"{path[-1] if path else 'value'}: expected {self.expected}, got {value!r}")

    def schema(self) -> dict[str, Json]:
        return {"type": "number", "minimum": 0, "maximum": 1}


def _maybe(shape: Shape) -> Shape:
    return Either((shape, Nothing()))


def _match_flaws(fault: dict[str, Json]) -> Iterator[Flaw]:
    for path in fault.get("match") or ():
        try:
            parse_path(path)
        except ValueError as error:
            yield Flaw(("match", path), "bad-value", f"match: {error}", "Write a path such as $.city.")


_SOME_TEXT = Text("some text", pattern=r"\S")
_COUNT = Number(above=-1, at_most=_MAX_COUNT, whole=True)
_DELAY = Number(above=-1, at_most=_MAX_DELAY_MS)

_TOOL_FAULT = Record(
    {
        "tool": _SOME_TEXT,
        "mode": Choice(ToolTrouble),
        "probability": _maybe(Share()),
        "after_calls": _maybe(_COUNT),
        "match": _maybe(MapOf(Anything())),
        "match_url": _maybe(_SOME_TEXT),
        "error_code": _maybe(Number(above=-1, at_most=599, whole=True)),
        "message": _maybe(Text()),
        "delay_ms": _maybe(_DELAY),
        "sleep": _maybe(Flag()),
        "payload": Anything(),
    },
    required=("mode",),
    notes={
        "tool": "A name, or a pattern with * and ?.",
        "after_calls": "It strikes from the next call on.",
        "match": "JSON paths into the arguments, and what has to stand there.",
        "match_url": "A pattern for the URL of HTTP requests.",
        "sleep": "Wait for delay_ms in earnest.",
    },
    cross=_match_flaws,
)

_MODEL_FAULT = Record(
    {
        "model": _SOME_TEXT,
        "mode": Choice(ModelTrouble),
        "probability": _maybe(Share()),
        "after_calls": _maybe(_COUNT),
        "max_tokens": _maybe(_COUNT),
        "delay_ms": _maybe(_DELAY),
        "sleep": _maybe(Flag()),
        "message": _maybe(Text()),
        "drift_type": _maybe(Choice(Drift)),
        "severity": _maybe(Choice(GradeWord)),
        "direction": _maybe(Choice(Direction)),
        "factor": _maybe(Number(above=0, at_most=1000)),
    },
    required=("mode",),
)

_ATTACK_MEMBERS: dict[str, Shape] = {
    "payload": _maybe(Text()),
    "payloads": _maybe(ListOf(_SOME_TEXT)),
    "probability": _maybe(Share()),
    "trigger_probability": _maybe(Share()),
    "inject_at": _maybe(Either((_SOME_TEXT, Number(above=-_MAX_COUNT, at_most=_MAX_COUNT, whole=True)))),
    "strategy": _maybe(Choice(Strategy)),
    "inject_tokens": _maybe(_COUNT),
    "after_calls": _maybe(_COUNT),
}


def _inject_flaws(attack: dict[str, Json]) -> Iterator[Flaw]:
    place = attack.get("inject_at")
    if isinstance(place, str) and place.startswith("$"):
        try:
            parse_path(place)
        except ValueError as error:
            yield Flaw(
                ("inject_at",), "bad-value", f"inject_at: {error}", "Write a path such as $.messages[0].content."
            )


_ATTACK = Record({"type": Choice(Attack), **_ATTACK_MEMBERS}, required=("type",), cross=_inject_flaws)
_BY_TYPE = Record({attack.value: _maybe(Record(_ATTACK_MEMBERS, cross=_inject_flaws)) for attack in Attack})


class Attacks:
    """A list of attacks, one attack, or a mapping from types of attacks to what is said of them."""

    expected = "a list of attacks"

    def fits(self, value: Json) -> bool:
        return isinstance(value, list | dict)

    def flaws(self, value: Json, path: Path) -> Iterator[Flaw]:
        shape: Shape = _BY_TYPE
        if isinstance(value, list):
            shape = ListOf(_ATTACK)
        elif "type" in value:
            shape = _ATTACK
        return shape.flaws(value, path)

    def schema(self) -> dict[str, Json]:
        return {"anyOf": [ListOf(_ATTACK).schema(), _ATTACK.schema(), _BY_TYPE.schema()]}


class Profile:
    """The name of a profile."""

    expected = "the name of a profile"

    def fits(self, value: Json) -> bool:
        return isinstance(value, str)

    def flaws(self, value: Json, path: Path) -> Iterator[Flaw]:
        if value not in PROFILES:
            message = f"{'.'.join(map(str, path))}: no profile {describe(value)}"
            yield Flaw(path, "bad-value", message, f"One of: {', '.join(PROFILES)}")

    def schema(self) -> dict[str, Json]:
        return {"enum": list(PROFILES)}


_FAULTS: dict[str, Shape] = {
    "profile": _maybe(Profile()),
    "seed": _maybe(Number(above=-1, at_most=MAX_SEED, whole=True)),
    "tool_faults": _maybe(ListOf(_TOOL_FAULT)),
    "llm_faults": _maybe(ListOf(_MODEL_FAULT)),
    "context_attacks": _maybe(Attacks()),
}

CHAOS: Shape = Either((Record(_FAULTS), Profile(), Nothing()))
"""What `chaos:` may hold: faults, or the name of a profile alone."""
SCENARIO = Record({"name": _SOME_TEXT, **_FAULTS}, required=("name",))
"""One world of a matrix."""
CHAOS_MATRIX: Shape = Either((ListOf(SCENARIO), Nothing()))
"""What `chaos_matrix:` may hold."""


def plan_of(value: Json, *, seed: int = 0) -> ChaosPlan:
    """The plan that faults without flaws make; a profile's faults come after those that are written out."""
    options: dict[str, Json] = {"profile": value} if isinstance(value, str) else value or {}
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


def _built(kind: type[msgspec.Struct], options: dict[str, Json]) -> Json:
    return msgspec.convert({key: item for key, item in options.items() if item is not None}, kind)


def _graded(fault: dict[str, Json]) -> dict[str, Json]:
    grade = fault.get("severity")
    if grade is not None:
        return {**fault, "severity": _GRADES.get(grade, grade)}
    return fault


def _attacks(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        if "type" in value:
            listed = [value]
        else:
            listed = [{"type": name, **(options or {})} for name, options in value.items()]
    else:
        listed = list(value or ())
    for attack in listed:
        options = {key: item for key, item in attack.items() if item is not None}
        triggered = options.pop("trigger_probability", None)
        yield options if triggered is None else {"probability": triggered, **options}
