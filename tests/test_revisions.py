"""Files at a revision: what is read, what is refused, and that a repository has nothing run."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.git_repository import Repository

from replaykit.errors import InvalidFile, UsageError
from replaykit.revisions import Revision, base_of_pull_request

LIMIT = 1 << 20


@pytest.fixture
def repository(own_directory: Path) -> Repository:
    made = Repository.new(own_directory)
    made.commit({"replaykit.yaml": "base\n", "below/other.yaml": "other\n"})
    made.base_branch()
    made.write({"replaykit.yaml": "changed\n"})
    return made


def read(path: str = "replaykit.yaml", revision: str = "origin/main") -> bytes | None:
    return Revision(revision, Path()).read(Path(path), limit_bytes=LIMIT)


def test_a_file_is_read_as_the_revision_has_it(repository: Repository) -> None:
    assert read() == b"base\n"
    assert read("below/other.yaml") == b"other\n"
    assert read("nowhere.yaml") is None
    assert read("below") is None
    assert read(revision=repository.git("rev-parse", "HEAD")) == b"base\n"
    assert read(revision="HEAD~0^0") == b"base\n"


def test_paths_begin_at_the_working_directory(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.top / "below")

    assert read("other.yaml") == b"other\n"
    assert read("../replaykit.yaml") == b"base\n"
    with pytest.raises(UsageError, match="is not in the repository"):
        read("../../elsewhere.yaml")


def test_links_lead_where_the_revision_says_and_not_the_working_tree(repository: Repository) -> None:
    (repository.top / "link.yaml").symlink_to("below/other.yaml")
    (repository.top / "out.yaml").symlink_to("/etc/hostname")
    repository.commit()
    repository.base_branch()
    (repository.top / "link.yaml").unlink()
    (repository.top / "link.yaml").symlink_to("replaykit.yaml")

    assert read("link.yaml") == b"other\n"
    assert read("out.yaml") is None


def test_a_name_of_two_lines_is_asked_of_the_revision_too(repository: Repository) -> None:
    repository.write({"two\nlines.yaml": "evil\n"})
    revision = Revision("origin/main", Path())

    assert revision.holds(Path("two\nlines.yaml")), "it is not taken for a file outside of the repository"
    assert revision.read(Path("two\nlines.yaml"), limit_bytes=LIMIT) is None


def test_a_file_that_is_too_large_is_refused_before_it_is_read(repository: Repository) -> None:
    with pytest.raises(InvalidFile, match="larger than 3 bytes at origin/main"):
        Revision("origin/main", Path()).read(Path("replaykit.yaml"), limit_bytes=3)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "--help",
        "--output=pwned",
        "HEAD..main",
        "main...HEAD",
        "HEAD:replaykit.yaml",
        ":/change",
        "HEAD^{/change}",
        "main@{upstream}",
        "a b",
        "a\nb",
        "a\0b",
        "*",
    ],
)
def test_what_is_no_revision_is_a_usage_error(repository: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="does not name a revision"):
        Revision(name, Path())
    assert not Path("pwned").exists()


@pytest.mark.parametrize("name", ["nope", "$(touch$IFS)", "`touch`", ";touch", "|touch", "&&touch", "'", "%s"])
def test_a_revision_that_does_not_exist_says_what_to_fetch(repository: Repository, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        Revision(name, Path())

    assert shlex.quote(f"{name}:refs/remotes/origin/{name}") in str(caught.value), "it can be pasted"
    assert not Path("pwned").exists()


def test_a_shallow_clone_says_what_to_fetch_and_that_is_enough(repository: Repository, tmp_path: Path) -> None:
    repository.commit()
    repository.git("branch", "base", "HEAD~1")
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth=1", f"file://{repository.top}", str(clone))

    with pytest.raises(UsageError) as caught:
        Revision("origin/base", clone)

    fetch = "git fetch --depth=1 origin base:refs/remotes/origin/base"
    assert fetch in str(caught.value)
    Repository(clone).git(*fetch.split()[1:])
    revision = Revision("origin/base", clone)
    assert revision.read(clone / "replaykit.yaml", limit_bytes=LIMIT) == b"base\n"


def test_a_name_of_several_revisions_is_refused_and_the_base_branch_is_named_in_full(repository: Repository) -> None:
    repository.commit({"replaykit.yaml": "evil\n"})
    repository.git("branch", "origin/main")  # git takes this one first

    with pytest.raises(UsageError, match="means several revisions"):
        Revision("origin/main", Path())
    full = base_of_pull_request({"GITHUB_BASE_REF": "main"})
    assert read(revision=full) == b"base\n"
    assert str(Revision(full, Path())) == "origin/main"
    assert base_of_pull_request({"GITHUB_BASE_REF": ""}) == ""


def test_a_directory_that_looks_like_a_repository_is_not_taken_for_one(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git itself finds such a directory, and files of a pull request can make one."""
    bare = repository.top / "below"
    evil = Repository.new(tmp_path / "evil")
    evil.commit({"other.yaml": "evil\n", "below/other.yaml": "evil\n"})
    evil.base_branch()
    evil.git("pack-refs", "--all")
    for name in ("HEAD", "config", "objects", "refs", "packed-refs"):
        os.rename(evil.top / ".git" / name, bare / name)
    monkeypatch.chdir(bare)
    assert subprocess.run(["git", "show", "origin/main:other.yaml"], capture_output=True).stdout == b"evil\n"

    assert read("other.yaml") == b"other\n"


