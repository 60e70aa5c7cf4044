"""What commands print with `--json`: every one has a schema, every schema describes what is printed, strictly."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from tests import langfuse_server, langsmith_server, mlflow_server, phoenix_server
from tests.cli.conftest import CASE
from tests.commands import Ran
from tests.result_schemas import flaws

import replaykit as rk
from replaykit.cases.golden import golden_file, golden_of, write_golden
from replaykit.cli import cli
from replaykit.cli.help.schema import DOCUMENTS
from replaykit.cli.options import CommandWithParts
from replaykit.cli.result_types import RESULTS
from replaykit.store.backup import backup

Call = Callable[..., Ran]
EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = EXAMPLES.parent / "docs" / "json.md"
OLD_CASE = Path(__file__).parents[1] / "frozen_files" / "v1" / "case"
WITHOUT_JSON = {
    "help completion": "its output is a script",
    "debug": "it needs a terminal; `show` and `fork` do the same for programs",
    "demo": "it shows people how a failure becomes a case",
    "help": "it prints the help of commands",
}
"""The commands that print no result, and why."""
TESTED_ELSEWHERE = {
    "result.mcp": "a server: tests/programs/mcp/test_cli.py",
    "result.view": "a server: tests/viewer",
    "result.serve": "a server: every line that tests/intake/receiver reads",
}
OBVIOUS = frozenset(
    {
        "cost_usd",
        "duration_s",
        "input_tokens",
        "llm_calls",
        "message",
        "model_calls",
        "name",
        "output_tokens",
        "size_bytes",
        "tool_calls",
    }
)
"""Properties whose name says all."""

AGENT = """
import replaykit as rk

@rk.tool
def lookup(user):
    return {"user": user, "charges": 3}

def answer(question):
    return f"You were charged {lookup('u1')['charges']} times."

def changed(question):
    return f"You were charged {lookup('u2')['charges']} times."

def broken(question):
    lookup("u1")
    raise RuntimeError("out of luck")
"""
CONFIG = """
replaykit: 1
agent: {type: python, endpoint: 'agent:answer'}
cases: [cases/billing]
inputs: ["Why was I charged?"]
mutations: {count: 2}
contracts:
  polite:
    invariants:
      - {id: answers, type: output_not_empty, severity: critical}
      - {id: thanks, type: contains_any, values: [thank], severity: low}
    chaos_matrix:
      - name: calm
      - name: slow
        tool_faults: [{tool: lookup, mode: timeout}]
"""
FAIR = """
replaykit: 1
agent: {type: python, endpoint: 'agent:answer'}
cases: [cases/recorded]
inputs: ["Why was I charged?"]
contracts:
  polite:
    invariants:
      - {id: answers, type: output_not_empty, severity: critical}
