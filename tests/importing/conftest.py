"""What these tests share: a LangSmith on loopback that the environment names, and commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from replaykit.cli import run

from ..langsmith_server import FakeLangSmith, incident, langsmith_server, set_account


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def entries(self) -> list[Any]:
        found: list[Any] = json.loads(self.out)["entries"]
        return found

    @property
    def results(self) -> dict[str, str]:
        return {entry["run"]: entry["result"] for entry in self.entries}


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""

    def call(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ran(int(code), *capsys.readouterr())

    return call


@pytest.fixture
def langsmith(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLangSmith]:
    """A LangSmith with one failed trace."""
    with langsmith_server() as fake:
        set_account(fake, monkeypatch)
        fake.runs = incident()
        yield fake
