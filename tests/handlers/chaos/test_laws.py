"""Laws of chaos: for any plan and any agent, in sequence, in threads and in tasks."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.matrix import examples

import replaykit as rk
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.contracts.contract import ChaosScenario
from replaykit.handlers.chaos.chance import SeededChance
from replaykit.handlers.chaos.fault_answers import hiding, of_tool
from replaykit.handlers.chaos.fault_answers import serve_value as given_instead
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import ToolCall, WireInfo
from replaykit.model.faults import Attack, ChaosPlan, ContextAttack, Strategy, ToolFault, ToolTrouble
from replaykit.model.result import Verdict
from replaykit.model.run import TraceRun
from replaykit.model.values import canonical, decode, raw
from replaykit.seam.scope import MCP_RESULT, Outcome, PendingCall, RunSession, pending_call
from replaykit.trials.chaos import ChaosTrial, ChaosVerdict, run_chaos, save_broken

texts = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
jsons = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
values = jsons | st.binary(max_size=9) | st.tuples(jsons, jsons) | st.sets(st.integers()) | st.just(dt.date(2026, 1, 2))

tool_faults = st.builds(
    ToolFault,
    mode=st.sampled_from(ToolTrouble),
    tool=st.sampled_from(["*", "fetch", "afetch", "*tch", "other"]),
    probability=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    after_calls=st.integers(0, 3),
    match=st.sampled_from([{}, {"$.number": 1}, {"$.nothing": "*"}]),
    error_code=st.sampled_from([0, 400, 503]),
    delay_ms=st.sampled_from([0.0, 5000.0]),
    payload=st.none() | texts | jsons,
)
injections = st.builds(
    ContextAttack,
    type=st.just(Attack.INDIRECT_INJECTION),
    payload=texts,
    payloads=st.lists(texts.filter(bool), max_size=2).map(tuple),
    probability=st.sampled_from([0.0, 0.5, 1.0]),
    after_calls=st.integers(0, 2),
)
attacks = st.builds(
    ContextAttack,
    type=st.sampled_from([attack for attack in Attack if attack is not Attack.INDIRECT_INJECTION]),
    payload=texts,
    probability=st.sampled_from([0.0, 0.5, 1.0]),
    strategy=st.sampled_from(Strategy),
    inject_tokens=st.integers(0, 5),
)
plans = st.builds(
    ChaosPlan,
    seed=st.integers(0, 2**53),
    tool_faults=st.lists(tool_faults, max_size=4).map(tuple),
    context_attacks=st.lists(injections | attacks, max_size=2).map(tuple),
)

calls = st.tuples(st.just("call"), st.integers(0, 2))
awaited = st.recursive(
    calls, lambda inner: st.tuples(st.just("gather"), st.lists(st.lists(inner, max_size=3), max_size=3))
)
programs = st.lists(
    calls
    | st.tuples(st.just("gather"), st.lists(st.lists(awaited, max_size=3), max_size=3))
    | st.tuples(st.just("threads"), st.lists(st.lists(calls, max_size=3), max_size=3)),
    min_size=1,
    max_size=4,
)
"""What an agent does: calls in sequence, some of it in threads or in tasks that are gathered."""


class Program:
    """An agent that does what a program says, and tells what each call gave it. `jitter` is the scheduler's mood."""

    def __init__(self, program: Any, answers: list[Any], jitter: int = 0) -> None:
        self._program = program
        self._jitter = random.Random(jitter)

        @rk.tool
        def fetch(number: int):  # type: ignore[no-untyped-def]
            return answers[number]

        @rk.tool
        async def afetch(number: int):  # type: ignore[no-untyped-def]
            return answers[number]

        self._fetch, self._afetch = fetch, afetch

    def __call__(self, question: str) -> Any:
        return self._in_sequence(self._program)

    def _in_sequence(self, steps: Any) -> list[Any]:
        do = {"call": self._call, "threads": self._threads, "gather": lambda said: asyncio.run(self._gathered(said))}
        return [do[what](said) for what, said in steps]

    def _call(self, number: int) -> Any:
        if self._jitter.random() < 0.3:
            time.sleep(0)
        return _tried(lambda: self._fetch(number))

    def _threads(self, branches: Any) -> list[Any]:
        said: list[Any] = [None] * len(branches)

        def work(index: int) -> None:
            said[index] = self._in_sequence(branches[index])

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(branches))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said

    async def _gathered(self, branches: Any) -> list[Any]:
        return list(await asyncio.gather(*map(self._awaited, branches)))

    async def _awaited(self, steps: Any) -> list[Any]:
        said = []
        for what, step in steps:
            for _ in range(self._jitter.randrange(3)):
                await asyncio.sleep(0)
            if what == "gather":
                said.append(await self._gathered(step))
                continue
            try:
                said.append(["gave", await self._afetch(step)])
            except (TimeoutError, rk.ToolError) as error:
                said.append(["raised", type(error).__name__, str(error)])
        return said


