"""`--on dask://…`: a real scheduler and real workers on loopback, which die, differ, and are not there."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.cluster.suites import FAULT, KEY, evidence_files, result_of, suite, verdicts

from replaykit.cli import run
from replaykit.redaction.keys import VARIABLE

pytest.importorskip("distributed", reason="dask.distributed is not installed: it comes with the extra `dask`")

Capture = pytest.CaptureFixture[str]
HOST = "127.0.0.1"
_STARTED = re.compile(r"tcp://[\d.]+:(\d+)")


@contextmanager
def started(*arguments: str, environment: Mapping[str, str], directory: Path) -> Iterator[IO[str]]:
    """Run a part of Dask; gives what it logs, and ends it with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:], "--host", HOST, "--no-dashboard"],
        env={**os.environ, **environment},
        cwd=directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield process.stderr
    finally:
        process.terminate()
        process.communicate(timeout=60)


def line_with(log: IO[str], text: str) -> str:
    for line in log:
        if text in line:
            return line
    raise AssertionError(f"it ended before it logged {text!r}")


@contextmanager
def cluster(directory: Path, **environment: str) -> Iterator[str]:
    """A scheduler, and a nanny for each of two workers with one thread; gives the address for `--on`."""
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1", **environment}
    with ExitStack() as stack:
        log = stack.enter_context(started("dask_scheduler", "--port", "0", environment=settings, directory=directory))
        found = _STARTED.search(line_with(log, "Scheduler at:"))
        assert found is not None
        address = f"{HOST}:{found[1]}"
        options = ("--nworkers", "2", "--nthreads", "1", "--local-directory", str(directory))
        workers = stack.enter_context(
            started("dask_worker", f"tcp://{address}", *options, environment=settings, directory=directory)
        )
        for _ in range(2):
            line_with(workers, "Registered to:")
        yield f"dask://{address}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("dask"), REPLAYKIT_ISOLATION="process") as found:
        yield found


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that no agent on a worker may see."""
    monkeypatch.setenv("DRIVER_SECRET", "None")


def test_verdicts_evidence_and_exit_codes_are_those_of_a_serial_run(capsys: Capture, address: str) -> None:
    suite("lost", "fine", "crash", count=9, inputs=["1 fine"], chaos=FAULT, mutations={"count": 2})
    serial = result_of(capsys, "ci")
    files = evidence_files()
    shutil.rmtree(".replaykit")

    assert result_of(capsys, "ci", "--on", address) == serial
    assert evidence_files() == files
    assert result_of(capsys, "replay", "replays", "--on", address) == result_of(capsys, "replay", "replays")


def test_the_environment_stays_here(capsys: Capture, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVER_SECRET", "hunter2")
    suite(count=1)

    _, document = result_of(capsys, "ci", "--on", address)

    assert document["items"][0]["output"] == "It was shipped; the secret is None."


def test_a_worker_that_dies_midway_loses_and_doubles_nothing(capsys: Capture, address: str) -> None:
    log = suite("fine", "fine", "once", count=16)

    code, document = result_of(capsys, "ci", "--on", address)

    assert [item["id"] for item in document["items"]] == [f"s{number:03}" for number in range(16)]
    assert Counter(verdicts(document).values()) == {"fixed": 16}
    assert code == 0
    runs = Counter(log.read_text().splitlines())
    assert runs["2 once"] == 2
    assert runs.total() > 17, "its neighbours in the chunk ran again, and counted once"


@pytest.mark.exhaustive
def test_a_case_that_kills_its_worker_each_time_is_inconclusive_alone(capsys: Capture, address: str) -> None:
    suite("fine", "worker", count=8)

    code, document = result_of(capsys, "ci", "--on", address)

    found = verdicts(document)
    assert found.pop("s001") == "inconclusive"
    assert found == {f"s{number:03}": "fixed" for number in range(8) if number != 1}
    assert "2 workers died while they ran it" in next(i["reason"] for i in document["items"] if i["id"] == "s001")
    assert code == 3


@pytest.mark.exhaustive
def test_a_case_that_kills_its_process_each_time_is_inconclusive_alone(capsys: Capture, address: str) -> None:
    suite("fine", "process", count=6)

    _, document = result_of(capsys, "ci", "--on", address)

    found = verdicts(document)
    assert found.pop("s001") == "inconclusive"
    assert set(found.values()) == {"fixed"}


@pytest.mark.exhaustive
def test_workers_keep_nothing_of_a_suite_that_has_ended(capsys: Capture, tmp_path: Path) -> None:
    suite(count=2)
    with cluster(tmp_path, REPLAYKIT_ISOLATION="process") as own_address:
        result_of(capsys, "ci", "--on", own_address)

        assert list(tmp_path.glob("dask-scratch-space/worker-*/replaykit-*")) == []


@pytest.mark.exhaustive
def test_a_worker_with_another_version_is_named(capsys: Capture, tmp_path: Path) -> None:
    suite(count=1)
    other = tmp_path / "other" / "agent_replaykit-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: agent-replaykit\nVersion: 9.9.9\n")

    with cluster(tmp_path, PYTHONPATH=str(other.parent)) as own_address:
        code = run(["ci", "--on", own_address])

    error = capsys.readouterr().err
    assert code == 2
    assert re.search(r"the worker tcp://\S+ has ReplayKit 9\.9\.9, and this machine has", error)


def test_a_scheduler_that_is_not_there_is_an_error_in_time(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.cluster.dask.CONNECT_S", 1.0)
    suite(count=1)
    with socket.create_server((HOST, 0)) as listening:  # it accepts, and answers nothing
        silent = f"dask://{HOST}:{listening.getsockname()[1]}"

        code = run(["ci", "--on", silent])

    assert code == 3
    assert f"no scheduler answers at {silent}" in capsys.readouterr().err


def test_workers_with_another_redaction_key_give_no_other_verdict(
    capsys: Capture, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY.hex())
    suite("redacted", count=2)

    code = run(["ci", "--on", address])

    assert code == 2
    assert f"Set {VARIABLE} on all workers" in capsys.readouterr().err


def test_a_cluster_says_itself_how_much_it_takes(capsys: Capture, address: str) -> None:
    suite(count=1)

    assert run(["ci", "--on", address, "-j", "4"]) == 2
    assert "--jobs is for one machine" in capsys.readouterr().err
