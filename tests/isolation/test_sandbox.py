"""Sandboxes: how they begin and end, what may be reached, and what the report says."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.isolation.outside import python, report_of, run
from tests.matrix import sampled

from replaykit.errors import UsageError
from replaykit.isolation import IsolationFailed, Level, Policy, Sandbox, Written, copy_project, support
from replaykit.isolation.policy import MAX_STOPPED, Address, Findings
from replaykit.isolation.support import Support

pytestmark = pytest.mark.usefixtures("full")
SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def sandbox(project: Path) -> Iterator[Sandbox]:
    with Sandbox(Policy(project=project)) as made:
        yield made


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A server outside that says `outside` to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_greet, args=(listening,), daemon=True).start()
        yield listening


def _greet(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"outside")


def _is_running(marker: str) -> bool:
    return subprocess.run(["pgrep", "-f", f"^sleep {marker}$"], capture_output=True, check=False).returncode == 0


def _until(condition: object) -> None:
    end = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


# How it begins and ends


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
@sampled(
    ("command", "code"),
    [("exit 3", 3), ("exit 0", 0), ("kill -TERM $$", -15), ("kill -KILL $$", -9), ("kill -SEGV $$", -11)],
    count=2,
    start=1,
)
def test_a_process_ends_as_its_command_did(project: Path, level: Level, command: str, code: int) -> None:
    with Sandbox(Policy(project=project), level=level) as sandbox:
        assert run(sandbox, "sh", "-c", command)[0] == code


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_signals_come_to_the_command(project: Path, level: Level) -> None:
    code = "import signal,sys\nsignal.signal(15, lambda *a: sys.exit(5))\nprint('ready', flush=True)\nsignal.pause()"
    with Sandbox(Policy(project=project), level=level) as sandbox:
        process = sandbox.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()

        process.terminate()

        assert process.wait(10) == 5
        process.stdout.close()


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_killing_the_process_kills_the_whole_tree(project: Path, level: Level) -> None:
    marker = f"4{time.monotonic_ns() % 10**8:08d}"
    with Sandbox(Policy(project=project), level=level) as sandbox:
        process = sandbox.start(["sh", "-c", f"sleep {marker} & sleep {marker}; true"], start_new_session=True)
        _until(lambda: _is_running(marker))

        if level is Level.FULL:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)

        assert process.wait(10) == -9
        _until(lambda: not _is_running(marker))


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_a_process_in_a_session_of_its_own_does_not_outlive_a_guardian_that_was_killed(
    project: Path, level: Level
) -> None:
    marker = f"8{time.monotonic_ns() % 10**8:08d}"
    with Sandbox(Policy(project=project), level=level) as sandbox:
        script = f"setsid sh -c 'echo ready; exec sleep {marker}' & sleep 300"
        process = sandbox.start(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()

        os.killpg(process.pid, signal.SIGKILL)

        assert process.wait(10) == -9
    if level is Level.LANDLOCK:
        assert not _is_running(marker)
    _until(lambda: not _is_running(marker))


def test_a_killed_caller_leaves_neither_processes_nor_its_temporary_directory(project: Path, tmp_path: Path) -> None:
    marker = f"9{time.monotonic_ns() % 10**8:08d}"
    temporary = tmp_path / "temporary"
    (temporary / "project").mkdir(parents=True)
    code = f"""
from pathlib import Path
from replaykit.isolation import Level, Policy, Sandbox
temporary = Path({str(temporary)!r})
policy = Policy(project=Path({str(project)!r}), scratch=(temporary,), temporary=temporary)
sandbox = Sandbox(policy, level=Level.LANDLOCK)
script = "setsid sh -c 'touch {temporary}/ready; sleep {marker}' & sleep 300"
sandbox.start(["sh", "-c", script], start_new_session=True).wait()
"""
    starter = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": SOURCE})
    _until((temporary / "ready").exists)

    starter.kill()
    starter.wait()

    _until(lambda: not _is_running(marker) and not temporary.exists())


def test_the_tree_ends_with_the_process_that_started_it(project: Path) -> None:
    marker = f"5{time.monotonic_ns() % 10**8:08d}"
    code = f"""
import sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
sandbox = Sandbox(Policy(project=Path({str(project)!r})))
sandbox.start(["sleep", "{marker}"]).wait()
"""
    starter = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": SOURCE})
    _until(lambda: _is_running(marker))

    starter.kill()
    starter.wait()

    _until(lambda: not _is_running(marker))


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_processes_that_are_left_behind_end_with_the_command(project: Path, level: Level) -> None:
    marker = f"6{time.monotonic_ns() % 10**8:08d}"
    with Sandbox(Policy(project=project), level=level) as sandbox:
        code, _ = run(sandbox, "sh", "-c", f"setsid setsid sleep {marker} > /dev/null 2>&1 & exit 0")

        assert code == 0
        assert not _is_running(marker)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user maps itself, in a namespace for each sandbox")
def test_sandboxes_of_root_join_one_user_namespace(project: Path) -> None:
    namespaces = set()
    for _ in range(2):
        with Sandbox(Policy(project=project)) as sandbox:
            namespaces.add(run(sandbox, "readlink", "/proc/self/ns/user"))

    [(_, output)] = namespaces
    assert output.strip() != os.readlink("/proc/self/ns/user")


def test_a_command_that_does_not_exist_is_named_as_ever(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        sandbox.start(["no-such-program"])


def test_output_ends_when_the_command_closes_it(sandbox: Sandbox) -> None:
    process = sandbox.start(
        ["sh", "-c", "echo hi; exec > /dev/null; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None

    assert process.stdout.read() == b"hi\n"

    process.communicate(b"\n", timeout=10)


def test_a_sandbox_that_cannot_be_made_says_why(project: Path) -> None:
    policy = Policy(project=project, ports=(70000,))

    with Sandbox(policy) as sandbox, pytest.raises(IsolationFailed, match="could not be isolated"):
        sandbox.start(["true"])


@pytest.mark.parametrize(
    "step", ["landlock.restrict_signals", "filters.install", "mounts.build", "common.start_loopback"]
)
def test_a_failure_at_any_step_ends_in_one_error(project: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(38, "no such thing")

    monkeypatch.setattr(f"replaykit.isolation.{step}", fail)

    with Sandbox(Policy(project=project)) as sandbox, pytest.raises(IsolationFailed, match="no such thing"):
        sandbox.start(["true"])


def test_a_level_that_is_not_offered_is_an_error_with_the_reasons(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = Support(architecture="x86_64", landlock=0, missing={"user": "Operation not permitted", "listener": "no"})
    monkeypatch.setattr("replaykit.isolation.sandbox.support", lambda: poor)

    with Sandbox(Policy(project=project)) as sandbox:
        assert sandbox.level is Level.PROCESS
    with pytest.raises(IsolationFailed, match="user namespaces: Operation not permitted"):
        Sandbox(Policy(project=project), level=Level.FULL)


def test_without_the_kernel_a_command_runs_as_it_would_and_the_report_says_so(project: Path) -> None:
    with Sandbox(Policy(project=project), level=Level.PROCESS) as sandbox:
        assert run(sandbox, "sh", "-c", "echo hi > made", cwd=project) == (0, "")

        assert sandbox.report().level is Level.PROCESS
        assert (project / "made").exists()


# What may be reached


def test_the_callers_port_is_served_through_a_listener_from_inside(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
        with Sandbox(Policy(project=project, ports=(port,))) as sandbox:
            code = f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).recv(99))"
            process = sandbox.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
            [listener] = sandbox.listeners()
            with listener, listener.accept()[0] as connection:
                connection.sendall(b"from the proxy")
            printed, _ = process.communicate(timeout=10)

            assert b"from the proxy" in printed
            assert sandbox.report().stopped == ()


GET = "import socket; print(socket.create_connection(('{}', {}), 5).recv(99))"


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_an_allowed_address_is_reached(project: Path, server: socket.socket, level: Level) -> None:
    port = server.getsockname()[1]

    with Sandbox(Policy(project=project, allow_connect=(f"127.0.0.1:{port}",)), level=level) as sandbox:
        code, printed = python(sandbox, GET.format("127.0.0.1", port))

        assert (code, printed) == (0, "b'outside'\n")
        assert sandbox.report().stopped == ()


def test_an_allowed_name_is_reached_by_its_name(
    project: Path, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.getsockname()[1]
    known = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr("replaykit.isolation.dialing.socket.getaddrinfo", lambda *_, **__: known)

    with Sandbox(Policy(project=project, allow_connect=(f"db.internal:{port}",))) as sandbox:
        code, printed = python(sandbox, GET.format("db.internal", port))

        assert (code, printed) == (0, "b'outside'\n")
        assert sandbox.report().written == ()


def test_an_allowed_address_is_reached_by_asyncio(project: Path, server: socket.socket) -> None:
    port = server.getsockname()[1]
    code = f"""
