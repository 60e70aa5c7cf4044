"""The answer of a model as a change: streamed and not, awaited and not, beside the calls of tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cli import run as cli
from replaykit.errors import UsageError
from replaykit.model.matching import ErrorSpec
from replaykit.model.run import RunStatus
from replaykit.model.values import canonical, decode
from replaykit.seam.http.call import HttpCall, listening
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.rebuild import rebuild_error
from replaykit.seam.results import ToolValues
from replaykit.seam.scope import CallAnswer, PendingCall, current, pending_call
from replaykit.seam.through import Replayed, astream, athrough, stream, through

ASKED: list[str] = []


def answer_to(prompt: str) -> str:
    """The scripted model."""
    ASKED.append(prompt)
    return "refund" if "order" in prompt else "done"


def pending(prompt: str) -> tuple[Any, PendingCall]:
    scope = current()
    assert scope is not None
    arguments = canonical({"messages": [{"role": "user", "content": prompt}]})
    return scope, pending_call("llm_call", "gpt", arguments, scope, time.time(), "none")


def given(outcome: CallAnswer) -> Any:
    if outcome.error is not None:
        raise rebuild_error(outcome.error, {})
    return decode(outcome.result_json)


def items(outcome: CallAnswer) -> Replayed:
    return Replayed([decode(item) for item in outcome.items_json or ()], None, None)


def ask(prompt: str) -> str:
    return str(through(*pending(prompt), lambda: answer_to(prompt), given))


def ask_streaming(prompt: str) -> str:
    def live() -> Generator[str, None, None]:
        yield from answer_to(prompt)

    return "".join(stream(*pending(prompt), live, items, ToolValues("gpt", None).keep))


def ask_awaiting(prompt: str) -> str:
    async def live() -> str:
        return answer_to(prompt)

    async def main() -> str:
        return str(await athrough(*pending(prompt), live, given))

    return asyncio.run(main())


def ask_streaming_async(prompt: str) -> str:
    async def live() -> AsyncGenerator[str, None]:
        for letter in answer_to(prompt):
            yield letter

    async def main() -> str:
        return "".join([item async for item in astream(*pending(prompt), live, items, ToolValues("gpt", None).keep)])

    return asyncio.run(main())


@rk.tool(effects="none")
def look_up(order: int) -> str:
    return f"order {order}: paid"


@rk.tool
def refund(order: int) -> str:
    return "refunded"


def support(ask_model: Callable[[str], str]) -> Callable[[str], str]:
    """An agent that asks the model, with a call of a tool before and after it in the same step."""

    def agent(question: str) -> str:
        with rk.record("support") as run:
            with run.step("plan"):
                found = look_up(7)
                choice = ask_model(f"{question} {found}")
                look_up(8)
            with run.step("act"):
                said = refund(7) if choice == "refund" else f"said {choice!r}"
            with run.step("close"):
                ask_model(f"Is {said} all?")
        return said

    return agent


PLAIN = pytest.mark.parametrize("ask_model", [ask, ask_awaiting])
STREAMED = pytest.mark.parametrize("ask_model", [ask_streaming, ask_streaming_async])


def recorded(store: rk.Store, agent: Callable[[str], str]) -> str:
    with rk.record("support", input="Money back for my order!", store=store) as run:
        run.output = agent("Money back for my order!")
    assert run.output == "refunded"
    ASKED.clear()
    return str(run.id)


def model_answers(store: rk.Store, run_id: str) -> list[Any]:
    return [call.items or call.result for call in store.load(run_id).llm_calls]


@pytest.mark.parametrize("ask_model", [ask, ask_awaiting, ask_streaming, ask_streaming_async])
def test_a_resumed_run_is_served_the_models_answers(store: rk.Store, ask_model: Callable[[str], str]) -> None:
    agent = support(ask_model)
    parent = recorded(store, agent)

    for step in ("plan", "act", "close"):
        journey = rk.resume(parent, step, agent=agent, store=store)
        assert (journey.output, journey.deviations) == ("refunded", ())
        assert rk.compare(parent, journey.run_id, store=store).identical
    assert ASKED == []


@PLAIN
def test_another_answer_leads_elsewhere_and_parts_there(store: rk.Store, ask_model: Callable[[str], str]) -> None:
    agent = support(ask_model)
    parent = recorded(store, agent)

    for edits in (rk.Edits(answer="be kind"), rk.Edits(result="be kind", tool="gpt")):
        fork_id, journey = rk.fork(parent, "plan", edits, agent=agent, store=store)
        assert journey.output == "said 'be kind'"
        assert ASKED == ["Is said 'be kind' all?"], "only the question that was not recorded is asked"
        first = rk.compare(parent, fork_id, store=store).first
        assert first is not None
        assert (first.kind.value, first.text, first.a_step) == ("model_answer", "answer of gpt", "plan")
        assert [str(d) for d in first.differences] == ["changed   $.result: 'refund' → 'be kind'"]
        ASKED.clear()


@STREAMED
def test_another_stream_leads_elsewhere(store: rk.Store, ask_model: Callable[[str], str]) -> None:
    agent = support(ask_model)
    parent = recorded(store, agent)

    fork_id, journey = rk.fork(parent, "plan", rk.Edits(answer=["be ", "kind"]), agent=agent, store=store)

    assert journey.output == "said 'be kind'"
    assert model_answers(store, fork_id)[0] == ["be ", "kind"]
    first = rk.compare(parent, fork_id, store=store).first
    assert first is not None
    assert (first.text, first.differences[0].path) == ("answer of gpt", "$.items[0]")


@STREAMED
def test_an_answer_that_is_no_stream_is_refused_before_anything_is_made(
    store: rk.Store, ask_model: Callable[[str], str]
) -> None:
    agent = support(ask_model)
    parent = recorded(store, agent)

    with pytest.raises(UsageError, match=r"`gpt` streams: .* a list of items, not 'kind'"):
        rk.fork(parent, "plan", rk.Edits(answer="kind"), agent=agent, store=store)

    assert len(store.headers()) == 1


@PLAIN
def test_a_model_can_be_made_to_fail(store: rk.Store, ask_model: Callable[[str], str]) -> None:
    agent = support(ask_model)
    parent = recorded(store, agent)
    edits = rk.Edits(error=ErrorSpec(type="TimeoutError", message="overloaded"), tool="gpt")

    _, journey = rk.fork(parent, "plan", edits, agent=agent, store=store)

    assert (journey.status, journey.error) == (RunStatus.TIMEOUT, "TimeoutError: overloaded")


def test_a_result_means_the_last_call_and_an_answer_the_last_of_a_model(store: rk.Store) -> None:
    agent = support(ask)
    parent = recorded(store, agent)

    by_result, _ = rk.fork(parent, "plan", rk.Edits(result="lost"), agent=agent, store=store)
    by_name, _ = rk.fork(parent, "plan", rk.Edits(result="lost", tool="look_up"), agent=agent, store=store)

    for fork_id in (by_result, by_name):
        assert [call.result for call in store.load(fork_id).tool_calls][:2] == ["order 7: paid", "lost"]


def test_traffic_beside_a_call_is_meant_only_by_its_name_or_where_there_is_nothing_else(store: rk.Store) -> None:
    def fetch(page: int) -> str:
        scope = current()
        assert scope is not None
        call = pending_call("exchange", f"GET /{page}", canonical({}), scope, time.time(), "none")
        return str(through(scope, call, lambda: "page", given))

    def agent(_: str) -> list[str]:
        with rk.record("pages") as run:
            with run.step("both"):
                both = [look_up(1), fetch(1)]
            with run.step("one"):
                return [*both, fetch(2)]

    with rk.record("pages", input="q", store=store) as run:
        run.output = agent("q")

    outputs = [
        rk.fork(run.id, step, edits, agent=agent, store=store)[1].output
        for step, edits in (
            ("both", rk.Edits(result="x")),
            ("both", rk.Edits(result="x", tool="GET /1")),
            ("one", rk.Edits(result="x")),
        )
    ]
    assert outputs == [["x", "page", "page"], ["order 1: paid", "x", "page"], ["order 1: paid", "page", "x"]]


def test_the_answer_may_be_null(store: rk.Store) -> None:
    agent = support(ask)
    parent = recorded(store, agent)

    fork_id, _ = rk.fork(parent, "plan", rk.Edits(answer=None), agent=agent, store=store)

    assert model_answers(store, fork_id)[0] is None


@pytest.mark.parametrize(
    ("step", "edits", "words"),
    [
        ("act", {"answer": "x"}, "act makes no call of a model; its calls: tool `refund`"),
        (
            "plan",
            {"answer": "x", "tool": "claude"},
            "no call of a model named 'claude'; its calls: tool `look_up`, mod",
        ),
        ("plan", {"result": "x", "tool": "send"}, "plan makes no call named 'send'"),
        ("close", {"arguments": {}}, "close makes no call of a tool; its calls: model `gpt`"),
        ("plan", {"answer": 1, "result": 2}, "result and answer change the same call"),
        ("plan", {"tool": "gpt"}, "says which call is changed, but not how"),
    ],
)
def test_a_change_that_fits_no_call_is_said_and_nothing_is_made(
    store: rk.Store, step: str, edits: dict[str, Any], words: str
) -> None:
    agent = support(ask)
    parent = recorded(store, agent)

    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        rk.fork(parent, step, rk.Edits(**edits), agent=agent, store=store)

    assert len(store.headers()) == 1
    assert ASKED == []


def test_a_call_inside_a_tool_cannot_be_changed_alone(store: rk.Store) -> None:
    @rk.tool
    def assist(question: str) -> str:
        return ask(question)

    def agent(question: str) -> str:
        with rk.record("nested") as run, run.step("only"):
            return assist(question)

    with rk.record("nested", input="order", store=store) as run:
        run.output = agent("order")

    with pytest.raises(UsageError, match="`gpt` is called inside `assist`, which is served as a whole"):
        rk.fork(run.id, "only", rk.Edits(answer="x"), agent=agent, store=store)
    _, journey = rk.fork(run.id, "only", rk.Edits(result="x"), agent=agent, store=store)
    assert journey.output == "x"


def test_a_call_inside_a_tool_is_a_step_that_cannot_be_changed_alone_where_no_steps_are_marked(store: rk.Store) -> None:
    @rk.tool
    def outer() -> str:
        return look_up(1)

    with rk.record("nested", input=None, store=store) as run:
        run.output = outer()

    with pytest.raises(UsageError, match="`look_up` is called inside `outer`"):
        rk.fork(run.id, "step_2", rk.Edits(result="x"), agent=outer, store=store)


def test_a_call_that_was_not_made_again_is_told(store: rk.Store) -> None:
    agent = support(ask)
    parent = recorded(store, agent)

    _, journey = rk.fork(parent, "plan", rk.Edits(answer="x"), agent=lambda _: look_up(7), store=store)

    assert [deviation.kind for deviation in journey.deviations] == ["unmade"]
    assert "`gpt` was not changed" in journey.deviations[0].text


def test_what_a_fork_was_called_with_is_in_its_log_and_it_can_be_forked_again(store: rk.Store) -> None:
    agent = support(ask)
    parent = recorded(store, agent)
    edits = rk.Edits(arguments={"order": 9})

    first, _ = rk.fork(parent, "act", edits, agent=agent, store=store, live=["refund"])
    second = rk.resume(first, "close", agent=agent, store=store)

    assert [call.arguments for call in store.load(first).tool_calls] == [{"order": 7}, {"order": 8}, {"order": 9}]
    assert (second.status, second.deviations) == (RunStatus.SUCCESS, ())
    parting = rk.compare(parent, first, store=store).first
    assert parting is not None
    assert (parting.kind.value, [str(d) for d in parting.differences]) == (
        "tool_arguments",
        ["changed   $.order: 7 → 9"],
    )


AGENT = """
import time
import replaykit as rk
from replaykit.model.values import canonical, decode
from replaykit.seam.scope import PendingCall, current, pending_call
from replaykit.seam.through import through

