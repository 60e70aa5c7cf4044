"""Chaos as a handler: it stands before another one, and decides for each call whether a fault strikes it."""

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
_Known = tuple[str, str, str, bytes | None]
"""A strand, a kind, a name, and the arguments."""


class Chaos:
    """Behind the seam: faults come in the place of answers, or change them; all else is up to the handler behind it.

    A call that a fault takes the place of does not reach that handler: nothing is done, and nothing is taken from a
    tape. `place` tells processes of one run apart, which count for themselves; `recorded` is what is on the tape.
    """

    def __init__(self, handler: Handler, plan: ChaosPlan, *, place: str = "", recorded: Iterable[Call] = ()) -> None:
        self._handler = handler
        self._plan = plan
        self._place = place
        self._counting = Counting()
        self._earlier = Earlier(recorded)

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return what a fault answers, or else what the handler does, with the faults in it that change an answer."""
        call.injected = injected = Injected()
        changes: list[tuple[str, Change]] = []
        for fault, chance in self._striking(call):
            outcome = self._in_its_place(fault, chance, call)
            if outcome is not None:
                injected.alter = None
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
        """A call that was let through has ended."""
        if call.injected is not None:
            duration_s += call.injected.delay_s
        self._handler.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""
        self._handler.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as the handler has it."""
        return self._handler.amend(step, state)

    def _striking(self, call: PendingCall) -> Iterator[tuple[Fault, SeededChance]]:
        """The faults that strike this call, in the plan's order."""
        faults: tuple[Fault, ...] = (*self._plan.tool_faults, *self._plan.llm_faults, *self._plan.injections)
        place, what = self._place, [call.path, call.kind, call.name]
        if call.form == MCP_RESULT:  # which process of a server is asked, and in which order, is nobody's plan
            place, what = place.partition("#")[0], [*what, call.arguments.decode()]
        occurrence = self._counting.next(*what)
        for index, fault in enumerate(faults):
            if not _means(fault, call):
                continue
            number = number_in(call.path) + self._counting.next(index, call.path)
            chance = draw(self._plan.seed, place, index, *what, occurrence)
            if number >= fault.after_calls and chance.strikes(fault.probability):
                yield fault, chance

    def _in_its_place(self, fault: Fault, chance: SeededChance, call: PendingCall) -> Outcome | None:
        """Return what is answered though nobody was asked; None where the fault changes an answer."""
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
        """The answer after all changes, each of which is named where it changed something."""
        if self._keeps_earlier(call):
            self._earlier.keep(call, answer)
        for name, change in changes:
            other = change(answer)
            if other is not None:
                answer = other
                injected.faults += (name,)
        return answer

    def _keeps_earlier(self, call: PendingCall) -> bool:
        """True when a later call may be given this answer."""
        return any(fault.mode is ToolTrouble.STALE and _means(fault, call) for fault in self._plan.tool_faults)


def _means(fault: Fault, call: PendingCall) -> bool:
    """True when the fault is about calls like this one."""
    if isinstance(fault, ModelFault):
        return call.kind == MODEL and is_like(call.name, fault.model)
    if isinstance(fault, ContextAttack):
        return call.kind == TOOL or _is_own_exchange(call)
    if fault.match_url:
        if call.request is None or call.kind != EXCHANGE:
            url = ""
        else:
            url = call.request.url
        return bool(url) and is_like(url, fault.match_url) and _matches(fault, call)
    named = (call.kind == TOOL or _is_own_exchange(call)) and is_like(call.name, fault.tool)
    return named and _matches(fault, call)


def _is_own_exchange(call: PendingCall) -> bool:
    """True for a request that the agent makes itself: those inside of a tool are the tool's business."""
    return call.kind == EXCHANGE and call.request is not None and call.parent is None


def _matches(fault: ToolFault, call: PendingCall) -> bool:
    if not fault.match:
        return True
    arguments = decode(call.arguments)
    for path, expected in fault.match.items():
        if not any(_is(found, expected) for found in values_at(arguments, parse_path(path))):
            return False
    return True


def _is(found: Json, expected: Json) -> bool:
    if isinstance(found, str) and isinstance(expected, str):
        return is_like(found, expected)
    return type(found) is type(expected) and bool(found == expected)


def _api(call: PendingCall) -> ModelApi | None:
    if call.request is None:
        return None
    return call.request.api


class Earlier:
    """The answers of a run so far, and those on its tape: a stale tool gives an earlier one.

    From a tape it is an answer that had ended before this one was asked for, when they were recorded; else one that
    this run was given before. Either answered the same arguments; where there is none such, the same tool.

    "Before" has to be the same in every execution. Calls of one strand (a task, a job, a thread, and all calls inside
    of calls there) come one after the other; of two strands nobody knows which comes first. So a run remembers by
    strands.
    """

    def __init__(self, recorded: Iterable[Call] = ()) -> None:
        self._recorded = list(recorded)
        self._answers: dict[_Known, CallAnswer] = {}
        self._lock = threading.Lock()

    def keep(self, call: PendingCall, answer: CallAnswer) -> None:
        """Remember what was answered, before any fault changed it."""
        if answer.error is not None or not answer.complete:
            return
        with self._lock:
            for known in _names_of(call):
                self._answers[known] = answer

    def than(self, call: PendingCall) -> Callable[[CallAnswer], CallAnswer | None]:
        """A way to an answer that is older than the one that the call is about to be given."""
        with self._lock:
            exact, same_tool = _names_of(call)
            before = self._answers.get(exact) or self._answers.get(same_tool)

        def older(answer: CallAnswer) -> CallAnswer | None:
            found = before
            if isinstance(answer, Call):
                found = self._on_tape(answer) or before
            if found is None:
                return None
            items, complete = found.items_json, found.complete
            return Outcome(result_json=found.result_json, items_json=items, complete=complete, wire=found.wire)

        return older

    def _on_tape(self, answer: Call) -> Call | None:
        like = None
        for call in reversed(self._recorded):
            if _is_before(call, answer):
                if bytes(call.request_json) == bytes(answer.request_json):
                    return call
                like = like or call
        return like


def strand_of(path: str) -> str:
    """The part of a causal path that names the innermost task, job or thread."""
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
    """True when a recorded call had ended before another one began. Without positions, their times have to tell."""
    if call.span is None or later.span is None:
        return call.at + (call.duration_s or 0.0) <= later.at
    return call.span.end is not None and call.span.end < later.span.begin
