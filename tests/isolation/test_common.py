"""Sandboxes of one caller that are one world: they share a network and what they write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.isolation.outside import attempts_at, python, run
from tests.isolation.techniques import TECHNIQUES
from tests.matrix import sampled

from replaykit.isolation import Common, Level, Policy, Sandbox, support
from replaykit.isolation.common import can_map_all

pytestmark = pytest.mark.skipif(support().level is not Level.FULL, reason="; ".join(support().reasons()))


@pytest.fixture
def common() -> Iterator[Common]:
    made = Common()
    yield made
    made.close()


def test_one_sandbox_finds_what_another_wrote_and_the_real_files_stay(tmp_path: Path, common: Common) -> None:
    (tmp_path / "there").write_text("before")
    policy = Policy(project=tmp_path)
    with Sandbox(policy, common=common) as first:
        assert run(first, "sh", "-c", "echo new > made; rm there; pwd", cwd=tmp_path) == (0, f"{tmp_path}\n")
    (tmp_path / "later").write_text("from outside")
    with Sandbox(policy, common=common) as second:
        assert run(second, "sh", "-c", "cat made later; ls", cwd=tmp_path) == (0, "new\nfrom outside" + "later\nmade\n")
        written = {(Path(one.path).name, one.how) for one in second.report().written}

    assert written == {("made", "created"), ("there", "removed")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["later", "there"]


def test_one_sandbox_reaches_the_server_of_another(tmp_path: Path, common: Common) -> None:
    policy = Policy(project=tmp_path)
    code = "import socket\nwith socket.create_server(('127.0.0.1', 4711)) as s: print(1, flush=True); s.accept()"
    with Sandbox(policy, common=common) as server, Sandbox(policy, common=common) as client:
        process = server.start(["python3", "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)

        result = python(client, "import socket; socket.create_connection(('127.0.0.1', 4711)); print('reached')")

        assert result == (0, "reached\n")
        assert client.report().stopped == ()
        process.communicate(timeout=10)


def test_the_caller_is_reached_at_its_listener_and_nowhere_else(tmp_path: Path, common: Common) -> None:
    port = common.listener.getsockname()[1]
    code = f"""
import socket
socket.create_connection(("127.0.0.1", {port})).close()
socket.create_connection(("192.0.2.1", 80))
"""
    with Sandbox(Policy(project=tmp_path), common=common) as sandbox:
        assert python(sandbox, code)[0] == 1
        stopped = [one.target for one in sandbox.report().stopped]

    assert stopped == ["192.0.2.1:80"]
    common.listener.settimeout(5)
    common.listener.accept()[0].close()


def test_processes_have_the_numbers_of_the_outside_and_signal_nobody_there(tmp_path: Path, common: Common) -> None:
    code = f"""
import os
print(os.getpid() == int(os.readlink("/proc/self")), flush=True)
os.kill({os.getpid()}, 0)
"""
    with Sandbox(Policy(project=tmp_path), common=common) as sandbox:
        status, printed = python(sandbox, code)

    assert status == 1
    assert printed.startswith("True\n")
    assert "PermissionError" in printed


@sampled("command", ["ls /proc/{}/root/", "ls /proc/{}/cwd/", "echo 500 > /proc/{}/oom_score_adj"], count=1)
def test_the_processes_of_the_outside_are_no_way_out(tmp_path: Path, common: Common, command: str) -> None:
    with Sandbox(Policy(project=tmp_path), common=common) as sandbox:
        assert run(sandbox, "sh", "-c", command.format(os.getpid()))[0] != 0


def test_a_signal_to_the_started_process_comes_to_the_command(tmp_path: Path, common: Common) -> None:
    with Sandbox(Policy(project=tmp_path), common=common) as sandbox:
        process = sandbox.start(["sh", "-c", "echo 1; exec sleep 60"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)
        process.terminate()

        assert process.wait(10) == -signal.SIGTERM
        process.stdout.close()


def test_no_technique_gets_out_and_each_is_named(tmp_path: Path, common: Common) -> None:
    attempts = attempts_at(tmp_path, Level.FULL, common)
    tried = [name for name in TECHNIQUES if not attempts.answers[name].startswith("left out")]

    assert [name for name in tried if attempts.got_through(name)] == []
    assert attempts.connections == []
    assert [name for name in tried if TECHNIQUES[name].named and not attempts.is_named(name)] == []


AT_ONCE = """
import sys, threading
from replaykit.isolation import common

sys.setswitchinterval(1e-6)
for _ in range(30):
    common.forget_namespaces()
    barrier = threading.Barrier(4)

    def make():
        barrier.wait()
        common.with_all_users()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_make_the_users_of_their_sandboxes_at_once_do_not_wait_for_each_other() -> None:
    if not can_map_all():
        pytest.skip("only root has them")
    source = Path(__file__).parents[2] / "src"

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_ONCE],
        env={**os.environ, "PYTHONPATH": str(source)},
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
