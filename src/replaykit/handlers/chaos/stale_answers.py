"""Earlier answers: what a tool that is stale gives.

From a tape it is an answer that had ended before this one was asked for, when they were recorded; else one that this
run was given before. Either answered the same arguments; where there is none such, the same tool.

"Before" has to be the same in every execution. Calls of one strand (a task, a job, a thread, and all calls inside of
calls there) come one after the other; of two strands nobody knows which comes first. So a run remembers by strands.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable

from replaykit.model.events import Call
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall

_JOB = re.compile(r"/~[^/]*#\d+(?=/|$)")
_Known = tuple[str, str, str, bytes | None]
"""A strand, a kind, a name, and the arguments."""


class Earlier:
    """What the calls of a run were answered so far, and what its tape says."""

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
            before = next((self._answers[known] for known in _names_of(call) if known in self._answers), None)

        def older(answer: CallAnswer) -> CallAnswer | None:
            found = (self._on_tape(answer) if isinstance(answer, Call) else None) or before
            if found is None:
                return None
            return _as_outcome(found)

        return older

    def _on_tape(self, answer: Call) -> Call | None:
        like = [call for call in self._recorded if _is_before(call, answer)]
        same = [call for call in like if bytes(call.request_json) == bytes(answer.request_json)]
        return next(reversed(same or like), None)


def strand_of(path: str) -> str:
    """The part of a causal path that names the innermost task, job or thread."""
    jobs = list(_JOB.finditer(path))
    if jobs:
        return path[: jobs[-1].end()]
    return ""


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


def _as_outcome(answer: CallAnswer) -> Outcome:
    return Outcome(
        result_json=answer.result_json, items_json=answer.items_json, complete=answer.complete, wire=answer.wire
    )
