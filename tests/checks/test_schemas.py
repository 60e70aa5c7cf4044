"""JSON Schemas from files: bounded in time, whatever they refer to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks import schemas
from replaykit.checks.rule import CannotTell
from replaykit.checks.schemas import schema_flaw

jsonschema = pytest.importorskip("jsonschema")
LEVELS = 40


def doubling(keyword: str, last: Any) -> dict[str, Any]:
    """A schema of some lines that is looked at 2 to the power of 40 times."""
    parts: dict[str, Any] = {f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(LEVELS)}
    return {"$defs": {**parts, f"a{LEVELS}": last}, "$ref": "#/$defs/a0"}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "DEADLINE_S", 0.05)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "schema",
    [
        doubling("allOf", {"type": "object"}),
        doubling("anyOf", {"type": "array"}),
        doubling("oneOf", {"type": "object"}),
        {"unevaluatedProperties": False, **doubling("allOf", {"type": "object"})},
        {"properties": {"x": {"not": doubling("allOf", {})["$defs"]["a0"]}}, **doubling("allOf", {})},
    ],
    ids=["allOf", "anyOf", "oneOf", "unevaluated", "not"],
)
def test_references_that_double_end_in_an_error_soon(schema: dict[str, Any]) -> None:
    with pytest.raises(CannotTell, match=r"the JSON Schema took more than 0\.05 s"):
        schema_flaw(schema, {"x": 1})


@pytest.mark.usefixtures("soon")
def test_references_that_the_library_follows_by_itself_end_as_well() -> None:
    parts = {
        f"a{level}": {
            "$dynamicAnchor": f"c{level}",
            "$ref": f"#/$defs/a{level + 1}",
            "$dynamicRef": f"#c{level + 1}",
        }
        for level in range(LEVELS)
    }
    schema = {
        "unevaluatedProperties": False,
        "$defs": {**parts, f"a{LEVELS}": {"$dynamicAnchor": f"c{LEVELS}"}},
        "$ref": "#/$defs/a0",
    }

    with pytest.raises(CannotTell, match="took more than"):
        schema_flaw(schema, {"x": 1})


def test_a_part_that_names_its_own_version_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.checks.regexes.DEADLINE_S", 0.2)
    part = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^(a+)+$"}

    with pytest.raises(CannotTell, match="the pattern"):
        schema_flaw({"properties": {"a": part}}, {"a": "a" * 40 + "!"})


def test_a_schema_with_references_that_ends_in_time_says_what_it_always_said() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["name"]}},
        "$ref": "#/$defs/node",
    }

    assert schema_flaw(schema, {"name": "a", "next": {"name": "b"}}) is None
    assert schema_flaw(schema, {"name": "a", "next": {}}) == "$.next: 'name' is a required property"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 2.5]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    max_leaves=8,
)


@given(st.lists(values, max_size=6))
def test_items_are_unique_exactly_when_the_library_says_so(items: list[Any]) -> None:
    schema = {"uniqueItems": True}

    assert (schema_flaw(schema, items) is None) is jsonschema.Draft202012Validator(schema).is_valid(items)


def test_many_items_are_compared_in_no_time() -> None:
    # The library compares each pair: of so many it would take an hour.
    items = [{"order": [number]} for number in range(20_000)]

    assert schema_flaw({"uniqueItems": True}, items) is None
    assert "the items are not unique" in str(schema_flaw({"uniqueItems": True}, [*items, {"order": [7]}]))
