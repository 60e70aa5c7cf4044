"""LangSmith runs on lines of their own: read no further than somebody looks, and into the same runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.model.run import TraceRun

SYSTEM = {"type": "system", "content": "Be kind"}
TOOLS = [{"name": "get_order", "description": "Looks an order up"}]


def run(name: str, run_type: str = "llm", *, above: str = "", at: int = 0, **more: Any) -> dict[str, Any]:
    root = above or name
    stamp = f"20260215T1432{at:02}000000Z"
    return {
        "id": name,
        "name": name,
        "run_type": run_type,
        "trace_id": root,
        "dotted_order": f"20260215T143200000000Z{above}.{stamp}{name}" if above else stamp + name,
        **({"parent_run_id": above} if above else {}),
        "start_time": f"2026-02-15T14:32:{at:02}",
        "end_time": f"2026-02-15T14:32:{at:02}",
        "status": "success",
        **more,
    }


def said(*texts: str) -> list[Any]:
    return [{"type": "human", "content": text} for text in texts]


def found(*lines: bytes | dict[str, Any]) -> list[Found]:
    """What is read of a file of these lines."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return list(IMPORTERS.get("langsmith").read(Source(b"\n".join(texts) + b"\n", "f")))


def runs(*lines: bytes | dict[str, Any]) -> list[TraceRun]:
    read = found(*lines)
    assert all(isinstance(one, TraceRun) for one in read), read
    return [one for one in read if isinstance(one, TraceRun)]


def contents(read: TraceRun) -> list[list[str]]:
    """What each model of the run was asked."""
    return [[message["content"] for message in call.arguments["messages"]] for call in read.llm_calls]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab$").map("$".join), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGE = JSON | st.sampled_from([SYSTEM, *said("hi", "why?", "$"), ["human", "hi"], "human", {"$int": "0x1"}])
INPUTS = st.one_of(
    JSON,
    st.lists(MESSAGE, max_size=3).map(lambda messages: {"messages": messages}),
    st.lists(MESSAGE, max_size=4).map(lambda messages: {"messages": [messages], "model": "m"}),
    st.lists(st.lists(MESSAGE, max_size=2), max_size=2).map(lambda batches: {"messages": batches, "stream": True}),
    st.builds(lambda tools, more: {"messages": said("hi"), "tools": tools, "x": more}, JSON | st.just(TOOLS), JSON),
    st.dictionaries(st.sampled_from(["$int", "input", "é"]), JSON, max_size=1),
)
EXTRA = st.one_of(
    JSON,
    st.builds(
        lambda setting, held: {"invocation_params": setting, "metadata": held, "runtime": {}},
        JSON | st.sampled_from([{"model": "m", "tools": TOOLS}, {"tools": TOOLS, "top_p": 1}, {"tools": []}]),
        JSON | st.just({"langgraph_step": 2}),
    ),
)
RUN = st.fixed_dictionaries(
    {"run_type": st.sampled_from(["llm", "llm", "tool", "chain", "retriever", "embedding"])},
    optional={
        "inputs": INPUTS,
        "outputs": JSON | st.sampled_from([{"output": {"type": "ai", "content": "ok"}}, {"output": 1}]),
        "extra": EXTRA,
        "error": st.none() | st.text(max_size=3),
        "events": JSON,
        "tags": st.lists(st.text(max_size=2), max_size=2) | JSON,
        "never_seen": JSON,
    },
)


@given(st.lists(RUN, min_size=2, max_size=5), st.sampled_from([(",", ":"), (" , ", " : ")]), st.booleans())
def test_lines_become_what_one_document_becomes(
    given_runs: list[dict[str, Any]], separators: tuple[str, str], is_ascii: bool
) -> None:
    made = [run("root", "chain")]
    made += [run(f"r{number}", at=number, above="root") | one for number, one in enumerate(given_runs, 1)]
    lines = [json.dumps(one, separators=separators, ensure_ascii=is_ascii).encode() for one in made]
    whole = list(IMPORTERS.get("langsmith").read(Source(b"[" + b",".join(lines) + b"]", "f")))

    read = found(*lines)

    assert [one for one in read if not isinstance(one, InvalidFile)] == [
        one for one in whole if not isinstance(one, InvalidFile)
    ]
    assert len(read) == len(whole)


