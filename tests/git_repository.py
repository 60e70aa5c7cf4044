"""Real git repositories for tests, with nothing of the machine's own configuration in them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PERSON = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
_ENVIRONMENT = {
    **_PERSON,
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Repository:
    """A working tree with a repository."""

    def __init__(self, top: Path) -> None:
        self.top = top

    @classmethod
    def new(cls, top: Path) -> Repository:
        top.mkdir(parents=True, exist_ok=True)
        made = cls(top)
        made.git("init", "-q", "-b", "main")
        return made

    def git(self, *words: str) -> str:
        """Run git there; return what it printed."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *words],
            cwd=self.top,
            env={**plain, **_ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            file = self.top / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def commit(self, files: dict[str, str] | None = None) -> str:
        """Commit these files and all others that changed; return the commit."""
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def base_branch(self, name: str = "main") -> None:
        """Let `origin/NAME` be what is committed now, as after a fetch."""
        self.git("update-ref", f"refs/remotes/origin/{name}", "HEAD")
