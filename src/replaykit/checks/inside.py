"""Inside: what an assertion is made of, and what that says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.checks.parsing import Assertion


def inner_assertions(assertion: Assertion) -> tuple[Assertion, ...]:
    """The assertions that one is directly made of; none for a plain one."""
    return assertion.rule.inside


def is_about_one_run(assertion: Assertion) -> bool:
    """True when an assertion, or a part of it, speaks of the first run alone."""
    if assertion.rule.is_repeated:
        return False
    inside = inner_assertions(assertion)
    return any(map(is_about_one_run, inside)) if inside else True


def judged_in(assertions: Iterable[Assertion]) -> Iterator[tuple[Assertion, bool]]:
    """Every assertion that somebody has to judge, and whether it is asked about several runs."""
    for assertion in assertions:
        if assertion.rule.is_judged:
            yield assertion, False
        for inner, several in judged_in(inner_assertions(assertion)):
            yield inner, several or assertion.rule.is_repeated
