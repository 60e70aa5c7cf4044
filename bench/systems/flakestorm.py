"""Flakestorm: replay sessions as YAML files; the agent is run again and its answer checked by a contract.

It does not serve recorded tool results to the agent, so its figures hold less work than ReplayKit's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import measurements
from clock import Stopwatch
from measurements import Numbers

NAME = "Flakestorm"
DISTRIBUTION = "flakestorm"

_CONFIG = """\
version: "2.0"
agent: {type: python, endpoint: "candidate:answer"}
golden_prompts: ["Where is order 7?"]
invariants: [{type: contains, value: "shipped"}]
contract:
  name: default
  invariants: [{id: answers, type: contains, value: "shipped"}]
"""
_SESSION = """\
id: case-%04d
input: "Where is order 7?"
tool_responses: [{tool: lookup, response: {status: shipped}}]
contract: default
"""
_AGENT = """\
async def answer(question):
    return "Your order was shipped."
"""


def cli_replay(work: Path) -> Numbers:
    """One replay of one session with a Python agent: `flakestorm replay run FILE`."""
    (work / "flakestorm.yaml").write_text(_CONFIG)
    (work / "session.yaml").write_text(_SESSION % 1)
    (work / "candidate.py").write_text(_AGENT)
    statement = (
        "import sys; sys.argv = ['flakestorm', 'replay', 'run', 'session.yaml'];"
        "from flakestorm.cli.main import app; app()"
    )
    return measurements.process(["-c", statement], work, env={"PYTHONPATH": str(work)}, expect="passed=True", times=8)


def cases(work: Path, count: int) -> Numbers:
    """Load and run `count` sessions one after the other in this process."""
    from flakestorm.core.config import load_config
    from flakestorm.core.protocol import PythonAgentAdapter
    from flakestorm.replay.loader import ReplayLoader, resolve_contract
    from flakestorm.replay.runner import ReplayRunner

    (work / "flakestorm.yaml").write_text(_CONFIG)
    for index in range(count):
        (work / f"case-{index:04}.yaml").write_text(_SESSION % index)

    async def answer(question: str) -> str:
        return "Your order was shipped."

    async def replay_all() -> int:
        config = load_config(work / "flakestorm.yaml")
        runner, passed = ReplayRunner(PythonAgentAdapter(answer)), 0
        for file in sorted(work.glob("case-*.yaml")):
            session = ReplayLoader().load_file(file)
            result = await runner.run(session, resolve_contract(session.contract, config, work))
            passed += result.passed
        return passed

    with Stopwatch() as watch:
        passed = asyncio.run(replay_all())
    if passed != count:
        raise AssertionError(f"{count - passed} of {count} sessions did not pass")
    return {"total_s": watch.cpu_s, "total_wall_s": watch.wall_s}


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import flakestorm", work)


def help_time(work: Path) -> Numbers:
    return measurements.start_up(measurements.help_statement("flakestorm.cli.main:app", "flakestorm"), work)
