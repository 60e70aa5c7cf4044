"""Judgements of a replay: the state of every question, and their effect on the verdict.

Questions come from the sentences of a case and from assertions that need a judge. Only sentences change the verdict
here: the assertions have already counted their answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import find_judged
from replaykit.checks.questions import JudgeRule, KnownAnswer, Question, answer_text, question_of
from replaykit.checks.reading import first
from replaykit.judges.judge import PERSON, key_of
from replaykit.judges.judgement_store import Judgements
from replaykit.model.result import ReplayResult, SemanticCheck, Verdict
from replaykit.model.run import TraceRun


class JudgedItem(Struct, frozen=True, kw_only=True):
    """One question about one run."""

    text: str
    question: Question
    rule: JudgeRule | None = None
    """The rule of the assertion that asks; None for a sentence."""
    kind: str = ""
    run: int = 1

    def check(self, answer: KnownAnswer) -> SemanticCheck:
        """Return the check that this answer decides."""
        status, reason = answer.status, answer.reason
        if self.rule is not None and status not in ("unjudged", "needs_human"):
            status = "pass" if self.rule.is_met(answer) else "fail"
            if answer.status == "given":
                reason = ": ".join(filter(None, (answer_text(answer), reason)))
        return SemanticCheck(text=self.text, status=status, by=answer.by, reason=reason, kind=self.kind, run=self.run)


def find_questions(case: ReplayCase, runs: Sequence[TraceRun]) -> list[JudgedItem]:
    """Return all questions about the runs of one replay, in order and without duplicates."""
    items: dict[tuple[str, str], JudgedItem] = {}
    for item in _questions_in(case, runs):
        items.setdefault((item.text, key_of(item.question, PERSON)), item)
    return list(items.values())


def _questions_in(case: ReplayCase, runs: Sequence[TraceRun]) -> Iterator[JudgedItem]:
    for text in case.semantic:
        yield JudgedItem(text=text, question=question_of(text, runs[0]))
    for assertion, is_repeated in find_judged((*case.observed, *case.desired)):
        rule = assertion.rule
        assert isinstance(rule, JudgeRule)
        for number, run in enumerate(runs if is_repeated else runs[:1], 1):
            question = rule.question(run)
            yield JudgedItem(text=rule.sentence, question=question, rule=rule, kind=assertion.kind, run=number)


def check_items(items: Sequence[JudgedItem], known: Judgements) -> tuple[SemanticCheck, ...]:
    """Return the checks of all questions, with their stored answers."""
    return tuple(item.check(known.look_up(item.question)) for item in items)


def with_judgements(case: ReplayCase, result: ReplayResult, known: Judgements) -> ReplayResult:
    """Return the result with its sentences judged: a failed one breaks it, an unjudged one keeps it from passing."""
    if result.run is None:
        return result
    checks = check_items(find_questions(case, (result.run, *result.more)), known)
    result = msgspec.structs.replace(result, semantic=checks)
    if result.verdict is not Verdict.FIXED:
        return result
    sentences = [check for check in checks if not check.kind]
    failed = first(sentences, lambda check: check.status == "fail")
    unjudged = first(sentences, lambda check: check.status == "unjudged")
    if failed is not None:
        reason = f"a semantic check failed: {failed.text!r}, {failed.by} says: {failed.reason or 'no reason given'}"
        return msgspec.structs.replace(result, verdict=Verdict.BROKEN, reason=reason)
    if unjudged is not None:
        where = str(case.directory)
        reason = (
            f"a semantic check is unjudged: {unjudged.text!r}, {unjudged.reason}\n"
            f"Ask the judge: replaykit judge {where} --ask-judge\nOr answer it:  replaykit judge review {where}"
        )
        return msgspec.structs.replace(result, verdict=Verdict.INCONCLUSIVE, reason=reason)
    return result