import asyncio
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    print(await reader.read(), writer.close())
asyncio.run(main())"""

    with Sandbox(Policy(project=project, allow_connect=(f"127.0.0.1:{port}",))) as sandbox:
        assert python(sandbox, code) == (0, "b'outside' None\n")


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_an_allowed_unix_socket_is_reached(project: Path, tmp_path: Path, level: Level) -> None:
    path = tmp_path / "s"
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); print(s.recv(99))"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=_greet, args=(listening,), daemon=True).start()

        with Sandbox(Policy(project=project, allow_connect=(str(path),)), level=level) as sandbox:
            assert python(sandbox, code) == (0, "b'outside'\n")


def test_an_allowed_address_where_nobody_listens_refuses(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Sandbox(Policy(project=project, allow_connect=(f"127.0.0.1:{port}",))) as sandbox:
        code, printed = python(sandbox, GET.format("127.0.0.1", port))

    assert code == 1
    assert "ConnectionRefusedError" in printed


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:x", "host:0", "host:99999", "host:٣"])
def test_an_address_that_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        Address.parse(text)


def test_paths_have_to_be_absolute() -> None:
    with pytest.raises(UsageError, match="not absolute"):
        Policy(project=Path("here"))


# What the report says


def test_the_report_names_program_address_and_count(sandbox: Sandbox, server: socket.socket) -> None:
    port = server.getsockname()[1]
    code = f"import socket\nfor _ in range(3): socket.socket().connect_ex(('127.0.0.1', {port}))"

    assert python(sandbox, code)[0] == 0

    [stopped] = sandbox.report().stopped
    assert (stopped.channel, stopped.target, stopped.count) == ("tcp", f"127.0.0.1:{port}", 3)
    assert stopped.program.startswith(sys.executable)
    assert stopped.sandbox == sandbox.id


@pytest.mark.parametrize("level", [Level.FULL, Level.LANDLOCK])
def test_a_program_that_waits_for_its_own_server_is_not_named(project: Path, level: Level) -> None:
    code = """
import socket, threading, time
with socket.create_server(("127.0.0.1", 0)) as one: port = one.getsockname()[1]
assert socket.socket().connect_ex(("127.0.0.1", port))
server = socket.create_server(("127.0.0.1", port))
socket.create_connection(("127.0.0.1", port), 5)"""
    with Sandbox(Policy(project=project), level=level) as sandbox:
        status, printed = python(sandbox, code)

        assert status == 0, printed
        assert sandbox.report().stopped == ()


def test_the_list_of_what_was_stopped_is_bounded() -> None:
    findings = Findings()

    for number in range(MAX_STOPPED + 10):
        findings.add("tcp", f"10.0.0.1:{number}", "x" * 10_000)

    assert len(findings.entries) == MAX_STOPPED
    assert findings.more == 10
    assert len(findings.to_json()) < 1_000_000


def test_writes_are_listed_and_the_real_files_stay(project: Path, sandbox: Sandbox) -> None:
    for name in ("changed", "removed"):
        (project / name).write_text("original")
    (project / "emptied").mkdir()
    (project / "emptied" / "inside").write_text("original")
    script = "echo x > made; echo x > changed; rm removed; rm -r emptied; mkdir emptied; mkdir -p a/b; echo y > a/b/c"

    code, printed = run(sandbox, "sh", "-c", script, cwd=project)

    assert (code, printed) == (0, "")
    report = sandbox.report()
    assert set(report.written) == {
        Written(f"{project}/made", "created"),
        Written(f"{project}/changed", "changed"),
        Written(f"{project}/removed", "removed"),
        Written(f"{project}/emptied/inside", "removed"),
        Written(f"{project}/a", "created"),
        Written(f"{project}/a/b", "created"),
        Written(f"{project}/a/b/c", "created"),
    }
    assert report.written_count == 7
    assert sorted(path.name for path in project.rglob("*")) == ["changed", "emptied", "inside", "removed"]


def test_writes_can_be_kept(project: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    run(sandbox, "sh", "-c", "mkdir a; echo y > a/b; ln -s b a/link", cwd=project)

    count = sandbox.keep_writes(tmp_path / "kept")

    copy = tmp_path / "kept" / str(project).lstrip("/") / "a"
    assert count == 2
    assert (copy / "b").read_text() == "y\n"
    assert os.readlink(copy / "link") == "b"


def test_scratch_directories_are_really_written_even_inside_the_project(project: Path) -> None:
    scratch, allowed = project / ".replaykit" / "run", project / "allowed"
    scratch.mkdir(parents=True)
    allowed.mkdir()
    with Sandbox(Policy(project=project, scratch=(scratch,), allow_write=(allowed,))) as sandbox:
        script = "echo x > .replaykit/run/evidence; echo x > allowed/file; echo x > elsewhere"

        assert run(sandbox, "sh", "-c", script, cwd=project) == (0, "")

        assert (scratch / "evidence").exists()
        assert (allowed / "file").exists()
        assert not (project / "elsewhere").exists()
        assert [one.path for one in sandbox.report().written] == [f"{project}/elsewhere"]


NESTED_IN_MEMORY = """
import os, sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
scratch = Path(sys.argv[1])
with Sandbox(Policy(project=Path.cwd(), scratch=(scratch,)), nested=True) as sandbox:
    pid = os.fork()
    if pid == 0:
        sandbox.enter()
        (scratch / "nested").write_text("x")
        Path("/dev/shm/elsewhere").write_text("x")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), Path("/dev/shm/elsewhere").exists())
