"""Recall and precision of a finder over labelled samples.

A span is found when a finding touches it, named when such a finding says the right family, and covered when
findings leave no character of it. A finding is right when it touches a span, and counted neither way when all it
touches is a matter of opinion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from . import kinds
from .corpus import Sample
from .marked import OPINION, Span


class Found(NamedTuple):
    """What a finder says of characters `start` to `end`; `family` is one of `kinds.FAMILIES`, or another word."""

    start: int
    end: int
    family: str


Find = Callable[[str], list[Found]]


@dataclass
class Tally:
    """Counts for one kind, or for many."""

    spans: int = 0
    found: int = 0
    named: int = 0
    covered: int = 0
    findings: int = 0
    right: int = 0
    exact: int = 0
    """Findings that touch a span of the family they name."""

    @property
    def recall(self) -> float:
        return self.found / self.spans if self.spans else 1.0

    @property
    def named_recall(self) -> float:
        return self.named / self.spans if self.spans else 1.0

    @property
    def covered_recall(self) -> float:
        return self.covered / self.spans if self.spans else 1.0

    @property
    def precision(self) -> float:
        return self.right / self.findings if self.findings else 1.0

    @property
    def exact_precision(self) -> float:
        return self.exact / self.findings if self.findings else 1.0


@dataclass
class Score:
    """Everything counted, by kind of the spans and by family of the findings."""

    kinds: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    families: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    missed: list[tuple[Sample, Span]] = field(default_factory=list)
    alarms: list[tuple[Sample, Found]] = field(default_factory=list)

    def of_group(self, group: str) -> Tally:
        return _sum(tally for kind, tally in self.kinds.items() if kinds.group(kind) == group)

    @property
    def all(self) -> Tally:
        return _sum((*self.kinds.values(), *self.families.values()))


def score(find: Find, samples: Iterable[Sample]) -> Score:
    """Run the finder over all samples and count."""
    result = Score()
    for sample in samples:
        findings = find(sample.text)
        for span in sample.spans:
            if span.kind != OPINION:
                _count_span(result, sample, span, findings)
        for finding in findings:
            _count_finding(result, sample, finding)
    return result


def _count_span(result: Score, sample: Sample, span: Span, findings: list[Found]) -> None:
    touching = [finding for finding in findings if _touch(finding, span)]
    tally = result.kinds[span.kind]
    tally.spans += 1
    tally.found += bool(touching)
    tally.named += any(finding.family == kinds.family(span.kind) for finding in touching)
    tally.covered += _covers(touching, span)
    if not touching:
        result.missed.append((sample, span))


def _count_finding(result: Score, sample: Sample, finding: Found) -> None:
    touched = [span for span in sample.spans if _touch(finding, span)]
    sure = [span for span in touched if span.kind != OPINION]
    if touched and not sure:
        return
    tally = result.families[finding.family]
    tally.findings += 1
    tally.right += bool(sure)
    tally.exact += any(kinds.family(span.kind) == finding.family for span in sure)
    if not sure:
        result.alarms.append((sample, finding))


def _touch(finding: Found, span: Span) -> bool:
    return finding.start < span.end and span.start < finding.end


def _covers(findings: list[Found], span: Span) -> bool:
    at = span.start
    for finding in sorted(findings):
        if finding.start <= at:
            at = max(at, finding.end)
    return at >= span.end


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        for name, value in vars(tally).items():
            setattr(total, name, getattr(total, name) + value)
    return total
