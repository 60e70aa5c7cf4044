"""What these tests share: a LangSmith on loopback that the environment names, and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import commands
from tests.langsmith_server import FakeLangSmith, incident, langsmith_server, set_account


class Ran(commands.Ran):
    """How a command ended, and what came in."""

    @property
    def entries(self) -> list[Any]:
        found: list[Any] = self.json["entries"]
        return found

    @property
    def results(self) -> dict[str, str]:
        return {entry["run"]: entry["result"] for entry in self.entries}


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""
    return commands.caller(capsys, Ran)


@pytest.fixture
def langsmith(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLangSmith]:
    """A LangSmith with one failed trace."""
    with langsmith_server() as fake:
        set_account(fake, monkeypatch)
        fake.runs = incident()
        yield fake
