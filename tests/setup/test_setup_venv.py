"""`tools/setup-venv` chooses an interpreter, replaces unusable environments, and explains what is missing.

The interpreters are fakes on a PATH of their own. They run `-c` programs for real, under the version they claim.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.matrix import sampled

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "setup-venv"
TOOLS = ("find", "grep", "mkdir", "rm", "rmdir", "tail")

FAKE = """#!{python} -IS
import os, shutil, sys
def run(argv):
    if argv[0] == "-c":
        sys.version_info = {version}
        sys.base_prefix = "/fake/" + ".".join(map(str, {version}))
        if not {ensurepip}:
            sys.modules["ensurepip"] = None
        exec(argv[1])
    elif argv[:2] == ["-m", "venv"]:
        os.makedirs(argv[2] + "/bin")
        open(argv[2] + "/pyvenv.cfg", "w").close()
        shutil.copy(__file__, argv[2] + "/bin/python")
    elif argv[:2] == ["-m", "pip"]:
        with open("pip.log", "a") as log:
            print(*argv[2:], file=log)
        print({pip_error!r}, file=sys.stderr)
        sys.exit(bool({pip_error!r}))
run(sys.argv[1:])
"""

NO_CONNECTION = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None)) after connection broken by 'NewConnectionError("Failed to \
establish a new connection: [Errno 111] Connection refused")': /simple/pip/
ERROR: Could not find a version that satisfies the requirement msgspec>=0.19 (from versions: none)
ERROR: No matching distribution found for msgspec>=0.19
"""
NO_NAME_RESOLUTION = """\
WARNING: Retrying (Retry(total=4)) after connection broken by 'NameResolutionError("Failed to resolve 'index.example' \
([Errno -3] Temporary failure in name resolution)")': /simple/pip/
"""
NO_PROXY = """\
WARNING: Retrying (Retry(total=4)) after connection broken by 'ProxyError('Cannot connect to proxy.', \
OSError('Tunnel connection failed: 403 Forbidden'))': /simple/pip/
"""
NO_CERTIFICATE = """\
Could not fetch URL https://index.example/simple/pip/: There was a problem confirming the ssl certificate: SSLError(\
SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate')) - skipping
"""
NO_GCC = """\
  building 'zstandard.backend_c' extension
  error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory
  ERROR: Failed building wheel for zstandard
"""
NO_CC_IN_MESON = 'ERROR: Unknown compiler(s): [["cc"], ["gcc"], ["clang"]]\n'
NO_HEADERS = "  msgspec/_core.c:2:10: fatal error: Python.h: No such file or directory\n"
NO_RUST = """\
  Cargo, the Rust package manager, is not installed or is not on PATH.
  This package requires Rust and Cargo to compile extensions.
"""


