"""Runs that broke under chaos, as cases: the answers that faults gave are on their tapes, so they need no chaos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from replaykit.cases.case import ReplayCase, dump_case, load_case
from replaykit.cases.scaffold import scaffold
from replaykit.cases.slug import slug
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.contracts.contract import Contract
from replaykit.redaction.files import file_redactor, write_clean
from replaykit.runners.case_check import check_case
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
        case = scaffold(run.run, place, remarks=remarks)
        asked = () if contract is None else contract.assertions(run.conditions)
        case = _rewritten(case, observed=case.observed or _broken(run, asked), desired=asked or (_COMPLETES,))
        check_case(case, run.run)
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


def _broken(run: ChaosRun, asked: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    """The signatures of a run that no detector calls a failure: what it was asked, and did not keep."""
    failed = {(finding.id, finding.kind) for finding in run.failures}
    return tuple(_opposite(assertion) for assertion in asked if (assertion.id, assertion.kind) in failed)


def _opposite(assertion: Assertion) -> Assertion:
    if assertion.kind != "not":
        return parse_assertion("not", {assertion.kind: assertion.value})
    ((kind, value),) = assertion.value.items()
    return parse_assertion(kind, value)


def _rewritten(case: ReplayCase, *, observed: tuple[Assertion, ...], desired: tuple[Assertion, ...]) -> ReplayCase:
    """The case with these assertions: what the trial asked is what a fix must show."""
    changed = msgspec.structs.replace(case, observed=observed, desired=desired)
    write_clean(case.file, dump_case(changed), file_redactor(), fail_closed=True)
    return load_case(case.directory)
