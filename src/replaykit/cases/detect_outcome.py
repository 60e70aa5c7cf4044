"""Detectors of how a run ended: its status, its error, its budget, its output."""

from __future__ import annotations

from replaykit.cases.masking import mask
from replaykit.cases.signatures import DETECTORS, FailureSignature, signature_of
from replaykit.checks.reading import budget_reason, has_output, is_budget_text, run_errors, says_something
from replaykit.importers.replayable import leaves_out_answer
from replaykit.model.events import ErrorEvent
from replaykit.model.run import RunStatus, TraceRun

FAILED_STEPS = 2
"""One error is got over; more of them in a run that calls itself a success are worth a look."""
TELLING_CHARS = 12
"""The message of an error that is shorter than this is given together with its class."""


@DETECTORS.register("status")
def find_status(run: TraceRun) -> list[FailureSignature]:
    """Find a run that ended with an error or a timeout."""
    if run.status not in (RunStatus.ERROR, RunStatus.TIMEOUT):
        return []
    return signature_of(run, "status", "status_is", run.status.value)


@DETECTORS.register("error_text")
def find_error_text(run: TraceRun) -> list[FailureSignature]:
    """Find the text of the error that a run ended with."""
    errors = run_errors(run)
    if not errors or run.status is RunStatus.SUCCESS:
        return []
    error = run.error or errors[-1][1]
    if is_budget_text(str(error)):
        code = "budget_text"
    else:
        code = "timeout_text" if run.status is RunStatus.TIMEOUT else "error_text"
    # A message such as "'id'" says nothing without its class.
    telling = error.message if len(error.message) >= TELLING_CHARS else str(error)
    return signature_of(run, code, "run.error", mask(telling))


@DETECTORS.register("failed_steps")
def find_failed_steps(run: TraceRun) -> list[FailureSignature]:
    """Find a run that went on over errors of its own, step after step."""
    count = sum(isinstance(event, ErrorEvent) for event in run.events)
    if run.status is not RunStatus.SUCCESS or count < FAILED_STEPS:
        return []
    return signature_of(run, "failed_steps", "run.failed_steps", count)


@DETECTORS.register("step_budget")
def find_step_budget(run: TraceRun) -> list[FailureSignature]:
    """Find a run that used up its steps, turns or time."""
    if budget_reason(run) is None:
        return []
    return signature_of(run, "step_budget", "steps.exhausted", True, explains=("budget_text",))


@DETECTORS.register("output")
def find_output(run: TraceRun) -> list[FailureSignature]:
    """Find a run without an output, or with a blank one."""
    if says_something(run) or run.status is RunStatus.RUNNING or leaves_out_answer(run):
        return []
    if has_output(run):
        return signature_of(run, "empty_output", "output.empty", True)
    return signature_of(run, "no_output", "final_output_exists", False)
