"""The real SDKs under chaos: what they make of each fault of a model, live and from a tape, streamed and whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import anyio
import openai
import pytest
from tests.integrations.fake_models import FakeModels

import replaykit as rk
from replaykit.candidates.agent_run import AgentCall
from replaykit.handlers.chaos.handler import Chaos
from replaykit.handlers.recording.recorder import Recorder
from replaykit.handlers.replay.world import World
from replaykit.model.faults import ChaosPlan, Direction, Drift, ModelFault, ModelTrouble
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.seam.scope import RunSession

# What the SDKs have to warn each other of is none of our business.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "UserWarning")]

WEATHER = "sunny today and warm and dry all week long"
SAID = f"It is {WEATHER}."
OPENAI: list[Any] = [{"role": "user", "content": "hi"}]
ANTHROPIC: list[Any] = [{"role": "user", "content": "hi"}]
ASKED: list[Any] = [{"role": "tool", "tool_call_id": "x", "content": WEATHER}]
TOLD: list[Any] = [{"type": "tool_result", "tool_use_id": "x", "content": WEATHER}]

Agent = Callable[[str], Any]


class Sdk:
    """One SDK: asked for a whole answer or a stream, awaited or not."""

    def __init__(self, name: str, url: str) -> None:
        self.api, self.streamed, self.way = name.split("-")
        self.url = url
        self.errors: Any = openai if self.api == "openai" else anthropic

    def agent(self, *, tools: bool = False, **options: Any) -> Agent:
        """An agent that answers with the text, the tools that it is to call, and why the model ended."""
        ask = self._openai if self.api == "openai" else self._anthropic
        return lambda _: ask(tools, {"api_key": "-", **options})

    def failing(self, error: str, **options: Any) -> Agent:
        """The same, which answers with the status of the SDK's own error."""
        agent = self.agent(**options)

        def run(given: str) -> Any:
            try:
                return _done(agent(given))
            except getattr(self.errors, error) as caught:
                return [error, getattr(caught, "status_code", None)]

        return run

    def _openai(self, tools: bool, options: dict[str, Any]) -> Any:
        asked = {"model": "small", "messages": OPENAI if tools else [*OPENAI, *ASKED], "stream": self._streams}
        base = {"base_url": f"{self.url}/v1", **options}
        if self.way == "plain":
            with openai.OpenAI(**base) as client:
                told = client.chat.completions.create(**asked)
                return _of_chunks(list(told)) if self._streams else _of_choice(told.choices[0])

        async def ask() -> Any:
            async with openai.AsyncOpenAI(**base) as client:
                told = await client.chat.completions.create(**asked)
                if self._streams:
                    return _of_chunks([chunk async for chunk in told])
                return _of_choice(told.choices[0])

        return ask()

    def _anthropic(self, tools: bool, options: dict[str, Any]) -> Any:
        messages = ANTHROPIC if tools else [{"role": "user", "content": TOLD}]
        asked = {"model": "small", "max_tokens": 99, "messages": messages}
        base = {"base_url": self.url, **options}
        if self.way == "plain":
            with anthropic.Anthropic(**base) as client:
                if not self._streams:
                    return _of_message(client.messages.create(**asked))
                with client.messages.stream(**asked) as stream:
                    return _of_message(stream.get_final_message())

        async def ask() -> Any:
            async with anthropic.AsyncAnthropic(**base) as client:
                if not self._streams:
                    return _of_message(await client.messages.create(**asked))
                async with client.messages.stream(**asked) as stream:
                    return _of_message(await stream.get_final_message())

        return ask()

    @property
    def _streams(self) -> bool:
        return self.streamed == "stream"

    @property
    def cut(self) -> str:
        """How the API says that an answer was too long."""
        return "length" if self.api == "openai" else "max_tokens"


def _of_choice(choice: Any) -> list[Any]:
    calls = [call.function.arguments for call in choice.message.tool_calls or ()]
    return [choice.message.content or "", calls, choice.finish_reason]


def _of_chunks(chunks: list[Any]) -> list[Any]:
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    calls: dict[int, str] = {}
    for choice in choices:
        for call in choice.delta.tool_calls or ():
            calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    return [text.strip(), list(calls.values()), reasons[-1]]


def _of_message(message: Any) -> list[Any]:
    texts = [block.text for block in message.content if block.type == "text"]
    calls = [str(block.input) for block in message.content if block.type == "tool_use"]
    return ["".join(texts), calls, message.stop_reason]


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels() as models:
        yield models


@pytest.fixture(
    params=[
        f"{api}-{kind}-{way}"
        for api in ("openai", "anthropic")
        for kind in ("whole", "stream")
        for way in ("plain", "awaited")
    ]
)
def sdk(request: pytest.FixtureRequest, models: FakeModels) -> Sdk:
    return Sdk(request.param, models.url)


def live(agent: Agent, plan: ChaosPlan | None = None) -> TraceRun:
    rules = MatchRules(network=("*",))
    world = World(case_id="x", tools={"*": ToolMode.LIVE}, models=ToolMode.LIVE, rules=rules, chaos=plan)
    return AgentCall(world).run(agent)


def both(agent: Agent, plan: ChaosPlan, models: FakeModels) -> TraceRun:
    """The run in a live world; the same comes from a tape, and then from the run's own tape without chaos."""
    calm = live(agent)
    assert calm.status is RunStatus.SUCCESS, calm.error
    run = live(agent, plan)
    asked = len(models.asked)
    taped = AgentCall(World(case_id="x", calls=calm.events, chaos=plan)).run(agent)
    again = AgentCall(World(case_id="x", calls=run.events)).run(agent)
    assert len(models.asked) == asked
    assert (taped.output, taped.error) == (run.output, run.error)
    assert (again.output, again.error) == (run.output, run.error)
    assert faults(taped) == faults(run)
    return run