def _tried(call: Callable[[], Any]) -> list[Any]:
    """What a call gave, or how it failed. Any other error is none that an agent may meet."""
    try:
        return ["gave", call()]
    except (TimeoutError, rk.ToolError) as error:
        return ["raised", type(error).__name__, str(error)]


def told(run: TraceRun) -> list[Any]:
    """Everything a run did, by where it was done."""
    return sorted(
        (call.path, call.name, bytes(call.arguments_json), bytes(call.result_json), str(call.error), call.faults)
        for call in run.calls
    )


ANSWERS = st.lists(values, min_size=3, max_size=3)


@given(plan=plans, program=programs, answers=ANSWERS, moods=st.tuples(st.integers(), st.integers()))
@settings(max_examples=examples(50))
def test_the_same_seed_gives_the_same_faults_and_the_same_outcome(
    worlds: Any, plan: ChaosPlan, program: Any, answers: list[Any], moods: tuple[int, int]
) -> None:
    first, second = (worlds.live(Program(program, answers, mood), plan) for mood in moods)

    assert first.error is None, first.error
    assert told(first) == told(second)
    assert canonical(first.output) == canonical(second.output)


@given(plan=plans, program=programs, answers=ANSWERS, moods=st.tuples(st.integers(), st.integers()))
@settings(max_examples=examples(50))
def test_on_a_tape_the_same_seed_gives_the_same_too(
    worlds: Any, plan: ChaosPlan, program: Any, answers: list[Any], moods: tuple[int, int]
) -> None:
    calm = worlds.live(Program(program, answers))

    first, second = (worlds.taped(Program(program, answers, mood), calm.events, plan) for mood in moods)

    assert first.error is None, first.error
    assert told(first) == told(second)
    assert canonical(first.output) == canonical(second.output)


def _never(plan: ChaosPlan) -> ChaosPlan:
    """The plan whose faults have no chance."""
    kinds = {
        name: tuple(msgspec.structs.replace(fault, probability=0.0) for fault in getattr(plan, name))
        for name in ("tool_faults", "context_attacks")
    }
    return msgspec.structs.replace(plan, **kinds)


@given(plan=plans, program=programs, answers=ANSWERS)
@settings(max_examples=examples(40))
def test_a_plan_that_never_strikes_changes_nothing(
    worlds: Any, plan: ChaosPlan, program: Any, answers: list[Any]
) -> None:
    calm = worlds.live(Program(program, answers))
    agent = Program(program, answers)

    for run in (worlds.live(agent, _never(plan)), worlds.taped(agent, calm.events, _never(plan))):
        assert told(run) == told(calm)
        assert canonical(run.output) == canonical(calm.output)


@given(plan=plans, numbers=st.lists(st.integers(0, 2), min_size=1, max_size=6), answers=ANSWERS)
@settings(max_examples=examples(80))
def test_what_is_logged_is_what_was_given(worlds: Any, plan: ChaosPlan, numbers: list[int], answers: list[Any]) -> None:
    program = [("call", number) for number in numbers]
    given_to: list[Any] = []

    class Telling(Program):
        def _call(self, number: int) -> Any:
            given_to.append(super()._call(number))
            return given_to[-1]

    run = worlds.live(Telling(program, answers), plan)

    assert run.error is None, run.error
    logged = [call for call in run.calls if isinstance(call, ToolCall)]
    assert len(logged) == len(given_to) == len(numbers)
    for number, call, (how, *what) in zip(numbers, logged, given_to, strict=True):
        if how == "gave":
            assert canonical(decode(call.result_json)) == canonical(what[0])
            assert call.faults or canonical(what[0]) == canonical(answers[number])
        else:
            assert call.error is not None
            assert (call.error.type, call.error.message) == tuple(what)
            assert call.faults


