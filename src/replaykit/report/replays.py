"""Replay results as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from click import unstyle

from replaykit.model.isolation import Isolation, IsolationLevel
from replaykit.model.result import RESULT_FORMAT, Deviation, Evidence, EvidenceSource, Finding, ReplayResult, Verdict
from replaykit.report.layout import counted, counts_text, panel, short, to_json
from replaykit.terminal import style

if TYPE_CHECKING:
    from replaykit.candidates.prove import Proving

_TITLES = {
    Verdict.REPRODUCED: ("FAILURE REPRODUCED", "red"),
    Verdict.FIXED: ("FIXED", "green"),
    Verdict.BROKEN: ("BROKEN", "red"),
    Verdict.DIVERGED: ("DIVERGED", "yellow"),
    Verdict.FLAKY: ("FLAKY", "yellow"),
    Verdict.INCONCLUSIVE: ("INCONCLUSIVE", "magenta"),
}
_IN_WORDS = {
    Verdict.DIVERGED: "it asked for something that was not recorded",
    Verdict.FLAKY: "repeated runs disagree",
    Verdict.INCONCLUSIVE: "cannot tell",
}
_NEXT = {
    Verdict.DIVERGED: "Next: record answers for what it asks now (`replaykit retape CASE --live NAME`), or allow what"
    " may differ in the case (`match.ignore`, `match.on_miss`)",
    Verdict.FLAKY: "Next: hold still what differs (`clock`, `seed`), or say how often it has to hold (`repeat:`)",
}
_WITH_LIVE_CALLS = "with live calls"
_NAMED_NOTES = {
    "unused": "recorded and not called",
    "moved": "called at another place than recorded",
    "repeated": "answered once more with the last recorded outcome",
    "fault": "not recorded, and answered with the case's fault",
    "arguments": "answered by position, with other arguments than recorded",
    "rekeyed": "matched by the kind of its placeholders, which have another key (set REPLAYKIT_REDACTION_KEY)",
    "now": "called with the current time, compared as now",
    "live": "done for real",
}
_NOTES = {
    "unused": "recorded calls were not made in",
    "moved": "calls were at another place than recorded in",
    "repeated": "recorded outcomes were repeated in",
    "fault": "calls were answered with the case's fault in",
    "arguments": "calls were answered by position, with other arguments, in",
    "rekeyed": "placeholders have another key (set REPLAYKIT_REDACTION_KEY) in",
    "now": "the current time was compared as now in",
    "live": "calls were done for real in",
    "unwatched": "tools were not answered from the tape in",
    "context": "the context was not given in",
    "unpinned": "the clock, chance or variables were not held still for all in",
}
_SHOWN_IDS = 3
_SHOWN_FILES = 3
PROVE = "Prove it: replaykit prove CASE --bad CANDIDATE --good CANDIDATE"
"""The command to type for a case that was never seen failing."""


def result_text(result: ReplayResult) -> str:
    """One replay: the panel, the three counts, and what failed."""
    title, colour = _TITLES[result.verdict]
    seen = "; ".join(finding.text for finding in result.observed)
    box = panel("ReplayKit Result", [line for line in (seen, f"Result: {headline(result)}") if line])
    lines = [box.replace(title, style(title, fg=colour, bold=True)), ""]
    if result.verdict is not Verdict.INCONCLUSIVE:
        lines += [*_counts(result), ""]
    if not _is_said_below(result):
        lines += [f"  {line}" for line in result.reason.splitlines()]
    if result.verdict is not Verdict.INCONCLUSIVE:
        lines += _failures(result.desired)
    lines += [f"  {line}" for line in (*_incident(result), *_next(result), *_notes(result))]
    return "\n".join(lines).rstrip()


def headline(result: ReplayResult) -> str:
    """The verdict in plain words."""
    title, _ = _TITLES[result.verdict]
    words = _IN_WORDS.get(result.verdict)
    if words:
        title = f"{title}: {words}"
    if result.offline:
        return title
    return f"{title} {_WITH_LIVE_CALLS}"


def evidence_text(evidence: Evidence) -> str:
    """Return how much of the tape was used, and who reports it."""
    if evidence.how is EvidenceSource.OUTPUT:
        return "none needed: the case says `evidence: output`"
    by = {EvidenceSource.REPORTED: ", as the candidate reports", EvidenceSource.NONE: ""}
    return f"{evidence.used} of {counted(evidence.recorded, 'recorded answer')}{by.get(evidence.how, '')}"


def isolation_text(isolation: Isolation) -> str:
    """Who kept the candidate shut in, and what it wrote and tried meanwhile."""
    parts = [_level_text(isolation.level, isolation.channels)]
    if isolation.children:
        level = min(isolation.children.values(), key=lambda level: level.strength)
        parts[0] += f", child processes {_level_text(level, isolation.children)}"
    if isolation.written_count:
        count = counted(isolation.written_count, "file")
        paths = ", ".join(short(file.path, 80) for file in isolation.written[:_SHOWN_FILES])
        more = ", …" if isolation.written_count > _SHOWN_FILES else ""
        parts.append(f"{count} written and discarded: {paths}{more}")
    stopped = sum(access.count for access in isolation.stopped) + isolation.more_stopped
    if stopped:
        parts.append(f"stopped {counted(stopped, 'attempt')} to reach something outside")
    parts += [short(note, 200) for note in isolation.notes]
    return "; ".join(parts)


def _level_text(level: IsolationLevel, channels: Mapping[str, IsolationLevel]) -> str:
    others = [f"{name} {level.value}" for name, level in channels.items() if level is not level]
    return level.value + (f" ({', '.join(others)})" if others else "")


def isolation_of_many(results: Sequence[ReplayResult]) -> str:
    """The levels of many replays, with how many had each."""
    levels = [result.isolation.level for result in results]
    found = [(level, levels.count(level)) for level in IsolationLevel if level in levels]
    if len(found) == 1:
        return found[0][0].value
    return ", ".join(f"{level.value} in {count}" for level, count in found)


def _incident(result: ReplayResult) -> list[str]:
    """Return the recorded failure of a session's incident, to stand beside what failed now."""
    if result.passed or not result.expected_failure:
        return []
    return [f"the incident: {short(result.expected_failure, 200)}"]


