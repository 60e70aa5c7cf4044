"""Lint: everything that is wrong with the contracts in a file, in one go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from replaykit.cases.case import MAX_FLAWS
from replaykit.cases.document import Document, Path, load_document
from replaykit.cases.lint import Problem, located, problem_of
from replaykit.cases.shape import Flaw, Severity, Shape, find_flaws
from replaykit.checks.custom import REGISTER_HINT, unregistered_in, unregistered_text
from replaykit.contracts.find import MAX_CONTRACT_BYTES
from replaykit.contracts.shape import CONTRACT, CONTRACTS
from replaykit.contracts.types import asked
from replaykit.errors import InvalidFile
from replaykit.model.values import Json


def lint_contracts(path: str | os.PathLike[str]) -> list[Problem]:
    """Everything that is wrong with the contracts in a file, in the order of its lines.

    The file is a contract, or a configuration: of that, `contract` and `contracts`.
    """
    try:
        document = load_document(path, limit_bytes=MAX_CONTRACT_BYTES)
    except InvalidFile as error:
        return [problem_of(error, os.fspath(path))]
    problems = located(document, list(islice(_flaws(document), MAX_FLAWS)))
    return sorted(problems, key=lambda problem: problem.line or 0)


def _flaws(document: Document) -> Iterator[Flaw]:
    value = document.value
    parts: dict[str, Shape] = {"contract": CONTRACT, "contracts": CONTRACTS}
    found = [part for part in parts if isinstance(value, dict) and value.get(part) is not None]
    flaws = list(find_flaws(CONTRACT, value)) if not found else []
    for part in found:
        flaws += find_flaws(parts[part], value[part], (part,))
    yield from flaws
    if not flaws:
        for path, contract in _contracts(value, found):
            yield from _unregistered(path, contract)


def _contracts(value: Json, parts: list[str]) -> Iterator[tuple[Path, dict[str, Json]]]:
    """The contracts of a file without flaws, and where they are."""
    if not parts:
        yield (), value
    if "contract" in parts:
        yield ("contract",), value["contract"]
    if "contracts" in parts:
        many = value["contracts"]
        for key, one in many.items() if isinstance(many, dict) else enumerate(many):
            yield ("contracts", key), one


def _unregistered(path: Path, contract: dict[str, Json]) -> Iterator[Flaw]:
    """Checks in Python that nobody has registered where this is linted."""
    assertions = [asked(invariant) for invariant in contract["invariants"]]
    for index, name in unregistered_in(assertions):
        place = (*path, "invariants", index)
        yield Flaw(place, "unknown-check", unregistered_text(name), REGISTER_HINT, Severity.WARNING)