@pytest.mark.parametrize("wrap", [list, lambda messages: [messages]], ids=["a list", "a list in a list"])
def test_a_conversation_that_goes_on_is_told_as_long_as_it_is(wrap: Any) -> None:
    turns = [said("a"), said("a", "b"), said("a", "b", "c", "d"), said("a", "x"), said("a", "x"), said("a", "x", "y")]

    (read,) = runs(
        run("root", "chain"),
        *(run(f"m{n}", above="root", at=n, inputs={"messages": wrap(turn)}) for n, turn in enumerate(turns)),
    )

    assert contents(read) == [["a"], ["a", "b"], ["a", "b", "c", "d"], ["a", "x"], ["a", "x"], ["a", "x", "y"]]


def test_a_batch_that_begins_like_a_conversation_is_not_one() -> None:
    first, batch = {"messages": [said("a")]}, {"messages": [said("a", "b"), said("c")]}

    (read,) = runs(run("root", "chain"), run("m1", above="root", inputs=first), run("m2", above="root", inputs=batch))

    assert read.llm_calls[1].arguments["messages"] == batch["messages"]


def test_each_model_has_the_tools_that_were_offered_to_it() -> None:
    offers = [TOOLS, [*TOOLS, {"name": "refund"}], TOOLS, [], TOOLS]
    settings = [{"invocation_params": {"model": "gpt", "tools": tools, "top_p": 1}} for tools in offers]
    asked = {"messages": said("hi")}

    (read,) = runs(
        run("root", "chain"),
        *(run(f"m{n}", above="root", at=n, inputs=asked, extra=extra) for n, extra in enumerate(settings)),
    )

    assert [call.arguments.get("tools", []) for call in read.llm_calls] == offers
    assert all(call.name == "gpt" and call.arguments["parameters"] == {"top_p": 1} for call in read.llm_calls)


def test_a_patch_on_a_later_line_takes_nothing_away() -> None:
    first = run("root", "tool", inputs={"q": 1}, extra={"metadata": {"revision_id": "4f0c"}})
    patch = b'{"id":"root","trace_id":"root","inputs": { },"outputs":{"output":7},"extra":{"runtime":{}}}'

    (read,) = runs(first, patch)

    (call,) = read.tool_calls
    assert (call.arguments, call.result, read.agent_version) == ({"q": 1}, 7, "4f0c")


def test_what_cannot_be_read_is_told_only_where_somebody_looks() -> None:
    huge = [run("inner", "chain", above="root", inputs={"n": "huge"}), run("bad", "tool", inputs={"n": "huge"})]

    root, problem, other = found(
        run("root", "chain", inputs={}, outputs={"output": "ok"}),
        *(json.dumps(one).encode().replace(b'"huge"', b"1e999") for one in huge),
        run("other", "tool", inputs={}, outputs={"output": 1}),
    )

    assert isinstance(root, TraceRun)
    assert root.output == "ok"
    assert isinstance(problem, InvalidFile)
    assert (problem.line, "inputs: not JSON: Number out of range" in str(problem)) == (3, True)
    assert isinstance(other, TraceRun)


def test_half_of_a_character_on_a_line_costs_nothing_else() -> None:
    half = run("root", "tool", inputs={"q": "half \ud83d", "n": 1}, outputs={"output": 7})

    read, _other = runs(half, run("other", "tool", inputs={}, outputs={"output": 1}))

    (call,) = read.tool_calls
    assert (call.arguments, call.result) == ({"q": "half \ufffd", "n": 1}, 7)


def test_a_line_with_a_wrong_byte_is_left_out_wherever_it_stands() -> None:
    wrong = json.dumps(run("inner", "chain", above="root", inputs={"q": "?"})).encode().replace(b'"?"', b'"\xff"')

    problem, read = found(run("root", "chain", inputs={"q": "x" * 100_000}, outputs={"output": "ok"}), wrong)[:2]

    assert isinstance(problem, InvalidFile)
    assert problem.line == 2
    assert isinstance(read, TraceRun)


@pytest.mark.parametrize("more", [{}, {"prompt": "hi"}])
def test_inputs_that_look_like_a_value_of_our_own_stay_what_they_are(more: dict[str, Any]) -> None:
    (read,) = runs(run("root", "chain"), run("m", above="root", inputs={"$int": "0x10", "model": "m", **more}))

    assert read.llm_calls[0].arguments == {"$int": "0x10", **more}
