"""Judge the runs of a replay, by asking a judge or storing a person's answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from replaykit.candidates.agent_loader import load_agent
from replaykit.cases.case import ReplayCase
from replaykit.checks.questions import Answer, Asks, Judgement, Question
from replaykit.documents.document import read_bytes
from replaykit.errors import InvalidFile, NothingSelected, UsageError, nearest
from replaykit.judges.judge import JUDGES, PERSON, Judge, JudgeFailed, JudgeId
from replaykit.judges.judgement_store import add_judgement, read_judgements
from replaykit.judges.models import MODELS
from replaykit.judges.semantic import JudgedItem, check_items, find_questions
from replaykit.model.nesting import decode_json
from replaykit.model.result import SemanticCheck, read_result
from replaykit.model.run import TraceRun
from replaykit.model.values import JsonObject

RESULT_FILE = "result.json"
_PYTHON = "python"
OnDone: TypeAlias = Callable[[], None]


class PythonJudge:
    """A function that takes a question and returns a `Judgement`, a bool, a number from 0 to 1, or a label."""

    def __init__(self, identity: JudgeId, function: Callable[..., Any]) -> None:
        self.identity = identity
        self._function = function

    def judge(self, question: Question) -> Judgement:
        """Call the function once."""
        try:
            answer = self._function(question)
        except Exception as error:
            raise JudgeFailed(f"the judge {self.identity} failed: {type(error).__name__}: {error}") from error
        if not isinstance(answer, Judgement):
            answer = judgement_of(question, answer)
        if answer.answer is Answer.UNSURE or answer.is_answer_to(question):
            return answer
        return Judgement(Answer.UNSURE, f"the judge returned {answer!r:.200}, not {_expected_answer(question)}")


def judgement_of(question: Question, value: Any, note: str = "") -> Judgement:
    """Convert a plain value to the answer to a question; unsure if it does not fit."""
    if question.asks is Asks.VERDICT and isinstance(value, bool):
        return Judgement(Answer.PASS if value else Answer.FAIL, note)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if question.asks is Asks.SCORE and is_number and 0 <= value <= 1:
        return Judgement(Answer.VALUE, note, score=float(value))
    if question.asks is Asks.LABEL and value in question.labels:
        return Judgement(Answer.VALUE, note, label=value)
    return Judgement(Answer.UNSURE, f"the judge returned a {type(value).__name__}, not {_expected_answer(question)}")


def _expected_answer(question: Question) -> str:
    if question.asks is Asks.VERDICT:
        return "a Judgement, True or False"
    if question.asks is Asks.SCORE:
        return "a number from 0 to 1"
    return f"one of {', '.join(question.labels)}"


def judge_of(spec: str, parameters: JsonObject | None = None) -> Judge:
    """Return the named judge: `openai:MODEL`, `anthropic:MODEL`, `python:MODULE:FUNCTION`, or one from a plugin."""
    name, _, rest = spec.partition(":")
    if name in MODELS:
        return MODELS[name](rest, parameters)
    is_of_plugin = spec in JUDGES
    if name != _PYTHON and not is_of_plugin:
        raise UsageError(
            f"no judge {spec!r}; {nearest(name, [*MODELS, _PYTHON, *JUDGES])}",
            hint="Write openai:MODEL, anthropic:MODEL, python:MODULE:FUNCTION or the name of a plugin's judge",
        )
    if parameters:
        raise UsageError("a judge in Python takes no parameters", hint="Remove `parameters`.")
    if is_of_plugin:
        return PythonJudge(JudgeId(name=spec), JUDGES.get(spec))
    return PythonJudge(JudgeId(name=_PYTHON, model=rest), load_agent(rest, what="judge"))


def record_judgements(case: ReplayCase, runs: Sequence[TraceRun], judge: Judge, *, again: bool, on_done: OnDone) -> int:
    """Ask the judge what it has not yet judged in these runs, store the answers, and return their number."""
    count = 0
    for item in find_questions(case, runs):
        entry = read_judgements(case.directory).find(item.question, judge.identity)
        if entry is None or (again and entry.by != str(PERSON)):
            add_judgement(case.directory, item.question, judge.judge(item.question), judge.identity)
            count += 1
        on_done()
    return count


def review(case: ReplayCase, runs: Sequence[TraceRun], answers: Mapping[int, str], note: str = "") -> None:
    """Store a person's answers by question number, counted from 1, all or none.

    An answer is `pass` or `fail`, a number from 0 to 1 if a score is asked for, or a label.
    """
    items = find_questions(case, runs)
    judgements = {number: _by_person(case, items, number, text, note) for number, text in answers.items()}
    for number, judgement in judgements.items():
        add_judgement(case.directory, items[number - 1].question, judgement, PERSON)


def _by_person(case: ReplayCase, items: Sequence[JudgedItem], number: int, text: str, note: str) -> Judgement:
    if not 1 <= number <= len(items):
        raise UsageError(f"the case {case.id!r} has no sentence {number}: it has {len(items)}")
    question = items[number - 1].question
    value: Any = text
    expected = _expected_answer(question)
    hint: str | None = f"Write --answer {number}=VALUE"
    if question.asks is Asks.VERDICT:
        value = {"pass": True, "fail": False}.get(text)
        expected, hint = "pass or fail", None
    elif question.asks is Asks.SCORE:
        with suppress(ValueError):
            value = float(text)
    judgement = judgement_of(question, value, note)
    if judgement.answer is Answer.UNSURE:
        raise UsageError(f"sentence {number} asks for {expected}, got {text!r}", hint=hint)
    return judgement


def required_questions(case: ReplayCase, runs: Sequence[TraceRun]) -> list[JudgedItem]:
    """Return everything to judge in these runs; raise `NothingSelected` if there is nothing."""
    found = find_questions(case, runs)
    if not found:
        hint = "Write sentences under `semantic:`, or an assertion such as `judge.rubric`."
        raise NothingSelected(f"the case {case.id!r} has no semantic checks", hint=hint)
    return found


def checks_of(case: ReplayCase, runs: Sequence[TraceRun]) -> tuple[SemanticCheck, ...]:
    """Return the state of everything to judge in these runs."""
    return check_items(required_questions(case, runs), read_judgements(case.directory))


def load_judged_runs(case: ReplayCase, result: Path | None, root: Path) -> tuple[TraceRun, ...]:
    """Return the runs to judge: those of a replay's result, or of the newest replay of the case below `root`."""
    if result is None:
        file = _newest(case, root)
    elif result.is_dir():
        file = result / RESULT_FILE
    else:
        file = result
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
        return ""  # not a result, or incomplete
