"""The examples in the help of every command run as they are written, in a project that has what they name."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.conftest import CASE
from tests.cli.test_flags import COMMANDS
from tests.formats.samples import sample
from tests.matrix import sampled

import replaykit as rk
from replaykit.export.forms import EXPORTERS
from replaykit.formats.files import import_trace
from replaykit.store.backup import backup

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE = "needs Node; tests/programs/test_node.py"
MODEL = "asks a real model"
SERVICE = "needs an account of the service; tests/intake"
SERVER = "runs until it is stopped; tests/programs/mcp and tests/intake/receiver"
VIEWER = "runs until it is stopped; tests/viewer"
TERMINAL = "asks questions on a terminal; tests/cli/test_debug_terminal.py and tests/judges"
LABELS = "needs a case with scores and labels; tests/judges"
SYSTEM = "writes outside of the project"
CANNOT_RUN = {
    "replaykit record --name billing -- node agent.mjs": NODE,
    "replaykit record --upstream stripe=https://api.stripe.com -- node agent.mjs": NODE,
    'replaykit record --mcp-config .mcp.json -- claude --mcp-config .mcp.json -p "..."': "needs Claude Code",
    "replaykit mcp --record -- npx -y some-mcp-server": SERVER,
    "replaykit mcp --replay RUN -- npx -y some-mcp-server": SERVER,
    "replaykit mcp --record --http http://127.0.0.1:8000/mcp": SERVER,
    "replaykit import langfuse --trace 4bf92f3577b34da6a3ce929d0e0e4736": SERVICE,
    "replaykit import langfuse --all --status error --since 7d -o replays": SERVICE,
    "replaykit import langsmith --trace 0199a1b2-…": SERVICE,
    "replaykit import langsmith --project support --status error --since 7d --min-latency-ms 5000 -o replays": SERVICE,
    "replaykit import mlflow --trace tr-8587b4f292f32356af1ee984320a878b": SERVICE,
    "replaykit import mlflow --experiment support --status all --since 7d --dry-run": SERVICE,
    "replaykit import phoenix --project support --since 24h": SERVICE,
    "replaykit import phoenix --project support --trace 4bf92f3577b34da6a3ce929d0e0e4736": SERVICE,
    "replaykit import sources -c replaykit.yaml": SERVICE,
    "replaykit serve": SERVER,
    "replaykit view": VIEWER,
    "replaykit view last-failed --agent my_agent:answer": VIEWER,
    "replaykit view 20260215-143200 20260215-150112": VIEWER,
    "replaykit view ci": VIEWER,
    "replaykit replay cases/billing -- node agent.mjs": NODE,
    "replaykit retape cases/billing --agent my_agent:answer --live gpt-5": MODEL,
    "replaykit judge cases/billing --ask-judge --judge openai:gpt-4o-mini": MODEL,
    "replaykit judge review cases/billing": TERMINAL,
    "replaykit judge review cases/billing --answer 3=0.8 --answer 4=billing": LABELS,
    "replaykit chaos mutate --by openai:gpt-4o-mini --ask-model": MODEL,
    "replaykit ci --untrusted": "needs a pull request; tests/hostile",
    """replaykit fork 20260215-143200 --step step_2 --response '"call the user"' --agent my_agent:answer""": MODEL,
    "replaykit debug 20260215-143200": TERMINAL,
    "replaykit debug billing --step step_3 --agent my_agent:answer": TERMINAL,
    "replaykit examples copy time_travel /tmp/try": SYSTEM,
    "replaykit store stats --prometheus > /var/lib/node_exporter/replaykit.prom": SYSTEM,
    'eval "$(replaykit help completion zsh)"': "needs zsh",
    "replaykit help completion fish | source": "needs fish",
}
"""The examples that cannot run here, and why."""
BEFORE = {
    "replaykit scaffold examples/traces/search-loop.json --out cases/search-loop": "rm -r cases/search-loop",
    "replaykit scaffold 20260215-143200 --out cases/checkout --agent my_agent:answer": "rm -r cases/checkout",
    "replaykit export --from-report reports/ci.json -o replays": "replaykit ci --agent old_agent:answer -o reports",
    "replaykit ci merge .replaykit/shards": "replaykit ci --shard 1/2; replaykit ci --shard 2/2",
    "replaykit ci merge downloaded -o reports": (
        "replaykit ci --shard 1/2 -o downloaded; replaykit ci --shard 2/2 -o downloaded"
    ),
    "replaykit judge cases/billing": "replaykit replay cases/billing --agent my_agent:answer",
    'replaykit judge review cases/billing --pass 1 --fail 2 --note "It blames the customer"': (
        "replaykit replay cases/billing --agent my_agent:answer"
    ),
    "replaykit view cases/billing --share billing.html": (
        "rm -r cases/billing; replaykit scaffold 20260215-143200 --out cases/billing"
    ),
}
"""What has to run before."""

MY_AGENT = """
import replaykit as rk

@rk.tool(effects="none")
def search_docs(query, attempt):
    return {"docs": [query], "attempt": attempt}

@rk.record("refunds")
def answer(question, state=None):
    with rk.record("refunds") as run:
        state = state or {"question": question, "tries": 0, "max_retries": 7}
        while state["tries"] < state["max_retries"]:
            with run.step(f"step_{state['tries'] + 1}", state=state) as step:
                found = search_docs(question, state["tries"])
                state = step.done({**state, "tries": state["tries"] + 1, "docs": found["docs"]})
        return f"{len(state['docs'])} documents"
