"""The replaying handler: serves a tape, keeps the rules on misses, and writes down what the candidate did."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replaykit.errors import ReplayKitError
from replaykit.model.events import AnyEvent, Call, ErrorInfo, LlmCall
from replaykit.model.matching import MatchMode, MatchRules, OnMiss, ToolMode
from replaykit.model.result import Deviation
from replaykit.model.values import Json, raw
from replaykit.replayer.miss import blocked, explain, unanswerable
from replaykit.replayer.tape import Matcher, Tape
from replaykit.replayer.turns import turns_of
from replaykit.seam.failures import describe
from replaykit.seam.logged import event_of
from replaykit.seam.machine import MACHINE
from replaykit.seam.scope import Answer, Handler, Outcome, PendingCall, Session

MODEL = str(LlmCall.__struct_config__.tag)
_LIVE, _BLOCKED = ToolMode.LIVE, ToolMode.BLOCKED
"""Asked for every call: Python 3.11 is slow to find a member of an enum."""


class Replayer:
    """Behind the seam: recorded outcomes are served; what happens instead is kept as events and deviations."""

    def __init__(
        self,
        tape: Tape,
        rules: MatchRules | None = None,
        *,
        tools: Mapping[str, ToolMode] | None = None,
        models: ToolMode = ToolMode.RECORDED,
    ) -> None:
        self.tape = tape
        self.rules = rules or MatchRules()
        self.matcher = Matcher(tape, self.rules.mode, self.rules.ignore)
        self.deviations: list[Deviation] = []
        self._tools = dict(tools or {})
        self._default = self._tools.get("*", ToolMode.RECORDED)
        self._models = models
        self._lock = threading.Lock()
        self._count = 0
        self._kept: list[AnyEvent] = []
        self._made: list[tuple[PendingCall, Answer, float]] = []

    def serve(self, call: PendingCall) -> Answer | None:
        """The recorded outcome; None where the rules let the call happen; Divergence where they stop it."""
        with self._lock:
            index, self._count = self._count, self._count + 1
            mode = self._mode(call.kind, call.name)
            if mode is _LIVE:
                self._note("live", call, index, f"`{call.name}` was done live, as the case says")
                return None
            if mode is _BLOCKED:
                raise self._stop("blocked", blocked(self.tape, call, index), call, index)
            found = self.matcher.take(call)
            if found is None:
                return self._miss(call, index)
            position, how = found
            if position in self.matcher.unanswerable:
                raise self._stop("unanswerable", unanswerable(call, self.matcher.unanswerable[position]), call, index)
            if how != "exact":
                self._note(how, call, index, self._in_words(how, call, position))
            recorded = self.matcher.calls[position]
            return self._give(call, recorded, recorded.duration_s)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """A call that was let through has ended."""
        with self._lock:
            self._log(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""
        with self._lock:
            self._kept.append(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return state

    def events(self) -> list[AnyEvent]:
        """What the candidate did, as events in the order it began them."""
        with self._lock:
            return sorted([*(event_of(*made) for made in self._made), *self._kept], key=lambda event: event.seq)

    def served(self) -> dict[int, Call]:
        """The recorded call behind each call that was answered from the tape, by the number of the latter."""
        with self._lock:
            return {call.seq: answer for call, answer, _ in self._made if isinstance(answer, Call)}

    def all_deviations(self) -> list[Deviation]:
        """What happened off the tape, and what of the tape did not happen."""
        calls = [self.matcher.calls[index] for index in self.matcher.unused()]
        names = [call.name or "a model" for call in calls if self._mode(call.kind, call.name) is ToolMode.RECORDED]
        unused = [Deviation(kind="unused", name=name, text=f"`{name}` was not called") for name in names]
        return [*self.deviations, *unused]

    @contextmanager
    def at_work(self, front: Handler | None = None, *, alone: bool = False) -> Iterator[Session]:
        """Calls made inside are served here, and nothing else reaches the network. `front` is asked before.

        `alone`: the process is there for this only, so that none of its other threads may reach the network either.
        """
        from replaykit.seam.guard import Guard  # noqa: PLC0415 (brings in sockets)

        session = Session(front or self)
        session.order = turns_of(self.tape.calls)
        guard = Guard(session, self.rules.network, self.stopped, everywhere=alone)
        with guard.standing(), session.active():
            yield session

    def stopped(self, text: str) -> None:
        """A connection was stopped that no call accounts for."""
        with self._lock:
            self.deviations.append(Deviation(kind="network", text=text))

    def _mode(self, kind: str, name: str) -> ToolMode:
        return self._models if kind == MODEL else self._tools.get(name, self._default)

    def asks_machine_anew(self, call: PendingCall) -> bool:
        """True for the time or chance where the tape holds none: sessions, for one, do not write them down."""
        if call.name not in MACHINE or self.rules.mode is MatchMode.STRICT:
            return False
        return not any(recorded.name == call.name for recorded in self.tape.calls)

    def _miss(self, call: PendingCall, index: int) -> Answer | None:
        if self.asks_machine_anew(call):
            return None
        policy = self.rules.on_miss
        if policy is OnMiss.REPEAT:
            last = self.matcher.last_outcome(call)
            if last is not None:
                self._note("repeated", call, index, f"`{call.name}` was called again: the last outcome was repeated")
                return self._give(call, self.matcher.calls[last], 0.0)
        elif policy is OnMiss.LIVE and call.name in self.rules.live:
            self._note("live", call, index, f"`{call.name}` is not on the tape and was done live")
            return None
        elif policy is OnMiss.FAULT and self.rules.fault is not None:
            fault = self.rules.fault
            self._note("fault", call, index, f"`{call.name}` is not on the tape and was answered with {fault.type}")
            return self._log(call, Outcome(error=_error_of(fault.type, fault.message)), 0.0)
        raise self._stop("missing", explain(self.tape, self.matcher, call, index), call, index)

    def _give(self, call: PendingCall, answer: Answer, duration_s: float) -> Answer:
        """A recorded answer, with the faults in it that are injected."""
        if call.injected is None:
            return self._log(call, answer, duration_s)
        return self._log(call, call.injected.applied(answer), duration_s + call.injected.delay_s)

    def _log(self, call: PendingCall, answer: Answer, duration_s: float) -> Answer:
        self._made.append((call, answer, duration_s))
        return answer

    def _note(self, kind: str, call: PendingCall, index: int, text: str) -> None:
        self.deviations.append(Deviation(kind=kind, text=text, index=index, name=call.name))

    def _stop(self, kind: str, error: ReplayKitError, call: PendingCall, index: int) -> ReplayKitError:
        self._note(kind, call, index, error.message)
        self._log(call, Outcome(error=describe(error)), 0.0)
        return error

    def _in_words(self, how: str, call: PendingCall, position: int) -> str:
        if how == "moved":
            recorded = self.matcher.calls[position]
            return f"`{call.name}` moved: recorded at {recorded.path or '/'}, now at {call.path or '/'}"
        return f"`{call.name}` was served by its position; its arguments are not the recorded ones"


def _error_of(name: str, message: str) -> ErrorInfo:
    """The error a case names: a builtin, or a class the tool's own module can name."""
    return ErrorInfo(type=name, message=message, args_json=raw((message,) if message else ()))


@contextmanager
def replaying(
    tape: Tape, rules: MatchRules | None = None, *, tools: Mapping[str, ToolMode] | None = None
) -> Iterator[Replayer]:
    """Calls made inside are served from the tape; the replayer tells afterwards what happened."""
    replayer = Replayer(tape, rules, tools=tools)
    with replayer.at_work():
        yield replayer
