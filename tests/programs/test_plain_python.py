"""Python programs that the proxy alone speaks for: chance is held in them all the same, and the guard stands."""

from __future__ import annotations

import sys

from tests.programs.agents import HTTP, write
from tests.programs.conftest import Upstream, completion, whole
from tests.programs.test_programs import own_environment, recorded, replayed, with_models_at_proxy

import replaykit as rk

__all__ = ["own_environment"]  # in effect here too

ASKS_BY_CHANCE = (
    HTTP
    + """
    import random, uuid
    print(chat([{"role": "user", "content": f"{random.random()} {uuid.uuid4()}"}])[1])
"""
)
GOES_ELSEWHERE = (
    HTTP
    + """
    import socket
    print(chat([{"role": "user", "content": "hello"}])[0])
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        print("reached")
    except Exception as error:
        print(error)
"""
)
FAILS = (
    HTTP
    + """
    chat([{"role": "user", "content": "hello"}])
    raise LookupError("no such order")
"""
)


def test_a_program_that_was_recorded_at_the_proxy_alone_draws_the_same_again(upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(completion("hi"))]
    agent = [sys.executable, write(ASKS_BY_CHANCE)]
    live = recorded(*agent)
    upstream.close()

    result = replayed(with_models_at_proxy(live.run), *agent)

    assert result.run is not None
    assert [call.path for call in result.run.calls] == ["/!proxy"]
    assert (result.run.output, result.deviations) == (live.run.output, ())


def test_what_goes_past_the_proxy_is_stopped(upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(completion("hi"))]
    agent = [sys.executable, write(GOES_ELSEWHERE), str(upstream.port)]
    live = recorded(*agent)
    before = upstream.connections

    result = replayed(live.run, *agent)

    assert result.run is not None
    assert live.run.output == "200\nreached"
    assert "Record it (a tool, or HTTP through a library that is watched)" in result.run.output
    (told,) = result.deviations
    assert told.text.startswith(f"a live connection to 127.0.0.1:{upstream.port} was stopped: ")
    assert (result.verdict, upstream.connections) == (rk.Verdict.DIVERGED, before)


def test_the_exception_that_ended_it_is_the_same(upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(completion("hi"))]
    agent = [sys.executable, write(FAILS)]
    live = recorded(*agent)

    result = replayed(live.run, *agent)

    assert result.run is not None
    assert live.run.error is not None
    assert result.run.error is not None
    assert (live.run.error.type, result.run.error.type) == ("LookupError", "LookupError")
    assert result.verdict is rk.Verdict.REPRODUCED
