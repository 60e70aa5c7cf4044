"""Files that others wrote: values with lines, or an error with a line; never anything else."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.matrix import examples
from tests.memory import traced_memory

from replaykit.cases.fixture_reader import MAX_FIXTURE_BYTES
from replaykit.documents.document import Document, load_document, parse_document, read_bytes
from replaykit.documents.yaml_writer import emit_yaml
from replaykit.errors import InvalidFile


def value_of(text):
    return parse_document(text, "case.yaml").value


def error_of(text, file="case.yaml") -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        parse_document(text, file)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("TRUE", True),
        ("false", False),
        ("yes", "yes"),
        ("off", "off"),
        ("2024-03-12", "2024-03-12"),
        ("2024-03-12T14:32:00Z", "2024-03-12T14:32:00Z"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("-12", -12),
        ("012", 12),
        ("0o17", 15),
        ("0xFF", 255),
        ("1.", 1.0),
        ("-.5e3", -500.0),
        ("1e3", 1000.0),
        ("-.inf", -math.inf),
        ("'12'", "12"),
        ('"true"', "true"),
        ("|\n  null\n", "null\n"),
        ("<<: 1", {"<<": 1}),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says(text, expected):
    found = value_of(text)

    assert found == expected
    assert type(found) is type(expected)


def test_nan_is_a_number():
    assert math.isnan(value_of(".nan"))


def test_every_part_knows_its_line():
    document = parse_document("a: 1\nb:\n  - x\n  - c: {d: 1,\n      e: 2}\n", "case.yaml")

    assert document.line(("a",)) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "c", "e")) == 5
    assert document.line(("b", 1, "c", "missing", 3)) == 4
    assert document.line(("missing",)) == 1
    assert document.lines([("b", 0), ("a",), ("b", 0)]) == [3, 1, 3]


def test_json_knows_its_lines_as_well():
    document = parse_document(b'{\n  "a": [\n\t1,\n\t{"b": 2}\n  ]\n}', "trace.json")

    assert document.value == {"a": [1, {"b": 2}]}
    assert document.line(("a", 1, "b")) == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given twice"),
        ("a: 1\n2: b\n", 2, "a key must be text, got 2"),
        ("a: 1\ntrue: b\n", 2, "a key must be text, got true"),
        ("a: 1\n? [x]\n: b\n", 2, "a key must be text, got a list or mapping"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a:\n  b: !!python/name:os.system x\n", 2, "'!!python/name:os.system'"),
        ("a:\n  b: !local x\n", 2, "'!local'"),
        ("a: *x\n", 1, "*x names no anchor"),
        ("a: 1\nb: &x\n  c: [*x]\n", 3, "*x contains itself"),
        ("a: 1\n\tb: 2\n", 2, "Indent with spaces"),
        ("a: 1\nb: 'x\n", 2, "not YAML"),
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a: 1\nb: \x07\n", 2, "the character U+0007 is not allowed"),
        ("a: 1\nb: \x00\n", 2, "U+0000"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        ("a: 1\nb: \ud800\n", 2, "not UTF-8"),
        ("a: " + "9" * 5000, 1, "number is too long"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, line, words):
    error = error_of(text)

    assert error.line == line
    assert words in str(error)


def test_broken_json_is_told_with_its_line():
    error = error_of(b'{\n  "a": tru\n}', "trace.json")

    assert error.line == 2
    assert "not JSON" in str(error)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000, "[" * 101 + "]" * 101, "a: " + "[{b: " * 60_000],
    ids=["lists", "mappings", "dashes", "keys", "one too many", "mixed"],
)
def test_deep_nesting_is_refused_at_once(text):
    started = time.process_time()

    error = error_of(text)

    assert time.process_time() - started < 2
    assert "nested deeper than 100" in str(error) or "a key must be text" in str(error)


@pytest.mark.parametrize("depth", [102, 500, 100_000])
def test_deep_json_is_refused(depth):
    error = error_of("[" * depth + "1" + "]" * depth, "trace.json")

    assert "nested deeper" in str(error) or "not JSON" in str(error)


def test_a_hundred_levels_are_accepted():
    text = "[" * 100 + "]" * 100

    assert value_of(text) == parse_document(text, "trace.json").value


def test_aliases_give_what_they_name():
    assert value_of("a: &x {b: [1, 2]}\nc: *x\n&k d: *k\n") == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "d"}


def bomb(levels: int) -> str:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_an_alias_bomb_is_refused_with_its_line():
    error = error_of(bomb(30))

    assert "aliases expand to too much" in str(error)
    assert error.line in (3, 4, 5)


def test_a_large_text_behind_many_aliases_is_refused():
    error = error_of(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]")

    assert "aliases expand to too much" in str(error)


def test_aliases_cannot_hide_depth():
    deep = "\n".join(f"l{n}: &l{n} {'[' * 60}{f'*l{n - 1}' if n else ''}{']' * 60}" for n in range(3))

    error = error_of(deep)

    assert error.line == 2
    assert "nested deeper" in str(error)


@pytest.mark.parametrize("kind", ["object/apply", "object/new", "object", "module", "name"])
def test_no_tag_is_ever_obeyed(kind, tmp_path):
    witness = tmp_path / "witness"

    error = error_of(f"a: !!python/{kind}:os.system ['touch {witness}']")

    assert "!!python/" in str(error)
    assert not witness.exists()


def test_a_large_file_takes_less_than_ten_times_its_size():
    line = "- {{type: tool_call, name: lookup_{n}, arguments: {{user: usr_{n}, n: {n}}}, result: it says {n}}}\n"
    data = ("events:\n" + "".join(line.format(n=n) for n in range(3000))).encode()
    assert len(data) > 200_000

    assert peak_bytes(lambda: parse_document(data, "case.yaml")) < 10 * len(data)


def test_an_alias_bomb_takes_less_than_ten_times_its_size():
    data = (f"pad: {'x' * 200_000}\n" + bomb(30)).encode()

    assert peak_bytes(lambda: error_of(data)) < 10 * len(data)


def peak_bytes(act) -> int:
    with traced_memory() as peak:
        act()
    return peak()


def test_a_small_case_is_read_in_well_under_a_millisecond():
    text = "\n".join(f"key_{n}: {{a: {n}, b: [x, 'y', true]}}" for n in range(30)).encode()
    best = min(timed(lambda: parse_document(text, "case.yaml")) for _ in range(20))

    assert best < 0.005  # 0.4 ms where nothing else runs


def timed(act) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "case.yaml"
    file.write_bytes(b"a: 1\n" * 100)

    with pytest.raises(InvalidFile, match="larger than 50 bytes"):
        load_document(file, limit_bytes=50)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")

    for path in (tmp_path, tmp_path / "pipe.yaml", tmp_path / "absent.yaml", tmp_path / "nul\0.yaml"):
        with pytest.raises(InvalidFile):
            load_document(path)


def test_a_byte_order_mark_is_passed_over():
    assert parse_document(b"\xef\xbb\xbfa: 1", "case.yaml").value == {"a": 1}
    assert parse_document(b'\xef\xbb\xbf{"a": 1}', "a.json").value == {"a": 1}


texts = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["yes", "null", "0o17", "1e3", "a: b", "# x", "- a", "a\nb", "a\nb\n", "a\n\nb\n\n", " a\nb", "\ta\n", "~", "é\x85"]
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
mappings = st.dictionaries(texts, plain, min_size=1, max_size=5)


@given(mappings)
@example({"a": ["x\ny", {"b": "x\n  y\n"}, [["c"]]], "k" * 1500: {"k" * 1100: 1}})
@example({"a": "x\n \n\ty"})
def test_what_is_emitted_is_read_back_the_same(value):
    text = emit_yaml(value)

    assert exactly(value_of(text)) == exactly(value)


@given(mappings)
def test_other_yaml_readers_read_the_same(value):
    text = emit_yaml(value)

    assert exactly(yaml.load(text, Loader=yaml.CSafeLoader)) == exactly(value)


def exactly(value):
    """A text in which 1, 1.0 and true differ."""
    return repr(value)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), plain, max_size=4))
def test_json_is_read_as_json_says(value):
    text = json.dumps(value).replace("Infinity", "1.5")

    found = parse_document(text.encode(), "a.json").value

    assert found == json.loads(text) or any_huge(value)


def any_huge(value) -> bool:
    """orjson reads integers beyond 64 bits as floats."""
    if isinstance(value, dict | list):
        return any(map(any_huge, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64


snippets = st.sampled_from(
    ["a: ", "- ", "[", "]", "{", "}", "&x ", "*x", "!!str ", "!t ", "? ", ": ", "|\n", ">-\n", "'", '"', "\n", "  ",
     "\t", "#", "---\n", "...\n", "%YAML 1.2\n", "<<: ", "\\u", "0x", ",", "\x00", "\x85", "é", "null", "1e999"]
)  # fmt: skip


@settings(max_examples=examples(300))
@given(st.lists(snippets, max_size=40).map("".join) | st.text(max_size=60) | st.binary(max_size=60))
def test_whatever_the_bytes_there_is_a_value_or_an_invalid_file(text):
    for file in ("case.yaml", "case.json"):
        try:
            document = parse_document(text, file)
        except InvalidFile:
            document = Document(
                None, file=file, text=text.encode("utf-8", "replace") if isinstance(text, str) else text
            )
        assert document.line(("a", 0, "b")) is None or document.line(("a", 0, "b")) >= 1


def test_a_small_file_takes_no_room_for_the_largest_one(tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    file.write_bytes(b"{}")

    with traced_memory() as peak_bytes:
        assert read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES) == b"{}"

    assert peak_bytes() < 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_file_that_is_longer_than_its_size_says_is_read_to_its_end_or_its_limit() -> None:
    assert b"\nVmPeak:" in read_bytes("/proc/self/status")
    with pytest.raises(InvalidFile, match="larger than 10 bytes"):
        read_bytes("/proc/self/status", limit_bytes=10)
