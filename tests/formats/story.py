"""The story that all samples tell, as the run it has to become whatever the format.

A user asks for a refund. The model asks for two tools at once, then for a third, which fails, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from replaykit.formats.core.replayability import replayability
from replaykit.model.run import RunStatus, TraceRun

QUESTION = "Refund my order W123, I'm user u9."
ANSWER = "I could not refund order W123: the payment gateway timed out."
PROBLEM = "payment gateway timed out after 30s"
CALLS = [
    ("get_order", {"order_id": "W123"}),
    ("get_user", {"user_id": "u9"}),
    ("refund_order", {"order_id": "W123", "amount": 59.9}),
]
TOKENS = [120, 160, 200]
COUNTS = (TOKENS, [130, 210, 250], [528, 528, 528])
"""What the models read, as OpenAI's APIs count it, chat and responses, and as Anthropic's does."""


def check_story(run: TraceRun, lacks: Iterable[str] = ()) -> None:
    """The run is the story. `lacks` names what the format cannot carry; one that it can carry is a mistake too."""
    lacking = set(lacks)
    unknown = lacking - PARTS.keys()
    assert not unknown, f"no part of the story: {unknown}"
    for name, check in PARTS.items():
        try:
            check(run)
        except (AssertionError, LookupError, TypeError, AttributeError, ValueError, StopIteration):
            if name not in lacking:
                raise
        else:
            assert name not in lacking, f"the format carries the {name}; say so"


def _status(run: TraceRun) -> None:
    assert run.status is RunStatus.SUCCESS


def _input(run: TraceRun) -> None:
    assert run.input == QUESTION


def _output(run: TraceRun) -> None:
    assert run.output.strip() == ANSWER


def _models(run: TraceRun) -> None:
    assert len(run.llm_calls) == 3
    assert all(call.name for call in run.llm_calls)


def _answers(run: TraceRun) -> None:
    asked = [[use["name"] for use in call.result["tool_calls"]] for call in run.llm_calls]
    assert asked == [["get_order", "get_user"], ["refund_order"], []]
    assert run.llm_calls[-1].result["content"].strip() == ANSWER


def _call_ids(run: TraceRun) -> None:
    asked = [use["id"] for call in run.llm_calls for use in call.result["tool_calls"]]
    assert asked in ([f"{vendor}_{name}" for name in ("A1", "B2", "C3")] for vendor in ("call", "toolu"))


def _messages(run: TraceRun) -> None:
    _first, second, last = run.llm_calls
    told = [
        [message.get("tool_call_id") for message in _said(call) if message["role"] == "tool"] for call in (second, last)
    ]
    assert [len(results) for results in told] == [2, 3]
    assert [message["content"] for message in _said(last) if message["role"] == "user"] == [QUESTION]


def _system(run: TraceRun) -> None:
    first = run.llm_calls[0]
    assert "You are a support agent." in json.dumps([first.arguments.get("system"), _said(first)])


def _tools(run: TraceRun) -> None:
    made = [(call.name, call.arguments) for call in run.tool_calls]
    assert sorted(made[:2], key=str) + made[2:] == CALLS, "two at once, in either order, then the third"


def _results(run: TraceRun) -> None:
    order = next(call.result for call in run.tool_calls if call.name == "get_order")
    order = json.loads(order) if isinstance(order, str) else order
    assert (order["order_id"], order["total"]) == ("W123", 59.9)


def _tool_error(run: TraceRun) -> None:
    refund = run.tool_calls[2]
    assert refund.error is not None
    assert refund.error.type == "TimeoutError"
    assert refund.error.message == PROBLEM
    assert not refund.result_json or PROBLEM in json.dumps(refund.result), "beside the error stands what was told of it"


def _failure(run: TraceRun) -> None:
    """That the third tool failed, in whatever words."""
    refund = run.tool_calls[2]
    assert refund.error is not None
    assert PROBLEM in refund.error.message


def _tokens(run: TraceRun) -> None:
    assert [call.usage.input_tokens if call.usage else None for call in run.llm_calls] in COUNTS


def _times(run: TraceRun) -> None:
    times = [event.at for event in run.events]
    assert all(times)
    assert times == sorted(times)
    assert run.ended_at is not None
    assert run.started_at <= times[0]
    assert times[-1] <= run.ended_at


def _order(run: TraceRun) -> None:
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert all(event.parent is None or event.parent < event.seq for event in run.events)


def _replayable(run: TraceRun) -> None:
    assert replayability(run).score == 1.0


def _said(call: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call.arguments["messages"]
    return found


PARTS: dict[str, Callable[[TraceRun], None]] = {
    "status": _status,
    "input": _input,
    "output": _output,
    "models": _models,
    "answers": _answers,
    "call ids": _call_ids,
    "messages": _messages,
    "system": _system,
    "tools": _tools,
    "results": _results,
    "failure": _failure,
    "type of the error": _tool_error,
    "tokens": _tokens,
    "times": _times,
    "order": _order,
    "replayable": _replayable,
}
"""What there is to carry, each with its check."""
