"""Directories with mounts below them: no overlay can cover them, so a sandbox builds them anew."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("full")

WITH_A_MOUNT_BELOW = """
import os, subprocess, sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox, common, kernel

user, group = os.geteuid(), os.getegid()
kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
common.map_self(user, group)
kernel.make_private()
place = os.open("volume", os.O_PATH)
kernel.attach(kernel.new_filesystem("tmpfs", {}), place)
if os.path.isdir("shared"):
    place = os.open("shared", os.O_PATH)
    kernel.attach(kernel.copy_of_mounts("shared", read_only=True), place)
with Sandbox(Policy(project=Path.cwd())) as sandbox:
    process = sandbox.start([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
    print(process.communicate()[0].decode(), end="")
    report = sandbox.report()
    print(sorted((Path(one.path).name, one.how) for one in report.written), report.stopped)
    kept = Path("volume", "kept")
    sandbox.keep_writes(kept)
    print(sorted(path.name for path in kept.rglob("*") if path.is_file()), *report.notes)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "volume").mkdir(parents=True)
    (place / "state.json").write_text("old")
    (place / "gone.txt").write_text("x")
    (place / "untouched.txt").write_text("same")
    (place / "read-only.txt").write_text("same")
    (place / "read-only.txt").chmod(0o444)
    os.utime(place / "untouched.txt", ns=(7, 9))
    return place


def in_project(project: Path, code: str) -> list[str]:
    """Run code in a sandbox in a project that has a mount below it, and return the lines that were printed."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_MOUNT_BELOW, code], cwd=project, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_files_right_in_such_a_directory_can_be_written(project: Path) -> None:
    printed = in_project(
        project,
        "import os, pathlib\n"
        "print(pathlib.Path('state.json').read_text(), oct(os.stat('read-only.txt').st_mode))\n"
        "print(os.stat('untouched.txt').st_mtime_ns)\n"
        "pathlib.Path('state.json').write_text('new')\n"
        "os.replace('state.json', 'state.json.bak'); os.replace('state.json.bak', 'state.json')\n"
        "os.remove('gone.txt'); pathlib.Path('made.txt').touch(); print(open('state.json').read())",
    )

    assert printed == [
        "old 0o100444",
        "9",
        "new",
        "[('gone.txt', 'removed'), ('made.txt', 'created'), ('state.json', 'changed')] ()",
        "['made.txt', 'state.json']",
    ]
    assert (project / "state.json").read_text() == "old"
    assert (project / "gone.txt").exists()


def test_a_large_file_in_such_a_directory_is_read_only(project: Path) -> None:
    with (project / "large").open("wb") as file:
        file.truncate(1 << 30)

    printed = in_project(
        project,
        "import os\n"
        "print(os.path.getsize('large'))\n"
        "try: open('large', 'r+')\n"
        "except OSError as error: print(error.strerror)",
    )

    assert printed[:2] == [str(1 << 30), "Read-only file system"]
    assert printed[-1].endswith(f"{project}/large is read-only: it is large, and stands beside a mount")


@pytest.mark.exhaustive
def test_a_directory_that_was_empty_can_be_removed(project: Path) -> None:
    (project / "empty").mkdir()

    printed = in_project(project, "import os; os.rmdir('empty')")

    assert printed[0] == "[('empty', 'removed')] ()"


def test_sockets_and_pipes_in_a_read_only_mount_lead_nowhere(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared" / "data").write_text("data")
    os.mkfifo(project / "shared" / "pipe")
    reader = os.open(project / "shared" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project / "shared" / "socket"))
        server.listen()

        printed = in_project(
            project,
            "import errno, os, socket\n"
            "print(open('shared/data').read())\n"
            "for act in (lambda: socket.socket(socket.AF_UNIX).connect('shared/socket'),\n"
            "            lambda: os.open('shared/pipe', os.O_WRONLY | os.O_NONBLOCK),\n"
            "            lambda: open('shared/new', 'w')):\n"
            "    try: print('done', act())\n"
            "    except OSError as error: print(errno.errorcode[error.errno])",
        )

    os.close(reader)
    assert printed[:4] == ["data", "ECONNREFUSED", "ENXIO", "EROFS"]
