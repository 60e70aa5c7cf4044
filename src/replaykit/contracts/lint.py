"""Lint: everything that is wrong with the contracts in a file, in one go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from replaykit.cases.case import MAX_FLAWS
from replaykit.cases.document import Document, load_document
from replaykit.cases.lint import Problem, located, problem_of
from replaykit.cases.shape import Flaw, Shape, find_flaws
from replaykit.contracts.find import MAX_CONTRACT_BYTES
from replaykit.contracts.shape import CONTRACT, CONTRACTS
from replaykit.errors import InvalidFile


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
    if not found:
        yield from find_flaws(CONTRACT, value)
    for part in found:
        yield from find_flaws(parts[part], value[part], (part,))
