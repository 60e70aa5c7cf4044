"""Isolation as an ordinary user, where these tests run as root: without a privilege, in different places."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.isolation.outside import HERE, LANDLOCK_LETS_THROUGH, SYSTEM_PYTHON, Outside, run
from tests.matrix import sampled

from replaykit.isolation import Sandbox, support

pytestmark = [
    pytest.mark.usefixtures("full"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.skipif(not os.path.exists(SYSTEM_PYTHON), reason="there is no Python that every user may run"),
]
NOBODY = 12345

TRY = """
import json, os, sys
from pathlib import Path
from replaykit.isolation import Level, support
from tests.isolation.outside import attempts_at
from tests.isolation.techniques import TECHNIQUES
assert support().level is Level.FULL, support()
os.umask(int(sys.argv[2], 8))
attempts = attempts_at(Path(sys.argv[1]), Level(sys.argv[3]))
tried = [name for name in TECHNIQUES if not attempts.answers[name].startswith("left out")]
print(json.dumps({
    "through": [name for name in tried if attempts.got_through(name)],
    "not_named": [name for name in tried if TECHNIQUES[name].named and not attempts.is_named(name)],
    "connections": attempts.connections,
}))
"""

NESTED = """
import os
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
os.chdir(os.environ["PLACE"])
with Sandbox(Policy(project=Path.cwd()), nested=True) as sandbox:
    pid = os.fork()
    if pid == 0:
        sandbox.enter()
        Path("made").write_text("x")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print([one.path for one in sandbox.report().written], Path("made").exists())
"""
OUTER = """
import os, sys
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
from tests.isolation.outside import run
with Sandbox(Policy(project=Path(os.environ["PLACE"]))) as sandbox:
    print(run(sandbox, sys.executable, "-c", os.environ["INNER"]))
