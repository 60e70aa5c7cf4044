"""What the kills are judged by: processes that are left are found, and isolated ones are told from others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.killed_commands import children, has_own_network, waited_for
from tests.crash.projects import Project

from replaykit.isolation import Level, Policy, Sandbox, support

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
SLEEP = ["sleep", "300"]


def test_a_process_that_is_left_is_found_named_and_ended(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    orphan = f"import subprocess; subprocess.Popen({SLEEP!r})"
    subprocess.run([sys.executable, "-c", orphan], env=project.environment(), check=True)

    [child] = children(project)

    assert not has_own_network(child)
    assert project.end_processes(0.1) == [f"{child}: sleep 300 "]
    assert project.end_processes(10) == []


@pytest.mark.skipif(support().level is not Level.FULL, reason="; ".join(support().reasons()))
def test_an_isolated_process_is_found_and_told_from_others(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    with Sandbox(Policy(project=project.directory)) as sandbox:
        process = sandbox.start([*SLEEP], env=project.environment())

        assert waited_for(lambda: bool(children(project)), process)
        assert all(map(has_own_network, children(project)))
        process.kill()
        process.wait(timeout=30)
        assert project.end_processes(10) == []


def test_a_secret_on_disk_is_found(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.temporary / "left").write_text(f"key={project.secret}")
    (project.elsewhere / "trace").write_text(project.secret)

    assert project.places_of_the_secret() == [str(project.temporary / "left")]
