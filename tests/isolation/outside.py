"""The sandbox around an isolated process tree in tests: servers, files and processes that must stay untouched."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.isolation.techniques import TECHNIQUES

from replaykit.isolation import Common, Level, Policy, Report, Sandbox

HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3"  # one that every user may run

LANDLOCK_LETS_THROUGH = {
    "change_mode",
    "change_times",
    "change_attribute",
    "other_priority",
    "system_v_memory",
}
"""What Landlock has no rule for. `docs/decisions/isolation.md` has the same table."""


class Outside:
    """Everything that techniques aim at, and what became of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.project, self.home, self.scratch, self.data = (
            place / name for name in ("project", "home", "scratch", "data")
        )
        for directory in (self.project, self.home, self.scratch, self.data):
            directory.mkdir()
        (self.project / "source.py").write_text("original")
        (self.home / ".bashrc").write_text("original")
        self.connections: list[str] = []
        self.datagrams: set[str] = set()
        self.sockets: list[socket.socket] = []
        tag = f"replaykit-{os.getpid()}-{time.monotonic_ns()}"
        self.shared = Path("/dev/shm", tag)
        self.shared.write_text("original")
        nowhere = subprocess.DEVNULL  # a test that fails must not wait for its output to end
        self.sleeper = subprocess.Popen(["sleep", "300"], stdin=nowhere, stdout=nowhere, stderr=nowhere)
        self.daemon = f"3{time.monotonic_ns() % 10**8:08d}"
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._shm_key = os.getpid() * 7 + 1
        self._shm = self._libc.shmget(self._shm_key, 4096, 0o1600)
        self.facts = self._facts(tag)
        self._before = self._state()

    def _facts(self, tag: str) -> dict[str, Any]:
        port = self._serve("tcp", socket.create_server(("127.0.0.1", 0)))
        port6 = self._serve("tcp6", socket.create_server(("::1", 0), family=socket.AF_INET6))
        self.proxy, elsewhere = _servers_with_one_port("127.0.0.1", "127.0.0.3")
        self.proxy_port = self.proxy.getsockname()[1]
        self._serve("elsewhere", elsewhere)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(self.data / "service.sock"))
        unix.listen()
        self._serve("unix", unix)
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{tag}")
        abstract.listen()
        self._serve("abstract", abstract)
        unix_datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        unix_datagrams.bind(str(self.data / "log.sock"))
        self.receivers = [datagrams, unix_datagrams]
        victims = {}
        for technique in TECHNIQUES.values():
            victim = self.data / technique.name / "victim"
            victim.parent.mkdir()
            victim.write_bytes(b"" if technique.name == "sqlite_database" else b"original")
            victims[technique.name] = str(victim)
        return {
            "port": port,
            "port6": port6,
            "other_port": self._serve("other", socket.create_server(("127.0.0.2", 0))),
            "proxy_port": self.proxy_port,
            "udp_port": datagrams.getsockname()[1],
            "unix_path": str(self.data / "service.sock"),
            "unix_datagram_path": str(self.data / "log.sock"),
            "abstract": tag,
            "project": str(self.project),
            "home": str(self.home),
            "shared": str(self.shared),
            "sleeper": self.sleeper.pid,
            "caller": os.getpid(),
            "daemon": self.daemon,
            "shm_key": self._shm_key,
            "marker": "pytest",
            "victims": victims,
            "names": list(TECHNIQUES),
        }

    def _serve(self, name: str, server: socket.socket) -> int:
        self.sockets.append(server)
        threading.Thread(target=self._accept, args=(name, server), daemon=True).start()
        place = server.getsockname()
        return int(place[1]) if isinstance(place, tuple) else 0

    def _accept(self, name: str, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            self.connections.append(name)
            with connection, contextlib.suppress(OSError):  # the other end may be gone
                connection.sendall(b"outside")

    def _datagrams(self) -> set[str]:
        """What came at the sockets that wait for datagrams: techniques send their names."""
        for one in self.receivers:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while data := one.recv(1000):
                    self.datagrams.add(data.decode(errors="replace"))
        return self.datagrams

    def policy(self, **changes: Any) -> Policy:
        return Policy(project=self.project, home=self.home, scratch=(self.scratch,), **changes)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for name, victim in self.facts["victims"].items():
            state[name] = _state_of(Path(victim))
        state["project_file"] = _state_of(self.project / "source.py")
        state["home_file"] = _state_of(self.home / ".bashrc")
        state["shared_memory_file"] = _state_of(self.shared)
        return state

    def changed(self) -> set[str]:
        """Techniques whose victim is not what it was."""
        found = {name for name, state in self._state().items() if state != self._before[name]}
        if self.sleeper.poll() is not None:
            found.add("kill_other")
        if subprocess.run(["pgrep", "-f", f"sleep {self.daemon}"], capture_output=True, check=False).returncode == 0:
            found.add("outlive")
        return found | self._datagrams()

    def close(self) -> None:
        self.sleeper.kill()
        self.sleeper.wait()
        subprocess.run(["pkill", "-f", f"^sleep {self.daemon}$"], check=False)
        for one in (*self.sockets, *self.receivers, self.proxy):
            one.close()
        self.shared.unlink(missing_ok=True)
        self._libc.shmctl(self._shm, 0, None)


def _state_of(path: Path) -> Any:
    if not path.exists():
        return None
    found = path.stat()
    attributes = tuple(os.listxattr(path))
    siblings = sorted(os.listdir(path.parent)) if path.name == "victim" else ()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns, found.st_ino, attributes, siblings


def run(sandbox: Sandbox, *command: str, **options: Any) -> tuple[int, str]:
    """Run a command in a sandbox; return its exit code and what it printed."""
    process = sandbox.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed.decode(errors="replace")


def python(sandbox: Sandbox, code: str, **options: Any) -> tuple[int, str]:
    """Run Python code in a sandbox."""
    return run(sandbox, sys.executable, "-c", code, **options)


def report_of(policy: Policy, *command: str, level: Level | None = None) -> Report:
    """Run a command that must succeed in a sandbox of its own, and return the report."""
    with Sandbox(policy, level=level) as sandbox:
        code, printed = run(sandbox, *command)
        assert code == 0, printed
        return sandbox.report()


@dataclass
class Attempts:
    """What came of all techniques in one process tree."""

    answers: dict[str, str]
    changed: set[str]
    connections: list[str]
    report: Report
    facts: dict[str, Any]

    def is_named(self, name: str) -> bool:
        """Return True when the report names what the technique tried."""
        facts = {**self.facts, "victim": self.facts["victims"][name]}
        expected = TECHNIQUES[name].named.format(**facts)
        return any(expected in text for text in self.names())

    def names(self) -> list[str]:
        return [one.target for one in self.report.stopped] + [one.path for one in self.report.written]

    def got_through(self, name: str) -> bool:
        return self.answers[name] == "through" or name in self.changed


def attempts_at(place: Path, level: Level, common: Common | None = None) -> Attempts:
    outside = Outside(place)
    try:
        facts, answers = outside.scratch / "facts.json", outside.scratch / "answers.json"
        facts.write_text(json.dumps(outside.facts))
        outside.proxy.close()
        policy = outside.policy(ports=(outside.proxy_port,))
        with Sandbox(policy, level=level, common=common) as sandbox:
            arguments = (str(HERE / "techniques.py"), str(facts), str(answers))
            environment = dict(os.environ)
            if level is Level.LANDLOCK:  # its own temporary files go where they are really written
                environment["TMPDIR"] = str(outside.scratch)
            code, printed = run(sandbox, sys.executable, *arguments, cwd=outside.project, env=environment)
            assert code == 0, printed
            report = sandbox.report()
        return Attempts(json.loads(answers.read_text()), outside.changed(), outside.connections, report, outside.facts)
    finally:
        outside.close()


def has_program(name: str) -> bool:
    return shutil.which(name) is not None


def _servers_with_one_port(host: str, other_host: str) -> tuple[socket.socket, socket.socket]:
    """Return servers with the same port on two hosts; a port that is free on one may be taken on the other."""
    for _ in range(20):
        server = socket.create_server((host, 0))
        try:
            return server, socket.create_server((other_host, server.getsockname()[1]))
        except OSError:
            server.close()
    raise AssertionError(f"no port is free on both {host} and {other_host}")
