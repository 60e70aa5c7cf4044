"""LangSmith runs, in every form that its client, its API and its SDKs write them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.errors import InvalidFile, ReplayKitError
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source
from replaykit.model.events import ErrorEvent, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

ERROR = (
    "TimeoutError('the gateway\\'s late')Traceback (most recent call last):\n\n\n"
    '  File "agent.py", line 9, in refund\n\n\nTimeoutError: the gateway\'s late'
)


def run(name: str, run_type: str = "chain", *, at: int = 0, above: dict[str, Any] | None = None, **more: Any) -> Any:
    """A flat run as `list_runs` gives it; it takes a second."""
    order = f"20260215T1432{at:02}000000Zid-{name}"
    return {
        "id": f"id-{name}",
        "name": name,
        "run_type": run_type,
        "start_time": f"2026-02-15T14:32:{at:02}",
        "end_time": f"2026-02-15T14:32:{at + 1:02}+00:00",
        "inputs": {},
        "outputs": {},
        "error": None,
        "status": "success",
        "parent_run_id": above["id"] if above else None,
        "trace_id": above["trace_id"] if above else f"id-{name}",
        "dotted_order": f"{above['dotted_order']}.{order}" if above else order,
        **more,
    }


def lc(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message as LangChain dumps it."""
    names = ["langchain", "schema", "messages", f"{kind}Message"]
    return {"lc": 1, "type": "constructor", "id": names, "kwargs": {"content": content, **more}}


def trace() -> list[dict[str, Any]]:
    """An agent that asks a model, calls two tools at once, and one that fails."""
    root = run("agent", inputs={"input": "Refund W1"}, error=ERROR, status="error", end_time="2026-02-15T14:32:30")
    node = run("tools", at=3, above=root, extra={"metadata": {"langgraph_step": 2}})
    calls = [{"name": "get_order", "args": {"id": "W1"}, "id": "c1"}, {"name": "get_user", "args": {}, "id": "c2"}]
    answer = lc(
        "AI",
        "",
        tool_calls=calls,
        usage_metadata={"input_tokens": 120, "output_tokens": 31},
        response_metadata={"finish_reason": "tool_calls"},
    )
    model = run(
        "ChatOpenAI",
        "llm",
        at=1,
        above=root,
        inputs={"messages": [[lc("System", "Be kind"), lc("Human", "Refund W1")]]},
        outputs={"generations": [[{"text": "", "message": answer}]], "llm_output": None},
        extra={"invocation_params": {"model": "gpt-4o", "tools": [{"name": "get_order"}], "stop": None, "top_p": 1}},
        total_cost="0.00052",
    )
    said = {"content": "W1: 59.9", "type": "tool", "tool_call_id": "c1", "status": "success"}
    step = {"metadata": {"langgraph_step": 2}}
    return [
        root,
        model,
        node,
        run("get_user", "tool", at=4, above=node, inputs={}, outputs={"output": "Ana"}, extra=step),
        run("get_order", "tool", at=3, above=node, inputs={"id": "W1"}, outputs={"output": said}, extra=step),
        run("refund", "tool", at=9, above=root, inputs={"id": "W1"}, outputs={}, error=ERROR, status="error"),
    ]


