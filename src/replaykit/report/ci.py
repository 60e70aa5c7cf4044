"""The result of `ci` as text for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from replaykit.model.result import Finding
from replaykit.model.text_lines import first_few
from replaykit.report.layout import indented, labelled, screen_width, short, to_json, with_hint
from replaykit.terminal import style
from replaykit.trials.ci_causes import by_cause
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPart, CiResult, payload_text

COLOURS = {CiOutcome.PASSED: "green", CiOutcome.FAILED: "red", CiOutcome.ERROR: "magenta", CiOutcome.UNTESTED: "yellow"}
MARKS = {CiOutcome.PASSED: "✓", CiOutcome.FAILED: "✗", CiOutcome.ERROR: "!", CiOutcome.UNTESTED: "?"}
_SHOWN_FAILURES = 20
_SHOWN_FINDINGS = 5
_SHOWN_PLACES = 10
_PLACE_CHARS = 1000
_INDENT = 13
_REASON_CHARS = 400
_REASON_LINES = 10


def ci_text(result: CiResult) -> str:
    """A block for each cause of what did not pass, the parts with their scores, and the verdict."""
    groups = by_cause(result.failures)
    blocks = ["\n".join(_block(*group)) for group in groups[:_SHOWN_FAILURES]]
    if len(groups) > _SHOWN_FAILURES:
        left = sum(map(len, groups[_SHOWN_FAILURES:]))
        blocks.append(f"… and {left} more; --json and the reports have all")
    text = "\n\n".join([*blocks, _table(result.parts), *notes_of(result), verdict_text(result)])
    return with_hint(text, "Full results: --json, or -o DIR for all reports")


def notes_of(result: CiResult) -> list[str]:
    """Return notes on what passed that do not change the verdict."""
    live = [item.id for item in result.items if not item.offline]
    weak = [item.id for item in result.items if item.unproven and item.outcome is CiOutcome.PASSED]
    notes = []
    if live:
        notes.append(f"note: calls were done for real in: {_names(live)}")
    if weak:
        notes.append(f"note: green, but never seen red in their current form: {_names(weak)} (see `replaykit prove`)")
    return notes


def _names(ids: Sequence[str]) -> str:
    return first_few([short(name, 40) for name in ids], _SHOWN_FINDINGS)


def item_details(item: CiItem) -> str:
    """Return one run of the agent in a line, also one that passed."""
    facts = [f"{item.duration_s:.2f} s"]
    if item.isolation:
        facts.append(f"isolation {item.isolation}")
    if item.evidence:
        facts.append(f"evidence {item.evidence}")
    return f"{item.part} {short(item.id, 80)} {item.verdict or item.outcome}: {', '.join(facts)}"


def verdict_text(result: CiResult) -> str:
    """The last line."""
    word, rest = result.verdict.split(":", 1)
    return f"{style(word, fg='green' if result.passed else 'red', bold=True)}:{rest}"


def ci_json(result: CiResult) -> str:
    """The result for programs, and for `replaykit export --from-report`."""
    text = to_json(replace(result, items=tuple(result.items)))
    # The same JSON; in the log of a job the other spelling is a command to whoever reads it.
    return text.replace("##[", "#\\u0023[")


def item_lines(item: CiItem) -> Iterator[tuple[str, str]]:
    """Yield label and text of each detail of an item, the same in every report."""
    yield "input", payload_text(item.input_json)
    if not item.failures:
        yield "why", item.reason
    for finding in item.failures[:_SHOWN_FINDINGS]:
        yield "failed", name_of(finding)
        yield "expected", finding.expected
        yield "got", finding.actual
        yield "where", finding.where
    if len(item.failures) > _SHOWN_FINDINGS:
        yield "failed", f"… and {len(item.failures) - _SHOWN_FINDINGS} more"
    yield "incident", item.expected_failure
    faults = "; ".join(item.faults[:_SHOWN_FINDINGS])
    if len(item.faults) > _SHOWN_FINDINGS:
        faults += f" (and {len(item.faults) - _SHOWN_FINDINGS} more)"
    yield "injected", faults
    if item.divergence is not None:
        yield "diverged", item.divergence.text
    yield "error", item.error
    if place_of(item) not in [finding.where for finding in item.failures]:
        yield "where", place_of(item)
    yield "evidence", item.evidence
    yield "rerun", item.command


def name_of(finding: Finding) -> str:
    """An assertion by the name of its invariant, or by its kind."""
    name = f"{finding.id} ({finding.severity})" if finding.id else finding.kind
    if finding.text and not finding.expected:
        return f"{name}: {finding.text}"
    return name


def place_of(item: CiItem) -> str:
    """The file and the line."""
    if item.line:
        return f"{item.file}:{item.line}"
    return item.file


def head_of(item: CiItem) -> str:
    """An item in a few words."""
    return f"{item.part.value} {item.verdict}: {item.id}"


def _block(item: CiItem, *others: CiItem) -> Iterator[str]:
    width = screen_width()
    mark = style(MARKS[item.outcome], fg=COLOURS[item.outcome])
    yield f"{mark} {style(short(head_of(item), width - 2), bold=True)}"
    for word, text in item_lines(item):
        if not text:
            continue
        if word == "why":  # it says at its end what to do
            first, *more = [short(line, _REASON_CHARS) for line in text.splitlines()[:_REASON_LINES]]
            yield f"    {labelled(word, first, 8)}"
            yield from indented(filter(None, more), f"{'':<{_INDENT}}| ")  # never the first of its line
            continue
        limit = width - _INDENT
        if word in ("rerun", "where", "evidence"):  # what is to be pasted is never cut
            limit = len(text) * 8
        yield f"    {labelled(word, short(text, limit), 8)}"
    if others:
        yield f"    {labelled('also', f'{len(others)} more with the same cause', 8)}"
        for other in others[:_SHOWN_PLACES]:
            yield f"{'':<{_INDENT}}{short(place_text(other), _PLACE_CHARS)}"
        if len(others) > _SHOWN_PLACES:
            yield f"{'':<{_INDENT}}… and {len(others) - _SHOWN_PLACES} more; --json and the reports have all"


def place_text(item: CiItem) -> str:
    """Return an item as one place of a cause: `replay refund (cases/refund/case.yaml:9): .replaykit/runs/…`."""
    text = f"{item.part.value} {item.id}"
    where = place_of(item)
    if where:
        text += f" ({where})"
    if item.evidence:
        text += f": {item.evidence}"
    return text


def _table(parts: Sequence[CiPart]) -> str:
    wide = max(map(len, ["part", *(part.name for part in parts)]))
    lines = [style(f"{'part':<{wide}}  {'passed':>13}  {'weight':>6}  {'score':>6}", dim=True)]
    for part in parts:
        count = f"{part.passed} of {part.total}"
        score = style(f"{score_text(part):>6}", fg=_score_colour(part))
        lines.append(f"{part.name:<{wide}}  {count:>13}  {part.weight:>6g}  {score}")
    return "\n".join(lines)


def _score_colour(part: CiPart) -> str | None:
    if part.score is None:
        return None
    return "green" if part.passed == part.total else "red"


def score_text(part: CiPart) -> str:
    """Return the score of a part; a dash where there is none."""
    return "–" if part.score is None else f"{part.score:g}"
