"""Find contracts: by name among the known ones, then by path, relative to the file that refers to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from replaykit.cases.case import MAX_FLAWS
from replaykit.cases.config_files import WORKING_TREE, ConfigFiles, load_config
from replaykit.cases.lint import Problem, located, problem_of
from replaykit.checks.custom import REGISTER_HINT, unregistered_in, unregistered_text
from replaykit.contracts.contract import Contract, Invariant, Severity, When
from replaykit.contracts.invariant_types import assertion_of, probes_of
from replaykit.contracts.shape import CONTRACT, CONTRACTS
from replaykit.documents.document import Document, FilePath, load_document
from replaykit.documents.shape import Flaw, Flaws, FlawSeverity, Shape, find_flaws, refuse_flaws
from replaykit.errors import InvalidFile, UsageError, nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject


def contract_of(value: JsonObject, document: Document, path: DocumentPath) -> Contract:
    """Build the contract that a valid value describes; `path` is its place in the document."""
    invariants = value["invariants"]
    lines = document.lines([(*path, "invariants", index) for index in range(len(invariants))])
    return Contract(
        name=value["name"],
        description=value.get("description", ""),
        invariants=tuple(_invariant(*pair, document.file) for pair in zip(invariants, lines, strict=True)),
        matrix=tuple(value.get("chaos_matrix") or ()),
    )


def _invariant(value: JsonObject, line: int | None, file: str) -> Invariant:
    severity = Severity(value.get("severity", Severity.MEDIUM))
    where = file if line is None else f"{file}:{line}"
    assertion = assertion_of(value)
    return Invariant(
        id=value["id"],
        type=value["type"],
        assertion=msgspec.structs.replace(assertion, id=value["id"], severity=severity.value, where=where),
        description=value.get("description", ""),
        severity=severity,
        when=When(value.get("when", When.ALWAYS)),
        negate=value.get("negate", False),
        probes=probes_of(value),
    )


MAX_CONTRACT_BYTES = 8 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")


def find_contract(
    name: str, known: Mapping[str, Contract], directory: Path, files: ConfigFiles = WORKING_TREE
) -> Contract:
    """Return the known contract of this name, or else the one in the file of this name below the directory."""
    if name in known:
        return known[name]
    file = directory / name
    if files.has(file):
        return load_contract(file, files)
    # The user meant a file, so the nearest names would not help.
    if name.endswith(_SUFFIXES):
        raise UsageError(f"no contract {name!r}: there is no file {file}{files.where}", hint=_hint(known))
    raise UsageError(f"no contract {name!r}; {nearest(name, known)}", hint=_hint(known))


def _hint(known: Mapping[str, Contract]) -> str:
    if known:
        return "A contract is named, or is a file's path relative to the configuration file."
    return "Write one under `contract:` in replaykit.yaml, or name a file that holds one."


def load_contract(path: FilePath, files: ConfigFiles = WORKING_TREE) -> Contract:
    """Load the contract in a file, wrapped in `contract:` or not; `InvalidFile` names the line of the first flaw."""
    document = load_config(Path(path), limit_bytes=MAX_CONTRACT_BYTES, files=files)
    refuse_flaws(document, contract_flaws(document))
    value, place = _inner(document.value)
    return contract_of(value, document, place)


def contract_flaws(document: Document) -> list[Flaw]:
    """Return everything that keeps a document from being a contract, up to `MAX_FLAWS`."""
    value, path = _inner(document.value)
    return list(islice(find_flaws(CONTRACT, value, path), MAX_FLAWS))


def _inner(value: Json) -> tuple[Json, tuple[str, ...]]:
    if isinstance(value, dict) and value.keys() == {"contract"}:
        return (value["contract"], ("contract",))
    return (value, ())


def lint_contracts(path: FilePath) -> list[Problem]:
    """Return every problem of the contracts in a file, in the order of their lines.

    The file is a contract, or a configuration whose `contract` and `contracts` are checked.
    """
    try:
        document = load_document(path, limit_bytes=MAX_CONTRACT_BYTES)
    except InvalidFile as error:
        return [problem_of(error, os.fspath(path))]
    problems = located(document, list(islice(_flaws(document), MAX_FLAWS)))
    return sorted(problems, key=lambda problem: problem.line or 0)


_CONFIGURATION_KEYS = ("replaykit", "agent", "cases", "replays")
"""Keys that a configuration has and a contract never does."""


def _flaws(document: Document) -> Flaws:
    value = document.value
    parts: dict[str, Shape] = {"contract": CONTRACT, "contracts": CONTRACTS}
    present = [part for part in parts if isinstance(value, dict) and value.get(part) is not None]
    if not present and isinstance(value, dict) and not value.keys().isdisjoint(_CONFIGURATION_KEYS):
        yield Flaw((), "no-contract", "this configuration has no contract", "Add one under `contracts:`.")
        return
    flaws = list(find_flaws(CONTRACT, value)) if not present else []
    for part in present:
        flaws += find_flaws(parts[part], value[part], (part,))
    yield from flaws
    if not flaws:
        for path, contract in _contracts(value, present):
            yield from _unregistered(path, contract)


def _contracts(value: Json, parts: list[str]) -> Iterator[tuple[DocumentPath, JsonObject]]:
    """Yield the contracts of a valid file, each with its place."""
    if not parts:
        yield (), value
    if "contract" in parts:
        yield ("contract",), value["contract"]
    if "contracts" in parts:
        many = value["contracts"]
        for key, one in many.items() if isinstance(many, dict) else enumerate(many):
            yield ("contracts", key), one


def _unregistered(path: DocumentPath, contract: JsonObject) -> Flaws:
    """Warn about Python checks that are not registered in this process."""
    assertions = list(map(assertion_of, contract["invariants"]))
    for index, name in unregistered_in(assertions):
        place = (*path, "invariants", index)
        yield Flaw(place, "unknown-check", unregistered_text(name), REGISTER_HINT, FlawSeverity.WARNING)
