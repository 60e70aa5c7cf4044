"""Detectors of how a run ended and what its models answered: errors, budgets, output, labels, invented figures."""

from __future__ import annotations

import re

from msgspec import structs

from replaykit.cases.label_shortfall import bad_labels, mistakes
from replaykit.cases.signatures import DETECTORS, FailureSignature, is_known_failure, on_the_way, signature_of
from replaykit.checks.conversation import shows_all_messages
from replaykit.checks.model_calls import malformed_calls, overflow
from replaykit.checks.outcome import failing_call
from replaykit.checks.reading import budget_reason, error_events, has_output, is_budget_text, run_errors, says_something
from replaykit.checks.tool_contradictions import certain_contradictions
from replaykit.formats.core.replayability import Lack, leaves_out_answer, replayability
from replaykit.model.run import RunStatus, TraceRun
from replaykit.redaction.placeholders import placeholders_in

FAILED_STEPS = 2
"""Agents recover from a single error; more of them in a run with status `success` are worth a look."""
TELLING_CHARS = 12
"""Shorter error messages are given together with their class."""


@DETECTORS.register("status")
def find_status(run: TraceRun) -> list[FailureSignature]:
    """Find a run that ended with an error or a timeout."""
    if run.status not in (RunStatus.ERROR, RunStatus.TIMEOUT):
        return []
    return signature_of(run, "status", "status_is", run.status.value)


@DETECTORS.register("error_text")
def find_error_text(run: TraceRun) -> list[FailureSignature]:
    """Find the error that a run ended with, by its text."""
    errors = run_errors(run)
    if not errors or run.status is RunStatus.SUCCESS:
        return []
    error = run.error or errors[-1][1]
    code = "timeout_text" if run.status is RunStatus.TIMEOUT else "error_text"
    if is_budget_text(str(error)):
        code = "budget_text"
    # A message such as "'id'" needs its class to mean anything.
    telling = error.message if len(error.message) >= TELLING_CHARS else str(error)
    return signature_of(run, code, "run.error", mask(telling))


@DETECTORS.register("failed_steps")
def find_failed_steps(run: TraceRun) -> list[FailureSignature]:
    """Find a run that continued after errors in its steps."""
    errors = error_events(run)
    if run.status is not RunStatus.SUCCESS or not errors:
        return []
    code, instead = "failed_steps", None
    if len(errors) < FAILED_STEPS:
        code, instead = on_the_way("failed_steps"), ()
    # The model call inside the failed step is where people look first.
    seq = failing_call(run, errors[-1])
    return signature_of(run, code, "run.failed_steps", len(errors), instead=instead, seq=seq)


@DETECTORS.register("step_budget")
def find_step_budget(run: TraceRun) -> list[FailureSignature]:
    """Find a run that ran out of steps, turns or time."""
    if budget_reason(run) is None:
        return []
    return signature_of(run, "step_budget", "steps.exhausted", True, explains=("budget_text",))


@DETECTORS.register("output")
def find_output(run: TraceRun) -> list[FailureSignature]:
    """Find a run with no output or a blank one."""
    if says_something(run) or run.status is RunStatus.RUNNING or leaves_out_answer(run):
        return []
    if has_output(run):
        return signature_of(run, "empty_output", "output.empty", True)
    return signature_of(run, "no_output", "final_output_exists", False)


_CHARS = 200

# The order matters: an earlier pattern must take what a later one would match in part.
_VOLATILE = re.compile(
    r"""
      (?<=:)[0-9a-f]{8}(?=>)                                                      # the digest in a placeholder
    | [a-z][a-z0-9+.-]*://[^\s'"<>)\]]+                                           # an address
    | [0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}                        # a UUID
    | \d{4}-\d\d-\d\d(?:[T\s]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?  # a time
    | \d\d:\d\d(?::\d\d(?:[.,]\d+)?)?                                             # a time of day
    | (?<![\w/])(?:~|[A-Za-z]:)?(?:[\\/][\w.@+-]+){2,}                            # a path
    | \b0x[0-9a-fA-F]+\b                                                          # an address in memory
    | \b(?=[\w-]*\d)[A-Za-z]\w*(?:[-_]\w+)*                                       # an id: letters with digits
    | [-+]?\b\d[\d,._]*(?:\s?(?:ns|us|µs|ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|[kKMGT]i?B|bytes|%))?(?!\w)
    | \d+
    """,
    re.VERBOSE,
)
_STARS = re.compile(r"\*[\s*]*\*")


