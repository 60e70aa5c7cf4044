"""What models did wrong: each assertion holds for the run that shows it, and not for one that is right."""

from __future__ import annotations

from typing import Any

import pytest

from replaykit.cases.signatures import detect, propose_desired
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.output import gives_answer
from replaykit.checks.output_similarity import refusal
from replaykit.checks.reading import budget_reason, is_budget_text
from replaykit.checks.tool_offers import argument_flaw
from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall, State, ToolCall
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw

SEARCH = {
    "name": "search_flights",
    "description": "Finds flights",
    "parameters": {
        "type": "object",
        "properties": {
            "day": {"type": "string"},
            "seats": {"type": "integer"},
            "cabin": {"type": "string", "enum": ["economy", "first"]},
        },
        "required": ["day"],
    },
}


def model(
    seq: int,
    said: str | None = None,
    *requests: tuple[str, Any],
    messages: tuple[tuple[str, str], ...] = (("user", "Fly me to Rome."),),
    tools: list[Any] | None = None,
    **more: Any,
) -> LlmCall:
    request = {"messages": [{"role": role, "content": text} for role, text in messages]}
    if tools is not None:
        request["tools"] = tools
    uses = [{"id": "", "name": name, "arguments": arguments} for name, arguments in requests]
    answer = {"role": "assistant", "content": said, "tool_calls": uses}
    fields = {"arguments_json": Raw(canonical(request)), "result_json": raw(answer), **more}
    return LlmCall(seq=seq, name="m", **fields)


def tool(seq: int, name: str, arguments: Any, result: Any) -> ToolCall:
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw(result))


def run_of(*events: Any, output: Any = "Done.", status: RunStatus = RunStatus.SUCCESS, **more: Any) -> TraceRun:
    return TraceRun(id="r", status=status, output_json=raw(output), events=events, event_count=len(events), **more)


def holds(run: TraceRun, kind: str, value: Any) -> bool:
    return parse_assertion(kind, value).check(run, Side.OBSERVED).holds


def found(run: TraceRun) -> list[dict[str, Any]]:
    return [{one.assertion.kind: one.assertion.value} for one in detect(run)]


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        ({"day": "Monday", "seats": 2}, None),
        ({"day": "Monday", "seats": 2.0}, None),
        ({"date": "Monday"}, "unknown argument 'date'"),
        ({"seats": 2}, "missing argument 'day'"),
        ({"day": 3}, "argument 'day' is 3, not of type string"),
        ({"day": "Monday", "seats": True}, "argument 'seats' is true, not of type integer"),
        ({"day": "Monday", "cabin": "last"}, "argument 'cabin' is 'last', not one of [\"economy\",\"first\"]"),
        ("Monday", "arguments that are not an object: 'Monday'"),
    ],
)
def test_arguments_are_compared_with_the_definition_of_the_tool(arguments, flaw):
    assert argument_flaw(arguments, SEARCH["parameters"]) == flaw


def test_a_definition_that_says_nothing_finds_no_flaw():
    assert argument_flaw({"x": 1}, {}) is None
    assert argument_flaw({"x": 1}, {"anyOf": [], "properties": {}}) is None
    assert argument_flaw({"x": 1}, {"properties": {}, "additionalProperties": True}) is None


@pytest.mark.parametrize(
    "definitions",
    [
        [{"type": "function", "function": SEARCH}],
        [{"name": "search_flights", "input_schema": SEARCH["parameters"]}],
        [{"functionDeclarations": [SEARCH]}],
        [{"toolSpec": {"name": "search_flights", "inputSchema": {"json": SEARCH["parameters"]}}}],
    ],
)
def test_a_call_with_wrong_arguments_is_found_in_the_form_of_any_api(definitions):
    wrong = model(0, None, ("search_flights", {"date": "Monday"}), tools=definitions)
    right = model(0, None, ("search_flights", {"day": "Monday"}), tools=definitions)
    failed = tool(1, "search_flights", {"date": "Monday"}, "TypeError: unexpected keyword argument 'date'")

    run = run_of(wrong, failed, output="There is no flight.")

    assert {"tool.invalid_arguments": {"tool": "search_flights"}} in found(run)
    assert {"not": {"tool.invalid_arguments": {"tool": "search_flights"}}} in [
        {one.kind: one.value} for one in propose_desired(run, detect(run))
    ]
    assert not holds(run_of(right), "tool.invalid_arguments", "*")


