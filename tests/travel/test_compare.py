"""Compare: where two runs part, and that nothing else counts."""

from __future__ import annotations

import asyncio
import functools
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples, sampled

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.events import (
    AnyEvent,
    Change,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    Note,
    State,
    ToolCall,
    Usage,
)
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.sampling import Sampling, StateLog
from replaykit.model.values import Json, Raw, canonical, raw
from replaykit.travel.compare import compare
from replaykit.travel.compare_events import request_key
from replaykit.travel.compare_result import Comparison, DivergenceKind, EntryKind

LONG = 10_000


def tool(name: str, result: Json = "ok", *, error: ErrorInfo | None = None, **arguments: Json) -> ToolCall:
    result_json = raw(result) if error is None else Raw(b"")
    return ToolCall(seq=0, name=name, arguments_json=Raw(canonical(arguments)), result_json=result_json, error=error)


def model(answer: Json, prompt: str = "hi", *, name: str = "gpt", usage: Usage | None = None) -> LlmCall:
    return LlmCall(
        seq=0, name=name, arguments_json=Raw(canonical({"prompt": prompt})), result_json=raw(answer), usage=usage
    )


def states(*values: Json) -> list[State]:
    fold, made = StateFold(), []
    for value in values:
        whole, change = fold.advance(value)
        made.append(State(seq=0, state_json=whole, change=change))
    return made


NOT_KEPT = State(seq=0)


def in_step(step: str, *events: Any) -> list[Any]:
    return [changed(event, step=step) for event in events]


def run(*events: AnyEvent, input: Json = "why?", output: Json = "so", id: str = "r", **header: Any) -> TraceRun:
    numbered = tuple(msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events))
    header = {"status": RunStatus.SUCCESS, **header}
    return TraceRun(id=id, input_json=raw(input), output_json=raw(output), events=numbered, **header)


def changed(event: AnyEvent, **fields: Any) -> Any:
    return msgspec.structs.replace(event, **fields)


def shape(comparison: Comparison) -> list[tuple[str, int | None, int | None]]:
    return [(entry.kind.value, entry.a_seq, entry.b_seq) for entry in comparison.entries]


def first(a: TraceRun, b: TraceRun) -> Any:
    found = compare(a, b)
    assert not found.identical
    assert found.first is not None
    return found.first


SEARCH, LOOKUP, REFUND = tool("search", ["doc"], q="refund"), tool("lookup", user=1), tool("refund", order=7)


# What makes runs part, one test for each kind


def test_another_input_comes_first_of_all() -> None:
    found = first(run(SEARCH, input={"q": 1}), run(LOOKUP, input={"q": 2}, output="else"))

    assert (found.kind, found.text, found.a_seq, found.b_seq) == (DivergenceKind.INPUT, "input", None, None)
    assert [str(difference) for difference in found.differences] == ["changed   $.q: 1 → 2"]


def test_another_question_to_a_model_is_an_input() -> None:
    found = first(run(SEARCH, model("yes", "a")), run(SEARCH, model("yes", "b")))

    assert (found.kind, found.text, found.a_seq, found.b_seq) == (DivergenceKind.INPUT, "input of gpt", 1, 1)
    assert found.differences[0].path == "$.prompt"


def test_another_answer_of_a_model() -> None:
    found = first(run(model({"text": "yes"}), SEARCH), run(model({"text": "no"}), SEARCH))

    assert (found.kind, found.text, found.b_seq) == (DivergenceKind.MODEL_ANSWER, "answer of gpt", 0)
    assert found.differences[0].path == "$.result.text"
    assert found.a_text == "gpt(prompt='hi') → {'text': 'yes'}"


def test_another_finish_reason_is_another_answer() -> None:
    stopped, cut = changed(model("yes"), finish_reason="stop"), changed(model("yes"), finish_reason="length")

    assert first(run(stopped), run(cut)).kind is DivergenceKind.MODEL_ANSWER
    assert compare(run(stopped), run(model("yes"))).identical  # a log that does not say is not different


def test_other_arguments_of_a_tool() -> None:
    found = first(run(LOOKUP, SEARCH), run(LOOKUP, tool("search", ["doc"], q="invoice", limit=3)))

    assert (found.kind, found.text, found.a_step, found.b_step) == (
        DivergenceKind.TOOL_ARGUMENTS,
        "arguments of search",
        "step_2",
        "step_2",
    )
    assert {difference.path for difference in found.differences} == {"$.q", "$.limit"}


def test_another_result_of_a_tool() -> None:
    found = first(run(LOOKUP, SEARCH), run(LOOKUP, changed(SEARCH, result_json=raw([]))))

    assert (found.kind, found.text, found.name) == (DivergenceKind.TOOL_RESULT, "tool result of search", "search")
    assert [(d.kind, d.path) for d in found.differences] == [("removed", "$.result[0]")]


