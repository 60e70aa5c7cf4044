"""`--config-from` and `--untrusted`: configuration of a revision; data and agent of the working tree."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Ran
from tests.git_repository import Repository
from tests.matrix import matrix, sampled

from replaykit.candidates.agents import candidate_of
from replaykit.project.project import load_project
from replaykit.redaction.redactor import Redactor

Command = Callable[..., Ran]
GOOD = """
import json, os
said = json.dumps({{"status": "success", "final_output": {!r}}})
open(os.environ["REPLAYKIT_OUTPUT_PATH"], "w").write(said)
"""
EVIL = "open('pwned', 'w').close()\n"
CASE = {
    "replaykit": 1,
    "id": "billing",
    "scenario": {"input": "Why?"},
    "observed": [{"status_is": "error"}],
    "desired": [{"status_is": "success"}],
}
SESSION = {"id": "incident", "input": "Why?", "contract": "contracts/strict.yaml", "tool_responses": []}


def config(script: str, **more: object) -> str:
    agent = {"type": "command", "endpoint": shlex.join([sys.executable, "-I", script])}
    return json.dumps({"replaykit": 1, "agent": agent, "cases": ["cases"], **more})


def contract(value: str) -> str:
    return json.dumps({"name": "strict", "invariants": [{"id": "says", "type": "contains", "value": value}]})


@pytest.fixture
def repository(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A project whose pull request names another agent in its configuration."""
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    made = Repository.new(own_directory)
    made.commit(
        {
            ".gitignore": ".replaykit\n",
            "replaykit.yaml": config("good.py"),
            "good.py": GOOD.format("fine"),
            "cases/billing/case.yaml": json.dumps(CASE),
        }
    )
    made.base_branch()
    made.git("checkout", "-q", "-b", "pull-request")
    made.commit({"replaykit.yaml": config("evil.py"), "evil.py": EVIL})
    return made


def test_without_the_options_the_configuration_of_the_working_tree_is_used(
    repository: Repository, replaykit: Command
) -> None:
    replaykit("ci")

    assert Path("pwned").exists()


