"""How often signatures are about what people found wrong, and how often they find fault with a good run.

    python -m bench.signatures --corpora DIR [--misses] [--json]

`DIR` holds public corpora in directories of their own, each optional:

    trail/traces, trail/annotations    spans, and the spans in which people found errors, by the same file name
    who-and-when                       failed talks of several agents, each with the step of the decisive mistake
    tau-bench, tau2, inspect_ai, …     runs with a verdict of their own; those that it calls good must have no signature

Every run is put into one of two halves by the hash of its id: rules are tuned on the first and the second is only
counted. Labels are taken off a good run before it is looked at, so that nothing but the run itself speaks for it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from replaykit.cases.signatures import FailureSignature, detect
from replaykit.errors import ReplayKitError
from replaykit.formats.core.labels import LABELS, labels_of
from replaykit.formats.files import import_trace
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

HALVES = ("tuning", "held out")
OF_THE_ANSWER = frozenset(
    {"output.equals", "output.answer", "output.contains_any", "final_output_exists", "output.empty"}
)
"""Kinds that say no more than that the final answer was wrong, or missing."""
GOOD_RUNS = ("tau-bench", "tau2", "inspect_ai", "swe-agent", "openhands", "langfuse")
_NEEDS_LABEL = frozenset({"tau-bench", "tau2", "inspect_ai"})


@dataclass
class Tally:
    """Counts of one half of a corpus."""

    runs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def share(self, name: str) -> str:
        """One of the counts as a share of the runs."""
        return f"{self.counts[name] / self.runs:6.1%}" if self.runs else "     –"


def half_of(name: str) -> str:
    """Return the half that a run belongs to, by the hash of its id."""
    return HALVES[int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2]


def trail(directory: Path) -> dict[str, Tally]:
    """Count traces of TRAIL with a signature at an annotated span, and in the same step as one."""
    tallies = {half: Tally() for half in HALVES}
    for file in sorted((directory / "traces").glob("*.json")):
        annotation = directory / "annotations" / file.name
        runs = list(_runs(file))
        if not runs or not annotation.is_file():
            continue
        errors = json.loads(annotation.read_bytes())["errors"]
        if not errors:
            continue
        tally = tallies[half_of(file.stem)]
        _count_trace(tally, _SpanTree(file), runs[0], {error["location"] for error in errors})
    return tallies


def _count_trace(tally: Tally, tree: _SpanTree, run: TraceRun, annotated: set[str]) -> None:
    signatures = detect(run)
    events = {event.seq: event for event in run.events}
    starts = [events[one.seq].at for one in signatures if one.seq in events]
    spans = {span for start in starts for span in tree.started_at(start)}
    steps = {tree.step_of(span) for span in spans}
    tally.runs += 1
    tally.counts["any"] += bool(signatures)
    tally.counts["span"] += bool(spans & annotated)
    at_step = bool(steps & {tree.step_of(span) for span in annotated})
    tally.counts["step"] += at_step
    tally.kinds.update(one.assertion.kind for one in signatures)
    if not at_step:
        tally.misses.append(f"{run.id}: {_kinds(signatures)}")


class _SpanTree:
    """The spans of a trace of TRAIL: when they start, and which step of the agent each belongs to."""

    def __init__(self, file: Path) -> None:
        self._parents: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._by_start: dict[float, list[str]] = {}
        waiting = [(span, "") for span in json.loads(file.read_bytes())["spans"]]
        while waiting:
            span, parent = waiting.pop()
            self._parents[span["span_id"]] = parent
            self._kinds[span["span_id"]] = span["span_attributes"].get("openinference.span.kind", "")
            start = datetime.fromisoformat(span["timestamp"]).timestamp()
            self._by_start.setdefault(round(start, 6), []).append(span["span_id"])
            waiting += [(child, span["span_id"]) for child in span["child_spans"]]

    def started_at(self, start: float) -> list[str]:
        """The spans that started at this moment."""
        return self._by_start.get(round(start, 6), [])

    def step_of(self, span: str) -> str:
        """The step that a span is, or is in; a model call outside of any step is one of its own."""
        place = span
        while place and self._kinds.get(place) != "CHAIN":
            place = self._parents.get(place, "")
        return place or span


def who_and_when(directory: Path) -> dict[str, Tally]:
    """Count failed talks with a signature about more than the final answer, and at the step of the mistake."""
    tallies = {half: Tally() for half in HALVES}
    for file in sorted(directory.glob("*.json")):
        for run in _runs(file):
            tally = tallies[half_of(run.id)]
            signatures = detect(run)
            beyond = [one for one in signatures if not _is_of_the_answer(one)]
            mistake = str(json.loads(file.read_bytes()).get("mistake_step", ""))
            steps = {event.seq: (event.step or "").partition(" ")[0] for event in run.events}
            tally.runs += 1
            tally.counts["any"] += bool(signatures)
            tally.counts["beyond"] += bool(beyond)
            tally.counts["step"] += any(one.seq is not None and steps.get(one.seq) == mistake for one in signatures)
            tally.kinds.update(one.assertion.kind for one in signatures)
            if not beyond:
                tally.misses.append(f"{file.name}: {_kinds(signatures)}")
    return tallies


def good_runs(root: Path) -> dict[str, Tally]:
    """Count the runs known to be good that have a signature all the same."""
    tallies = {half: Tally() for half in HALVES}
    for name in GOOD_RUNS:
        for file in sorted((root / name).glob("*")):
            for run in _runs(file):
                if not _is_good(run, needs_label=name in _NEEDS_LABEL):
                    continue
                tally = tallies[half_of(run.id)]
                signatures = detect(_without_labels(run))
                tally.runs += 1
                tally.counts["false"] += bool(signatures)
                tally.kinds.update(one.assertion.kind for one in signatures)
                if signatures:
                    tally.misses.append(f"{name} {run.id}: {'; '.join(one.text for one in signatures)}")
    return tallies


def _is_good(run: TraceRun, *, needs_label: bool) -> bool:
    labels = labels_of(run)
    if run.status is not RunStatus.SUCCESS or any(label.failed for label in labels):
        return False
    return bool(labels) or not needs_label


def _without_labels(run: TraceRun) -> TraceRun:
    about = {name: value for name, value in run.metadata.items() if name != LABELS}
    return msgspec.structs.replace(run, metadata_json=raw(about))


def _is_of_the_answer(signature: FailureSignature) -> bool:
    assertion = signature.assertion
    kind = next(iter(assertion.value)) if assertion.kind == "not" else assertion.kind
    return kind in OF_THE_ANSWER


def _runs(file: Path) -> Iterator[TraceRun]:
    if not file.is_file() or file.name.startswith("LICENSE"):
        return
    try:
        yield from import_trace(file).runs
    except ReplayKitError:
        return  # files beside the traces, such as a configuration


def _kinds(signatures: list[FailureSignature]) -> str:
    return ", ".join(one.assertion.kind for one in signatures) or "no signature"


def measure(root: Path) -> dict[str, dict[str, Tally]]:
    """Return the counts of every corpus that is there."""
    found: dict[str, dict[str, Tally]] = {}
    if (root / "trail").is_dir():
        found["trail"] = trail(root / "trail")
    if (root / "who-and-when").is_dir():
        found["who-and-when"] = who_and_when(root / "who-and-when")
    found["good runs"] = good_runs(root)
    return found


_COLUMNS = {
    "trail": {"any": "any signature", "span": "at an annotated span", "step": "in an annotated step"},
    "who-and-when": {"any": "any signature", "beyond": "beyond the final answer", "step": "at the step of the mistake"},
    "good runs": {"false": "a signature (false)"},
}


def table(found: dict[str, dict[str, Tally]]) -> str:
    """Return the counts as text."""
    lines = [f"{'corpus':<14}{'half':<10}{'runs':>5}  share of the runs with"]
    for corpus, halves in found.items():
        for half, tally in halves.items():
            shares = "   ".join(f"{tally.share(name)} {words}" for name, words in _COLUMNS[corpus].items())
            lines.append(f"{corpus:<14}{half:<10}{tally.runs:>5}  {shares}")
    return "\n".join(lines)


def _as_data(found: dict[str, dict[str, Tally]]) -> dict[str, Any]:
    return {
        corpus: {half: {"runs": one.runs, **one.counts, "kinds": dict(one.kinds)} for half, one in halves.items()}
        for corpus, halves in found.items()
    }


def main() -> int:
    """Measure the corpora and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.signatures", description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="the directory that holds the corpora")
    parser.add_argument("--misses", action="store_true", help="list the runs of the tuning half that were missed")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    if not options.corpora.is_dir():
        parser.error(f"{options.corpora} is no directory")
    found = measure(options.corpora)
    print(json.dumps(_as_data(found), indent=2) if options.json else table(found))
    if options.misses:
        for corpus, halves in found.items():
            print(f"\n{corpus}: {dict(halves[HALVES[0]].kinds)}", *halves[HALVES[0]].misses, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
