"""Patterns of a project: run where one of their keywords is, inside windows, so that none can hang for long."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.plausible_values import entropy
from replaykit.redaction.rules import RedactionRule, matches_any
from replaykit.redaction.text_view import View


def pattern_hits(view: View, rules: tuple[RedactionRule, ...]) -> Iterator[Hit]:
    """What the rules find."""
    for rule in rules:
        for start, end in rule.windows(view.low):
            first = start
            for found in rule.pattern.finditer(view.text, start, end):
                value = found[rule.group]
                begin = rule.lead_in.start(found, first) if rule.lead_in else found.start()
                first = found.end()
                if value and _is_wanted(rule, value, view.text[begin:first]):
                    yield Hit(rule.kind, *found.span(rule.group), 3, is_own=True)


def _is_wanted(rule: RedactionRule, value: str, whole: str) -> bool:
    if rule.entropy and entropy(value) <= rule.entropy:
        return False
    lowered = value.lower()
    if any(word in lowered for word in rule.stopwords):
        return False
    return not matches_any(rule.allow, value) and not matches_any(rule.allow, whole)