def test_an_error_in_place_of_a_result_is_another_result() -> None:
    failed = tool("search", q="refund", error=ErrorInfo(type="TimeoutError", message="5 s"))
    found = first(run(SEARCH), run(failed))

    assert (found.kind, found.b_text) == (DivergenceKind.TOOL_RESULT, "search(q='refund') → TimeoutError: 5 s")
    assert [(d.kind, d.path) for d in found.differences] == [("removed", "$.result"), ("added", "$.error")]


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (ErrorInfo(type="E", message="a"), ErrorInfo(type="E", message="b"), "$.error.message"),
        (ErrorInfo(type="E"), ErrorInfo(type="F"), "$.error.type"),
        (
            ErrorInfo(type="E", attributes_json=raw({"code": 1})),
            ErrorInfo(type="E", attributes_json=raw({"code": 2})),
            "$.error.attributes.code",
        ),
    ],
)
def test_errors_differ_in_what_both_logs_hold_of_them(one: ErrorInfo, other: ErrorInfo, path: str) -> None:
    found = first(run(tool("t", error=one)), run(tool("t", error=other)))

    assert [difference.path for difference in found.differences] == [path]


def test_other_items_of_a_stream_are_another_result() -> None:
    stream = ToolCall(seq=0, name="tail", items_json=(raw(1), raw(2)))
    left_early = changed(stream, complete=False)

    assert first(run(stream), run(changed(stream, items_json=(raw(1), raw(3))))).differences[0].path == "$.items[1]"
    assert first(run(stream), run(left_early)).differences[0].path == "$.complete"


def test_the_same_calls_in_another_order() -> None:
    found = compare(run(SEARCH, LOOKUP, REFUND), run(LOOKUP, REFUND, SEARCH))

    assert found.first is not None
    assert (found.first.kind, found.first.name, found.first.a_seq, found.first.b_seq) == (
        DivergenceKind.ORDER,
        "search",
        0,
        2,
    )
    assert shape(found) == [("same", 1, 0), ("same", 2, 1), ("moved", 0, 2)]


def test_a_moved_call_counts_where_it_is_missing_or_comes_too_early_whichever_is_first() -> None:
    other = changed(LOOKUP, result_json=raw("else"))

    assert first(run(SEARCH, LOOKUP, REFUND), run(other, REFUND, SEARCH)).kind is DivergenceKind.ORDER
    assert first(run(LOOKUP, REFUND, SEARCH), run(SEARCH, other, REFUND)).kind is DivergenceKind.ORDER
    assert first(run(LOOKUP, SEARCH, REFUND), run(other, REFUND, SEARCH)).kind is DivergenceKind.TOOL_RESULT


def test_a_call_more() -> None:
    found = compare(run(SEARCH, REFUND), run(SEARCH, LOOKUP, REFUND))

    assert found.first is not None
    assert (found.first.kind, found.first.text, found.first.a_seq, found.first.b_seq) == (
        DivergenceKind.EXTRA,
        "extra call of lookup",
        None,
        1,
    )
    assert shape(found) == [("same", 0, 0), ("inserted", None, 1), ("same", 1, 2)]


def test_a_call_less() -> None:
    found = compare(run(SEARCH, LOOKUP, REFUND), run(SEARCH, REFUND))

    assert found.first is not None
    assert (found.first.kind, found.first.text, found.first.a_seq, found.first.b_seq) == (
        DivergenceKind.MISSING,
        "missing call of lookup",
        1,
        None,
    )
    assert shape(found) == [("same", 0, 0), ("deleted", 1, None), ("same", 2, 1)]


def test_another_tool_in_place_of_one_is_named() -> None:
    found = first(run(SEARCH, LOOKUP), run(SEARCH, REFUND))

    assert (found.kind, found.text) == (DivergenceKind.MISSING, "missing call of lookup, refund instead")
    assert (found.a_text, found.b_text) == ("lookup(user=1) → 'ok'", "refund(order=7) → 'ok'")


def test_another_state() -> None:
    one, other = states({"n": 1}, {"n": 2}), states({"n": 1}, {"n": 3})
    found = compare(run(SEARCH, one[0], LOOKUP, one[1]), run(SEARCH, other[0], LOOKUP, other[1]))

    assert found.first is not None
    assert (found.first.kind, found.first.event, found.first.b_seq, found.first.b_step) == (
        DivergenceKind.STATE,
        "state",
        3,
        "step_2",
    )
    assert [(s.a_seq, s.b_seq, [str(d) for d in s.differences]) for s in found.states] == [
        (3, 3, ["changed   $.n: 2 → 3"])
    ]


