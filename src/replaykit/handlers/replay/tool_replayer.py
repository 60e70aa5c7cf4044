"""ToolReplayer: query what a tool answered in a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from replaykit.arguments import checked
from replaykit.errors import Unreplayable
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.matching import MatchRules
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import Json, canonical
from replaykit.seam.results import ITEM, ToolValues
from replaykit.seam.scope import TOOL, CallAnswer, RunSession, pending_call
from replaykit.seam.through import through
from replaykit.store.open import StoreLike, open_store


class ToolReplayer:
    """Serve the recorded answers of a run's tools: `ToolReplayer(run_id).replay("search_docs", {"query": "…"})`."""

    @checked("rk.ToolReplayer(run_id)")
    def __init__(self, run_id: str, *, store: StoreLike = None, rules: MatchRules | None = None) -> None:
        with open_store(store, read_only=True) as source:
            run = source.load(run_id)
        self._scope = RunSession(Replayer(Tape.of(run), rules)).root

    @checked('tools.replay("search_docs", {"query": "why?"})')
    def replay(self, tool: str, arguments: Mapping[str, Json] | None = None) -> Json:
        """Return the tool's recorded result for these arguments, or raise its exception. A miss raises `Divergence`."""
        call = pending_call(TOOL, tool, canonical(dict(arguments or {})), self._scope, time.time())
        return through(self._scope, call, lambda: _not_live(tool), partial(_give, ToolValues(tool, None)))


def _give(values: ToolValues, outcome: CallAnswer) -> Json:
    if outcome.items_json is None or is_raised(outcome):
        return values.answer(outcome)
    return [values.give(item, ITEM) for item in outcome.items_json]


def _not_live(tool: str) -> Json:
    raise Unreplayable(f"`{tool}` is not on the tape, and a ToolReplayer has no way to call it")
