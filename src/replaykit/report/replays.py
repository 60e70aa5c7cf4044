"""Replay results as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from click import style, unstyle

from replaykit.checks.verdict import is_red
from replaykit.model.result import Finding, ReplayResult, Verdict
from replaykit.report.injected import counts_text
from replaykit.report.panel import counted, panel, short

_TITLES = {
    Verdict.REPRODUCED: ("FAILURE REPRODUCED", "red"),
    Verdict.FIXED: ("FIXED", "green"),
    Verdict.CHANGED: ("CHANGED", "yellow"),
    Verdict.ERROR: ("CANNOT TELL", "magenta"),
}
_UNSEEN = ("unwatched", "context", "unpinned")
_NOTES = {
    "unused": "recorded calls were not made in",
    "unwatched": "tools were not answered from the tape in",
    "context": "the context was not given in",
    "unpinned": "the clock, chance or variables were not held still for all in",
}
_SHOWN_IDS = 3


def result_text(result: ReplayResult) -> str:
    """One replay: the panel, the three counts, and what failed."""
    title, colour = _TITLES[result.verdict]
    seen = "; ".join(finding.text for finding in result.observed)
    box = panel("ReplayKit Result", [line for line in (seen, f"Result: {title}") if line])
    lines = [box.replace(title, style(title, fg=colour, bold=True)), ""]
    if result.verdict is not Verdict.ERROR:
        lines += [*_counts(result), ""]
    if not _is_said_below(result):
        lines += [f"  {line}" for line in result.reason.splitlines()]
    if result.verdict is not Verdict.ERROR:
        lines += _failures(result.desired)
    return "\n".join([*lines, *(f"  {line}" for line in _notes(result))]).rstrip()


def _is_said_below(result: ReplayResult) -> bool:
    """True when the reason only repeats the one assertion that failed."""
    failed = [finding for finding in result.desired if not finding.holds]
    return bool(failed) and result.reason.endswith(f"a desired assertion failed: {_gap(failed[0])}")


def failure_text(result: ReplayResult) -> str:
    """Why a replay does not pass, in a few lines without colour."""
    lines = ["; ".join(finding.text for finding in result.observed), *result.reason.splitlines()]
    if result.verdict is not Verdict.ERROR:
        lines += [unstyle(line) for line in _failures(result.desired)]
    head = f"case {result.case_id}: {result.verdict.value}, expected {Verdict.FIXED.value}"
    return "\n".join([head, *(f"  {short(line, 200)}" for line in lines if line)])


def results_text(results: Sequence[ReplayResult]) -> str:
    """Many replays: a line each, and the counts."""
    wide = max(len(result.case_id) for result in results)
    lines = []
    for result in results:
        word, colour = result.verdict.value, _TITLES[result.verdict][1]
        why = _first_line(result.reason) or "; ".join(f.text for f in result.observed)
        lines.append(f"{style(f'{word:<10}', fg=colour)} {result.case_id:<{wide}}  {short(why, 70)}")
    counts = [(verdict, sum(r.verdict is verdict for r in results)) for verdict in Verdict]
    total = ", ".join(f"{count} {verdict.value}" for verdict, count in counts if count)
    flaky = [f"{style('flaky', fg='yellow')}: {text}" for text in _flaky(results)]
    return "\n".join([*lines, "", *_notes_of_many(results), *flaky, f"{counted(len(results), 'replay')}: {total}"])


def _notes(result: ReplayResult) -> list[str]:
    """What decides nothing and is good to know: what of the tape was not used, and what nobody saw or gave."""
    unused = [told.name or "" for told in result.deviations if told.kind == "unused"]
    texts = [f"recorded and not called: {short(counts_text(unused), 200)}"] if unused else []
    texts += dict.fromkeys(short(told.text, 200) for told in result.deviations if told.kind in _UNSEEN)
    return [f"{style('note', fg='yellow')}: {text}" for text in texts]


def _notes_of_many(results: Sequence[ReplayResult]) -> list[str]:
    """The same of many replays, a line for each sort."""
    kinds: dict[str, list[ReplayResult]] = {}
    for result in results:
        for kind in dict.fromkeys(told.kind for told in result.deviations):
            kinds.setdefault(kind, []).append(result)
    said = {kind: _ids(kinds[kind]) for kind in ("unused", *_UNSEEN) if kind in kinds}
    return [f"{style('note', fg='yellow')}: {_NOTES[kind]}: {ids}" for kind, ids in said.items()]


def _ids(results: Sequence[ReplayResult]) -> str:
    ids = list(dict.fromkeys(result.case_id for result in results))
    more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    return ", ".join(short(name, 40) for name in ids[:_SHOWN_IDS]) + more


def _flaky(results: Sequence[ReplayResult]) -> list[str]:
    """The cases whose repetitions did not agree."""
    verdicts: dict[str, list[str]] = {}
    for result in results:
        verdicts.setdefault(result.case_id, []).append(result.verdict.value)
    return [f"{case_id} was {', '.join(seen)}" for case_id, seen in verdicts.items() if len(set(seen)) > 1]


def results_json(results: Sequence[ReplayResult], *, passed: bool) -> str:
    """Results for programs."""
    document = {"replaykit": 1, "passed": passed, "results": results}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _counts(result: ReplayResult) -> list[str]:
    reproduced = {True: "Yes", False: "No", None: "Cannot tell"}[result.reproduced]
    holding = sum(finding.holds for finding in result.desired)
    waiting = sum(check.status in ("needs_human", "unjudged") for check in result.semantic)
    return [
        *([f"  Observed failure reproduced: {reproduced}"] if result.observed else []),
        f"  Desired assertions: {holding}/{len(result.desired)} passed",
        f"  Semantic checks needing review: {waiting}",
    ]


def _failures(findings: Sequence[Finding]) -> list[str]:
    failed = [finding for finding in findings if not finding.holds]
    return [f"  {style('✗', fg='red')} {f.name}: {_gap(f)}" for f in failed]


def _gap(finding: Finding) -> str:
    return f"expected {finding.expected}, got {finding.actual}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def proof_text(bad: ReplayResult, good: ReplayResult, *, proven: bool, signed: bool) -> str:
    """Red and green, and whether they are; `signed` where signatures say how red looks."""
    lines = []
    red = Verdict.REPRODUCED if signed else Verdict.CHANGED
    for name, result, wanted, is_so in (
        ("bad", bad, red, is_red(bad)),
        ("good", good, Verdict.FIXED, good.verdict is Verdict.FIXED),
    ):
        mark = style("✓", fg="green") if is_so else style("✗", fg="red")
        lines.append(f"{mark} {name:<5} {result.verdict.value:<11} {short(result.candidate, 60)}")
        if not is_so:
            why = result.reason or "; ".join(finding.text for finding in result.observed)
            lines += [f"    expected {wanted.value}: {line}" for line in why.splitlines()[:5]]
    said = "proven: red → green" if proven else "not proven"
    return "\n".join([*lines, "", f"{good.case_id}: {style(said, fg='green' if proven else 'red', bold=True)}"])
