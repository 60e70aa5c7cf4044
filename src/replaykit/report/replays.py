"""Replay results as text and JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.model.isolation import Isolation, IsolationLevel
from replaykit.model.result import RESULT_FORMAT, Evidence, EvidenceSource, Finding, ReplayResult, Verdict
from replaykit.model.text_lines import first_few
from replaykit.report.layout import counted, counts_text, indented, mark, panel, room, short, tally, to_json, with_hint
from replaykit.report.recorded_and_current import with_sides
from replaykit.terminal import style, visible

if TYPE_CHECKING:
    from replaykit.candidates.prove import Proving


class ReplayResults(Struct, frozen=True, kw_only=True):
    """The replays of a command."""

    replaykit: int = RESULT_FORMAT
    """Version of this form."""
    passed: bool
    """True when the exit code is 0."""
    results: Sequence[ReplayResult]
    """Every replay, in the order of the cases; of `prove`, those of the bad candidate first."""


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
_WITH_LIVE_CALLS = "with live calls"
_NAMED_NOTES = {
    "unused": "recorded and not called",
    "moved": "called at a different point than recorded",
    "repeated": "answered once more with the last recorded outcome",
    "fault": "not recorded, and answered with the case's fault",
    "arguments": "answered by position, with other arguments than recorded",
    "rekeyed": "matched by the kind of its placeholders, which have another key (set REPLAYKIT_REDACTION_KEY)",
    "now": "called with the current time, compared as now",
    "traceback": "called with a traceback, compared without its frames",
    "live": "done for real",
}
_NOTES = {
    "unused": "recorded calls were not made in",
    "moved": "calls came at a different point than recorded in",
    "repeated": "recorded outcomes were repeated in",
    "fault": "calls were answered with the case's fault in",
    "arguments": "calls were answered by position, with other arguments, in",
    "rekeyed": "placeholders have another key (set REPLAYKIT_REDACTION_KEY) in",
    "now": "the current time was compared as now in",
    "traceback": "a traceback was compared without its frames in",
    "live": "calls were done for real in",
    "unwatched": "tools were not answered from the tape in",
    "context": "the context was not given in",
    "unpinned": "the clock, randomness or variables were not frozen everywhere in",
}
_SHOWN_IDS = 3
_SHOWN_FILES = 3
PROVE = "Prove it: replaykit prove CASE --bad CANDIDATE --good CANDIDATE"
"""The command to type for a case that was never seen failing."""


def result_text(result: ReplayResult) -> str:
    """One replay: the panel, the three counts, and what failed."""
    title, colour = _TITLES[result.verdict]
    verdict = headline(result).replace(title, style(title, fg=colour, bold=True))
    body = list(filter(None, (result.observation, f"Result: {verdict}")))
    lines = [panel("ReplayKit Result", body, colour=colour), ""]
    failed = result.failures
    if result.verdict is not Verdict.INCONCLUSIVE:
        lines += [*_counts(result), ""]
    reason = result.reason.splitlines()
    if result.verdict is Verdict.BROKEN and failed:
        del reason[0]  # the assertions that failed, which are listed below
    lines += indented(with_sides(reason))
    if result.verdict is not Verdict.INCONCLUSIVE:
        lines += failure_lines(failed)
    lines += indented([*result.advice, *_notes(result)])
    text = "\n".join(lines).rstrip()
    if result.directory:
        return with_hint(text, f"  All of it: {visible(result.directory)}/result.json")
    return text


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


def result_details(result: ReplayResult) -> str:
    """Return one replay in a line: its time, its take, how much of that it used, its isolation and its files."""
    facts = [f"{result.duration_s:.2f} s"]
    if result.take:
        facts.append(f"take {result.take}")
    if result.evidence.recorded:
        facts.append(f"used {evidence_text(result.evidence)}")
    facts.append(f"isolation {result.isolation.level}")
    if result.directory:
        facts.append(f"evidence {result.directory}")
    return f"{short(result.case_id, 80)} {result.verdict.value}: {', '.join(facts)}"


def isolation_text(isolation: Isolation) -> str:
    """Return the isolation of the candidate, and what it wrote and tried meanwhile."""
    parts = [_level_text(isolation.level, isolation.channels)]
    if isolation.children:
        level = min(isolation.children.values(), key=lambda level: level.strength)
        parts[0] += f", child processes {_level_text(level, isolation.children)}"
    if isolation.written_count:
        paths = [short(file.path, 80) for file in isolation.written[:_SHOWN_FILES]]
        if isolation.written_count > _SHOWN_FILES:
            paths.append("…")
        parts.append(f"{counted(isolation.written_count, 'file')} written and discarded: {', '.join(paths)}")
    stopped = sum(access.count for access in isolation.stopped) + isolation.more_stopped
    if stopped:
        parts.append(f"stopped {counted(stopped, 'attempt')} to reach something outside")
    parts += [short(note, 200) for note in isolation.notes]
    return "; ".join(parts)


def _level_text(level: IsolationLevel, channels: Mapping[str, IsolationLevel]) -> str:
    others = [f"{name} {own.value}" for name, own in channels.items() if own is not level]
    if not others:
        return level.value
    return f"{level.value} ({', '.join(others)})"


def isolation_of_many(results: Sequence[ReplayResult]) -> str:
    """The levels of many replays, with how many had each."""
    levels = [result.isolation.level for result in results]
    if len(set(levels)) == 1:
        return levels[0].value
    return ", ".join(f"{level.value} in {levels.count(level)}" for level in IsolationLevel if level in levels)


def results_text(results: Sequence[ReplayResult]) -> str:
    """Many replays: a line each, and the counts."""
    wide = max(len(result.case_id) for result in results)
    lines = []
    counts: dict[str, int] = dict.fromkeys(map(str, Verdict), 0)
    for result in results:
        counts[result.verdict] += 1
        word, colour = result.verdict.value, _TITLES[result.verdict][1]
        why = result.reason.partition("\n")[0] or result.observation
        why = short(why, room(wide + 15, plain=70))
        lines.append(f"{style(f'{word:<12}', fg=colour)} {result.case_id:<{wide}}  {why}")
    last = f"{counted(len(results), 'replay')}: {tally(counts)}"
    text = "\n".join([*lines, "", *_notes_of_many(results), last])
    return with_hint(text, "Details of one: replaykit replay CASE")


def _notes(result: ReplayResult) -> list[str]:
    """Return notes that do not change the verdict: deviations and missing context."""
    names: dict[str, list[str]] = {}
    whole = []
    for deviation in result.deviations:
        if deviation.kind in _NAMED_NOTES and deviation.name:
            names.setdefault(deviation.kind, []).append(deviation.name)
        elif deviation.kind in _NOTES:  # about no call in particular
            whole.append(short(deviation.text, 200))
    texts = [
        f"{words}: {short(counts_text(names[kind]), 200)}" for kind, words in _NAMED_NOTES.items() if kind in names
    ]
    texts += dict.fromkeys(whole)
    texts += [short(reason, 200) for reason in result.uncertain]
    consent = result.consent
    for words, places in (("could be reached", consent.connect), ("could be written", consent.write)):
        if places:
            texts.append(f"{words}, as you allowed: {short(', '.join(places), 200)}")
    if result.unproven:
        texts.append(f"{result.unproven}\n    {PROVE}")
    return indented(texts, f"{style('note', fg='yellow')}: ")


def _notes_of_many(results: Sequence[ReplayResult]) -> list[str]:
    """The same of many replays, a line for each sort."""
    ids: dict[str, dict[str, None]] = {}
    weak: dict[str, None] = {}
    for result in results:
        for deviation in result.deviations:
            ids.setdefault(deviation.kind, {})[result.case_id] = None
        if result.unproven:
            weak[result.case_id] = None
    texts = [f"{text}: {_names(ids[kind])}" for kind, text in _NOTES.items() if kind in ids]
    if weak:
        texts.append(f"green, but never seen red in their current form: {_names(weak)}\n    {PROVE}")
    return indented(texts, f"{style('note', fg='yellow')}: ")


def _names(ids: Collection[str]) -> str:
    return first_few([short(name, 40) for name in ids], _SHOWN_IDS)


def results_json(results: Sequence[ReplayResult], *, passed: bool) -> str:
    """Results for programs."""
    return to_json(ReplayResults(passed=passed, results=results))


def _counts(result: ReplayResult) -> Iterator[str]:
    if result.observed:
        reproduced = {True: "Yes", False: "No", None: "Cannot tell"}[result.reproduced]
        yield f"  {style('Observed failure reproduced:', dim=True)} {reproduced}"
    holding = len(result.desired) - len(result.failures)
    yield f"  {style('Desired assertions:', dim=True)} {holding}/{len(result.desired)} passed"
    waiting = sum(check.status in ("needs_human", "unjudged") for check in result.semantic)
    yield f"  {style('Semantic checks needing review:', dim=True)} {waiting}"


def failure_lines(failed: Sequence[Finding]) -> list[str]:
    """Return the assertions that failed, a line each; an invariant of a contract with its file and line."""
    lines = []
    for finding in failed:
        place = f" ({finding.where})" if finding.where else ""
        lines.append(f"  {mark(False)} {finding.name}: {finding.gap}{place}")
    return lines


def proof_text(proving: Proving) -> str:
    """Red and green, and whether they are."""
    lines: list[str] = []
    for name, results, expected, is_so in (
        ("bad", proving.bad, proving.expected_red, proving.is_red),
        ("good", proving.good, Verdict.FIXED, proving.is_green),
    ):
        result = next((replay for replay in results if replay.verdict is not expected), results[0])
        times = f" × {len(results)}" if len(results) > 1 else ""
        lines.append(f"{mark(is_so)} {name:<5} {result.verdict.value + times:<12} {short(result.candidate, 60)}")
        if not is_so:
            why = result.reason or result.observation
            lines += indented(why.splitlines()[:5], f"    expected {expected.value}: ")
    proven = proving.is_proven
    verdict = "proven: red → green" if proven else "not proven"
    return "\n".join([*lines, "", f"{proving.case.id}: {style(verdict, fg='green' if proven else 'red', bold=True)}"])


def proof_json(proving: Proving) -> str:
    """A proof for programs: every replay, the bad candidate's first."""
    return results_json([*proving.bad, *proving.good], passed=proving.is_proven)


def injected_text(results: Sequence[ReplayResult]) -> str:
    """Return the faults that struck calls, and how often."""
    faults: list[str] = []
    for result in results:
        if result.run is not None:
            for call in result.run.calls:
                faults += call.faults
    return counts_text(faults)