@pytest.mark.parametrize("arguments", [("--untrusted",), ("--config-from", "origin/main"), ("--config-from", "main")])
def test_ci_uses_the_configuration_of_the_revision_and_says_what_differs(
    repository: Repository, replaykit: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    if "--untrusted" in arguments:
        monkeypatch.setenv("GITHUB_BASE_REF", "main")
    name = "main" if arguments[-1] == "main" else "origin/main"

    ran = replaykit("ci", *arguments, "--json")

    assert ran.code == 0, ran.err
    assert not Path("pwned").exists()
    note = f"replaykit.yaml differs from {name}; the version of {name} is used"
    assert f"note: {note}" in ran.err
    assert note in ran.json["notices"]
    assert ran.json["config_from"] == f"{name} ({repository.git('rev-parse', 'main')})"
    assert f"note: the configuration is read from {ran.json['config_from']}" in ran.err


def test_cases_and_the_code_of_the_agent_are_those_of_the_working_tree(
    repository: Repository, replaykit: Command
) -> None:
    repository.commit(
        {
            "good.py": GOOD.format("of the pull request"),
            "cases/second/case.yaml": json.dumps({**CASE, "id": "second"}),
        }
    )

    ran = replaykit("ci", "--config-from", "origin/main", "--json")

    assert {item["id"]: item["output"] for item in ran.json["items"]} == {
        "billing": "of the pull request",
        "second": "of the pull request",
    }


def test_a_python_agent_is_imported_from_the_working_tree(repository: Repository, replaykit: Command) -> None:
    agent = {"type": "python", "endpoint": "agent:answer"}
    repository.git("checkout", "-q", "main")
    repository.commit(
        {
            "below/replaykit.yaml": json.dumps({"replaykit": 1, "agent": agent, "cases": ["../cases"]}),
            "below/agent.py": "def answer(question):\n    return 'base'\n",
        }
    )
    repository.base_branch()
    repository.commit({"below/agent.py": "def answer(question):\n    return 'pull request'\n"})

    ran = replaykit("ci", "-c", "below/replaykit.yaml", "--config-from", "origin/main", "--json")

    assert [item["output"] for item in ran.json["items"]] == ["pull request"], ran.err


def test_a_configuration_in_a_subdirectory_is_found_from_there(
    repository: Repository, replaykit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("checkout", "-q", "main")
    repository.commit({"below/replaykit.yaml": config("../good.py", cases=["../cases"])})
    repository.base_branch()
    repository.commit({"below/replaykit.yaml": config("../evil.py", cases=["../cases"])})
    monkeypatch.chdir(repository.top / "below")

    ran = replaykit("ci", "--config-from", "origin/main", "--json")

    assert ran.code == 0, ran.err
    assert ran.json["notices"] == ["replaykit.yaml differs from origin/main; the version of origin/main is used"]


def test_untrusted_has_to_know_the_base_branch(repository: Repository, replaykit: Command) -> None:
    ran = replaykit("ci", "--untrusted")

    assert ran.code == 2
    assert "GITHUB_BASE_REF" in ran.err
    assert "--untrusted --config-from origin/main" in ran.err
    assert not Path("pwned").exists()


@matrix(
    name=["nope", "-x", "HEAD..main", "$(touch pwned)", "HEAD:replaykit.yaml", ""],
    verb=[("ci",), ("replay", "cases"), ("lint", "cases")],
)
def test_a_revision_that_is_none_is_wrong_usage(
    repository: Repository, replaykit: Command, verb: tuple[str, ...], name: str
) -> None:
    ran = replaykit(*verb, f"--config-from={name}")

    assert ran.code == 2
    assert "revision" in ran.err
    assert not Path("pwned").exists()


def test_a_revision_without_a_configuration_is_said(repository: Repository, replaykit: Command) -> None:
    repository.git("checkout", "-q", "--orphan", "empty")
    repository.git("rm", "-rqf", ".")
    repository.commit()
    repository.git("checkout", "-q", "-f", "pull-request")

    here = replaykit("ci", "--config-from", "empty")
    named = replaykit("ci", "-c", "replaykit.yaml", "--config-from", "empty")

    assert (here.code, named.code) == (2, 2)
    assert "there is no replaykit.yaml here at empty" in here.err
    assert "no such file at empty" in named.err
    assert not Path("pwned").exists()


def test_another_configuration_of_the_pull_request_is_not_found(repository: Repository, replaykit: Command) -> None:
    repository.git("checkout", "-q", "main")
    repository.git("mv", "replaykit.yaml", "flakestorm.yaml")
    agent = {"type": "command", "endpoint": shlex.join([sys.executable, "-I", "good.py"])}
    sessions = {"sessions": [{**SESSION, "contract": "strict"}]}
    flakestorm = {"version": "2.0", "agent": agent, "contract": json.loads(contract("fine")), "replays": sessions}
    repository.commit({"flakestorm.yaml": json.dumps(flakestorm)})
    repository.base_branch()
    repository.commit({"replaykit.yaml": config("evil.py"), "evil.py": EVIL})

    ran = replaykit("ci", "--config-from", "origin/main", "--json", "--only", "replay")

    assert not Path("pwned").exists()
    assert ran.json["config"] == "flakestorm.yaml"
    assert "replaykit.yaml is not in origin/main, and is not used" in ran.json["notices"]


@pytest.mark.parametrize("verb", ["ci", "replay"])
def test_contracts_in_files_are_those_of_the_revision(repository: Repository, replaykit: Command, verb: str) -> None:
    repository.git("checkout", "-q", "main")
    repository.commit({"contracts/strict.yaml": contract("a word that nobody says")})
    repository.base_branch()
    repository.commit({"contracts/strict.yaml": contract("fine"), "cases/incident.yaml": json.dumps(SESSION)})

    plain = replaykit(verb)
    strict = replaykit(verb, "--config-from", "origin/main")

    assert plain.code == 0, plain.out
    assert strict.code == 1
    assert "contracts/strict.yaml differs from origin/main; the version of origin/main is used" in strict.err


def test_a_contract_that_only_the_working_tree_has_makes_its_sessions_wrong(
    repository: Repository, replaykit: Command
) -> None:
    repository.commit({"contracts/strict.yaml": contract("fine"), "cases/incident.yaml": json.dumps(SESSION)})

    ran = replaykit("ci", "--config-from", "origin/main")
    without_configuration = replaykit(
        "replay", "cases/incident.yaml", "--config-from", "origin/main", "--runner-cmd", "true", "-c", "replaykit.yaml"
    )

    assert (ran.code, without_configuration.code) == (2, 2)
    assert "there is no file contracts/strict.yaml at origin/main" in ran.out + ran.err
    assert "contracts/strict.yaml is not in origin/main, and is not used" in ran.err


@sampled(
    "name", ["new\nline.yaml", ":(top)x.yaml", "a b.yaml", "contracts/../new.yaml", "\ud800.yaml"], count=2, start=1
)
def test_no_spelling_of_a_name_leads_to_a_contract_of_the_working_tree(
    repository: Repository, replaykit: Command, name: str
) -> None:
    if name.isprintable() or "\n" in name:
        repository.write({"contracts/other.yaml": "{}", name: contract("fine")})
    repository.commit({"cases/incident.yaml": json.dumps({**SESSION, "contract": name})})

    ran = replaykit("ci", "--config-from", "origin/main", "--json")

    assert ran.code == 2, ran.err
    assert {item["id"]: item["outcome"] for item in ran.json["items"]} == {"billing": "passed", "incident": "error"}


def test_contracts_are_those_of_the_revision_where_it_has_no_configuration(
    repository: Repository, replaykit: Command
) -> None:
    repository.git("checkout", "-q", "main")
    repository.git("rm", "-q", "replaykit.yaml")
    repository.commit({"contracts/strict.yaml": contract("a word that nobody says")})
    repository.base_branch()
    repository.commit({"contracts/strict.yaml": contract("fine"), "cases/incident.yaml": json.dumps(SESSION)})
    command = shlex.join([sys.executable, "-I", "good.py"])

    ran = replaykit("replay", "cases/incident.yaml", "--config-from", "origin/main", "--runner-cmd", command)

    assert ran.code == 1, ran.err


def test_faults_in_a_file_are_those_of_the_revision(repository: Repository, replaykit: Command) -> None:
    repository.git("checkout", "-q", "main")
    repository.commit({"faults.yaml": json.dumps({"tool_faults": [{"tool": "*", "mode": "error"}]})})
    repository.base_branch()
    repository.commit({"faults.yaml": "nonsense: [", "new.yaml": "{}"})
    command = shlex.join([sys.executable, "-I", "good.py"])
    arguments = ("replay", "cases/billing", "--runner-cmd", command, "--config-from", "origin/main", "--chaos")

    of_base, new = replaykit(*arguments, "faults.yaml"), replaykit(*arguments, "new.yaml")

    assert of_base.code in (0, 1), of_base.err
    assert "faults.yaml differs from origin/main" in of_base.err
    assert new.code == 2
    assert "no such file at origin/main" in new.err


TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.mark.parametrize(
    "rules",
    [
        {"redaction.toml": f'allow = ["{TOKEN}"]\n'},
        {"redaction.toml": 'rule_files = ["rules/more.toml"]\n', "rules/more.toml": f'allow = ["{TOKEN}"]\n'},
    ],
    ids=["own", "another file"],
)
@pytest.mark.parametrize("verb", ["lint", "redact scan"])
def test_secrets_are_looked_for_by_the_rules_of_the_revision(
    repository: Repository, replaykit: Command, rules: dict[str, str], verb: str
) -> None:
    case = {**CASE, "scenario": {"input": f"my token is {TOKEN}"}}
    repository.commit({"cases/billing/case.yaml": json.dumps(case), **rules})

    plain = replaykit(*verb.split(), "cases")
    of_base = replaykit(*verb.split(), "cases", "--config-from", "origin/main")
    repository.base_branch()
    allowed = replaykit(*verb.split(), "cases", "--config-from", "origin/main")

    assert (plain.code, of_base.code, allowed.code) == (0, 1, 0), (plain.out, of_base.out, allowed.out)
    assert "redaction.toml is not in origin/main, and is not used" in of_base.err


def test_evidence_is_redacted_by_the_rules_of_the_revision(repository: Repository, replaykit: Command) -> None:
    repository.commit({"good.py": GOOD.format(f"the token is {TOKEN}"), "redaction.toml": f'allow = ["{TOKEN}"]\n'})

    replaykit("ci", "--config-from", "origin/main", "--evidence", ".replaykit/runs")

    files = [file for file in Path(".replaykit").rglob("*") if file.is_file()]
    assert any(file.name == "runner-output.json" for file in files)
    assert any(file.suffix == ".jsonl" for file in files)
    assert not any(TOKEN.encode() in file.read_bytes() for file in files)


def test_a_key_that_came_with_the_pull_request_is_not_used(repository: Repository, replaykit: Command) -> None:
    """Whoever knows the key can try what a placeholder hides."""
    key = b"known to the stranger"
    own = Path(".replaykit/redaction.key")
    repository.write({"good.py": GOOD.format("write to jane.roe@acme-savings.com"), str(own): key.decode()})
    repository.git("add", "-f", str(own))
    repository.commit()
    guessed = Redactor(key).text("jane.roe@acme-savings.com")

    def evidence() -> bytes:
        ran = replaykit("ci", "--config-from", "origin/main", "--json", "--evidence", "runs")
        return Path(ran.json["items"][0]["evidence"], "runner-output.json").read_bytes()

    assert guessed.encode() not in evidence()
    repository.git("rm", "-q", "--cached", str(own))
    repository.git("commit", "-q", "-m", "made here")
    assert guessed.encode() in evidence(), "a key that git knows nothing of stays"


def test_a_configuration_for_mcp_servers_is_refused(repository: Repository, replaykit: Command) -> None:
    repository.write({"mcp.json": '{"mcpServers": {"a": {"command": "true"}}}'})

    ran = replaykit(
        "replay", "cases", "--config-from", "origin/main", "--mcp-config", "mcp.json", "--runner-cmd", "true"
    )

    assert ran.code == 2
    assert "--mcp-config cannot be combined with --config-from" in ran.err


@pytest.mark.parametrize("option", [("--from-langsmith", "run"), ("--from-langsmith-project", "project")])
def test_nothing_is_imported_with_the_keys_of_the_environment(
    repository: Repository, replaykit: Command, option: tuple[str, str]
) -> None:
    ran = replaykit("replay", *option, "--config-from", "origin/main")

    assert ran.code == 2
    assert "--from-langsmith cannot be combined with --config-from" in ran.err


HTTP = {
    "type": "http",
    "endpoint": "http://127.0.0.1:9/",
    "headers": {"x-key": "${MY_KEY}", "x-other": "${OTHER:-none}"},
}


def test_untrusted_fills_in_no_variable_that_the_base_branch_does_not_list(
    repository: Repository, replaykit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "a-key-of-mine")
    repository.git("checkout", "-q", "main")
    project = {"replaykit": 1, "agent": HTTP, "cases": ["cases"]}
    repository.commit({"replaykit.yaml": json.dumps(project)})
    repository.base_branch()
    repository.commit({"replaykit.yaml": json.dumps({**project, "variables": ["MY_KEY"]})})
    arguments = ("ci", "--untrusted", "--config-from", "origin/main")

    unlisted = replaykit(*arguments)
    trusted = replaykit("ci", "--config-from", "origin/main")
    repository.base_branch()
    listed = replaykit(*arguments)

    assert unlisted.code == 2
    assert "agent.headers.x-key: MY_KEY is not among the variables that may be filled in" in unlisted.err
    assert "List it in replaykit.yaml at origin/main: variables: [MY_KEY]" in unlisted.err
    assert (trusted.code, listed.code) == (3, 3), "nobody answers there, but it was tried"


def test_a_variable_that_is_not_listed_is_as_good_as_unset(own_directory: Path) -> None:
    Path("replaykit.yaml").write_text(json.dumps({"replaykit": 1, "agent": HTTP, "variables": ["MY_KEY"]}))
    project = load_project("replaykit.yaml")

    assert project.variables == ("MY_KEY",)
    candidate = candidate_of(project, {"MY_KEY": "a-key-of-mine", "OTHER": "another-secret"})
    assert [value.text for _, value in candidate._address.headers] == ["a-key-of-mine", "none"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["MY_KEY", ["MY-KEY"], ["${MY_KEY}"], [3], ["A\n"]])
def test_variables_is_a_list_of_names(own_directory: Path, replaykit: Command, value: object) -> None:
    Path("replaykit.yaml").write_text(json.dumps({"replaykit": 1, "agent": HTTP, "variables": value}))

    ran = replaykit("ci")

    assert ran.code == 2
    assert "replaykit.yaml:1" in ran.err


def test_untrusted_imports_nothing_from_the_working_directory(repository: Repository, spawned: Command) -> None:
    """`python -m` puts it first in `sys.path`, and a pull request may bring modules and plugins."""
    repository.commit(
        {
            "plugin.py": EVIL,
            "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
            "evil-1.0.dist-info/entry_points.txt": "[replaykit.assertions]\nevil = plugin\n",
            "cases/billing/case.yaml": json.dumps({**CASE, "desired": [{"evil": True}]}),
        }
    )

    ran = spawned("ci", "--untrusted", "--config-from", "origin/main")
    assert ran.code == 2, ran.err
    assert not Path("pwned").exists()

    spawned("ci", "--config-from", "origin/main")
    assert Path("pwned").exists(), "the trap works"


def test_commands_to_look_closer_read_the_same_configuration(repository: Repository, replaykit: Command) -> None:
    repository.commit({"good.py": GOOD.format("").replace("success", "error")})

    ran = replaykit("ci", "--config-from", "origin/main", "--json")

    (item,) = ran.json["items"]
    assert item["command"] == "replaykit replay -c replaykit.yaml --config-from origin/main cases/billing"
