"""smolagents: the agent that calls tools and the one that writes code, with the real OpenAI client."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents")
pytest.importorskip("openai")

import PIL.Image
from smolagents import CodeAgent, OpenAIServerModel, Tool, ToolCallingAgent, tool
from smolagents.agent_types import AgentImage
from tests.integrations.frameworks.scripted import ANSWER, CALLS, EXAMPLES, ScriptedModel, Tools, load, told_twice

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.integrations import smolagents
from replaykit.seam.scope import current

FINAL = ("final_answer", {"answer": ANSWER})
CODE = """Thought: I look.
<code>
weather = get_weather("Paris é")
final_answer(f"It is {weather} and {get_time(zone='CET')}.")
</code>"""


class Weather(Tool):
    """A tool that is a class, and loads something before its first call."""

    name = "get_weather"
    description = "The weather of a city."
    inputs = {"city": {"type": "string", "description": "The city."}}
    output_type = "string"

    def __init__(self, own: Tools) -> None:
        self.own = own
        super().__init__()

    def setup(self) -> None:
        self.own.ran.append("setup")
        self.is_initialized = True

    def forward(self, city: str) -> str:
        return self.own.get_weather(city)


def plain(own: Tools) -> list[Any]:
    @tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: The city.
        """
        return own.get_weather(city)

    @tool
    def get_time(zone: str) -> str:
        """The time in a zone.

        Args:
            zone: The zone.
        """
        return own.get_time(zone)

    return [get_weather, get_time]


def asked(tools: list[Any], url: str, kind: type = ToolCallingAgent, steps: int = 3, **options: Any) -> Any:
    model = OpenAIServerModel("scripted", api_base=f"{url}/v1", api_key="none")
    try:
        return kind(tools=tools, model=model, verbosity_level=0, **options).run("How is Paris?", max_steps=steps)
    finally:
        model.client.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_is_recorded_and_served(stream: bool) -> None:
    own = Tools()
    wrapped = smolagents.tools(plain(own))

    told = told_twice(lambda url: asked(wrapped, url, stream_outputs=stream), [CALLS, [FINAL]])

    assert told.recorded == told.replayed == ANSWER
    assert sorted(own.ran) == ["get_time", "get_weather"]
    assert told.deviations == []
    assert told.connections == 0
    assert sorted((call.name, call.arguments) for call in told.tools) == sorted(CALLS)
    assert sorted(call.result for call in told.tools) == ["noon CET", "sunny in Paris é"]
    assert len(told.trace.llm_calls) == 2


def test_an_agent_that_writes_code_is_recorded_and_served() -> None:
    own = Tools()
    wrapped = smolagents.tools(plain(own))

    def agent(url: str) -> Any:
        return asked(wrapped, url, CodeAgent)

    with ScriptedModel(answer=lambda _: CODE) as model, rk.record("code") as run:
        assert agent(model.url) == ANSWER
    trace, made = load(run.id), model.connections
    with rk.replaying(rk.Tape.of(trace)) as replayer:
        assert agent(model.url) == ANSWER

    assert own.ran == ["get_weather", "get_time"]
    assert replayer.deviations == []
    assert model.connections == made
    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [
        (*CALLS[0], "sunny in Paris é"),
        (*CALLS[1], "noon CET"),
    ]
    assert len(trace.llm_calls) == 1


