"""Patterns of a project: run where one of their keywords is, inside windows, so that none can hang for long."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.plausible import entropy
from replaykit.redaction.rules import Rule
from replaykit.redaction.view import View


def pattern_hits(view: View, rules: tuple[Rule, ...]) -> Iterator[Hit]:
    """What the rules find."""
    for rule in rules:
        for start, end in rule.windows(view.low):
            for found in rule.pattern.finditer(view.text, start, end):
                value = found[rule.group]
                if value and _is_wanted(rule, value, found[0]):
                    yield Hit(rule.kind, *found.span(rule.group), 3, is_own=True)


def _is_wanted(rule: Rule, value: str, whole: str) -> bool:
    if rule.entropy and entropy(value) <= rule.entropy:
        return False
    lowered = value.lower()
    if any(word in lowered for word in rule.stopwords):
        return False
    return not any(pattern.search(value) or pattern.search(whole) for pattern in rule.allow)
