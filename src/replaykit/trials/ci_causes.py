"""Causes: what several items of `ci` that did not pass have in common."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Sequence

import msgspec

from replaykit.cases.detect_outcome import mask
from replaykit.model.result import Deviation
from replaykit.trials.ci_result import CiItem, CiOutcome

_DIFFERENCE = re.compile(r"^ +((?:changed|added|removed) +\S+)", re.M)
_DIGEST_CHARS = 12


def by_cause(items: Sequence[CiItem]) -> list[list[CiItem]]:
    """Return the items in groups of one cause each, in the order in which the causes show first."""
    groups: dict[Hashable, list[CiItem]] = {}
    for item in items:
        groups.setdefault(cause_of(item), []).append(item)
    return list(groups.values())


def cause_of(item: CiItem) -> Hashable:
    """Return what two items have in common if one fix may mend both: their outcome, and the kind of the cause first."""
    return item.outcome, _cause(item)


def cause_digest(item: CiItem) -> str:
    """Return a digest of an item's cause, the same in every run; empty if it passed."""
    if item.outcome is CiOutcome.PASSED:
        return ""
    return hashlib.sha256(msgspec.json.encode(cause_of(item))).hexdigest()[:_DIGEST_CHARS]


def _cause(item: CiItem) -> Hashable:
    if item.is_wrong_file:
        return "file", item.file, item.line, item.reason
    if item.divergence is not None:
        return "divergence", *_call_of(item.divergence)
    if item.error:
        return "error", mask(item.error), _broken_rules(item)
    if item.failures:
        return "rules", _broken_rules(item)
    if item.reason:
        return "reason", mask(item.reason)
    return "item", item.part, item.id


def _call_of(deviation: Deviation) -> tuple[Hashable, ...]:
    """Return which call left the tape, and where it differs from the recorded one; not in which run it did."""
    return deviation.kind, deviation.name or mask(deviation.text), tuple(_DIFFERENCE.findall(deviation.text))


def _broken_rules(item: CiItem) -> Hashable:
    """Return what does not hold: invariants, whatever the agent gave instead, or assertions and what they found."""
    rules = []
    for finding in item.failures:
        found = "" if finding.id else finding.actual
        rules.append((finding.id or finding.kind, finding.expected, found))
    return tuple(rules)
