"""What `ci` found, as text for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from click import style

from replaykit.model.result import Finding
from replaykit.report.panel import screen_width, short
from replaykit.trials.ci_result import CiItem, CiPart, CiResult, Outcome, shown

COLOURS = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.ERROR: "magenta", Outcome.UNTESTED: "yellow"}
MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.ERROR: "!", Outcome.UNTESTED: "?"}
_SHOWN_FAILURES = 20
_SHOWN_FINDINGS = 5
_INDENT = 13
_REASON_CHARS = 400


def ci_text(result: CiResult) -> str:
    """A block for each thing that did not pass, the parts with their scores, and the verdict."""
    failures = result.failures
    blocks = ["\n".join(_block(item)) for item in failures[:_SHOWN_FAILURES]]
    if len(failures) > _SHOWN_FAILURES:
        blocks.append(f"… and {len(failures) - _SHOWN_FAILURES} more; --json and the reports have all")
    return "\n\n".join([*blocks, _table(result.parts), verdict_text(result)])


def verdict_text(result: CiResult) -> str:
    """The last line."""
    word, rest = result.verdict.split(":", 1)
    return f"{style(word, fg='green' if result.passed else 'red', bold=True)}:{rest}"


def ci_json(result: CiResult) -> str:
    """The result for programs, and for `replaykit export --from-report`."""
    text = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
    # The same JSON; in the log of a job the other spelling is a command to whoever reads it.
    return text.replace("##[", "#\\u0023[")


def told(item: CiItem) -> Iterator[tuple[str, str]]:
    """What there is to say of an item, each with its word: the same in every report."""
    yield "asked", shown(item.input_json)
    if not item.failures:
        yield "why", item.reason
    for finding in item.failures[:_SHOWN_FINDINGS]:
        yield "failed", name_of(finding)
        yield "expected", finding.expected
        yield "got", finding.actual
    if len(item.failures) > _SHOWN_FINDINGS:
        yield "failed", f"… and {len(item.failures) - _SHOWN_FINDINGS} more"
    if item.divergence is not None:
        yield "diverged", item.divergence.text
    yield "error", item.error
    yield "where", place_of(item)
    yield "evidence", item.evidence
    yield "closer", item.command


def name_of(finding: Finding) -> str:
    """An assertion by the name of its invariant, or by its kind."""
    name = f"{finding.id} ({finding.severity})" if finding.id else finding.kind
    return f"{name}: {finding.text}" if finding.text and not finding.expected else name


def place_of(item: CiItem) -> str:
    """The file and the line."""
    return f"{item.file}:{item.line}" if item.line else item.file


def head_of(item: CiItem) -> str:
    """An item in a few words."""
    return f"{item.part.value} {item.verdict}: {item.id}"


def _block(item: CiItem) -> Iterator[str]:
    width = screen_width()
    mark = style(MARKS[item.outcome], fg=COLOURS[item.outcome])
    yield f"{mark} {style(short(head_of(item), width - 2), bold=True)}"
    for word, text in told(item):
        if not text:
            continue
        # What is to be pasted is never cut, and a reason says at its end what to do.
        limit = len(text) * 8 if word in ("closer", "where", "evidence") else width - _INDENT
        limit = _REASON_CHARS if word == "why" else limit
        yield f"    {word:<8} {short(text, limit)}"


def _table(parts: Sequence[CiPart]) -> str:
    wide = max([len("SCORE OF"), *(len(part.name) for part in parts)])
    lines = [f"{'SCORE OF':<{wide}}  {'PASSED':>13}  {'WEIGHT':>6}  {'SCORE':>6}"]
    for part in parts:
        score = "–" if part.score is None else f"{part.score:g}"
        count = f"{part.passed} of {part.total}"
        lines.append(f"{part.name:<{wide}}  {count:>13}  {part.weight:>6g}  {score:>6}")
    return "\n".join(lines)
