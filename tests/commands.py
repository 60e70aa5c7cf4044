"""Commands that are run in this process: how each ended, and what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest

from replaykit.cli import run


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


R = TypeVar("R", bound=Ran)


def caller(capsys: pytest.CaptureFixture[str], kind: type[R], *before: str) -> Callable[..., R]:
    """What runs `replaykit` with these words and those it is given, and has only its own output."""

    def call(*arguments: object) -> R:
        capsys.readouterr()
        code = run([*before, *map(str, arguments)])
        return kind(int(code), *capsys.readouterr())

    return call
