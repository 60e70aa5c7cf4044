"""The files of a store: out of git wherever they are, and for nobody else on the machine to read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.intake.receiver.spool import Spool
from replaykit.store.backup import backup, restore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")


@pytest.fixture(params=[0o022, 0o000, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def repository(own_directory: Path) -> Path:
    subprocess.run(["git", "init", "-q"], check=True, timeout=20)
    return own_directory


def rights(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def record(store: rk.Store | None = None) -> None:
    with rk.record("billing", input="why?", store=store) as run:
        run.output = "a mail to jane.roe@example.com"


def added() -> set[str]:
    """What git takes."""
    subprocess.run(["git", "add", "-A"], check=True, timeout=20, capture_output=True)
    done = subprocess.run(["git", "ls-files"], check=True, timeout=20, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.usefixtures("repository")
def test_a_directory_that_was_there_before_stays_out_of_git_as_well() -> None:
    Path(".replaykit").mkdir()

    record()

    assert added() == set()


@pytest.mark.usefixtures("repository")
def test_a_store_among_other_files_is_left_out_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data").mkdir()
    Path("data/notes.txt").write_text("mine")
    monkeypatch.setenv("REPLAYKIT_STORE", "data/team.db")

    record()
    with rk.Store.open("data/team.db") as store:
        Spool(Path("data/team-otlp.db")).close()
        found = {path.name for path in Path("data").iterdir()}
        assert {"team.db", "team.db-wal", "redaction.key"} <= found
        assert added() == {"data/notes.txt", "data/.gitignore"}
        record(store)

    assert Path("data/.gitignore").read_text().count("/team.db*") == 1


@pytest.mark.usefixtures("repository")
def test_ignore_rules_of_ones_own_stay_and_get_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".gitignore").write_text("dist")
    monkeypatch.setenv("REPLAYKIT_STORE", "store.db")

    record()

    assert Path(".gitignore").read_text().startswith("dist\n")
    assert added() == {".gitignore"}


@pytest.mark.usefixtures("repository")
def test_a_new_directory_of_any_name_is_left_out_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_STORE", "runs/here/store.db")

    record()

    assert added() == set()
    assert Path("runs/here/.gitignore").read_text() == "*\n"


def test_outside_of_a_repository_a_directory_of_ones_own_gets_no_file(own_directory: Path) -> None:
    with rk.Store.open("store.db") as store:
        record(store)

    assert not (own_directory / ".gitignore").exists()


@pytest.mark.usefixtures("umask")
def test_only_its_owner_reads_a_store() -> None:
    with rk.Store.open(".replaykit/store.db") as store:
        record(store)
        Spool(Path(".replaykit/store-otlp.db")).close()
        files = {path.name: rights(path) for path in Path(".replaykit").iterdir() if path.name != ".gitignore"}

    assert {"store.db", "store.db-wal", "store.db-shm", "store.db-live", "redaction.key", "store-otlp.db"} <= set(files)
    assert set(files.values()) == {0o600}
    assert rights(".replaykit") == 0o700


@pytest.mark.usefixtures("umask")
def test_only_its_owner_reads_a_backup() -> None:
    with rk.Store.open(".replaykit/store.db") as store:
        record(store)
        backup(store, Path("copy.db"))
    restore(Path("copy.db"), Path("again/store.db"))

    assert rights("copy.db") == rights("again/store.db") == 0o600
    assert rights("again") == 0o700


def make_older(mode: int, directory: int) -> None:
    rk.Store.open(".replaykit/store.db").close()
    os.chmod(".replaykit/store.db", mode)
    os.chmod(".replaykit", directory)


def test_an_older_store_that_all_could_read_is_closed_when_it_is_written() -> None:
    make_older(0o644, 0o755)
    rk.Store.open(".replaykit/store.db", read_only=True).close()
    assert (rights(".replaykit/store.db"), rights(".replaykit")) == (0o644, 0o755), "who reads changes nothing"

    rk.Store.open(".replaykit/store.db").close()

    assert (rights(".replaykit/store.db"), rights(".replaykit")) == (0o600, 0o700)


@pytest.mark.parametrize(("mode", "directory"), [(0o640, 0o750), (0o660, 0o770), (0o660, 0o2770)])
def test_a_store_that_somebody_shares_with_a_group_stays_shared(mode: int, directory: int) -> None:
    make_older(mode, directory)

    with rk.Store.open(".replaykit/store.db") as store:
        record(store)
        assert rights(".replaykit/store.db-wal") == mode
        assert rights(".replaykit/store.db-live") == mode

    assert (rights(".replaykit/store.db"), rights(".replaykit")) == (mode, directory)


def test_in_a_directory_that_gives_its_group_to_files_the_group_keeps_its_rights() -> None:
    make_older(0o664, 0o2775)

    rk.Store.open(".replaykit/store.db").close()
    rk.Store.open(".replaykit/other.db").close()

    assert (rights(".replaykit/store.db"), rights(".replaykit/other.db")) == (0o660, 0o660)
    assert rights(".replaykit") == 0o2770


def test_a_directory_of_ones_own_keeps_its_rights() -> None:
    Path("shared").mkdir(mode=0o755)
    os.chmod("shared", 0o755)

    rk.Store.open("shared/store.db").close()

    assert (rights("shared"), rights("shared/store.db")) == (0o755, 0o600)


@pytest.mark.usefixtures("umask")
def test_only_its_owner_reads_the_evidence(tmp_path: Path) -> None:
    Path("cases/small").mkdir(parents=True)
    Path("cases/small/case.yaml").write_text(
        "replaykit: 1\nid: small\nscenario: {input: why}\n"
        "observed: [{status_is: error}]\ndesired: [{status_is: success}]\n"
    )
    Path("runner.py").write_text(
        "import json, os\nos.umask(0)\nprint('hello')\n"
        "open(os.environ['REPLAYKIT_OUTPUT_PATH'], 'w').write(json.dumps({'status': 'error', 'errors': ['no']}))\n"
    )
    rk.replay("cases/small", CommandCandidate([sys.executable, "runner.py"]), evidence=".replaykit/runs")

    (workspace,) = Path(".replaykit/runs").iterdir()
    assert rights(workspace) == rights(".replaykit/runs") == rights(".replaykit") == 0o700
    found = {path.name: rights(path) for path in workspace.iterdir() if path.is_file()}
    assert {"result.json", "summary.md", "stdout.log", "stderr.log", "runner-output.json"} <= set(found)
    assert set(found.values()) == {0o600}
