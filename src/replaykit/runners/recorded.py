"""The recorded run as a candidate: its own calls, asked once more of the finished case. No agent is needed.

Whatever a replay relies on is exercised on the way: the fixtures as they were written, redaction, matching, and the
signatures. A case whose own recording does not reproduce the failure cannot tell anything about an agent.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import orjson

from replaykit.cases.case import ReplayCase
from replaykit.cases.proof import RECORDED_RUN
from replaykit.errors import ReplayKitError
from replaykit.importers.labels import as_it_ended
from replaykit.model.compact_calls import large_values
from replaykit.model.events import Call, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Raw
from replaykit.replayer.keys import key_of
from replaykit.runners.attempt import Attempt
from replaykit.runners.calling import AgentCall
from replaykit.runners.tape_use import served_from
from replaykit.runners.worlds import calls_of, world_of
from replaykit.seam.scope import Outcome, Scope, Session, pending_call


class RecordedCandidate:
    """A recorded run, acting as the agent that made it."""

    label = RECORDED_RUN

    def __init__(self, run: TraceRun) -> None:
        self._run = as_it_ended(run)  # signatures are of what the agent did, not of the label that called it a failure

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Make the recorded calls in the case's world; the end is the recorded one."""
        world = world_of(case, calls_of(case, held=large_values(self._run.events)))
        replayer = AgentCall(world).replayer
        session = Session(replayer)
        tools = {call.seq for call in self._run.calls if isinstance(call, ToolCall)}
        for event in self._run.events:
            if not isinstance(event, Call):
                replayer.keep(event)
            elif event.parent not in tools:  # the others do not happen where the tool around them is served
                self._ask(session, event)
        events = tuple(replayer.events())
        run = msgspec.structs.replace(self._run, events=events, event_count=len(events))
        deviations = tuple(replayer.all_deviations())
        return Attempt(run=run, deviations=deviations, evidence=served_from(world, run, deviations))

    def _ask(self, session: Session, recorded: Call) -> None:
        """Make one recorded call; what the case says to it is in the replayer."""
        recorded = _canonical(recorded)
        scope = Scope(session, path=recorded.path, step=recorded.step, parent=recorded.parent)
        call = pending_call(recorded.kind, recorded.name, bytes(recorded.request_json), scope, recorded.at)
        call.seq, call.key = recorded.seq, key_of(recorded)
        try:
            answer = session.handler.serve(call)
        except ReplayKitError:
            return  # the replayer has noted it, and the verdict says so
        if answer is None:  # it would be done for real: it was
            session.handler.settle(call, _outcome_of(recorded), recorded.duration_s)


def _canonical(call: Call) -> Call:
    """The call with its arguments as the seam freezes them: a trace may have their members in any order."""
    try:
        arguments = orjson.dumps(orjson.loads(bytes(call.request_json)), option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson reads deeper than it writes
        return call
    return msgspec.structs.replace(call, arguments_json=Raw(arguments), asked_json=ABSENT)


def _outcome_of(call: Call) -> Outcome:
    return Outcome(
        result_json=call.result_json,
        error=call.error,
        items_json=call.items_json,
        complete=call.complete,
        wire=call.wire,
    )
