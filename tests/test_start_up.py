"""Starting up costs what is loaded: modules that the ordinary case has no use for stay out of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def ours(names: str) -> frozenset[str]:
    """Return modules of ReplayKit by their names."""
    return frozenset(f"replaykit.{name}" for name in names.split(" "))


WITH_LOOPS = frozenset({"aiohttp", "asyncio", "concurrent.futures", "http.client", "multiprocessing", "ssl"})
SLOW = WITH_LOOPS | {"email", "logging", "rich", "secrets", "tempfile", "time_machine"}
OF_COMMANDS = frozenset({"click", "ctypes", "socket", "subprocess", "unicodedata", "yaml"})
OF_REPLAYS = ours("candidates cases checks handlers.replay model.jsonpath model.matching model.result terminal")
CLOSER_LOOK = ours("redaction.placeholders redaction.search redaction.streams redaction.text_edits")
OTHER_WORK = ours("handlers.chaos judges programs.proxy registry store.removal store.repair viewer")
OF_WORKERS = ours("handlers.replay.handler handlers.replay.tape seam.processes seam.scope seam.through store.sqlite")

RECORDING = """
import replaykit as rk

@rk.tool
def look_up(order):
    return {"order": order, "status": "shipped"}

with rk.record("orders", input="Where is order 7?", store="runs.db"):
    look_up(7)
"""
COMMAND = """
import sys
from replaykit.__main__ import main
sys.argv = ["replaykit", "replay", "late-order", "--agent", "agent:agent"]
try:
    main()
except SystemExit as ended:
    assert ended.code == 0, ended.code
"""
AGENT = """
import replaykit as rk

@rk.tool
def look_up(order):
    raise AssertionError("answered from the tape")

def agent(question):
    return look_up(7)["status"]
"""
CASE = """
replaykit: 1
id: late-order
scenario:
  input: "Where is order 7?"
observed:
  - status_is: error
desired:
  - status_is: success
"""
FIXTURE = """
{"replaykit": 1, "kind": "tool_call", "name": "look_up",
 "calls": [{"call": 0, "path": "", "arguments": {"order": 7}, "result": {"status": "shipped"}}]}
"""
TELL = "\nimport sys\nprint('\\n' + ' '.join(sys.modules))"


def loaded(code: str, directory: Path) -> frozenset[str]:
    """Return the modules that are loaded when a new interpreter has run the code."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REPLAYKIT_", "OTEL_", "COV_"))}
    done = subprocess.run(
        [sys.executable, "-c", code + TELL], cwd=directory, env=clean, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return frozenset(done.stdout.splitlines()[-1].split())


@pytest.fixture
def bare(tmp_path: Path) -> frozenset[str]:
    """The modules of an interpreter that does nothing; what is installed beside may bring some."""
    return loaded("", tmp_path)


def test_the_import_loads_no_other_module_of_replaykit(tmp_path: Path, bare: frozenset[str]) -> None:
    assert loaded("import replaykit", tmp_path) - bare <= {"__future__", "replaykit"}


def test_a_first_recorded_call_loads_what_it_needs_and_no_more(tmp_path: Path, bare: frozenset[str]) -> None:
    found = loaded(RECORDING, tmp_path) - bare

    assert "replaykit.redaction.prefilter" in found
    assert found & (SLOW | OF_COMMANDS | OF_REPLAYS | CLOSER_LOOK | OTHER_WORK) == frozenset()


def test_a_process_that_starts_a_replay_loads_no_replayer(tmp_path: Path, bare: frozenset[str]) -> None:
    case = tmp_path / "late-order"
    (case / "fixtures").mkdir(parents=True)
    (case / "case.yaml").write_text(CASE)
    (case / "fixtures" / "look_up.json").write_text(FIXTURE)
    (tmp_path / "agent.py").write_text(AGENT)

    found = loaded(COMMAND, tmp_path) - bare

    assert "replaykit.candidates.python" in found
    unused = OTHER_WORK - {"replaykit.registry"} | {"replaykit.redaction.text_edits"}
    assert found & (SLOW | OF_WORKERS | unused) == frozenset()
