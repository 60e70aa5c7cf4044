"""Signatures: how a run went wrong, according to detectors, and what a fix must show.

A detector examines a run and returns assertions of the same engine that `desired` uses. A finding that another one
explains is dropped: a loop explains the limit it ran into.

If a run ended well and nobody called it a failure, only certain faults are reported. Once it counts as failed, by its
status, a label (`is_known_failure`) or a fault, minor findings on the way are reported as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, starmap

from msgspec import Struct

from replaykit.arguments import checked
from replaykit.cases import label_shortfall
from replaykit.cases.label_shortfall import bad_labels
from replaykit.checks.assertions import Assertion, Assertions, parse_assertion
from replaykit.checks.reading import is_budget_text, run_errors
from replaykit.formats.core.labels import as_it_ended
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

MAX_CALLS_WISHED = 3
"""The most calls that `desired` allows a looping tool, unless the loop itself was shorter."""
MAX_SIGNATURES = 8
"""Nobody reads a longer list; the most telling ones are kept."""
DEFAULT_CRITERION = "The response addresses the user's question correctly"
"""The question for a judge if nothing is known about the failure."""


class FailureSignature(Struct, frozen=True, kw_only=True):
    """A deterministic pattern that says how a run went wrong."""

    code: str
    """The kind of finding; others name it in `explains`."""
    assertion: Assertion
    text: str
    explains: tuple[str, ...] = ()
    """Codes of findings that are redundant beside this one."""
    instead: Assertions | None = None
    """The assertions that a fix must show; None for the opposite of the assertion."""
    seq: int | None = None
    """The event that the finding points at."""


Detector = Callable[[TraceRun], list[FailureSignature]]

_HOMES = {
    "status": "outcome",
    "error_text": "outcome",
    "failed_steps": "outcome",
    "step_budget": "outcome",
    "loop": "tools",
    "tool_error": "tools",
    "tool_offers": "tools",
    "models": "outcome",
    "injection": "tools",
    "grounding": "outcome",
    "output": "outcome",
    "label": "outcome",
}
DETECTORS: Registry[Detector] = Registry(
    "detector", {name: f"replaykit.cases.detect_{module}" for name, module in _HOMES.items()}
)
"""All detectors; their order is the order in `observed`."""


@checked("rk.detect(store.load(run_id))")
def detect(run: TraceRun) -> list[FailureSignature]:
    """Return the signatures of the run's failure; empty if no detector finds one.

    >>> [signature.code for signature in rk.detect(store.load(failed_id))]
    ['status', 'error_text', 'no_output']
    """
    run = as_it_ended(run)  # a run that only a label calls a failure ends well in a replay too
    findings: list[FailureSignature] = []
    for detector in DETECTORS.values():
        findings += detector(run)
    if not is_known_failure(run) and all(map(_is_on_the_way, findings)):
        return []  # every agent stumbles; without a real fault that means nothing
    # A later finding may explain an earlier one, so none is dropped before all are known.
    explained = set(chain.from_iterable(signature.explains for signature in findings))
    known: list[Assertion] = []
    distinct: list[FailureSignature] = []
    for signature in findings:
        if signature.code not in explained and signature.assertion not in known:
            known.append(signature.assertion)
            distinct.append(signature)
    return _most_telling(distinct)


def signature_of(
    run: TraceRun,
    code: str,
    kind: str,
    value: Json,
    *,
    explains: tuple[str, ...] = (),
    instead: Assertions | None = None,
    seq: int | None = None,
) -> list[FailureSignature]:
    """Return the signature if it holds for its own run; one that does not would never reproduce.

    `seq` overrides the event that the assertion points at.
    """
    assertion = parse_assertion(kind, value)
    finding = assertion.check(run, Side.OBSERVED)
    if not finding.holds:
        return []
    return [
        FailureSignature(
            code=code,
            assertion=assertion,
            text=finding.text,
            explains=explains,
            instead=instead,
            seq=finding.seq if seq is None else seq,
        )
    ]


def is_known_failure(run: TraceRun) -> bool:
    """True if the run itself or a label says that it failed."""
    return run.status in (RunStatus.ERROR, RunStatus.TIMEOUT) or bool(bad_labels(run))


def propose_desired(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[Assertion]:
    """Return what a fix must show: success, no signature, satisfied labels, and an answer.

    Only what is possible with the recorded answers: no fix can retry a call that was not recorded.
    """
    run = as_it_ended(run)
    wishes = [parse_assertion("status_is", "success")]
    for signature in signatures:
        wishes += _opposite(run, signature.assertion) if signature.instead is None else signature.instead
    for label in bad_labels(run):
        wishes += starmap(parse_assertion, label_shortfall.wishes(run, label))
    wishes += _another_output(run, signatures)
    wishes.append(parse_assertion("final_output_exists", True))
    distinct: list[Assertion] = []
    for wish in wishes:
        if wish not in distinct:
            distinct.append(wish)
    return distinct


def propose_semantic(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[str]:
    """Return sentences about a good answer, for a judge, from what is known of the failure."""
    checks = []
    if _has_wrong_output(signatures):
        checks.append("The response states nothing that no tool returned")
    labels = bad_labels(run)
    for label in labels:
        checks += label_shortfall.criteria(run, label)
    if not checks and not any(map(label_shortfall.is_explained, labels)):
        checks.append(DEFAULT_CRITERION)
    return list(dict.fromkeys(checks))


# Begins the codes of minor findings, which may not be the agent's fault; they are the first to be dropped.
_ON_THE_WAY = "on_the_way"


def on_the_way(code: str) -> str:
    """Return the code of a minor finding: something that went wrong before the end."""
    return f"{_ON_THE_WAY}:{code}"


def _is_on_the_way(signature: FailureSignature) -> bool:
    return signature.code.startswith(_ON_THE_WAY)


def _most_telling(signatures: list[FailureSignature]) -> list[FailureSignature]:
    """Return at most `MAX_SIGNATURES`, in order; those of labels are all kept, since each names its own mistake."""
    if len(signatures) <= MAX_SIGNATURES:
        return signatures
    ranked = sorted(signatures, key=lambda signature: (_is_on_the_way(signature), signature.code != "label"))
    labels = sum(signature.code == "label" for signature in signatures)
    chosen = ranked[: max(MAX_SIGNATURES, labels)]
    return [signature for signature in signatures if signature in chosen]


def _another_output(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[Assertion]:
    """Require another output than the wrong answer, or than the error that took its place.

    A limit that stopped the run is no error of the agent; assertions on steps and calls cover that.
    """
    if run.status is RunStatus.SUCCESS:
        if _has_wrong_output(signatures):
            return [parse_assertion("not", {"output.equals": run.output})]
        return []
    errors = run_errors(run)
    text = str(run.error or errors[-1][1]) if errors else ""
    if not errors or is_budget_text(text) or len(text) > _MAX_ERROR_CHARS:
        return []
    return [parse_assertion("not", {"output.error": text})]


def _has_wrong_output(signatures: Sequence[FailureSignature]) -> bool:
    return any(signature.assertion.kind in _WRONG_OUTPUTS for signature in signatures)


# Kinds that find fault with the answer itself.
_WRONG_OUTPUTS = frozenset({"tool.ignored_error", "output.grounded", "output.contradicts"})
_MAX_ERROR_CHARS = 1_000
# Kinds whose opposite is always desired: success, and an answer.
_IMPLIED = frozenset({"status_is", "run.error", "final_output_exists", "output.empty"})
_BROKEN_ANSWERS = {"llm.truncated", "llm.context_overflow", "llm.malformed_call"}
# Kinds whose opposite is the negated flag.
_FLAGS = _BROKEN_ANSWERS | {"steps.exhausted", "output.refusal", "tool.lookup_skipped"}


# Kinds that depend on a model's recorded answers alone, whatever the candidate does with them.
_ANSWERED_SO = _BROKEN_ANSWERS | {"tool.not_offered", "tool.invalid_arguments", "tool.only_announced"}


def _opposite(run: TraceRun, signature: Assertion) -> list[Assertion]:
    kind, value = signature.kind, signature.value
    if kind in _IMPLIED:
        return []
    if kind in _ANSWERED_SO and run.status is not RunStatus.SUCCESS:
        return []  # an agent that recovers from such an answer is fixed
    if kind == "max_tool_calls":
        return [parse_assertion(kind, _fewer(run, value))]
    if kind == "tool.called":
        return [parse_assertion("tool.not_called", value)]
    if kind in _FLAGS and isinstance(value, bool):
        return [parse_assertion(kind, not value)]
    if kind == "output.grounded":
        return [parse_assertion(kind, {**value, "grounded": True})]
    if kind == "not":
        ((inner, inner_value),) = value.items()
        return [parse_assertion(inner, inner_value)]
    return [parse_assertion("not", {kind: value})]


def _fewer(run: TraceRun, loop: Json) -> Json:
    count = max(min(MAX_CALLS_WISHED, loop["count"] - 1), expected_calls(run, loop["tool"]))
    tools = {call.name for call in run.tool_calls}
    uses_others = len(tools) > 1 or any(label.expected_calls for label in bad_labels(run))
    if loop.get("same_arguments") or uses_others:
        return {**loop, "count": count}
    return count


def expected_calls(run: TraceRun, tool: str) -> int:
    """Return the most calls of the tool that any bad label expects."""
    most = 0
    for label in bad_labels(run):
        most = max(most, sum(call.name == tool for call in label.expected_calls or ()))
    return most
