"""Findings of `scan` and `redact` as text, JSON and SARIF: kinds and places, never values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from replaykit import __version__
from replaykit.model.values import Json
from replaykit.redaction.file_selection import Passed
from replaykit.redaction.files import Leak
from replaykit.report.layout import JsonResult, counted, tally, to_json
from replaykit.terminal import visible


class ScanReport(JsonResult, frozen=True, kw_only=True):
    """The secrets and personal data that were found in files; never the values."""

    scanned: int
    """The number of files that were looked at."""
    findings: Sequence[Leak]
    """Every finding; empty if there is none."""
    passed_over: Sequence[Passed]
    """Files that were not looked at."""


class RedactionReport(JsonResult, frozen=True, kw_only=True):
    """The secrets and personal data that were replaced; never the values."""

    dry_run: bool
    """True when nothing was changed: the list says what would be."""
    replaced: Sequence[Leak]
    """Every value that was replaced, or would be."""
    passed_over: Sequence[Passed]
    """Files that were left alone."""


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def kinds_text(leaks: Sequence[Leak]) -> str:
    """`3 email, 1 card`."""
    counts = Counter(sorted(leak.kind for leak in leaks))
    return tally(dict(counts.most_common()))


def scan_text(leaks: Sequence[Leak], scanned: int) -> str:
    """One finding on each line, and what they add up to."""
    lines = [visible(str(leak)) for leak in leaks]
    files = counted(scanned, "file")
    if not leaks:
        return f"{files} scanned, nothing found"
    return "\n".join([*lines, f"{files} looked at, {counted(len(leaks), 'finding')}: {kinds_text(leaks)}"])


def scan_json(leaks: Sequence[Leak], scanned: int, passed_over: Sequence[Passed]) -> str:
    """The findings, and what was not looked at."""
    return to_json(ScanReport(scanned=scanned, findings=leaks, passed_over=passed_over))


def scan_sarif(leaks: Sequence[Leak]) -> str:
    """The findings in SARIF 2.1.0, which code hosts show at the lines."""
    kinds = sorted({leak.kind for leak in leaks})
    rules: list[Json] = [
        {
            "id": kind,
            "shortDescription": {"text": f"{kind} in a file"},
            "help": {"text": "Remove it, or redact it: replaykit redact FILE"},
            "defaultConfiguration": {"level": "error"},
        }
        for kind in kinds
    ]
    driver = {"name": "replaykit", "version": __version__, "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(leak, kinds.index(leak.kind)) for leak in leaks],
    }
    return to_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(leak: Leak, rule: int) -> Json:
    place = {
        "artifactLocation": {"uri": quote(Path(leak.file).as_posix())},
        "region": {"startLine": leak.line, "startColumn": leak.column},
    }
    return {
        "ruleId": leak.kind,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": f"{leak.kind} at {leak.path}" if leak.path else leak.kind},
        "locations": [{"physicalLocation": place}],
    }


def redact_text(leaks: Sequence[Leak], *, dry_run: bool) -> str:
    """Return what was replaced: by place, then by kind."""
    if not leaks:
        return "nothing to replace"
    lines = []
    for leak in leaks:
        place = str(leak) if leak.line else f"{leak.file} {leak.kind}"
        lines.append(visible(place))
    verb = "would be replaced" if dry_run else "replaced"
    return "\n".join([*lines, f"{len(leaks)} {verb}: {kinds_text(leaks)}"])


def redact_json(leaks: Sequence[Leak], passed_over: Sequence[Passed], *, dry_run: bool) -> str:
    """The same, for programs."""
    return to_json(RedactionReport(dry_run=dry_run, replaced=leaks, passed_over=passed_over))