def test_a_state_that_only_one_run_kept_is_compared_with_the_one_that_holds_in_the_other() -> None:
    kept = states({"n": 1, "m": 0}, {"n": 2, "m": 0})
    found = compare(run(SEARCH, kept[0], LOOKUP, REFUND), run(SEARCH, kept[0], LOOKUP, kept[1], REFUND))

    assert found.first is not None
    assert (found.first.kind, found.first.text, found.first.a_seq, found.first.b_seq) == (
        DivergenceKind.STATE,
        "state ($.n)",
        1,
        3,
    )
    assert (found.first.a_step, found.first.b_step) == ("step_2", "step_2")
    assert [str(d) for d in found.first.differences] == ["changed   $.n: 1 → 2"]
    equal = [kept[0], changed(kept[0], state_json=Raw(b""), change=Change())]
    assert compare(run(SEARCH, kept[0], LOOKUP), run(SEARCH, equal[0], LOOKUP, equal[1])).identical


def test_of_several_states_in_a_step_the_last_one_counts() -> None:
    one, other = states({"n": 1}, {"n": 2}), states({"n": 2})

    assert compare(run(SEARCH, *one, LOOKUP), run(SEARCH, *other, LOOKUP)).identical
    assert compare(run(*in_step("a", *one)), run(*in_step("a", *other))).identical


def test_a_state_that_was_changed_after_its_step_parts_there_and_not_at_what_is_missing_later() -> None:
    kept, more = states({"n": 1, "max": 5}, {"n": 2, "max": 5}), states({"n": 1, "max": 2})
    a = run(*in_step("step_1", SEARCH, kept[0]), *in_step("step_2", SEARCH, kept[1]))
    b = run(*in_step("step_1", SEARCH, kept[0], *more))

    found = compare(a, b)

    assert found.first is not None
    assert (found.first.kind, found.first.b_step, found.first.text) == (DivergenceKind.STATE, "step_1", "state ($.max)")
    assert found.counts[EntryKind.DELETED] == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_a_call_more_before_a_state_comes_before_what_the_state_makes_of_it(swapped: bool) -> None:
    one, other = states({"n": 1}, {"n": 2}), states({"n": 1}, {"n": 3})
    a, b = run(SEARCH, one[0], LOOKUP, one[1]), run(SEARCH, other[0], LOOKUP, REFUND, other[1])
    found = compare(b, a) if swapped else compare(a, b)

    assert found.first is not None
    assert found.first.text == ("missing" if swapped else "extra") + " call of refund"
    assert [{str(d) for d in entry.differences} for entry in found.states] == [
        {"changed   $.n: 3 → 2" if swapped else "changed   $.n: 2 → 3"}
    ]


def test_a_state_after_a_call_that_only_one_run_made_is_compared_before_the_next_they_share() -> None:
    kept, other = states({"n": 1}, {"n": 2}), states({"n": 1})

    found = compare(run(SEARCH, kept[0], LOOKUP, kept[1], REFUND), run(SEARCH, other[0], REFUND))

    assert found.first is not None
    assert found.first.text == "missing call of lookup"
    assert [(entry.a_seq, entry.b_seq) for entry in found.states] == [(3, 1)]


def test_a_state_that_was_not_kept_is_compared_with_nothing() -> None:
    kept = states({"n": 1}, {"n": 2}, {"n": 3})
    whole = State(seq=0, state_json=raw({"n": 3}))
    sampled = run(SEARCH, kept[0], LOOKUP, NOT_KEPT, REFUND, whole)

    found = compare(run(SEARCH, kept[0], LOOKUP, kept[1], REFUND, kept[2]), sampled)
    other = compare(run(SEARCH, kept[0], LOOKUP, kept[1], REFUND, *states({"n": 4})), sampled)

    assert (found.identical, found.unknown_states) == (True, 1)
    assert compare(sampled, sampled).unknown_states == 1
    assert (other.unknown_states, [(entry.b_seq, entry.b_step) for entry in other.states]) == (1, [(5, "step_3")])


