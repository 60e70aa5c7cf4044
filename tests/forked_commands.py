"""Commands in processes of their own that start in no time: forks of a process that has imported the command line.

It holds nothing of a test: `multiprocessing` starts it on first use, and no test runs in it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

from replaykit.cli import run

# Imported once, and not in each fork.
_PACKAGES = ("candidates.workers", "cases.lint", "cli.import", "cli.replay", "redaction.redactor", "report.replays")
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([f"replaykit.{name}" for name in _PACKAGES])
_TIMEOUT_S = 60


def run_forked(words: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Run `replaykit` with these words in the working directory; return its exit code, output and error output."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _FORKS.Process(target=_become, args=(words, environment, os.getcwd(), out, err))
        process.start()
        process.join(_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"replaykit {words} took longer than {_TIMEOUT_S} s")
        assert process.exitcode is not None
        code = process.exitcode
        process.close()
        return code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


def _become(words: list[str], environment: dict[str, str], directory: str, out: Path, err: Path) -> None:
    for number, file in ((1, out), (2, err)):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path.insert(0, directory)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.exit(int(run(words)))
