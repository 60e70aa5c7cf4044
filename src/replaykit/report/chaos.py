"""Trials under chaos and with mutated inputs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from replaykit.checks.reading import text_of
from replaykit.handlers.chaos.mutations import Mutation
from replaykit.handlers.chaos.profiles import profile, profile_description
from replaykit.model.faults import ChaosPlan
from replaykit.report.layout import JsonResult, counted, counts_text, indented, mark, short, table, to_json, with_hint
from replaykit.terminal import style
from replaykit.trials.chaos import ChaosResult, ChaosRun, ChaosVerdict, InjectedFault
from replaykit.trials.mutation import MutationResult, MutationRun


class ChaosReport(JsonResult, frozen=True, kw_only=True):
    """An agent's runs under chaos."""

    passed: bool
    """True when every run held, and every scenario had its faults."""
    score: float
    """The share of runs that held, from 0 to 100; scenarios in which no fault struck do not count."""
    agent: str
    """The agent that was run, as it was named."""
    contract: str
    """The name of the contract that the agent had to keep; empty if it only had to end without an error."""
    untested: Sequence[str]
    """Scenarios of which no fault was triggered in any run."""
    saved: Sequence[str]
    """The directories of the cases that were made of broken runs."""
    duration_s: float
    runs: Sequence[ChaosRun]
    """Every run, scenario by scenario."""


class ChaosProfile(Struct, frozen=True, kw_only=True):
    """A named set of faults."""

    description: str = field(name="about")
    """What the profile does, in one line."""
    plan: ChaosPlan
    """Its faults, as a file may spell them."""


ChaosProfiles: TypeAlias = dict[str, ChaosProfile]
"""The profiles by name."""


class MutatedInputs(JsonResult, frozen=True, kw_only=True):
    """The variants of inputs."""

    mutations: Sequence[Mutation]
    """Every variant, input by input."""


class MutationReport(JsonResult, frozen=True, kw_only=True):
    """The agent's answers to the variants of its inputs, scored."""

    agent: str
    """The agent that was run, as it was named."""
    contract: str
    """The name of the contract that the agent had to keep; empty if it only had to end without an error."""
    runs: Sequence[MutationRun]
    """Every variant, and how the agent dealt with it."""
    duration_s: float
    passed: bool
    """True when the score is at least what --min-score asks for, and no variant is inconclusive."""
    score: float
    """The weighted share of variants that passed, from 0 to 100."""


_COLOURS = {ChaosVerdict.BROKE: "red", ChaosVerdict.ERROR: "magenta"}
_SHOWN_FAILURES = 20


def chaos_text(result: ChaosResult, saved: Sequence[Path] = ()) -> str:
    """Per scenario what was injected and what came of it; then each run that broke, with what it takes to see it."""
    lines: list[str] = []
    for name in dict.fromkeys(run.scenario for run in result.runs):
        lines += _scenario_text(name, result)
    failed = [run for run in result.runs if run.verdict is not ChaosVerdict.HELD]
    for run in failed[:_SHOWN_FAILURES]:
        lines += _failure_text(run)
    if len(failed) > _SHOWN_FAILURES:
        lines.append(f"  … and {len(failed) - _SHOWN_FAILURES} more; --json has all")
    for name in result.untested:
        text = "no fault was triggered: none matches what the agent calls, or chance skipped them all"
        lines.append(f"  {style('untested', fg='yellow')} {short(name, 40)}: {text}")
    lines += indented(map(str, saved), "  saved ")
    held = len(result.runs) - len(failed)
    return "\n".join([*lines, "", f"{counted(len(result.runs), 'run')}: {held} held; score {result.score:g}"])


def _scenario_text(name: str, result: ChaosResult) -> Iterator[str]:
    runs = [run for run in result.runs if run.scenario == name]
    held = sum(run.verdict is ChaosVerdict.HELD for run in runs)
    is_held = held == len(runs)
    sign = style("?", fg="yellow") if is_held and name in result.untested else mark(is_held)
    yield f"{sign} {short(name, 60)}: {held} of {counted(len(runs), 'run')} held"
    yield f"  injected: {counts_text(fault.fault for run in runs for fault in run.faults)}"


def _failure_text(run: ChaosRun) -> Iterator[str]:
    word = style(run.verdict.value, fg=_COLOURS[run.verdict])
    yield f"  {word} {short(run.scenario, 40)}, seed {run.seed}: {short(run.reason, 200)}"
    if run.after is not None:
        yield f"    after {_fault_text(run.after)}"
    if run.evidence:
        yield f"    evidence {run.evidence}"


def _fault_text(fault: InjectedFault) -> str:
    if not fault.call:
        return f"{fault.fault} in the input"
    where = f" in {fault.step}" if fault.step else ""
    return f"{fault.fault} in `{short(fault.call, 60)}` (event {fault.seq}{where})"


def chaos_json(result: ChaosResult, saved: Sequence[Path] = ()) -> str:
    """The result for programs; the runs' own events are left out."""
    return to_json(
        ChaosReport(
            passed=not result.exit_code,
            score=result.score,
            agent=result.agent,
            contract=result.contract,
            untested=result.untested,
            saved=list(map(str, saved)),
            duration_s=result.duration_s,
            runs=[replace(run, run=None) for run in result.runs],
        )
    )


def profiles_text(names: Sequence[str]) -> str:
    """The profiles, one on each line."""
    return table(["profile", "fault"], [[name, profile_description(name)] for name in names], is_cut=False)


def profiles_json(names: Sequence[str]) -> str:
    """The profiles with their plans, as a file may spell them."""
    profiles = {name: ChaosProfile(description=profile_description(name), plan=profile(name)) for name in names}
    return to_json(profiles)


def mutations_text(mutations: Sequence[Mutation]) -> str:
    """The mutations: kind, what was done, and the input."""
    rows = [[mutation.kind, short(mutation.what, 30), text_of(mutation.input)] for mutation in mutations]
    return with_hint(table(["kind", "change", "input"], rows), "In full: --json")


def mutated_inputs(mutations: Sequence[Mutation]) -> str:
    """The inputs alone, a line each."""
    return "\n".join([text_of(mutation.input) for mutation in mutations])


def mutations_json(mutations: Sequence[Mutation]) -> str:
    return to_json(MutatedInputs(mutations=mutations))


def mutation_text(result: MutationResult) -> str:
    """Each mutation that failed, and the score."""
    lines = []
    passed = 0
    for run in result.runs:
        passed += run.passed
        lines.append(f"{mark(run.passed)} {run.mutation.kind}: {short(run.mutation.what, 60)}")
        if not run.passed:
            lines += [f"    asked {short(text_of(run.mutation.input), 90)}", f"    {short(run.reason, 200)}"]
            if run.evidence:
                lines.append(f"    evidence {run.evidence}")
    return "\n".join([*lines, "", f"{counted(len(result.runs), 'mutation')}: {passed} passed; score {result.score:g}"])


def mutation_json(result: MutationResult, *, passed: bool) -> str:
    """The result for programs."""
    return to_json(MutationReport(**asdict(result), passed=passed, score=result.score))
