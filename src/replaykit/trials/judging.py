"""Judging: what a case wants judged, asked of a judge about one replay, or answered by a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.document import read_bytes
from replaykit.errors import InvalidFile, NothingSelected, UsageError, nearest
from replaykit.judges.judge import PERSON, About, Answer, Asks, Judge, JudgeFailed, Judgement, Question
from replaykit.judges.models import MODELS
from replaykit.judges.semantic import Asked, checked, everything_asked
from replaykit.judges.stored import add_judgement, read_judgements
from replaykit.model.nesting import decode_json
from replaykit.model.result import SemanticCheck, read_result
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.runners.loading import load_agent

RESULT_FILE = "result.json"
_PYTHON = "python"
OnDone: TypeAlias = Callable[[], None]


class PythonJudge:
    """A function that is given a question and returns a `Judgement`, or what was asked for: true or false, a number
    from 0 to 1, a label."""

    def __init__(self, spec: str) -> None:
        self.about = About(name=_PYTHON, model=spec)
        self._answer: Callable[..., Any] = load_agent(spec, what="judge")

    def judge(self, question: Question) -> Judgement:
        """Call the function once."""
        try:
            said = self._answer(question)
        except Exception as error:
            raise JudgeFailed(f"the judge {self.about} failed: {type(error).__name__}: {error}") from error
        if not isinstance(said, Judgement):
            said = judgement_of(question, said)
        if said.answer is Answer.UNSURE or said.is_answer_to(question):
            return said
        return Judgement(Answer.UNSURE, f"the judge returned {said!r:.200}, not {_wanted(question)}")


def judgement_of(question: Question, said: Any, note: str = "") -> Judgement:
    """A plain value as the answer to a question; unsure when it is none."""
    if question.asks is Asks.VERDICT and isinstance(said, bool):
        return Judgement(Answer.PASS if said else Answer.FAIL, note)
    if question.asks is Asks.SCORE and isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said <= 1:
        return Judgement(Answer.GIVEN, note, score=float(said))
    if question.asks is Asks.LABEL and said in question.labels:
        return Judgement(Answer.GIVEN, note, label=said)
    return Judgement(Answer.UNSURE, f"the judge returned a {type(said).__name__}, not {_wanted(question)}")


def _wanted(question: Question) -> str:
    if question.asks is Asks.VERDICT:
        return "a Judgement, True or False"
    return "a number from 0 to 1" if question.asks is Asks.SCORE else f"one of {', '.join(question.labels)}"


def judge_of(spec: str, parameters: dict[str, Json] | None = None) -> Judge:
    """The judge that a person named: `openai:MODEL`, `anthropic:MODEL` or `python:MODULE:FUNCTION`."""
    name, _, rest = spec.partition(":")
    if name == _PYTHON:
        if parameters:
            raise UsageError("a judge in Python takes no parameters", hint="Take `parameters` away.")
        return PythonJudge(rest)
    if name not in MODELS:
        raise UsageError(
            f"no judge {spec!r}; {nearest(name, [*MODELS, _PYTHON])}",
            hint="Write openai:MODEL, anthropic:MODEL or python:MODULE:FUNCTION",
        )
    return MODELS[name](rest, parameters)


def record_judgements(
    case: ReplayCase, runs: Sequence[TraceRun], judge: Judge, *, again: bool = False, on_done: OnDone = lambda: None
) -> int:
    """Ask the judge everything it has not judged of these runs, and store the answers; how many were asked."""
    asked = 0
    for one in everything_asked(case, runs):
        entry = read_judgements(case.directory).find(one.question, judge.about)
        if entry is None or (again and entry.by != str(PERSON)):
            add_judgement(case.directory, one.question, judge.judge(one.question), judge.about)
            asked += 1
        on_done()
    return asked


def review(case: ReplayCase, runs: Sequence[TraceRun], answers: Mapping[int, str], note: str = "") -> None:
    """Store a person's answers to the questions of these numbers, counted from 1: all of them, or none.

    An answer is `pass` or `fail`; a number from 0 to 1 where a score is asked for, and a label where one is.
    """
    asked = everything_asked(case, runs)
    given = {number: _by_person(case, asked, number, said, note) for number, said in answers.items()}
    for number, judgement in given.items():
        add_judgement(case.directory, asked[number - 1].question, judgement, PERSON)


def _by_person(case: ReplayCase, asked: Sequence[Asked], number: int, said: str, note: str) -> Judgement:
    if not 1 <= number <= len(asked):
        raise UsageError(f"the case {case.id!r} has no sentence {number}: it has {len(asked)}")
    question = asked[number - 1].question
    value: Any = said
    if question.asks is Asks.VERDICT:
        value = {"pass": True, "fail": False}.get(said)
    elif question.asks is Asks.SCORE:
        try:
            value = float(said)
        except ValueError:
            value = None
    found = judgement_of(question, value, note)
    if found.answer is Answer.UNSURE:
        wanted = "pass or fail" if question.asks is Asks.VERDICT else _wanted(question)
        hint = f"Write --answer {number}=VALUE" if question.asks is not Asks.VERDICT else None
        raise UsageError(f"sentence {number} asks for {wanted}, got {said!r}", hint=hint)
    return found


def asked_in(case: ReplayCase, runs: Sequence[TraceRun]) -> list[Asked]:
    """Everything that is judged of these runs; `NothingSelected` when the case asks for nothing."""
    found = everything_asked(case, runs)
    if not found:
        hint = "Write sentences under `semantic:`, or an assertion such as `judge.rubric`."
        raise NothingSelected(f"the case {case.id!r} has no semantic checks", hint=hint)
    return found


def checks_of(case: ReplayCase, runs: Sequence[TraceRun]) -> tuple[SemanticCheck, ...]:
    """What is known of everything that the case wants judged, for these runs."""
    return checked(asked_in(case, runs), read_judgements(case.directory))


def judged_runs(case: ReplayCase, result: Path | None, root: Path) -> tuple[TraceRun, ...]:
    """The runs to judge: those of a replay's result, or of the newest replay of the case below `root`."""
    file = _newest(case, root) if result is None else result / RESULT_FILE if result.is_dir() else result
    try:
        found = read_result(read_bytes(file))
    except msgspec.MsgspecError as error:
        raise InvalidFile(f"not a replay's result: {error}", file=str(file)) from None
    if found.case_id != case.id:
        raise UsageError(f"{file} is a replay of {found.case_id!r}, not of {case.id!r}")
    if found.run is None:
        raise UsageError(f"{file} holds no run to judge: {found.reason}")
    return (found.run, *found.more)


def _newest(case: ReplayCase, root: Path) -> Path:
    files = sorted(root.glob(f"*/{RESULT_FILE}"), key=lambda file: (-os.stat(file).st_mtime_ns, file.parent.name))
    found = next((file for file in files if _case_of(file) == case.id), None)
    if found is None:
        hint = f"Run one: replaykit replay {case.directory} --agent MODULE:FUNCTION"
        raise NothingSelected(f"no replay of {case.id!r} below {root}", hint=hint)
    return found


class _Named(msgspec.Struct):
    case_id: str


def _case_of(file: Path) -> str:
    try:
        return decode_json(file.read_bytes(), _Named).case_id
    except (msgspec.MsgspecError, OSError):
        return ""  # of somebody else, or half written
