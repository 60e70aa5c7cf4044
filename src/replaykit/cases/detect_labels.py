"""The detector of what somebody judged: what a run lacks that a label expects, or else the answer that was judged."""

from __future__ import annotations

from msgspec import structs

from replaykit.cases.label_shortfall import bad_labels, mistakes
from replaykit.cases.signatures import DETECTORS, FailureSignature, signature_of
from replaykit.checks.reading import says_something
from replaykit.model.run import RunStatus, TraceRun


@DETECTORS.register("label")
def find_judged_mistakes(run: TraceRun) -> list[FailureSignature]:
    """Find what a run lacks in the eyes of the labels that call it a failure."""
    labels = bad_labels(run)
    found: list[FailureSignature] = []
    for label in labels:
        for kind, value in mistakes(run, label):
            found += signature_of(run, "label", kind, value, instead=())
    if labels and not found and run.status is RunStatus.SUCCESS and says_something(run):
        # No label says more than that it was bad: what was judged is the answer.
        why = "; ".join(label.text for label in labels)
        found = [structs.replace(one, text=why) for one in signature_of(run, "answer", "output.equals", run.output)]
    return found
