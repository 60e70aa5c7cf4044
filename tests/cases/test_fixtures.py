"""Frozen outcomes on disk: written readably, read back the same, refused when they are wrong."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.cases.fixtures import read_fixtures, write_fixtures
from replaykit.documents.slug import slug
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.model.events import ErrorInfo, Exchange, LlmCall, ToolCall, Usage, WireInfo
from replaykit.model.values import ABSENT, Raw, canonical, decode, raw

LOOKUP = """\
{
  "replaykit": 3,
  "kind": "tool_call",
  "name": "lookup_billing",
  "calls": [
    {
      "call": 3,
      "path": "",
      "arguments": {"user_id": "usr_8821"},
      "result": "Error: billing service timeout"
    },
    {
      "call": 5,
      "path": "gather.0",
      "parent": 4,
      "arguments": null,
      "error": {"type": "TimeoutError", "message": "too late"},
      "duration_s": 0.5
    }
  ]
}
"""


def fixture_in(case: Path, text: str | bytes, name: str = "lookup_billing.json") -> Path:
    (case / "fixtures").mkdir(exist_ok=True)
    file = case / "fixtures" / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refused(case: Path, text: str | bytes) -> InvalidFile:
    fixture_in(case, text)
    with pytest.raises(InvalidFile) as caught:
        read_fixtures(case)
    return caught.value


def test_a_fixture_is_a_file_that_people_can_read(tmp_path):
    calls = [
        ToolCall(
            seq=5,
            name="lookup_billing",
            path="gather.0",
            parent=4,
            error=ErrorInfo(type="TimeoutError", message="too late"),
            duration_s=0.5,
        ),
        ToolCall(
            seq=3,
            name="lookup_billing",
            arguments_json=raw({"user_id": "usr_8821"}),
            result_json=raw("Error: billing service timeout"),
        ),
    ]

    (file,) = write_fixtures(tmp_path, calls)

    assert file == tmp_path / "fixtures" / "lookup_billing.json"
    assert file.read_text() == LOOKUP
    assert read_fixtures(tmp_path) == calls[::-1]


EXCHANGE = """\
{
  "replaykit": 3,
  "kind": "exchange",
  "name": "GET api.example/events",
  "calls": [
    {
      "call": 0,
      "path": "",
      "arguments": {"query": [["since", "1"]]},
      "items": ["data: 1\\n\\n", "data: ", "2\\n\\n"],
      "complete": false,
      "wire": {
        "method": "GET",
        "url": "https://api.example/events?since=1",
        "status": 200,
        "reason": "OK",
        "headers": [["Content-Type", "text/event-stream"], ["X-Id", "a \\"quoted\\" one"]],
        "pauses_ms": [12.5, 0.1, 3.0]
      }
    }
  ]
}
"""


def test_an_exchange_is_a_file_that_people_can_read(tmp_path):
    call = Exchange(
        seq=0,
        name="GET api.example/events",
        arguments_json=raw({"query": [["since", "1"]]}),
        items_json=(raw("data: 1\n\n"), raw("data: "), raw("2\n\n")),
        complete=False,
        wire=WireInfo(
            method="GET",
            url="https://api.example/events?since=1",
            status=200,
            reason="OK",
            headers=(("Content-Type", "text/event-stream"), ("X-Id", 'a "quoted" one')),
            pauses_ms=(12.5, 0.1, 3.0),
        ),
    )

    (file,) = write_fixtures(tmp_path, [call])

    assert file.read_text() == EXCHANGE
    assert read_fixtures(tmp_path) == [call]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"reason"', '"reasn"', 16, "unknown key 'reasn'; did you mean 'reason'?"),
        ('"status": 200', '"status": "200"', 15, "calls.0.wire.status: expected `int`"),
        ('["X-Id", ', '["X-Id", 1, ', 17, "calls.0.wire.headers.1"),
    ],
)
def test_a_mistake_in_an_exchange_is_told_with_its_line(old, new, line, words, tmp_path):
    assert old in EXCHANGE

    error = refused(tmp_path, EXCHANGE.replace(old, new, 1))

    assert words in str(error)
    assert error.line == line


def test_a_list_that_only_looks_like_one_of_ours_keeps_its_texts(tmp_path):
    arguments = {"pauses_ms": ["a   b", "]  "], "pair": ["c  d", "e\n\n  f"]}
    call = Exchange(seq=0, name="x", arguments_json=raw(arguments), wire=WireInfo(method="GET", url="http://x/"))

    write_fixtures(tmp_path, [call])

    assert read_fixtures(tmp_path)[0].arguments == arguments


@pytest.mark.exhaustive
def test_a_response_of_sixty_megabytes_is_read_back(tmp_path):
    body = b"\0" * 60_000_000
    wire = WireInfo(method="GET", url="https://files.example/big", status=200)
    call = Exchange(seq=0, name="GET files.example/big", items_json=(raw(body),), wire=wire)

    write_fixtures(tmp_path, [call])

    (read,) = read_fixtures(tmp_path)
    assert read.items == [body]


def test_a_case_without_fixtures_has_no_calls(tmp_path):
    assert read_fixtures(tmp_path) == []


def test_arguments_edited_by_hand_still_match(tmp_path):
    text = LOOKUP.replace('"user_id": "usr_8821"', '"z": 1, "a" : [ 2 ],\n "m": {"y": 1, "x": 2}')
    fixture_in(tmp_path, text)

    call, _ = read_fixtures(tmp_path)

    assert bytes(call.arguments_json) == canonical({"a": [2], "m": {"x": 2, "y": 1}, "z": 1})


def test_no_result_and_a_null_result_are_different(tmp_path):
    unanswered = ToolCall(seq=1, name="a")
    nothing = ToolCall(seq=2, name="a", result_json=raw(None))
    write_fixtures(tmp_path, [unanswered, nothing])

    first, second = read_fixtures(tmp_path)

    assert first.result_json is ABSENT
    assert not first.answered
    assert second.answered


def test_other_files_beside_the_fixtures_are_left_alone(tmp_path):
    fixture_in(tmp_path, LOOKUP)
    fixture_in(tmp_path, "not json", "README.md")
    fixture_in(tmp_path, "not json", ".hidden.json")

    assert len(read_fixtures(tmp_path)) == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"path": ""', '"pth": ""', 8, "unknown key 'pth'; did you mean 'path'?"),
        ('"message": "too late"', '"mesage": "too late"', 17, "unknown key 'mesage'; did you mean 'message'?"),
        ('"kind"', '"knd"', 3, "unknown key 'knd'; did you mean 'kind'?"),
        ('"kind": "tool_call",', "", 1, "missing required field `kind`"),
        ('"tool_call"', '"tool"', 3, "kind: invalid enum value 'tool'"),
        ('"call": 3', '"call": "3"', 7, "calls.0.call: expected `int`"),
        ('"call": 3', '"call": -3', 7, "calls.0.call: expected `int` >= 0"),
        ('"duration_s": 0.5', '"finish_reason": "stop"', 12, "only an llm_call has"),
        ('"replaykit": 3', '"replaykit": 0', 2, "expected the format version 3"),
        ('"usr_8821"', "usr_8821", 9, "not JSON"),
        ('"usr_8821"', '"\\ud800"', 9, "not JSON"),
        ('"usr_8821"', "[" * 500 + "]" * 500, 9, "nested deeper than 500 levels"),
    ],
)
def test_a_mistake_is_told_with_its_line(old, new, line, words, tmp_path):
    assert old in LOOKUP

    error = refused(tmp_path, LOOKUP.replace(old, new, 1))

    assert words in str(error)
    assert (Path(error.file).name, error.line) == ("lookup_billing.json", line)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"replaykit": 2}', b'{"replaykit": 2, "x": ' + b"[" * 900]
)
def test_what_is_no_fixture_is_refused(text, tmp_path):
    refused(tmp_path, text)


def test_a_fixture_nested_deeper_than_json_can_be_read_is_refused(tmp_path):
    refused(tmp_path, LOOKUP.replace('"Error: billing service timeout"', "[" * 1100 + "]" * 1100))


def test_a_failed_tool_may_hold_a_text_beside_its_error_and_a_model_may_not(tmp_path):
    both = LOOKUP.replace('"duration_s": 0.5', '"result": "Error: too late"')
    fixture_in(tmp_path, both)
    assert [call.error and (call.error.type, call.result) for call in read_fixtures(tmp_path)] == [
        None,
        ("TimeoutError", "Error: too late"),
    ]

    error = refused(tmp_path, both.replace('"tool_call"', '"llm_call"'))
    assert "a result or an error, not both" in str(error)
    assert error.line == 12


def test_a_fixture_of_a_newer_version_says_so(tmp_path):
    fixture_in(tmp_path, LOOKUP.replace('"replaykit": 3', '"replaykit": 4, "later": 1'))

    with pytest.raises(FormatTooNew, match="fixture format 4"):
        read_fixtures(tmp_path)


@pytest.mark.parametrize("target", ["file", "folder"])
def test_fixtures_are_not_read_or_written_through_links_out_of_the_case(target, tmp_path):
    case, outside = tmp_path / "case", tmp_path / "outside"
    case.mkdir()
    outside.mkdir()
    victim = outside / "a.json"
    victim.write_text("{}")
    if target == "folder":
        (case / "fixtures").symlink_to(outside)
    else:
        (case / "fixtures").mkdir()
        (case / "fixtures" / "a.json").symlink_to(victim)

    with pytest.raises(InvalidFile, match="leaves the case's directory"):
        read_fixtures(case)
    with pytest.raises(InvalidFile, match="leaves the case's directory"):
        write_fixtures(case, [ToolCall(seq=1, name="a")])
    assert victim.read_text() == "{}"


def test_a_pipe_among_the_fixtures_is_not_waited_for(tmp_path):
    (tmp_path / "fixtures").mkdir()
    os.mkfifo(tmp_path / "fixtures" / "a.json")

    with pytest.raises(InvalidFile, match="not a regular file"):
        read_fixtures(tmp_path)


names = st.text(max_size=30) | st.sampled_from(
    ["Search", "search", "SEARCH", "a/b", "a\\b", "../x", "con", "NUL.txt", "", ".", "..", "x" * 500, "search-0123abcd",
     "model.gpt", "gpt", "日本語", "é", "a b", "a:b", "trailing.", "trailing "]
)  # fmt: skip


@given(names, st.sampled_from(["tool_call", "llm_call", "exchange"]))
def test_any_name_gives_a_safe_file_name(name, kind):
    found = slug(kind, name)

    assert re.fullmatch(r"[a-z0-9_][a-z0-9_.-]{0,79}", found)
    assert not found.endswith(".")
    assert found.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


@given(st.lists(st.tuples(st.sampled_from(["tool_call", "llm_call", "exchange"]), names), unique=True, max_size=20))
def test_different_names_get_different_files(pairs):
    assert len({slug(kind, name) for kind, name in pairs}) == len(pairs)


@pytest.mark.parametrize("name", ["con", "nul.txt", "com1", "lpt9.log"])
def test_a_device_of_windows_is_no_file_name(name):
    assert slug("tool_call", name).partition(".")[0] != name.partition(".")[0]


def test_a_name_cannot_take_the_file_of_another():
    hashed = slug("tool_call", "Search")

    assert slug("tool_call", hashed) != hashed
    assert slug("tool_call", slug("llm_call", "gpt")) != slug("llm_call", "gpt")
    assert slug("tool_call", "search") != slug("tool_call", "SEARCH")


def test_a_name_that_is_a_file_name_stays_readable():
    assert slug("tool_call", "lookup_billing") == "lookup_billing"
    assert slug("llm_call", "gpt-4.1-mini") == "model.gpt-4.1-mini"
    assert slug("tool_call", "Lookup Billing").startswith("lookup-billing-")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=8,
)
raws = values.map(raw)
errors = st.builds(
    ErrorInfo,
    type=st.text(min_size=1, max_size=8),
    message=st.text(max_size=8),
    args_json=raws | st.just(ABSENT),
    attributes_json=raws | st.just(ABSENT),
    bases=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    traceback=st.none() | st.text(max_size=8),
)
# Lone surrogates cannot be written as JSON text, and a name or path never holds them.
sayable = st.text(st.characters(codec="utf-8"), max_size=8)
shared = {
    "name": st.sampled_from(["search", "Search", "a/b", "gpt"]) | sayable,
    "path": sayable,
    "parent": st.none() | st.integers(0, 50),
    "arguments_json": values.map(lambda value: Raw(canonical(value))),
    "items_json": st.none() | st.lists(raws, max_size=3).map(tuple),
    "complete": st.booleans(),
    "duration_s": st.floats(0, 1e6),
}
outcomes = st.one_of(
    st.fixed_dictionaries({"result_json": raws}), st.fixed_dictionaries({"error": errors}), st.just({})
)


def calls_of(kind, **extra):
    fields = st.fixed_dictionaries({**shared, **extra})
    return st.builds(lambda given, outcome: (kind, given | outcome), fields, outcomes)


wires = st.builds(
    WireInfo,
    method=st.sampled_from(["GET", "POST"]),
    url=sayable,
    status=st.integers(0, 599),
    reason=sayable,
    version=st.sampled_from(["HTTP/1.1", "HTTP/2"]),
    headers=st.lists(st.tuples(sayable, sayable), max_size=3).map(tuple),
    pauses_ms=st.lists(st.floats(0, 1e6), max_size=4).map(tuple),
)
usages = st.builds(Usage, input_tokens=st.none() | st.integers(0, 99), cost_usd=st.none() | st.floats(0, 9))
drafts = st.one_of(
    calls_of(ToolCall),
    calls_of(Exchange, wire=st.none() | wires),
    calls_of(LlmCall, finish_reason=st.none() | sayable, usage=st.none() | usages, wire=st.none() | wires),
)


@given(st.lists(drafts, max_size=6))
def test_what_is_written_is_read_back_the_same(drafts):
    calls = [kind(seq=seq, **fields) for seq, (kind, fields) in enumerate(drafts)]
    with tempfile.TemporaryDirectory() as case:
        write_fixtures(case, calls)

        assert read_fixtures(case) == calls


@given(st.data())
def test_a_damaged_fixture_is_a_fixture_or_an_invalid_file(data):
    text = LOOKUP.encode()
    start = data.draw(st.integers(0, len(text)))
    damaged = text[:start] + data.draw(st.binary(max_size=6)) + text[start + data.draw(st.integers(0, 10)) :]
    with tempfile.TemporaryDirectory() as case:
        fixture_in(Path(case), damaged)

        try:
            calls = read_fixtures(case)
        except (InvalidFile, FormatTooNew):
            return
        assert [call.name for call in calls] == [json.loads(damaged)["name"]] * len(calls)
        assert all(call.arguments_json == Raw(canonical(decode(call.arguments_json))) for call in calls)
