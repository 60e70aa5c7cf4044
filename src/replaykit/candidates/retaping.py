"""Retape: run a candidate again in a case's world, and keep its answers as a new take.

Recorded answers are served where they fit. Other calls happen live if the caller allows them by name, or are answered
by the caller. The recorded take stays unchanged, because it is the red side of the case.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from replaykit.arguments import checked
from replaykit.candidates.inprocess import RecordedCandidate
from replaykit.candidates.replay import CandidateLike, replay
from replaykit.candidates.shared_arguments import redacted_run
from replaykit.candidates.worlds import with_scenario, with_take
from replaykit.cases.case import RECORDED, ReplayCase, load_case
from replaykit.cases.takes import (
    TAKE_FORMAT,
    NewAnswer,
    Take,
    check_name,
    has_take,
    new_name,
    take_calls,
    write_take,
)
from replaykit.cases.written_answers import WrittenAnswer, take_fitting
from replaykit.checks.verdict import first_with
from replaykit.errors import ReplayKitError, UsageError
from replaykit.handlers.replay.keys import as_pending
from replaykit.handlers.replay.miss import explain
from replaykit.handlers.replay.tape import Matcher, Tape, is_refused
from replaykit.model.events import Call, CallSpan, LlmCall, Usage
from replaykit.model.pins import MACHINE
from replaykit.model.result import Effect, ReplayResult, Verdict
from replaykit.model.run import TraceRun
from replaykit.redaction.files import file_redactor
from replaykit.travel.compare import sum_of_known

LIVE = "live"
"""The value of `answered_by` for a live call."""
# The maximum of answers from a file or a person in one retape, because an agent may ask forever.
_MOST_ROUNDS = 1000


class RetapeQuestion(Struct, frozen=True, kw_only=True):
    """A call that nothing answers, for the caller to decide."""

    call: Call
    text: str
    """The recorded call, the new call, and their differences."""


class NewCall(Struct, frozen=True, kw_only=True):
    """A call of the new take that no earlier take answers."""

    call: Call
    answered_by: str
    text: str = ""
    """The differences from the nearest recorded call."""


class Retaping(Struct, frozen=True, kw_only=True):
    """The result of recording a new take."""

    case: ReplayCase
    result: ReplayResult
    """The run, judged by the case."""
    new_calls: tuple[NewCall, ...] = ()
    take: Take | None = None
    """The new take; None if none was written."""
    directory: Path | None = None
    problem: str = ""
    """The reason why no take was written."""
    unused_answers: tuple[WrittenAnswer, ...] = ()
    """Written answers that no call asked for."""

    @property
    def usage(self) -> Usage:
        """The tokens and cost of the live calls, as far as the responses contain them."""
        used = []
        for new_call in self.new_calls:
            call = new_call.call
            if isinstance(call, LlmCall) and call.usage is not None and new_call.answered_by == LIVE:
                used.append(call.usage)
        return add_usage(used)


def add_usage(usages: Sequence[Usage]) -> Usage:
    """Return the sum of several usages. A part that no call reports stays unknown."""
    return Usage(
        input_tokens=sum_of_known(usage.input_tokens for usage in usages),
        output_tokens=sum_of_known(usage.output_tokens for usage in usages),
        cost_usd=sum_of_known(usage.cost_usd for usage in usages),
    )


@checked('rk.retape("cases/billing", agent, live=["models"])')
def retape(
    case: ReplayCase | str | os.PathLike[str],
    candidate: CandidateLike,
    *,
    live: Sequence[str] = (),
    allow_connect: Sequence[str] = (),
    answers: Sequence[WrittenAnswer] = (),
    ask: Callable[[RetapeQuestion], WrittenAnswer | None] | None = None,
    name: str | None = None,
    replace: bool = False,
    keep: bool = False,
    dry_run: bool = False,
    timeout_s: float | None = None,
    evidence: str | os.PathLike[str] | None = None,
) -> Retaping:
    """Run a candidate, and add the answers it got to the case as another take.

    `live` names the models and tools that may be called for real. `answers` are served to calls that nothing else
    answers, in order; then `ask` is asked. A run that is not `fixed` is written only with `keep`, a take of the same
    `name` is replaced only with `replace`.

    >>> retaping = rk.retape("cases/refunds", changed_agent, live=["search_docs"])
    >>> retaping.take.name, len(retaping.new_calls)
    ('take-2', 1)
    """
    subject = case if isinstance(case, ReplayCase) else load_case(case)
    name = _checked_name(subject, name, replace=replace)
    recorded = take_calls(subject, subject.scenario.take)
    rounds = _Rounds(subject, recorded, list(answers), ask)
    while True:
        result = replay(
            rounds.case,
            candidate,
            live=live,
            allow_connect=allow_connect,
            timeout_s=timeout_s,
            evidence=evidence,
        )
        if not rounds.answer(result):
            break
    new_calls = rounds.new_calls(result)
    problem = _problem(result, keep=keep)
    retaping = Retaping(
        case=subject, result=result, new_calls=new_calls, problem=problem, unused_answers=rounds.unused_answers
    )
    if problem or dry_run or result.run is None:
        return retaping
    take, directory = _write(retaping, name, result.run, replace=replace)
    again = replay(with_take(subject, name), candidate, timeout_s=timeout_s)
    problem = _difference_in(name, again, result)
    return structs.replace(retaping, take=take, directory=directory, problem=problem)


def _difference_in(name: str, again: ReplayResult, result: ReplayResult) -> str:
    """Return why a take is of little use: on it, or on another take that it fits, the candidate acts differently."""
    if again.verdict is result.verdict:
        return ""
    verdict = f"it is {again.verdict.value}: {again.reason}"
    if again.verdict is not Verdict.DIVERGED and again.take != name:
        return f"the take was written, but the candidate is not fixed on another one: {verdict}"
    return (
        f"the take was written, but the candidate does not do the same on it: {verdict}\n"
        "Freeze what differs each time (`seed`, `clock` or `match.ignore` in the case), and retape with --force"
    )


def take_from_run(
    case: ReplayCase | str | os.PathLike[str],
    run: TraceRun,
    *,
    name: str | None = None,
    replace: bool = False,
    keep: bool = False,
    dry_run: bool = False,
) -> Retaping:
    """Write an existing run, such as a fork, as a new take of the case, without running a candidate."""
    subject = case if isinstance(case, ReplayCase) else load_case(case)
    name = _checked_name(subject, name, replace=replace)
    calls = tuple(call for call in run.calls if not is_refused(call))
    judged = structs.replace(with_take(subject, RECORDED, only=True), tape=calls)
    result = replay(judged, RecordedCandidate(run))
    result = structs.replace(result, candidate=f"run {run.id}")
    new_calls = tuple(NewCall(call=call, answered_by=run.id) for call in calls if call.name not in MACHINE)
    problem = _problem(result, keep=keep)
    retaping = Retaping(case=subject, result=result, new_calls=new_calls, problem=problem)
    if problem or dry_run:
        return retaping
    take, directory = _write(retaping, name, run, replace=replace)
    return structs.replace(retaping, take=take, directory=directory)


def _checked_name(case: ReplayCase, name: str | None, *, replace: bool) -> str:
    """Return the name of a new take, or raise `UsageError` if it is invalid or in use."""
    if name is None:
        return new_name(case)
    if has_take(case, check_name(name)) and not replace:
        raise UsageError(f"the case {case.id!r} has a take {name!r}", hint="Replace it with --force.")
    return name


class _Rounds:
    """The tape of a retape, which grows by one answer per round."""

    def __init__(
        self,
        case: ReplayCase,
        recorded: Sequence[Call],
        answers: list[WrittenAnswer],
        ask: Callable[[RetapeQuestion], WrittenAnswer | None] | None,
    ) -> None:
        self._case = case
        self._recorded = tuple(recorded)
        self._answers = answers
        self._ask = ask
        self._added: list[Call] = []
        self._sources: list[str] = []
        self._texts: list[str] = []

    @property
    def unused_answers(self) -> tuple[WrittenAnswer, ...]:
        """The remaining written answers."""
        return tuple(self._answers)

    @property
    def case(self) -> ReplayCase:
        """The case with the answers collected so far on its tape."""
        case = with_scenario(self._case, take=RECORDED, is_only_take=True, notes_sources=True)
        return structs.replace(case, tape=(*self._recorded, *self._added))

    def answer(self, result: ReplayResult) -> bool:
        """Answer the first refused call. Return False if there is none or no answer for it."""
        refused = list(filter(is_refused, _calls_of(result)))
        if not refused or len(self._added) >= _MOST_ROUNDS or (not self._answers and self._ask is None):
            return False
        text = self._difference(refused[0])
        answer = take_fitting(self._answers, refused[0])
        if answer is None and self._ask is not None:
            answer = self._ask(RetapeQuestion(call=refused[0], text=text))
        if answer is None:
            return False
        # Keep this round's live answers, so that the next round does not repeat the calls.
        for new_call in self.new_calls(result):
            if new_call.answered_by == LIVE:
                self._add(new_call.call, LIVE, new_call.text)
        self._add(answer.applied(refused[0], 0), answer.source, text)
        return True

    def _add(self, call: Call, source: str, text: str) -> None:
        number = 1 + max((taped.seq for taped in (*self._recorded, *self._added)), default=0)
        self._added.append(structs.replace(call, seq=number, source=None))
        self._sources.append(source)
        self._texts.append(text)

    def new_calls(self, result: ReplayResult) -> tuple[NewCall, ...]:
        """Return the answered calls that the recorded take does not answer, in order."""
        recorded = {call.seq for call in self._recorded}
        sources = {call.seq: index for index, call in enumerate(self._added)}
        found = []
        for call in _calls_of(result):
            if is_refused(call) or call.name in MACHINE:  # time and chance are not answers
                continue
            if call.source is None:
                found.append(NewCall(call=call, answered_by=LIVE, text=self._difference(call)))
            elif call.source not in recorded:
                index = sources[call.source]
                found.append(NewCall(call=call, answered_by=self._sources[index], text=self._texts[index]))
        return tuple(found)

    def _difference(self, call: Call) -> str:
        """Describe the recorded call, the new call, and their differences."""
        tape = Tape(self._recorded, name=self._case.id)
        return explain(tape, Matcher(tape), as_pending(call), call.seq).message


def _problem(result: ReplayResult, *, keep: bool) -> str:
    """Return why the run cannot or should not become a take."""
    left = first_with(Effect.DIVERGED, result.deviations)
    if left is not None:
        answer_it = "--allow-connect"
        if left.name:
            answer_it = f"--live {shlex.quote(left.name)}, --answers FILE or --ask"
        return f"no take was written: {left.text}\nAnswer it with {answer_it}"
    if result.run is None or result.verdict is Verdict.INCONCLUSIVE:
        return f"no take was written: {result.reason}"
    if result.verdict is not Verdict.FIXED and not keep:
        return f"no take was written: the candidate is {result.verdict.value}. To write it anyway: --keep"
    return ""


def _write(retaping: Retaping, name: str, run: TraceRun, *, replace: bool) -> tuple[Take, Path]:
    """Write the run as a take, and verify that the take leads to the same verdict offline."""
    case, result = retaping.case, retaping.result
    run = redacted_run(run, file_redactor())
    take = Take(
        replaykit=TAKE_FORMAT,
        name=name,
        at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        candidate=result.candidate,
        verdict=result.verdict.value,
        based_on=case.scenario.take,
        new_answers=tuple(map(_new_answer, retaping.new_calls)),
    )
    calls = _with_spans(run)
    same_as = {}
    if case.scenario.take == RECORDED:
        same_as = _same_as_recorded(case, calls)

    def check(draft: str) -> None:
        offline = replay(with_take(case, draft, only=True), RecordedCandidate(run))
        if offline.verdict is not result.verdict:
            raise ReplayKitError(
                f"no take was written: it would not lead to the verdict of the run it was made of: it is "
                f"{offline.verdict.value}, the run was {result.verdict.value}: {offline.reason}"
            )

    return take, write_take(case, take, calls, same_as, replace=replace, check=check)


def _same_as_recorded(case: ReplayCase, calls: Sequence[Call]) -> dict[int, int]:
    """Map the numbers of calls that the recorded take holds unchanged to their numbers there."""
    recorded = {call.seq: call for call in take_calls(case, RECORDED)}
    same = {}
    for call in calls:
        source = None if call.source is None else recorded.get(call.source)
        if source is not None and _content_of(call) == _content_of(source):
            same[call.seq] = source.seq
    return same


def _content_of(call: Call) -> tuple[object, ...]:
    """Return the request and the outcome of a call."""
    return (call.kind, call.name, call.request_json, call.result_json, call.error, call.items_json, call.wire)


def _calls_of(result: ReplayResult) -> Iterable[Call]:
    return () if result.run is None else result.run.calls


def _new_answer(new_call: NewCall) -> NewAnswer:
    call = new_call.call
    usage = call.usage if isinstance(call, LlmCall) else None
    return NewAnswer(call=call.seq, kind=call.kind, name=call.name, answered_by=new_call.answered_by, usage=usage)


def _with_spans(run: TraceRun) -> list[Call]:
    """Return the calls of a run, with time spans if they were made one after another.

    A replay does not say when served calls ended relative to others. Without overlaps, that follows from their order.
    """
    calls = [call for call in run.calls if not is_refused(call)]
    if all(call.span is not None for call in calls):
        return calls
    if any(call.path or call.parent is not None for call in calls):
        return calls
    placed: list[Call] = []
    now_s = 0.0
    for index, call in enumerate(calls):
        begin_s = round(max(now_s, call.at - calls[0].at), 6)
        now_s = round(begin_s + call.duration_s, 6)
        span = CallSpan(begin=2 * index, begin_s=begin_s, end=2 * index + 1, end_s=now_s)
        placed.append(structs.replace(call, span=span))
    return placed