def _next(result: ReplayResult) -> list[str]:
    if result.verdict in _NEXT:
        return [_NEXT[result.verdict]]
    return []


def _is_said_below(result: ReplayResult) -> bool:
    """True when the reason only repeats the one assertion that failed."""
    failed = [finding for finding in result.desired if not finding.holds]
    return bool(failed) and result.reason.endswith(f"a desired assertion failed: {_gap(failed[0])}")


def failure_text(result: ReplayResult) -> str:
    """Why a replay does not pass, in a few lines without colour."""
    lines = ["; ".join(finding.text for finding in result.observed), *result.reason.splitlines()]
    if result.verdict is not Verdict.INCONCLUSIVE:
        lines += [unstyle(line) for line in _failures(result.desired)]
    lines += [*_incident(result), *_next(result)]
    head = f"case {result.case_id}: {result.verdict.value}, expected {Verdict.FIXED.value}"
    return "\n".join([head, *(f"  {short(line, 200)}" for line in lines if line)])


def results_text(results: Sequence[ReplayResult]) -> str:
    """Many replays: a line each, and the counts."""
    wide = max(len(result.case_id) for result in results)
    lines = []
    for result in results:
        word, colour = result.verdict.value, _TITLES[result.verdict][1]
        why = _first_line(result.reason) or "; ".join(f.text for f in result.observed)
        lines.append(f"{style(f'{word:<12}', fg=colour)} {result.case_id:<{wide}}  {short(why, 70)}")
    counts = [(verdict, sum(r.verdict is verdict for r in results)) for verdict in Verdict]
    total = ", ".join(f"{count} {verdict.value}" for verdict, count in counts if count)
    return "\n".join([*lines, "", *_notes_of_many(results), f"{counted(len(results), 'replay')}: {total}"])


