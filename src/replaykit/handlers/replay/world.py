"""The world of a replay."""

# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.

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
    """Additional context for the agent."""
    calls: tuple[AnyEvent, ...] = ()
    rules: MatchRules = MatchRules()
    tools: dict[str, ToolMode] = {}
    models: ToolMode = ToolMode.RECORDED
    pins: Pins = Pins()
    not_held: tuple[str, ...] = ()
    """Randomness that the recording could not control; see `Chance.not_held`."""
    held_up_s: float = 0.0
    """See `Chance.held_up_s`."""
    after_calls_s: float = 0.0
    """See `Chance.after_calls_s`."""
    changed_files: tuple[ChangedFile, ...] = ()
    """Files that the recorded run changed, and that a replay finds changed."""
    chaos: ChaosPlan | None = None
    """Faults injected between the agent and what it calls."""
    tie_picks: tuple[int, ...] = ()
    """Choices between nearly simultaneous events; see `Ties`."""
    source_format: str = ""
    """The format of the original trace, if imported."""
    notes_sources: bool = False
    """True if the run should note which taped call answered each call; see `Call.source`."""
    run_id: str | None = None
    """The recorded run that this world was made from."""
    writable: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""

    @property
    def is_live(self) -> bool:
        """Whether calls may happen for real."""
        return self.rules.on_miss is OnMiss.LIVE or ToolMode.LIVE in (self.models, *self.tools.values())

    def mode_of(self, call: Call) -> ToolMode:
        """Return how this call is answered."""
        if isinstance(call, LlmCall):
            return self.models
        return self.tools.get(call.name, self.tools.get("*", ToolMode.RECORDED))


def is_closed(world: World) -> bool:
    """Return whether nothing in this world is live, so that every connection is blocked."""
    return not world.is_live and not world.rules.network