@pytest.mark.parametrize(
    ("header", "text", "path"),
    [
        ({"output": "else"}, "outcome (output)", "$.output"),
        ({"status": RunStatus.TIMEOUT}, "outcome (status)", "$.status"),
        ({"error": ErrorInfo(type="E", message="m")}, "outcome (error)", "$.error"),
    ],
)
def test_another_outcome_comes_last(header: dict[str, Any], text: str, path: str) -> None:
    found = first(run(SEARCH), run(SEARCH, **header))

    assert (found.kind, found.text, found.b_seq) == (DivergenceKind.OUTCOME, text, None)
    assert found.differences[0].path == path
    assert first(run(SEARCH), run(LOOKUP, **header)).kind is DivergenceKind.MISSING


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (Message(seq=0, role="user", content_json=raw("a")), raw("b"), DivergenceKind.INPUT),
        (Message(seq=0, role="assistant", content_json=raw("a")), raw("b"), DivergenceKind.MODEL_ANSWER),
        (Message(seq=0, role="tool", content_json=raw("a")), raw("b"), DivergenceKind.TOOL_RESULT),
        (Decision(seq=0, content_json=raw("search")), raw("refund"), DivergenceKind.MODEL_ANSWER),
    ],
)
def test_what_is_said_and_decided_counts(one: Any, other: Raw, kind: DivergenceKind) -> None:
    assert first(run(SEARCH, one), run(SEARCH, changed(one, content_json=other))).kind is kind
    assert first(run(SEARCH, one), run(SEARCH)).kind is DivergenceKind.MISSING


def test_an_error_outside_of_calls_counts_as_outcome() -> None:
    one, other = (ErrorEvent(seq=0, error=ErrorInfo(type="E", message=text)) for text in "ab")

    assert first(run(one), run(other)).kind is DivergenceKind.OUTCOME


# What does not


def test_two_runs_without_events_are_identical() -> None:
    assert compare(run(), run()).identical


def test_ids_numbers_times_tracebacks_names_notes_and_what_it_took_never_count() -> None:
    error = ErrorInfo(type="E", message="m", traceback="line 1")
    a = run(model("yes", usage=Usage(input_tokens=1)), tool("t", error=error), error=error, id="a", name="x")
    later = [changed(e, seq=e.seq * 7 + 3, at=9.0, duration_s=5.0) for e in a.events]
    moved_on = changed(error, traceback="line 2")
    b = changed(
        a,
        id="b",
        name="y",
        started_at=5.0,
        ended_at=7.0,
        tags=("t",),
        metadata_json=raw({"k": 1}),
        error=moved_on,
        events=(
            changed(later[0], usage=Usage(input_tokens=2, cost_usd=0.5)),
            Note(seq=4, name="latency", content_json=raw(0.25)),
            changed(later[1], error=moved_on),
        ),
    )

    assert compare(a, b).first is None
    assert compare(a, b).identical


def test_the_order_of_keys_in_a_result_or_an_input_does_not_count() -> None:
    one, other = raw({"a": 1, "b": 2}), raw({"b": 2, "a": 1})

    a = run(changed(SEARCH, result_json=one), input={"x": 1, "y": 2}, output={"x": 1, "y": 2})
    b = run(changed(SEARCH, result_json=other), input={"y": 2, "x": 1}, output={"y": 2, "x": 1})

    assert compare(a, b).identical


def test_values_that_json_cannot_say_are_compared_and_written() -> None:
    odd = {"nan": float("nan"), "set": {1, 2}, "when": (1, b"x"), "n": 1}
    a, b = run(tool("t", odd)), run(tool("t", {**odd, "n": 2}))

    assert compare(a, run(tool("t", odd))).identical
    assert [d.path for d in first(a, b).differences] == ["$.result.n"]
    assert msgspec.json.decode(msgspec.json.encode(compare(a, b)))["identical"] is False


def test_states_are_not_compared_with_a_run_that_keeps_none() -> None:
    assert compare(run(SEARCH, *states({"n": 1})), run(SEARCH)).identical


def test_changes_that_are_written_alike_may_lead_to_other_states() -> None:
    one = states({"n": 0, "m": 0}, {"n": 1, "m": 0})
    other = states({"n": 0, "m": 9}, {"n": 1, "m": 9})

    assert one[1].change == other[1].change
    assert [(s.a_seq, s.b_seq) for s in compare(run(*one), run(*other)).states] == [(0, 0), (1, 1)]


def test_a_state_that_only_one_run_kept_may_matter_later() -> None:
    one = states({"n": 0, "m": 0}, {"n": 0, "m": 9}, {"n": 1, "m": 9})
    other = states({"n": 0, "m": 0}, {"n": 1, "m": 0})
    a = run(SEARCH, one[0], LOOKUP, one[1], REFUND, one[2])

    assert one[2].change == other[1].change
    found = compare(a, run(SEARCH, other[0], LOOKUP, REFUND, other[1]))
    assert [(s.a_seq, s.b_seq, s.differences[0].path) for s in found.states] == [(3, 1, "$.m"), (5, 4, "$.m")]


def test_states_are_equal_however_they_were_written() -> None:
    whole = [State(seq=0, state_json=raw({"n": n, "m": [1]})) for n in range(3)]
    changes = states(*({"n": n, "m": [1]} for n in range(3)))

    assert changes[1].change is not None
    assert compare(run(*whole), run(*changes)).identical


