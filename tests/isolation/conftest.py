"""Isolation needs a kernel that offers it; where it does not, these tests say why and are left out."""

from __future__ import annotations

import pytest

from replaykit.isolation import Level, support


@pytest.fixture(autouse=True)
def usual_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start programs without Python's development mode: those of these tests leave sockets open."""
    for name in ("PYTHONDEVMODE", "PYTHONTRACEMALLOC"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def full() -> None:
    """Leave the test out where the machine offers no full isolation."""
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
