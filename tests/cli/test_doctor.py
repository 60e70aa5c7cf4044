"""`replaykit doctor`: what it finds, what it says to type, and that it changes nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran

import replaykit as rk
from replaykit.isolation import support
from replaykit.redaction.keys import VARIABLE

Call = Callable[..., Ran]
STORE = Path(".replaykit/store.db")
KEY = Path(".replaykit/redaction.key")
SECRET_KEY = "c0ffee" * 8
needs_rights = pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
not_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")


@pytest.fixture(autouse=True)
def reachable(own_directory: Path) -> None:
    """Let others into the project's directory, as they are on most machines."""
    own_directory.chmod(0o755)


@pytest.fixture
def repository(own_directory: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(own_directory)], check=True)
    return own_directory


def item(ran: Ran, name: str) -> dict[str, Any]:
    """The item of that name; there is one."""
    [found] = [one for one in ran.json["items"] if one["name"] == name]
    assert isinstance(found, dict)
    return found


def record_one_run() -> None:
    with rk.record("checkout", input="buy it") as run:
        run.message("user", "mail me at ada.lovelace@mathematics.org")


def everything_below(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
        if ".git/" not in str(path)
    }


def test_an_empty_directory_has_no_problem_and_says_what_there_is(replaykit: Call) -> None:
    ran = replaykit("doctor")

    assert ran.code == 0
    for group in ("Machine", "Isolation", "Libraries", "Project"):
        assert f"\n{group}\n" in f"\n{ran.out}"
    assert "nothing is wrong" in ran.out.splitlines()[-1]
    assert "replaykit init" in ran.out


def test_a_project_with_a_store_a_key_and_a_configuration_has_no_problem(replaykit: Call, repository: Path) -> None:
    replaykit("init")
    record_one_run()

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["ok"], ran.json["problems"]) == (0, True, [])
    assert "format 2" in item(ran, "store")["detail"]
    assert item(ran, "store rights")["detail"] == "private to its owner"
    assert item(ran, "store in git")["detail"] == item(ran, "key in git")["detail"] == "ignored"
    assert item(ran, "configuration")["detail"] == "replaykit.yaml is valid"
    assert item(ran, "redaction key")["detail"] == f"{KEY}; {VARIABLE} is not set"


def test_nothing_is_written_and_no_agent_runs(spawned: Call, repository: Path) -> None:
    record_one_run()
    Path("replaykit.yaml").write_text("replaykit: 1\nagent: {type: python, endpoint: 'agent:answer'}\n")
    Path("agent.py").write_text("open('ran', 'w').close()\n")
    before = everything_below(repository)

    ran = spawned("doctor", "--json")

    assert ran.code == 0, ran.out
    assert everything_below(repository) == before


def test_a_store_that_is_in_use_is_looked_at_without_a_write(spawned: Call, own_directory: Path) -> None:
    """A new store is in its log alone, until SQLite writes that back."""
    with rk.Store.open(STORE):
        assert STORE.with_name("store.db-wal").stat().st_size
        before = everything_below(own_directory)

        ran = spawned("doctor", "--json")

        assert everything_below(own_directory) == before
    assert "format 2" in item(ran, "store")["detail"]


def test_no_sdk_or_framework_is_imported() -> None:
    program = (
        "import sys\nfrom replaykit.cli import run\nrun(['doctor'])\n"
        "print(sorted({'httpx', 'langgraph', 'openai', 'requests', 'pydantic'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert done.stderr == "[]\n"


def test_installed_libraries_are_shown_with_their_versions(replaykit: Call) -> None:
    import httpx

    ran = replaykit("doctor", "--json")

    assert item(ran, "httpx") == {
        "group": "libraries",
        "name": "httpx",
        "state": "ok",
        "detail": f"{httpx.__version__}: recorded",
        "advice": [],
    }
    assert "replaykit.integrations.langgraph" in item(ran, "langgraph")["detail"]


def test_the_level_of_isolation_is_that_of_the_machine(replaykit: Call) -> None:
    offered = support()

    found = replaykit("doctor", "--json").json["isolation"]

    assert found == {
        "level": offered.level,
        "channels": offered.levels(offered.level),
        "reasons": list(offered.reasons()),
    }


@needs_rights
@pytest.mark.parametrize(("path", "name"), [(STORE, "store rights"), (KEY, "key rights")])
def test_a_file_that_others_may_read_is_a_problem(replaykit: Call, path: Path, name: str) -> None:
    record_one_run()
    path.parent.chmod(0o755)
    path.chmod(0o644)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, [name])
    assert item(ran, name)["advice"] == [f"chmod 600 {path}"]
    path.chmod(0o600)
    path.parent.chmod(0o700)
    assert replaykit("doctor").code == 0


@needs_rights
def test_an_open_file_in_a_closed_directory_is_no_problem(replaykit: Call) -> None:
    record_one_run()
    STORE.chmod(0o644)

    assert replaykit("doctor").code == 0


def test_a_store_that_git_would_take_is_a_problem(replaykit: Call, repository: Path) -> None:
    record_one_run()
    Path(".replaykit/.gitignore").unlink()

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["store in git", "key in git"])
    assert item(ran, "store in git")["advice"] == ["echo '*' >> .replaykit/.gitignore"]
    subprocess.run(item(ran, "store in git")["advice"][0], shell=True, check=True)
    assert replaykit("doctor").code == 0