def test_how_a_scheduler_took_turns_between_tasks_does_not_count() -> None:
    def lane(task: int) -> list[ToolCall]:
        return [changed(tool("fetch", page, task=task, page=page), path=f"/~worker#{task}") for page in range(3)]

    one, two = lane(0), lane(1)
    a, b = run(SEARCH, *one, *two), run(SEARCH, two[0], one[0], one[1], two[1], two[2], one[2])

    assert compare(a, b).identical
    assert first(a, run(SEARCH, one[1], one[0], one[2], *two)).kind is DivergenceKind.ORDER


def test_work_that_another_worker_took_from_a_queue_does_not_count() -> None:
    items = [tool("fetch", item=item) for item in range(4)]

    def taken_by(*workers: int, last: ToolCall = SEARCH) -> TraceRun:
        return run(*(changed(item, path=f"/~w#{w}") for item, w in zip(items, workers, strict=True)), last)

    assert compare(taken_by(0, 1, 0, 1), taken_by(0, 0, 1, 1)).identical
    assert compare(taken_by(0, 1, 0, 1), taken_by(0, 0, 1, 1, last=REFUND)).counts[EntryKind.SAME] == 4


def test_recorded_runs_of_a_parallel_agent_are_identical(store: rk.Store) -> None:
    @rk.tool
    async def fetch(page: int, turn: int) -> int:
        for _ in range(turns[page]):
            await asyncio.sleep(0)
        return page

    async def worker(page: int) -> None:
        for turn in range(3):
            await fetch(page, turn)

    async def agent() -> None:
        await asyncio.gather(*map(worker, range(4)))

    ids, turns = [], [0] * 4
    for waits in ([1, 9, 2, 7], [8, 1, 6, 2]):
        turns[:] = waits
        with rk.record("parallel", store=store) as recorded:
            asyncio.run(agent())
        ids.append(recorded.id)
    a, b = map(store.load, ids)

    assert [call.arguments for call in a.calls] != [call.arguments for call in b.calls]
    assert compare(a, b).identical


# Alignment


def test_a_poll_more_is_one_insertion_and_the_last_answer_stays_with_its_poll() -> None:
    pending, done = tool("poll", "pending"), tool("poll", "done")

    found = compare(run(pending, pending, done), run(pending, pending, pending, pending, done))

    assert shape(found)[-1] == ("same", 2, 4)
    assert found.counts[EntryKind.INSERTED] == 2
    assert found.counts[EntryKind.CHANGED] == 0


def test_swapped_results_are_two_changes_not_two_moves() -> None:
    one, two = tool("f", 1), tool("f", 2)

    assert compare(run(one, SEARCH, two), run(two, SEARCH, one)).counts[EntryKind.CHANGED] == 2


def test_a_call_that_is_elsewhere_was_moved_and_is_not_taken_for_a_changed_one() -> None:
    queries = [tool("search", q=n) for n in range(4)]

    found = compare(run(*queries), run(queries[3], *queries[:3]))

    assert shape(found) == [("moved", 3, 0), ("same", 0, 1), ("same", 1, 2), ("same", 2, 3)]


def test_another_model_is_a_change_of_the_same_call() -> None:
    found = compare(run(model("yes"), SEARCH), run(model("yes", name="claude"), SEARCH))

    assert shape(found)[0] == ("changed", 0, 0)
    assert str(found.entries[0].arguments[0]) == "changed   name: 'gpt' → 'claude'"


def test_of_two_models_each_goes_to_itself() -> None:
    found = compare(run(model("a", "1", name="big"), model("b", "2", name="small")), run(model("b", "3", name="small")))

    assert shape(found) == [("deleted", 0, None), ("changed", 1, 0)]


def test_an_inner_call_explains_the_result_of_the_call_around_it() -> None:
    def nested(found: Json) -> TraceRun:
        return run(tool("outer", found), changed(tool("inner", found), parent=0), REFUND)

    assert first(nested(1), nested(2)).text == "tool result of inner"


def test_a_missing_inner_call_explains_the_result_of_the_call_around_it() -> None:
    a = run(tool("outer", 1), changed(tool("inner"), parent=0), REFUND)
    b = run(tool("outer", 2), REFUND)

    assert first(a, b).text == "missing call of inner"
    assert first(run(tool("outer", 1), LOOKUP), run(tool("outer", 2))).text == "tool result of outer"


def test_steps_are_those_that_the_agent_marked() -> None:
    def stepped(query: str) -> TraceRun:
        return run(changed(LOOKUP, step="plan"), changed(tool("search", q=query), step="act"), SEARCH)

    assert first(stepped("a"), stepped("b")).b_step == "act"
    assert first(run(changed(LOOKUP, step="plan")), run(changed(LOOKUP, step="plan"), SEARCH)).b_step is None