def ask(prompt):
    scope = current()
    call = pending_call("llm_call", "gpt", canonical({"prompt": prompt}), scope, time.time(), "none")
    return through(scope, call, lambda: "yes", lambda outcome: decode(outcome.result_json))

@rk.tool(effects="none")
def note(text):
    return text

def agent(question):
    with rk.record("asking") as run, run.step("think"):
        note(question)
        return ask(question)
"""


def test_the_answer_is_given_on_the_command_line(own_directory: Path, monkeypatch: Any, capsys: Any) -> None:
    name = f"asking_{own_directory.name}".replace("-", "_")
    (own_directory / f"{name}.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(own_directory))
    with rk.record("asking", input="really?") as run:
        run.output = __import__(name).agent("really?")
    fork = ["fork", "asking", "--step", "think", "--agent", f"{name}:agent"]

    for change in (["--response", '"no"'], ["--response", "no"], ["--result", "no", "--tool", "gpt"]):
        assert cli([*fork, *change, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["output"] == "no"
    assert cli(["compare", "asking", "asking@think"]) == 1
    assert capsys.readouterr().out.splitlines()[:4] == [
        "differs at think (event 1): answer of gpt",
        "  asking        gpt(prompt='really?') → 'yes'",
        "  asking@think  gpt(prompt='really?') → 'no'",
        "  changed   $.result: 'yes' → 'no'",
    ]
    assert cli([*fork, "--response", "no", "--result", "yes"]) == 2
    assert "result and answer change the same call" in capsys.readouterr().err
    assert cli([*fork, "--tool", "gpt"]) == 2


# Over the wire


def chat(prompt: str) -> bytes:
    """Ask a model over HTTP; the server is scripted, the bytes are those of its API."""
    request = HttpRequest(
        method="POST",
        url="https://api.example.test/v1/chat/completions",
        headers=(("content-type", "application/json"),),
        body=canonical({"model": "gpt", "messages": [{"role": "user", "content": prompt}]}),
    )
    here = listening(request.url)
    assert here is not None
    call = HttpCall(here, request)
    if call.served is not None:
        failure = call.served.failure({})
        if failure is not None:
            raise failure
        return b"".join(call.served.chunks)
    message = {"role": "assistant", "content": answer_to(prompt)}
    body = canonical({"id": "c1", "model": "gpt", "choices": [{"message": message, "finish_reason": "stop"}]})
    with call.live():
        call.answered(200, [("content-type", "application/json"), ("content-length", str(len(body)))])
        call.chunk(body)
        call.ended()
    return body


def ask_over_http(prompt: str) -> str:
    return str(json.loads(chat(prompt))["choices"][0]["message"]["content"])


def test_an_answer_over_the_wire_is_written_as_its_api_writes_it(store: rk.Store) -> None:
    agent = support(ask_over_http)
    parent = recorded(store, agent)
    assert rk.resume(parent, "act", agent=agent, store=store).deviations == ()

    fork_id, journey = rk.fork(parent, "plan", rk.Edits(answer="be kind"), agent=agent, store=store)

    assert journey.output == "said 'be kind'"
    changed = store.load(fork_id).llm_calls[0]
    assert changed.result["content"] == "be kind"
    assert json.loads("".join(changed.items or []))["id"] == "c1", "what the answer does not speak of is as it was"
    assert changed.wire is not None
    assert "content-length" not in dict(changed.wire.headers)
    first = rk.compare(parent, fork_id, store=store).first
    assert first is not None
    assert first.text == "answer of gpt"
    assert "$.result.content" in [difference.path for difference in first.differences]


def test_an_answer_over_the_wire_may_call_tools_fail_or_be_given_byte_by_byte(store: rk.Store) -> None:
    agent = support(ask_over_http)
    parent = recorded(store, agent)
    whole = json.dumps({"choices": [{"message": {"content": "bytes"}}]})

    calls = rk.Edits(answer={"content": "see", "tool_calls": [{"name": "look_up", "arguments": {"order": 1}}]})
    by_message, _ = rk.fork(parent, "plan", calls, agent=agent, store=store)
    _, by_bytes = rk.fork(parent, "plan", rk.Edits(answer=[whole[:9], whole[9:]]), agent=agent, store=store)
    error = rk.Edits(error=ErrorSpec(type="TimeoutError", message="slow"), tool="gpt")
    _, failed = rk.fork(parent, "plan", error, agent=agent, store=store)

    assert store.load(by_message).llm_calls[0].result["tool_calls"][0]["name"] == "look_up"
    assert by_bytes.output == "said 'bytes'"
    assert failed.error == "TimeoutError: slow"


@pytest.mark.parametrize(
    ("answer", "words"),
    [({"says": "x"}, "not a model's answer"), ([1], "texts or bytes"), (7, "not a model's answer")],
)
def test_what_no_api_can_answer_is_refused_before_anything_is_made(store: rk.Store, answer: Any, words: str) -> None:
    agent = support(ask_over_http)
    parent = recorded(store, agent)

    with pytest.raises(UsageError, match=words):
        rk.fork(parent, "plan", rk.Edits(answer=answer), agent=agent, store=store)

    assert len(store.headers()) == 1
