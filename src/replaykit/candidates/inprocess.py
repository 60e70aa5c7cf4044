"""Candidates in this process: a Python callable, and a recorded run that repeats its calls.

The recorded run needs no agent, yet exercises everything that a replay relies on: fixtures, redaction, matching and
signatures. If a case does not reproduce the failure for its own recording, it says nothing about an agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from replaykit.candidates.agent_run import AgentCall, AgentEntry
from replaykit.candidates.attempt import Attempt, served_from
from replaykit.candidates.worlds import calls_of, world_of
from replaykit.cases.case import ReplayCase
from replaykit.cases.proof import RECORDED_RUN
from replaykit.errors import ReplayKitError
from replaykit.formats.core.labels import as_it_ended
from replaykit.handlers.replay.keys import key_of
from replaykit.model.compact_run import large_values
from replaykit.model.events import Call, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Raw, dumps
from replaykit.seam.scope import Outcome, RunSession, Scope, pending_call


class CallableCandidate:
    """An agent function, called in this process."""

    def __init__(self, agent: Callable[..., Any], *, calls: Iterable[Call] | None = None) -> None:
        self.label = getattr(agent, "__qualname__", type(agent).__qualname__)
        self._entry = AgentEntry(agent, self.label)
        self._calls = None if calls is None else tuple(calls)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Call the function once."""
        world = world_of(case, self._calls)
        if refused := self._entry.refusal(world):
            return Attempt(reason=refused)
        call = AgentCall(world)
        run = self._entry.run(call, world)
        deviations = self._entry.deviations(call, world)
        evidence = served_from(world, run, deviations)
        return Attempt(
            run=run,
            deviations=deviations,
            evidence=evidence,
            isolation=call.replayer.isolation,
            keeps_hashes=True,
        )


class RecordedCandidate:
    """A recorded run that acts as the agent that made it."""

    label = RECORDED_RUN

    def __init__(self, run: TraceRun) -> None:
        self._run = as_it_ended(run)  # signatures match what the agent did, not a label that called it a failure

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Repeat the recorded calls in the case's world, with the recorded ending."""
        calls = list(calls_of(case, held=large_values(self._run.events)))
        world = world_of(case, calls)
        replayer = AgentCall(world).replayer
        session = RunSession(replayer)
        if case.tape is None:
            taped = {call.seq: call.request_json for call in calls}
        else:
            taped = {}
        tools = {call.seq for call in self._run.calls if isinstance(call, ToolCall)}
        for event in self._run.events:
            if not isinstance(event, Call):
                replayer.keep(event)
            elif event.parent not in tools:  # calls inside a tool do not happen when the tool is served
                # Fixtures are already canonical, and sorting a long conversation is slow, so skip it for unchanged
                # arguments.
                is_canonical = taped.get(event.seq) == event.request_json
                self._ask(session, event if is_canonical else _canonical(event))
        events = tuple(replayer.events())
        run = replace(self._run, events=events, event_count=len(events))
        deviations = tuple(replayer.all_deviations())
        return Attempt(run=run, deviations=deviations, evidence=served_from(world, run, deviations))

    def _ask(self, session: RunSession, recorded: Call) -> None:
        """Repeat one recorded call. The replayer holds what the case answers."""
        scope = Scope(session, path=recorded.path, step=recorded.step, parent=recorded.parent)
        key = key_of(recorded)
        arguments = key if recorded.wire is None else bytes(recorded.request_json)
        call = pending_call(recorded.kind, recorded.name, arguments, scope, recorded.at)
        call.seq, call.key = recorded.seq, key
        try:
            answer = session.handler.serve(call)
        except ReplayKitError:
            return  # the replayer has noted the error, and the verdict reports it
        if answer is None:  # a live call: use its recorded outcome
            session.handler.settle(call, _outcome_of(recorded), recorded.duration_s)


def _canonical(call: Call) -> Call:
    """Return the call with canonical arguments, as the seam freezes them; a trace may order members differently."""
    try:
        arguments = dumps(orjson.loads(bytes(call.request_json)), option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson reads deeper nesting than it writes
        return call
    return replace(call, arguments_json=Raw(arguments), asked_json=ABSENT)


def _outcome_of(call: Call) -> Outcome:
    return Outcome(
        result_json=call.result_json,
        error=call.error,
        items_json=call.items_json,
        complete=call.complete,
        wire=call.wire,
    )
