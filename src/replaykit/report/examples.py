"""Examples as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replaykit.project.examples import Example
from replaykit.report.layout import JsonResult, indented, table, to_json


class ExampleList(JsonResult, frozen=True, kw_only=True):
    """The examples that come with ReplayKit."""

    examples: Mapping[str, Example]
    """The examples by name."""


class CopiedExample(JsonResult, frozen=True, kw_only=True):
    """An example that was copied into a directory."""

    example: str
    """The name of the example."""
    created: Sequence[str]
    """The files and directories that were created."""
    existing: Sequence[str]
    """The files and directories that existed, with the same content."""
    first_command: str
    """The first command to type in that directory."""


def examples_text(examples: Mapping[str, Example]) -> str:
    """The examples, a line each."""
    rows = [[name, example.summary] for name, example in examples.items()]
    return table(["example", "shows"], rows, is_cut=False) + "\n\nCopy one: replaykit examples copy NAME"


def examples_json(examples: Mapping[str, Example]) -> str:
    """The examples for programs."""
    return to_json(ExampleList(examples=examples))


def copied_text(copied: CopiedExample) -> str:
    """Return what was created, and what to type next."""
    lines = [*indented(copied.existing, "exists    "), *indented(copied.created, "created   ")]
    return "\n".join([*lines, "", f"Next: {copied.first_command}"])
