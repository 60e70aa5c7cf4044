"""The world of a replay."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from msgspec import Struct

from replaykit.model.changed_files import ChangedFile
from replaykit.model.events import AnyEvent, Call, LlmCall
from replaykit.model.faults import ChaosPlan
from replaykit.model.matching import MatchRules, OnMiss, ToolMode
from replaykit.model.pins import Pins
from replaykit.model.values import ABSENT, NULL, Raw


class World(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input, the recorded calls, and the rules."""

    case_id: str
    input_json: Raw = NULL
    context_json: Raw = ABSENT
    """Context for the agent besides its input."""
    calls: tuple[AnyEvent, ...] = ()
    rules: MatchRules = MatchRules()
    tools: dict[str, ToolMode] = {}
    models: ToolMode = ToolMode.RECORDED
    pins: Pins = Pins()
    not_held: tuple[str, ...] = ()
    """Chance that the recording could not keep; see `Chance.not_held`."""
    held_up_s: float = 0.0
    """See `Chance.held_up_s`."""
    after_calls_s: float = 0.0
    """See `Chance.after_calls_s`."""
    changed_files: tuple[ChangedFile, ...] = ()
    """Files that the recorded run changed, which a replay finds changed."""
    chaos: ChaosPlan | None = None
    """Faults that come between the agent and what it calls."""
    tie_picks: tuple[int, ...] = ()
    """Picks among things that happened at nearly the same moment; see `Ties`."""
    source_format: str = ""
    """The format of the trace that it is made of, where it was imported."""
    notes_sources: bool = False
    """True where the run is to say which taped call answered each of its calls; see `Call.source`."""
    run_id: str | None = None
    """The recorded run it is made of."""
    writable: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""

    @property
    def is_live(self) -> bool:
        """True when calls may be done for real, whoever they are made to."""
        return self.rules.on_miss is OnMiss.LIVE or ToolMode.LIVE in (self.models, *self.tools.values())

    def mode_of(self, call: Call) -> ToolMode:
        """Return how this call is answered."""
        if isinstance(call, LlmCall):
            return self.models
        return self.tools.get(call.name, self.tools.get("*", ToolMode.RECORDED))


def is_closed(world: World) -> bool:
    """True when nothing in this world is done for real: then no connection is let through."""
    return not world.is_live and not world.rules.network
