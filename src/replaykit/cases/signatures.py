"""Signatures: how a run went wrong, told by detectors, and what a fix would have to show.

A detector looks at a run and names what it finds as assertions of the same engine that `desired` uses. What
another finding already explains is left out: a loop explains the limit it ran into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from replaykit.cases import judged
from replaykit.cases.injection import obeyed_calls
from replaykit.cases.judged import bad_labels, mistakes
from replaykit.cases.masking import mask
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import budget_reason, has_output, is_budget_text, run_errors, says_something
from replaykit.checks.tools import largest_group
from replaykit.importers.labels import as_it_ended
from replaykit.importers.replayable import leaves_out_answer
from replaykit.model.events import ToolCall
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

SAME_CALL_REPEATS = 3
"""A call made this often with the same arguments, and nothing new coming of it, is a loop."""
IN_A_ROW_REPEATS = 4
"""A tool called this often in a row with differing arguments, and nothing coming of it, is a loop."""
MAX_CALLS_WISHED = 3
"""What `desired` allows a looping tool, unless the loop itself was shorter."""

TELLING_CHARS = 12
"""An error's message shorter than this is told together with its class."""


class FailureSignature(Struct, frozen=True, kw_only=True):
    """A deterministic pattern that says: this is how it went wrong."""

    code: str
    """What sort of finding it is; others name it in `explains`."""
    assertion: Assertion
    text: str
    explains: tuple[str, ...] = ()
    """Codes of the findings that say nothing more once this one is there."""
    instead: tuple[Assertion, ...] | None = None
    """What a fix must show; where nothing is said here, the opposite."""


Detector = Callable[[TraceRun], list[FailureSignature]]

DETECTORS: Registry[Detector] = Registry("detector")
"""What is looked for in a failed run; the order is the order in `observed`."""


def detect(run: TraceRun) -> list[FailureSignature]:
    """The signatures of what went wrong in the run; none when nothing a detector knows did."""
    run = as_it_ended(run)  # what only a label calls a failure ends well when it is run again
    found = [signature for detector in DETECTORS.values() for signature in detector(run)]
    explained = {code for signature in found for code in signature.explains}
    return [signature for signature in found if signature.code not in explained]