def nested(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The same runs as `read_run(load_child_runs=True)` gives them."""
    byid = {one["id"]: {**one, "child_runs": []} for one in copy.deepcopy(runs)}
    for one in byid.values():
        if one["parent_run_id"]:
            byid[one["parent_run_id"]]["child_runs"].append(one)
    return byid[runs[0]["id"]]


def bodies(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same runs as an SDK sends them; a patch names its run by `dotted_order` alone."""
    late = ("outputs", "error", "end_time", "extra", "total_cost")
    posts = [{**{key: one[key] for key in one if key not in (*late, "status")}, "outputs": {}} for one in runs]
    patches = [{key: one[key] for key in one if key in (*late, "dotted_order", "trace_id")} for one in runs]
    return [{"post": posts[:2]}, {"post": posts[2:], "patch": patches[:1]}, {"patch": patches[1:]}]


def v2(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The same runs as the second version of the API gives them."""
    found = []
    for one in json.loads(json.dumps(runs)):
        one["parent_run_ids"] = [one["trace_id"], one.pop("parent_run_id")] if one["parent_run_id"] else []
        one["metadata"] = one.get("extra", {}).pop("metadata", {})
        upper = {key: one[key].upper() for key in ("run_type", "status")}
        found.append({**one, **upper, **({"total_cost": float(one["total_cost"])} if "total_cost" in one else {})})
    return {"items": found, "next_cursor": None}


def imported(value: Any, format: str | None = None) -> Imported:
    text = value if isinstance(value, bytes) else json.dumps(value, indent=1).encode()
    return import_source(Source(text, "runs.json"), format)


def only(value: Any) -> TraceRun:
    (found,) = imported(value).runs
    return found


def lines(values: list[Any]) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values) + b"\n"


def call(run_type: str = "tool", **more: Any) -> Any:
    """The one call of a trace with a root and a call."""
    root = run("agent")
    events = only([root, run("it", run_type, above=root, **more)]).events
    assert len(events) == 1
    return events[0]


def test_a_trace_becomes_a_run_with_its_calls_in_the_order_they_were_made():
    got = only(trace())

    assert (got.id, got.name, got.status, got.input) == ("id-agent", "agent", RunStatus.TIMEOUT, "Refund W1")
    assert (got.error.type, got.error.message) == ("TimeoutError", "the gateway's late")
    assert got.error.traceback.startswith("Traceback (most recent call last):")
    assert (bool(got.output_json), got.duration_s, got.origin.format) == (False, 30.0, "langsmith")
    assert [(type(e).__name__, e.name, e.step) for e in got.events] == [
        ("LlmCall", "gpt-4o", None),
        ("ToolCall", "get_order", "step_2"),
        ("ToolCall", "get_user", "step_2"),
        ("ToolCall", "refund", None),
    ]
    assert [(c.arguments, c.result) for c in got.tool_calls[:2]] == [({"id": "W1"}, "W1: 59.9"), ({}, "Ana")]
    assert (bool(got.tool_calls[2].result_json), got.tool_calls[2].error.message) == (False, "the gateway's late")
    assert [event.at - got.started_at for event in got.events] == [1, 3, 4, 9]
    assert {event.duration_s for event in got.events} == {1.0}


def test_a_model_call_has_its_messages_tools_answer_reason_tokens_and_cost():
    model = only(trace()).llm_calls[0]

    assert model.arguments == {
        "messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Refund W1"}],
        "tools": [{"name": "get_order"}],
        "parameters": {"top_p": 1},
    }
    assert model.result["tool_calls"] == [
        {"id": "c1", "name": "get_order", "arguments": {"id": "W1"}},
        {"id": "c2", "name": "get_user", "arguments": {}},
    ]
    assert model.finish_reason == "tool_calls"
    assert model.usage == Usage(input_tokens=120, output_tokens=31, cost_usd=0.00052)


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "nested": nested,
    "bodies": bodies,
    "bodies, the last first": lambda runs: bodies(runs)[::-1],
    "second version": v2,
    "lines": lines,
    "lines of bodies": lambda runs: lines(bodies(runs)),
    "a nested line": lambda runs: lines([nested(runs)]),
    "blank lines": lambda runs: b"\xef\xbb\xbf" + lines(runs).replace(b"\n", b"\r\n\r\n"),
    "query": lambda runs: {"runs": runs, "cursors": {"next": None}},
    "webhook": lambda runs: {"rule_id": "r", "start_time": "x", "end_time": "y", "runs": runs},
    "backwards": lambda runs: runs[::-1],
    "nested and flat": lambda runs: [nested(runs), *runs],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_the_same_runs_gives_the_same_run(form):
    got = imported(form(trace()))

    flat = imported(trace())
    assert (got.format, got.notes) == ("langsmith", ())
    assert got.runs[0].events == flat.runs[0].events
    assert len(got.runs) == 1
    for name in ("id", "input_json", "output_json", "status", "error", "started_at", "ended_at"):
        assert getattr(got.runs[0], name) == getattr(flat.runs[0], name)


def test_each_root_is_a_run_of_its_own():
    other = run("other", outputs={"output": 7})

    got = imported([*trace(), other, run("search", "tool", above=other, outputs={"output": 1})])

    assert [(one.id, len(one.events), one.output) for one in got.runs] == [("id-agent", 4, None), ("id-other", 1, 7)]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"input": "Hi"}, "Hi"),
        ({"messages": [["user", "Hi"]]}, {"messages": [["user", "Hi"]]}),
        ({"messages": [{"role": "user", "content": "Hi"}]}, {"messages": [{"role": "user", "content": "Hi"}]}),
        ({"input": "Hi", "chat_history": []}, {"input": "Hi", "chat_history": []}),
        ([1, {"a": None}], [1, {"a": None}]),
        ("Hi", "Hi"),
        (None, None),
    ],
)
def test_an_input_is_what_the_agent_was_given(inputs, expected):
    assert only([run("agent", inputs=inputs)]).input == expected


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"output": "Done"}, "Done"),
        ({"output": None}, None),
        ({"output": lc("AI", "Done")}, "Done"),
        ({"messages": [["user", "Hi"], {"type": "ai", "content": "Done"}]}, "Done"),
        ({"messages": [{"role": "assistant", "content": "Done"}]}, "Done"),
        ({"messages": [["user", "Hi"]]}, {"messages": [["user", "Hi"]]}),
        ({"answer": "Done", "sources": 2}, {"answer": "Done", "sources": 2}),
    ],
)
def test_an_output_is_what_the_agent_answered(outputs, expected):
    got = only([run("agent", outputs=outputs)])

    assert (got.output, bool(got.output_json)) == (expected, True)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"status": "SUCCESS"}, RunStatus.SUCCESS),
        ({"status": "pending", "end_time": None}, RunStatus.RUNNING),
        ({"status": "interrupted"}, RunStatus.CANCELLED),
        ({"status": "success", "error": "no"}, RunStatus.ERROR),
        ({"status": None}, RunStatus.SUCCESS),
        ({"status": None, "error": "no"}, RunStatus.ERROR),
        ({"status": None, "end_time": None, "outputs": None}, RunStatus.RUNNING),
    ],
)
def test_a_run_ended_as_it_says_or_shows(more, expected):
    assert only([run("agent", **more)]).status is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ERROR, ("TimeoutError", "the gateway's late")),
        ('ValueError("a\\nb")\n\nTraceback (most recent call last):\n x', ("ValueError", "a\nb")),
        ("KeyError('x', 2)", ("KeyError", "'x', 2")),
        ("openai.RateLimitError: slow down", ("RateLimitError", "slow down")),
        ("it broke", ("Error", "it broke")),
        ({"type": "Boom", "message": "it broke"}, ("Boom", "it broke")),
    ],
)
def test_an_error_has_its_type_and_its_text(text, expected):
    error = call(outputs=None, error=text).error

    assert (error.type, error.message) == expected


def test_a_tool_message_that_says_error_is_an_error():
    failed = {"type": "tool", "content": "ValueError: no such order", "status": "error", "tool_call_id": "c"}

    error = call(outputs={"output": failed}).error

    assert (error.type, error.message) == ("ValueError", "no such order")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ({"input": '{"a": 1}'}, {"a": 1}),
        ({"input": "Paris"}, {"input": "Paris"}),
        ({"input": "[1]"}, {"input": "[1]"}),
        (None, {}),
    ],
)
def test_arguments_are_an_object_also_where_they_were_logged_as_text(inputs, expected):
    assert call(inputs=inputs, outputs={"output": 1}).arguments == expected


def test_arguments_that_were_logged_as_python_are_those_the_model_asked_for():
    runs = trace()
    runs[4]["inputs"] = {"input": "{'id': 'W1'}"}

    assert only(runs).tool_calls[0].arguments == {"id": "W1"}


def test_a_retriever_is_a_tool_that_finds_documents():
    found = call("retriever", inputs={"query": "q"}, outputs={"documents": [{"page_content": "x"}]})

    assert isinstance(found, ToolCall)
    assert (found.arguments, found.result) == ({"query": "q"}, [{"page_content": "x"}])


OPENAI = {
    "choices": [
        {
            "finish_reason": {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            },
        }
    ],
    "usage_metadata": {"input_tokens": 9, "output_tokens": 4},
}
ANTHROPIC = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hm"}, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 4},
}
BLOCKS = lc(
    "AI",
    [{"type": "text", "text": "Hm"}, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}],
    tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}],
    usage_metadata={"input_tokens": 9, "output_tokens": 4},
)


@pytest.mark.parametrize(
    ("outputs", "content", "reason"),
    [
        (OPENAI, None, "tool_calls"),
        (ANTHROPIC, "Hm", "tool_use"),
        ({"generations": [[{"message": BLOCKS, "generation_info": {"finish_reason": "stop"}}]]}, "Hm", "stop"),
        ({"output": BLOCKS}, "Hm", None),
    ],
    ids=["openai", "anthropic", "langchain", "message"],
)
def test_an_answer_is_the_same_whoever_wrote_it_down(outputs, content, reason):
    model = call("llm", inputs={"model": "m", "messages": [{"role": "user", "content": "x"}]}, outputs=outputs)

    assert isinstance(model, LlmCall)
    calls = [{"id": "c", "name": "f", "arguments": {"a": 1}}]
    assert model.result == {"role": "assistant", "content": content, "tool_calls": calls}
    assert (model.name, model.finish_reason) == ("m", reason)
    assert model.usage == Usage(input_tokens=9, output_tokens=4)
    assert model.arguments == {"messages": [{"role": "user", "content": "x"}]}


def test_an_answer_of_no_known_shape_is_kept_as_it_is():
    assert call("llm", outputs={"scores": [1, 2]}).result == {"scores": [1, 2]}


def test_tokens_that_langsmith_counted_come_first_and_zeros_do_not_hide_what_the_answer_says():
    counted = {
        "outputs": OPENAI,
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_cost": 0.5,
        "completion_cost": 1,
    }

    assert call("llm", **counted).usage == Usage(input_tokens=100, output_tokens=7, cost_usd=1.5)
    assert call("llm", outputs=OPENAI, prompt_tokens=0, completion_tokens=0).usage.input_tokens == 9


def test_what_happens_inside_a_tool_is_that_tools_business():
    root = run("agent")
    outer = run("research", "tool", at=1, above=root, outputs={"output": 1})
    chain = run("graph", at=2, above=outer)
    inner = run("search", "tool", at=3, above=chain, outputs={"output": 2}, extra={"metadata": {"langgraph_step": 1}})

    got = only([root, outer, chain, inner])

    assert [(event.name, event.parent, event.step) for event in got.events] == [
        ("research", None, None),
        ("search", 0, None),
    ]
    assert [one.name for one in got.tool_calls] == ["research"]


def test_a_model_call_that_two_layers_traced_is_counted_once():
    root = run("agent")
    model = run("ChatOpenAI", "llm", at=1, above=root, outputs=OPENAI)

    got = only([root, model, run("openai", "llm", at=2, above=model, outputs=OPENAI)])

    assert len(got.llm_calls) == 1
    assert isinstance(got.events[1], Note)


def test_an_error_is_told_where_it_began_and_only_there():
    root = run("agent", outputs={"output": "ok"})
    outer = run("outer", at=1, above=root, error="ValueError: no")
    inner = run("inner", "parser", at=2, above=outer, error="ValueError: no")

    got = only([root, outer, inner])

    assert [(type(e), e.error.message) for e in got.events] == [(ErrorEvent, "no")]
    assert (got.status, got.error) == (RunStatus.SUCCESS, None)


def test_other_sorts_of_runs_are_kept_as_notes_and_unknown_ones_are_named():
    root = run("agent")

    got = imported([root, run("e", "embedding", above=root), run("g", "guardrail", above=root, inputs={"a": 1})])

    assert [(event.name, event.content["name"]) for event in got.runs[0].events] == [
        ("embedding", "e"),
        ("guardrail", "g"),
    ]
    assert got.notes == ("run id-g: unknown run_type 'guardrail'; kept as a note",)


def test_a_root_may_be_a_call_itself():
    got = only([run("search", "tool", inputs={"q": 1}, outputs={"output": 2})])

    assert [(one.name, one.result) for one in got.tool_calls] == [("search", 2)]


def test_children_are_never_before_their_parent_whatever_the_clocks_say():
    root = run("agent", at=20)
    tool = run("outer", "tool", at=10, above=root, outputs={"output": 1})

    got = only([run("inner", "tool", at=5, above=tool, outputs={"output": 2}), tool, root])

    assert [(event.name, event.parent) for event in got.events] == [("outer", None), ("inner", 0)]


def test_a_run_finds_the_nearest_run_above_it_that_is_in_the_file():
    root = run("agent")
    tool = run("search", "tool", at=2, above=run("node", at=1, above=root), outputs={"output": 1})

    assert [one.name for one in only([root, tool]).tool_calls] == ["search"]
    alone = imported([tool])
    assert alone.notes == ("run id-search: the run it is a part of is not in the file",)
    assert [one.name for one in alone.runs[0].tool_calls] == ["search"]


def test_a_run_without_its_children_says_so():
    (note,) = imported([run("agent", outputs={"output": "I searched"})]).notes

    assert "no child runs are in the file" in note
    assert "load_child_runs=True" in note


@pytest.mark.parametrize(
    "more",
    [
        {"outputs": None},
        {"outputs": {}, "outputs_s3_urls": {"ROOT": {"presigned_url": "x"}}},
        {"outputs": None, "outputs_preview": "W1: 5…"},
    ],
)
def test_an_answer_that_the_file_does_not_hold_is_no_answer_and_is_named(more):
    root = run("agent")

    got = imported([root, run("search", "tool", above=root, **more)])

    assert not got.runs[0].tool_calls[0].answered
    assert got.notes == ("run id-search: the file holds no answer of 'search', so a replay cannot give it",)


def test_metadata_tags_and_unknown_fields_are_kept():
    root = run(
        "agent", extra={"metadata": {"revision_id": "f73", "user": 1}}, tags=["prod"], session_name="demo", mood=3
    )

    got = only([root, run("t", "tool", above=root, outputs={"output": 1}, colour="red")])

    assert (got.tags, got.agent_version) == (("prod",), "f73")
    assert got.metadata == {
        "revision_id": "f73",
        "user": 1,
        "langsmith": {"session_name": "demo"},
        "unmapped": {"id-agent": {"mood": 3}, "id-t": {"colour": "red"}},
    }


BAD: list[tuple[Any, str]] = [
    (5, "expected a run: an object with `id` and `run_type`, got a number"),
    ({**run("bad"), "id": 7}, "id: expected a text, got a number"),
    ({**run("bad"), "run_type": None}, "'run_type' is missing"),
    ({**run("bad"), "start_time": "soon"}, "start_time: expected an ISO time or epoch seconds, got 'soon'"),
    ({**run("bad"), "child_runs": 3}, "child_runs: expected a list, got a number"),
    ({**run("bad"), "parent_run_id": 3}, "parent_run_id: expected a text, got a number"),
    ({**run("bad"), "extra": []}, "extra: expected an object, got a list"),
    ({**run("bad"), "tags": [1]}, "tags: expected a list of texts"),
    ({**run("bad"), "status": "sucess"}, "status: unknown status 'sucess'; did you mean 'success'?"),
    ({**run("bad", "llm"), "total_cost": "a lot"}, "total_cost: expected an amount, got 'a lot'"),
    ({**run("bad", "llm"), "prompt_tokens": 1.5}, "prompt_tokens: expected a count"),
    ({**run("bad", "tool"), "name": None}, "'name' is missing"),
    ({**run("bad"), "child_runs": [{"id": "x", "run_type": 3}]}, "run_type: expected a text, got a number"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[message[:30] for _bad, message in BAD])
def test_a_run_that_cannot_be_read_is_named_with_its_line_and_the_others_are_imported(bad, message):
    good = run("good", "tool", outputs={"output": 1})
    text = json.dumps([good, bad, *trace()], indent=1).encode()

    got = imported(text)

    assert [one.id for one in got.runs] == ["id-good", "id-agent"]
    (note,) = got.remarks
    told, _, line = note.removeprefix("left out: runs.json:").partition(": ")[::-1]
    assert told.startswith(message.rstrip("?"))
    begins = len(json.dumps([good], indent=1).splitlines())
    ends = text[: text.index(b'"id-agent"')].count(b"\n")
    assert begins <= int(line) < ends or begins == int(line) == ends
    with pytest.raises(InvalidFile) as caught:
        imported([bad], "langsmith")
    assert caught.value.reason.startswith(message.rstrip("?"))


def test_a_trace_with_a_call_that_cannot_be_read_is_left_out_whole():
    runs = trace()
    runs[3]["start_time"] = {}

    got = imported([*runs, run("other", "tool", outputs={"output": 1})])

    assert [one.id for one in got.runs] == ["id-other"]
    assert "expected an ISO time" in got.remarks[0]


def test_the_line_of_a_wrong_value_is_that_of_the_part_it_stands_in():
    post = b'{"post": [\n{"id": "a", "run_type": "tool", "trace_id": "a",\n"name": "t"}]}'
    text = b"[" + post + b',\n{"patch": [{"id": "a",\n"extra": 5}]}]'

    with pytest.raises(InvalidFile) as caught:
        imported(text)

    assert (caught.value.line, caught.value.reason) == (5, "extra: expected an object, got a number")


def test_a_line_that_is_not_json_is_named_and_the_others_are_imported():
    good = [json.dumps(one).encode() for one in (run("a", "tool", outputs={"output": 1}), run("b", "tool", outputs={}))]

    got = imported(b"\n".join([b'{"id": "cut', good[0], b"", b"nonsense", good[1][:-9], good[1]]))

    assert [one.id for one in got.runs] == ["id-a", "id-b"]
    assert [note.partition(": not")[0] for note in got.remarks] == [f"left out: runs.json:{line}" for line in (1, 4, 5)]


def test_parents_that_form_a_circle_are_an_error():
    first, second = run("a"), run("b")
    first["parent_run_id"], second["parent_run_id"] = "id-b", "id-a"

    got = imported([first, second, run("c", "tool", outputs={"output": 1})])

    assert [one.id for one in got.runs] == ["id-c"]
    assert "its parents form a cycle" in got.remarks[0]


def test_of_many_bad_runs_all_are_named_by_line_or_by_path():
    got = imported([run("good", "tool", outputs={"output": 1}), *[{**run(str(n)), "extra": n} for n in range(1, 30)]])

    assert len(got.remarks) == 29
    assert "runs.json:" in got.remarks[0]
    assert got.remarks[-1] == "left out: runs.json: extra: expected an object, got a number (at $[29].extra)"
    many = imported([run("good", "tool", outputs={"output": 1}), *[1] * 500])
    assert (len(many.remarks), many.remarks[-1]) == (101, "left out: and 400 more")


def test_runs_are_found_however_deep_they_are():
    runs = [run("agent")]
    for depth in range(1, 20_000):
        runs.append({"id": f"n{depth}", "run_type": "chain", "parent_run_id": runs[-1]["id"], "name": "x"})
    runs.append(
        {"id": "t", "run_type": "tool", "parent_run_id": runs[-1]["id"], "name": "deep", "outputs": {"output": 1}}
    )

    assert [one.name for one in only(runs).tool_calls] == ["deep"]


@pytest.mark.parametrize("levels", [100, 230, 450, 5000, 100_000])
def test_runs_and_values_that_nest_too_deeply_are_imported_or_refused_in_words(levels):
    inside = b'{"id": "%d", "run_type": "tool", "trace_id": "a", "name": "t", "child_runs": ['
    text = b"".join(inside % number for number in range(levels)) + b"]}" * levels
    value = inside % 1 + b'], "inputs": ' + b"[" * levels + b"]" * levels + b"}"

    for hostile in (text, value):
        try:
            assert imported(hostile, "langsmith").runs
        except InvalidFile as error:
            assert re.search("deep|depth|recursion", error.reason)  # noqa: PT017 (either way is fine)


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"runs": []}', b"5", b"null", b'"run_type"', b""])
def test_a_file_without_runs_is_refused(text):
    with pytest.raises(InvalidFile):
        imported(text, "langsmith")


def test_traces_of_other_formats_are_not_taken_for_it():
    for value in ({"run_id": "r", "status": "success", "events": []}, {"run_type": "x"}, {"runs": [1]}, [[run("a")]]):
        source = Source(json.dumps(value).encode(), "t")
        try:
            assert import_source(source).format != "langsmith"
        except InvalidFile as error:
            assert "not a trace of a known format" in error.reason  # noqa: PT017 (either way is fine)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["tool", "llm", "id-a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "output", "messages", "type", "content", "kwargs", "generations"]), inner
        )
    ),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in members for place in _places(item, (*path, key)))]


SAMPLES = [
    trace(),
    nested(trace()),
    bodies(trace()),
    v2(trace()),
    [run("m", "llm", outputs=OPENAI), run("n", "llm", outputs=ANTHROPIC)],
]


@settings(max_examples=examples(300))
@given(st.data())
def test_runs_with_anything_anywhere_give_runs_or_an_error_of_ours(data):
    value = copy.deepcopy(data.draw(st.sampled_from(SAMPLES)))
    for _hit in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(_places(value)[1:]))
        held = value
        for key in above:
            held = held[key]
        held[last] = data.draw(ANYTHING)
    text = json.dumps(value).encode()

    for form in (text, lines(value) if isinstance(value, list) else text):
        try:
            got = imported(form, "langsmith")
        except ReplayKitError as error:
            assert str(error)  # noqa: PT017 (either way is fine, a crash is not)
        else:
            assert all([event.seq for event in one.events] == list(range(len(one.events))) for one in got.runs)


@settings(max_examples=examples(200))
@given(st.data())
def test_damaged_files_give_runs_or_an_error_of_ours(data):
    text = bytearray(data.draw(st.sampled_from([lines(trace()), json.dumps(bodies(trace())).encode()])))
    for _hit in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        text[start : start + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=4))

    try:
        imported(bytes(text), "langsmith")
    except ReplayKitError as error:
        assert str(error)  # noqa: PT017 (either way is fine, a crash is not)
