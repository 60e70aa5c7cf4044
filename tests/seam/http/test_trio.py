"""httpx under trio: what is waited for is waited for in the loop that runs, and what is cancelled is not an error."""

from __future__ import annotations

import threading

import httpx
import pytest
import trio
from tests.seam.http.conftest import PATIENCE_S

import replaykit as rk
from replaykit.seam.scope import current


@pytest.mark.parametrize("moment", ["before the answer", "in the middle of it"])
def test_who_was_cancelled_while_waiting_waits_again(moment, server, tapes):
    gate = threading.Event()
    chunks = [b"", b"late"] if moment == "before the answer" else [b"first", b"late"]
    url = server.says("/stuck", chunks=chunks, framing="length", gate=gate)
    got = []

    async def read():
        async with httpx.AsyncClient(verify=False) as client, client.stream("GET", url) as response:
            async for chunk in response.aiter_raw():
                got.append(chunk)

    async def cancelled():
        got.clear()
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                while not ((server.requests and not chunks[0]) or got):
                    await trio.sleep(0.001)
                await trio.sleep(0.01)
                assert nursery.child_tasks
                nursery.cancel_scope.cancel()
        return list(got)

    live = tapes.record(lambda: trio.run(cancelled))
    gate.set()

    assert tapes.replay(lambda: trio.run(cancelled)) == live == [chunk for chunk in chunks[:1] if chunk]
    assert (tapes.calls[0].complete, tapes.calls[0].error.type) == (False, "CancelledError")


def test_an_awaited_tool_that_was_cancelled_waits_again(tapes):
    @rk.tool
    async def wait():
        await trio.sleep_forever()

    async def given_up():
        with trio.move_on_after(0.01) as scope:
            await wait()
        return scope.cancelled_caught

    assert tapes.both(lambda: trio.run(given_up)) == (True, True)
    assert not tapes.calls[0].complete


def test_a_replay_at_the_recorded_pace_waits_in_trio(server, tapes):
    url = server.says("/pace", chunks=[b"a", b"b"])

    async def read():
        current().session.speed = 100.0
        async with httpx.AsyncClient(verify=False) as client:
            return (await client.get(url)).text

    assert tapes.both(lambda: trio.run(read)) == ("ab", "ab")
