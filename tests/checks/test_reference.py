"""The kinds as they are documented: every example holds for one run and fails for another; the page is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from replaykit.checks.assertions import ASSERTIONS, parse_assertion
from replaykit.checks.custom import CHECKS, register_check
from replaykit.checks.questions import Asks, KnownAnswer, Question
from replaykit.checks.reference import BEGIN, END, FAMILIES, all_kinds, kind_info, page_with_reference
from replaykit.checks.rule import RepeatedRun
from replaykit.cli import run as cli
from replaykit.errors import UsageError
from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall, State, ToolCall, Usage
from replaykit.model.result import Deviation, Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw

PAGE = Path(__file__).parents[2] / "docs" / "assertions.md"
FAILED = "Error: billing service timeout"
PLAN = "You were charged $49.99 for the yearly plan."


def tool(seq: int, name: str, arguments: Any, result: Any, **more: Any) -> ToolCall:
    return ToolCall(
        seq=seq,
        name=name,
        arguments_json=Raw(canonical(arguments)),
        result_json=raw(result),
        **{"duration_s": 1.5, **more},
    )


def llm(seq: int, reason: str = "stop", **usage: Any) -> LlmCall:
    known = Usage(**usage) if usage else None
    return LlmCall(seq=seq, name="gpt-4o", result_json=raw("…"), finish_reason=reason, usage=known, duration_s=0.5)


def state(seq: int, step: str, **value: Any) -> State:
    return State(seq=seq, step=step, state_json=raw(value))


def run_of(*events: Any, output: Any = None, status: str = "success", **more: Any) -> TraceRun:
    text = raw(output) if output is not None else Raw(b"")
    return TraceRun(id="r", status=RunStatus(status), output_json=text, events=events, event_count=len(events), **more)


def changed(run: TraceRun, **more: Any) -> TraceRun:
    return msgspec.structs.replace(run, **more)


ASKED = {"user_id": "usr_8821"}
GOOD = run_of(
    llm(0, input_tokens=900, output_tokens=100, cost_usd=0.01),
    tool(1, "lookup_billing", ASKED, FAILED, step="step_1"),
    state(2, "step_1", paid=False, tries=1, user="ana"),
    tool(3, "lookup_billing", {**ASKED, "page": 2}, {"total": 49.99}, step="step_2"),
    tool(4, "send_email", {"to": {"name": "Ana", "mail": "ana@example.com"}, "cc": []}, "ok", step="step_2"),
    state(5, "step_2", paid=True, tries=2, user="ana"),
    llm(6, input_tokens=400, output_tokens=50, cost_usd=0.01),
    output=PLAN,
    started_at=10.0,
    ended_at=18.0,
)
LOOP = run_of(
    *(tool(seq, "lookup_billing", ASKED, FAILED, duration_s=4.0) for seq in range(5)),
    *(llm(seq, "length", input_tokens=5000, output_tokens=900, cost_usd=1.0) for seq in range(5, 9)),
    ErrorEvent(seq=9, error=ErrorInfo(type="Error", message="Max tool call limit exceeded. Agent terminated.")),
    status="error",
    started_at=0.0,
    ended_at=60.0,
)
JSON = run_of(output={"paid": True, "amount": 49.99, "items": [{"price": 20}, {"price": 29.99}]})
GAVE_UP = run_of(tool(0, "lookup_billing", {}, FAILED), output="I could not reach the billing service.")
LIED = run_of(tool(0, "lookup_billing", {}, FAILED), output=PLAN)
REFUND = run_of(tool(0, "refund", {"order": 7}, "done"), output="Your money is refunded. I am sorry.")
DANGEROUS = run_of(tool(0, "delete_account", {"id": 1}, "done"), tool(1, "refund", {"order": 7}, "done"))
LEAK = run_of(
    tool(0, "send_email", {"to": "bo@corp.test"}, {"key": "AKIAIOSFODNN7ABCDEFG"}),
    output="Card 4111 1111 1111 1111 of bo@corp.test; password: hunter2x9!Q",
)
CHARGED_TWICE = run_of(*(tool(seq, "charge_card", {"order": 7}, "done") for seq in range(2)))
CHARGED = run_of(*(tool(seq, "charge_card", {"order": seq}, "done") for seq in range(2)))

FLIGHTS = {"name": "search_flights", "parameters": {"properties": {"day": {"type": "string"}}, "required": ["day"]}}


def asking(seq: int, *requests: tuple[str, Any], text: str | None = None, **more: Any) -> LlmCall:
    """A model call that offers one tool, and asks for some."""
    calls = [{"id": "", "name": name, "arguments": arguments} for name, arguments in requests]
    return LlmCall(
        seq=seq,
        name="gpt-4o",
        arguments_json=Raw(canonical({"messages": [{"role": "user", "content": "Fly me."}], "tools": [FLIGHTS]})),
        result_json=raw({"role": "assistant", "content": text, "tool_calls": calls}),
        **more,
    )


FLIES = run_of(asking(0, ("search_flights", {"day": "Monday"})), tool(1, "search_flights", {"day": "Monday"}, [9]))
GUESSES = run_of(
    *(
        asking(seq, ("search_flights", {"date": 3}), ("refund_order", "{7"), text="I will use search_docs now.")
        for seq in range(3)
    ),
    output="It is $49.99.",
)
PLANS = run_of(asking(0, text="1. Use a web search to find the fare. I will call search_docs."), output="It is $49.99.")
WRONG_TOTAL = run_of(tool(0, "lookup_billing", {}, {"total": 61.5}), output="The total is $49.99.")

# A kind, or one of its examples, and a run for which it holds and one for which it does not.
PAIRS: dict[str, tuple[TraceRun, TraceRun]] = {
    "status_is: [error, timeout]": (LOOP, GOOD),
    "run.error": (LOOP, GOOD),
    'run.error: "KeyError: *"': (run_of(error=ErrorInfo(type="KeyError", message="'id'"), status="error"), LOOP),
    "steps.exhausted": (LOOP, GOOD),
    "run.failed_steps": (LOOP, GOOD),
    "llm.truncated": (LOOP, GOOD),
    "llm.context_overflow": (run_of(error=ErrorInfo(type="E", message="prompt is too long"), status="error"), GOOD),
    "llm.malformed_call": (GUESSES, FLIES),
    "llm.same_request": (GUESSES, FLIES),
    "llm.same_answer": (GUESSES, FLIES),
    "output.answer": (GOOD, REFUND),
    "output.contradicts": (WRONG_TOTAL, GOOD),
    "output.grounded": (GOOD, LIED),
    "state.repeated": (run_of(*(state(seq, f"step_{seq}", paid=False) for seq in range(3))), GOOD),
    "tool.not_offered": (GUESSES, FLIES),
    "tool.invalid_arguments: search_flights": (GUESSES, FLIES),
    "tool.invalid_arguments": (GUESSES, FLIES),
    "tool.only_announced": (GUESSES, FLIES),
    "tool.lookup_skipped": (PLANS, FLIES),
    "tool.stuck": (LOOP, GOOD),
    "output.equals": (changed(JSON, output_json=raw({"amount": 49.99, "paid": True})), JSON),
    "output.empty": (run_of(output=" "), LOOP),
    "output.error": (run_of(output="Error: the card has expired"), GOOD),
    "output.contains: '\"paid\":true'": (JSON, GOOD),
    "output.json": (JSON, GOOD),
    "output.json_schema": (JSON, run_of(output='{"paid": "yes"}')),
    "output.json_path": (JSON, run_of(output={"items": [{"price": 200}]})),
    "output.not_contains": (GOOD, LOOP),
    "output.edit_distance": (run_of(output="You were charged $49.9!"), GOOD),
    "output.refusal": (run_of(output="I'm sorry, but I can't help with that."), GOOD),
    "tool.unretried_error": (GAVE_UP, GOOD),
    "tool.ignored_error": (LIED, GAVE_UP),
    "tool.ignored_error: {tool: lookup_billing, acknowledged_by: [erreur, échoué]}": (GAVE_UP, GOOD),
    "tool.not_called": (GOOD, DANGEROUS),
    "tool.error": (GOOD, REFUND),
    "tool.called: {tool: send_email, arguments: {to: {mail: ana@example.com}}, max: 1}": (GOOD, LOOP),
    "effect.exactly_once": (GOOD, LOOP),
    "effect.exactly_once: {tool: charge_*, per: $.order, failed: true}": (CHARGED, CHARGED_TWICE),
    "effect.none": (GOOD, DANGEROUS),
    'effect.none: ["POST *", "DELETE *"]': (GOOD, run_of(tool(0, "POST shop.test/orders", {}, "made"))),
    "trajectory.before": (GOOD, run_of(tool(0, "send_email", {}, "ok"), tool(1, "lookup_billing", {}, "ok"))),
    "trajectory.never_after": (GOOD, run_of(tool(0, "send_email", {}, "ok"), tool(1, "lookup_x", {}, "ok"))),
    "trajectory.allowlist": (GOOD, DANGEROUS),
    "safety.no_secret": (GOOD, LEAK),
    "safety.no_pii": (GOOD, LEAK),
    "custom.python": (run_of(tool(0, "charge_card", {"total": 9}, "done")), CHARGED_TWICE),
    "not": (GAVE_UP, LIED),
    "all": (REFUND, GOOD),
    "any": (REFUND, GOOD),
    "threshold": (REFUND, GOOD),
    "repeat": (REFUND, GOOD),
    "llm.calls: {model: gpt-*, min: 1}": (GOOD, JSON),
    "tool.args_schema": (GOOD, run_of(tool(0, "send_email", {"to": "a", "cc": "b"}, "ok"))),
    "span.count": (GOOD, LOOP),
    "span.no_errors": (REFUND, GOOD),
    "span.no_errors: {kind: tool, name: send_*}": (GOOD, LOOP),
    "state.path: {path: $.tries, max: 1, step: step_1}": (GOOD, LOOP),
}


class Says:
    """A judge who finds everything good, or nothing; of labels it takes the first or the last."""

    hint = ""

    def __init__(self, good: bool) -> None:
        self._good = good

    def look_up(self, question: Question) -> KnownAnswer:
        if question.asks is Asks.SCORE:
            return KnownAnswer(status="given", by="somebody", score=0.9 if self._good else 0.1)
        if question.asks is Asks.LABEL:
            return KnownAnswer(status="given", by="somebody", label=question.labels[0 if self._good else -1])
        return KnownAnswer(status="pass" if self._good else "fail", by="somebody")


FOLLOWED: tuple[Deviation, ...] = ()
LEFT = (Deviation(kind="arguments", text="`send_email` has other arguments", index=1, name="send_email"),)
EXAMPLES = [(info.kind, example) for info in all_kinds() for example in info.examples]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_entries", {})
    register_check("charged_once", lambda run: len(run.tool_calls) == 1)
    register_check("total_below", lambda run, limit: all(c.arguments.get("total", 99) < limit for c in run.tool_calls))


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
@pytest.mark.usefixtures("checks")
def test_every_example_holds_for_one_run_and_fails_for_another(kind: str, example: str) -> None:
    ((written, value),) = yaml.safe_load(example).items()
    good, bad = PAIRS.get(example, PAIRS.get(kind, (GOOD, LOOP)))
    followed, left = (LEFT, FOLLOWED) if kind == "replay.diverges_at" else (FOLLOWED, LEFT)

    assertion = parse_assertion(written, value)
    held = assertion.check(good, Side.DESIRED, followed, runs=lambda _: RepeatedRun(good), answers=Says(True))
    failed = assertion.check(bad, Side.DESIRED, left, runs=lambda _: RepeatedRun(bad), answers=Says(False))

    assert written == kind
    assert (held.holds, failed.holds) == (True, False), (held, failed)
    for finding in (held, failed):
        assert finding.text
        assert finding.expected
        assert finding.actual
        assert finding.seq is None or finding.seq in [event.seq for event in (*good.events, *bad.events)]


@pytest.mark.parametrize("kind", list(ASSERTIONS))
def test_every_kind_is_documented_in_full(kind: str) -> None:
    info = kind_info(kind)

    assert info.line.endswith((".", "…"))
    assert info.examples
    assert info.family in FAMILIES
    assert info.family != "other"
    assert all(parameter.meaning and parameter.type for parameter in info.parameters)


def test_the_page_says_what_the_rules_say() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page.count(BEGIN) == page.count(END) == 1
    assert page == page_with_reference(page), "python -m replaykit.checks.reference docs/assertions.md"


def test_writing_the_reference_leaves_the_rest_of_a_page_alone() -> None:
    page = page_with_reference(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    assert page.startswith(f"before\n{BEGIN}\n\n## How the run ended\n")
    assert page.endswith(f"{END}\nafter\n")
    assert "old" not in page.split("\n")


def test_a_kind_that_there_is_not_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'tool\.called'"):
        kind_info("tool.caled")


def test_the_verb_lists_every_kind_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["help", "assertions"]) == 0
    out = capsys.readouterr().out

    for info in all_kinds():
        assert f"  {info.kind}  " in out
        assert f"- {info.examples[0]}" in out
    assert "](" not in out


def test_the_verb_tells_all_about_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["help", "assertions", "budget.latency"]) == 0
    out = capsys.readouterr().out

    assert "virtual time of the log" in out
    assert "max_s  (number ≥ 0, required)" in out
    assert "- budget.latency: 10" in out


def test_the_verb_gives_the_kinds_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["help", "assertions", "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)

    assert [entry["kind"] for entry in found["assertions"]] == [info.kind for info in all_kinds()]
    assert {p["name"] for p in found["assertions"][0]["parameters"]} == set()


def test_the_verb_refuses_a_kind_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["help", "assertions", "output.contain"]) == 2
    assert "did you mean 'output.contains'?" in capsys.readouterr().err
