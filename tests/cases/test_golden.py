"""The golden trace on disk: written for people, read strictly, and nothing in it can do anything."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.cases.golden import (
    Aspect,
    Golden,
    encode_golden,
    golden_file,
    golden_of,
    read_golden,
    redacted_golden,
    refuse_taken,
    write_golden,
)
from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError, StoreError, Unreplayable, UsageError
from replaykit.formats.files import import_trace
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Decision, ErrorInfo, LlmCall, Message, Note, State, ToolCall, Usage
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, Raw, canonical, raw
from replaykit.redaction.files import file_redactor


def call(seq: int = 0, name: str = "ask", result: Json = "ok", **fields: Any) -> ToolCall:
    given: dict[str, Any] = {"arguments_json": Raw(canonical({"q": 1})), "result_json": raw(result), **fields}
    return ToolCall(seq=seq, name=name, **given)


def run(*events: AnyEvent, **header: Any) -> TraceRun:
    given: dict[str, Any] = {"id": "r1", "name": "shop", "status": RunStatus.SUCCESS, "output_json": raw("done")}
    return TraceRun(**{**given, **header}, events=events)


def document(**changed: Any) -> dict[str, Any]:
    """A golden trace as JSON, a line for each member."""
    text: dict[str, Any] = json.loads(encode_golden(golden_of(run(call()))))
    return {**text, **changed}


def section(**changed: Any) -> dict[str, Any]:
    return {**document()["golden"], **changed}


def saved(value: Any) -> Path:
    text = value if isinstance(value, bytes) else json.dumps(value, indent=2).encode()
    Path("x.golden.json").write_bytes(text)
    return Path("x.golden.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@st.composite
def runs(draw: st.DrawFn) -> TraceRun:
    events: list[AnyEvent] = []
    fold = StateFold()
    for seq in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["tool", "llm", "message", "state", "decision", "note"]))
        value = draw(JSON)
        place: dict[str, Any] = {"seq": seq, "at": draw(st.floats(0, 2e9)), "step": draw(st.none() | TEXT)}
        if kind == "tool":
            events.append(
                ToolCall(**place, name="t", arguments_json=Raw(canonical({"v": value})), result_json=raw(value))
            )
        elif kind == "llm":
            usage = Usage(input_tokens=draw(st.none() | st.integers(0, 9)))
            events.append(LlmCall(**place, name="m", result_json=raw(value), usage=usage, finish_reason="stop"))
        elif kind == "message":
            events.append(Message(**place, role="user", content_json=raw(value)))
        elif kind == "state":
            whole, change = fold.advance(value if isinstance(value, dict) else {"v": value})
            events.append(State(**place, state_json=whole, change=change))
        elif kind == "decision":
            events.append(Decision(**place, content_json=raw(value)))
        else:
            events.append(Note(**place, content_json=raw(value)))
    return run(*events, name=draw(TEXT), input_json=raw(draw(JSON)), output_json=raw(draw(JSON)))


@given(
    runs(), TEXT, st.sets(st.sampled_from(list(Aspect)), min_size=1), st.lists(st.sampled_from(["$.a", "t:$..b[0]"]))
)
def test_a_golden_trace_comes_back_as_it_was_written(
    run: TraceRun, name: str, asserts: set[Aspect], ignore: list[str]
) -> None:
    golden = msgspec.structs.replace(golden_of(run, name=name, ignore=ignore), asserts=tuple(asserts))
    write_golden(Path("x.golden.json"), golden)

    found = read_golden("x.golden.json")

    assert found == redacted_golden(golden, file_redactor())
    assert encode_golden(found) == Path("x.golden.json").read_bytes()


def test_the_file_is_set_for_reading_and_ends_in_a_newline() -> None:
    text = encode_golden(golden_of(run(call()), ignore=["$.id"])).decode()

    assert text.startswith('{\n  "replaykit": 1,\n  "golden": {\n    "name": "shop",\n    "agent": "shop",\n')
    assert text.endswith("}\n")
    assert list(json.loads(text)) == ["replaykit", "golden", "run"]
    assert json.loads(text)["golden"]["asserts"] == ["calls", "states", "outcome"]
    assert json.loads(text)["golden"]["ignore"] == ["$.id"]


def test_a_golden_trace_is_a_run_log_too() -> None:
    golden = golden_of(run(call(), name="shop"))
    write_golden(Path("x.golden.json"), golden)

    imported = import_trace("x.golden.json")

    assert imported.runs == (golden.run,)


def test_values_beyond_json_survive() -> None:
    value = {"at": dt.datetime(2024, 3, 1, tzinfo=dt.UTC), "raw": b"\0\xff", "paid": decimal.Decimal("1.10"), "t": (1,)}
    write_golden(Path("x.golden.json"), golden_of(run(call(result=value), output_json=raw(value))))

    found = read_golden("x.golden.json").run

    assert found.output == value
    assert found.tool_calls[0].result == value


def test_a_run_that_has_not_ended_is_refused() -> None:
    with pytest.raises(UsageError, match="run r1 has not ended"):
        golden_of(run(status=RunStatus.RUNNING))


STOPPED = ErrorInfo(type="Divergence", module=ReplayKitError.__module__, message="left its recording")
UNANSWERABLE = {
    "was stopped by ReplayKit": call(3, result_json=ABSENT, error=STOPPED),
    "no outcome of it was recorded": call(3, result_json=ABSENT),
    "returned a socket.socket": call(3, result_json=Raw(b'{"$opaque":"socket.socket"}')),
}


@pytest.mark.parametrize("why", UNANSWERABLE)
def test_a_run_with_a_call_that_can_never_be_answered_is_refused(why: str) -> None:
    with pytest.raises(Unreplayable, match=rf"call 3 of run r1, `ask`.*{why}"):
        golden_of(run(UNANSWERABLE[why]))


def test_what_happened_inside_a_tool_need_not_be_answered() -> None:
    inner = call(1, "fetch", result_json=Raw(b'{"$opaque":"socket.socket"}'), parent=0)

    assert golden_of(run(call(0), inner)).run.events[1] == inner


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="bad JSON path 'id' at character 1"):
        golden_of(run(), ignore=["id"])


def test_tracebacks_stay_where_they_were_made() -> None:
    error = ErrorInfo(type="ValueError", message="no", traceback="File /home/me/agent.py, line 1")

    assert b"/home/me" not in encode_golden(golden_of(run(status=RunStatus.ERROR, error=error)))


@pytest.mark.parametrize(
    ("header", "name", "agent"),
    [
        ({"name": "shop"}, "shop", "shop"),
        ({"name": "shop@step_3", "origin": Origin(kind="forked", run="r0", step="step_3")}, "shop@step_3", "shop"),
        ({"name": "", "agent": "clerk"}, "r1", "clerk"),
        ({"name": ""}, "r1", "r1"),
    ],
)
def test_the_agent_has_the_name_of_its_runs(header: dict[str, Any], name: str, agent: str) -> None:
    golden = golden_of(run(**header))

    assert (golden.name, golden.agent) == (name, agent)


def test_another_name_is_another_file_of_the_same_agent() -> None:
    golden = golden_of(run(), name="Refused: no money")

    assert (golden.name, golden.agent) == ("Refused: no money", "shop")
    assert golden_file(Path("g"), golden.name).name.startswith("refused-no-money-")
    assert golden_file(Path("g"), "shop") == Path("g/shop.golden.json")
    assert golden_file(Path("g"), "../../etc") != golden_file(Path("g"), "etc")
    assert golden_file(Path("g"), "../../etc").parent == Path("g")


def test_a_file_that_is_there_is_refused_and_can_be_replaced() -> None:
    file = Path("a/b/x.golden.json")
    refuse_taken(file)
    write_golden(file, golden_of(run()))

    with pytest.raises(UsageError, match="already exists") as caught:
        refuse_taken(file)
    write_golden(file, golden_of(run(call())))

    assert "--name" in str(caught.value.hint)
    assert [path.name for path in file.parent.iterdir()] == ["x.golden.json"], "no draft is left"
    assert len(read_golden(file).run.events) == 1


def test_a_link_is_replaced_and_not_followed() -> None:
    Path("precious").write_text("precious")
    Path("x.golden.json").symlink_to("precious")

    write_golden(Path("x.golden.json"), golden_of(run()))

    assert Path("precious").read_text() == "precious"
    assert not Path("x.golden.json").is_symlink()


def test_a_place_that_cannot_be_written_is_an_error_with_its_name() -> None:
    Path("taken").write_text("")

    with pytest.raises(StoreError, match=r"taken/x\.golden\.json cannot be written"):
        write_golden(Path("taken/x.golden.json"), golden_of(run()))


def events(*events: dict[str, Any]) -> dict[str, Any]:
    return document(run={"id": "r", "status": "error", "events": list(events)})


def broken(old: bytes, new: bytes) -> bytes:
    return encode_golden(golden_of(run())).replace(old, new)


DAMAGED: dict[str, tuple[Any, str, str]] = {  # what is wrong → the file, what is said, and what stands on the line
    "empty": (b"", "the file is empty", ""),
    "half": (encode_golden(golden_of(run()))[:100], "not JSON", ""),
    "a list": ([], "not a golden trace", "[]"),
    "no version": ({"golden": {}, "run": {}}, "expected a version", "{"),
    "a version that is none": (document(replaykit=True), "expected a version", '"replaykit": true'),
    "a version before the first": (document(replaykit=0), "expected a version", '"replaykit": 0'),
    "an unknown key": (document(goldn={}), "unknown key 'goldn'; did you mean 'golden'?", '"goldn"'),
    "no section": ({"replaykit": 1, "run": {}}, "'golden' is missing", "{"),
    "no run": ({"replaykit": 1, "golden": {}}, "'run' is missing", "{"),
    "a section that is none": (document(golden=[]), "Expected `object`, got `array`", '"golden": []'),
    "an unknown key in it": (
        document(golden=section(ignored=[])),
        "golden: unknown key 'ignored'; did you mean 'ignore'?",
        '"ignored": []',
    ),
    "no name": (
        document(golden={key: value for key, value in section().items() if key != "name"}),
        "golden: 'name' is missing",
        '"golden": {',
    ),
    "an empty name": (document(golden=section(name="")), "golden.name is empty", '"name": ""'),
    "an agent that is no text": (
        document(golden=section(agent=1)),
        "golden.agent: Expected `str`, got `int`",
        '"agent": 1',
    ),
    "nothing asserted": (document(golden=section(asserts=[])), "golden.asserts is empty", '"asserts": []'),
    "an unknown assertion": (
        document(golden=section(asserts=["calls", "state"])),
        "golden.asserts.1: unknown word 'state'; did you mean 'states'?",
        '"state"',
    ),
    "a bad path": (document(golden=section(ignore=["$.a", "b"])), "golden.ignore: bad JSON path 'b'", '"b"'),
    "an event of no kind": (events({"type": "x", "seq": 1}), "'x'", '"type": "x"'),
    "a run that runs": (document(run={"id": "r", "status": "running"}), "has not ended", '"status": "running"'),
    "a number twice": (
        events({"type": "note", "seq": 7}, {"seq": 7, "type": "decision"}),
        "another event has the number 7 already",
        '"seq": 7,',
    ),
    "a change of nothing": (
        events({"seq": 1, "type": "state", "change": {"set": {"a": 1}}}),
        "the state of event 1 does not follow",
        "{",
    ),
    "a change that makes no sense": (
        events(
            {"type": "state", "seq": 1, "state": {"a": "text"}},
            {"type": "state", "seq": 2, "change": {"add": {"a": [1]}}},
        ),
        "the changes of the state do not add up",
        '"events": [',
    ),
    "a lone surrogate": (broken(b'"done"', b'"\\ud800"'), "not JSON", ""),
    "not UTF-8": (broken(b'"done"', b'"\xff"'), "not JSON", ""),
    "nested deeply": (broken(b'"done"', b"[" * 500 + b"]" * 500), "nested deeper than 500 levels", ""),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_an_error_with_its_line(kind: str) -> None:
    value, said, there = DAMAGED[kind]
    file = saved(value)

    with pytest.raises(InvalidFile) as caught:
        read_golden(file)

    assert said in caught.value.reason
    assert caught.value.file == "x.golden.json"
    if there:
        assert caught.value.line is not None
        assert there in file.read_text().splitlines()[caught.value.line - 1]


def test_a_newer_format_is_named_before_anything_else_is_looked_at() -> None:
    with pytest.raises(FormatTooNew, match=r"x\.golden\.json:2: a golden trace of version 9"):
        read_golden(saved({"replaykit": 9, "golden": "something else", "more": 1}))


@pytest.mark.parametrize("path", ["nowhere.golden.json", "."])
def test_a_file_that_is_none_is_an_error(path: str) -> None:
    with pytest.raises(InvalidFile):
        read_golden(path)


def states(first: int, *values: Json) -> list[State]:
    fold = StateFold()
    written = [fold.advance(value) for value in values]
    return [State(seq=first + n, state_json=whole, change=change) for n, (whole, change) in enumerate(written)]


VALID = encode_golden(
    golden_of(
        run(
            Message(seq=0, role="user", content_json=raw("why?")),
            call(1, result={"n": [1, {"$tuple": [1]}]}),
            *states(2, {"log": ["a"], "n": 1}, {"log": ["a", "b"], "n": 2}, {"log": ["a"], "text": "x" * 300}),
        ),
        ignore=["$..id"],
    )
)


@rk.tool
def ask(q: int) -> Any:
    raise AssertionError("live")


def agent(_: Any) -> str:
    try:
        ask(1)
    except rk.ReplayKitError:
        pass
    return "done"


@given(st.data())
def test_whatever_is_done_to_a_file_it_is_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "digit"]))
        if how == "flip":
            text[place] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del text[place : place + data.draw(st.integers(1, 40))]
        elif how == "digit":
            digits = [i for i, byte in enumerate(text) if 48 <= byte <= 57]
            text[data.draw(st.sampled_from(digits))] = data.draw(st.integers(48, 57))
        else:
            text[place:place] = data.draw(st.sampled_from([b"null", b"{}", b"[]", b"-1", b'"x":1,', b"1e999", b'"$']))
        if not text:
            return
    Path("x.golden.json").write_bytes(text)

    try:
        found = read_golden("x.golden.json")
        rk.check_golden(found, agent).text  # noqa: B018 (it must be tellable)
    except ReplayKitError:
        return
    assert isinstance(found, Golden)


@given(JSON)
def test_any_json_in_place_of_a_part_is_read_or_refused(value: Json) -> None:
    for place in (
        ["golden"],
        ["run"],
        ["run", "events"],
        ["run", "events", 1],
        ["run", "output"],
        ["golden", "ignore"],
    ):
        text: Any = json.loads(VALID)
        inside = text
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = value
        Path("x.golden.json").write_text(json.dumps(text), encoding="utf-8")

        try:
            read_golden("x.golden.json")
        except ReplayKitError:
            continue


def test_nothing_is_imported_because_a_file_names_it(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_directory / "a_canary.py").write_text("open('owned', 'w').close()\nclass Error(Exception): pass\n")
    monkeypatch.syspath_prepend(str(own_directory))
    error = ErrorInfo(type="Error", module="a_canary", message="x")
    hostile = run(
        call(0, result_json=ABSENT, error=error),
        agent="a_canary:main",
        name="a_canary:main",
        status=RunStatus.ERROR,
        error=error,
    )
    write_golden(Path("x.golden.json"), golden_of(hostile))

    rk.check_golden("x.golden.json", agent)

    assert not Path("owned").exists()
    assert "a_canary" not in sys.modules