def test_a_state_that_was_kept_outside_of_steps_belongs_to_the_step_before() -> None:
    def stepped(value: int) -> TraceRun:
        return run(changed(LOOKUP, step="plan"), SEARCH, *states({"n": value}), changed(REFUND, step="act"))

    assert first(stepped(1), stepped(2)).b_step == "plan"


def test_the_state_after_a_fork_is_compared_step_by_step() -> None:
    a = states({"n": 0}, {"n": 1}, {"n": 2})
    b = [*a[:2], *states({"n": 5})]  # a fork writes its first state in full

    found = compare(run(SEARCH, a[0], LOOKUP, a[1], REFUND, a[2]), run(SEARCH, b[0], LOOKUP, b[1], REFUND, b[2]))

    assert [(entry.a_step, entry.b_step) for entry in found.states] == [("step_3", "step_3")]


def test_steps_that_changed_places_are_compared_alike_from_both_sides() -> None:
    one, other = states({"n": 1}, {"n": 2}), states({"n": 3}, {"n": 4})
    a = run(*in_step("x", one[0]), *in_step("y", one[1]))
    b = run(*in_step("y", other[0]), *in_step("x", other[1]))

    there, back = ([(s.a_seq, s.b_seq) for s in compare(*runs).states] for runs in ((a, b), (b, a)))

    assert there == [(j, i) for i, j in back]


def test_only_so_many_states_are_told() -> None:
    a, b = states(*({"n": n} for n in range(300))), states(*({"n": -n - 1} for n in range(300)))

    assert len(compare(run(*a), run(*b)).states) == 100


def test_the_states_of_a_parallel_agent_are_compared_whichever_task_came_first() -> None:
    def rounds(order: tuple[int, int], last: Json) -> TraceRun:
        calls = [[changed(tool("fetch", n=n, w=w), path=f"/~w#{w}") for w in order] for n in range(2)]
        kept = states({"n": 1}, last)
        return run(*calls[0], kept[0], *calls[1], kept[1])

    def staggered(order: tuple[int, int], answer: str, last: Json) -> TraceRun:
        """A state after each call of one task, while another is at work."""
        calls = [changed(tool("fetch", answer, w=w), path=f"/~w#{w}") for w in range(2)]
        kept = states({"n": 0}, last)
        after = {0: [calls[0], kept[1]], 1: [calls[1]]}
        return run(kept[0], *after[order[0]], *after[order[1]])

    one, other = staggered((0, 1), "a", {"n": 1}), staggered((1, 0), "b", {"n": 2})
    assert compare(one, staggered((1, 0), "a", {"n": 1})).identical
    assert first(one, other).kind is DivergenceKind.TOOL_RESULT, "the state is another because of it"
    assert len(compare(one, other).states) == 1
    assert compare(rounds((0, 1), {"n": 2}), rounds((1, 0), {"n": 2})).identical
    found = compare(rounds((0, 1), {"n": 2}), rounds((1, 0), {"n": 3}))
    assert [(entry.a_seq, entry.b_seq) for entry in found.states] == [(5, 5)]
    assert found.first is not None
    assert found.first.kind is DivergenceKind.STATE


def test_a_state_that_does_not_follow_from_the_one_before_is_named() -> None:
    lost = states({"n": 1}, {"n": 2})[1]

    with pytest.raises(UsageError, match="run r: the state at event 0 does not follow"):
        compare(run(lost), run(lost))


# The rest of a comparison


def test_tools_are_counted_and_both_sequences_told_as_one() -> None:
    tools = compare(run(SEARCH, SEARCH, LOOKUP), run(SEARCH, tool("search", q="x"), REFUND)).tools

    assert (tools.a, tools.b) == (("search", "search", "lookup"), ("search", "search", "refund"))
    assert [(count.name, count.a, count.b) for count in tools.counts] == [
        ("search", 2, 2),
        ("lookup", 1, 0),
        ("refund", 0, 1),
    ]
    assert [(stretch.kind, stretch.name, stretch.count) for stretch in tools.unified] == [
        ("same", "search", 2),
        ("deleted", "lookup", 1),
        ("inserted", "refund", 1),
    ]


def test_tools_inside_tools_are_not_the_agents() -> None:
    nested = run(SEARCH, changed(LOOKUP, parent=0))

    assert compare(nested, nested).tools.b == ("search",)


