"""A replay that is killed: nothing raw is left below the project, and what it left elsewhere goes with the next one."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.matrix import matrix

from replaykit.candidates.output_log import in_files

MakeCase = Callable[..., Path]

SECRET = "jane.roe.4711@acme-savings.com"
WRITTEN_BY = """
import json, os, sys, time
secret = {backwards!r}[::-1]
said = {{"status": "success", "final_output": secret, "tool_calls": []}}
output = os.environ.get("REPLAYKIT_OUTPUT_PATH", "")
if output:
    draft = os.path.join(os.path.dirname(output), "draft.json")
    with open(draft, "w") as file:
        file.write(json.dumps(said))
    with open(output, "w") as file:
        file.write(json.dumps(said))
print("printed", secret, flush=True)
print("printed", secret, file=sys.stderr, flush=True)
with open("ready.partial", "w") as file:
    file.write(json.dumps([os.getpid(), output, os.environ.get("REPLAYKIT_SESSION", "")]))
os.replace("ready.partial", "ready.json")
time.sleep(600)
"""


class Waiting(NamedTuple):
    """A replay whose candidate has written what it has to say, and waits."""

    process: subprocess.Popen[bytes]
    pid: int
    """Of the candidate."""
    private: Path
    """The directory of its output and its session."""


def held_below(directory: Path, value: str) -> list[str]:
    """The files that hold a value."""
    found = []
    for file in sorted(directory.rglob("*")):
        if file.is_file() and value.encode() in file.read_bytes():
            found.append(str(file.relative_to(directory)))
    return found


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.02)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "replaykit", *arguments]


@pytest.fixture
def waiting(own_directory: Path, make_case: MakeCase) -> Iterator[Callable[..., Waiting]]:
    """Start a replay with a candidate that writes the secret everywhere it can, and wait until it has."""
    make_case()
    (own_directory / "runner.py").write_text(WRITTEN_BY.format(backwards=SECRET[::-1]))
    pids: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **environment: str) -> Waiting:
        process = subprocess.Popen(
            command("replay", "cases/billing", *arguments), env={**os.environ, **environment}, start_new_session=True
        )
        processes.append(process)
        until((own_directory / "ready.json").exists)
        pid, output, session = json.loads((own_directory / "ready.json").read_text())
        pids.append(pid)
        until(lambda: any("stdout.log" in str(file) and file.stat().st_size for file in own_directory.rglob("*.log")))
        return Waiting(process, pid, Path(output or session).parent)

    yield start
    for process in processes:
        process.kill()
        process.wait()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


RUNNER = shlex.join([sys.executable, "runner.py"])


@matrix(
    number=[signal.SIGKILL, signal.SIGTERM],
    candidate=[("--runner-cmd", RUNNER), ("--", sys.executable, "runner.py")],
)
def test_a_killed_replay_leaves_nothing_raw_below_the_project(
    own_directory: Path, waiting: Callable[..., Waiting], candidate: tuple[str, ...], number: signal.Signals
) -> None:
    # An address with a password is what the plan of the session has to hold.
    replay = waiting(*candidate, OPENAI_BASE_URL=f"http://user:{SECRET.replace('@', '.')}@127.0.0.1:9/v1")

    replay.process.send_signal(number)
    replay.process.wait(timeout=60)

    evidence = own_directory / ".replaykit" / "runs"
    assert list(evidence.rglob("stdout.log")), "the replay was under way"
    assert held_below(own_directory, SECRET) == []
    assert held_below(own_directory, SECRET.replace("@", ".")) == []
    assert own_directory not in replay.private.parents

    (own_directory / "fine.py").write_text(
        "import json, os\n"
        "said = json.dumps({'status': 'success', 'final_output': 'fine'})\n"
        "open(os.environ['REPLAYKIT_OUTPUT_PATH'], 'w').write(said)\n"
    )
    fine = command("replay", "cases/billing", "--runner-cmd", shlex.join([sys.executable, "fine.py"]))
    subprocess.run(fine, check=True, timeout=60)
    assert not replay.private.exists(), "the next replay removes what the killed one has left"


def test_another_replay_that_is_under_way_keeps_its_directory(
    own_directory: Path, waiting: Callable[..., Waiting]
) -> None:
    replay = waiting("--runner-cmd", RUNNER)

    subprocess.run(command("replay", "cases/billing", "--runner-cmd", "true"), check=False, timeout=60)

    assert (replay.private / "runner-output.json").is_file()


def test_a_runner_that_was_cut_off_leaves_its_output_redacted(
    own_directory: Path, waiting: Callable[..., Waiting]
) -> None:
    replay = waiting("--runner-cmd", RUNNER, "--timeout", "3")

    replay.process.wait(timeout=60)

    (output,) = own_directory.rglob("runner-output.json")
    assert json.loads(output.read_text())["final_output"].endswith("redacted.invalid")
    assert held_below(own_directory, SECRET) == []
    assert not replay.private.exists()
    assert "draft.json" not in {file.name for file in own_directory.rglob("*")}


def test_what_a_python_agent_writes_as_a_runner_does_is_redacted_too(own_directory: Path, make_case: MakeCase) -> None:
    make_case()
    (own_directory / "leaving.py").write_text(
        "import json, os\n"
        "def answer(question):\n"
        f"    said = json.dumps({{'status': 'success', 'final_output': {SECRET[::-1]!r}[::-1]}})\n"
        "    open(os.environ['REPLAYKIT_OUTPUT_PATH'], 'w').write(said)\n"
        "    os._exit(0)\n"
    )

    subprocess.run(command("replay", "cases/billing", "--agent", "leaving:answer"), check=False, timeout=60)

    (output,) = own_directory.rglob("runner-output.json")
    assert json.loads(output.read_text())["final_output"].endswith("redacted.invalid")
    assert held_below(own_directory, SECRET) == []


def test_logs_of_a_worker_without_named_pipes_are_redacted_before_they_are_evidence(own_directory: Path) -> None:
    with in_files(own_directory) as (out, err):
        Path(out).write_text(f"printed {SECRET}\n")
        Path(err).write_text("fine\n")

        assert list(own_directory.iterdir()) == []

    assert "redacted.invalid" in (own_directory / "stdout.log").read_text()
    assert (own_directory / "stderr.log").read_text() == "fine\n"
