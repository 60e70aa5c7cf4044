"""Chaos as a handler: it wraps another one, and decides for each call whether a fault strikes it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator

from replaykit.handlers.chaos.chance import Counting, SeededChance, draw, is_like, number_in
from replaykit.handlers.chaos.fault_answers import (
    Change,
    failure,
    hiding,
    instead,
    made_up,
    no_answer,
    of_model,
    of_tool,
    rate_limited,
    rewritten,
    serve_value,
)
from replaykit.model.events import AnyEvent, Call
from replaykit.model.faults import ChaosPlan, ContextAttack, ModelFault, ModelTrouble, ToolFault, ToolTrouble
from replaykit.model.jsonpath import parse_path, values_at
from replaykit.model.values import Json, decode
from replaykit.seam.scope import EXCHANGE, MCP_RESULT, MODEL, TOOL, CallAnswer, Handler, Injected, Outcome, PendingCall
from replaykit.wire.api import ModelApi

Fault = ToolFault | ModelFault | ContextAttack
_JOB = re.compile(r"/~[^/]*#\d+(?=/|$)")
# The strand, kind, name and arguments of a call.
_Known = tuple[str, str, str, bytes | None]


class Chaos:
    """A handler that injects faults: they replace an answer or change it. Other calls go to the wrapped handler.

    A call whose answer a fault replaces never reaches that handler, so nothing is done and nothing leaves the tape.
    `place` tells processes of one run apart, which count for themselves; `recorded` are the calls on the tape.
    """

    def __init__(self, handler: Handler, plan: ChaosPlan, *, place: str = "", recorded: Iterable[Call] = ()) -> None:
        self._handler = handler
        self._plan = plan
        self._place = place
        self._counting = Counting()
        self._earlier = Earlier(recorded)

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return the answer of a fault, or else the wrapped handler's, changed by the faults that strike the call."""
        call.injected = injected = Injected()
        changes: list[tuple[str, Change]] = []
        for fault, chance in self._striking(call):
            outcome = self._replacement(fault, chance, call)
            if outcome is not None:
                # The first fault that replaces the answer ends the search: later ones have nothing left to change.
                return self._answered(call, injected, fault, outcome)
            if isinstance(fault, ToolFault) and fault.mode is ToolTrouble.SLOW:
                injected.faults += (fault.name,)
                self._delay(injected, fault)
            change = self._change(fault, chance, call)
            if change is not None:
                changes.append((fault.name, change))
        if changes or self._keeps_earlier(call):
            injected.alter = lambda answer: self._altered(call, injected, changes, answer)
        return self._handler.serve(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        if call.injected is not None:
            # The log shows an injected delay that nobody had to wait for.
            duration_s += call.injected.delay_s
        self._handler.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        self._handler.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        return self._handler.amend(step, state)

    def _striking(self, call: PendingCall) -> Iterator[tuple[Fault, SeededChance]]:
        """Yield the faults that strike this call, in the plan's order."""
        faults: tuple[Fault, ...] = (*self._plan.tool_faults, *self._plan.llm_faults, *self._plan.injections)
        place, key = self._place, [call.path, call.kind, call.name]
        if call.form == MCP_RESULT:
            # Chance decides which process of a server gets a call, and when: neither may decide about a fault.
            place, key = place.partition("#")[0], [*key, call.arguments.decode()]
        occurrence = self._counting.next(*key)
        for index, fault in enumerate(faults):
            if not _means(fault, call):
                continue
            # Counted whether or not the fault strikes: `after_calls` counts calls, not faults.
            number = number_in(call.path) + self._counting.next(index, call.path)
            chance = draw(self._plan.seed, place, index, *key, occurrence)
            if number >= fault.after_calls and chance.strikes(fault.probability):
                yield fault, chance

    def _replacement(self, fault: Fault, chance: SeededChance, call: PendingCall) -> Outcome | None:
        """Return the outcome without any call; None if the fault changes an answer instead."""
        if isinstance(fault, ToolFault):
            if fault.mode is ToolTrouble.TIMEOUT:
                return no_answer(call, fault.message)
            if fault.mode is ToolTrouble.ERROR:
                return failure(call, fault)
            return None
        if not isinstance(fault, ModelFault):
            return None
        if fault.mode is ModelTrouble.TIMEOUT:
            return no_answer(call, fault.message)
        if fault.mode is ModelTrouble.RATE_LIMIT:
            return rate_limited(call, fault, _api(call))
        invented = made_up(fault, chance)
        if invented is None:
            return None
        return rewritten(invented, Outcome(), call, _api(call))

    def _change(self, fault: Fault, chance: SeededChance, call: PendingCall) -> Change | None:
        if isinstance(fault, ContextAttack):
            return hiding(fault, chance, call)
        if isinstance(fault, ModelFault):
            return of_model(fault, chance, call, _api(call))
        if fault.mode is ToolTrouble.STALE:
            if fault.payload is None:
                return instead(self._earlier.than(call))
            return serve_value(fault.payload, call)
        if fault.mode is ToolTrouble.SLOW:
            return None
        return of_tool(fault, call)

    def _answered(self, call: PendingCall, injected: Injected, fault: Fault, outcome: Outcome) -> Outcome:
        injected.faults += (fault.name,)
        self._delay(injected, fault)
        self._handler.settle(call, outcome, injected.delay_s)
        return outcome

    def _delay(self, injected: Injected, fault: Fault) -> None:
        if isinstance(fault, ContextAttack):
            return
        injected.delay_s += fault.delay_ms / 1000
        if fault.sleep:
            injected.wait_s += fault.delay_ms / 1000

    def _altered(
        self, call: PendingCall, injected: Injected, changes: list[tuple[str, Change]], answer: CallAnswer
    ) -> CallAnswer:
        """Return the answer after all changes, and note the faults that changed it."""
        if self._keeps_earlier(call):
            self._earlier.keep(call, answer)
        for name, change in changes:
            other = change(answer)
            if other is not None:
                answer = other
                injected.faults += (name,)
        return answer

    def _keeps_earlier(self, call: PendingCall) -> bool:
        """True if a later call may be served this answer."""
        return any(fault.mode is ToolTrouble.STALE and _means(fault, call) for fault in self._plan.tool_faults)


def _means(fault: Fault, call: PendingCall) -> bool:
    """True if the fault applies to this call."""
    if isinstance(fault, ModelFault):
        return call.kind == MODEL and is_like(call.name, fault.model)
    if isinstance(fault, ContextAttack):
        return call.kind == TOOL or _is_own_exchange(call)
    if fault.match_url:
        if call.request is None or call.kind != EXCHANGE:
            return False
        return is_like(call.request.url, fault.match_url) and _matches(fault, call)
    if not is_like(call.name, fault.tool) or not (call.kind == TOOL or _is_own_exchange(call)):
        return False
    return _matches(fault, call)


def _is_own_exchange(call: PendingCall) -> bool:
    """True for a request of the agent itself; one made inside a tool call belongs to that call."""
    return call.kind == EXCHANGE and call.request is not None and call.parent is None


def _matches(fault: ToolFault, call: PendingCall) -> bool:
    if not fault.match:
        return True
    arguments = decode(call.arguments)
    for path, expected in fault.match.items():
        if not any(_is(value, expected) for value in values_at(arguments, parse_path(path))):
            return False
    return True


def _is(value: Json, expected: Json) -> bool:
    if isinstance(value, str) and isinstance(expected, str):
        return is_like(value, expected)
    return type(value) is type(expected) and bool(value == expected)


def _api(call: PendingCall) -> ModelApi | None:
    if call.request is None:
        return None
    return call.request.api


class Earlier:
    """The answers so far in a run and on its tape, for stale tools, which repeat an earlier one.

    On a tape, a call gets an answer that had ended when it began, by the recording; otherwise an answer from this run.
    An answer to the same arguments goes before another answer of the same tool.

    "Earlier" must mean the same in every execution. The calls of one strand (a task, job or thread, with all calls
    inside it) have an order, and those of two strands have none. So a run remembers its answers by strand.
    """

    def __init__(self, recorded: Iterable[Call] = ()) -> None:
        self._recorded = list(recorded)
        self._answers: dict[_Known, CallAnswer] = {}
        self._lock = threading.Lock()

    def keep(self, call: PendingCall, answer: CallAnswer) -> None:
        """Remember the answer as it was before any fault."""
        if answer.error is not None or not answer.complete:
            return
        with self._lock:
            for name in _names_of(call):
                self._answers[name] = answer

    def than(self, call: PendingCall) -> Callable[[CallAnswer], CallAnswer | None]:
        """Return a function that finds an older answer than the one it is given."""
        with self._lock:
            exact, same_tool = _names_of(call)
            before = self._answers.get(exact) or self._answers.get(same_tool)

        def older(answer: CallAnswer) -> CallAnswer | None:
            stale = before
            if isinstance(answer, Call):
                stale = self._on_tape(answer) or before
            if stale is None:
                return None
            items, complete = stale.items_json, stale.complete
            return Outcome(result_json=stale.result_json, items_json=items, complete=complete, wire=stale.wire)

        return older

    def _on_tape(self, answer: Call) -> Call | None:
        same_tool = None
        for call in reversed(self._recorded):
            if _is_before(call, answer):
                if bytes(call.request_json) == bytes(answer.request_json):
                    return call
                same_tool = same_tool or call
        return same_tool


def strand_of(path: str) -> str:
    """Return the part of a causal path up to its innermost task, job or thread."""
    end = 0
    for job in _JOB.finditer(path):
        end = job.end()
    return path[:end]


def _names_of(call: PendingCall) -> tuple[_Known, _Known]:
    place = strand_of(call.path), call.kind, call.name
    return (*place, call.arguments), (*place, None)


def _is_before(call: Call, answer: Call) -> bool:
    alike = call.seq < answer.seq and (call.kind, call.name) == (answer.kind, answer.name)
    return alike and call.error is None and call.complete and _had_ended(call, answer)


def _had_ended(call: Call, later: Call) -> bool:
    """True if a recorded call had ended before the other one began; calls without positions are compared by time."""
    if call.span is None or later.span is None:
        return call.at + (call.duration_s or 0.0) <= later.at
    return call.span.end is not None and call.span.end < later.span.begin
