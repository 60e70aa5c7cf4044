"""Judge a candidate on the takes that it fits: the case's default first, then the others, newest first.

An agent that still has the failure fits the recorded take and is judged there. One with a changed prompt makes calls
that only a later take answers. All takes are judged by the same signatures and assertions.

Several takes may answer the same prompt differently. A candidate that fits several must be fixed on each, so that no
green depends on the order of takes.

A candidate that leaves one take but asks nothing new on the next behaved differently by chance, or because of a file or
variable that its first attempt left behind. Such a take does not fit.

Live calls are a last resort: if some are allowed, all takes are tried without them first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.worlds import with_take, without_live_misses, world_of
from replaykit.cases.case import RECORDED, ReplayCase
from replaykit.cases.requests import REFUSED
from replaykit.cases.takes import check_take, read_takes
from replaykit.checks.verdict import first_with
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode
from replaykit.model.result import Effect, EvidenceSource, ReplayResult, Verdict
from replaykit.model.run import TraceRun

ReplayTake = Callable[[ReplayCase, Path], ReplayResult]
"""A function that replays a case with the one take it names, leaving files in a directory."""


class _Trial(Struct, frozen=True):
    """The result of a candidate on one take, and the directory of its files."""

    result: ReplayResult
    place: Path

    @property
    def is_left(self) -> bool:
        """Whether the candidate made a call that the take lacks or that was not allowed."""
        is_refused = any(deviation.kind == REFUSED for deviation in self.result.deviations)
        return is_refused or first_with(Effect.DIVERGED, self.result.deviations) is not None


def replay_takes(case: ReplayCase, workspace: Path, replay_take: ReplayTake) -> ReplayResult:
    """Return the result for the first fitting take that is not `fixed`, or else for the first fitting take.

    If no take fits, use live calls if allowed, or else return the result for the default take.
    """
    names = take_order(case)
    if names == [RECORDED]:
        return replay_take(case, workspace)
    offline = case if len(names) == 1 else without_live_misses(case)
    trials: list[_Trial] = []

    def try_take(subject: ReplayCase, name: str, place: Path) -> _Trial:
        place.mkdir()
        result = replay_take(with_take(subject, name, only=True), place)
        trials.append(_Trial(replace(result, take=name), place))
        return trials[-1]

    chosen = _judge_on_fitting(offline, names, lambda name: try_take(offline, name, workspace / f"take-{name}"))
    if chosen is None and offline is not case:
        # Continue with the take that answered the most, to avoid needless live calls. On a tie, max() returns the
        # first.
        farthest = max(trials, key=lambda trial: trial.result.evidence.used)
        chosen = try_take(case, farthest.result.take, workspace / "live")
    chosen = chosen or trials[0]
    _move_up(chosen.place)
    return chosen.result


def _judge_on_fitting(case: ReplayCase, names: Sequence[str], try_take: Callable[[str], _Trial]) -> _Trial | None:
    """Return the first fitting trial that is not `fixed`, or else the first fitting one; None if no take fits."""
    first = fixed = None
    for name in names:
        if fixed is not None and not _may_change(fixed.result, with_take(case, name, only=True)):
            continue
        trial = try_take(name)
        first = first or trial
        is_fitting = not trial.is_left
        if is_fitting and first.is_left:
            is_fitting = _is_answered_anew(with_take(case, names[0], only=True), trial.result)
        if not is_fitting:
            continue
        if trial.result.verdict is not Verdict.FIXED:
            if fixed is None:
                return trial
            return _Trial(_contradicting(trial.result, fixed.result), trial.place)
        fixed = fixed or trial
    return fixed


def _contradicting(result: ReplayResult, fixed: ReplayResult) -> ReplayResult:
    """Return the result with a note about the take on which the candidate is fixed."""
    note = (
        f"that is on the take {result.take!r}; on {fixed.take!r}, which it fits as well, it is fixed\n"
        "A fix has to hold on every take that it fits. Delete a take whose answers no longer count"
    )
    reason = f"{result.reason}\n{note}" if result.reason else note
    return replace(result, reason=reason)


def _may_change(result: ReplayResult, other: ReplayCase) -> bool:
    """Return whether another take may lead to another result.

    The candidate's calls are looked up there, which is much cheaper than running it again. A take that answers all of
    them identically leads to the same result, and one that lacks a call before the first difference does not fit.
    """
    if result.run is None or result.evidence.how is not EvidenceSource.SERVED:
        return True
    return any(_is_answered_otherwise(run.calls, _asked_again(run, other)) for run in (result.run, *result.more))


def _asked_again(run: TraceRun, case: ReplayCase) -> Iterable[Call]:
    """Return the calls of a run, answered by another take."""
    from replaykit.candidates.inprocess import RecordedCandidate  # noqa: PLC0415 (few cases have several takes)

    attempt = RecordedCandidate(run).run(case, Path(), 0)
    if attempt.run is None:
        return ()
    return attempt.run.calls


def _is_answered_otherwise(calls: Iterable[Call], others: Iterable[Call]) -> bool:
    """Return whether the first difference is a different answer, rather than a missing one or none at all."""
    from replaykit.handlers.replay.tape import is_refused  # noqa: PLC0415 (few cases have several takes)

    answers = {call.seq: call for call in others}
    for call in calls:
        other = answers.get(call.seq)  # missing for calls inside a served tool
        if other is None or _answer_of(call) == _answer_of(other):
            continue
        return not is_refused(other)
    return False


def _answer_of(call: Call) -> tuple[object, ...]:
    error = None if call.error is None else (call.error.type, call.error.message)
    return (call.result_json, error, call.items_json, call.complete, call.wire)


def take_order(case: ReplayCase) -> list[str]:
    """Return the takes to try, in order; raise `UsageError` for an unknown one."""
    default = case.scenario.take
    if default != RECORDED:
        check_take(case, default)
    if case.scenario.is_only_take:
        return [default]
    others = [take.name for take in read_takes(case)]
    return list(dict.fromkeys([default, *others, RECORDED]))


def _is_answered_anew(first: ReplayCase, result: ReplayResult) -> bool:
    """Return whether a run got an answer that the first take does not hold."""
    answered = [] if result.run is None else _outcomes(result.run.calls)
    held = _outcomes(call for call in world_of(first).calls if isinstance(call, Call))
    if first.scenario.match.mode is MatchMode.STRICT:
        return answered != held[: len(answered)]
    return not Counter(answered) <= Counter(held)


def _outcomes(calls: Iterable[Call]) -> list[tuple[object, ...]]:
    """Return the requests and outcomes of the agent's calls, without time and chance."""
    from replaykit.handlers.replay.tape import is_refused  # noqa: PLC0415 (few candidates leave a take)
    from replaykit.model.pins import MACHINE  # noqa: PLC0415

    outcomes: list[tuple[object, ...]] = []
    for call in calls:
        if call.name not in MACHINE and not is_refused(call):
            if call.error is None:
                error = None
            else:
                error = (call.error.type, call.error.message)
            items = tuple(map(bytes, call.items_json or ()))
            outcomes.append((call.kind, call.name, bytes(call.request_json), bytes(call.result_json), error, items))
    return outcomes


def _move_up(place: Path) -> None:
    """Move the files of the chosen take to the workspace of the replay."""
    for entry in place.iterdir():
        entry.rename(place.parent / entry.name)
    place.rmdir()
