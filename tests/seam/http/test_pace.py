"""Recorded responses at the pace they came with, in every library."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from tests.seam.http.conftest import Client, Server, Tapes

import replaykit as rk
import replaykit.seam.http.aiohttp
import replaykit.seam.http.httpx
from replaykit.seam import through
from replaykit.seam.scope import current

PAUSES = (20.0, 40.0, 0.0)
HEAD_S = 0.1


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for; nobody really waits."""
    seen: list[float] = []

    async def later(seconds: float) -> None:
        seen.append(round(seconds, 3))

    monkeypatch.setattr(time, "sleep", lambda seconds: seen.append(round(seconds, 3)))
    for module in (through, replaykit.seam.http.aiohttp, replaykit.seam.http.httpx):
        monkeypatch.setattr(module, "later", later)
    return seen


def slowly(run: rk.TraceRun) -> rk.TraceRun:
    """The run, as if its response had come slowly. It does not say when: a replay of it has the time of the machine."""
    (call,) = run.events
    wire = msgspec.structs.replace(call.wire, pauses_ms=PAUSES)  # type: ignore[union-attr]
    took = HEAD_S + sum(PAUSES) / 1000
    return msgspec.structs.replace(run, events=(msgspec.structs.replace(call, wire=wire, duration_s=took, span=None),))


@pytest.mark.parametrize(("speed", "expected"), [(0.0, []), (1.0, [0.1, 0.02, 0.04]), (2.0, [0.05, 0.01, 0.02])])
def test_chunks_come_as_slowly_as_they_did(
    fetch: Client, server: Server, tapes: Tapes, waits: list[float], speed: float, expected: list[float]
) -> None:
    url = server.says("/stream", chunks=[b"one", b"two", b"three"])
    seen = tapes.record(lambda: fetch(url))
    tapes.run = slowly(tapes.run)
    waits.clear()

    def at_pace() -> Any:
        scope = current()
        assert scope is not None
        scope.session.speed = speed
        return fetch(url)

    assert tapes.replay(at_pace).chunks == seen.chunks
    assert [wait for wait in waits if wait] == expected
