"""The warning filters in pyproject.toml: our own warnings fail a test, deprecations in dependencies do not.

A newer Python or a newer release of a dependency deprecates things that other packages still use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CATEGORIES = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")

WARNING_MODULE = """
import warnings

def warn(category, stacklevel=1):
    warnings.warn("old", category, stacklevel=stacklevel)

def leave_a_file_open():
    open(__file__)

def fail_in_a_finalizer():
    class Broken:
        def __del__(self):
            raise ValueError("broken")
    Broken()
"""

OUR_MODULE = """
import dependency

def call_something_deprecated():
    dependency.warn(DeprecationWarning, stacklevel=2)
"""

TESTS = f"""
import warnings
import dependency
import pytest
import replaykit.ours
import replaykit.warning

@pytest.mark.parametrize("category", [{", ".join(CATEGORIES)}])
class TestDeprecation:
    def test_in_a_dependency(self, category):
        dependency.warn(category)

    def test_in_replaykit(self, category):
        replaykit.warning.warn(category)

    def test_in_a_test(self, category):
        warnings.warn("old", category)

@pytest.mark.parametrize("category", [UserWarning, RuntimeWarning])
def test_another_warning_in_a_dependency(category):
    dependency.warn(category)

def test_replaykit_calls_something_deprecated():
    replaykit.ours.call_something_deprecated()

def test_a_dependency_with_an_invalid_escape():
    import dependency_with_an_escape

def test_replaykit_with_an_invalid_escape():
    import replaykit.with_an_escape

def test_a_dependency_leaves_a_file_open():
    dependency.leave_a_file_open()

def test_a_finalizer_fails_in_a_dependency():
    dependency.fail_in_a_finalizer()
"""


def run_tests(project: Path) -> dict[str, str]:
    """Run TESTS under this project's filters; return each test's outcome."""
    ours, theirs, tests = project / "src" / "replaykit", project / "lib" / "site-packages", project / "tests"
    for directory in (ours, theirs, tests):
        directory.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", project)
    (ours / "__init__.py").touch()
    (ours / "warning.py").write_text(WARNING_MODULE)
    (ours / "ours.py").write_text(OUR_MODULE)
    (ours / "with_an_escape.py").write_text(r"DIGIT = '\d'")
    (theirs / "dependency.py").write_text(WARNING_MODULE)
    (theirs / "dependency_with_an_escape.py").write_text(r"DIGIT = '\d'")
    (tests / "test_warnings.py").write_text(TESTS)
    env = {**os.environ, "PYTHONPATH": f"{ours.parent}{os.pathsep}{theirs}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env.pop("PYTEST_ADDOPTS", None)

    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=60)

    found = re.findall(
        r"^(PASSED|FAILED) tests/test_warnings\.py::(?:TestDeprecation::)?(\S+)", done.stdout, re.MULTILINE
    )
    assert found, done.stdout + done.stderr
    return {name: outcome for outcome, name in found}


def test_only_deprecations_in_dependencies_pass(own_directory: Path) -> None:
    outcomes = run_tests(own_directory / "tests" / "replaykit")  # the path of a clone may have our own words in it

    passed = {name for name, outcome in outcomes.items() if outcome == "PASSED"}
    assert passed == {
        *(f"test_in_a_dependency[{category}]" for category in CATEGORIES),
        "test_a_dependency_with_an_invalid_escape",
    }
    assert len(outcomes) == 16
