"""Private directories: who can enter them, where they are, and who removes which."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replaykit import private_files
from replaykit.errors import StoreError
from replaykit.private_files import PREFIX, SHARED_MEMORY, has_memory, private_directory, remove_abandoned

OWNER = """
import signal, sys
from replaykit.private_files import private_directory
with private_directory() as directory:
    (directory / "raw").write_text("as it is")
    print(directory, flush=True)
    signal.pause()
"""


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has a private directory."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_private_directory_is_for_its_owner_alone_and_gone_afterwards(own_directory: Path) -> None:
    before = os.umask(0)
    try:
        with private_directory() as directory:
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            assert directory.is_absolute()
            assert own_directory not in directory.parents
            (directory / "below").mkdir()
            (directory / "below" / "file").write_text("x")
    finally:
        os.umask(before)

    assert not directory.exists()


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(
    owner: tuple[subprocess.Popen[str], Path],
) -> None:
    process, directory = owner

    remove_abandoned()
    assert (directory / "raw").exists()

    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (directory / "raw").exists()
    remove_abandoned()
    assert not directory.exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a directory away")
def test_directories_of_other_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    theirs, ours = tmp_path / f"{PREFIX}theirs", tmp_path / f"{PREFIX}ours"
    theirs.mkdir()
    ours.mkdir()
    os.chown(theirs, 12345, 12345)

    remove_abandoned()

    assert theirs.exists()
    assert not ours.exists()


def test_links_and_other_names_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link, file = tmp_path / f"{PREFIX}link", tmp_path / f"{PREFIX}file"
    link.symlink_to(elsewhere)
    file.write_text("x")

    remove_abandoned()

    assert link.is_symlink()
    assert elsewhere.is_dir()
    assert file.exists()


@pytest.mark.skipif(not has_memory(SHARED_MEMORY), reason="this machine has no such place")
def test_the_directory_is_in_memory_where_the_machine_has_a_place_for_that(tmp_path: Path) -> None:
    with private_directory() as directory:
        assert directory.parent == Path(SHARED_MEMORY)


def test_a_place_on_a_disk_or_without_room_is_not_taken_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_memory("/proc")
    assert not has_memory(str(tmp_path / "nowhere"))
    monkeypatch.setattr(private_files, "MIN_FREE_BYTES", 1 << 62)
    assert not has_memory(SHARED_MEMORY)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    with private_directory() as directory:
        assert directory.parent == tmp_path


def test_a_temporary_directory_that_cannot_be_written_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "MIN_FREE_BYTES", 1 << 62)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    with (
        pytest.raises(StoreError, match=r"nowhere: no private directory can be made[\s\S]*TMPDIR"),
        private_directory(),
    ):
        pass


def nested(directory: Path, depth: int) -> None:
    """Nest directories by name: no path would be short enough."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
        os.close(here)
        here = inner
    os.close(here)


def test_what_a_candidate_has_nested_deeply_is_removed() -> None:
    with private_directory() as directory:
        nested(directory, 3000)
        (directory / "closed" / "inside").mkdir(parents=True)
        (directory / "closed" / "inside").chmod(0)
        (directory / "closed").chmod(0)

    assert not directory.exists()


def test_a_link_out_of_a_tree_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    with private_directory() as directory:
        (directory / "link").symlink_to(tmp_path / "kept")

    assert not directory.exists()
    assert (tmp_path / "kept" / "file").exists()
