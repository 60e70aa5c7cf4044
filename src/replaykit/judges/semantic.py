"""What judgements mean for a replay: the state of everything that is judged, and the verdict.

What is judged are the sentences of a case, and the assertions that ask a judge. Only sentences touch the verdict here:
what an answer means for an assertion, the assertion has said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.checks.inside import judged_in
from replaykit.checks.judged import Judged, said
from replaykit.checks.questions import Question, Told, question_of
from replaykit.judges.judge import PERSON, key_of
from replaykit.judges.stored import Judgements
from replaykit.model.result import ReplayResult, SemanticCheck, Verdict
from replaykit.model.run import TraceRun


class Asked(Struct, frozen=True, kw_only=True):
    """One thing that is judged of one run."""

    text: str
    question: Question
    rule: Judged | None = None
    """Of the assertion that asks; None for a sentence."""
    kind: str = ""
    run: int = 1

    def check(self, told: Told) -> SemanticCheck:
        """What it comes to, with what is known."""
        status, reason = told.status, told.reason
        if self.rule is not None and status not in ("unjudged", "needs_human"):
            status = "pass" if self.rule.is_met(told) else "fail"
            reason = ": ".join(part for part in (said(told) if told.status == "given" else "", reason) if part)
        return SemanticCheck(text=self.text, status=status, by=told.by, reason=reason, kind=self.kind, run=self.run)


def everything_asked(case: ReplayCase, runs: Sequence[TraceRun]) -> list[Asked]:
    """What the case wants judged of these runs of one replay, in its order, each question once."""
    found: dict[tuple[str, str], Asked] = {}
    for one in _asked(case, runs):
        found.setdefault((one.text, key_of(one.question, PERSON)), one)
    return list(found.values())


def _asked(case: ReplayCase, runs: Sequence[TraceRun]) -> Iterator[Asked]:
    for text in case.semantic:
        yield Asked(text=text, question=question_of(text, runs[0]))
    for assertion, is_repeated in judged_in((*case.observed, *case.desired)):
        rule = assertion.rule
        assert isinstance(rule, Judged)
        for number, run in enumerate(runs if is_repeated else runs[:1], 1):
            question = rule.question(run)
            yield Asked(text=rule.sentence, question=question, rule=rule, kind=assertion.kind, run=number)


def checked(asked: Sequence[Asked], known: Judgements) -> tuple[SemanticCheck, ...]:
    """What is known of everything that was asked."""
    return tuple(one.check(known.told(one.question)) for one in asked)


def with_judgements(case: ReplayCase, result: ReplayResult, known: Judgements) -> ReplayResult:
    """The result, with its sentences judged: one that fails fails it, one that nobody judged keeps it from passing."""
    if result.run is None:
        return result
    checks = checked(everything_asked(case, (result.run, *result.more)), known)
    result = msgspec.structs.replace(result, semantic=checks)
    if result.verdict is not Verdict.FIXED:
        return result
    sentences = [check for check in checks if not check.kind]
    failed = next((check for check in sentences if check.status == "fail"), None)
    unjudged = next((check for check in sentences if check.status == "unjudged"), None)
    if failed is not None:
        reason = f"a semantic check failed: {failed.text!r}, {failed.by} says: {failed.reason or 'no reason given'}"
        return msgspec.structs.replace(result, verdict=Verdict.BROKEN, reason=reason)
    if unjudged is not None:
        where = str(case.directory)
        reason = (
            f"a semantic check is unjudged: {unjudged.text!r}, {unjudged.reason}\n"
            f"Ask the judge: replaykit judge {where} --record\nOr answer it:  replaykit review {where}"
        )
        return msgspec.structs.replace(result, verdict=Verdict.INCONCLUSIVE, reason=reason)
    return result