def test_what_the_runs_took_is_summed_up_where_the_logs_say_it() -> None:
    cheap = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)
    a = run(model("x", usage=cheap), model("y", "2"), SEARCH, started_at=1.0, ended_at=3.0)
    b = run(model("x", usage=cheap), model("y", "2", usage=cheap), started_at=1.0, ended_at=2.5)

    usage = compare(a, b).usage

    assert (usage.a.llm_calls, usage.a.tool_calls, usage.a.tokens, usage.a.cost_usd, usage.a.duration_s) == (
        2,
        1,
        15,
        0.25,
        2.0,
    )
    assert (usage.difference.tokens, usage.difference.cost_usd, usage.difference.duration_s) == (15, 0.25, -0.5)
    assert compare(run(SEARCH), a).usage.difference.tokens is None


def test_outcomes_stand_beside_each_other() -> None:
    failed = run(status=RunStatus.ERROR, error=ErrorInfo(type="E", message="m"), output=None)

    outcome = compare(run(output={"x": 1}), failed).outcome

    assert (outcome.a.status, outcome.a.output, outcome.a.error) == (RunStatus.SUCCESS, {"x": 1}, None)
    assert (outcome.b.status, outcome.b.output, outcome.b.error) == (RunStatus.ERROR, None, "E: m")
    assert not outcome.equal


# Laws


NAMES = st.sampled_from(["search", "lookup", "refund"])
EVENT = st.one_of(
    st.builds(lambda name, q, result: tool(name, result, q=q), NAMES, st.integers(0, 3), st.integers(0, 2)),
    st.builds(lambda answer, prompt: model(answer, prompt), st.integers(0, 1), st.sampled_from("ab")),
    st.builds(lambda text: Message(seq=0, role="user", content_json=raw(text)), st.integers(0, 1)),
    st.builds(lambda n: State(seq=0, state_json=raw({"n": n})), st.integers(0, 1)),
    st.builds(lambda n, s: State(seq=0, state_json=raw({"n": n}), step=s), st.integers(0, 2), st.sampled_from("st")),
    st.just(State(seq=0)),
    st.just(Decision(seq=0, content_json=raw("go"))),
    st.builds(lambda text: ErrorEvent(seq=0, error=ErrorInfo(type="E", message=text)), st.sampled_from("ab")),
)
PATHS = st.sampled_from(["", "", "/~w#0", "/~w#1"])
PLACED = st.builds(lambda event, path: changed(event, path=path), EVENT, PATHS)


def runs_of(events: st.SearchStrategy[list[AnyEvent]]) -> st.SearchStrategy[TraceRun]:
    header = st.sampled_from([0, 0, 0, 1])
    return st.builds(lambda chosen, given, output: run(*chosen, input=given, output=output), events, header, header)


RUN = runs_of(st.lists(PLACED, max_size=12))
TWO_RUNS = st.tuples(RUN, RUN) | st.lists(PLACED, min_size=2, max_size=8).flatmap(  # or two that have much in common
    lambda events: st.tuples(
        runs_of(st.permutations(events)), runs_of(st.lists(st.sampled_from(events), min_size=2, max_size=12))
    )
)


@given(RUN)
def test_a_run_is_identical_to_itself(one: TraceRun) -> None:
    found = compare(one, one)

    assert found.identical
    assert found.first is None
    assert found.states == ()
    assert found.outcome.equal
    assert {entry.kind for entry in found.entries} <= {EntryKind.SAME}
    assert not any(entry.arguments or entry.outcome for entry in found.entries)


@settings(max_examples=examples(200))
@given(TWO_RUNS)
def test_comparing_the_other_way_round_mirrors_everything(runs: tuple[TraceRun, TraceRun]) -> None:
    a, b = runs
    there, back = compare(a, b), compare(b, a)

    mirrored = {"inserted": "deleted", "deleted": "inserted"}
    assert sorted(map(str, shape(there))) == sorted(
        str((mirrored.get(kind, kind), b_seq, a_seq)) for kind, a_seq, b_seq in shape(back)
    )
    assert there.identical == back.identical
    assert {(s.a_seq, s.b_seq) for s in there.states} == {(s.b_seq, s.a_seq) for s in back.states}
    assert (there.outcome.a, there.outcome.b) == (back.outcome.b, back.outcome.a)
    assert (there.usage.a, there.usage.b) == (back.usage.b, back.usage.a)


@given(TWO_RUNS)
def test_the_entries_lead_from_one_run_to_the_other(runs: tuple[TraceRun, TraceRun]) -> None:
    a, b = runs
    keys_a, keys_b = ({e.seq: request_key(e) for e in r.events if not isinstance(e, State)} for r in (a, b))
    entries = compare(a, b).entries

    assert sorted(entry.a_seq for entry in entries if entry.a_seq is not None) == list(keys_a)
    assert [entry.b_seq for entry in entries if entry.b_seq is not None] == list(keys_b)
    applied = [
        keys_a[entry.a_seq] if entry.kind in (EntryKind.SAME, EntryKind.MOVED) else keys_b[entry.b_seq]
        for entry in entries
        if entry.b_seq is not None
    ]
    assert applied == list(keys_b.values())


