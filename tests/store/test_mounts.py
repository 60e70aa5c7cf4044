"""A store is refused where several machines could write to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from replaykit.errors import StoreError
from replaykit.store.schema import file_system_of, refuse_network_file_system

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts are read from /proc")


def mounts(directory: Path, kind: str) -> Path:
    """The kernel's list of mounts, if this directory were on a file system of a kind."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    file = directory / "mountinfo"
    file.write_text(
        "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
        f"40 22 {number} / /home/a\\040b rw,relatime shared:1 master:2 - {kind} server:/home rw,vers=4.2\n"
    )
    return file


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3"])
def test_a_network_file_system_is_refused_and_the_way_out_named(tmp_path: Path, kind: str) -> None:
    with pytest.raises(StoreError, match=rf"is on a network file system \({kind}\)") as caught:
        refuse_network_file_system(tmp_path, mounts(tmp_path, kind))
    assert "REPLAYKIT_STORE" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay"])
def test_a_local_one_is_not(tmp_path: Path, kind: str) -> None:
    refuse_network_file_system(tmp_path, mounts(tmp_path, kind))


def test_what_cannot_be_found_out_is_not_refused(tmp_path: Path) -> None:
    assert file_system_of(tmp_path, tmp_path / "none") is None
    refuse_network_file_system(tmp_path, tmp_path / "none")


def test_the_directory_of_this_test_is_on_some_file_system(tmp_path: Path) -> None:
    assert file_system_of(tmp_path)