def test_a_tool_that_was_not_offered_is_a_made_up_name():
    asked = model(0, None, ("book_hotel", {}), tools=[SEARCH])

    assert found(run_of(asked)) == [{"tool.not_offered": "book_hotel"}]
    assert not holds(run_of(model(0, None, ("search_flights", {"day": "x"}), tools=[SEARCH])), "tool.not_offered", "*")
    assert not holds(run_of(model(0, None, ("book_hotel", {}))), "tool.not_offered", "*"), (
        "nobody knows what was offered"
    )


def test_a_tool_that_was_announced_and_never_called_is_found():
    plan = model(0, "I will use search_flights to find one.", tools=[SEARCH])
    answer = model(1, "Take the one at noon.", tools=[SEARCH])
    called = tool(2, "search_flights", {"day": "x"}, ["noon"])

    assert found(run_of(plan, answer, output="Take the one at noon.")) == [{"tool.only_announced": "search_flights"}]
    assert detect(run_of(plan, answer, output="Take it."))[0].seq == 1
    assert found(run_of(plan, called, answer)) == []
    assert found(run_of(model(0, "I need no search_flights.", tools=[SEARCH]))) == []


def test_code_that_calls_a_tool_is_a_call():
    system = ("system", "You have these tools:\n- find_paper: Finds a paper.\n- final_answer: Gives the answer.")
    plan = model(0, "I will use find_paper.", messages=(system, ("user", "Which?")))
    printed = model(1, "```py\nprint('ask find_paper please')\n```", messages=(system, ("user", "Which?")))
    coded = model(1, "```py\nfind_paper('bees')\n```", messages=(system, ("user", "Which?")))

    assert holds(run_of(plan, printed), "tool.only_announced", "find_paper")
    assert not holds(run_of(plan, coded), "tool.only_announced", "find_paper")
    assert {"tool.only_announced": "find_paper"} in found(run_of(plan, printed))


def test_a_remark_in_brackets_behind_the_name_of_a_tool_is_no_call():
    system = ("system", "You have these tools:\n- find_paper: Finds a paper.\n- final_answer: Gives the answer.")
    plan = model(0, "I will use find_paper (it knows all of them).", messages=(system, ("user", "Which?")))

    assert found(run_of(plan, output="The one on bees.")) == [{"tool.only_announced": "find_paper"}]


def test_a_lookup_that_was_planned_and_not_made_is_found():
    plan = model(0, "1. Use a web search to locate the entry.", tools=[SEARCH])
    answer = model(1, "It is Skidmore.", tools=[SEARCH])
    looked = tool(2, "search_flights", {"day": "x"}, "Skidmore")

    assert found(run_of(plan, answer, output="Skidmore")) == [{"tool.lookup_skipped": True}]
    assert found(run_of(plan, looked, answer, output="Skidmore")) == []


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_cut_answer_is_found(reason):
    assert found(run_of(model(0, "It is", finish_reason=reason))) == [{"llm.truncated": True}]
    assert found(run_of(model(0, "It is", finish_reason=reason), model(1, "It is so.", finish_reason="stop"))) == []


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "context_length_exceeded",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    ],
)
def test_a_full_context_window_is_found(message):
    error = ErrorInfo(type="BadRequestError", message=message)

    run = run_of(status=RunStatus.ERROR, output=None, error=error)

    assert {"llm.context_overflow": True} in found(run)
    assert not any("run.error" in one for one in found(run)), "it says the same"


def test_a_tool_call_that_is_no_json_is_found_in_a_run_that_failed():
    broken = model(0, None, ("search_flights", '{"day": "Mon'))

    run = run_of(broken, status=RunStatus.ERROR, output=None)

    assert {"llm.malformed_call": True} in found(run)
    assert holds(run_of(model(0, finish_reason="MALFORMED_FUNCTION_CALL")), "llm.malformed_call", True)


def test_the_same_request_and_the_same_answer_again_and_again_are_found():
    same_request = run_of(*(model(seq, f"Answer number {seq} of many") for seq in range(3)))
    same_answer = run_of(
        *(model(seq, "Let me think about that again.", messages=(("user", f"Go on {seq}"),)) for seq in range(4))
    )

    assert found(same_request) == [{"llm.same_request": 3}]
    assert found(same_answer) == [{"llm.same_answer": 3}]
    assert found(run_of(model(0, "Answer one of many."), model(1, "Answer two of many."))) == []


def test_a_state_that_comes_back_again_and_again_is_found():
    states = [State(seq=seq, step=f"step_{seq}", state_json=raw({"page": seq % 2})) for seq in range(6)]

    assert found(run_of(*states)) == [{"state.repeated": 3}]
    assert found(run_of(*states[:4])) == []