def test_replaced_objects_are_not_used(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:replaykit.yaml")
    evil = repository.git("hash-object", "-w", "replaykit.yaml")
    repository.git("replace", blob, evil)
    assert repository.git("show", "HEAD:replaykit.yaml") == "changed"

    assert read() == b"base\n"


def test_variables_of_git_lead_to_no_other_repository(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = Repository.new(tmp_path / "evil")
    evil.commit({"replaykit.yaml": "evil\n"})
    evil.base_branch()
    monkeypatch.setenv("GIT_DIR", str(evil.top / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(evil.top / ".git" / "objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "touch pwned")

    assert read() == b"base\n"
    assert not Path("pwned").exists()


def test_a_submodule_is_refused(repository: Repository, tmp_path: Path) -> None:
    inner = Repository.new(tmp_path / "inner")
    inner.commit({"replaykit.yaml": "evil\n"})
    repository.git("submodule", "--quiet", "add", str(inner.top), "part")

    with pytest.raises(UsageError, match="is a submodule"):
        Revision("origin/main", repository.top / "part")


def test_a_second_working_tree_is_read_as_the_first(repository: Repository, tmp_path: Path) -> None:
    other = tmp_path / "second"
    repository.git("worktree", "add", "-q", str(other), "-b", "second")

    revision = Revision("origin/main", other)

    assert revision.read(other / "replaykit.yaml", limit_bytes=LIMIT) == b"base\n"


def test_outside_of_a_repository_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in no git repository"):
        Revision("main", tmp_path)


def test_without_git_that_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(UsageError, match="git is not installed"):
        Revision("origin/main", Path())


def test_a_hostile_repository_has_nothing_run(repository: Repository) -> None:
    ours = repository.top / "hook"
    ours.write_text(f"#!/bin/sh\ntouch {repository.top}/pwned\ncat\n")
    ours.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-auto-gc"):
        (repository.top / ".git" / "hooks").mkdir(exist_ok=True)
        (repository.top / ".git" / "hooks" / hook).symlink_to(ours)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.gitProxy",
        "core.editor",
        "core.alternateRefsCommand",
        "diff.external",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "credential.helper",
        "gpg.program",
        "uploadpack.packObjectsHook",
    ):
        repository.git("config", name, str(ours))
    repository.git("config", "alias.cat-file", f"!{ours}")
    repository.git("config", "alias.rev-parse", f"!{ours}")
    (repository.top / ".git" / "info").mkdir(exist_ok=True)
    (repository.top / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    repository.write({".gitattributes": "* filter=evil diff=evil export-subst\n"})

    assert read() == b"base\n"
    assert read("nowhere") is None
    assert not (repository.top / "pwned").exists()
    repository.git("--literal-pathspecs", "status")
    assert (repository.top / "pwned").exists(), "the traps work"


def test_a_clone_without_all_objects_fetches_nothing_and_says_so(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = Repository(tmp_path / "clone")
    source = f"file://{repository.top}"
    repository.git("clone", "-q", "--no-checkout", "--filter=blob:none", source, str(clone.top))
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    trap.chmod(0o755)
    clone.git("config", "remote.origin.url", f"ext::{trap}")
    clone.git("config", "protocol.ext.allow", "always")

    with pytest.raises(UsageError, match=r"not in this clone[\s\S]*git fetch"):
        Revision("origin/main", clone.top).read(clone.top / "replaykit.yaml", limit_bytes=LIMIT)

    assert not (tmp_path / "pwned").exists()
    with pytest.raises(subprocess.CalledProcessError):
        clone.git("cat-file", "blob", "origin/main:replaykit.yaml")
    assert (tmp_path / "pwned").exists(), "the trap works"
