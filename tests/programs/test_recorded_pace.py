"""Programs with timers of their own: their races and timeouts come out in a replay as they did when recorded."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled
from tests.programs.conftest import END, STREAM, Asked, Upstream, chunk, whole
from tests.programs.test_programs import recorded, replayed

import replaykit as rk
from replaykit.model.run import TraceRun
from replaykit.programs.launch_options import LaunchOptions

pytestmark = pytest.mark.skipif(not (shutil.which("node") and shutil.which("curl")), reason="needs Node and curl")

NODE = """
const base = process.env.WORLD_BASE_URL
const ask = async (path, options) => (await fetch(base + path, options)).text()
const sleep = ms => new Promise(done => setTimeout(done, ms))
const fail = text => { console.log(text); process.exit(4) }
"""


def delayed(asked: Asked) -> Iterator[bytes]:
    """Answer a request for `/NAME/MILLISECONDS` with its name, after that time."""
    _, name, delay_ms = asked.path.split("/")
    time.sleep(int(delay_ms) / 1000)
    yield whole(name.encode())


@pytest.fixture(autouse=True)
def world(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_BASE", "_API_KEY")) or name.startswith("REPLAYKIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("REPLAYKIT_UPSTREAM_WORLD", upstream.url)
    upstream.script = delayed


def node(code: str) -> list[str]:
    Path("agent.mjs").write_text(NODE + code, encoding="utf-8")
    return ["node", "agent.mjs"]


def shell(code: str) -> list[str]:
    Path("agent.sh").write_text(code, encoding="utf-8")
    return ["bash", "agent.sh"]


def elapsed_ms(run: TraceRun, *command: str, **options: Any) -> int:
    """Replay a program that prints how long its calls took."""
    result = replayed(run, *command, **options)
    assert result.run is not None
    return int(result.run.output)


AGENTS = {
    "race": "fail(await Promise.race([ask('/slow/700'), ask('/fast/150')]))",
    "as they come": """
        const order = []
        await Promise.all(['/a/700', '/b/100', '/c/400'].map(async path => order.push(await ask(path))))
        fail(order.join(' '))
    """,
    "timeout": """
        await ask('/slow/2000', { signal: AbortSignal.timeout(700) }).catch(error => fail(error.name))
    """,
    "hedge": """
        const hedge = async () => { await sleep(200); return ask('/hedge/100') }
        fail(await Promise.race([ask('/first/900'), hedge()]))
    """,
    "loser aborted": """
        const race = new AbortController()
        const slow = ask('/slow/900', { signal: race.signal }).catch(error => error.name)
        const fast = await ask('/fast/100')
        race.abort()
        fail(fast + ' ' + await slow)
    """,
    "beside a chain": """
        const seen = []
        const long = ask('/long/800').then(text => seen.push(text))
        for (const name of ['one', 'two']) seen.push(await ask(`/${name}/150`))
        await long
        seen.push(await ask('/last/100'))
        fail(seen.join(' '))
    """,
}


@sampled("agent", AGENTS, count=1)
@pytest.mark.exhaustive
def test_a_node_program_takes_the_branch_it_took(agent: str) -> None:
    command = node(AGENTS[agent])
    live = recorded(*command)

    result = replayed(live.run, *command)

    assert result.run is not None
    assert result.run.output == live.run.output
    assert (result.verdict, result.deviations) == (rk.Verdict.REPRODUCED, ())


def test_processes_that_run_side_by_side_end_in_their_recorded_order() -> None:
    command = shell(
        """
        ask() { curl -sS "$WORLD_BASE_URL$1"; echo; }
        ask /a/600 & ask /b/100 & ask /c/350 &
        wait
        exit 4
        """
    )
    live = recorded(*command)

    result = replayed(live.run, *command)

    assert result.run is not None
    assert result.run.output == live.run.output == "b\nc\na"
    assert (result.verdict, result.deviations) == (rk.Verdict.REPRODUCED, ())


@pytest.mark.exhaustive
def test_a_limit_of_curl_is_reached_again() -> None:
    command = shell('curl -sS --max-time 0.3 "$WORLD_BASE_URL/slow/900"')
    live = recorded(*command)

    result = replayed(live.run, *command)

    assert live.exit_code == 28  # curl's code for a timeout
    assert (result.verdict, result.deviations) == (rk.Verdict.REPRODUCED, ())


TIMED = """
const began = Date.now()
%s
fail(Date.now() - began)
"""


def test_calls_one_after_the_other_are_served_at_once() -> None:
    command = node(TIMED % "for (const name of ['a', 'b', 'c']) await ask(`/${name}/500`)")
    live = recorded(*command)

    assert elapsed_ms(live.run, *command) < 1000 < int(live.run.output)


@pytest.mark.exhaustive
def test_a_speed_is_the_pace_of_every_call() -> None:
    command = node(TIMED % "await ask('/a/500'); await Promise.all([ask('/b/600'), ask('/c/300')])")
    live = recorded(*command)

    assert elapsed_ms(live.run, *command, launch_options=LaunchOptions(speed=1.0)) > 1050
    assert elapsed_ms(live.run, *command, launch_options=LaunchOptions(speed=50.0)) < 550


@pytest.mark.exhaustive
def test_a_call_that_is_left_out_keeps_nobody_waiting_for_long() -> None:
    live = recorded(*node("fail((await Promise.all([ask('/a/100'), ask('/b/300')])).join())"))

    assert elapsed_ms(live.run, *node(TIMED % "await ask('/b/300')")) < 2000


def test_a_program_that_waits_longer_than_it_did_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.programs.proxy_responses._HOLD_S", 0.2)
    limited = "ask('/slow/2000', { signal: AbortSignal.timeout(700) })"
    live = recorded(*node(f"await {limited}.catch(error => fail(error.name))"))

    result = replayed(live.run, *node("console.log(await ask('/slow/2000').catch(() => 'nothing came'))"))

    assert [deviation.kind for deviation in result.deviations] == ["undecided"]
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "was abandoned when it was recorded" in result.reason


def pieces(asked: Asked) -> Iterator[bytes]:
    """Answer with a piece every 200 ms."""
    yield STREAM
    for number in range(20):
        time.sleep(0.2)
        yield chunk(b"%d " % number)
    yield END


def test_a_stream_that_was_left_is_left_again_at_the_same_piece(upstream: Upstream) -> None:
    upstream.script = pieces
    command = node(
        """
        const answer = await fetch(base + '/stream', { signal: AbortSignal.timeout(700) })
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
        let seen = ''
        try { for (;;) seen += (await reader.read()).value } catch (error) { fail(seen + error.name) }
        """
    )
    live = recorded(*command)

    result = replayed(live.run, *command)

    assert result.run is not None
    assert result.run.output == live.run.output
    assert (result.verdict, result.deviations) == (rk.Verdict.REPRODUCED, ())


@pytest.mark.exhaustive
def test_calls_of_a_python_process_pass_on_its_virtual_clock() -> None:
    code = """
    import os, sys
    from concurrent.futures import ThreadPoolExecutor, as_completed
    import httpx
    def ask(path):
        return httpx.get(os.environ["WORLD_BASE_URL"] + path, timeout=20).text
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(ask, path) for path in ("/a/900", "/b/100", "/c/500")]
        print(*[future.result() for future in as_completed(futures)])
    sys.exit(4)
    """
    Path("agent.py").write_text(textwrap.dedent(code), encoding="utf-8")
    live = recorded(sys.executable, "agent.py")

    result = replayed(live.run, sys.executable, "agent.py")

    assert result.run is not None
    assert result.run.output == live.run.output == "b c a"
    assert result.verdict is rk.Verdict.REPRODUCED
    assert not [call.path for call in result.run.calls if call.path.startswith("/!proxy")]