"""
GOOD, BAD = "sh good.sh", "sh bad.sh"

LINES: dict[str, dict[str, int]] = {
    "result.record": {
        "record --json -- sh -c 'echo hi'": 0,
        "record --json -- sh -c 'exit 3'": 3,
        "record --recover --json": 0,
    },
    "result.import.files": {
        "import files --json examples/traces": 0,
        "import files --json --dry-run examples/imported/chat.json": 0,
        "import files --json examples/traces --scaffold made": 0,
        "import files --json examples/traces/search-loop.json -o sessions --contract polite": 0,
        "import files --json config.yaml examples/traces": 1,
        "import files --json empty": 5,
    },
    "result.import.langsmith": {"import langsmith --json --project my-production-agent": 0},
    "result.import.langfuse": {"import langfuse --json --all": 0},
    "result.import.phoenix": {"import phoenix --json --project support --status all": 0},
    "result.import.mlflow": {"import mlflow --json --experiment support --status all": 0},
    "result.import.sources": {"import sources --json -c sources.yaml": 0},
    "result.export": {"export checkout -o run.json --json": 0, "export checkout -o run.otlp --format otlp --json": 0},
    "result.export.failures": {"export --from-report ci.json -o made --json": 0},
    "result.scaffold": {
        "scaffold billing --out cases/new --json": 0,
        "scaffold billing --out cases/new --agent agent:answer --json": 1,
        "scaffold examples/traces/search-loop.json --out cases/loop --json": 0,
    },
    "result.lint": {"lint cases --json": 0, "lint wrong --json": 1},
    "result.replay": {
        f"replay cases/billing --runner-cmd '{GOOD}' --json": 0,
        f"replay cases/billing --runner-cmd '{BAD}' --json": 1,
        f"replay cases/billing --runner-cmd '{GOOD}' --repeat 2 --json": 0,
        "replay cases/billing --runner-cmd 'exit 7' --json": 3,
        "replay cases/recorded --agent agent:answer --json": 0,
        "replay cases/recorded --agent agent:changed --json": 1,
        "replay empty --agent agent:answer --json": 5,
    },
    "result.retape": {
        "retape cases/recorded --agent agent:changed --live lookup --yes --json": 0,
        "retape cases/recorded --agent agent:changed --json": 1,
        "retape cases/recorded --agent agent:answer --diverged --json": 0,
    },
    "result.retape.golden": {
        "retape traces/plain.golden.json --agent agent:answer --json": 0,
        "retape traces/plain.golden.json --agent agent:broken --dry-run --json": 1,
    },
    "result.prove": {
        f"prove cases/billing --bad '{BAD}' --good '{GOOD}' --json": 0,
        f"prove cases/billing --bad '{GOOD}' --good '{BAD}' --json": 1,
    },
    "result.golden": {
        "golden plain --out made --json": 0,
        "golden plain --out made --agent agent:answer --json": 0,
        "golden plain --out made --agent agent:broken --json": 1,
    },
    "result.judge": {"judge cases/billing --json": 0, "judge cases/recorded --json": 5},
    "result.judge.review": {
        "judge review cases/billing --pass 1 --json": 0,
        "judge review cases/billing --fail 1 --note 'It is rude' --json": 1,
    },
    "result.contract.run": {
        "contract run --json -c fair.yaml": 0,
        "contract run --json -c config.yaml": 1,
    },
    "result.contract.score": {
        "contract score --json -c fair.yaml": 0,
        "contract score --json -c config.yaml": 1,
    },
    "result.contract.lint": {"contract lint --json config.yaml": 0, "contract lint --json wrong/contract.yaml": 1},
    "result.chaos.run": {
        "chaos run --json -c config.yaml --contract polite": 1,
        "chaos run --json --profile api_outage --agent agent:broken --input hi --scaffold made": 1,
        "chaos run --json --profile degraded_llm --agent agent:answer --input hi": 5,
    },
    "result.chaos.profiles": {"chaos profiles --json": 0},
    "result.chaos.mutate": {"chaos mutate 'Where is my order?' --json": 0},
    "result.chaos.mutate.score": {
        "chaos mutate --run -c config.yaml --json --min-score 0": 0,
        "chaos mutate --run --agent agent:broken --count 2 hi --json": 1,
    },
    "result.ci": {
        "ci --json -c fair.yaml": 0,
        "ci --json -c config.yaml": 1,
        "ci --json -c nothing.yaml": 5,
    },
    "result.ci.merge": {"ci merge .replaykit/shards --json": 0},
    "result.runs": {"runs --json": 0, "runs --json --name nobody": 0},
    "result.show": {"show checkout --json": 0, "show billing --json": 0, "show nobody --json": 3},
    "result.view.share": {"view checkout --share checkout.html --json": 0, "view nobody --share x.html --json": 3},
    "result.show.events": {"show checkout --step plan --json": 0, "show checkout --event 0 --json": 0},
    "result.show.state": {"show checkout --step plan --state --json": 0},
    "result.show.steps": {"show checkout --steps --json": 0, "show empty --steps --json": 0},
    "result.resume": {"resume plain --step 1 --agent agent:answer --json": 0},
    "result.fork": {
        "fork plain --step 1 --result '{\"charges\": 9}' --agent agent:answer --json": 0,
        "fork plain --step 1 --error TimeoutError --agent agent:answer --json": 1,
        "fork plain --step 1 --result 1 --agent agent:answer --dry-run --json": 0,
    },
    "result.compare": {"compare checkout billing --json": 1, "compare checkout checkout --json": 0},
    "result.show.forks": {"show checkout --forks --json": 0, "show plain --forks --json": 0},
    "result.redact.scan": {"redact scan cases --json": 0, "redact scan leaks.txt --json": 1},
    "result.redact": {"redact leaks.txt --dry-run --json": 1, "redact leaks.txt --json": 0, "redact billing --json": 0},
    "result.init": {"init new --json": 0, "init new --agent agent:answer --json": 0},
    "result.doctor": {"doctor --json": 0, "doctor -c config.yaml --json": 0, "doctor --store leaks.txt --json": 1},
    "result.examples": {"examples --json": 0},
    "result.examples.copy": {"examples copy golden made --json": 0},
    "result.lint.upgrade": {
        "lint --upgrade cases --dry-run --json": 0,
        "lint --upgrade old --json": 0,
        "lint --upgrade empty --json": 5,
    },
    "result.store.stats": {"store stats --json": 0, "store stats --store new.db --json": 3},
    "result.store.verify": {"store verify --json": 0, "store verify --store damaged.db --json": 3},
    "result.store.verify.repair": {
        "store verify --repair --store damaged.db --json": 3,
        "store verify --repair --json": 0,
    },
    "result.store.prune": {"store prune --json -c prune.yaml": 0, "store prune --dry-run --json": 0},
    "result.store.keep": {"store keep checkout --json": 0, "store keep checkout --undo --json": 0},
    "result.store.backup": {"store backup copy.db --json": 0},
    "result.store.restore": {"store restore backup.db --force --json": 0},
    "result.help.assertions": {"help assertions --json": 0, "help assertions status_is --json": 0},
    "result.help.formats": {"help formats --json": 0},
    "result.help.schema": {"help schema --json": 0},
}
"""Command lines that print each result, with their exit codes: of success, of failure, and of nothing."""
BEFORE = {
    "result.judge": [f"replay cases/billing --runner-cmd '{GOOD}'"],
    "result.ci.merge": ["ci -c fair.yaml --shard 1/2", "ci -c fair.yaml --shard 2/2"],
    "result.judge.review": [f"replay cases/billing --runner-cmd '{GOOD}'"],
    "result.tree": ["fork plain --step 1 --result 1 --agent agent:answer"],
    "result.export.failures": ["ci -c config.yaml -o ci.json"],
}
"""What has to run before."""


@rk.tool
def lookup(user: str) -> dict[str, Any]:
    return {"user": user, "charges": 3}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that every command line finds what it names in."""
    root = tmp_path_factory.mktemp("project")
    with rk.Store.open(root / ".replaykit" / "store.db") as store:
        with rk.record("checkout", input="Why was I charged?", store=store, tags=["shop"]) as run:
            run.message("user", "Why was I charged?")
            with run.step("plan", state={"seen": 0}) as step:
                step.decide("look first")
                step.done({"seen": 1})
            run.output = f"You were charged {lookup('u1')['charges']} times."
        with rk.record("plain", input="Why was I charged?", store=store) as run:
            run.output = f"You were charged {lookup('u1')['charges']} times."
        with rk.record("empty", store=store):
            pass
        with pytest.raises(RuntimeError), rk.record("billing", input="mail a.b@example.com", store=store):
            lookup("u1")
            raise RuntimeError("out of luck")
        failed = store.load("billing")
        write_golden(golden_file(root / "traces", "plain"), golden_of(store.load("plain")))
        backup(store, root / "backup.db")
    rk.scaffold(failed, root / "cases" / "recorded")
    whole = (root / "backup.db").read_bytes()
    (root / "damaged.db").write_bytes(whole.replace(b"out of luck", b"out of lack"))
    shutil.copytree(OLD_CASE, root / "old")
    files = {
        "agent.py": AGENT,
        "config.yaml": CONFIG,
        "fair.yaml": FAIR,
        "nothing.yaml": "replaykit: 1\nagent: {type: python, endpoint: 'agent:answer'}\n",
        "prune.yaml": "replaykit: 1\nretention: {max_runs: 1}\n",
        "sources.yaml": "replaykit: 1\nagent: {type: python, endpoint: 'agent:answer'}\n"
        "replays: {sources: [{type: langsmith, project: my-production-agent, contract: polite}]}\n",
        "cases/billing/case.yaml": json.dumps(CASE),
        "wrong/case.yaml": json.dumps({**CASE, "titel": "x", "desired": []}),
        "wrong/contract.yaml": "name: wrong\ninvariants:\n  - {id: x, type: no_such_type}\n",
        "good.sh": """echo '{"status": "success", "final_output": "You paid."}' > "$REPLAYKIT_OUTPUT_PATH"\n""",
        "bad.sh": """echo '{"status": "error", "errors": ["out of luck"]}' > "$REPLAYKIT_OUTPUT_PATH"\n""",
        "leaks.txt": "write to anna.schmidt@gmail.com\n",
        "empty/README.md": "nothing here\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    for part in ("imported", "traces"):
        shutil.copytree(EXAMPLES / part, root / "examples" / part)
    return root


@pytest.fixture
def project(prepared: Path, own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, in a directory of its own."""
    shutil.copytree(prepared, own_directory, dirs_exist_ok=True)
    monkeypatch.syspath_prepend(own_directory)
    return own_directory


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The services that keep traces, on loopback, each with some."""
    with ExitStack() as stack:
        langsmith = stack.enter_context(langsmith_server.langsmith_server())
        langsmith.runs = langsmith_server.incident()
        langsmith_server.set_account(langsmith, monkeypatch)
        langfuse = stack.enter_context(langfuse_server.langfuse_server())
        langfuse.traces = [langfuse_server.incident()]
        langfuse_server.set_account(langfuse, monkeypatch)
        phoenix = stack.enter_context(phoenix_server.phoenix_server())
        phoenix.spans = phoenix_server.spans_of("openai_chat_agent")
        phoenix_server.set_account(phoenix, monkeypatch)
        mlflow = stack.enter_context(mlflow_server.mlflow_server())
        mlflow.traces = [mlflow_server.trace_of()]
        mlflow_server.set_account(mlflow, monkeypatch)
        yield


def printing_commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something by itself, with its words."""
    command = context.command
    runs_itself = isinstance(command, CommandWithParts) or not isinstance(command, click.Group)
    if runs_itself or getattr(command, "invoke_without_command", False):
        yield context.command_path.removeprefix("replaykit").strip(), command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from printing_commands(click.Context(inner, info_name=name, parent=context))


# Commands keep the help option of their first context.
COMMANDS = dict(printing_commands(click.Context(cli, info_name="replaykit", **cli.context_settings)))


def test_every_command_has_a_result_or_a_reason_for_none() -> None:
    commands = {result.command for result in RESULTS.values()}

    assert commands.isdisjoint(WITHOUT_JSON)
    assert COMMANDS.keys() == commands | WITHOUT_JSON.keys()


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_with_a_result_prints_it_as_json(words: str) -> None:
    flags = [flag for option in COMMANDS[words].params for flag in option.opts]

    assert ("--json" in flags) is (words not in WITHOUT_JSON)


def test_every_result_is_printed_here() -> None:
    assert LINES.keys().isdisjoint(TESTED_ELSEWHERE)
    assert RESULTS.keys() == LINES.keys() | TESTED_ELSEWHERE.keys()


def every_line() -> Iterator[Any]:
    """Each result with each of its command lines; `make test` runs the first."""
    for name, lines in LINES.items():
        for number, line in enumerate(lines):
            yield pytest.param(name, line, marks=[pytest.mark.exhaustive] if number else [])


@pytest.mark.parametrize(("name", "line"), list(every_line()))
def test_a_result_is_what_its_schema_says(
    replaykit: Call, project: Path, request: pytest.FixtureRequest, name: str, line: str
) -> None:
    if name.startswith("result.import."):
        request.getfixturevalue("services")
    for before in BEFORE.get(name, ()):
        replaykit(*shlex.split(before))

    ran = replaykit(*shlex.split(line))

    assert ran.code == LINES[name][line], ran.err
    if ran.code in (0, 1) or ran.out:
        assert flaws(name, ran.json) == []
    else:
        assert ran.err.startswith("error: ")


@pytest.mark.parametrize("name", RESULTS)
def test_a_schema_is_valid_and_says_what_each_property_holds(name: str) -> None:
    schema = RESULTS[name].schema()

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:replaykit:{name}"
    bare = []
    for part, definition in schema["$defs"].items():
        assert definition["description"], part
        for key, value in definition.get("properties", {}).items():
            if key not in OBVIOUS and not says_something(value):
                bare.append(f"{part}.{key}")
    assert bare == []


def says_something(value: dict[str, Any]) -> bool:
    """True for a property with a description, of its own or of the values it holds."""
    forms = [value, value.get("items", {}), *value.get("anyOf", ())]
    return "description" in value or "const" in value or any("$ref" in form for form in forms)


@pytest.mark.parametrize("name", RESULTS)
def test_a_later_version_may_add_keys(name: str) -> None:
    assert '"additionalProperties": false' not in json.dumps(RESULTS[name].schema())


def test_a_key_without_schema_is_noticed(replaykit: Call, project: Path) -> None:
    value = replaykit("runs", "--json").json

    assert flaws("result.runs", value) == []
    assert len(flaws("result.runs", {**value, "more": 1})) == 1
    assert len(flaws("result.runs", {**value, "runs": [{**value["runs"][0], "more": 1}]})) > 0
    assert len(flaws("result.runs", {"replaykit": 1})) == 1


def test_the_page_about_results_names_each_with_its_command() -> None:
    page = PAGE.read_text(encoding="utf-8")

    for result in RESULTS.values():
        when = f", {result.when}" if result.when else ""
        assert f"| `replaykit {result.command}`{when} | `{result.name}` |" in page


def test_help_lists_every_schema_and_prints_each_by_its_name(replaykit: Call) -> None:
    listed = {entry["name"]: entry["title"] for entry in replaykit("help", "schema", "--json").json["schemas"]}
    text = replaykit("help", "schema").out

    assert listed.keys() == {*DOCUMENTS, *RESULTS}
    for name, title in listed.items():
        assert name in text
        assert title in text
    for name in RESULTS:
        assert replaykit("help", "schema", name).json == RESULTS[name].schema()
    assert replaykit("schema", "result.runs").json == RESULTS["result.runs"].schema()
