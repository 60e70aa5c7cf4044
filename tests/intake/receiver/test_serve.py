"""`replaykit serve` as a program: what it says, how it ends, and that kill -9 loses nothing it had acknowledged."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import TRACE, agent, document, story, tool
from tests.intake.receiver.program import Serve, serve
from tests.matrix import sampled

import replaykit as rk
from replaykit.cli import cli
from replaykit.intake.receiver.spool import Spool
from replaykit.model.run import encode_run
from replaykit.terminal import ERASE_LINE

KILLS = int(os.environ.get("CRASH_TRIALS", "3"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_it_does_and_ends_in_good_order(number: int) -> None:
    with serve() as program:
        assert program.first["event"] == "listening"
        assert program.first["store"].endswith("store.db")
        assert program.post(as_protobuf(document(*story()))) == 200
        assert program.post(as_protobuf(document(agent(1, traceId="e" * 32, endTimeUnixNano="0")))) == 200
        assert [program.post(b"\xff") for _ in range(3)] == [400] * 3

        lines = program.end(number)

    assert program.process.returncode == 0
    (refused,) = [line for line in lines if line["event"] == "refused"]
    assert "not OTLP" in refused["problem"]
    (made,) = [line for line in lines if line["event"] == "run"]
    assert {name: made[name] for name in ("event", "run", "name", "status", "result", "tool_calls")} == {
        "event": "run",
        "run": TRACE,
        "name": "support",
        "status": "success",
        "result": "imported",
        "tool_calls": 3,
    }
    ended = lines[-1]
    assert (ended["event"], ended["spans"], ended["runs"], ended["waiting"]) == ("ended", 8, 1, 1)
    with rk.Store.open(program.first["store"]) as store:
        assert len(store.load(TRACE).tool_calls) == 3


HALF = {
    "a head": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-",
    "a body": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
    "chunks": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    "what is refused": b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
}


@sampled("part", HALF, count=2)
def test_half_a_request_does_not_keep_it_from_ending(part: str) -> None:
    sent = HALF[part]
    with serve() as program, socket.create_connection(program.address.split(":"), timeout=30) as half:
        half.sendall(sent)
        assert program.post(as_protobuf(document(*story()))) == 200  # by then it has been read
        began = time.monotonic()
        lines = program.end()
        took = time.monotonic() - began

    assert (program.process.returncode, lines[-1]["event"], lines[-1]["runs"]) == (0, "ended", 1)
    assert took < 5, "it waits ten seconds for what is being written, and one for what is being sent"
    assert program.errors == ""


def test_only_failed_runs_are_kept_where_that_is_asked_for() -> None:
    with serve("--status", "error", "--store", "here.db") as program:
        program.post(as_protobuf(document(*story(), agent(1, traceId="e" * 32, error="boom"))))
        lines = program.end()

    assert [line["run"] for line in lines if line["event"] == "run"] == ["e" * 32]
    assert Path("here-otlp.db").exists()


def test_no_secret_reaches_the_spool_or_the_store() -> None:
    mail = "jane.doe@example.com"
    with serve() as program:
        open_ended = agent(1, traceId="e" * 32, error=f"no mail to {mail}", endTimeUnixNano="0")  # stays in the spool
        program.post(as_protobuf(document(open_ended)))
        program.process.kill()
        program.process.wait()
    spool = Spool(Path(".replaykit/store-otlp.db"))
    spooled = repr(spool.spans("e" * 32))
    spool.close()
    assert "redacted.invalid" in spooled
    assert mail not in spooled
    with serve("--idle", "0.1") as again:
        assert again.line()["event"] == "run"
        again.end()

    with rk.Store.open(program.first["store"]) as store:
        run = store.load("e" * 32)
    assert "redacted.invalid" in encode_run(run).decode()
    assert mail not in encode_run(run).decode()


def test_beyond_loopback_it_warns() -> None:
    with serve("--host", "0.0.0.0") as program:
        program.process.terminate()
        _out, err = program.process.communicate(timeout=60)

    assert "anyone who can reach 0.0.0.0" in err


def test_a_store_that_is_none_is_an_error() -> None:
    Path("file.db").write_text("no store at all, " * 100)

    done = subprocess.run(
        [sys.executable, "-m", "replaykit", "serve", "--store", "file.db"], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 3
    assert "error:" in done.stderr


def test_on_a_terminal_a_line_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from replaykit.cli import serve as verb
    from replaykit.intake.receiver.trace_processor import ReceiverTotals

    class Processor:
        totals = ReceiverTotals(spans=1234, traces=5, runs=4, failed_runs=1, rejected=2)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    reporter = verb._Reporter(as_json=False)
    reporter.processor = Processor()  # type: ignore[assignment]
    reporter.progress()
    reporter.refused("too large")
    reporter.refused("too large")

    shown = capsys.readouterr().err
    assert f"{ERASE_LINE}1,234 spans, 5 traces, 4 runs, 1 failed, 2 spans rejected" in shown
    assert shown.count("refused: too large") == 1


def test_help_names_every_option() -> None:
    shown = CliRunner().invoke(cli, ["serve", "--help"]).output

    assert all(option in shown for option in ("--port", "--host", "--status", "--idle", "--store", "--json"))
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in shown


def _trace(number: int) -> str:
    return f"{number + 1:032x}"


def _export(number: int) -> bytes:
    spans = [
        agent(1, traceId=_trace(number)),
        tool(2, 1, "t", {"n": number}, result={"n": number}, traceId=_trace(number)),
    ]
    return as_protobuf(document(*spans))


def _sent_until_killed(program: Serve, first: int, seed: int) -> int:
    """Send one trace after another until the program is killed; gives how many were acknowledged."""
    acknowledged = 0
    wait_s = random.Random(seed).random() * 0.4
    killer = threading.Timer(wait_s, program.process.kill)
    killer.start()
    try:
        while program.post(_export(first + acknowledged)) == 200:
            acknowledged += 1
    except (OSError, http.client.HTTPException):
        pass
    killer.join()
    program.process.wait(timeout=30)
    return acknowledged


@pytest.mark.exhaustive
def test_kill_9_loses_nothing_that_was_acknowledged() -> None:
    total = 0
    for trial in range(KILLS):
        with serve() as program:
            total += _sent_until_killed(program, total, seed=trial)
    assert total > 0
    spool = Spool(Path(".replaykit/store-otlp.db"))
    for number in range(total):
        kept = {span.id for span in spool.spans(_trace(number))[0]}  # one that was kept and not yet answered came twice
        assert len(kept) == 2, f"trace {number} was acknowledged and is lost"
    spool.close()

    with serve() as program:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with rk.Store.open(program.first["store"], read_only=True) as store:
                if len(store.headers()) >= total:
                    break
            program.line()  # a run was made
        program.end()

    with rk.Store.open(program.first["store"]) as store:
        assert list(store.verify()) == []
        for number in range(total):
            assert store.load(_trace(number)).tool_calls[0].result == {"n": number}
