"""Judging: the sentences of a case, asked of a judge about one replay, or answered by a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.document import read_bytes
from replaykit.errors import InvalidFile, NothingSelected, UsageError, nearest
from replaykit.judges.judge import PERSON, About, Answer, Judge, JudgeFailed, Judgement, Question, question_of
from replaykit.judges.models import MODELS
from replaykit.judges.semantic import checked
from replaykit.judges.stored import add_judgement, read_judgements
from replaykit.model.result import ReplayResult, SemanticCheck
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.runners.loading import load_agent

RESULT_FILE = "result.json"
_PYTHON = "python"


class PythonJudge:
    """A function that is given a question and returns a `Judgement`, or whether the sentence is true."""

    def __init__(self, spec: str) -> None:
        self.about = About(name=_PYTHON, model=spec)
        self._answer: Callable[..., Any] = load_agent(spec, what="judge")

    def judge(self, question: Question) -> Judgement:
        """Call the function once."""
        try:
            said = self._answer(question)
        except Exception as error:
            raise JudgeFailed(f"the judge {self.about} failed: {type(error).__name__}: {error}") from error
        if isinstance(said, bool):
            return Judgement(Answer.PASS if said else Answer.FAIL)
        if isinstance(said, Judgement):
            return said
        return Judgement(Answer.UNSURE, f"the judge returned a {type(said).__name__}, not a Judgement, True or False")


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
    case: ReplayCase, run: TraceRun, judge: Judge, *, again: bool = False, on_done: Callable[[], None] = lambda: None
) -> int:
    """Ask the judge every sentence it has not judged of this run, and store the answers; how many were asked."""
    asked = 0
    for text in case.semantic:
        question = question_of(text, run)
        entry = read_judgements(case.directory).find(question, judge.about)
        if entry is None or (again and entry.by != str(PERSON)):
            add_judgement(case.directory, question, judge.judge(question), judge.about)
            asked += 1
        on_done()
    return asked


def review(case: ReplayCase, run: TraceRun, answers: Mapping[int, Answer], note: str = "") -> None:
    """Store a person's answers to the sentences of these numbers, counted from 1: all of them, or none."""
    for number in answers:
        if not 1 <= number <= len(case.semantic):
            raise UsageError(f"the case {case.id!r} has no sentence {number}: it has {len(case.semantic)}")
    for number, answer in answers.items():
        question = question_of(case.semantic[number - 1], run)
        add_judgement(case.directory, question, Judgement(answer, note), PERSON)


def checks_of(case: ReplayCase, run: TraceRun) -> tuple[SemanticCheck, ...]:
    """What is known of each sentence of the case for this run."""
    if not case.semantic:
        raise NothingSelected(f"the case {case.id!r} has no semantic checks", hint="Write sentences under `semantic:`.")
    return checked(case.semantic, run, read_judgements(case.directory))


def judged_run(case: ReplayCase, result: Path | None, root: Path) -> TraceRun:
    """The run to judge: that of a replay's result, or of the newest replay of the case below `root`."""
    file = _newest(case, root) if result is None else result / RESULT_FILE if result.is_dir() else result
    try:
        found = msgspec.json.decode(read_bytes(file), type=ReplayResult)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidFile(f"not a replay's result: {error}", file=str(file)) from None
    if found.case_id != case.id:
        raise UsageError(f"{file} is a replay of {found.case_id!r}, not of {case.id!r}")
    if found.run is None:
        raise UsageError(f"{file} holds no run to judge: {found.reason}")
    return found.run


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
        return msgspec.json.decode(file.read_bytes(), type=_Named).case_id
    except (msgspec.MsgspecError, RecursionError, OSError):
        return ""  # of somebody else, or half written
