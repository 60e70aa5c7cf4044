"""Detectors of answers that the run does not bear out: figures from nowhere, and values that a tool contradicts."""

from __future__ import annotations

from replaykit.cases.signatures import DETECTORS, FailureSignature, signature_of
from replaykit.checks.conversation import offered_tools, shows_all_messages
from replaykit.checks.reading import says_something
from replaykit.checks.tool_contradictions import certain_contradictions
from replaykit.checks.tool_offers import introduced_tools
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.model.run import RunStatus, TraceRun


@DETECTORS.register("grounding")
def find_ungrounded_output(run: TraceRun) -> list[FailureSignature]:
    """Find figures that nothing in the run says, in the answer of an agent that could have looked them up."""
    if run.status is not RunStatus.SUCCESS or not isinstance(run.output, str) or not says_something(run):
        return []
    if not run.tool_calls or not _shows_all_sources(run):
        return []  # without a call, a model answers from what it knows, and may be right
    for contradiction in certain_contradictions(run):
        tool = contradiction.member.call.name
        return signature_of(run, "contradiction", "output.contradicts", {"tool": tool}, explains=("answer",))
    return signature_of(
        run, "grounding", "output.grounded", {"grounded": False, "derive": "anything"}, explains=("answer",)
    )


def _has_tools(run: TraceRun) -> bool:
    """True for an agent that has tools; without any, a model answers from what it knows, as it was asked to."""
    return bool(run.tool_calls) or any(map(offered_tools, run.llm_calls)) or bool(introduced_tools(run))


def _shows_all_sources(run: TraceRun) -> bool:
    """True when the run holds what its models were sent and what its tools answered."""
    lacks = {lack for one in replayability(run).lacking for lack in one.lacks}
    if lacks & {Lack.MESSAGES, Lack.CUT, Lack.HIDDEN}:
        return False
    return shows_all_messages(run) and all(call.answered for call in run.tool_calls[:-1])