def plan_of(mode: ModelTrouble, **options: Any) -> ChaosPlan:
    return ChaosPlan(llm_faults=(ModelFault(mode=mode, **options),))


def faults(run: TraceRun) -> list[tuple[str, ...]]:
    return [call.faults for call in run.calls]


def test_a_model_that_times_out_is_the_timeout_of_the_sdk(sdk: Sdk, models: FakeModels) -> None:
    run = both(sdk.failing("APITimeoutError", max_retries=0), plan_of(ModelTrouble.TIMEOUT), models)

    assert run.output == ["APITimeoutError", None]
    assert faults(run) == [("model.timeout",)]


def test_a_rate_limit_is_the_error_of_the_sdk_after_its_own_retries_at_once(
    sdk: Sdk, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(anyio, "sleep", pause)
    run = live(sdk.failing("RateLimitError"), plan_of(ModelTrouble.RATE_LIMIT))

    assert len(pauses) == 2
    assert sum(pauses) < 0.1, "the SDK was not told that it may ask again at once"
    assert run.output == ["RateLimitError", 429]
    assert faults(run) == [("model.rate_limit",)] * 3
    assert models.asked == []


def test_a_rate_limit_that_passes_is_overcome_by_the_sdk(sdk: Sdk, models: FakeModels) -> None:
    limited = ModelFault(mode=ModelTrouble.RATE_LIMIT, probability=0.5)
    agent = sdk.agent()

    runs = [live(agent, ChaosPlan(seed=seed, llm_faults=(limited,))) for seed in range(8)]

    overcome = next(run for run in runs if faults(run) == [("model.rate_limit",), ()])
    assert overcome.output[0] == SAID
    calm = live(agent)
    seed = runs.index(overcome)
    taped = AgentCall(World(case_id="x", calls=calm.events, chaos=ChaosPlan(seed=seed, llm_faults=(limited,))))
    assert taped.run(agent).output == overcome.output


def test_an_answer_that_is_cut_ends_for_its_length(sdk: Sdk, models: FakeModels) -> None:
    run = both(sdk.agent(), plan_of(ModelTrouble.TRUNCATED, max_tokens=3), models)

    assert run.output == ["It is sunny", [], sdk.cut]


def test_an_empty_answer_says_nothing_and_ends_well(sdk: Sdk, models: FakeModels) -> None:
    run = both(sdk.agent(), plan_of(ModelTrouble.EMPTY), models)

    assert run.output == ["", [], "stop" if sdk.api == "openai" else "end_turn"]


def test_garbage_is_an_answer_like_any_other_to_the_sdk(sdk: Sdk, models: FakeModels) -> None:
    text, calls, _ = both(sdk.agent(), plan_of(ModelTrouble.GARBAGE), models).output

    assert len(text) > 10
    assert not any(word in text for word in WEATHER.split())
    assert calls == []


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        (Drift.FORMAT, '```json\n{"response":"It is'),
        (Drift.TONE, "Please be advised of the following. It is"),
        (Drift.VERBOSITY, f"{SAID} "),
    ],
)
def test_an_answer_of_another_version_is_put_otherwise(
    sdk: Sdk, models: FakeModels, drift: Drift, expected: str
) -> None:
    direction = Direction.FORMAL if drift is Drift.TONE else Direction.EXPAND
    text = both(sdk.agent(), plan_of(ModelTrouble.DRIFT, drift_type=drift, direction=direction), models).output[0]

    assert text.replace("  ", " ").startswith(expected)
    assert len(text) > len(SAID)


def test_a_refusal_takes_the_place_of_the_answer(sdk: Sdk, models: FakeModels) -> None:
    run = both(sdk.agent(), plan_of(ModelTrouble.DRIFT, drift_type=Drift.REFUSAL), models)

    assert "sunny" not in run.output[0]
    assert faults(run) == [("model.refusal_rephrase",)]


def test_the_arguments_of_tools_have_other_names(sdk: Sdk, models: FakeModels) -> None:
    run = both(sdk.agent(tools=True), plan_of(ModelTrouble.DRIFT, drift_type=Drift.FIELD_RENAME), models)

    weather, zone = run.output[1]
    assert "city_value" in weather
    assert "Paris é" in weather
    assert "zone_value" in zone


def test_a_call_of_a_tool_that_is_cut_is_no_whole_call(sdk: Sdk, models: FakeModels) -> None:
    run = live(sdk.agent(tools=True), plan_of(ModelTrouble.TRUNCATED, max_tokens=1))

    weather, zone = run.output[1]
    assert "Paris é" in weather
    assert zone == ("{}" if sdk.api == "anthropic" else '{"zo')
    assert run.output[2] == sdk.cut


def test_chaos_is_recorded_as_it_was_given(sdk: Sdk, models: FakeModels, store: rk.Store) -> None:
    header = RunHeader(id="r1", started_at=1.0)
    writer = store.begin(header)
    session = RunSession(Chaos(Recorder(writer), plan_of(ModelTrouble.TRUNCATED, max_tokens=3)))

    with session.active():
        said = _done(sdk.agent()(""))
    writer.finish(header)

    run = store.load("r1")
    assert said[0] == "It is sunny"
    (call,) = run.calls
    assert (call.result["content"], call.finish_reason, call.faults) == (
        "It is sunny",
        sdk.cut,
        ("model.truncated_response",),
    )
    with rk.replaying(rk.Tape.of(run)) as replayer:
        assert _done(sdk.agent()("")) == said
    assert replayer.deviations == []


def _done(said: Any) -> Any:
    return asyncio.run(said) if asyncio.iscoroutine(said) else said
