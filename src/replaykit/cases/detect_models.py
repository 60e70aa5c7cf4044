"""Detectors of what went wrong with models: cut answers, full context windows, broken calls, repetition, refusal."""

from __future__ import annotations

from replaykit.cases.signatures import DETECTORS, FailureSignature, is_known_failure, on_the_way, signature_of
from replaykit.checks.model_calls import malformed_calls, overflow
from replaykit.model.run import RunStatus, TraceRun

REPEATS = 3
"""The same request, answer or state this often is no coincidence."""
_REPEATS_IN_FAILURE = 2


@DETECTORS.register("models")
def find_model_faults(run: TraceRun) -> list[FailureSignature]:
    """Find what is wrong with the model calls of a run."""
    known_failure = is_known_failure(run)
    found = signature_of(run, "truncated", "llm.truncated", True)
    if known_failure and not found:
        found = signature_of(run, "truncated", "llm.truncated", {"calls": "any"})
    if overflow(run) is not None and (known_failure or run.status is not RunStatus.SUCCESS):
        found += signature_of(run, "overflow", "llm.context_overflow", True, explains=("error_text",))
    malformed = len(list(malformed_calls(run)))
    if malformed:
        if known_failure or malformed >= REPEATS:
            code = "malformed"
        else:
            code = on_the_way("malformed")
        found += signature_of(run, code, "llm.malformed_call", True)
    found += _repetition(run, known_failure=known_failure)
    if known_failure:
        found += signature_of(run, "refusal", "output.refusal", True, explains=("answer",))
    return found


def _repetition(run: TraceRun, *, known_failure: bool) -> list[FailureSignature]:
    found: list[FailureSignature] = []
    for kind in ("llm.same_request", "llm.same_answer", "state.repeated"):
        longest = next((times for times in (16, 8, 5, REPEATS) if signature_of(run, kind, kind, times)), None)
        if longest is not None:
            found += signature_of(run, kind, kind, longest)
        elif known_failure and kind != "state.repeated" and not run.tool_calls:
            found += signature_of(run, on_the_way(kind), kind, _REPEATS_IN_FAILURE)
    return found
