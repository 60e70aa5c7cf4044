"""The width to write for, as the standard library finds it."""

from __future__ import annotations

import os
import shutil

import pytest

from replaykit.report.layout import MAX_WIDTH, screen_width


@pytest.mark.parametrize("said", [None, "", "0", "-5", "wide", "²", "60", "90", "10", "5000"])
@pytest.mark.parametrize("terminal", [None, 0, 72])
def test_the_width_is_that_of_the_variable_or_the_terminal(
    said: str | None, terminal: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(_file: int) -> os.terminal_size:
        if terminal is None:
            raise OSError("not a terminal")
        return os.terminal_size((terminal, 24))

    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.delenv("COLUMNS", raising=False)
    if said is not None:
        monkeypatch.setenv("COLUMNS", said)

    assert screen_width() == max(40, min(MAX_WIDTH, shutil.get_terminal_size((80, 24)).columns))
