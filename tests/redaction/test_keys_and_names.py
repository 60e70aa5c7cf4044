"""The key of a project, and names of people."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from replaykit.errors import UsageError
from replaykit.redaction import Redactor, Rules, project_key
from replaykit.redaction.names import PresidioNames


@pytest.fixture(autouse=True)
def no_key_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPLAYKIT_REDACTION_KEY", raising=False)


def test_a_key_is_made_once_for_its_owner_alone() -> None:
    home = Path(".replaykit")

    key = project_key(home)

    assert len(key) == 32
    assert project_key(home) == key
    assert stat.S_IMODE((home / "redaction.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in home.iterdir()) == [".gitignore", "redaction.key"]
    assert project_key(Path("other")) != key


def test_the_environment_gives_another_in_hex_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_REDACTION_KEY", "00" * 32)
    assert project_key(Path("x")) == bytes(32)
    monkeypatch.setenv("REPLAYKIT_REDACTION_KEY", "correct horse battery staple")
    assert project_key(Path("x")) == b"correct horse battery staple"
    assert not Path("x").exists()
    monkeypatch.setenv("REPLAYKIT_REDACTION_KEY", "short")
    with pytest.raises(UsageError, match="REPLAYKIT_REDACTION_KEY has 5 bytes"):
        project_key(Path("x"))


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff\xfe\x00" * 20])
def test_a_damaged_key_is_an_error_and_never_replaced(content: bytes) -> None:
    Path("redaction.key").write_bytes(content)

    with pytest.raises(UsageError, match=r"redaction\.key"):
        project_key(Path())

    assert Path("redaction.key").read_bytes() == content


def test_a_key_that_cannot_be_kept_is_an_error() -> None:
    Path("file").write_text("")
    with pytest.raises((UsageError, NotADirectoryError, FileExistsError)):
        project_key(Path("file"))
    Path("redaction.key").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        project_key(Path())


def test_processes_that_start_at_once_get_the_same_key() -> None:
    code = "from pathlib import Path; from replaykit.redaction import project_key; print(project_key(Path('k')).hex())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) for _ in range(4)
    ]

    printed = {process.communicate(timeout=60)[0] for process in started}

    assert len(printed) == 1
    assert len(printed.pop().strip()) == 64


class Found:
    def __init__(self, start: int, end: int, score: float) -> None:
        self.start, self.end, self.score = start, end, score


class Analyzer:
    """Stands for presidio's: it knows one name, and calls everything in angle brackets one too."""

    def analyze(self, *, text: str, entities: list[str], language: str) -> Iterable[Found]:
        assert (entities, language) == (["PERSON"], "en")
        for word, score in (("Jane Doe", 0.85), ("Rose", 0.2), ("<name:", 0.9)):
            at = text.find(word)
            if at >= 0:
                yield Found(at, at + len(word), score)


def test_names_are_found_by_whoever_can() -> None:
    redactor = Redactor(b"k" * 32, names=PresidioNames(Analyzer()))

    once = redactor.value({"text": "Jane Doe bought a Rose", "n": [1]})

    assert once["text"].startswith("<name:")
    assert once["text"].endswith("> bought a Rose")
    assert redactor.value(once) == once
    assert re.fullmatch(r"<name:\w{8}>, p-\w{8}@\w{8}\.redacted\.invalid", redactor.text("Jane Doe, jane@example.com"))


def test_names_without_their_extra_are_an_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)

    with pytest.raises(UsageError, match="presidio is not installed") as caught:
        Redactor(b"k" * 32, Rules(names=True))

    assert "'.[names]'" in str(caught.value)
