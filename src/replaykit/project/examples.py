"""The examples: list them, and copy one out of the installed package."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import UsageError, nearest

DIRECTORY = "examples"
_INDEX = "index.toml"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".replaykit", ".pytest_cache")


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


def copy_example(name: str, into: Path) -> Example:
    """Copy an example into `examples` of a directory; raise `UsageError` if one of the files exists."""
    examples = all_examples()
    if name not in examples:
        raise UsageError(f"no example {name!r}; {nearest(name, examples)}", hint="See: replaykit examples")
    example = examples[name]
    targets = [into / DIRECTORY / file for file in example.files]
    for target in targets:
        if target.exists():
            raise UsageError(f"{target} exists already", hint="Copy it into another directory.")
    for file, target in zip(example.files, targets, strict=True):
        source = _root() / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_LEFT_OUT)
        else:
            shutil.copyfile(source, target)
    return example


def _root() -> Path:
    """Return the directory of the examples: in the installed package, or beside `src` in a clone."""
    package = Path(__file__).parents[1]
    installed = package / DIRECTORY
    if installed.is_dir():
        return installed
    return package.parents[1] / DIRECTORY
