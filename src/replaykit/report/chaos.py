"""Trials under chaos and with mutated inputs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from replaykit.handlers.chaos.mutations import Mutation
from replaykit.handlers.chaos.profiles import PROFILES, profile, profile_description
from replaykit.model.values import Json, canonical
from replaykit.report.layout import counted, counts_text, short, table, to_json
from replaykit.terminal import style
from replaykit.trials.chaos import ChaosResult, ChaosRun, ChaosVerdict, InjectedFault
from replaykit.trials.mutation import MutationResult

_COLOURS = {ChaosVerdict.HELD: "green", ChaosVerdict.BROKE: "red", ChaosVerdict.ERROR: "magenta"}
_SHOWN_FAILURES = 20


def chaos_text(result: ChaosResult, saved: Sequence[Path] = ()) -> str:
    """Per scenario what was injected and what came of it; then each run that broke, with what it takes to see it."""
    lines = [line for name in _scenarios(result) for line in _scenario_text(name, result)]
    failed = [run for run in result.runs if run.verdict is not ChaosVerdict.HELD]
    lines += [line for run in failed[:_SHOWN_FAILURES] for line in _failure_text(run)]
    if len(failed) > _SHOWN_FAILURES:
        lines.append(f"  … and {len(failed) - _SHOWN_FAILURES} more; --json has all")
    for name in result.untested:
        text = "no call or input was struck: its faults mean none of what the agent calls, or chance spared it"
        lines.append(f"  {style('untested', fg='yellow')} {short(name, 40)}: {text}")
    lines += [f"  saved {path}" for path in saved]
    held = sum(run.verdict is ChaosVerdict.HELD for run in result.runs)
    return "\n".join([*lines, "", f"{counted(len(result.runs), 'run')}: {held} held; score {result.score:g}"])


def _scenarios(result: ChaosResult) -> list[str]:
    return list(dict.fromkeys(run.scenario for run in result.runs))


def _scenario_text(name: str, result: ChaosResult) -> Iterator[str]:
    runs = [run for run in result.runs if run.scenario == name]
    held = sum(run.verdict is ChaosVerdict.HELD for run in runs)
    mark = style("✓", fg="green") if held == len(runs) else style("✗", fg="red")
    if name in result.untested and held == len(runs):
        mark = style("?", fg="yellow")
    yield f"{mark} {short(name, 60)}: {held} of {counted(len(runs), 'run')} held"
    yield f"  injected: {counts_text(struck.fault for run in runs for struck in run.faults)}"


def _failure_text(run: ChaosRun) -> Iterator[str]:
    word = style(run.verdict.value, fg=_COLOURS[run.verdict])
    yield f"  {word} {short(run.scenario, 40)}, seed {run.seed}: {short(run.reason, 200)}"
    if run.after is not None:
        yield f"    after {_struck_text(run.after)}"
    if run.evidence:
        yield f"    evidence {run.evidence}"


def _struck_text(struck: InjectedFault) -> str:
    if not struck.call:
        return f"{struck.fault} in the input"
    where = f" in {struck.step}" if struck.step else ""
    return f"{struck.fault} in `{short(struck.call, 60)}` (event {struck.seq}{where})"


def chaos_json(result: ChaosResult, saved: Sequence[Path] = ()) -> str:
    """The result for programs; the runs' own events are left out."""
    runs = [replace(run, run=None) for run in result.runs]
    document: dict[str, Json] = {
        "replaykit": result.replaykit,
        "passed": not result.exit_code,
        "score": result.score,
        "agent": result.agent,
        "contract": result.contract,
        "untested": result.untested,
        "saved": [str(path) for path in saved],
        "duration_s": result.duration_s,
        "runs": runs,
    }
    return to_json(document)


def profiles_text() -> str:
    """The profiles, one on each line."""
    return table(["PROFILE", "WHAT IS WRONG"], [[name, profile_description(name)] for name in PROFILES])


def profiles_json() -> str:
    """The profiles with their plans, as a file may spell them."""
    return to_json({name: {"about": profile_description(name), "plan": profile(name)} for name in PROFILES})


def mutations_text(mutations: Sequence[Mutation]) -> str:
    """The mutations: kind, what was done, and the input."""
    return table(["KIND", "WHAT", "INPUT"], [[m.kind, short(m.what, 30), _text(m.input)] for m in mutations])


def mutations_json(mutations: Sequence[Mutation]) -> str:
    return to_json({"replaykit": 1, "mutations": mutations})


def mutation_text(result: MutationResult) -> str:
    """Each mutation that failed, and the score."""
    lines = []
    for run in result.runs:
        mark = style("✓", fg="green") if run.passed else style("✗", fg="red")
        lines.append(f"{mark} {run.mutation.kind}: {short(run.mutation.what, 60)}")
        if not run.passed:
            lines += [f"    asked {short(_text(run.mutation.input), 90)}", f"    {short(run.reason, 200)}"]
            lines += [f"    evidence {run.evidence}"] if run.evidence else []
    passed = sum(run.passed for run in result.runs)
    return "\n".join([*lines, "", f"{counted(len(result.runs), 'mutation')}: {passed} passed; score {result.score:g}"])


def mutation_json(result: MutationResult, *, passed: bool) -> str:
    """The result for programs."""
    document = {**msgspec.to_builtins(result), "passed": passed, "score": result.score}
    return to_json(document)


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return canonical(value).decode()
