"""Verdicts: whether a score that somebody gave to a run says that it failed.

A score has a name and a value, and nothing says which end of it is the good one. So a run fails only by a value that
leaves no doubt: false, zero or less, a word such as `incorrect`; and by a true one, or one from the middle up, where
the name is that of a fault, such as `hallucination`. What is only measured, such as `latency`, is no verdict.
"""

from __future__ import annotations

import re

from replaykit.model.values import Json

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FAULTS = frozenset(
    (
        *("hallucination", "hallucinations", "hallucinated", "toxicity", "toxic", "harmful", "harmfulness", "harm"),
        *("bias", "biased", "error", "errors", "fault", "faults", "failure", "failed", "fail", "unsafe", "jailbreak"),
        *("injection", "leak", "leakage", "pii", "profanity", "refusal", "refused", "violation", "violations"),
        *("incorrect", "incorrectness", "wrong", "contradiction", "frustration", "frustrated", "abusive", "hate"),
    )
)
_MEASURES = frozenset(
    (
        *("latency", "duration", "time", "ms", "seconds", "cost", "price", "token", "tokens", "length", "count"),
        *("size", "number", "temperature", "turns", "steps", "retries", "index", "perplexity", "id", "version"),
    )
)
_NOT = frozenset(("no", "non", "not", "free", "without"))
_BAD = frozenset(
    (
        *("bad", "wrong", "incorrect", "fail", "failed", "failure", "error", "poor", "negative", "rejected", "reject"),
        *("unacceptable", "unsafe", "harmful", "unhelpful", "irrelevant", "ungrounded", "hallucinated", "thumbs_down"),
        *("thumbsdown", "dislike", "disliked", "no", "false", "unsatisfied", "frustrated", "incomplete"),
    )
)
_THERE = frozenset(("yes", "true", "present", "detected", "high", "severe"))
_MIDDLE = 0.5


def says_failure(name: str, value: Json) -> bool:
    """True where the score leaves no doubt that the run failed."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & _MEASURES:
        return False
    of_fault = bool(words & _FAULTS) and not words & _NOT
    if isinstance(value, bool):
        return value is of_fault
    if isinstance(value, int | float):
        if of_fault:
            return value >= _MIDDLE
        return value <= 0
    if isinstance(value, str):
        word = re.sub(r"[\s-]+", "_", value.strip().lower())
        return word in (_THERE if of_fault else _BAD)
    return False
