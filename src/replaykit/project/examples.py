"""The examples: list them, and copy one out of the installed package."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import UsageError, nearest

DIRECTORY = "examples"
_INDEX = "index.toml"
_LEFT_OUT = frozenset({"__pycache__", ".replaykit", ".pytest_cache"})


class Example(Struct, frozen=True):
    """An example: a summary, its files, and a command to try first."""

    summary: str
    """What it shows, on one line."""
    files: list[str]
    """Its files and directories, relative to `examples`."""
    first_command: str = msgspec.field(name="try")
    """A command to try first."""


def all_examples() -> dict[str, Example]:
    """Return the examples by name."""
    index = tomllib.loads((_root() / _INDEX).read_text(encoding="utf-8"))
    return msgspec.convert(index, dict[str, Example])


class ExampleCopy(Struct, frozen=True):
    """An example in a directory: its files and directories, by whether they were there before."""

    example: Example
    created: list[Path]
    existing: list[Path]


def copy_example(name: str, into: Path) -> ExampleCopy:
    """Copy an example into a directory, below `examples`.

    Examples share files, so a file with the same content stays; one with other content is a `UsageError`.
    """
    examples = all_examples()
    if name not in examples:
        raise UsageError(f"no example {name!r}; {nearest(name, examples)}", hint="See: replaykit examples")
    example = examples[name]
    missing: dict[Path, dict[Path, Path]] = {}
    for file in example.files:
        target = into / DIRECTORY / file
        missing[target] = _missing_files(_root() / file, target)
    for sources in missing.values():
        for target, source in sources.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return ExampleCopy(
        example,
        created=[target for target, sources in missing.items() if sources],
        existing=[target for target, sources in missing.items() if not sources],
    )


def _missing_files(source: Path, target: Path) -> dict[Path, Path]:
    """Return the files that a copy still lacks, with their sources; `UsageError` for one with other content."""
    missing = {}
    for file in _files_of(source):
        copy = target / file.relative_to(source)
        if not copy.exists():
            missing[copy] = file
        elif not copy.is_file() or copy.read_bytes() != file.read_bytes():
            raise UsageError(f"{copy} already exists, with other content", hint="Copy it into another directory.")
    return missing


def _files_of(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    for entry in sorted(source.iterdir()):
        if entry.name not in _LEFT_OUT:
            yield from _files_of(entry)


def _root() -> Path:
    """Return the directory of the examples: in the installed package, or beside `src` in a clone."""
    package = Path(__file__).parents[1]
    installed = package / DIRECTORY
    if installed.is_dir():
        return installed
    return package.parents[1] / DIRECTORY
