"""`replaykit init`: prepare a project."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from replaykit.cases.config_files import PROJECT_FILES
from replaykit.cases.schema import document_schema
from replaykit.cli import options
from replaykit.cli.verbosity import reports
from replaykit.config import HOME
from replaykit.errors import UsageError
from replaykit.project.agent import AgentType
from replaykit.project.find_agent import agent_type, find_agents
from replaykit.project.shape import PROJECT
from replaykit.report.layout import fit
from replaykit.report.project import NewProject, project_text

_README = """# Cases

Each directory here holds a failure that happened once, so that it cannot come back unnoticed.

    replaykit scaffold TRACE --out cases/NAME        make one from a failed trace
    replaykit lint cases                             check them
    replaykit replay cases --agent MODULE:FUNCTION   run an agent against them
    replaykit redact scan cases                      look for secrets before they are committed

ReplayKit replaces secrets and personal data by placeholders of the same form when it makes a case.
"""


_CONFIG = """# yaml-language-server: $schema={schema}
replaykit: 1

# The agent under test. `replaykit replay` runs it against everything below.
{agent}
cases: [cases]

# What the agent promises. `replaykit ci` calls it with each probe, for real, and checks the answers.
{contracts}
# Incidents: an input, what the tools answered, and a contract.
# replays:
#   sessions:
#     - file: replays/incident_001.yaml
"""
_AGENT = """agent:
  type: {type}
  endpoint: {endpoint}
"""
_NO_AGENT = """# agent:
#   type: python                 # or http, langchain, command
#   endpoint: my_agent:answer    # module:function, a URL, or a command
#   timeout: 30000               # milliseconds
"""
_CONTRACT = """contracts:
  default:
    invariants:
      - {id: answers, type: output_not_empty, severity: critical, probes: [Hello]}
"""
_NO_CONTRACT = """# contracts:
#   default:
#     invariants:
#       - {id: answers, type: output_not_empty, severity: critical, probes: [Hello]}
"""
_SCHEMA_FILE = "replaykit.schema.json"


@click.command(name="init")
@click.argument("directory", type=options.DIRECTORY, default=Path())
@click.option("--agent", metavar="MODULE:FUNCTION", help="The agent is this Python function.")
@click.option("--endpoint", metavar="URL", help="The agent is behind HTTP, at this address.")
@click.option("--runner-cmd", metavar="COMMAND", help="The agent is this program.")
@options.as_json
@reports
def command(directory: Path, agent: str | None, endpoint: str | None, runner_cmd: str | None, as_json: bool) -> None:
    """Set up a project: configuration, cases and store.

    On a terminal, asks what your agent is, and suggests the one it found. Elsewhere, and with --json, takes the agent
    that it finds, if there is only one: the function that `rk.record` decorates, or the program that package.json
    starts. Imports no code, and leaves existing files alone.

    `replaykit ci` can then run: it replays your cases. While you have none, it calls the agent once and checks that it
    answers.

    \b
    replaykit init
    replaykit init --agent my_agent:answer
    """
    where = _named_agent(agent, endpoint, runner_cmd)
    if where is None:
        where = _find_agent(directory, may_ask=not as_json)
    schema = directory / HOME / _SCHEMA_FILE
    cases = directory / "cases"
    has_cases = any(cases.glob("**/case.yaml"))
    config = _CONFIG.format(
        schema=f"{HOME}/{_SCHEMA_FILE}",
        agent=_agent_section(where),
        # A project that has cases can run them: it needs no contract, whose probes call the agent for real.
        contracts=_CONTRACT if where and not has_cases else _NO_CONTRACT,
    )
    files = {
        directory / HOME / ".gitignore": "*\n",
        schema: json.dumps(document_schema("ReplayKit configuration", PROJECT), indent=2) + "\n",
        cases / "README.md": _README,
        directory / PROJECT_FILES[0]: config,
    }
    created, existing = [], []
    for file, text in files.items():
        if file.exists():
            existing.append(str(file))
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        created.append(str(file))
    project = NewProject(created=created, existing=existing, agent=where, has_cases=has_cases)
    options.show(as_json, project, project_text, brief=lambda _: str(directory / PROJECT_FILES[0]))


def _named_agent(agent: str | None, endpoint: str | None, runner_cmd: str | None) -> str | None:
    """Return the agent that an option names; a `UsageError` if it names another kind of agent, or if several do."""
    options_given = {
        "--agent": (agent, AgentType.PYTHON, "MODULE:FUNCTION, such as my_agent:answer"),
        "--endpoint": (endpoint, AgentType.HTTP, "a URL, such as http://127.0.0.1:8000/ask"),
        "--runner-cmd": (runner_cmd, AgentType.COMMAND, "a command, such as 'node agent.mjs'"),
    }
    named = {option: value for option, value in options_given.items() if value[0] is not None}
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: give one of them")
    for option, (name, kind, expected) in named.items():
        if not name or agent_type(name) is not kind:
            raise UsageError(f"{option} {name!r}: expected {expected}")
        return name
    return None


def _find_agent(directory: Path, *, may_ask: bool) -> str:
    """Return the agent of a project: the only one in its source, or the answer typed here; empty if there is none."""
    if (directory / PROJECT_FILES[0]).exists():
        return ""
    found = find_agents(directory) if directory.is_dir() else []
    if may_ask and sys.stdin.isatty() and sys.stdout.isatty():
        return _ask_agent(found)
    if len(found) == 1:
        return found[0]
    return ""


_KINDS = {
    "python": (AgentType.PYTHON, "Which function? MODULE:FUNCTION"),
    "command": (AgentType.COMMAND, "Which command?"),
    "http": (AgentType.HTTP, "Which URL?"),
}
_LATER = "later"


def _ask_agent(found: list[str]) -> str:
    """Ask for the kind of the agent, then for its name; the agents that were found are the defaults."""
    default = agent_type(found[0]).value if found else _LATER
    if found:
        click.echo(fit(f"Found: {', '.join(found)}"), err=True)
    click.echo(fit("What is your agent: a Python function, a command, or an HTTP endpoint?"), err=True)
    kind = click.prompt("Agent", type=options.OneOf([*_KINDS, _LATER]), default=default, err=True)
    if kind == _LATER:
        return ""
    agent_kind, question = _KINDS[kind]
    fitting = [agent for agent in found if agent_type(agent) is agent_kind]

    def checked(text: str) -> str:
        answer = text.strip()
        if agent_type(answer) is not agent_kind:
            raise click.UsageError(f"{answer!r} does not name one")
        return answer

    answer: str = click.prompt(question, default=fitting[0] if fitting else None, value_proc=checked, err=True)
    return answer


def _agent_section(endpoint: str) -> str:
    if not endpoint:
        return _NO_AGENT
    return _AGENT.format(type=agent_type(endpoint).value, endpoint=json.dumps(endpoint, ensure_ascii=False))
