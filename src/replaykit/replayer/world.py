"""What an agent meets in a replay."""

from __future__ import annotations

from msgspec import Struct

from replaykit.model.events import AnyEvent
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.pins import Pins
from replaykit.model.values import NULL, Raw


class World(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input, the recorded calls, and the rules."""

    case_id: str
    input_json: Raw = NULL
    calls: tuple[AnyEvent, ...] = ()
    rules: MatchRules = MatchRules()
    tools: dict[str, ToolMode] = {}
    models: ToolMode = ToolMode.RECORDED
    pins: Pins = Pins()
    run_id: str | None = None
    """The recorded run it is made of."""