def _notes(result: ReplayResult) -> list[str]:
    """Return notes that do not change the verdict: deviations and missing context."""
    texts: list[str] = []
    for kind, words in _NAMED_NOTES.items():
        names = [deviation.name for deviation in result.deviations if deviation.kind == kind and deviation.name]
        if names:
            texts.append(f"{words}: {short(counts_text(names), 200)}")
    texts += dict.fromkeys(short(deviation.text, 200) for deviation in result.deviations if _is_told_whole(deviation))
    texts += [short(reason, 200) for reason in result.uncertain]
    consent = result.consent
    for words, places in (("could be reached", consent.connect), ("could be written", consent.write)):
        if places:
            texts.append(f"{words}, as you allowed: {short(', '.join(places), 200)}")
    if result.unproven:
        texts.append(f"{result.unproven}\n    {PROVE}")
    return [f"{style('note', fg='yellow')}: {text}" for text in texts]


def _is_told_whole(deviation: Deviation) -> bool:
    """True for one that is about no call in particular."""
    return deviation.kind in _NOTES and not (deviation.kind in _NAMED_NOTES and deviation.name)


def _notes_of_many(results: Sequence[ReplayResult]) -> list[str]:
    """The same of many replays, a line for each sort."""
    kinds: dict[str, list[ReplayResult]] = {}
    for result in results:
        for kind in dict.fromkeys(deviation.kind for deviation in result.deviations):
            kinds.setdefault(kind, []).append(result)
    texts = [f"{_NOTES[kind]}: {_ids(kinds[kind])}" for kind in _NOTES if kind in kinds]
    weak = [result for result in results if result.unproven]
    if weak:
        texts.append(f"green, and never seen red as they are: {_ids(weak)}\n    {PROVE}")
    return [f"{style('note', fg='yellow')}: {text}" for text in texts]


def _ids(results: Sequence[ReplayResult]) -> str:
    ids = list(dict.fromkeys(result.case_id for result in results))
    more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    return ", ".join(short(name, 40) for name in ids[:_SHOWN_IDS]) + more


def results_json(results: Sequence[ReplayResult], *, passed: bool) -> str:
    """Results for programs."""
    document = {"replaykit": RESULT_FORMAT, "passed": passed, "results": results}
    return to_json(document)


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
    if text:
        return text.splitlines()[0]
    return ""


def proof_text(proving: Proving) -> str:
    """Red and green, and whether they are."""
    lines: list[str] = []
    for name, results, expected, is_so in (
        ("bad", proving.bad, proving.expected_red, proving.is_red),
        ("good", proving.good, Verdict.FIXED, proving.is_green),
    ):
        mark = style("✓", fg="green") if is_so else style("✗", fg="red")
        result = next((replay for replay in results if replay.verdict is not expected), results[0])
        times = f" × {len(results)}" if len(results) > 1 else ""
        lines.append(f"{mark} {name:<5} {result.verdict.value + times:<12} {short(result.candidate, 60)}")
        if not is_so:
            why = result.reason or "; ".join(finding.text for finding in result.observed)
            lines += [f"    expected {expected.value}: {line}" for line in why.splitlines()[:5]]
    proven = proving.is_proven
    verdict = "proven: red → green" if proven else "not proven"
    return "\n".join([*lines, "", f"{proving.case.id}: {style(verdict, fg='green' if proven else 'red', bold=True)}"])


def proof_json(proving: Proving) -> str:
    """A proof for programs: every replay, the bad candidate's first."""
    return results_json([*proving.bad, *proving.good], passed=proving.is_proven)


def injected_text(results: Sequence[ReplayResult]) -> str:
    """Return the faults that struck calls, and how often."""
    runs = [result.run for result in results if result.run]
    return counts_text(fault for run in runs for call in run.calls for fault in call.faults)
