"""Failure hints: whether an answer may tell of a failure in words other than those of `admission`."""

from __future__ import annotations

import re

from replaykit.checks.admissions import is_readable
from replaykit.model.events import ToolCall
from replaykit.model.values import canonical
from replaykit.redaction.lazy_patterns import lazy

_REPEATED_WORDS = 2
_STEM_CHARS = 5
_CONTENT_WORD = lazy(r"[^\W\d_]{4,}")
_CODE = lazy(r"(?<![\w.])[45]\d\d(?![\w.]*\d)")
_SENTENCE = lazy(r"[^.!?\n]+")
_REGRET = lazy(
    r"\b(?:unfortunately|i'?m afraid|i am afraid|sorry|regrettably|leider|bedaure\w*|malheureusement|désolée?|lo siento"
    r"|lamentablemente|desafortunadamente|desculp\w+|infelizmente|lamento|purtroppo|mi dispiace|spiacente|helaas"
    r"|niestety|przykro|сожалени\w+|извините)\b|申し訳|残念|抱歉|遗憾|遺憾|죄송|아쉽게도|유감",
    re.IGNORECASE,
)
_DENIAL = lazy(
    r"\b(?:no|not|never|none|nobody|neither|nor|nothing|already|only|missing|wrong|because|since|instead|however|but|until"
    r"|nicht|keine?[nrms]?|pas|aucune?|ningun\w*|não|nenhum\w*|non|nessun\w*|niet|geen|nie|нет|не)\b|n't\b|n\u2019t\b",
    re.IGNORECASE,
)

_HANDED_OVER = lazy(
    r"\bescalat(?:ed|ing)\b|\b(?:forwarded|transferr(?:ed|ing)|handed|handing|passed|passing) (?:you|this|your|it)\b"
    r"|\b(?:will|shall|'ll) (?:call|contact|get back|follow up|reach out)\b",
    re.IGNORECASE,
)


def failure_hint(answer: str, call: ToolCall, reason: str) -> str | None:
    """Return what in the answer may tell of the call's failure; None when nothing does.

    It is in a language that is not read, it regrets something, it hands the matter over, it repeats the reason, or it
    denies some of it. Words that the call's arguments have in common with the reason do not count.
    """
    if not is_readable(answer):
        return "something in a language that is not read"
    if found := _REGRET.search(answer) or _HANDED_OVER.search(answer):
        return found[0]
    words = _stems(reason) - _stems(canonical(call.arguments).decode())
    if len(words & _stems(answer)) >= _REPEATED_WORDS or _codes(reason) & _codes(answer):
        return reason
    sentences = (sentence for sentence in _SENTENCE.findall(answer) if _DENIAL.search(sentence))
    return next((sentence.strip() for sentence in sentences if words & _stems(sentence)), None)


def _codes(text: str) -> set[str]:
    """Return the numbers of three digits, as statuses are: whoever names one speaks of the failure."""
    return set(_CODE.findall(text))


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in _CONTENT_WORD.findall(text.lower())}
