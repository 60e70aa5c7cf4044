"""The configuration as a value: every key has its place, a typo its line, and nothing is passed over in silence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import replaykit as rk
from replaykit.cases.config_files import config_file, find_project
from replaykit.cases.session import Session
from replaykit.cli import cli
from replaykit.errors import FormatTooNew, InvalidFile, UsageError
from replaykit.project.agent import AgentToolMode, AgentType, Method, as_json_path
from replaykit.project.project import Project, Scoring
from replaykit.project.sources import SourceType

INVARIANTS = [{"id": "answers", "type": "output_not_empty"}]


def written(text: str | dict[str, Any], name: str = "replaykit.yaml") -> Path:
    Path(name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return Path(name)


def loaded(**parts: Any) -> Project:
    return rk.load_project(written({"replaykit": 1, **parts}))


def test_the_least_configuration_says_nothing() -> None:
    project = loaded()

    assert (project.agent, project.cases, project.contracts, project.sessions) == (None, (), {}, ())
    assert project.scoring == Scoring()


def test_an_agent_is_read_with_all_its_keys() -> None:
    agent = loaded(
        agent={
            "endpoint": "https://agents.test/ask",
            "method": "PUT",
            "request_template": '{"q": "{prompt}"}',
            "response_path": "data.0.text",
            "headers": {"X-Key": "${KEY}"},
            "query_params": {"v": "1"},
            "timeout": 2500,
            "retries": 2,
            "reset_endpoint": "https://agents.test/reset",
            "tools": "live",
        }
    ).agent

    assert agent is not None
    assert (agent.type, agent.method, agent.timeout_s, agent.retries) == (AgentType.HTTP, Method.PUT, 2.5, 2)
    assert (agent.response_path, agent.headers) == ("$.data[0].text", (("X-Key", "${KEY}"),))
    assert agent.tools is AgentToolMode.LIVE


def test_contracts_are_one_a_list_or_a_map() -> None:
    one = {"name": "one", "invariants": INVARIANTS}

    assert list(loaded(contract=one).contracts) == ["one"]
    assert list(loaded(contract=one, contracts=[{**one, "name": "two"}]).contracts) == ["one", "two"]
    assert list(loaded(contracts={"three": {"invariants": INVARIANTS}}).contracts) == ["three"]


def test_sessions_are_written_or_named_and_a_bad_file_is_one_error() -> None:
    Path("replays").mkdir()
    Path("replays/good.yaml").write_text("id: good\ninput: x\n")
    Path("replays/bad.yaml").write_text("id: bad\n")

    sessions = loaded(
        replays={"sessions": [{"file": "replays/good.yaml"}, {"file": "replays/bad.yaml"}, {"id": "c", "input": 1}]}
    ).sessions

    assert [s.id if isinstance(s, Session) else s.file for s in sessions] == ["good", "replays/bad.yaml", "c"]


def test_sources_scores_judge_checks_and_ci_are_values() -> None:
    project = loaded(
        replays={
            "sources": [
                {"type": "langsmith", "project": "p", "filter": {"status": "all"}, "auto_import": True},
                {"type": "langsmith_run", "run_id": "r"},
            ]
        },
        scoring={"replay": 0.5, "contract": 0.5},
        judge="openai:gpt",
        checks=[{"status_is": "success"}],
        ci={"min_score": 90},
    )

    assert [source.type for source in project.sources] == [SourceType.PROJECT, SourceType.RUN]
    assert project.scoring == Scoring(mutation=0, chaos=0, contract=0.5, replay=0.5)
    assert project.judge is not None
    assert [check.kind for check in project.checks] == ["status_is"]
    assert project.min_score == 90
    assert project.notices == ()


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"agnt": {}}, "unknown key 'agnt'; did you mean 'agent'?"),
        ({"agent": {"endpoint": "a:b", "type": "pyhton"}}, "agent.type: expected"),
        ({"agent": {"type": "python"}}, "the key 'endpoint' is missing in agent"),
        ({"agent": {"endpoint": "a b", "type": "python"}}, "does not name an agent"),
        ({"agent": {"endpoint": "a:b"}}, "is not an address of an HTTP agent"),
        ({"agent": {"endpoint": "a:b", "type": "python", "retries": 1}}, "retries is for type http"),
        ({"agent": {"endpoint": "http://a", "reset_function": "a:b"}}, "reset_function is for agents in Python"),
        ({"agent": {"endpoint": "http://a", "timeout": 0}}, "agent.timeout: expected"),
        ({"agent": {"endpoint": "http://a", "request_template": '{"q": 1}'}}, "no place for the input"),
        ({"agent": {"endpoint": "http://a", "request_template": '{"q": {prompt}'}}, "does not give JSON"),
        ({"agent": {"endpoint": "http://a", "response_path": "$.a["}}, "agent.response_path: bad JSON path"),
        ({"agent": {"endpoint": "http://a", "headers": {"k": "${}"}}}, "is not a variable"),
        ({"contract": {"name": "c"}}, "the key 'invariants' is missing in contract"),
        ({"contracts": {"a": {"name": "b", "invariants": INVARIANTS}}}, "its name is 'b'"),
        ({"contracts": [{"name": "a", "invariants": INVARIANTS}] * 2}, "two contracts are named 'a'"),
        ({"replays": {"sessions": [{"id": "x"}]}}, "the key 'input' is missing"),
        ({"replays": {"sesions": []}}, "did you mean 'sessions'?"),
        (
            {"replays": {"sources": [{"type": "langsmith", "project": "p", "filter": {"date_range": "last_7_dys"}}]}},
            "replays.sources[0].filter.date_range: no range of time 'last_7_dys'; did you mean 'last_7_days'?",
        ),
        (
            {"replays": {"sources": [{"type": "langsmith_run", "run_id": "r", "limit": 3}]}},
            "limit cannot be combined with type",
        ),
        ({"replays": {"sources": [{"type": "langsmith", "project": "p", "limit": 0}]}}, "replays.sources[0].limit"),
        ({"replays": {"sources": [{"type": "langsmith"}]}}, "the key 'project' is missing"),
        ({"scoring": {"mutation": 0.5, "chaos": 0.5, "contract": 0.5, "replay": 0.5}}, "add up to 2"),
        ({"scoring": {"replay": -0.5}}, "expected a number of at least 0"),
        ({"checks": [{"status_iz": "success"}]}, "did you mean 'status_is'?"),
        ({"ci": {"min_scor": 1}}, "did you mean 'min_score'?"),
        ({"chaos": {"tool_fault": []}}, "tool_faults"),
        ({"cases": [1]}, "cases[0]: expected"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(parts: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        loaded(**parts)

    assert told in str(caught.value)
    assert str(caught.value).startswith("replaykit.yaml:1:")


def test_a_mistake_deep_in_a_file_names_its_own_line() -> None:
    file = written("replaykit: 1\nagent:\n  type: python\n  endpoint: a:b\n  timeuot: 5\n")

    with pytest.raises(InvalidFile, match=r"replaykit\.yaml:5: unknown key 'timeuot' in agent; did you mean 'timeout'"):
        rk.load_project(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("- a\n", "expected a mapping"),
        ("agent: {}\n", "'replaykit' is missing"),
        ("a: [", ""),
    ],
)
def test_a_file_that_is_no_configuration_is_an_error(text: str, told: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        rk.load_project(written(text))

    assert told in str(caught.value)


def test_a_newer_format_is_another_error() -> None:
    with pytest.raises(FormatTooNew, match="configuration format 2"):
        rk.load_project(written("replaykit: 2\n"))


def test_a_flakestorm_file_is_read_where_it_applies_and_the_rest_is_told() -> None:
    project = rk.load_project(
        written(
            {
                "version": "2.0",
                "agent": {"endpoint": "http://127.0.0.1:1/x", "parse_structured_input": True},
                "contract": {"name": "c", "invariants": INVARIANTS},
                "chaos_matrix": [{"name": "calm"}],
                "advanced": {"concurrency": 7, "retries": 2, "seed": 42},
                "model": {"provider": "ollama"},
                "mutations": {"count": 5},
                "invariants": [{"type": "nonsense"}],
                "output": {"format": "html"},
            },
            "flakestorm.yaml",
        )
    )

    assert project.agent is not None
    assert (project.agent.retries, project.concurrency, project.seed) == (2, 7, 42)
    assert project.contracts["c"].matrix == ({"name": "calm"},)
    for key in ("model", "invariants", "output", "parse_structured_input"):
        assert any(f"`{key}` is not read" in notice for notice in project.notices)


def test_a_typo_in_a_flakestorm_file_is_an_error_too() -> None:
    with pytest.raises(InvalidFile, match="did you mean 'replays'"):
        rk.load_project(written({"version": "2.0", "replay": {}}, "flakestorm.yaml"))


def test_an_older_flakestorm_file_is_refused() -> None:
    with pytest.raises(InvalidFile, match=r"version: expected the version 2\.0, got '1\.0'"):
        rk.load_project(written({"version": "1.0"}, "flakestorm.yaml"))


def test_a_configuration_is_found_by_its_name() -> None:
    assert find_project() is None
    with pytest.raises(UsageError, match=r"no replaykit\.yaml here"):
        config_file()

    written("version: '2.0'\n", "flakestorm.yaml")
    assert find_project() == Path("flakestorm.yaml")
    written("replaykit: 1\n")
    assert config_file() == Path("replaykit.yaml")


@pytest.mark.parametrize(("said", "path"), [("$.a[0]", "$.a[0]"), ("a.b", "$.a.b"), ("a.0.b", "$.a[0].b"), ("$", "$")])
def test_a_dotted_path_is_a_json_path(said: str, path: str) -> None:
    assert as_json_path(said) == path


def test_what_init_writes_is_a_configuration_with_and_without_its_comments() -> None:
    assert CliRunner().invoke(cli, ["init"]).exit_code == 0
    text = Path("replaykit.yaml").read_text()
    assert rk.load_project("replaykit.yaml").agent is None

    Path("replays").mkdir()
    Path("replays/incident_001.yaml").write_text("id: a\ninput: b\n")
    lines = [
        line.removeprefix("# ") for line in text.splitlines() if not re.match(r"# ([A-Z]|yaml-language-server)", line)
    ]
    project = rk.load_project(written("\n".join(lines)))

    assert project.agent is not None
    assert list(project.contracts) == ["default"]
    assert [type(session) for session in project.sessions] == [Session]
