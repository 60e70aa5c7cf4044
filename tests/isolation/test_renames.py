"""Renames in a sandbox: they do what they do outside, though layers stand between, or the report names them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.isolation.outside import python
from tests.matrix import sampled

from replaykit.isolation import Common, Policy, Sandbox, Written, renames

pytestmark = pytest.mark.usefixtures("full")

NESTED = """
import os
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
with Sandbox(Policy(project=Path.cwd()), nested=True) as sandbox:
    pid = os.fork()
    if pid == 0:
        sandbox.enter()
        os.rename(os.path.abspath("link/sub"), "moved")
        os._exit(0 if os.listdir("moved") == ["deep"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    print(sorted(Path(one.path).name for one in sandbox.report().written), os.path.exists("build/sub/deep"))
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A project with a directory `build`. It is on the file system of the root, as /home is on most machines."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (place / "build" / "sub").mkdir(parents=True)
    (place / "build" / "file").write_text("content")
    (place / "build" / "sub" / "deep").write_text("deep")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def sandbox(project: Path) -> Iterator[Sandbox]:
    with Sandbox(Policy(project=project)) as made:
        yield made


def _listing(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


BEFORE = ["build", "build/file", "build/sub", "build/sub/deep"]


@sampled(
    "call",
    [
        "os.rename('build', 'build.old')",
        "os.rename('build/', os.path.abspath('build.old') + '/')",
        "os.chdir('build/sub'); os.chdir('../..'); os.rename('./build/../build', 'build.old')",
        "there = os.open('.', os.O_RDONLY); os.chdir('/'); "
        "os.rename('build', 'build.old', src_dir_fd=there, dst_dir_fd=there); os.chdir(there)",
        "open('build/new', 'w').close(); os.remove('build/new'); os.rename('build', 'build.old')",
        "os.mkdir('build.old'); os.rename('build', 'build.old')",
        "import threading; t = threading.Thread(target=os.rename, args=('build', 'build.old')); t.start(); t.join()",
        "subprocess.run(['mv', '-T', 'build', 'build.old'], check=True)",
    ],
    count=3,
    start=1,
)
def test_a_directory_that_was_there_before_is_renamed(project: Path, sandbox: Sandbox, call: str) -> None:
    code, printed = python(
        sandbox,
        f"import os, subprocess; {call}\nprint(sorted(os.listdir('.')), open('build.old/sub/deep').read())",
        cwd=project,
    )

    assert (code, printed) == (0, "['build.old'] deep\n")
    report = sandbox.report()
    assert report.stopped == ()
    assert set(report.written) == {
        Written(f"{project}/build", "removed"),
        Written(f"{project}/build.old", "created"),
        Written(f"{project}/build.old/file", "created"),
        Written(f"{project}/build.old/sub", "created"),
        Written(f"{project}/build.old/sub/deep", "created"),
    }
    assert _listing(project) == BEFORE


def test_a_renamed_directory_is_as_it_was(project: Path, sandbox: Sandbox) -> None:
    build = project / "build"
    os.link(build / "file", build / "sub" / "second")
    os.symlink("file", build / "link")
    os.mkfifo(build / "pipe", 0o640)
    (build / "secret").write_text("x")
    os.setxattr(build, "user.note", b"mine")
    os.chmod(build / "secret", 0)
    os.chmod(build / "sub", 0o2755)
    for path in (build / "file", build / "sub", build):
        os.utime(path, ns=(10**18 + 7, 10**18 + 9))
    look = """
import os
def look(top):
    for way, names, files in sorted(os.walk(top)):
        for one in (way, *(os.path.join(way, name) for name in sorted(files))):
            found = os.lstat(one)
            size = (found.st_nlink, found.st_size) if not os.path.isdir(one) else ()
            link = os.readlink(one) if os.path.islink(one) else ""
            yield one[len(top):], oct(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns, size, link
before = list(look("build")), os.getxattr("build", "user.note")
with open("build/file") as open_before:
    os.rename("build", "moved")
    open("moved/file", "a").write("more")
    assert open_before.read() == "contentmore"
    open("moved/file", "w").write("content")
    os.utime("moved/file", ns=(10**18 + 7, 10**18 + 9))
after = list(look("moved")), os.getxattr("moved", "user.note")
assert before == after, (before, after)
assert os.path.samefile("moved/file", "moved/sub/second")
assert open("moved/sub/second").read() == "content"
"""

    assert python(sandbox, look, cwd=project) == (0, "")


@sampled(
    ("target", "number"),
    [("full", errno.ENOTEMPTY), ("file", errno.ENOTDIR), ("build/inside", errno.EINVAL), ("missing/x", errno.ENOENT)],
    count=2,
)
def test_a_rename_that_fails_outside_fails_in_the_same_way_and_leaves_no_trace(
    project: Path, sandbox: Sandbox, target: str, number: int
) -> None:
    (project / "full" / "inside").mkdir(parents=True)
    (project / "file").touch()
    with pytest.raises(OSError) as outside:
        os.rename(project / "build", project / target)
    assert outside.value.errno == number

    script = f"""
import os
try:
    os.rename("build", {target!r})
except OSError as error:
    print(error.errno, sorted(os.listdir(".")), sorted(os.listdir("build")))
"""
    code, printed = python(sandbox, script, cwd=project)

    assert (code, printed) == (0, f"{number} ['build', 'file', 'full'] ['file', 'sub']\n")
    assert sandbox.report().written == ()
    assert sandbox.report().stopped == ()


def test_two_directories_are_exchanged(project: Path, sandbox: Sandbox) -> None:
    (project / "other").mkdir()
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.renameat2(-100, b"build", -100, b"other", 2) == 0, os.strerror(ctypes.get_errno())
print(os.listdir("build"), sorted(os.listdir("other")))
"""

    assert python(sandbox, script, cwd=project) == (0, "[] ['file', 'sub']\n")


def test_what_is_in_a_directory_that_was_renamed_and_made_anew_is_listed(project: Path, sandbox: Sandbox) -> None:
    script = "import os; os.rename('build', 'old'); os.mkdir('build'); open('build/new', 'w').close()"

    assert python(sandbox, script, cwd=project)[0] == 0
    changes = {(one.path.removeprefix(f"{project}/"), one.how) for one in sandbox.report().written}
    assert changes >= {("build/file", "removed"), ("build/sub", "removed"), ("build/new", "created")}


def test_a_directory_of_a_nested_sandbox_is_renamed(project: Path, sandbox: Sandbox) -> None:
    (project / "link").symlink_to(project / "build")
    (project / "nested.py").write_text(NESTED)
    source = str(Path(__file__).parents[2] / "src")

    code, printed = python(
        sandbox, "import runpy; runpy.run_path('nested.py')", cwd=project, env={**os.environ, "PYTHONPATH": source}
    )

    assert (code, printed) == (0, "['deep', 'moved', 'sub'] True\n")


def test_a_directory_is_renamed_by_a_child_of_a_program_that_is_in_no_sandbox(project: Path) -> None:
    common = Common()
    try:
        for script in ("os.rename('build', 'moved')", "print(open('moved/sub/deep').read())"):
            with Sandbox(Policy(project=project), common=common) as sandbox:
                code, printed = python(sandbox, f"import os; {script}", cwd=project)
                assert code == 0, printed
    finally:
        common.close()
    assert printed == "deep\n"


def test_a_directory_that_is_too_large_is_named_and_stays(
    project: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renames, "MAX_FILES", 2)
    script = """
import os
try:
    os.rename("build", "moved")
except OSError as error:
    print(error.errno, sorted(os.listdir(".")))
"""

    assert python(sandbox, script, cwd=project) == (0, f"{errno.EXDEV} ['build']\n")
    [stopped] = sandbox.report().stopped
    assert (stopped.channel, stopped.target) == ("files", f"{project}/build")
    assert stopped.reason == "it has more than 2 files"
    assert sandbox.report().written == ()


def test_a_directory_that_does_not_fit_into_the_layer_is_named(project: Path) -> None:
    (project / "build" / "large").write_bytes(bytes(3_000_000))
    with Sandbox(Policy(project=project, max_written_bytes=2_000_000)) as sandbox:
        code, _ = python(sandbox, "import os; os.rename('build', 'moved')", cwd=project)

        assert code == 1
        [stopped] = sandbox.report().stopped
        assert stopped.reason.startswith("it is larger than")
        assert sandbox.report().written == ()


def test_a_directory_that_a_process_works_in_is_named(project: Path, sandbox: Sandbox) -> None:
    code, _ = python(sandbox, "import os; os.chdir('build/sub'); os.rename('../../build', '../../moved')", cwd=project)

    assert code == 1
    assert [one.reason for one in sandbox.report().stopped] == ["a process works in it, or has it open"]


def test_a_failure_in_the_middle_puts_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build" / "sub" / "deeper").mkdir(parents=True)
    for name in ("a", "sub/b", "sub/deeper/c"):
        (tmp_path / "build" / name).write_text(name)
    before = _listing(tmp_path)
    real_rename, moved = os.rename, []

    def fails_late(old: str, new: str, **directories: int) -> None:
        """Behave like an overlay: no directory is renamed, until the third file cannot be."""
        if len(moved) < 3 and os.path.isdir(f"/proc/self/fd/{directories['src_dir_fd']}/{old}"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        moved.append(old)
        if len(moved) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real_rename(old, new, **directories)

    monkeypatch.setattr(os, "rename", fails_late)
    parent = os.open(tmp_path, os.O_PATH)
    try:
        with pytest.raises(renames.CannotMove, match="No space left"):
            renames.make_movable(parent, "build")
    finally:
        os.close(parent)

    assert len(moved) > 3
    assert _listing(tmp_path) == before


@pytest.mark.parametrize("target", ["moved", "file"])
def test_a_file_is_renamed_between_layers_that_are_one_file_system_outside(
    project: Path, sandbox: Sandbox, target: str
) -> None:
    if os.stat("/var/tmp").st_dev != os.stat("/opt").st_dev:
        pytest.skip("/var/tmp and /opt are two file systems here")
    (project / "file").write_text("old")
    script = f"""
import os
with open("/opt/replaykit-here", "w") as file:
    file.write("new")
os.chmod("/opt/replaykit-here", 0o640)
os.utime("/opt/replaykit-here", ns=(7, 9))
os.replace("/opt/replaykit-here", {target!r})
found = os.stat({target!r})
print(open({target!r}).read(), oct(found.st_mode), found.st_mtime_ns, os.path.exists("/opt/replaykit-here"))
os.rename("build", "/opt/replaykit-build")
print(open("/opt/replaykit-build/sub/deep").read(), os.path.exists("build"))
os.mkdir("/opt/replaykit-dir")
try:
    os.rename("/opt/replaykit-dir", {target!r})
except NotADirectoryError:
    print("not a directory")
"""

    code, printed = python(sandbox, script, cwd=project)

    assert (code, printed) == (0, "new 0o100640 9 False\ndeep False\nnot a directory\n")
    assert (project / "file").read_text() == "old"
    assert sandbox.report().stopped == ()


def test_a_file_that_is_still_written_is_not_moved_between_layers(project: Path, sandbox: Sandbox) -> None:
    if os.stat("/var/tmp").st_dev != os.stat("/opt").st_dev:
        pytest.skip("/var/tmp and /opt are two file systems here")
    script = "import os\nwith open('/opt/replaykit-here', 'w') as file:\n    os.rename(file.name, 'moved')"

    assert python(sandbox, script, cwd=project)[0] == 1
    assert [one.target for one in sandbox.report().stopped] == ["/opt/replaykit-here"]


def test_a_directory_that_is_really_written_is_really_renamed(project: Path) -> None:
    with Sandbox(Policy(project=project, allow_write=(project / "build",))) as sandbox:
        code, printed = python(
            sandbox,
            "import os; os.rename('build/sub', 'build/moved'); open('x', 'w').close(); os.rename('x', 'build/x')",
            cwd=project,
        )

    assert (code, printed) == (0, "")
    assert _listing(project) == ["build", "build/file", "build/moved", "build/moved/deep", "build/x"]


def test_a_hard_link_between_layers_is_named(project: Path, sandbox: Sandbox) -> None:
    if os.stat("/var/tmp").st_dev != os.stat("/opt").st_dev:
        pytest.skip("/var/tmp and /opt are two file systems here")
    script = """
import errno, os
os.link("build/file", "build/second")
for link in (lambda: os.link("build/file", "/opt/replaykit-link"), lambda: os.link("build/missing", "/opt/other")):
    try:
        link()
    except OSError as error:
        print(errno.errorcode[error.errno])
"""

    assert python(sandbox, script, cwd=project) == (0, "EXDEV\nENOENT\n")
    [stopped] = sandbox.report().stopped
    assert (stopped.channel, stopped.target) == ("files", "/opt/replaykit-link")
    assert stopped.reason == "it is a hard link to a file in another layer"
