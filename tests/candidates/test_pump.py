"""What programs print gets into their logs redacted, and all of it does."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.candidates.output_log import Pump, WorkerLogs, worker_logs
from replaykit.candidates.process import Ended, Processes
from replaykit.redaction.redactor import Redactor

TOKEN = "xoxb-" + "2718281828-" + "aQ3bR7cT1dV9eX5fZ0gH2jK4"
KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *["Qm9" + "x7Kz" * 15] * 200, "-----END RSA PRIVATE KEY-----"])


def ran(code: str, *, timeout_s: float = 60) -> tuple[Ended, str, str]:
    here = Path.cwd()
    ended = Processes().run([sys.executable, "-c", code], env=dict(os.environ), workspace=here, timeout_s=timeout_s)
    return ended, (here / "stdout.log").read_text(), (here / "stderr.log").read_text()


def pumped(pieces: list[bytes], redactor: Redactor | None = None) -> bytes:
    """What is in the log of somebody who printed these pieces, each in one go."""
    Path("log").touch()  # nobody makes it who has nothing to say
    source, sink = os.pipe()
    pump = Pump(source, Path("log"), redactor or Redactor(b"a key for tests, thirty-two long"))
    pump.start()
    for piece in pieces:
        os.write(sink, piece)
    os.close(sink)
    pump.join(60)
    data = Path("log").read_bytes()
    Path("log").unlink()
    return data


def test_both_logs_are_redacted_and_else_as_they_were_printed() -> None:
    ended, out, err = ran(f"import sys; print('token', {TOKEN!r}, 'ok'); print('bad', {TOKEN!r}, file=sys.stderr)")

    assert ended.exit_code == 0
    assert TOKEN not in out + err
    assert out.startswith("token xoxb-<slack-token:")
    assert out.endswith("> ok\n")
    assert err.startswith("bad xoxb-<slack-token:")


def test_with_redaction_turned_off_the_log_is_what_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_REDACT", "off")

    assert ran(f"print({TOKEN!r})")[1] == f"{TOKEN}\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_value_that_arrives_in_pieces_is_found(size: int) -> None:
    text = f"before {TOKEN} after\n".encode()

    log = pumped([text[at : at + size] for at in range(0, len(text), size)])

    assert TOKEN.encode() not in log
    assert log.startswith(b"before xoxb-<slack-token:")
    assert log.endswith(b"> after\n")


@pytest.mark.parametrize("before", [0, 40, 65_000, 69_000, 115_000, 120_000, 125_000, 126_900, 130_000])
def test_a_value_is_found_wherever_the_blocks_end(before: int) -> None:
    text = (b"x" * 78 + b"\n") * (before // 79) + b"y" * (before % 79) + f" {TOKEN}\n{KEY}\n".encode() + b"z\n" * 40_000

    log = pumped([text])

    assert TOKEN.encode() not in log
    assert not any(line.encode() in log for line in KEY.splitlines()[1:-1])
    assert log.count(b"\nz") == 40_000


def test_a_private_key_that_is_printed_line_by_line_with_pauses_is_found() -> None:
    code = f"import time\nfor line in {KEY.splitlines()[:6] + KEY.splitlines()[-1:]!r}:\n    print(line, flush=True); "

    _, out, _ = ran(code + "time.sleep(0.3)")

    assert "Qm9" not in out


def test_what_is_no_text_is_kept_byte_by_byte() -> None:
    data = bytes(range(256)) * 1000

    assert pumped([data]) == data


@given(
    st.lists(st.text(st.characters(codec="utf-8", categories=("L", "Z")), max_size=200), max_size=20),
    st.integers(1, 50),
)
def test_text_with_nothing_to_hide_comes_out_as_it_went_in(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode()

    assert pumped([data[at : at + size] for at in range(0, len(data), size)]) == data


def test_nothing_is_lost_when_the_program_is_killed_at_its_time_limit() -> None:
    code = "import time\nfor n in range(20000): print('line', n)\nprint('no end of line', end='', flush=True)\n"

    ended, out, _ = ran(f"{code}time.sleep(60)", timeout_s=3)

    assert ended.timed_out
    assert out.count("\n") == 20000
    assert out.endswith("line 19999\nno end of line")


def test_a_grandchild_that_keeps_the_pipe_open_holds_nobody_up() -> None:
    late = "subprocess.Popen(['sleep', '60'], start_new_session=True)"

    ended, out, _ = ran(f"import subprocess; open('late.pid', 'w').write(str({late}.pid)); print('done')")
    os.kill(int(Path("late.pid").read_text()), signal.SIGKILL)  # a pump waits for its end of the pipe

    assert ended.exit_code == 0
    assert ended.duration_s < 15
    assert out == "done\n"


def test_a_redactor_that_fails_costs_the_text_and_neither_the_program_nor_a_secret() -> None:
    class Broken(Redactor):
        def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
            raise RuntimeError(TOKEN)

    log = pumped([f"{TOKEN}\n".encode()], Broken(b"a key for tests, thirty-two long"))

    assert log == f"[{len(TOKEN) + 1} bytes left out: they could not be redacted (RuntimeError)]\n".encode()


def test_a_line_that_never_ends_takes_no_more_memory_than_any_other() -> None:
    class Idle(Redactor):
        def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
            sizes.append(len(raw))
            return raw

        def edits(self, text: str, **_: object) -> list[object]:  # type: ignore[override]
            return []

    sizes: list[int] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source, sink = os.pipe()
    pump = Pump(source, Path("log"), Idle(b"a key for tests, thirty-two long"))
    pump.start()
    for _ in range(640):
        os.write(sink, b"x" * 65536)
    os.close(sink)
    pump.join(60)

    assert Path("log").stat().st_size == 640 * 65536
    assert max(sizes) < 1 << 18
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


@pytest.fixture
def worker() -> Iterator[WorkerLogs]:
    logs = worker_logs()
    assert logs is not None
    yield logs
    logs.close()
    for thread in [thread for thread in threading.enumerate() if thread.name == "replaykit-log"]:
        thread.join(60)


def test_logs_of_a_worker_are_whole_when_its_task_is_over(worker: WorkerLogs) -> None:
    out, err = worker.sinks
    with worker.into(Path.cwd()):
        done = subprocess.run([sys.executable, "-c", f"print({TOKEN!r})"], timeout=60, stdout=out)
        os.write(err, b"no end of line")

    assert done.returncode == 0
    assert Path("stdout.log").read_text().startswith("xoxb-<slack-token:")
    assert Path("stderr.log").read_text() == "no end of line"


def test_each_task_of_a_worker_has_its_own_logs(worker: WorkerLogs) -> None:
    for number in range(3):
        Path(str(number)).mkdir()
        with worker.into(Path(str(number))):
            os.write(worker.sinks[0], f"task {number}\n".encode())

    assert [Path(str(number), "stdout.log").read_text() for number in range(3)] == ["task 0\n", "task 1\n", "task 2\n"]


def test_a_worker_may_print_after_its_task_and_is_not_hurt(worker: WorkerLogs) -> None:
    with worker.into(Path.cwd()):
        late = os.dup(worker.sinks[0])
    os.write(late, b"late\n")
    os.close(late)
    worker.close()
    for thread in [thread for thread in threading.enumerate() if thread.name == "replaykit-log"]:
        thread.join(60)

    assert Path("stdout.log").read_bytes() == b"late\n"


def test_pumps_of_a_program_that_cannot_be_started_end() -> None:
    ended = Processes().run(["no such program"], env={}, workspace=Path.cwd(), timeout_s=5)
    for thread in [thread for thread in threading.enumerate() if thread.name == "replaykit-log"]:
        thread.join(60)

    assert "cannot be started" in ended.failed_to_start
    assert not any(thread.name == "replaykit-log" for thread in threading.enumerate())
