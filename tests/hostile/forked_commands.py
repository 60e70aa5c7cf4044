"""A program that runs command lines of ReplayKit, each in a forked process with a deadline, and prints how they ended.

    python forked_commands.py DEADLINE_S LINES

LINES is a JSON list of lists of words; the first word is a verb, or `pytest`.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from replaykit.cli import run

for name in (
    "cli.ci",
    "cli.lint",
    "cli.replay",
    "cases.lint",
    "redaction.second_check",
    "trials.ci",
    "viewer.suite_file",
):
    importlib.import_module(f"replaykit.{name}")  # once, and not in each fork


def main() -> None:
    deadline_s = float(sys.argv[1])
    print(json.dumps([_ended(words, deadline_s) for words in json.loads(sys.argv[2])]))


def _ended(words: list[str], deadline_s: float) -> dict[str, Any]:
    """Run one command line in a fork of this process; return its exit code, output, time and peak memory."""
    with tempfile.TemporaryDirectory() as directory:
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(words, Path(directory))
        status, usage = _wait(child, begun + deadline_s)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "out": Path(directory, "out").read_text(encoding="utf-8", errors="surrogateescape"),
            "err": Path(directory, "err").read_text(encoding="utf-8", errors="surrogateescape"),
            "seconds": time.monotonic() - begun,
            "peak_mib": usage.ru_maxrss / 1024,
        }


def _become(words: list[str], directory: Path) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(directory / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        faulthandler.enable(2)
        if words[0] == "pytest":
            os.execv(sys.executable, [sys.executable, "-m", "pytest", *_without_other_plugins(), *words[1:]])
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _without_other_plugins() -> list[str]:
    """Options of pytest; what else is installed here takes seconds to load."""
    others = [point.name for point in entry_points(group="pytest11") if point.name != "replaykit"]
    return [word for name in ("cacheprovider", *others) for word in ("-p", f"no:{name}")]


def _wait(child: int, give_up: float) -> tuple[int, resource.struct_rusage]:
    """Wait for a process; end it and its group where it takes too long."""
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return status, usage
        if time.monotonic() > give_up:
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(0.01)


if __name__ == "__main__":
    main()