@given(TWO_RUNS)
def test_runs_are_identical_when_nothing_differs_and_only_then(runs: tuple[TraceRun, TraceRun]) -> None:
    a, b = runs
    found = compare(a, b)

    differs = (
        any(entry.kind is not EntryKind.SAME for entry in found.entries)
        or bool(found.states)
        or not found.outcome.equal
        or a.input != b.input
    )
    assert found.identical is not differs
    assert found.identical is (found.first is None)


@given(st.integers(1, 400), st.randoms())
def test_removing_calls_from_a_run_of_distinct_calls_is_reported_as_exactly_that(size: int, rng: random.Random) -> None:
    calls = [tool(rng.choice("abc"), n=n) for n in range(size)]
    kept = [call for call in calls if rng.random() < 0.7]

    found = compare(run(*calls), run(*kept))

    assert found.counts[EntryKind.DELETED] == len(calls) - len(kept)
    assert found.counts[EntryKind.SAME] == len(kept)
    assert len(found.entries) == len(calls)


@given(TWO_RUNS)
def test_the_same_question_gets_the_same_answer(runs: tuple[TraceRun, TraceRun]) -> None:
    a, b = runs
    assert compare(a, b) == compare(a, b)


# Time


CALLS = [tool(f"tool_{n % 7}", {"n": n, "text": "x" * 100}, n=n, query="refund policy") for n in range(LONG)]
POLLS = [tool("poll", "pending", job=1)] * LONG


def last_block_first(calls: list[ToolCall]) -> list[ToolCall]:
    return [call for end in range(len(calls), 0, -100) for call in calls[end - 100 : end]]


def with_other_arguments(calls: list[ToolCall]) -> list[ToolCall]:
    return [changed(call, arguments_json=Raw(canonical({**call.arguments, "more": 1}))) for call in calls]


@sampled(
    ("one", "other", "expected"),
    [
        (CALLS, [REFUND, *CALLS], {"same": LONG, "inserted": 1}),
        (CALLS, with_other_arguments(CALLS), {"changed": LONG}),
        (CALLS, last_block_first(CALLS), {"same": 100, "moved": LONG - 100}),
        (POLLS, POLLS[:-1], {"same": LONG - 1, "deleted": 1}),
        (CALLS, [tool("x", n=n) for n in range(LONG)], {"deleted": LONG, "inserted": LONG}),
    ],
    count=2,
    start=1,
)
def test_runs_of_ten_thousand_calls_are_compared_in_two_seconds(
    one: list[ToolCall], other: list[ToolCall], expected: dict[str, int], within: Any
) -> None:
    a, b = run(*one), run(*other)

    found = within(2, lambda: compare(a, b))

    assert {kind.value: count for kind, count in found.counts.items() if count} == expected


@functools.cache
def with_states(every: int, mode: str = "slow") -> TraceRun:
    """Ten thousand calls with a state after each; the mode changes in the middle."""
    log, events = StateLog(Sampling(every=every)), []
    for n, made in enumerate(CALLS):
        written = log.next({"n": n, "mode": mode if n >= LONG // 2 else "slow"})
        assert written is not None
        events += [made, State(seq=0, state_json=written[0], change=written[1])]
    return run(*events)


@sampled(
    ("every", "mode", "expected", "unknown"),
    [
        (1, "slow", None, 0),  # equal
        (10, "slow", None, 9000),  # one of ten kept
        (1, "fast", LONG + 1, 0),  # changed in the middle
    ],
    count=1,
    start=2,
)
def test_ten_thousand_states_are_compared_in_two_seconds(
    every: int, mode: str, expected: int | None, unknown: int, within: Any
) -> None:
    whole, other = with_states(1), with_states(every, mode)

    found = within(2, lambda: compare(whole, other))

    assert (found.first.b_seq if found.first else None, found.unknown_states) == (expected, unknown)


def test_long_conversations_are_compared_without_reading_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.travel.compare_events._DETAILED_BYTES", 3000)
    grown = [model("yes", "word " * 100 + str(n)) for n in range(8)]
    other = [model("yes", "word " * 100 + str(-n - 1)) for n in range(8)]

    entries = compare(run(*grown), run(*other)).entries

    assert all(entry.kind is EntryKind.CHANGED for entry in entries)
    assert entries[0].arguments[0].path == "$.prompt"
    assert str(entries[-1].arguments[0]) == "changed   $: '514 bytes' → '515 bytes'"