def propose_desired(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[Assertion]:
    """What a fix must show: the run succeeds, each signature is gone, labels are pleased, and there is an answer."""
    wishes = [parse_assertion("status_is", "success")]
    for signature in signatures:
        wishes += _opposite(run, signature.assertion) if signature.instead is None else signature.instead
    wishes += [parse_assertion(*wish) for label in bad_labels(run) for wish in judged.wishes(run, label)]
    wishes.append(parse_assertion("final_output_exists", True))
    return [wish for index, wish in enumerate(wishes) if wish not in wishes[:index]]


def propose_semantic(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[str]:
    """Sentences about a good answer that only judgement can check."""
    checks = ["The response addresses the user's question correctly"]
    if any(signature.assertion.kind == "tool.ignored_error" for signature in signatures):
        checks.append("The response states nothing that no tool returned")
    checks += [sentence for label in bad_labels(run) for sentence in label.criteria if sentence.strip()]
    return list(dict.fromkeys(checks))


@DETECTORS.register("status")
def _status(run: TraceRun) -> list[FailureSignature]:
    if run.status not in (RunStatus.ERROR, RunStatus.TIMEOUT):
        return []
    return _signature(run, "status", "status_is", run.status.value)


@DETECTORS.register("error_text")
def _error_text(run: TraceRun) -> list[FailureSignature]:
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
    return _signature(run, code, "run.error", mask(telling))


@DETECTORS.register("step_budget")
def _step_budget(run: TraceRun) -> list[FailureSignature]:
    if budget_reason(run) is None:
        return []
    return _signature(run, "step_budget", "steps.exhausted", True, explains=("budget_text",))


@DETECTORS.register("loop")
def _loop(run: TraceRun) -> list[FailureSignature]:
    explains = ("step_budget", "budget_text", "timeout_text")
    found = []
    for tool, calls in _by_tool(run).items():
        if len(calls) <= _expected(run, tool):
            continue
        alike = largest_group(calls, by_arguments=True)
        if len(alike) >= SAME_CALL_REPEATS and (_stuck(alike) or run.status is not RunStatus.SUCCESS):
            value: Json = {"tool": tool, "count": len(alike)}
            if len(alike) < len(calls):
                value["same_arguments"] = True
            found += _signature(run, "loop", "max_tool_calls", value, explains=explains)
        elif any(_stuck(row) or budget_reason(run) for row in _rows(run, tool) if len(row) >= IN_A_ROW_REPEATS):
            value = {"tool": tool, "count": len(calls)}
            found += _signature(run, "loop", "max_tool_calls", value, explains=explains)
    return found


@DETECTORS.register("tool_error")
def _tool_error(run: TraceRun) -> list[FailureSignature]:
    found = []
    for tool, calls in _by_tool(run).items():
        reason = call_failed(calls[-1])
        if reason is None:
            continue
        code = f"unretried:{tool}"
        explains = ("error_text", "timeout_text") if _told_in(run, calls[-1], reason) else ()
        errors = _signature(run, f"ignored:{tool}", "tool.ignored_error", {"tool": tool}, explains=(code,))
        errors += _signature(run, code, "tool.unretried_error", {"tool": tool}, explains=explains)
        found += [structs.replace(one, text=f"{one.text}: {reason}") for one in errors]
    return found


@DETECTORS.register("injection")
def _injection(run: TraceRun) -> list[FailureSignature]:
    found: list[FailureSignature] = []
    for obeyed in obeyed_calls(run):
        value = {"tool": obeyed.call.name, "arguments": dict([obeyed.argument])}
        found += _signature(run, "injection", "tool.called", value)
    return [one for index, one in enumerate(found) if one not in found[:index]]


@DETECTORS.register("output")
def _output(run: TraceRun) -> list[FailureSignature]:
    if says_something(run) or run.status is RunStatus.RUNNING or leaves_out_answer(run):
        return []
    if has_output(run):
        return _signature(run, "empty_output", "output.empty", True)
    return _signature(run, "no_output", "final_output_exists", False)


@DETECTORS.register("label")
def _label(run: TraceRun) -> list[FailureSignature]:
    labels = bad_labels(run)
    found: list[FailureSignature] = []
    for label in labels:
        for kind, value in mistakes(run, label):
            found += _signature(run, "label", kind, value, instead=())
    if labels and not found and run.status is RunStatus.SUCCESS and says_something(run):
        # No label says more than that it was bad: what was judged is the answer.
        why = "; ".join(label.text for label in labels)
        found = [structs.replace(one, text=why) for one in _signature(run, "label", "output.equals", run.output)]
    return [one for index, one in enumerate(found) if one not in found[:index]]


def _signature(
    run: TraceRun,
    code: str,
    kind: str,
    value: Json,
    *,
    explains: tuple[str, ...] = (),
    instead: tuple[Assertion, ...] | None = None,
) -> list[FailureSignature]:
    """The signature, if it holds for the run it is taken from; a pattern that does not would never reproduce."""
    assertion = parse_assertion(kind, value)
    finding = assertion.check(run, Side.OBSERVED)
    if not finding.holds:
        return []
    return [FailureSignature(code=code, assertion=assertion, text=finding.text, explains=explains, instead=instead)]


def _by_tool(run: TraceRun) -> dict[str, list[ToolCall]]:
    tools: dict[str, list[ToolCall]] = {}
    for call in run.tool_calls:
        tools.setdefault(call.name, []).append(call)
    return tools


def _rows(run: TraceRun, tool: str) -> Iterable[list[ToolCall]]:
    """The stretches of the run in which the agent called this tool and no other."""
    row: list[ToolCall] = []
    for call in run.tool_calls:
        if call.name == tool:
            row.append(call)
        elif row:
            yield row
            row = []
    yield row


def _stuck(calls: Sequence[ToolCall]) -> bool:
    """True when nothing came of any of the calls: all failed, or all gave the very same."""
    if all(call_failed(call) for call in calls):
        return True
    return len({bytes(call.result_json) for call in calls if call.error is None}) == 1


def _told_in(run: TraceRun, call: ToolCall, reason: str) -> bool:
    """True when the run's error is the tool's, handed on or wrapped."""
    said = call.error.message if call.error is not None else ""
    own = reason if len(said) < TELLING_CHARS else said
    return any(own in str(error) or (error.message and error.message in reason) for _seq, error in run_errors(run))


_IMPLIED = frozenset({"status_is", "run.error", "final_output_exists", "output.empty"})
"""Kinds whose opposite is what every `desired` says anyway: success, and an answer."""


def _opposite(run: TraceRun, signature: Assertion) -> list[Assertion]:
    kind, value = signature.kind, signature.value
    if kind in _IMPLIED:
        return []
    if kind == "max_tool_calls":
        return [parse_assertion(kind, _fewer(run, value))]
    if kind == "tool.called":
        return [parse_assertion("tool.not_called", value)]
    if kind == "steps.exhausted":
        return [parse_assertion(kind, False)]
    return [parse_assertion("not", {kind: value})]


def _expected(run: TraceRun, tool: str) -> int:
    """How many calls of the tool a label expects that calls the run a failure."""
    return max((sum(one.name == tool for one in label.expected_calls or ()) for label in bad_labels(run)), default=0)


def _fewer(run: TraceRun, loop: Json) -> Json:
    count = max(min(MAX_CALLS_WISHED, loop["count"] - 1), _expected(run, loop["tool"]))
    uses_others = len(_by_tool(run)) > 1 or any(label.expected_calls for label in bad_labels(run))
    if loop.get("same_arguments") or uses_others:
        return {**loop, "count": count}
    return count
