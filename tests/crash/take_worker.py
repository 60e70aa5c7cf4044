"""Replaces the take of a case again and again, killed one file operation later each time; prints how often it was."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from pathlib import Path

from replaykit.cases.case import load_case
from replaykit.cases.takes import TAKE_FORMAT, Take, write_take
from replaykit.isolation import kernel
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

FILE_OPERATIONS = ("open", "os.", "shutil.")


def kill_at(step: int) -> None:
    """Kill this process just before its file operation of that number."""
    count = 0

    def hook(event: str, _: object) -> None:
        nonlocal count
        if event.startswith(FILE_OPERATIONS):
            count += 1
            if count == step + 1:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def replace_take(case: Path) -> None:
    calls = [ToolCall(seq=0, name="look", result_json=raw("new")), ToolCall(seq=1, name="ask", result_json=raw("new"))]
    write_take(load_case(case), Take(replaykit=TAKE_FORMAT, name="fix"), calls, {}, replace=True)


def without_exchange(first: str, second: str) -> None:
    raise OSError(errno.EINVAL, "this file system cannot exchange names")


def main(template: str, root: str, mode: str) -> None:
    if mode == "renames":
        kernel.exchange = without_exchange
    step = 0
    while True:
        case = Path(root) / f"step-{step}" / "shop"
        shutil.copytree(template, case)
        child = os.fork()
        if not child:
            kill_at(step)
            replace_take(case)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
        step += 1
    print(step if os.WEXITSTATUS(status) == 0 else -1)


if __name__ == "__main__":
    main(*sys.argv[1:4])
