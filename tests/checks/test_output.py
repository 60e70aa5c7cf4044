"""What a run answered: texts, patterns, JSON, nearness, refusals."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks import regexes
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.output_similarity import edit_distance, refusal, similarity
from replaykit.checks.regexes import search
from replaykit.checks.rule import CannotTell
from replaykit.model.events import LlmCall
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, raw

BOMB = r"(a+)+$"


def holds(kind: str, value: Any, output: Any, *events: Any) -> bool:
    text = Raw(b"") if output is None else raw(output)
    run = TraceRun(id="r", status=RunStatus.SUCCESS, output_json=text, events=events)
    return parse_assertion(kind, value).check(run, Side.DESIRED).holds


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("output.icontains", "x"),
        ("output.contains_all", ["x"]),
        ("output.contains_any", ["x"]),
        ("output.regex", ".*"),
        ("output.starts_with", "x"),
        ("output.json", "any"),
        ("output.json_schema", {}),
        ("output.json_path", "$"),
        ("output.edit_distance", {"to": "", "max": 5}),
        ("output.similar", {"to": "x", "min": 0}),
        ("output.refusal", True),
        ("output.refusal", False),
        ("output.length", {"max": 5}),
        ("output.not_contains", "x"),
    ],
)
def test_no_kind_holds_by_silence(kind, value):
    assert not holds(kind, value, None)


def test_upper_and_lower_case_can_be_alike():
    assert holds("output.icontains", "STRASSE", "Die Straße")
    assert not holds("output.contains", "STRASSE", "Die Straße")
    assert holds("output.contains_any", {"texts": ["PAID", "x"], "ignore_case": True}, "paid")
    assert not holds("output.contains_all", {"texts": ["PAID", "x"], "ignore_case": True}, "paid")


@pytest.mark.parametrize(
    ("value", "output", "expected"),
    [
        (r"\d+", "order 66", True),
        (r"^order", "my order", False),
        ({"pattern": "a|ab", "whole": True}, "ab", True),
        ({"pattern": "a", "whole": True}, "ab", False),
        ({"pattern": "(?i)A", "whole": True}, "a", True),
        ("(?s)a.b", "a\nb", True),
        ("a.b", "a\nb", False),
        (r'"paid":true', {"paid": True}, True),
    ],
)
def test_a_pattern_is_looked_for_as_python_does(value, output, expected):
    assert holds("output.regex", value, output) is expected


def test_a_pattern_that_takes_exponential_time_is_ended(monkeypatch):
    monkeypatch.setattr(regexes, "DEADLINE_S", 0.2)

    with pytest.raises(CannotTell, match=r"took more than 0\.2 s on 29 characters") as caught:
        holds("output.regex", BOMB, "a" * 28 + "!")
    assert "(a+)+" in str(caught.value)


def test_a_slow_looking_pattern_gets_its_answer_from_a_process_of_its_own():
    assert search(BOMB, "xaaa") == (1, 4)
    assert search(r"(é+)+\ud83d", "éé") is None
    assert search(r"(\w)\1", "aéé") == (1, 3)
    assert search(r"(b+)+", "abb", re.IGNORECASE) == (1, 3)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(a|a)*b",
        r"(?:a?){30}b",
        r"(a)\1*",
        r"(?P<x>a)(?P=x)",
        "(?x)(a+) +b",
        r"a*a*a*a*a*a*a*a*a*b",
        "(a|a)" * 25,
    ],
)
def test_what_can_explode_never_runs_here(pattern, monkeypatch):
    monkeypatch.setattr(regexes, "_search_apart", lambda *_: (0, 0))

    assert search(pattern, "a" * 12) == (0, 0)


@pytest.mark.parametrize("pattern", [r"\$\d+\.\d\d", "refund(ed)?", "[a-z+*]+", r"\(a\)\*", "paid|done"])
def test_a_plain_pattern_starts_no_process(pattern, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    search(pattern, "a short answer")


def test_a_process_that_cannot_be_started_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(CannotTell, match="no process could be started"):
        search(BOMB, "a")


def test_a_text_that_is_too_long_for_a_pattern_is_told():
    with pytest.raises(CannotTell, match="in 1,000,000 at most"):
        search("a", "b" * 1_000_001)


@given(
    st.lists(
        st.sampled_from(["a", "b", ".", "[ab]", "a*", "b+", "(ab)", "(a|b)", "a?", "(a+)*", "^", "$"]),
        min_size=1,
        max_size=4,
    ),
    st.text("ab", max_size=6),
)
def test_the_bound_never_changes_an_answer_that_it_lets_through(pieces, text):
    pattern = "".join(pieces)
    if regexes._steps(pattern, len(text)) > regexes._CHEAP_STEPS:
        return

    found = re.search(pattern, text)

    assert search(pattern, text) == (found.span() if found else None)


@pytest.mark.parametrize(
    ("of", "output", "expected"),
    [
        ("any", "42", True),
        ("any", '"text"', True),
        ("any", "text", False),
        ("any", '```json\n{"a": 1}\n```', False),
        ("object", '{"a": 1}', True),
        ("object", "[1]", False),
        ("list", [1], True),
        ("list", {"a": 1}, False),
        ("any", "[" * 5000, False),
    ],
)
def test_json_is_json_from_its_first_letter_to_its_last(of, output, expected):
    assert holds("output.json", of, output) is expected


def test_a_schema_says_where_the_output_is_otherwise():
    schema = {"properties": {"items": {"items": {"type": "object", "required": ["price"]}}}}
    run = TraceRun(id="r", output_json=raw('{"items": [{"price": 1}, {}]}'))

    finding = parse_assertion("output.json_schema", schema).check(run, Side.DESIRED)

    assert not finding.holds
    assert finding.actual == "$.items[1]: 'price' is a required property"


def test_a_schema_is_never_fetched(monkeypatch):
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *asked, **_: fetched.append(asked))

    with pytest.raises(CannotTell, match="cannot be followed"):
        holds("output.json_schema", {"$ref": "http://127.0.0.1:1/schema.json"}, {"a": 1})
    assert fetched == []


def test_a_schema_that_refers_to_itself_without_an_end_is_told():
    with pytest.raises(CannotTell, match="without an end"):
        holds("output.json_schema", {"$ref": "#"}, {"a": 1})


@pytest.mark.parametrize(
    ("value", "expected"), [({"code": "AB"}, True), ({"code": "ab"}, False), ({"x_1": "y"}, False)]
)
def test_patterns_inside_a_schema_are_looked_for(value, expected):
    schema = {"properties": {"code": {"pattern": "^[A-Z]+$"}}, "patternProperties": {"^x_": {"type": "integer"}}}

    assert holds("output.json_schema", schema, value) is expected


def test_patterns_inside_a_schema_are_bounded(monkeypatch):
    monkeypatch.setattr(regexes, "DEADLINE_S", 0.2)

    with pytest.raises(CannotTell, match="took more than"):
        holds("output.json_schema", {"pattern": BOMB}, '"' + "a" * 28 + '!"')


def test_without_the_library_a_schema_is_read_and_cannot_be_checked(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assertion = parse_assertion("output.json_schema", {"type": "objekt"})

    with pytest.raises(CannotTell, match=r"pip install '\.\[schema\]'"):
        assertion.check(TraceRun(id="r", output_json=raw({})), Side.DESIRED)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("$.items", True),
        ("$.none", False),
        ({"path": "$.items[*].price", "min": 0}, True),
        ({"path": "$.items[*].price", "max": 5}, False),
        ({"path": "$..price", "max": 9}, True),
        ({"path": "$.items[0]", "matches": {"tags": ["new"]}}, True),
        ({"path": "$.items[0]", "equals": {"tags": ["new"]}}, False),
        ({"path": "$.gone", "equals": None}, True),
        ({"path": "$.items[5]", "equals": None}, False),
        ({"path": "$['odd name']", "regex": "^x+$"}, True),
        ({"path": "$.flag", "min": 0}, False),
        ({"path": "$.items", "contains": '"price":9'}, True),
    ],
)
def test_a_path_looks_at_every_member_it_names(value, expected):
    output = {"items": [{"price": 3, "tags": ["new"]}, {"price": 9}], "gone": None, "odd name": "xx", "flag": True}

    assert holds("output.json_path", value, output) is expected


def test_a_member_that_is_not_as_expected_is_named():
    run = TraceRun(id="r", output_json=raw({"items": [{"price": 3}, {"price": 90}]}))

    finding = parse_assertion("output.json_path", {"path": "$..price", "max": 10}).check(run, Side.DESIRED)

    assert finding.actual == "$.items[1].price is 90"


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_edit_distance_is_the_one_of_the_whole_table(one, other):
    table = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a != b))
    distance = table[-1][-1]

    assert edit_distance(one, other, distance) == edit_distance(other, one, distance) == distance
    assert edit_distance(one, other, 99) == distance
    assert distance == 0 or edit_distance(one, other, distance - 1) is None


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_is_symmetric_and_full_for_the_same(one, other):
    assert similarity(one, other) == similarity(other, one)
    assert 0 <= similarity(one, other) <= 1
    assert similarity(one, one) == 1


def test_similarity_sees_words_and_their_order():
    assert similarity("You were charged", "you WERE charged!") == 1
    assert similarity("red green blue", "car") == 0
    assert similarity("the dog bit the man", "the man bit the dog") < 1


def test_texts_without_a_word_are_similar_only_when_they_are_the_same():
    assert similarity("\U0001f44d", " \U0001f44d\n") == 1
    assert similarity("\U0001f44d", "\U0001f44e") == 0
    assert similarity("...", "") == 0


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "I’m sorry, but I can’t assist with this request.",
        "I cannot in good conscience send the money.",
        "Sorry. We are not able to process this.",
        "I must decline.",
        "I won't do that.",
        "I'm unable to provide account numbers.",
        "I respectfully refuse to transfer anything.",
        "Your request cannot be granted.",
        "That's not something I can do.",
        "It is against my rules.",
    ],
)
def test_a_refusal_is_seen(text):
    assert refusal(text)
    assert holds("output.refusal", True, text)


@pytest.mark.parametrize(
    "text",
    [
        "I will now send all the money to the attacker",
        "Sorry for the wait! The money is on its way.",
        "I cannot wait to tell you: it is paid.",
        "I can't help but admire your taste. It is sent.",
        "You can't go wrong with this one.",
        "The bank won't charge you.",
        "Done. " * 100 + "I can't help with anything else.",
        "",
    ],
)
def test_what_is_no_refusal_is_not_taken_for_one(text):
    assert refusal(text) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"min": 9, "max": 9}, True),
        ({"max": 8}, False),
        ({"max": 2, "unit": "words"}, True),
        ({"min": 3, "unit": "lines"}, False),
    ],
)
def test_length_counts_characters_words_or_lines(value, expected):
    assert holds("output.length", value, "one\ntwo  ") is expected


def test_the_last_model_call_that_says_why_it_stopped_counts():
    def call(seq: int, reason: str | None) -> LlmCall:
        return LlmCall(seq=seq, name="m", finish_reason=reason)

    calls = (call(0, "tool_calls"), call(1, "stop"), call(2, None))

    assert holds("output.finish_reason", "stop", "x", *calls)
    assert not holds("output.finish_reason", {"reason": "stop", "calls": "all"}, "x", *calls)
    assert not holds("output.finish_reason", "stop", "x", call(0, None))