def test_a_tool_that_fails_fails_again_without_being_run() -> None:
    ran = []

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: The city.
        """
        ran.append(city)
        raise LookupError(f"no station in {city}")

    wrapped = smolagents.tools([get_weather])
    told = told_twice(lambda url: asked(wrapped, url, steps=1), [CALLS[:1]])

    assert told.recorded == told.replayed == "It is ."
    assert ran == ["Paris é"]
    assert told.deviations == []
    (call,) = told.tools
    assert (call.name, call.error.type, call.error.message) == ("get_weather", "LookupError", "no station in Paris é")
    assert "LookupError: no station in Paris é" in str(told.trace.llm_calls[1].arguments), "what the model was told"


def test_without_a_run_nothing_changes() -> None:
    own = Tools()
    tools = plain(own)
    wrapped = smolagents.tools(tools)

    with ScriptedModel([CALLS, [FINAL]]) as model:
        assert asked(wrapped, model.url) == asked(tools, model.url) == ANSWER
    assert len(own.ran) == 4
    assert [each.to_code_prompt() for each in wrapped] == [each.to_code_prompt() for each in tools]
    for each in (wrapped[0], tools[0]):
        with pytest.raises(TypeError, match="takes"):
            each("Bern", "Rome")
        with pytest.raises(TypeError, match="multiple values"):
            each("Bern", city="Rome")


def test_the_source_of_a_tool_is_its_own_for_executors_elsewhere() -> None:
    @tool
    def upper(text: str) -> str:
        """Shouts.

        Args:
            text: What to shout.
        """
        return text.upper()

    assert smolagents.wrap(upper).to_dict() == upper.to_dict()


def test_what_a_tool_loads_is_not_loaded_where_it_is_served() -> None:
    own = Tools()

    def called() -> str:
        return smolagents.wrap(Weather(own))(city="Bern")

    with rk.record("loading") as run:
        assert called() == "sunny in Bern"
    with rk.replaying(rk.Tape.of(load(run.id))):
        assert called() == "sunny in Bern"

    assert own.ran == ["setup", "get_weather"]


@pytest.mark.parametrize("kind", [PIL.Image.Image, AgentImage])
def test_images_are_recorded_as_png_and_given_back_as_images(kind: type) -> None:
    seen = []

    @tool
    def darker(image: Any) -> Any:
        """Makes an image darker.

        Args:
            image: The image.
        """
        seen.append(image)
        made = image.point(lambda value: value // 2)
        return AgentImage(made) if kind is AgentImage else made

    darker.output_type = "image"
    given, wrapped = PIL.Image.new("RGB", (2, 3), (200, 100, 50)), smolagents.wrap(darker)

    with rk.record("images") as run:
        recorded = wrapped(given)
    trace = load(run.id)
    with rk.replaying(rk.Tape.of(trace)) as replayer:
        served = wrapped(given.copy())
        as_agents_have_it = smolagents.wrap(darker)

    assert seen == [given]
    assert seen[0] is given, "the tool gets the object itself"
    assert isinstance(served, AgentImage) == (kind is AgentImage)
    assert pixels(served) == pixels(recorded) == [(100, 50, 25)] * 6
    assert replayer.deviations == []
    (call,) = trace.tool_calls
    assert call.result["image"] == ("AgentImage" if kind is AgentImage else "Image")
    assert call.arguments["image"]["png"].startswith("iVBORw0KGgo")
    assert as_agents_have_it.output_type == "image"


def pixels(image: Any) -> list[Any]:
    raw = image.to_raw() if isinstance(image, AgentImage) else image
    return [raw.getpixel((x, y)) for y in range(raw.height) for x in range(raw.width)]


def test_data_that_says_it_is_png_and_is_not_is_refused() -> None:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (1, 1)).save(buffer, format="GIF")

    with pytest.raises(PIL.UnidentifiedImageError):
        smolagents._from_recorded({"image": "Image", "png": base64.b64encode(buffer.getvalue()).decode()})


def test_what_a_call_does_to_the_world_is_said_by_its_name() -> None:
    @tool
    def look() -> str:
        """Looks."""
        return str(current().call.effects)

    @tool
    def touch() -> str:
        """Touches."""
        return str(current().call.effects)

    with rk.record("effects"):
        assert [each() for each in smolagents.tools([look, touch], effects={"look": "none"})] == ["none", "external"]
    with pytest.raises(UsageError, match="external"):
        smolagents.wrap(touch, effects={"touch": "externel"})


def test_the_example_says_the_same_twice(own_directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "smolagents_agent.py"], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    recorded, ran, replayed, since = done.stdout.splitlines()[-4:]
    assert (
        recorded.removeprefix("recorded: ")
        == replayed.removeprefix("replayed: ")
        == "It is sunny in Paris and noon CET."
    )
    assert (ran, since) == ("tools that ran: 2", "tools that ran since: 0")