class Clone:
    """A directory with a pyproject.toml, and a PATH that has nothing but what the script needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "path"
        self.path.mkdir()
        (directory / "pyproject.toml").touch()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or tool)

    def add_python(
        self, name: str, version: tuple[int, int, int], *, ensurepip: bool = True, pip_error: str = ""
    ) -> None:
        file = self.path / name
        file.write_text(FAKE.format(python=sys.executable, version=version, ensurepip=ensurepip, pip_error=pip_error))
        file.chmod(0o755)

    def set_up(self, *arguments: str, python: str = "") -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.path), "PYTHON": python}
        command = ["/bin/sh", str(SCRIPT), ".venv", *arguments]
        return subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True, timeout=60)

    @property
    def installed(self) -> list[str]:
        """What pip was asked to install since the last look."""
        log = self.directory / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.split()[-1] for line in lines]


@pytest.fixture
def clone(own_directory: Path) -> Clone:
    return Clone(own_directory)


def test_python3_is_used_if_its_version_is_supported(clone: Clone) -> None:
    clone.add_python("python3", (3, 11, 2))
    clone.add_python("python3.13", (3, 13, 0))

    done = clone.set_up()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Setting up .venv with Python 3.11.2\n"


def test_the_newest_supported_python_is_used_if_python3_is_too_old(clone: Clone) -> None:
    clone.add_python("python3", (3, 9, 2))
    clone.add_python("python3.11", (3, 11, 2))
    clone.add_python("python3.12", (3, 12, 1))
    (clone.path / "python3.13").write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found'\nexit 127\n")
    (clone.path / "python3.13").chmod(0o755)

    done = clone.set_up()

    assert done.stdout == "Setting up .venv with Python 3.12.1\n"


def test_the_python_that_is_asked_for_wins(clone: Clone) -> None:
    clone.add_python("python3", (3, 13, 0))
    clone.add_python("python3.11", (3, 11, 2))

    done = clone.set_up(python="python3.11")

    assert done.stdout == "Setting up .venv with Python 3.11.2\n"


def test_without_python_it_says_what_to_install(clone: Clone) -> None:
    done = clone.set_up()

    assert done.returncode == 1
    assert "ReplayKit needs Python 3.11 or newer. Found on PATH: no python3" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr
    assert "brew install python" in done.stderr


def test_with_only_old_pythons_it_says_which_were_found(clone: Clone) -> None:
    clone.add_python("python3", (3, 9, 2))
    shim = clone.path / "shims" / "python3.12"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    clone.path = Path(f"{clone.path}:{shim.parent}")

    done = clone.set_up()

    assert done.returncode == 1
    assert f"\n  python3: Python 3.9.2 ({shim.parents[1]}/python3)\n" in done.stderr
    assert f"\n  python3.12: does not run ({shim} is a pyenv shim; select its version" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


@pytest.mark.parametrize(
    ("python", "reason"),
    [("python3.9", "python3.9: Python 3.9.2 ("), ("python3.99", "python3.99: not found")],
)
def test_a_python_that_is_asked_for_and_does_not_do_is_refused(clone: Clone, python: str, reason: str) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.add_python("python3.9", (3, 9, 2))

    done = clone.set_up(python=python)

    assert done.returncode == 1
    assert f"ReplayKit needs Python 3.11 or newer, but PYTHON names\n  {reason}" in done.stderr
    assert not (clone.directory / ".venv").exists()


def test_without_ensurepip_it_names_the_package_that_brings_it(clone: Clone) -> None:
    clone.add_python("python3", (3, 11, 2), ensurepip=False)

    done = clone.set_up()

    assert done.returncode == 1
    assert "cannot create virtual environments: its venv or ensurepip module is missing" in done.stderr
    assert "apt install python3.11-venv" in done.stderr


@sampled("pip_error", [NO_CONNECTION, NO_NAME_RESOLUTION, NO_PROXY, NO_CERTIFICATE], count=2)
def test_an_index_that_cannot_be_reached_is_named_as_the_cause(clone: Clone, pip_error: str) -> None:
    clone.add_python("python3", (3, 12, 1), pip_error=pip_error)

    done = clone.set_up()

    assert done.returncode == 1
    assert pip_error in done.stderr
    assert "Setting up .venv failed: the package index cannot be reached." in done.stderr
    assert "HTTPS_PROXY" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr


@sampled("pip_error", [NO_GCC, NO_CC_IN_MESON, NO_HEADERS], count=1)
def test_a_missing_compiler_is_named_as_the_cause(clone: Clone, pip_error: str) -> None:
    clone.add_python("python3", (3, 12, 1), pip_error=pip_error)

    done = clone.set_up()

    assert done.returncode == 1
    assert pip_error in done.stderr
    assert "a package has to be compiled for this Python, and there is no C compiler" in done.stderr
    assert "apt install build-essential python3-dev" in done.stderr


def test_missing_rust_is_named_as_the_cause(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1), pip_error=NO_RUST)

    done = clone.set_up()

    assert "a package has to be compiled for this Python, and Rust is missing" in done.stderr


def test_any_other_failure_shows_the_end_of_the_log(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1), pip_error="ERROR: No space left on device")

    done = clone.set_up()

    assert done.returncode == 1
    assert "ERROR: No space left on device" in done.stderr
    assert "The full output is in .venv/setup.log" in done.stderr


def test_a_complete_environment_is_left_alone(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.set_up("dev")
    assert clone.installed == ["pip", ".[dev]"]

    again = clone.set_up("dev")
    for_the_demo = clone.set_up()

    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert (for_the_demo.returncode, for_the_demo.stdout) == (0, "")
    assert clone.installed == []


def test_extras_are_added_to_an_environment_that_lacks_them(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.set_up()
    assert clone.installed == ["pip", "."]

    done = clone.set_up("dev")

    assert done.stdout == "Updating .venv\n"
    assert clone.installed == ["pip", ".[dev]"]


def test_changed_dependencies_are_installed_with_the_extras_that_are_there(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.set_up("dev")
    os.utime(clone.directory / ".venv" / ".ready", (0, 0))
    assert clone.installed

    done = clone.set_up()

    assert done.stdout == "Updating .venv\n"
    assert clone.installed == ["pip", ".[dev]"]


@pytest.mark.exhaustive
def test_an_environment_whose_setup_failed_is_replaced(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1), pip_error=NO_CONNECTION)
    clone.set_up()
    clone.add_python("python3", (3, 12, 1))

    done = clone.set_up()

    assert done.returncode == 0
    assert done.stdout == "Setting up .venv with Python 3.12.1\n"
    assert (clone.directory / ".venv" / ".ready").exists()


def remove_the_interpreter(venv: Path) -> None:
    (venv / "bin" / "python").unlink()


def cut_the_marker_off(venv: Path) -> None:
    (venv / ".ready").write_text((venv / ".ready").read_text()[:10])


def leave_an_empty_marker(venv: Path) -> None:
    (venv / ".ready").write_text("")


def claim_another_directory(venv: Path) -> None:
    _, *rest = (venv / ".ready").read_text().splitlines()
    (venv / ".ready").write_text("\n".join(["/moved/.venv", *rest, ""]))


def interrupt_at_the_start(venv: Path) -> None:
    shutil.rmtree(venv)
    venv.mkdir()


@sampled(
    "damage",
    [
        remove_the_interpreter,
        cut_the_marker_off,
        leave_an_empty_marker,
        claim_another_directory,
        interrupt_at_the_start,
    ],
    count=2,
    start=1,
)
@pytest.mark.exhaustive
def test_an_unusable_environment_is_replaced(clone: Clone, damage: Callable[[Path], None]) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.set_up()
    damage(clone.directory / ".venv")

    done = clone.set_up()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Setting up .venv with Python 3.12.1\n"


@pytest.mark.exhaustive
def test_an_environment_of_another_python_is_replaced_only_if_one_is_asked_for(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1))
    clone.add_python("python3.13", (3, 13, 0))
    clone.set_up()

    same = clone.set_up(python="python3")
    other = clone.set_up(python="python3.13")
    unspecified = clone.set_up()

    assert same.stdout == ""
    assert other.stdout == "Setting up .venv with Python 3.13.0\n"
    assert unspecified.stdout == ""


def test_a_directory_that_is_no_environment_is_not_deleted(clone: Clone) -> None:
    clone.add_python("python3", (3, 12, 1))
    mine = clone.directory / ".venv" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()

    done = clone.set_up()

    assert done.returncode == 1
    assert ".venv exists and is not a virtual environment" in done.stderr
    assert mine.exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_passes_the_python_that_is_asked_for() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

    done = subprocess.run(
        ["make", "demo", "PYTHON=/nowhere/python3"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert "but PYTHON names\n  /nowhere/python3: not found" in done.stderr
