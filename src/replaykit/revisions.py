"""Files of a git repository as they are at a revision, without running anything that the repository holds.

Only plumbing is used, and only objects are read: no hook, filter, text conversion or file system monitor has a part in
that. Whatever the repository's own configuration could start is turned off all the same, and so is fetching.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from replaykit.errors import InvalidFile, ReplayKitError, UsageError

_REFUSED = re.compile(r"\s|[\x00-\x1f\x7f]|\.\.|[:?*\[\\{}]")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TIMEOUT_S = 60.0
_MAX_LINE = 4096
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.warnAmbiguousRefs=true",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)


class Revision:
    """One commit of the repository that a directory belongs to."""

    def __init__(self, name: str, directory: Path) -> None:
        """`name` is what a person calls it: a branch, a tag, a commit."""
        _check_name(name)
        self.name = name.removeprefix("refs/remotes/").removeprefix("refs/heads/")
        self._full_name = name
        self.top, self._repository = _repository_of(directory)
        self.commit = self._resolved()

    def __str__(self) -> str:
        return self.name

    def holds(self, file: Path) -> bool:
        """True for a path inside of the repository, whether there is such a file or not."""
        return self._path_of(file) is not None

    def has(self, file: Path) -> bool:
        """True when there is a file at this path at the revision."""
        return self._find(file) is not None

    def read(self, file: Path, *, limit_bytes: int) -> bytes | None:
        """Return the content of a file of the working tree at the revision; None where there is none."""
        found = self._find(file)
        if found is None:
            return None
        blob, size = found
        if size > limit_bytes:
            raise InvalidFile(f"larger than {limit_bytes:,} bytes at {self.name}", file=str(file))
        ended = self._git("cat-file", "blob", blob)
        if ended.returncode or len(ended.stdout) != size:
            raise ReplayKitError(f"{file} cannot be read at {self.name}: {_last_line(ended.stderr)}")
        return ended.stdout

    def _find(self, file: Path) -> tuple[str, int] | None:
        """The name of the object that a file is at the revision, and its size."""
        path = self._path_of(file)
        if path is None:
            raise UsageError(f"{file} is not in the repository {self.top}")
        if "\n" in path:
            return None  # git is asked line by line
        question = f"{self.commit}:{path}\n".encode("utf-8", "surrogateescape")
        found = self._git("cat-file", "--batch-check", "--follow-symlinks", stdin=question).stdout.split()
        if len(found) == 3 and found[1] == b"blob":
            return found[0].decode(), int(found[2])
        self._check_is_whole(path)
        return None

    def _path_of(self, file: Path) -> str | None:
        """The path from the top of the repository; links in the working tree lead nowhere."""
        relative = os.path.relpath(os.path.normpath(file.absolute()), self.top)
        parts = Path(relative).parts
        if not parts or parts[0] == os.pardir or os.path.isabs(relative):
            return None
        return str(PurePosixPath(*parts))

    def _resolved(self) -> str:
        ended = self._git("rev-parse", "--verify", f"{self._full_name}^{{commit}}")
        if b"is ambiguous" in ended.stderr:
            hint = f"Write it in full, such as refs/remotes/{self.name} or refs/tags/{self.name}."
            raise UsageError(f"{self.name!r} means several revisions of {self.top}", hint=hint)
        commit = ended.stdout.decode("ascii", "replace").strip()
        if ended.returncode or not _COMMIT.fullmatch(commit):
            raise UsageError(f"there is no revision {self.name!r} in {self.top}", hint=self._how_to_fetch())
        return commit

    def _how_to_fetch(self) -> str:
        branch = self.name.removeprefix("origin/")
        if _COMMIT.fullmatch(branch):
            refspec = branch
        else:
            refspec = f"{branch}:refs/remotes/origin/{branch}"
        command = shlex.join(["git", "fetch", "--depth=1", "origin", refspec])
        if branch != self.name or refspec == branch:
            again = ""
        else:
            again = f"\nThen it is called origin/{branch}."
        return f"A shallow clone holds one commit. Fetch the other one:\n  {command}{again}"

    def _check_is_whole(self, path: str) -> None:
        """An error where a file is listed in the revision and its content was not fetched: it is not missing."""
        ended = self._git("ls-tree", "--full-tree", "-z", self.commit, "--", path)
        if ended.returncode or ended.stdout.startswith(b"100"):  # the mode of a file
            message = f"{path} of {self.name} is not in this clone, which holds only a part of the objects"
            raise UsageError(message, hint=f"Fetch it:  git fetch --refetch --no-filter origin {self.commit}")

    def _git(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return _git(self._repository, *words, stdin=stdin)


def is_tracked(file: Path) -> bool:
    """True for a file that git has in its index: it may have come with the repository."""
    directory = Path(os.path.normpath(file.absolute())).parent
    top = next((place for place in (directory, *directory.parents) if (place / ".git").exists()), None)
    if top is None:
        return False
    path = PurePosixPath(directory.relative_to(top), file.name)
    try:
        found = _git(top / ".git", f"--work-tree={top}", "ls-files", "-z", "--", str(path))
    except ReplayKitError:  # there is no git here
        return True
    return found.returncode != 0 or bool(found.stdout)


def checked_out_commit(directory: Path, *, compares_files: bool) -> str:
    """Return the commit that is checked out around a directory; empty if there is none, or if tracked files differ.

    Comparing files may run filters that the repository configures. Without it, they count as unchanged.
    """
    try:
        top, repository = _repository_of(directory)
        found = _git(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        commit = found.stdout.decode("ascii", "replace").strip()
        if found.returncode or not _COMMIT.fullmatch(commit):
            return ""
        compare = ("diff-index", "--quiet", "--ignore-submodules", commit)
        if compares_files and _git(repository, f"--work-tree={top}", *compare).returncode:
            return ""
    except ReplayKitError:  # no repository, or no git
        return ""
    return commit


def _git(repository: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    git = shutil.which("git")
    if git is None:
        raise UsageError("git is not installed, and the configuration is to be read from a revision")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    command = [git, "--no-pager", f"--git-dir={repository}", *settings, *words]
    try:
        return subprocess.run(
            command, env=environment, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ReplayKitError(f"git gave no answer within {_TIMEOUT_S:g} s: {' '.join(words)}") from None


def base_of_pull_request(environment: Mapping[str, str]) -> str:
    """The base branch of the pull request that a pipeline runs for; nothing where the environment names none.

    In full: a pull request may bring a branch or a tag that is called `origin/main`.
    """
    branch = environment.get("GITHUB_BASE_REF", "")
    if branch:
        return f"refs/remotes/origin/{branch}"
    return ""


def _check_name(name: str) -> None:
    if not name or name.startswith("-") or _REFUSED.search(name):
        hint = "Write a branch, a tag or a commit, such as origin/main."
        raise UsageError(f"{name!r} does not name a revision", hint=hint)


def _repository_of(directory: Path) -> tuple[Path, Path]:
    """The working tree that a directory is in, and its repository.

    Git itself would take a directory for a repository if it only looks like one; files of a pull request can.
    """
    start = Path(os.path.normpath(directory.absolute()))
    for top in (start, *start.parents):
        repository = top / ".git"
        if repository.is_dir():
            return top, repository
        if repository.is_file():
            _refuse_submodule(top, repository)
            return top, repository
    raise UsageError(f"{start} is in no git repository", hint="The configuration of a revision needs one.")


def _refuse_submodule(top: Path, file: Path) -> None:
    """A submodule holds what the repository around it says, and a pull request can say something else."""
    text = file.read_text(encoding="utf-8", errors="replace")[:_MAX_LINE]
    if "modules" in Path(text.partition(":")[2].strip()).parts:
        hint = "Run it in the repository around it, or in a clone of its own."
        raise UsageError(f"{top} is a submodule: the commit it is at is part of a pull request", hint=hint)


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    if lines:
        return lines[-1]
    return "git says nothing"