def test_errors_that_a_run_went_on_over_are_found_from_the_second_on():
    errors = [ErrorEvent(seq=seq, error=ErrorInfo(type="ParseError", message="no code")) for seq in range(2)]

    assert found(run_of(*errors)) == [{"run.failed_steps": 2}]
    assert found(run_of(*errors[:1])) == []


def test_failed_steps_point_at_the_model_call_whose_words_did_not_run():
    steps = [
        ErrorEvent(seq=seq, at=10.0 * seq, duration_s=5, error=ErrorInfo(type="ParseError", message="no code"))
        for seq in (0, 2)
    ]
    calls = [model(seq, f"Attempt {seq}", at=10.0 * (seq - 1) + 1) for seq in (1, 3)]

    assert [one.seq for one in detect(run_of(steps[0], calls[0], steps[1], calls[1]))] == [3]


def test_a_failure_that_was_ignored_points_at_the_model_call_that_ignored_it():
    asked = model(0, None, ("pay", {}))
    answer = model(2, "Paid!")

    (signature,) = detect(run_of(asked, tool(1, "pay", {}, "Error: busy"), answer, output="Paid!"))

    assert (signature.assertion.kind, signature.seq) == ("tool.ignored_error", 2)


def test_a_loop_points_at_the_model_call_that_asked_for_the_last_round():
    rounds = [
        event for n in (0, 2, 4) for event in (model(n, None, ("find", {})), tool(n + 1, "find", {}, "Error: no index"))
    ]

    loop = detect(run_of(*rounds, output="I could not find it."))[0]

    assert (loop.assertion.kind, loop.seq) == ("max_tool_calls", 4)


def test_of_several_calls_with_wrong_arguments_the_last_one_is_pointed_at():
    rounds = [
        event
        for n in (0, 2)
        for event in (
            model(n, None, ("search_flights", {"when": n}), tools=[SEARCH]),
            tool(n + 1, "search_flights", {"when": n}, "TypeError: unknown argument 'when'"),
        )
    ]

    found_flaw = next(one for one in detect(run_of(*rounds)) if one.assertion.kind == "tool.invalid_arguments")

    assert found_flaw.seq == 2


def test_the_failure_of_a_sub_agent_that_the_answer_hides_is_found():
    inner = LlmCall(seq=1, name="m", parent=0, result_json=raw("…"))
    agent = tool(0, "research_agent", {"task": "Find it"}, "Three archives were searched. I was unable to find it.")

    assert found(run_of(agent, inner, output="The report says all is well.")) == [
        {"tool.ignored_error": {"tool": "research_agent", "acknowledged_by": "anything"}},
    ]
    assert found(run_of(agent, inner, output="I could not find the report.")) == []
    assert found(run_of(agent, output="The report says all is well.")) == [], "a document may say so"


def test_what_the_user_was_told_before_counts_as_an_admission():
    failed = tool(1, "update_booking", {}, "Error: no seats left")
    told = model(2, "The change failed: there are no seats left.")
    conversation = (
        ("user", "Change it."),
        ("assistant", "The change failed: there are no seats left."),
        ("user", "Ok."),
    )
    goodbye = model(3, "You're welcome!", messages=conversation)

    assert found(run_of(failed, told, goodbye, output="You're welcome!")) == []
    assert found(run_of(failed, goodbye, output="You're welcome!")) == [
        {"tool.ignored_error": {"tool": "update_booking", "acknowledged_by": "anything"}}
    ]


def test_a_failed_lookup_that_another_tool_made_up_for_is_no_signature():
    failed = tool(0, "get_price", {}, "Error: unknown product")

    assert found(run_of(failed, tool(1, "search_prices", {}, {"euros": 40}), output="It costs 40 euros.")) == []
    assert found(run_of(failed, tool(1, "transfer_to_human", {}, "ok"), output="A colleague takes over.")) == []


def test_what_went_wrong_on_the_way_is_told_of_a_run_with_a_fault():
    stumble = [tool(0, "find", {}, "Error: busy"), tool(1, "find", {}, "Ana")]
    hidden = tool(2, "pay", {}, "Error: no funds")

    assert found(run_of(*stumble, output="Paid!")) == []
    assert found(run_of(*stumble, hidden, output="Paid!")) == [
        {"tool.ignored_error": {"tool": "pay", "acknowledged_by": "anything"}},
        {"tool.error": {"tool": "find", "like": "Error: busy"}},
    ]


