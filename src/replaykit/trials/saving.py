"""Runs that broke under chaos, as cases: the answers that faults gave are on their tapes, so they need no chaos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from replaykit.cases.case import dump_case, load_case
from replaykit.cases.scaffold import scaffold
from replaykit.cases.slug import slug
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.contracts.contract import Contract
from replaykit.redaction.files import file_redactor, write_clean
from replaykit.trials.chaos import ChaosResult, ChaosRun, ChaosVerdict

_COMPLETES = parse_assertion("status_is", "success")


def save_broken(result: ChaosResult, directory: Path, contract: Contract | None = None) -> list[Path]:
    """Write a case for each run that broke; the directories, in the order of the runs."""
    saved = []
    for run, place in _places(result, directory):
        if run.run is None:
            continue
        struck = dict.fromkeys(f"{fault.fault} in {fault.call or 'the input'}" for fault in run.faults)
        remarks = [f"Under chaos ({run.scenario}, seed {run.seed}) it broke: {run.reason}", *struck]
        scaffold(run.run, place, remarks=remarks)
        asked = () if contract is None else contract.assertions(run.conditions)
        _desire(place, asked or (_COMPLETES,))
        saved.append(place)
    return saved


def _places(result: ChaosResult, directory: Path) -> Iterator[tuple[ChaosRun, Path]]:
    taken: set[str] = set()
    for run in result.runs:
        if run.verdict is not ChaosVerdict.BROKE:
            continue
        name = base = f"{slug('tool_call', run.scenario)}-{run.seed}"
        number = 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        yield run, directory / name


def _desire(place: Path, asked: tuple[Assertion, ...]) -> None:
    """What the trial asked is what a fix must show."""
    case = msgspec.structs.replace(load_case(place), desired=asked)
    write_clean(case.file, dump_case(case), file_redactor(), fail_closed=True)
    load_case(place)
