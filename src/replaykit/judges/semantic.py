"""What judgements mean for a replay: the state of each sentence, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from replaykit.judges.judge import Answer, question_of
from replaykit.judges.stored import Judgements
from replaykit.model.result import ReplayResult, SemanticCheck, Verdict
from replaykit.model.run import TraceRun


def checked(sentences: Iterable[str], run: TraceRun, known: Judgements) -> tuple[SemanticCheck, ...]:
    """Each sentence, and what is known of it for this run."""
    return tuple(_checked(text, run, known) for text in sentences)


def _checked(text: str, run: TraceRun, known: Judgements) -> SemanticCheck:
    entry = known.find(question_of(text, run))
    if entry is None:
        if known.judge is None and not known.knows(text):
            return SemanticCheck(text=text)
        return SemanticCheck(text=text, status="unjudged", reason="nobody has judged this output")
    if entry.answer is Answer.UNSURE:
        return SemanticCheck(text=text, status="unjudged", by=entry.by, reason=f"unsure: {entry.reason}")
    return SemanticCheck(text=text, status=entry.answer.value, by=entry.by, reason=entry.reason)


def with_judgements(result: ReplayResult, known: Judgements, where: str = "CASE") -> ReplayResult:
    """The result, with its sentences judged: one that fails fails it, one that nobody judged keeps it from passing.

    `where` is what a person types to name the case.
    """
    if result.run is None:
        return result
    checks = checked((check.text for check in result.semantic), result.run, known)
    result = msgspec.structs.replace(result, semantic=checks)
    if result.verdict is not Verdict.FIXED:
        return result
    failed = [check for check in checks if check.status == "fail"]
    unjudged = [check for check in checks if check.status == "unjudged"]
    if failed:
        first = failed[0]
        reason = f"a semantic check failed: {first.text!r}, {first.by} says: {first.reason or 'no reason given'}"
        return msgspec.structs.replace(result, verdict=Verdict.CHANGED, reason=reason)
    if unjudged:
        first = unjudged[0]
        reason = (
            f"a semantic check is unjudged: {first.text!r}, {first.reason}\n"
            f"Ask the judge: replaykit judge {where} --record\nOr answer it:  replaykit review {where}"
        )
        return msgspec.structs.replace(result, verdict=Verdict.ERROR, reason=reason)
    return result
