"""The file that the Python processes of a recorded program find first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replaykit.programs.plan import INJECT_DIRECTORY, RECORDING, SESSION


@pytest.mark.parametrize(("own_file", "collects"), [("", "True"), ("import gc; gc.disable()", "False")])
def test_garbage_is_collected_in_a_program_as_it_would_be_without_it(own_file: str, collects: str) -> None:
    Path("sitecustomize.py").write_text(own_file)
    places = os.pathsep.join([str(INJECT_DIRECTORY), os.getcwd()])
    program = "import gc, sys; print(gc.isenabled(), 'replaykit.programs.process_startup' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": places, SESSION: "over", RECORDING: "r1"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == (f"{collects} True\n", "")
