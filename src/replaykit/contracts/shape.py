"""The shape of a contract: its keys, their values, and which keys go together."""

from __future__ import annotations

from replaykit.cases.chaos_shape import CHAOS_MATRIX
from replaykit.checks.rule import ASSERTIONS, BadAssertion
from replaykit.contracts.contract import Severity, When
from replaykit.contracts.invariant_types import FLAKESTORM_INVARIANTS, assertion_of
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
    Record,
    Shape,
    Text,
    describe,
    find_flaws,
)
from replaykit.errors import nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject

_COMMON: dict[str, Shape] = {
    "id": SOME_TEXT,
    "type": SOME_TEXT,
    "description": Text(),
    "severity": Choice(Severity),
    "when": Choice(When),
    "negate": FLAG,
    "probes": ListOf(SOME_TEXT),
}
_NOTES = {
    "id": "Its name, in reports.",
    "type": "What it says: a kind of assertion, or one of Flakestorm's types.",
    "description": "Why it matters.",
    "severity": "How bad a failure is; default: medium.",
    "when": "The conditions it is asked under; default: always.",
    "negate": "True: it must not hold.",
    "probes": "What the agent is asked to find out.",
    "value": "What a case writes behind the kind: a value, or its parameters by name.",
}


class InvariantShape:
    """One invariant; its type decides which further keys it may have."""

    expected = "an invariant, as in {id: answers, type: output_not_empty}"

    def fits(self, value: Json) -> bool:
        return isinstance(value, dict)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        kind = value.get("type")
        types = (*FLAKESTORM_INVARIANTS, *ASSERTIONS)
        if isinstance(kind, str) and kind not in types:
            message = f"unknown invariant type {describe(kind)}; {nearest(kind[:40], types)}"
            yield Flaw((*path, "type"), "unknown-type", message, "Correct the type.")
            # Which further keys are valid depends on the type.
            yield from _common_flaws(value, path)
            return
        flaws = list(find_flaws(_record(kind), value, path))
        yield from flaws
        if not flaws:
            yield from self._meaning_flaws(value, path)

    def _meaning_flaws(self, value: JsonObject, path: DocumentPath) -> Flaws:
        try:
            assertion_of(value)
        except BadAssertion as error:
            place = (*path, *_place(value, error.path))
            yield Flaw(place, "bad-assertion", f"{value['type']}: {error.message}", error.hint or "Correct it.")

    def schema(self) -> JsonObject:
        members = dict(_COMMON)
        for spelling in FLAKESTORM_INVARIANTS.values():
            members.update(spelling.fields)
        members["value"] = ANYTHING  # its shape depends on the type
        return Record(members, required=("id", "type"), notes=_NOTES).schema()


def _place(value: JsonObject, path: DocumentPath) -> DocumentPath:
    """Return the place of a wrong assertion in its invariant: in `value`, or the first key of its own type."""
    spelling = FLAKESTORM_INVARIANTS.get(value["type"])
    if spelling is None:
        if "value" in value:
            return ("value", *path)
        return ()
    return tuple(key for key in spelling.fields if key in value)[:1]


def _record(kind: Json) -> Record:
    spelling = FLAKESTORM_INVARIANTS.get(kind) if isinstance(kind, str) else None
    if spelling is None:
        return Record({**_COMMON, "value": ANYTHING}, required=("id", "type"), notes=_NOTES)
    return Record({**_COMMON, **spelling.fields}, required=("id", "type", *spelling.required), notes=_NOTES)


def _common_flaws(value: JsonObject, path: DocumentPath) -> Flaws:
    """Yield the flaws of the keys that every invariant has."""
    common = Record(_COMMON, required=("id", "type"))
    yield from find_flaws(common, {key: item for key, item in value.items() if key in _COMMON}, path)


def _contract_flaws(value: JsonObject) -> Flaws:
    if not value["invariants"]:
        hint = "Add one: - {id: answers, type: output_not_empty}"
        yield Flaw(("invariants",), "no-invariants", "a contract without an invariant promises nothing", hint)
    yield from find_duplicates(value, "invariants", "id")
    yield from find_duplicates(value, "chaos_matrix", "name")


def find_duplicates(value: JsonObject, key: str, name: str) -> Flaws:
    """Yield a flaw for each item of a list whose name an earlier item has."""
    seen: set[str] = set()
    for index, item in enumerate(value.get(key) or ()):
        if item[name] in seen:
            message = f"{key}[{index}].{name}: {describe(item[name])} appears twice"
            yield Flaw((key, index, name), "duplicate", message, "Rename one of them.")
        seen.add(item[name])


CONTRACT = Record(
    {
        "name": SOME_TEXT,
        "description": Text(),
        "invariants": ListOf(InvariantShape()),
        "chaos_matrix": CHAOS_MATRIX,
    },
    required=("name", "invariants"),
    notes={
        "name": "What sessions and commands call it.",
        "description": "What it is for.",
        "invariants": "What the agent promises.",
        "chaos_matrix": "The worlds it is asked in; default: one without faults.",
    },
    cross=_contract_flaws,
)
"""A contract in a file of its own or in a configuration."""

# A map names its contracts by key, so the entries need no name.
_NAMED = Record(CONTRACT.members, required=("invariants",), notes=CONTRACT.notes, cross=CONTRACT.cross)
CONTRACTS = Either((ListOf(CONTRACT), MapOf(_NAMED)))
"""Several contracts: a list, or a map by name."""