class _Strict(Program):
    """Fails at the first call that is not answered as it should be."""

    def __init__(self, program: Any, answers: list[Any]) -> None:
        super().__init__(program, answers)
        self._answers = answers

    def __call__(self, question: str) -> Any:
        assert question == "q", "another question"
        for number in (0, 1, 2):
            found = self._fetch(number)
            if canonical(found) != canonical(self._answers[number]):
                raise RuntimeError(f"not what call {number} should give")
        return "fine"


@given(plan=plans, answers=ANSWERS)
@settings(max_examples=examples(40))
def test_a_failure_that_is_saved_fails_again_without_chaos(plan: ChaosPlan, answers: list[Any]) -> None:
    assume(not plan.is_calm)
    agent = _Strict([], answers)
    trial = ChaosTrial(scenarios=(ChaosScenario(name="storm", plan=plan),), inputs=("q",), runs=2)

    result = run_chaos(trial, CallableCandidate(agent))

    broken = [run for run in result.runs if run.verdict is ChaosVerdict.BROKE]
    with tempfile.TemporaryDirectory() as directory:
        saved = save_broken(result, Path(directory))
        assert len(saved) == len(broken)
        for run, place in zip(broken, saved, strict=True):
            again = rk.replay(place, agent)
            assert again.verdict is Verdict.REPRODUCED, again
            assert again.run is not None
            assert run.run is not None
            assert str(again.run.error) == str(run.run.error)


def _pending(form: str = "") -> PendingCall:
    call = pending_call("tool_call", "t", b"{}", RunSession(Replayer(Tape([]))).root, 0.0)
    call.form = form
    return call


bodies = (
    st.binary(max_size=60) | jsons.map(canonical) | st.integers(1, 1200).map(lambda n: b"[" * n + b'"x"' + b"]" * n)
)
changing = [mode for mode in ToolTrouble if mode not in (ToolTrouble.TIMEOUT, ToolTrouble.ERROR, ToolTrouble.SLOW)]


@given(body=bodies, mode=st.sampled_from(changing), payload=st.none() | jsons, kind=st.sampled_from(["", "text/html"]))
@settings(max_examples=examples(200))
def test_no_body_of_a_response_breaks_a_fault(body: bytes, mode: ToolTrouble, payload: Any, kind: str) -> None:
    wire = WireInfo(method="GET", url="http://127.0.0.1/", status=200, headers=(("content-type", kind),))
    try:
        item: Any = body.decode()
    except UnicodeDecodeError:
        item = body
    answer = Outcome(items_json=(raw(item),), wire=wire)
    call, fault = _pending(), ToolFault(mode=mode, payload=payload)
    attack = ContextAttack(type=Attack.INDIRECT_INJECTION, payload="obey")

    changes = [hiding(attack, SeededChance(7), call)]
    changes.append(given_instead(payload, call) if mode is ToolTrouble.STALE else of_tool(fault, call))

    for change in changes:
        changed = change(answer)
        assert changed is None or changed.wire is not None


blocks = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries({"type": st.just("resource"), "resource": st.fixed_dictionaries({"text": texts})})
    | st.just({"type": "image", "data": "AAAA", "mimeType": "image/png"})
    | jsons,
    max_size=4,
)
tool_results = jsons | st.fixed_dictionaries(
    {"content": blocks}, optional={"structuredContent": jsons, "isError": st.booleans(), "_meta": jsons}
)


@given(result=tool_results, mode=st.sampled_from(changing), payload=st.none() | jsons)
@settings(max_examples=examples(200))
def test_what_an_mcp_tool_answers_stays_a_result_of_the_protocol(result: Any, mode: ToolTrouble, payload: Any) -> None:
    answer, call = Outcome(result_json=raw(result)), _pending(MCP_RESULT)
    fault = ToolFault(mode=mode, payload=payload)

    change = given_instead(payload, call) if mode is ToolTrouble.STALE else of_tool(fault, call)
    changed = change(answer)

    if changed is None:
        assert result["isError"]
        return
    told = decode(changed.result_json)
    assert isinstance(told["content"], list)
    before = result.get("structuredContent") if isinstance(result, dict) and "content" in result else None
    if isinstance(before, dict) and mode is not ToolTrouble.STALE:
        assert isinstance(told.get("structuredContent", {}), dict)
