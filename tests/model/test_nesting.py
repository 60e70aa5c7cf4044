"""Nesting limits are our own: every interpreter gives the same error at the same level."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.candidates.output import parse_output
from replaykit.checks.regexes import check_pattern
from replaykit.checks.rule import CannotTell
from replaykit.checks.schemas import check_schema, schema_flaw
from replaykit.errors import InvalidFile
from replaykit.formats.core.json_text import decode_lenient
from replaykit.model.nesting import (
    MAX_GROUPS,
    MAX_NESTING,
    NestedTooDeeply,
    check_nesting,
    check_value_nesting,
    decode_json,
    line_nested_too_deeply,
)
from replaykit.programs.mcp.messages import parse
from replaykit.redaction.re2 import compile_re2
from replaykit.redaction.rule_files import load_rules

TOO_DEEP = (MAX_NESTING + 1, 980, 1_500, 5_000, 100_000)
"""Depths around those at which the parsers of one interpreter or another give up."""

READERS: dict[str, Callable[[bytes], Any]] = {
    "decode_json": decode_json,
    "decode_json into a type": lambda text: decode_json(text, msgspec.Raw),
    "check_nesting": check_nesting,
    "imported traces": decode_lenient,
    "MCP messages": parse,
}


def lists(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def objects(depth: int) -> bytes:
    return b'{"a":' * depth + b"0" + b"}" * depth


def comb(depth: int) -> bytes:
    """Each level has a closed list before the next one opens, so no run of brackets is long."""
    return b"[[]," * depth + b"0" + b"]" * depth


def between_strings(depth: int) -> bytes:
    """Each level has a string of closing brackets in front of it."""
    return b'["]]\\"",' * depth + b"0" + b"]" * depth


SHAPES = [lists, objects, comb, between_strings]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reader", READERS)
def test_the_last_level_that_is_read_is_the_limit(reader: str, shape: Callable[[int], bytes]) -> None:
    READERS[reader](shape(MAX_NESTING - (shape is comb)))


@pytest.mark.parametrize("depth", TOO_DEEP)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_one_level_more(reader: str, shape: Callable[[int], bytes], depth: int) -> None:
    with pytest.raises(NestedTooDeeply, match=f"^nested deeper than {MAX_NESTING} levels$"):
        READERS[reader](shape(depth))


@pytest.mark.parametrize("depth", TOO_DEEP)
def test_a_text_that_other_readers_must_mend_is_refused_as_well(depth: int) -> None:
    text = b'{"a": NaN, "b": ' + lists(depth) + b"}"

    for read in (decode_lenient, parse):
        with pytest.raises(NestedTooDeeply):
            read(text)


@pytest.mark.parametrize("depth", TOO_DEEP)
def test_a_runner_output_is_refused_with_the_reason(depth: int) -> None:
    attempt = parse_output(b'{"run_id": "r", "status": "success", "final_output": ' + lists(depth) + b"}")

    assert attempt.run is None
    assert attempt.reason == f"the runner output is not JSON: nested deeper than {MAX_NESTING} levels"


def test_brackets_in_strings_are_no_levels() -> None:
    for text in ("[" * 1_000, "]" * 1_000, '\\"[' * 1_000, "\\\\" * 1_000):
        check_nesting(json.dumps([text, *([[]] * 600)]).encode())


@given(st.recursive(st.text(alphabet='[]{}"\\ax'), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_texts_and_values_agree(value: Any) -> None:
    deep = value
    for _ in range(MAX_NESTING - 2):
        deep = ["]", deep]
    text = json.dumps(deep).encode()

    assert refuses(check_nesting, text) == refuses(check_value_nesting, deep) == (line_nested_too_deeply(text) == 1)


def refuses(check: Callable[[Any], None], value: Any) -> bool:
    try:
        check(value)
    except NestedTooDeeply:
        return True
    return False


def test_the_line_is_that_of_the_first_level_too_many() -> None:
    text = b'{\n"a": "[[[",\n"b":\n' + lists(MAX_NESTING) + b"\n}"

    assert line_nested_too_deeply(text) == 4
    assert line_nested_too_deeply(lists(MAX_NESTING)) is None


def pattern(groups: int) -> str:
    return "(" * groups + "a" + ")" * groups


@pytest.mark.parametrize("compile", [check_pattern, compile_re2])
def test_groups_of_a_pattern_have_a_limit(compile: Callable[[str], object]) -> None:
    compile(pattern(MAX_GROUPS))
    compile(r"\((" * 90 + r"[(((]" + ")" * 90)

    for groups in (MAX_GROUPS + 1, 499):
        with pytest.raises(ValueError, match=f"nested deeper than {MAX_GROUPS} levels"):
            compile(pattern(groups))


def tree(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = {"properties": {"a": value}} if value != "leaf" else {"type": "string"}
    return value


def test_schemas_and_what_they_look_at_have_a_limit() -> None:
    check_schema(tree(50))
    schema = {"$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    assert schema_flaw(schema, decode_json(objects(100))) is None

    for depth in (60, 95, 2_000):
        with pytest.raises(ValueError, match="bad JSON Schema: nested deeper than 100 levels"):
            check_schema(tree(depth))
    for depth in (101, 250, MAX_NESTING):
        with pytest.raises(CannotTell, match="the value is nested deeper than 100 levels"):
            schema_flaw(schema, decode_json(objects(depth)))


@pytest.mark.parametrize("depth", [101, 400, 2_000])
def test_rule_files_have_a_limit(depth: int, tmp_path: Path) -> None:
    file = tmp_path / "redaction.toml"
    file.write_text(f"keys = {'[' * depth}{']' * depth}")

    with pytest.raises(InvalidFile, match="is not TOML: nested deeper than 100 levels"):
        load_rules(file)