"""


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this machine has no /dev/shm")
def test_scratch_directories_may_be_in_shared_memory(project: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        scratch = Path(memory, "one", "two")
        scratch.mkdir(parents=True)
        with Sandbox(Policy(project=project, scratch=(scratch,))) as sandbox:
            script = f"echo x > {scratch}/draft && mv {scratch}/draft {scratch}/file; ls /dev/shm"

            assert run(sandbox, "sh", "-c", script, cwd=project) == (0, f"{Path(memory).name}\n")

        assert [file.name for file in scratch.iterdir()] == ["file"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this machine has no /dev/shm")
def test_scratch_directories_of_a_nested_sandbox_may_be_in_shared_memory(project: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        with Sandbox(Policy(project=project, scratch=(Path(memory),))) as sandbox:
            environment = {**os.environ, "PYTHONPATH": SOURCE}
            command = [sys.executable, "-c", NESTED_IN_MEMORY, memory]

            assert run(sandbox, *command, cwd=project, env=environment) == (0, "0 False\n")

        assert [file.name for file in Path(memory).iterdir()] == ["nested"]


def test_a_project_behind_a_symbolic_link_is_covered(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    with Sandbox(Policy(project=link)) as sandbox:
        assert run(sandbox, "sh", "-c", "echo x > made", cwd=link) == (0, "")

        assert [one.path for one in sandbox.report().written] == [f"{project}/made"]
        assert not (project / "made").exists()


@sampled("name", ["with space", "with:colon", "with\\backslash", "with,comma", "größe"], count=2, start=1)
def test_projects_may_have_any_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    with Sandbox(Policy(project=place)) as sandbox:
        assert run(sandbox, "sh", "-c", "echo x > made", cwd=place) == (0, "")

        assert [one.path for one in sandbox.report().written] == [f"{place}/made"]


@sampled("umask", [0o000, 0o022, 0o077, 0o777], count=2, start=1)
def test_any_umask_will_do(project: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Sandbox(Policy(project=project)) as sandbox:
            script = "umask 022; echo x > /tmp/made-by-test && cat /tmp/made-by-test /etc/passwd > /dev/null"
            assert run(sandbox, "sh", "-c", script) == (0, "")
    finally:
        os.umask(before)


def test_more_than_may_be_written_is_a_full_disk_and_named(project: Path) -> None:
    with Sandbox(Policy(project=project, max_written_bytes=1 << 20)) as sandbox:
        code, printed = run(sandbox, "sh", "-c", "head -c 3000000 /dev/zero > big", cwd=project)
        report = sandbox.report()

    assert code != 0
    assert "No space left" in printed
    [stopped] = report.stopped
    assert (stopped.channel, stopped.target, stopped.sandbox) == ("files", f"{project}/", sandbox.id)
    assert stopped.reason == "the memory for what is written is full"


def test_nothing_is_imported_after_the_fork(project: Path, tmp_path: Path) -> None:
    """Another thread may hold the lock of imports at the moment of the fork."""
    code = f"""
import sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
forbidden = type("", (), dict(find_spec=lambda self, name, *_: print("imported", name, flush=True)))()
policy = Policy(project=Path({str(project)!r}), ports=(5001,), allow_connect=("127.0.0.1:9",))
with Sandbox(policy) as sandbox:
    sys.meta_path.insert(0, forbidden)
    sandbox.start(["true"]).wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# Sandboxes inside of sandboxes

NESTED = """
import os, socket, sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
project = Path.cwd()
for number in range(2):
    with Sandbox(Policy(project=project), nested=True) as sandbox:
        pid = os.fork()
        if pid == 0:
            sandbox.enter()
            assert not Path("made").exists()
            Path("made").write_text("x")
            server = socket.create_server(("127.0.0.1", 5000))
            socket.create_connection(("127.0.0.1", 5000), 5)
            socket.socket().connect_ex(("192.0.2.1", 80 + number))
            os.setsid() if os.getpid() != os.getsid(0) else None
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "300"])
            os._exit(7)
        status = os.waitpid(pid, 0)[1]
        report = sandbox.report()
        print(os.waitstatus_to_exitcode(status), [(f.path, f.how) for f in report.written], sandbox.id, flush=True)
print(Path("made").exists())
"""


def test_each_replay_of_a_worker_has_a_sandbox_of_its_own(project: Path, sandbox: Sandbox) -> None:
    code, printed = python(sandbox, NESTED, cwd=project, env={**os.environ, "PYTHONPATH": SOURCE})

    assert code == 0, printed
    first, second, last = printed.splitlines()
    expected = f"7 [('{project}/made', 'created')]"
    assert first.startswith(expected)
    assert second.startswith(expected)
    assert last == "False"
    stopped = {(one.target, str(one.sandbox)) for one in sandbox.report().stopped}
    assert stopped == {("192.0.2.1:80", first.split()[-1]), ("192.0.2.1:81", second.split()[-1])}


