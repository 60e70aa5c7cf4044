"""Projects to kill commands in: what they leave behind, as processes, as files and as secrets."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from tests.redaction.made_up_secrets import drawn

import replaykit as rk
from replaykit.model.run import encode_run

MARK = "CRASH_MARK"
SECRET = "CRASH_SECRET"
HANGS = "CRASH_HANGS"
LEFT_WITHIN_S = 10.0
"""How long processes may take to notice that the command they belong to is gone, on a busy machine."""
_PAUSE_S = 0.02


class Project:
    """A directory with a `.replaykit` of its own, and a place for temporary files that nobody else uses."""

    def __init__(self, place: Path) -> None:
        self.directory = place / "p"
        self.temporary = place / "t"
        self.elsewhere = place / "e"
        """Files that are not the project's: traces that hold the secret, and what was acknowledged."""
        for directory in (self.directory, self.temporary, self.elsewhere):
            directory.mkdir(parents=True)
        self.secret = f"sk-proj-{drawn(48, seed=random.randrange(1 << 30))}"
        self.mark = uuid4().hex

    @property
    def store(self) -> Path:
        return self.directory / ".replaykit" / "store.db"

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a command in this project; every process that it starts has the mark."""
        own = {"TMPDIR": str(self.temporary), SECRET: self.secret, MARK: self.mark, "REPLAYKIT_ISOLATION": "full"}
        return {**os.environ, **own, **more}

    def start(self, *command: str, prints_to: Path | None = None, **more: str) -> subprocess.Popen[bytes]:
        """Start a command that reads nothing, and whose errors are kept in a file elsewhere."""
        printed = prints_to if prints_to is not None else Path(os.devnull)
        with (self.elsewhere / "errors").open("ab") as errors, printed.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment(**more),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

    def replaykit(self, *arguments: str, prints_to: Path | None = None, **more: str) -> subprocess.Popen[bytes]:
        """Start a command line of ReplayKit."""
        return self.start(sys.executable, "-m", "replaykit", *arguments, prints_to=prints_to, **more)

    def finish(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> None:
        """Run a command line of ReplayKit to its end."""
        process = self.replaykit(*arguments)
        code = process.wait(timeout=120)
        assert code in codes, f"exit code {code}: {self.errors()}"

    def errors(self) -> str:
        file = self.elsewhere / "errors"
        return file.read_text(errors="replace")[-3000:] if file.exists() else ""

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file of the project outside of `.replaykit`, with its size and the time of its last change."""
        found = {}
        for path in self.directory.rglob("*"):
            inside = path.relative_to(self.directory)
            if inside.parts[0] != ".replaykit" and path.is_file():
                found[str(inside)] = (path.stat().st_size, path.stat().st_mtime_ns)
        return found

    def processes(self) -> list[int]:
        """The processes that a command of this project started, directly or not, and that still run."""
        mark = f"{MARK}={self.mark}".encode()
        return [pid for pid in _all_processes() if mark in _environment_of(pid) and _is_running(pid)]

    def end_processes(self, within_s: float) -> list[str]:
        """Wait until no process of the project is left; end those that stay, and give their command lines."""
        give_up = time.monotonic() + within_s
        while self.processes() and time.monotonic() < give_up:
            time.sleep(_PAUSE_S)
        left = self.processes()
        described = [f"{pid}: {command_of(pid)}" for pid in left]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return described

    def places_of_the_secret(self) -> list[str]:
        """The files of the project and its temporary ones that hold the secret, and runs that do once they are read."""
        found = []
        for place in (self.directory, self.temporary):
            for path in place.rglob("*"):
                if path.is_file() and not path.is_symlink() and self.secret.encode() in path.read_bytes():
                    found.append(str(path))
        if self.store.exists():
            with rk.Store.open(self.store, read_only=True) as store:
                runs = [store.load(header.id) for header in store.headers()]
            found += [f"run {run.id}" for run in runs if self.secret.encode() in encode_run(run)]
        return found


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


def command_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "has ended"


def _is_running(pid: int) -> bool:
    """False for a process that has ended and that nobody has waited for yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