"""
OLD_AGENT = """
from my_agent import search_docs

def answer(question):
    search_docs(question, 0)
    raise RuntimeError("no answer")
"""
PROGRAM = "import sys\nprint('You paid for a year.')\n"
OLD_PROGRAM = """
import replaykit as rk

with rk.record("billing"):
    raise RuntimeError("no answer")
"""
RUNNER = """
import json, os
open(os.environ["REPLAYKIT_OUTPUT_PATH"], "w").write(json.dumps({"status": "%s", "final_output": "x", "errors": %s}))
"""
CONFIG = """
replaykit: 1
agent: {type: python, endpoint: 'my_agent:answer'}
cases: [cases/billing]
inputs: ["Where is my order?"]
contracts:
  safety: {invariants: [{id: answers, type: output_not_empty, severity: critical}]}
replays: {sessions: [{file: replays/incident_001.yaml}]}
"""
SESSION = """
id: incident_001
name: incident
input: Where is my order?
contract: safety
expected_failure: It found nothing.
"""
CONTRACT = "name: safety\ninvariants: [{id: answers, type: output_not_empty, severity: critical}]\n"


def examples(path: str) -> list[str]:
    """Return the examples in the help of a command."""
    lines = []
    for line in (COMMANDS[path].command.help or "").splitlines():
        line = line.strip()
        if line.startswith(("replaykit ", "eval ", "echo ", "zcat ", "git ")):
            lines.append(line)
    return lines


RUNNABLE = [line for path in COMMANDS for line in examples(path) if line not in CANNOT_RUN]


def add_runs(root: Path) -> None:
    """Record runs, and write the traces, the report and the backup that examples name."""
    store = root / ".replaykit" / "store.db"
    agent: dict[str, Any] = {}
    exec(compile(MY_AGENT, "my_agent.py", "exec"), agent)  # ours: the text above
    with rk.Store.open(store) as opened:
        with rk.record("refunds", store=opened):
            agent["answer"]("Where is my order?")
        recorded = opened.load("refunds")
        for run_id, name in (("20260215-143200", "refunds"), ("20260215-150112", "checkout"), ("0199a1b2", "billing")):
            opened.add(replace(recorded, id=run_id, name=name))
        failed = import_trace(EXAMPLES / "traces" / "search-loop.json").runs[0]
        opened.add(replace(failed, id="20260216-failed"))
        opened.delete([recorded.id])
        backup(opened, root / "nightly.db")
        text = EXPORTERS.get("run_log")(replace(failed, id="0199a1b2", started_at=time.time()))
    for name in ("before.json", "after.json"):
        (root / name).write_bytes(text)
    (root / "exported.jsonl.gz").write_bytes(gzip.compress(json.dumps(json.loads(text)).encode()))
    shutil.copy(EXAMPLES / "traces" / "search-loop.json", root / "runs.jsonl")
    langsmith = sample("langsmith/merged_runs_1_support_agent.json").read_bytes()
    (root / "runs.json.gz").write_bytes(gzip.compress(langsmith))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has what the examples name."""
    root = tmp_path_factory.mktemp("examples")
    files = {
        "my_agent.py": MY_AGENT,
        "old_agent.py": OLD_AGENT,
        "agent.py": PROGRAM,
        "old.py": OLD_PROGRAM,
        "good.py": RUNNER % ("success", "[]"),
        "runner.py": RUNNER % ("success", "[]"),
        "bad.py": RUNNER % ("error", '["no answer"]'),
        "replaykit.yaml": CONFIG,
        "replays/incident_001.yaml": SESSION,
        "contracts/safety.yaml": CONTRACT,
        "cases/billing/case.yaml": json.dumps({**CASE, "semantic": ["It is polite", "It helps"]}),
        "cases/search-loop/case.yaml": json.dumps({**CASE, "id": "search-loop"}),
        "cases/checkout/case.yaml": json.dumps({**CASE, "id": "checkout"}),
        "fixtures/note.txt": "nothing secret\n",
        "answers.yaml": "- {tool: search_docs, result: {docs: []}}\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    add_runs(root)
    shutil.copytree(EXAMPLES / "traces", root / "examples" / "traces")
    shutil.copytree(EXAMPLES / "traces", root / "traces")
    for command in (["init", "-q"], ["add", "my_agent.py"], ["commit", "-q", "-m", "Add an agent"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *command], cwd=root, check=True)
    return root


@pytest.fixture
def project(prepared: Path, own_directory: Path) -> Path:
    """The project in a directory of its own, with the command on its path."""
    shutil.copytree(prepared, own_directory, dirs_exist_ok=True)
    return own_directory


def run_line(line: str, project: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(project)}
    return subprocess.run(["bash", "-c", line], cwd=project, env=env, capture_output=True, text=True, timeout=120)


def test_every_example_that_cannot_run_is_one() -> None:
    assert CANNOT_RUN.keys() <= {line for path in COMMANDS for line in examples(path)}


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_every_command_has_an_example_that_runs_or_a_reason(path: str) -> None:
    assert examples(path)


@sampled("line", RUNNABLE, count=4)
def test_an_example_runs_as_it_is_written(project: Path, line: str) -> None:
    if line in BEFORE:
        run_line(BEFORE[line], project)

    ran = run_line(line, project)

    assert ran.returncode in (0, 1), ran.stderr
    assert ran.stdout or ran.stderr or ">" in line or "eval" in line
    assert "internal error" not in ran.stderr
    assert not ran.stderr.startswith("error: "), ran.stderr
