"""Detectors of how a run ended: its status, its error, its budget, its output."""

from __future__ import annotations

from replaykit.cases.error_patterns import mask
from replaykit.cases.signatures import DETECTORS, FailureSignature, on_the_way, signature_of
from replaykit.checks.reading import budget_reason, has_output, is_budget_text, run_errors, says_something
from replaykit.formats.core.replayability import leaves_out_answer
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
    errors = [event for event in run.events if isinstance(event, ErrorEvent)]
    if run.status is not RunStatus.SUCCESS or not errors:
        return []
    if len(errors) >= FAILED_STEPS:
        code = "failed_steps"
    else:
        code = on_the_way("failed_steps")
    instead = None if len(errors) >= FAILED_STEPS else ()
    failing = _failing_call(run, errors[-1])
    return signature_of(run, code, "run.failed_steps", len(errors), instead=instead, seq=failing)


def _failing_call(run: TraceRun, error: ErrorEvent) -> int | None:
    """Return the last model call inside of the step that failed: its words are what did not run."""
    end = error.at + error.duration_s
    inside = [call.seq for call in run.llm_calls if error.at <= call.at < end]
    if inside:
        return inside[-1]
    return None


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