"""


@pytest.fixture(scope="module")
def sources() -> Iterator[Path]:
    """The package, and these tests, where every user may read them, without the rest of the product."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o755)
    package = place / "replaykit"
    package.mkdir()
    (package / "__init__.py").touch()
    source = HERE.parents[1] / "src" / "replaykit"
    shutil.copy(source / "errors.py", package)
    shutil.copytree(source / "isolation", package / "isolation", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(HERE, place / "tests" / "isolation", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    yield place
    shutil.rmtree(place)


@contextmanager
def _place_in(directory: str) -> Iterator[Path]:
    """A directory of the ordinary user's."""
    made = Path(tempfile.mkdtemp(dir=directory))
    os.chown(made, NOBODY, NOBODY)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def _as_nobody(sources: Path, code: str, *arguments: str, **variables: str) -> str:
    environment = {"PYTHONPATH": str(sources), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", code, *arguments],
        env=environment,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@sampled(("directory", "umask"), [("/tmp", "022"), ("/var/tmp", "077"), ("/opt", "002")], count=1)
def test_nothing_gets_out_for_an_ordinary_user(sources: Path, directory: str, umask: str) -> None:
    with _place_in(directory) as place:
        result: dict[str, Any] = json.loads(_as_nobody(sources, TRY, str(place), umask, "full", HOME=str(place)))

    assert result == {"through": [], "not_named": [], "connections": []}


@pytest.mark.exhaustive
def test_the_lesser_level_holds_for_an_ordinary_user(sources: Path) -> None:
    if not support().landlock:
        pytest.skip("no Landlock here")
    with _place_in("/var/tmp") as place:
        result: dict[str, Any] = json.loads(_as_nobody(sources, TRY, str(place), "022", "landlock", HOME=str(place)))

    assert set(result["through"]) <= LANDLOCK_LETS_THROUGH
    assert result["connections"] == []


@sampled("directory", ["/tmp", "/opt"], count=1)
def test_sandboxes_nest_for_an_ordinary_user(sources: Path, directory: str) -> None:
    with _place_in(directory) as place:
        printed = _as_nobody(sources, OUTER, INNER=NESTED, PLACE=str(place), HOME=str(place))

    assert f"['{place}/made'] False" in printed


def test_files_of_another_group_are_noted(sources: Path) -> None:
    code = """
import os
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
from tests.isolation.outside import run
with Sandbox(Policy(project=Path(os.environ["PLACE"]))) as sandbox:
    run(sandbox, "true")
    print(sandbox.report().notes)
"""
    with _place_in("/var/tmp") as place:
        (place / "shared").touch()
        os.chown(place / "shared", NOBODY, 1234)

        printed = _as_nobody(sources, code, PLACE=str(place), HOME=str(place))

    assert f"{place}/shared belongs to another user or group" in printed


def test_root_can_write_files_of_other_users_into_its_layers(tmp_path: Path) -> None:
    outside = Outside(tmp_path)
    try:
        theirs = outside.project / "theirs"
        theirs.mkdir(mode=0o755)
        os.chown(theirs, NOBODY, NOBODY)
        with Sandbox(outside.policy()) as sandbox:
            script = "echo x > theirs/made && chown 1234 theirs/made && stat -c %u theirs theirs/made"
            code, printed = run(sandbox, "sh", "-c", script, cwd=outside.project)
    finally:
        outside.close()

    assert (code, printed) == (0, f"{NOBODY}\n1234\n")
    assert list(theirs.iterdir()) == []


REPORT = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
from replaykit.isolation import Policy, Sandbox
from tests.isolation.outside import run
place = Path(os.environ["PLACE"])
with Sandbox(Policy(project=place)) as sandbox:
    code, printed = run(sandbox, sys.executable, "-c", os.environ["INNER"], cwd=place)
    report = sandbox.report()
    stopped = [(one.channel, one.target, one.reason) for one in report.stopped]
    print(json.dumps({"printed": printed, "stopped": stopped, "written": [one.path for one in report.written]}))
"""


def test_directories_are_renamed_for_an_ordinary_user(sources: Path) -> None:
    inner = "import os; os.rename('build', 'moved'); print(sorted(os.listdir('moved')))"
    with _place_in("/var/tmp") as place:
        for path in (place / "build", place / "build" / "sub"):
            path.mkdir()
        (place / "build" / "unreadable").touch(mode=0)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(place)], check=True)

        result = json.loads(_as_nobody(sources, REPORT, INNER=inner, PLACE=str(place), HOME=str(place)))

    assert result["printed"] == "['sub', 'unreadable']\n"
    assert result["stopped"] == []


@sampled(
    ("change", "target"),
    [
        ("open('shared', 'a').write('x')", "shared"),
        ("open('link', 'w')", "shared"),
        ("os.chmod('shared', 0o666)", "shared"),
        ("os.truncate('shared', 0)", "shared"),
        ("os.rename('shared', 'moved')", "shared"),
        ("open('theirs/new', 'w')", "theirs/new"),
        ("os.mkdir('theirs/below/new')", "theirs/below/new"),
        ("os.unlink('theirs/mine')", "theirs/mine"),
        ("os.rename('theirs', 'moved')", "theirs"),
        ("os.rename('build', 'moved')", "build"),
    ],
    count=3,
    start=1,
)
def test_what_a_layer_of_an_ordinary_user_cannot_hold_is_named(sources: Path, change: str, target: str) -> None:
    with _place_in("/var/tmp") as place:
        for path in ("theirs", "theirs/below", "build"):
            (place / path).mkdir()
        for path in ("shared", "theirs/mine", "build/shared"):
            (place / path).write_text("x")
        (place / "link").symlink_to("shared")
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(place)], check=True)
        for path in ("shared", "theirs", "build/shared"):
            os.chown(place / path, NOBODY, 1234)
        inner = f"""
import os
try:
    {change}
except OSError as error:
    print(type(error).__name__)
"""

        result = json.loads(_as_nobody(sources, REPORT, INNER=inner, PLACE=str(place), HOME=str(place)))

        named = {(channel, path) for channel, path, reason in result["stopped"] if "another user or group" in reason}
        assert result["printed"] == "OSError\n"
        assert ("files", f"{place}/{target}") in named
        assert result["written"] == []


def test_files_that_an_ordinary_user_can_write_are_not_named(sources: Path) -> None:
    inner = """
import os, tempfile
for call in (lambda: open("/etc/replaykit", "w"), lambda: os.unlink("/usr/bin/env"), lambda: open("read-only", "w")):
    try:
        call()
    except OSError:
        pass
os.mkdir("new")
open("new/x", "w").close()
os.rename("new", "newer")
os.unlink("newer/x")
with tempfile.TemporaryDirectory() as place:
    open(os.path.join(place, "x"), "w").close()
open("/dev/null", "w").write("x")
open("/dev/shm/x", "w").write("x")
print("done")
"""
    with _place_in("/opt") as place:
        (place / "read-only").touch(mode=0o444)
        os.chown(place / "read-only", NOBODY, 1234)

        result = json.loads(_as_nobody(sources, REPORT, INNER=inner, PLACE=str(place), HOME=str(place)))

    assert result["printed"] == "done\n"
    assert result["stopped"] == []
