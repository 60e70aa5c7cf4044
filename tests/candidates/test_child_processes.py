"""Child processes of an agent that is replayed in this very process: they are shut in, and the result says so."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.handlers.replay.tape import Tape
from replaykit.model.isolation import CHANNELS, IsolationLevel
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.run import TraceRun
from replaykit.programs.isolation_level import ISOLATION
from replaykit.report.replays import isolation_text
from replaykit.store.sqlite import SQLiteStore

isolation = pytest.importorskip("replaykit.isolation", reason="only Linux offers sandboxes")
pytestmark = pytest.mark.skipif(isolation.support().level != "full", reason="; ".join(isolation.support().reasons()))


@rk.tool
def ask(question: str) -> dict[str, str]:
    return {"answer": question}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


@pytest.fixture(autouse=True)
def _highest_level(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.chdir(project)
    monkeypatch.delenv(ISOLATION, raising=False)


@pytest.fixture(scope="module")
def recorded(project: Path) -> TraceRun:
    with rk.record("agent", input="hello") as run:
        ask("hello")
    with SQLiteStore.open(project / ".replaykit" / "store.db") as store:
        return store.load(run.id)


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def was_reached(server: socket.socket) -> bool:
    server.setblocking(False)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def replayed(recorded: TraceRun, act: Callable[[], Any]) -> tuple[ReplayResult, Any]:
    """Replay an agent that asks its tool, then does something; return the result, and what that gave."""
    done = []

    def agent(question: str) -> str:
        ask(question)
        done.append(act())
        return "done"

    result = rk.replay(recorded, agent)
    assert done, result.reason or result.deviations
    return result, done[0]


def texts(result: ReplayResult, kind: str) -> list[str]:
    return [deviation.text for deviation in result.deviations if deviation.kind == kind]


def test_the_result_has_the_levels_of_the_process_and_of_its_children(recorded: TraceRun) -> None:
    result, code = replayed(recorded, lambda: subprocess.call("true"))

    assert code == 0
    assert result.isolation.level is IsolationLevel.PROCESS
    assert result.isolation.channels == dict.fromkeys(CHANNELS, IsolationLevel.PROCESS)
    assert result.isolation.children == dict.fromkeys(CHANNELS, IsolationLevel.FULL)
    assert isolation_text(result.isolation) == "process, child processes full"
    assert result.verdict is Verdict.FIXED


def test_an_agent_without_children_claims_nothing_about_any(recorded: TraceRun) -> None:
    result, _ = replayed(recorded, lambda: None)

    assert result.isolation.children == {}


STARTS: dict[str, Callable[[str], object]] = {
    "subprocess": lambda command: subprocess.run(["bash", "-c", command], check=False, stderr=subprocess.DEVNULL),
    "system": lambda command: os.system(f"bash -c '{command}' 2> /dev/null"),
    "popen": lambda command: os.popen(f"bash -c '{command}' 2> /dev/null").close(),
    "posix_spawn": lambda command: os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", command], os.environ), 0),
    "spawnv": lambda command: os.spawnv(os.P_WAIT, "/bin/bash", ["bash", "-c", command]),
    "fork": lambda command: _fork(lambda: os.execv("/bin/bash", ["bash", "-c", command])),
    "multiprocessing": lambda command: _in_process(subprocess.call, ["bash", "-c", command]),
}


def _fork(act: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(1)
    os.waitpid(pid, 0)


def _in_process(function: Callable[..., object], *arguments: Any) -> None:
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()


@sampled("way", STARTS, count=3)
def test_whatever_starts_a_child_it_reaches_nobody_writes_nothing_and_is_named(
    recorded: TraceRun, server: socket.socket, project: Path, way: str
) -> None:
    port = server.getsockname()[1]

    result, _ = replayed(recorded, lambda: STARTS[way](f"echo text > made.txt; echo out > /dev/tcp/127.0.0.1/{port}"))

    assert not was_reached(server)
    assert any(f"127.0.0.1:{port} by `bash" in text for text in texts(result, "stopped"))
    assert not (project / "made.txt").exists()
    assert [(Path(one.path).name, one.change) for one in result.isolation.written] == [("made.txt", "created")]
    assert str(project / "made.txt") in texts(result, "unshared")[0]
    assert result.verdict is Verdict.INCONCLUSIVE


def test_a_forked_process_writes_nothing_either(recorded: TraceRun, project: Path) -> None:
    result, _ = replayed(recorded, lambda: _fork(lambda: Path("forked.txt").write_text("x")))

    assert not (project / "forked.txt").exists()
    assert [Path(one.path).name for one in result.isolation.written] == ["forked.txt"]


def test_one_child_finds_what_another_wrote_and_what_the_agent_wrote(recorded: TraceRun, project: Path) -> None:
    def act() -> str:
        subprocess.run(["sh", "-c", "echo child > of-child"], check=True)
        Path("of-agent").write_text("agent\n")
        return subprocess.run(["cat", "of-child", "of-agent"], check=True, capture_output=True, text=True).stdout

    _, printed = replayed(recorded, act)

    assert printed == "child\nagent\n"
    assert not (project / "of-child").exists()


def test_a_child_fills_what_the_agent_has_made(recorded: TraceRun) -> None:
    def act() -> list[str]:
        directory, (descriptor, file) = tempfile.mkdtemp(), tempfile.mkstemp()
        os.close(descriptor)
        subprocess.run(["sh", "-c", f"echo one > {directory}/out; echo two > {file}"], check=True)
        return [Path(directory, "out").read_text(), Path(file).read_text()]

    result, found = replayed(recorded, act)

    assert found == ["one\n", "two\n"]
    assert result.verdict is Verdict.FIXED


def test_a_directory_that_was_there_does_not_show_through(recorded: TraceRun, project: Path) -> None:
    (project / "there").mkdir()

    def act() -> None:
        os.makedirs("there", exist_ok=True)
        subprocess.run(["sh", "-c", "echo text > there/file"], check=True)

    replayed(recorded, act)

    assert list((project / "there").iterdir()) == []


def test_a_directory_that_may_be_written_is(recorded: TraceRun, project: Path) -> None:
    (project / "open").mkdir()

    def agent(question: str) -> str:
        ask(question)
        subprocess.run(["sh", "-c", "echo text > open/file"], check=True)
        return Path("open/file").read_text()

    result = rk.replay(recorded, agent, allow_write=[project / "open"])

    assert result.verdict is Verdict.FIXED
    assert (project / "open" / "file").read_text() == "text\n"


@sampled("method", ["fork", "spawn", "forkserver"], count=2, start=1)
@pytest.mark.exhaustive
def test_pools_work(recorded: TraceRun, method: str) -> None:
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # another test may have started it

    def act() -> list[int]:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            return list(pool.map(abs, [-1, -2]))

    result, found = replayed(recorded, act)

    assert found == [1, 2]
    assert result.isolation.children == dict.fromkeys(CHANNELS, IsolationLevel.FULL)
    assert result.verdict is Verdict.FIXED


def test_a_pool_that_is_older_than_the_replay_is_noted(recorded: TraceRun) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        pool.submit(abs, -1).result()

        result, found = replayed(recorded, lambda: pool.submit(abs, -2).result())

    assert found == 2
    assert result.isolation.notes == ("a process pool is older than the replay: its workers are not isolated",)


def test_a_fork_server_that_is_older_than_the_replay_is_noted(recorded: TraceRun) -> None:
    def act() -> list[int]:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
            return list(pool.map(abs, [-1]))

    forkserver.ensure_running()
    try:
        result, found = replayed(recorded, act)
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]

    assert found == [1]
    assert result.isolation.notes == (
        "the fork server of multiprocessing is older than the replay: its processes are not isolated",
    )


@pytest.mark.exhaustive
def test_many_children_hold_no_more_descriptors_than_few(recorded: TraceRun) -> None:
    def act() -> int:
        counts = []
        for number in range(6):
            subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/192.0.2.{number}/9"], check=False, capture_output=True)
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts[-1] - counts[2]

    result, growth = replayed(recorded, act)

    assert growth == 0
    assert len(texts(result, "stopped")) == 6


def test_what_a_child_leaves_behind_ends_with_the_replay(recorded: TraceRun) -> None:
    _, process = replayed(recorded, lambda: subprocess.Popen(["sleep", "300"]))

    assert process.wait(10) != 0


def test_a_child_that_cannot_be_shut_in_is_not_started_and_named(
    recorded: TraceRun, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(38, "no such thing")

    monkeypatch.setattr("replaykit.isolation.sandbox.mounts.build", fail)

    def act() -> str:
        with pytest.raises(rk.ReplayKitError, match="no such thing"):
            subprocess.run(["sh", "-c", "echo text > escaped"], check=False)
        return "stopped"

    result, _ = replayed(recorded, act)

    assert "no such thing" in texts(result, "outside")[0]
    assert not (project / "escaped").exists()
    assert result.verdict is Verdict.DIVERGED


def test_a_program_that_does_not_exist_is_the_agents_own_error(recorded: TraceRun) -> None:
    def act() -> list[str | None]:
        names = []
        for start in (lambda: subprocess.run(["/no/such"], check=False), lambda: os.posix_spawn("/no/such", ["x"], {})):
            with pytest.raises(FileNotFoundError) as caught:
                start()
            names.append(caught.value.filename)
        return names

    result, names = replayed(recorded, act)

    assert names == ["/no/such", "/no/such"]
    assert result.verdict is Verdict.FIXED


def test_children_inside_of_replaying_are_shut_in_as_well(recorded: TraceRun, server: socket.socket) -> None:
    port = server.getsockname()[1]
    with rk.replaying(Tape(recorded.calls)) as replayer:
        ask("hello")
        subprocess.run(["bash", "-c", f"echo out > /dev/tcp/127.0.0.1/{port}"], check=False, stderr=subprocess.DEVNULL)

    assert not was_reached(server)
    assert [deviation.kind for deviation in replayer.deviations] == ["stopped"]
    assert replayer.isolation.children == dict.fromkeys(CHANNELS, IsolationLevel.FULL)


def test_at_the_landlock_level_children_are_shut_in_too(
    recorded: TraceRun, server: socket.socket, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isolation.support().landlock:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setenv(ISOLATION, "landlock")
    port = server.getsockname()[1]
    command = f"echo text > denied; echo out > /dev/tcp/127.0.0.1/{port}"

    result, _ = replayed(recorded, lambda: subprocess.run(["bash", "-c", command], check=False, capture_output=True))

    assert not was_reached(server)
    assert not (project / "denied").exists()
    assert str(project / "denied") in texts(result, "unwritten")[0]
    assert result.isolation.children["tcp"] is IsolationLevel.LANDLOCK


def test_a_fork_does_not_wait_for_a_lock_that_somebody_holds_across_forks(recorded: TraceRun) -> None:
    lock = threading.Lock()
    is_held = [True]

    def hold() -> None:
        if is_held[0]:
            assert lock.acquire(timeout=20), "a fork inside of a fork"

    def release() -> None:
        if is_held[0]:
            lock.release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release)

    def fork_and_wait() -> int:
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    try:
        _result, code = replayed(recorded, fork_and_wait)
    finally:
        is_held[0] = False

    assert code == 7