@pytest.mark.parametrize(
    "output",
    [
        "There is nobody called Ana in the directory.",
        "Sidste nye: jeg kunne ikke finde Ana, og det er der ikke noget at gøre ved.",
        "Unfortunately Ana is unknown to us.",
        "The directory has entries for employees only.",
    ],
)
def test_a_failure_that_the_answer_tells_in_other_words_is_not_ignored(output):
    assert found(run_of(tool(0, "update_entry", {"name": "Ana"}, "Error: no directory entry"), output=output)) == []


@pytest.mark.parametrize("reason", ["past the return window", "card declined", "not allowed for this role"])
def test_a_refusal_that_no_retry_could_change_is_no_signature(reason):
    run = run_of(tool(0, "refund", {}, {"error": reason}), output="The refund was declined.")

    assert found(run) == []


def test_what_went_wrong_on_the_way_is_told_only_of_a_run_that_failed_and_asks_nothing_of_a_fix():
    calls = [tool(0, "pay", {"n": 1}, "Error: busy"), tool(1, "pay", {"n": 1}, "paid")]

    failed = run_of(*calls, status=RunStatus.ERROR, output=None)

    assert {"tool.error": {"tool": "pay", "like": "Error: busy"}} in found(failed)
    assert [one.kind for one in propose_desired(failed, detect(failed))] == ["status_is", "final_output_exists"]
    assert found(run_of(*calls)) == []


@pytest.mark.parametrize(
    ("result", "output", "is_contradicted"),
    [
        ({"balance": 120.5}, "Your balance is 210 euros.", True),
        ({"balance": 120.5}, "Your balance is 120.50 euros.", False),
        ({"refundable": False}, "Good news: the ticket is refundable.", True),
        ({"refundable": False}, "The ticket is not refundable.", False),
        ({"refundable": False}, "If the ticket is refundable, you get it back.", False),
        ([{"available": False}, {"available": True}], "The room is available.", False),
    ],
)
def test_an_output_that_gives_another_value_than_the_tool_contradicts_it(result, output, is_contradicted):
    run = run_of(tool(0, "get_account", {}, result), output=output)

    assert holds(run, "output.contradicts", "get_account") is is_contradicted


@pytest.mark.parametrize(
    ("text", "reference", "is_right"),
    [
        ("ANSWER: C", "A", False),
        ("ANSWER: A", "A", True),
        ("Answer: (A) Paris", "A", True),
        ("The answer is B, a likely one.", "A", False),
        ("So the total is 1,234.", "1234", True),
        ("So the total is 12345.", "1234", False),
        ("Final answer: 3 of 7\nFinal answer: 4", "4", True),
        ("It was Once Upon a Time.", "Once upon a time", True),
        ("\\boxed{42}", "42", True),
        ("Die Antwort: Rom", "Rom", True),
        ("It is 4.5", "4", False),
    ],
)
def test_an_answer_is_compared_with_a_reference(text, reference, is_right):
    assert gives_answer(text, reference) is is_right


@pytest.mark.parametrize(
    "text",
    [
        "MaxTurnsExceeded: Max turns (10) exceeded",
        "GraphRecursionError: Recursion limit of 25 reached",
        "AgentMaxIterations",
        "LimitExceededError: the token limit of 5000 was reached",
        "token budget exceeded",
    ],
)
def test_a_budget_can_be_exhausted_in_many_words(text):
    assert is_budget_text(text)


@pytest.mark.parametrize("text", ["Rate limit exceeded", "KeyError: 'steps'", "maximum context length is 8192 tokens"])
def test_other_limits_are_no_budget(text):
    assert not is_budget_text(text)


@pytest.mark.parametrize(
    ("output", "is_exhausted"),
    [
        ("Max rounds (30) reached.", True),
        ("Agent stopped due to max iterations.", True),
        ("Reached max steps.", True),
        ("The maximum number of steps of these stairs is 30.", False),
    ],
)
def test_an_output_can_say_that_the_budget_is_used_up(output, is_exhausted):
    assert (budget_reason(run_of(output=output)) is not None) is is_exhausted


@pytest.mark.parametrize(
    "text",
    [
        "Dabei kann ich Ihnen leider nicht helfen.",
        "Je ne peux pas vous aider avec cela.",
        "Lo siento, no puedo ayudarte con eso.",
        "Não posso ajudar com isso.",
        "Non posso aiutarti.",
        "Daar kan ik u niet bij helpen.",
        "Nie mogę w tym pomóc.",
        "Я не могу с этим помочь.",
        "申し訳ありませんが、お手伝いできません。",
        "我无法为您提供这个。",
    ],
)
def test_a_refusal_is_known_in_other_languages(text):
    assert refusal(text) is not None
