"""On other systems than Linux there are no sandboxes, and nothing that needs one is imported."""

from __future__ import annotations

import subprocess
import sys

import replaykit.isolation
from replaykit.model import isolation

PROGRAM = """
import sys
sys.platform = "darwin"
sys.modules["fcntl"] = None  # as on Windows: to import it is an error
from replaykit.model.isolation import NO_CONSENT
from replaykit.candidates.consent import consent_of
from replaykit.candidates.confinement import confined_tree, without_sandbox

consent_of(connect=["db.internal:5432"])
with confined_tree(NO_CONSENT) as inside:
    print(inside.isolation().level.value, *inside.isolation().notes)
"""


def test_a_candidate_elsewhere_has_the_guards_of_its_process_alone() -> None:
    clean = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, env=clean)

    assert done.stderr == ""
    assert done.stdout == "process only Linux offers sandboxes\n"


def test_results_and_sandboxes_grade_the_same_channels() -> None:
    assert isolation.CHANNELS == replaykit.isolation.CHANNELS
