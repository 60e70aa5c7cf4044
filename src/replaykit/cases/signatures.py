"""Signatures: how a run went wrong, as detectors find it, and what a fix would have to show.

A detector looks at a run and names what it finds as assertions of the same engine that `desired` uses. A finding that
another one explains is left out: a loop explains the limit it ran into.

Of a run that ended well and that nobody called a failure, only what is wrong in itself is reported. Once the run is
known to have failed, by its status or by a label (`is_known_failure`), or something is wrong with it, so is what went
wrong on the way.
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
"""A case with more is read by nobody; the first ones are kept."""
DEFAULT_CRITERION = "The response addresses the user's question correctly"
"""The question to a judge where nothing is known about the failure."""


class FailureSignature(Struct, frozen=True, kw_only=True):
    """A deterministic pattern that says: this is how it went wrong."""

    code: str
    """The sort of finding; others name it in `explains`."""
    assertion: Assertion
    text: str
    explains: tuple[str, ...] = ()
    """Codes of the findings that say nothing more once this one is there."""
    instead: Assertions | None = None
    """The assertions that a fix must show; None stands for the opposite of the assertion."""
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
"""Everything that is looked for in a failed run; the order is the order in `observed`."""


@checked("rk.detect(store.load(run_id))")
def detect(run: TraceRun) -> list[FailureSignature]:
    """Return the signatures of what went wrong in the run; none when nothing a detector knows did.

    >>> [signature.code for signature in rk.detect(store.load(failed_id))]
    ['status', 'error_text', 'no_output']
    """
    run = as_it_ended(run)  # what only a label calls a failure ends well when it is run again
    found: list[FailureSignature] = []
    for detector in DETECTORS.values():
        found += detector(run)
    if not is_known_failure(run) and all(map(_is_on_the_way, found)):
        return []  # every agent stumbles; it takes a fault for a stumble to be worth a look
    # A finding may be explained by a later one, so all of them are needed before any is left out.
    explained = set(chain.from_iterable(signature.explains for signature in found))
    known: list[Assertion] = []
    distinct: list[FailureSignature] = []
    for signature in found:
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
    """Return the signature if it holds for the run it is taken from; a pattern that does not would never reproduce.

    `seq` is the event to point at, where a detector knows better than the assertion who made the mistake.
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
    """True when the run says itself that it failed, or a label does."""
    return run.status in (RunStatus.ERROR, RunStatus.TIMEOUT) or bool(bad_labels(run))


def propose_desired(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[Assertion]:
    """Return what a fix must show: the run succeeds, each signature is gone, labels are met, and there is an answer.

    Only what a fix can show that gets the recorded answers: a retry that was not recorded can be asked of nobody.
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
    """Return sentences about a good answer that only judgement can check, from what is known of the failure."""
    checks = []
    if _has_wrong_output(signatures):
        checks.append("The response states nothing that no tool returned")
    labels = bad_labels(run)
    for label in labels:
        checks += label_shortfall.criteria(run, label)
    if not checks and not any(map(label_shortfall.is_explained, labels)):
        checks.append(DEFAULT_CRITERION)
    return list(dict.fromkeys(checks))


_ON_THE_WAY = "on_the_way"
"""Begins the codes of findings that may be the world's fault: they come last when there are too many."""


def on_the_way(code: str) -> str:
    """Return the code of a finding that tells what went wrong before the end, and may be no fault of the agent."""
    return f"{_ON_THE_WAY}:{code}"


def _is_on_the_way(signature: FailureSignature) -> bool:
    return signature.code.startswith(_ON_THE_WAY)


def _most_telling(signatures: list[FailureSignature]) -> list[FailureSignature]:
    """Return at most `MAX_SIGNATURES`, in their order; labels are all kept, since each names its own mistake."""
    if len(signatures) <= MAX_SIGNATURES:
        return signatures
    ranked = sorted(signatures, key=lambda signature: (_is_on_the_way(signature), signature.code != "label"))
    labels = sum(signature.code == "label" for signature in signatures)
    chosen = ranked[: max(MAX_SIGNATURES, labels)]
    return [signature for signature in signatures if signature in chosen]


def _another_output(run: TraceRun, signatures: Sequence[FailureSignature]) -> list[Assertion]:
    """Return that the answer is neither the one that was wrong nor the error that took its place.

    A limit that stopped the run is no error of the agent's: that it is kept is said of steps and calls.
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


_WRONG_OUTPUTS = frozenset({"tool.ignored_error", "output.grounded", "output.contradicts"})
"""Kinds that find the answer itself to be wrong."""
_MAX_ERROR_CHARS = 1_000
_IMPLIED = frozenset({"status_is", "run.error", "final_output_exists", "output.empty"})
"""Kinds whose opposite is what every `desired` says anyway: success, and an answer."""
_BROKEN_ANSWERS = {"llm.truncated", "llm.context_overflow", "llm.malformed_call"}
_FLAGS = _BROKEN_ANSWERS | {"steps.exhausted", "output.refusal", "tool.lookup_skipped"}
"""Kinds whose opposite is the other flag."""


_ANSWERED_SO = _BROKEN_ANSWERS | {"tool.not_offered", "tool.invalid_arguments", "tool.only_announced"}
"""Kinds that a model's recorded answers decide, whatever the candidate makes of them."""


def _opposite(run: TraceRun, signature: Assertion) -> list[Assertion]:
    kind, value = signature.kind, signature.value
    if kind in _IMPLIED:
        return []
    if kind in _ANSWERED_SO and run.status is not RunStatus.SUCCESS:
        return []  # an agent that gets over such an answer is fixed
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
    """Return how many calls of the tool a label expects that calls the run a failure."""
    most = 0
    for label in bad_labels(run):
        most = max(most, sum(call.name == tool for call in label.expected_calls or ()))
    return most