OUTSIDE_OF_ANY = """
import os
from pathlib import Path
from replaykit.isolation import IsolationFailed, Policy, Sandbox
with Sandbox(Policy(project=Path.cwd()), nested=True) as sandbox:
    if os.fork() == 0:
        try:
            sandbox.enter()
        except IsolationFailed as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_nested_sandbox_without_one_around_it_is_refused(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE_OF_ANY],
        cwd=project,
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.endswith("there is no sandbox around this one\n")


NO_WAY_BACK = """
import os, socket
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
with Sandbox(Policy(project=Path.cwd()), nested=True) as sandbox:
    pid = os.fork()
    if pid == 0:
        sandbox.enter()
        # Nothing that leads to the layers, or to whoever forked, is left open.
        paths = [f"/proc/self/fd/{number}" for number in range(3, 100)]
        print([os.readlink(path) for path in paths if os.path.lexists(path)], flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_nested_process_holds_nothing_of_its_sandbox(project: Path, sandbox: Sandbox) -> None:
    code, printed = python(sandbox, NO_WAY_BACK, cwd=project, env={**os.environ, "PYTHONPATH": SOURCE})

    assert (code, printed) == (0, "[]\n")


# The lesser level


def test_the_lesser_level_reaches_the_callers_port_and_names_the_rest(project: Path, server: socket.socket) -> None:
    port = server.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as other:
        foreign = other.getsockname()[1]
        code = f"""
import socket
print(socket.create_connection(("127.0.0.1", {port}), 5).recv(99))
print(socket.socket().connect_ex(("127.0.0.1", {foreign})))"""

        with Sandbox(Policy(project=project, ports=(port,)), level=Level.LANDLOCK) as sandbox:
            status, printed = python(sandbox, code)
            report = sandbox.report()

    assert (status, printed) == (0, "b'outside'\n111\n")
    assert [one.target for one in report.stopped] == [f"127.0.0.1:{foreign}"]


def test_the_lesser_level_names_files_that_may_not_be_written(project: Path, tmp_path: Path) -> None:
    if not support().landlock:
        pytest.skip("no Landlock here")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Sandbox(Policy(project=project, scratch=(scratch,)), level=Level.LANDLOCK) as sandbox:
        script = f"echo x > {scratch}/fine; echo x > denied; mkdir also; rm -f /nowhere; true"
        code, _ = run(sandbox, "sh", "-c", script, cwd=project)
        report = sandbox.report()

    assert code == 0
    assert {one.target for one in report.stopped if one.channel == "files"} >= {f"{project}/denied", f"{project}/also"}
    assert not any("fine" in one.target for one in report.stopped)
    assert (scratch / "fine").exists()


def test_the_lesser_level_keeps_unix_sockets_in_scratch_directories(project: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = """
import socket
server = socket.socket(socket.AF_UNIX); server.bind("s"); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect("s"); server.accept()[0].sendall(b"hi")
assert client.recv(9) == b"hi" """
    with Sandbox(Policy(project=project, scratch=(scratch,)), level=Level.LANDLOCK) as sandbox:
        status, printed = python(sandbox, code, cwd=scratch)

        assert status == 0, printed
        assert sandbox.report().stopped == ()


def test_the_lesser_level_stays_shut_when_its_guardian_dies(project: Path, server: socket.socket) -> None:
    code = f"""
import os, socket, time
keeper = os.getppid()
[guardian] = [line.split()[1] for line in open(f"/proc/{{keeper}}/status") if line.startswith("PPid:")]
if os.fork() == 0:
    print(keeper, flush=True)
    while os.path.exists(f"/proc/{{guardian}}"): time.sleep(0.01)
    print(socket.socket().connect_ex(("127.0.0.1", {server.getsockname()[1]})), flush=True)
    os._exit(0)
time.sleep(60)"""
    with Sandbox(Policy(project=project), level=Level.LANDLOCK) as sandbox:
        process = sandbox.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        keeper = int(process.stdout.readline())
        os.kill(keeper, signal.SIGSTOP)  # else it ends the tree at once

        process.kill()
        process.wait()

        assert int(process.stdout.readline()) == errno.ENOSYS
        os.kill(keeper, signal.SIGCONT)
        process.stdout.close()


def test_a_copy_of_the_project_stands_for_the_overlay(project: Path, tmp_path: Path) -> None:
    (project / "package").mkdir()
    (project / "package" / "module.py").write_text("x = 1")
    (project / "link").symlink_to("package")
    target = project / ".replaykit" / "copy"

    assert copy_project(project, target) == 2

    assert (target / "package" / "module.py").read_text() == "x = 1"
    assert os.readlink(target / "link") == "package"
    assert not (target / ".replaykit" / "copy").exists()


@pytest.mark.parametrize("limits", [{"max_files": 1}, {"max_bytes": 10}])
def test_a_project_that_is_too_large_is_not_copied(project: Path, tmp_path: Path, limits: dict[str, int]) -> None:
    for name in ("a", "b"):
        (project / name).write_text("x" * 10)

    with pytest.raises(UsageError, match="too large"):
        copy_project(project, tmp_path / "copy", **limits)

    assert not (tmp_path / "copy").exists()


def test_a_scratch_directory_in_shared_memory_is_really_written(project: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        policy = Policy(project=project, scratch=(Path(scratch),))
        with Sandbox(policy) as sandbox:
            process = sandbox.start(["sh", "-c", f"ls /dev/shm && echo made > {scratch}/file"], stdout=subprocess.PIPE)
            printed, _ = process.communicate(timeout=60)

        assert printed.decode().split() == [Path(scratch).name]
        assert Path(scratch, "file").read_text() == "made\n"


def test_who_waits_for_a_server_of_its_own_is_not_named(project: Path) -> None:
    code = """
import socket, subprocess, sys
port = int(sys.argv[1])
for _ in range(3):
    assert socket.socket().connect_ex(("127.0.0.1", port))
server = subprocess.Popen([sys.executable, "-c", f"import socket; socket.create_server(('127.0.0.1', {port}))"])
assert server.wait() == 0
"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    report = report_of(Policy(project=project), sys.executable, "-c", code, str(port))

    assert report.stopped == ()


@pytest.mark.parametrize(("depth", "name"), [(1500, "ddd"), (40, "d" * 200)])
@pytest.mark.exhaustive
def test_directories_nested_beyond_every_path_do_not_keep_the_report_from_being_made(
    project: Path, tmp_path: Path, depth: int, name: str
) -> None:
    script = f"import os\nfor _ in range({depth}): os.mkdir({name!r}); os.chdir({name!r})\nopen('x', 'w').close()"
    with Sandbox(Policy(project=project)) as sandbox:
        assert sandbox.start([sys.executable, "-c", script], cwd=project).wait() == 0

        report = sandbox.report()
        assert report.written[0] == Written(f"{project}/{name}", "created")
        assert report.written_count > 10
        sandbox.keep_writes(tmp_path / "kept")
        subprocess.run(["rm", "-rf", tmp_path / "kept"], check=True)  # Python's own way recurses
