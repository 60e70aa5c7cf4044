"""Runs that broke under chaos, as cases: the answers that faults gave are on their tapes, so they need no chaos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from replaykit.candidates.case_check import check_case
from replaykit.cases.case import ReplayCase, dump_case, load_case
from replaykit.cases.scaffold import scaffold
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.contracts.contract import Contract
from replaykit.documents.slug import slug
from replaykit.redaction.files import file_redactor, write_clean
from replaykit.trials.chaos import ChaosResult, ChaosRun, ChaosVerdict

_COMPLETES = parse_assertion("status_is", "success")


def save_broken(result: ChaosResult, parent: Path, contract: Contract | None = None) -> list[Path]:
    """Write a case for each run that broke; return their directories, in the order of the runs."""
    saved = []
    for run, directory in _case_directories(result, parent):
        if run.run is None:
            continue
        faults = dict.fromkeys(f"{fault.fault} in {fault.call or 'the input'}" for fault in run.faults)
        remarks = [f"Under chaos ({run.scenario}, seed {run.seed}) it broke: {run.reason}", *faults]
        case = scaffold(run.run, directory, remarks=remarks)
        assertions: tuple[Assertion, ...] = ()
        if contract is not None:
            assertions = contract.assertions(run.conditions)
        observed = case.observed or _broken_promises(run, assertions)
        case = _rewrite(case, observed=observed, desired=assertions or (_COMPLETES,))
        check_case(case, run.run)
        saved.append(directory)
    return saved


def _case_directories(result: ChaosResult, parent: Path) -> Iterator[tuple[ChaosRun, Path]]:
    used: set[str] = set()
    for run in result.runs:
        if run.verdict is not ChaosVerdict.BROKE:
            continue
        name = base = f"{slug('tool_call', run.scenario)}-{run.seed}"
        number = 2
        while name in used:
            name, number = f"{base}-{number}", number + 1
        used.add(name)
        yield run, parent / name


def _broken_promises(run: ChaosRun, assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    """Return the signatures of a run that no detector calls a failure: the opposites of the promises it broke."""
    failed = {(finding.id, finding.kind) for finding in run.failures}
    return tuple(_opposite(assertion) for assertion in assertions if (assertion.id, assertion.kind) in failed)


def _opposite(assertion: Assertion) -> Assertion:
    if assertion.kind != "not":
        return parse_assertion("not", {assertion.kind: assertion.value})
    ((kind, value),) = assertion.value.items()
    return parse_assertion(kind, value)


def _rewrite(case: ReplayCase, *, observed: tuple[Assertion, ...], desired: tuple[Assertion, ...]) -> ReplayCase:
    """Write the case with these assertions: a fix must show what the trial asked for."""
    changed = msgspec.structs.replace(case, observed=observed, desired=desired)
    write_clean(case.file, dump_case(changed), file_redactor(), fail_closed=True)
    return load_case(case.directory)
