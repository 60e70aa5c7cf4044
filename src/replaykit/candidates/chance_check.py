"""Randomness that the recording of a case could not control, and that may have decided what the agent did."""

from __future__ import annotations

from replaykit.cases.case import ReplayCase
from replaykit.handlers.replay.unrecorded_chance import RANDOM
from replaykit.model.pins import HASHES, SECRETS, SETS
from replaykit.model.result import Verdict
from replaykit.seam.own_process import CPU_TIME, RESOURCES

_IN_WORDS = {
    SECRETS: "the recorded agent drew from `secrets` or `os.urandom`",
    HASHES: "the recorded agent used `hash`, which differs in every process",
    SETS: "the recorded agent used the order of a set, which differs in every process",
    CPU_TIME: "the recorded agent read its CPU time, and a replay spends none in tools",
    RESOURCES: "the recorded agent read its use of memory or other resources, and a replay uses none in tools",
    RANDOM: "another run in the same process controlled `random`, so this one could not",
}
_ADVICE = {
    SECRETS: "Use `random` in the agent, which a recording controls, and record the failure again",
    HASHES: "Record the failure again with PYTHONHASHSEED set",
    SETS: "Sort the set, or record the failure again with PYTHONHASHSEED set",
    CPU_TIME: "Measure time with `time.monotonic` or `time.perf_counter`, and record the failure again",
    RESOURCES: "Read it in a tool, which a recording controls, and record the failure again",
    RANDOM: "Record the failure again, with one run at a time",
}


def deciding_chance(case: ReplayCase) -> list[str]:
    """Return the sources of randomness that the agent itself used and the recording does not control."""
    return [name for name in case.scenario.not_held if name in _IN_WORDS]


def resting_on_chance(case: ReplayCase, verdict: Verdict, other: Verdict) -> str:
    """Return why a verdict does not stand: the same candidate got a different one with other random values."""
    name = deciding_chance(case)[0]
    return (
        f"it depends on chance: {_IN_WORDS[name]}, and the candidate is {verdict.value} with some draws "
        f"and {other.value} with others\n{_ADVICE[name]}"
    )


def unmeasurable_use(case: ReplayCase) -> str:
    """Return why a verdict is in doubt because CPU time or memory may have decided it; empty if neither was read."""
    name = next((name for name in deciding_chance(case) if name in (CPU_TIME, RESOURCES)), "")
    if not name:
        return ""
    return f"it may depend on chance: {_IN_WORDS[name]}\n{_ADVICE[name]}"


def unchangeable_hashes(case: ReplayCase) -> str:
    """Return why hashes put a verdict from a single process in doubt; empty if they cannot have decided it."""
    name = next((name for name in deciding_chance(case) if name in (HASHES, SETS)), "")
    if not name:
        return ""
    return (
        f"it may depend on chance: {_IN_WORDS[name]}, and in one process its effect cannot be measured\n"
        f"Replay the candidate in processes of its own, with --agent MODULE:FUNCTION. {_ADVICE[name]}"
    )