def mask(text: str) -> str:
    """Return a pattern for `run.error` that matches the text: one line, with `*` for the volatile parts."""
    line = _without_forms(_telling_line(text.strip()))
    return _STARS.sub("*", _VOLATILE.sub("*", line)) or "*"


def _without_forms(line: str) -> str:
    """Mask placeholders that look like values: an unredacted run would have the values instead."""
    raw = line.encode("utf-8", "surrogatepass")
    for placeholder in reversed(placeholders_in(raw)):
        if b"<" not in raw[placeholder.start : placeholder.end]:
            raw = raw[: placeholder.start] + b"*" + raw[placeholder.end :]
    return raw.decode("utf-8", "surrogatepass")


def _telling_line(text: str) -> str:
    """Return the first line of a text; of a traceback the last one, in which Python names the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        if lines[0].startswith("Traceback"):
            text = f"*{lines[-1]}"
        else:
            text = f"{lines[0]}*"
    if len(text) <= _CHARS:
        return text
    return f"{text[:_CHARS].rstrip()}*"


REPEATS = 3
"""The same request, answer or state this often is no coincidence."""
_REPEATS_IN_FAILURE = 2


@DETECTORS.register("models")
def find_model_faults(run: TraceRun) -> list[FailureSignature]:
    """Find flaws in the model calls of a run."""
    known_failure = is_known_failure(run)
    signatures = signature_of(run, "truncated", "llm.truncated", True)
    if known_failure and not signatures:
        signatures = signature_of(run, "truncated", "llm.truncated", {"calls": "any"})
    if overflow(run) is not None and (known_failure or run.status is not RunStatus.SUCCESS):
        signatures += signature_of(run, "overflow", "llm.context_overflow", True, explains=("error_text",))
    malformed = len(list(malformed_calls(run)))
    if malformed:
        is_fault = known_failure or malformed >= REPEATS
        code = "malformed" if is_fault else on_the_way("malformed")
        signatures += signature_of(run, code, "llm.malformed_call", True)
    signatures += _repetition(run, known_failure=known_failure)
    if known_failure:
        signatures += signature_of(run, "refusal", "output.refusal", True, explains=("answer",))
    return signatures


def _repetition(run: TraceRun, *, known_failure: bool) -> list[FailureSignature]:
    signatures: list[FailureSignature] = []
    for kind in ("llm.same_request", "llm.same_answer", "state.repeated"):
        repetition = next(filter(None, (signature_of(run, kind, kind, times) for times in (16, 8, 5, REPEATS))), None)
        if repetition is not None:
            signatures += repetition
        elif known_failure and kind != "state.repeated" and not run.tool_calls:
            signatures += signature_of(run, on_the_way(kind), kind, _REPEATS_IN_FAILURE)
    return signatures


@DETECTORS.register("label")
def find_judged_mistakes(run: TraceRun) -> list[FailureSignature]:
    """Find what a run lacks according to the labels that call it a failure."""
    labels = bad_labels(run)
    signatures: list[FailureSignature] = []
    for label in labels:
        for kind, value in mistakes(run, label):
            signatures += signature_of(run, "label", kind, value, instead=())
    if labels and not signatures and run.status is RunStatus.SUCCESS and says_something(run):
        # The labels give no details, so their judgement is about the answer.
        why = "; ".join(label.text for label in labels)
        for signature in signature_of(run, "answer", "output.equals", run.output):
            signatures.append(structs.replace(signature, text=why))
    return signatures


@DETECTORS.register("grounding")
def find_ungrounded_output(run: TraceRun) -> list[FailureSignature]:
    """Find figures in the answer that nothing in the run states, although the agent had tools to look them up."""
    if run.status is not RunStatus.SUCCESS or not isinstance(run.output, str) or not says_something(run):
        return []
    if not run.tool_calls or not _shows_all_sources(run):
        return []  # without tool calls a model answers from memory, and may be right
    for contradiction in certain_contradictions(run):
        tool = contradiction.member.call.name
        return signature_of(run, "contradiction", "output.contradicts", {"tool": tool}, explains=("answer",))
    return signature_of(
        run, "grounding", "output.grounded", {"grounded": False, "derive": "anything"}, explains=("answer",)
    )


def _shows_all_sources(run: TraceRun) -> bool:
    """True if the run holds all messages to its models and all answers of its tools."""
    for lacking in replayability(run).lacking:
        if not {Lack.MESSAGES, Lack.CUT, Lack.HIDDEN}.isdisjoint(lacking.lacks):
            return False
    return shows_all_messages(run) and all(call.answered for call in run.tool_calls[:-1])
