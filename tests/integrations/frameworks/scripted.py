"""What the tests of all frameworks share: the scripted model of the examples, two tools, and a run told twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import replaykit as rk
from replaykit.model.events import ToolCall
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.seam.scope import TOOL, PendingCall, RunSession

EXAMPLES = Path(__file__).parents[3] / "examples" / "frameworks"


def _loaded(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ScriptedModel = _loaded(EXAMPLES / "scripted_model.py").ScriptedModel
ANSWER = "It is sunny in Paris é and noon CET."
CALLS = [("get_weather", {"city": "Paris é"}), ("get_time", {"zone": "CET"})]


@dataclass
class Tools:
    """Two tools that count how often they really run."""

    ran: list[str] = field(default_factory=list)

    def get_weather(self, city: str) -> str:
        """The weather of a city."""
        self.ran.append("get_weather")
        return f"sunny in {city}"

    def get_time(self, zone: str) -> str:
        """The time in a zone."""
        self.ran.append("get_time")
        return f"noon {zone}"


@dataclass
class Told:
    """What an agent said when it was recorded, and when it was replayed with the model gone."""

    recorded: Any
    replayed: Any
    trace: TraceRun
    deviations: list[Deviation]
    connections: int  # made while replaying

    @property
    def tools(self) -> list[ToolCall]:
        return [event for event in self.trace.events if isinstance(event, ToolCall)]


def load(run_id: str) -> TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


def told_twice(agent: Callable[[str], Any], turns: Any = None) -> Told:
    """The agent, given the model's address, recorded and then replayed without the model."""
    with ScriptedModel(*([] if turns is None else [turns])) as model, rk.record("agent") as run:
        recorded = agent(model.url)
    made = model.connections
    assert made, "the model was asked"
    trace = load(run.id)
    with rk.replaying(rk.Tape.of(trace)) as replayer:
        replayed = agent(model.url)
    # Which of two threads went on first is a matter of chance, and decides nothing here.
    # A busy machine that holds up the recording leaves doubts, which change nothing here.
    deviations = [one for one in replayer.all_deviations() if one.kind not in ("unordered", "undecided")]
    return Told(recorded, replayed, trace, deviations, model.connections - made)


class Watching:
    """A handler that serves nothing, and sees every tool call; a fork's other arguments are `override`."""

    def __init__(self, override: Mapping[str, Any] | None = None) -> None:
        self.override = override
        self.effects: dict[str, str] = {}

    def serve(self, call: PendingCall) -> None:
        if call.kind == TOOL:
            self.effects[call.name] = call.effects
            call.override = None if self.override is None else dict(self.override)

    def settle(self, *_: Any) -> None: ...


def effects_of(agent: Callable[[str], Any]) -> dict[str, str]:
    """What the seam is told about the effects of each tool that the agent calls."""
    watching = Watching()
    with ScriptedModel() as model, RunSession(watching).active():  # type: ignore[arg-type]
        agent(model.url)
    return watching.effects


def told_with_other_arguments(agent: Callable[[str], Any], turns: Any, override: Mapping[str, Any]) -> Any:
    """What the agent says when a fork wants other arguments tried than the model's."""
    with ScriptedModel(turns) as model, RunSession(Watching(override)).active():  # type: ignore[arg-type]
        return agent(model.url)


def assert_replayed_whole(told: Told, tools: Tools, answer: str = ANSWER) -> None:
    """Same answer, no tool run again, nothing asked of the model, and a trace that reads well."""
    assert told.recorded == told.replayed == answer
    assert sorted(tools.ran) == ["get_time", "get_weather"], "each once, when recorded"
    assert told.deviations == []
    assert told.connections == 0
    assert sorted((call.name, call.arguments) for call in told.tools) == sorted(CALLS)
    assert sorted(call.result for call in told.tools) == ["noon CET", "sunny in Paris é"]
    assert len(told.trace.llm_calls) == 2
    assert told.trace.llm_calls[-1].result["content"] == answer
