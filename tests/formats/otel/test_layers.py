"""Calls that several spans tell of: layers of instrumentation, and BeeAI's start, success and finish."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.formats.otel.spans import agent, model, read, said, span

from replaykit.formats.spans.runs import run_of
from replaykit.formats.spans.tree import BEEAI_SCOPE
from replaykit.model.events import Usage
from replaykit.model.run import TraceRun


def used(inputs: int, outputs: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": inputs, "gen_ai.usage.output_tokens": outputs}


def run(*spans: dict[str, Any], scope: str = "tests") -> TraceRun:
    found = run_of(tuple(msgspec.structs.replace(one, scope=scope) for one in read(*spans))).run
    assert found is not None
    return found


def test_the_layer_next_to_the_api_says_what_a_call_took() -> None:
    asked, answer = [said("user", "go")], said("assistant", "done")

    found = run(
        agent(),
        model(2, 1, asked, answer, attributes=used(542, 235)),
        model(3, 2, asked, answer, attributes=used(163, 20)),
    )

    assert [call.usage for call in found.llm_calls] == [Usage(input_tokens=163, output_tokens=20)]


def test_a_call_that_took_several_requests_took_the_sum_of_them() -> None:
    asked, answer = [said("user", "go")], said("assistant", "done")

    found = run(
        agent(),
        model(2, 1, asked, answer, attributes=used(9, 9)),
        model(3, 2, asked, answer, attributes=used(1, 2)),
        model(4, 2, asked, answer, attributes=used(3, 4)),
    )

    assert [call.usage for call in found.llm_calls] == [Usage(input_tokens=4, output_tokens=6)]


def part(number: int, name: str, **attributes: Any) -> dict[str, Any]:
    return span(number, 1, name=name, attributes={"openinference.span.kind": "TOOL", **attributes})


def test_start_success_and_finish_of_beeai_are_one_call() -> None:
    spans = [
        agent(),
        part(2, "tool.search.start-12", **{"tool.parameters": "{'query': 'Rome', 'full': False}"}),
        part(3, "tool.search.finish-12"),
        part(4, "tool.search.success-12", **{"output.value": '["Rome"]'}),
        part(5, "tool.search.start-13", **{"tool.parameters": "{'query': 'Paris'}"}),
        part(6, "tool.search.success-13", **{"output.value": '["Paris"]'}),
    ]

    calls = run(*spans, scope=BEEAI_SCOPE).tool_calls

    assert [(call.name, call.arguments, call.result) for call in calls] == [
        ("search", {"query": "Rome", "full": False}, ["Rome"]),
        ("search", {"query": "Paris"}, ["Paris"]),
    ]
    assert len(run(*spans).tool_calls) == 5, "spans of others with such names are calls of their own"


def test_parameters_of_beeai_that_are_no_data_are_not_run() -> None:
    found = run(
        agent(), part(2, "tool.search.start-1", **{"tool.parameters": "__import__('os').getcwd()"}), scope=BEEAI_SCOPE
    )

    assert [call.arguments for call in found.tool_calls] == [{}]