def test_a_store_that_is_in_git_is_a_problem_even_though_it_is_ignored(replaykit: Call, repository: Path) -> None:
    record_one_run()
    subprocess.run(["git", "add", "--force", str(STORE)], check=True)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["store in git"])
    assert item(ran, "store in git")["advice"][0] == f"git rm --cached {STORE}"


def test_asking_git_starts_no_program_that_a_repository_names(replaykit: Call, repository: Path) -> None:
    record_one_run()
    program = repository / "hook"
    program.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
    program.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external"):
        subprocess.run(["git", "config", setting, str(program)], check=True)
    subprocess.run(["git", "status"], check=True, capture_output=True)
    assert (repository / "ran").exists(), "git itself starts it"
    (repository / "ran").unlink()

    ran = replaykit("doctor")

    assert ran.code == 0
    assert not (repository / "ran").exists()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"not a database at all, and long enough to be one" * 10, "the file is damaged, or no store"),
        (b"SQLite format 3\0".ljust(4096, b"\xff"), "a database, but not a ReplayKit store"),
    ],
)
def test_a_file_that_is_no_store_is_a_problem(replaykit: Call, content: bytes, text: str) -> None:
    STORE.parent.mkdir(mode=0o700)
    STORE.write_bytes(content)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["store"])
    assert text in item(ran, "store")["detail"]


def test_a_database_of_somebody_else_is_a_problem(replaykit: Call) -> None:
    db = sqlite3.connect("other.db")
    db.execute("CREATE TABLE things (name TEXT)")
    db.close()

    ran = replaykit("doctor", "--json", "--store", "other.db")

    assert (ran.code, ran.json["problems"]) == (1, ["store"])


def test_a_store_of_a_newer_format_is_a_problem(replaykit: Call) -> None:
    rk.Store.open(STORE).close()
    db = sqlite3.connect(STORE)
    db.execute("PRAGMA user_version = 999")
    db.close()

    ran = replaykit("doctor", "--json")

    assert ran.code == 1
    assert "format 999; this version reads up to 2" in item(ran, "store")["detail"]


def test_a_directory_in_the_place_of_a_store_is_a_problem(replaykit: Call) -> None:
    STORE.mkdir(parents=True)

    assert replaykit("doctor", "--json").json["problems"] == ["store"]


@not_root
def test_a_store_that_cannot_be_read_is_a_problem(replaykit: Call) -> None:
    rk.Store.open(STORE).close()
    STORE.chmod(0)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["store"])
    assert item(ran, "store")["advice"] == [f"chmod u+rw {STORE}"]


def test_the_key_is_never_shown(replaykit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    record_one_run()
    in_file = KEY.read_text().strip()
    without = replaykit("doctor").out + replaykit("doctor", "--json").out
    monkeypatch.setenv(VARIABLE, SECRET_KEY)
    named = replaykit("doctor").out + replaykit("doctor", "--json").out

    assert in_file not in without + named
    assert SECRET_KEY not in named
    assert f"from {VARIABLE}" in named


@pytest.mark.parametrize("place", ["variable", "file"])
def test_a_key_that_is_too_short_is_a_problem(replaykit: Call, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    if place == "variable":
        monkeypatch.setenv(VARIABLE, "short")
    else:
        KEY.parent.mkdir(mode=0o700)
        KEY.write_text("short")
        KEY.chmod(0o600)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["redaction key"])
    assert "short" not in ran.out


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("replaykit.yaml", "replaykit: 1\nagnet: {}\n", "configuration"),
        ("redaction.toml", "keyz = ['a']\n", "redaction"),
    ],
)
def test_a_file_that_commands_would_refuse_is_a_problem(replaykit: Call, file: str, text: str, name: str) -> None:
    Path(file).write_text(text)

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, [name])
    assert file in item(ran, name)["detail"]


def test_redaction_that_is_switched_off_is_a_problem(replaykit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_REDACT", "off")

    ran = replaykit("doctor", "--json")

    assert (ran.code, ran.json["problems"]) == (1, ["redaction"])
    assert item(ran, "redaction")["advice"] == ["unset REPLAYKIT_REDACT"]


def test_mcp_configurations_are_found(replaykit: Call) -> None:
    Path(".mcp.json").write_text('{"mcpServers": {"files": {"command": "files-server"}}}')

    ran = replaykit("doctor", "--json")

    assert ran.code == 0
    assert item(ran, "mcp")["advice"] == ["Record its servers: replaykit record --mcp-config .mcp.json -- CMD"]


def test_a_configuration_that_a_killed_recording_swapped_is_noted(replaykit: Call) -> None:
    Path(".mcp.json.replaykit-original").write_text("{}")

    assert "replaykit record --recover" in item(replaykit("doctor", "--json"), "mcp")["advice"][0]


def test_without_git_and_node_nothing_is_wrong(spawned: Call, own_directory: Path) -> None:
    ran = spawned("doctor", "--json", PATH=str(own_directory))

    assert ran.code == 0
    assert (item(ran, "git")["state"], item(ran, "node")["state"]) == ("note", "note")


def test_a_program_that_never_answers_does_not_hold_it_up(spawned: Call, own_directory: Path) -> None:
    (own_directory / "node").write_text("#!/bin/sh\nexec sleep 60\n")
    (own_directory / "node").chmod(0o755)
    began = time.monotonic()

    ran = spawned("doctor", "--json", PATH=f"{own_directory}:{os.environ['PATH']}")

    assert time.monotonic() - began < 30
    assert item(ran, "node")["state"] == "note"
