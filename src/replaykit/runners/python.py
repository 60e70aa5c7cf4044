"""`module:function` as a candidate, in a fresh process with the tape behind the seam."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.runners.attempt import Attempt
from replaykit.runners.command import attempt_of, runner_environment
from replaykit.runners.loading import check_spec
from replaykit.runners.output import CANNOT_LOAD, REASON_NAME, WORLD_NAME
from replaykit.runners.process import Processes
from replaykit.runners.worlds import world_of

_GRACE_S = 5.0  # the child stops by itself at the time limit; this is for one that cannot


class PythonCandidate:
    """An agent function by name; nothing of it is imported in this process."""

    def __init__(self, spec: str) -> None:
        self.label = check_spec(spec)
        self._processes = Processes()

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Import and call the function in a new interpreter."""
        (workspace / WORLD_NAME).write_bytes(msgspec.json.encode(world_of(case)))
        env = {
            **os.environ,
            **runner_environment(case, workspace),
            "REPLAYKIT_AGENT": self.label,
            "REPLAYKIT_TIMEOUT_S": str(timeout_s),
        }
        command = [sys.executable, "-c", "from replaykit.runners.child import main; main()"]
        ended = self._processes.run(command, env=env, workspace=workspace, timeout_s=timeout_s + _GRACE_S)
        (workspace / WORLD_NAME).unlink()  # the case holds all of it
        reason = workspace / REASON_NAME
        if ended.exit_code == CANNOT_LOAD and reason.exists():
            text = reason.read_text(encoding="utf-8")
            reason.unlink()
            return Attempt(reason=text)
        return attempt_of(ended, workspace, timeout_s)

    def stop(self) -> None:
        """End the function's process wherever it runs."""
        self._processes.stop()
