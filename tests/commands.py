"""Commands that are run in this process: how each ended, and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, NamedTuple, TypeVar

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


def run_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `replaykit` in this process; what it wrote, and what the programs wrote that it started, is in the result.

    A process of its own would import everything once more, which takes most of the time of a small recording.
    """
    words = list(map(str, arguments))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        with _descriptor(1, out), _descriptor(2, err), redirect_stdout(out), redirect_stderr(err):
            code = run(words)
        return subprocess.CompletedProcess(["replaykit", *words], int(code), _written(out), _written(err))


@contextmanager
def _descriptor(number: int, file: IO[str]) -> Iterator[None]:
    """Lead a file descriptor of this process, and of those that it starts, to a file."""
    before = os.dup(number)
    try:
        os.dup2(file.fileno(), number)
        yield
    finally:
        file.flush()
        os.dup2(before, number)
        os.close(before)


def _written(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
