"""Find contracts: by name among those that are known, then by path, relative to where the name was said."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from replaykit.cases.case import MAX_FLAWS
from replaykit.cases.config_files import WORKING_TREE, ConfigFiles, load_config
from replaykit.cases.document import Document
from replaykit.cases.shape import Flaw, find_flaws
from replaykit.contracts.build import contract_of
from replaykit.contracts.contract import Contract
from replaykit.contracts.shape import CONTRACT
from replaykit.errors import UsageError, nearest
from replaykit.model.values import Json

MAX_CONTRACT_BYTES = 8 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")


def find_contract(
    name: str,
    known: Mapping[str, Contract] | Iterable[Contract],
    directory: Path,
    files: ConfigFiles = WORKING_TREE,
) -> Contract:
    """The known contract of that name, or else the one in the file of that name below the directory."""
    by_name = known if isinstance(known, Mapping) else {contract.name: contract for contract in known}
    if name in by_name:
        return by_name[name]
    file = directory / name
    if files.has(file):
        return load_contract(file, files)
    if name.endswith(_SUFFIXES):
        raise UsageError(f"no contract {name!r}: there is no file {file}{files.where}", hint=_hint(by_name))
    raise UsageError(f"no contract {name!r}; {nearest(name, by_name)}", hint=_hint(by_name))


def _hint(known: Mapping[str, Contract]) -> str:
    if known:
        return "A contract is named, or is a file's path relative to the configuration file."
    return "Write one under `contract:` in replaykit.yaml, or name a file that holds one."


def load_contract(path: str | os.PathLike[str], files: ConfigFiles = WORKING_TREE) -> Contract:
    """The contract in a file, wrapped in `contract:` or not; `InvalidFile` names the line of the first flaw."""
    document = load_config(Path(path), limit_bytes=MAX_CONTRACT_BYTES, files=files)
    for flaw in contract_flaws(document):
        raise document.error(flaw.message, flaw.path, hint=flaw.hint)
    return contract_of(_inner(document.value)[0])


def contract_flaws(document: Document) -> list[Flaw]:
    """Everything that keeps a document from being a contract, up to `MAX_FLAWS`."""
    value, path = _inner(document.value)
    return list(islice(find_flaws(CONTRACT, value, path), MAX_FLAWS))


def _inner(value: Json) -> tuple[Json, tuple[str, ...]]:
    wrapped = isinstance(value, dict) and value.keys() == {"contract"}
    return (value["contract"], ("contract",)) if wrapped else (value, ())
