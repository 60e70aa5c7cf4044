"""The examples of the frameworks that are installed, run as their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.frameworks.conftest import NEEDS, missing
from tests.integrations.frameworks.scripted import EXAMPLES

INSTALLED = [test.removeprefix("test_").removesuffix(".py") for test, names in NEEDS.items() if not missing(names)]
FILES = [path for path in (EXAMPLES / f"{name}_agent.py" for name in INSTALLED) if path.exists()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_gives_the_same_answer_twice_and_runs_its_tools_once(path: Path) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, encoding="utf-8", timeout=90)

    assert done.returncode == 0, done.stderr
    (recorded,), (replayed,) = (re.findall(rf"^{word}: (.+)$", done.stdout, re.M) for word in ("recorded", "replayed"))
    assert recorded == replayed
    assert re.findall(r"^tools that ran.*: (\d+)$", done.stdout, re.M) == ["2", "0"]
