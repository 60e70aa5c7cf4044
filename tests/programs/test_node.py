"""Node programs in a replay: nothing that they try reaches another machine, whatever version of Node it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.matrix import sampled
from tests.programs.test_programs import replayed

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.cases.scaffold import scaffold
from replaykit.model.run import RunStatus, TraceRun

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")

WAYS = {
    "fetch": "fetch('https://bank.example/pay').catch(end)",
    "https": "require('https').get('https://bank.example/pay').on('error', end)",
    "http": "require('http').get('http://bank.example:443/pay', end).on('error', end)",
    "tls": "require('tls').connect(443, 'bank.example').on('error', end)",
    "net": "require('net').connect({port: 443, host: 'bank.example'}).on('error', end)",
    "child": "require('child_process').execFile('node', ['-e', 'fetch(`https://bank.example/pay`)'], end)",
    "worker": "new (require('worker_threads').Worker)('fetch(`https://bank.example`)', {eval: true}).on('error', end)",
}
NOWHERE = "255.255.255.255"
"""An address to which the machine itself refuses to connect."""
END = "const end = error => { console.log(error.message); process.exit(0) }\n"


def run_of(code: str) -> rk.ReplayResult:
    Path("agent.cjs").write_text(END + code, encoding="utf-8")
    return replayed(TraceRun(id="r1", name="agent", status=RunStatus.SUCCESS), "node", "agent.cjs")


@sampled("way", WAYS, count=3)
def test_a_connection_to_another_machine_is_stopped_and_told(way: str) -> None:
    result = run_of(WAYS[way])

    (told,) = [deviation.text for deviation in result.deviations]
    assert "bank.example" in told
    assert result.verdict is rk.Verdict.DIVERGED
    if way in ("tls", "net"):  # of which no version of Node asks a proxy
        assert told.startswith("a live connection to bank.example:443 was stopped: `node` (process ")
        assert result.run is not None
        assert result.run.output == "replaykit: a live connection to bank.example:443 was stopped: this is a replay"


@pytest.mark.parametrize("allowed", [f"{NOWHERE}:443", f"{NOWHERE.upper()}:443", "other.example:443"])
def test_an_address_that_was_allowed_is_reached(allowed: str) -> None:
    Path("agent.cjs").write_text(END + f"require('net').connect(443, '{NOWHERE}').on('error', end)")
    case = scaffold(TraceRun(id="r1", name="agent", status=RunStatus.SUCCESS), "cases/r1")
    program = CommandCandidate(["node", "agent.cjs"])

    result = rk.replay(case, program, evidence="evidence", allow_connect=[allowed])

    assert result.run is not None
    assert ("was stopped" in result.run.output) == (allowed == "other.example:443")
    assert len(result.deviations) == (allowed == "other.example:443")


def test_what_a_program_does_on_its_own_machine_goes_on() -> None:
    result = run_of(
        """
        const http = require('http'), net = require('net')
        const server = http.createServer((_, answer) => answer.end('own')).listen(0, '127.0.0.1', async () => {
            const { port } = server.address()
            const texts = [await (await fetch(`http://localhost:${port}`)).text()]
            const pipe = net.createServer(other => other.end('pipe')).listen('own.sock', () => {
                net.connect('own.sock').on('data', data => end({ message: [...texts, data].join(' ') }))
            })
        })
        """
    )

    assert result.run is not None
    assert (result.run.output, result.deviations) == ("own pipe", ())
