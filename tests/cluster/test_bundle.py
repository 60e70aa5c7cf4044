"""The bundle: the same files are the same bytes, secrets and caches stay, and no path of it is trusted."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from replaykit.cluster.bundle import BundledFile, is_inner_path, pack, unpack
from replaykit.errors import InvalidFile, UsageError


def project(directory: Path) -> Path:
    (directory / "cases" / "one").mkdir(parents=True)
    (directory / "cases" / "one" / "case.yaml").write_text("id: one\n")
    (directory / "agent.py").write_text("def answer(question): ...\n")
    (directory / "run.sh").write_text("#!/bin/sh\n")
    (directory / "run.sh").chmod(0o755)
    return directory


def paths_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_same_files_are_the_same_bundle_whenever_they_were_written(tmp_path: Path) -> None:
    first, second = project(tmp_path / "a"), project(tmp_path / "b")
    os.utime(second / "agent.py", (1, 1))

    assert pack(first).data == pack(second).data

    (second / "agent.py").write_text("def answer(question): return 1\n")
    assert pack(first).digest != pack(second).digest


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    bundle = pack(project(tmp_path / "project"))

    unpack(bundle.data, bundle.digest, tmp_path / "copy")

    assert paths_in(tmp_path / "copy") == ["agent.py", "cases/one/case.yaml", "run.sh"]
    assert (tmp_path / "copy" / "cases" / "one" / "case.yaml").read_text() == "id: one\n"
    assert os.access(tmp_path / "copy" / "run.sh", os.X_OK)
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0


def test_secrets_caches_and_environments_are_not_sent(tmp_path: Path) -> None:
    directory = project(tmp_path / "project")
    left_out = (".git/config", ".replaykit/store.db", ".env", ".env.local", "tls.pem", "__pycache__/agent.pyc")
    for name in (*left_out, "environment/pyvenv.cfg", "environment/lib.py"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("x")
    bundle = pack(directory)

    unpack(bundle.data, bundle.digest, tmp_path / "copy")

    assert paths_in(tmp_path / "copy") == ["agent.py", "cases/one/case.yaml", "run.sh"]


def test_a_link_is_sent_as_the_file_that_it_names_and_only_from_within(tmp_path: Path) -> None:
    directory = project(tmp_path / "project")
    (tmp_path / "secret").write_text("s3cret")
    (directory / "alias.py").symlink_to("agent.py")
    (directory / "out").symlink_to(tmp_path / "secret")
    (directory / "all").symlink_to("cases")
    bundle = pack(directory)

    unpack(bundle.data, bundle.digest, tmp_path / "copy")

    assert bundle.left_out == ("all", "out")
    assert (tmp_path / "copy" / "alias.py").read_text() == (directory / "agent.py").read_text()
    assert not (tmp_path / "copy" / "alias.py").is_symlink()
    assert not (tmp_path / "copy" / "out").exists()


@pytest.mark.parametrize("name", [".ENV", "server.PEM", "deploy/id_ed25519", ".npmrc", "login.p12"])
def test_a_secret_is_not_sent_whatever_the_case_of_its_name(name: str, tmp_path: Path) -> None:
    root = project(tmp_path)
    before = pack(root)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("secret")

    assert pack(root) == before


def test_a_store_in_another_place_is_not_sent(tmp_path: Path) -> None:
    root = project(tmp_path)
    before = pack(root)
    for name in ("store.db", "store.db-wal", "store.db-log/1-ab"):
        (root / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "data" / name).write_text("recorded")

    assert pack(root, store=root / "data" / "store.db") == before
    assert pack(root) != before


def test_a_link_to_a_secret_is_not_sent_but_named(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / ".env").write_text("secret")
    before = pack(root)
    (root / "settings").symlink_to(".env")

    bundle = pack(root)

    assert bundle.data == before.data
    assert bundle.left_out == ("settings",)


def test_a_directory_that_is_too_large_names_what_is_in_it(tmp_path: Path) -> None:
    directory = project(tmp_path / "project")
    (directory / "data").mkdir()
    (directory / "data" / "video").write_bytes(bytes(2_000))

    with pytest.raises(UsageError, match=r"at most 1,000 are sent to workers\n.*Largest: data \(2,000 bytes\)"):
        pack(directory, limit_bytes=1_000)


def written(*files: tuple[str, bytes]) -> bytes:
    header = msgspec.json.encode([BundledFile(path, len(content)) for path, content in files])
    parts = [len(header).to_bytes(4, "big"), header, *(content for _, content in files)]
    return zstandard.compress(b"".join(parts))


def unpacked(data: bytes, target: Path, **options: int) -> None:
    unpack(data, hashlib.sha256(data).hexdigest(), target, **options)


HOSTILE = ("../x", "/etc/x", "a/../../x", "a//x", "./x", "a\\x", "C:x", "a/..", "", "a\0", "a/")


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leads_out_is_refused_before_anything_is_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="not one inside of the bundle"):
        unpacked(written(("fine.py", b"1"), (path, b"2")), tmp_path / "copy")

    assert list(tmp_path.iterdir()) == []


@given(st.text(alphabet="ab./\\:\0", max_size=12))
def test_no_accepted_path_leads_out(path: str) -> None:
    if is_inner_path(path):
        joined = os.path.normpath(os.path.join("/root", path))
        assert joined.startswith("/root/")
        assert joined == f"/root/{path}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (written(("a", b"1"), ("a", b"2")), "holds a path twice"),
        (written(("a", b"1"), ("a/b", b"2")), "goes through a file"),
        (zstandard.compress(b"\0\0\0\2[]more"), "sizes do not add up"),
        (zstandard.compress(b"\0\0\0\2{}"), "no list of files"),
        (zstandard.compress(bytes(1_000_000)), "at most 2,000 are accepted"),
        (b"no archive", "not compressed as bundles are"),
    ],
)
def test_a_bundle_that_is_wrong_is_refused_before_anything_is_written(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=reason):
        unpacked(data, tmp_path / "copy", limit_bytes=1_000)

    assert list(tmp_path.iterdir()) == []


def test_other_bytes_than_announced_are_refused(tmp_path: Path) -> None:
    bundle = pack(project(tmp_path / "project"))
    other = written(("agent.py", b"import os"))

    with pytest.raises(InvalidFile, match="its hash does not match"):
        unpack(other, bundle.digest, tmp_path / "copy")

    assert not (tmp_path / "copy").exists()
