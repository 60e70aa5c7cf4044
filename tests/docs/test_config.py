"""The page on the configuration: its examples load, and every key that there is stands on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.cases.session import Session, load_session
from replaykit.cases.session_shape import ANSWER, SESSION
from replaykit.project.agent import AGENT
from replaykit.project.shape import FLAKESTORM, PROJECT
from replaykit.project.sources import SOURCE

DOCS = Path(__file__).parents[2] / "docs"
CONFIG, COMING = ((DOCS / name).read_text(encoding="utf-8") for name in ("config.md", "from-flakestorm.md"))
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", CONFIG, re.MULTILINE | re.DOTALL)


def test_the_examples_load() -> None:
    config, session, *_ = EXAMPLES
    Path("replays").mkdir()
    Path("replays/incident_001.yaml").write_text(session)
    Path("replaykit.yaml").write_text(config)

    calls = load_session(Path("replays/incident_001.yaml")).calls
    assert [call.name for call in calls] == ["market_data_api", "web_search"]
    sessions = rk.load_project("replaykit.yaml").sessions
    assert [s.id for s in sessions if isinstance(s, Session)] == ["incident-2026-02-15", "inline-001"]


def test_the_example_of_sources_loads() -> None:
    (example,) = (text for text in EXAMPLES if "sources:" in text)
    Path("replaykit.yaml").write_text(f"replaykit: 1\n{example}")

    sources = rk.load_project("replaykit.yaml").sources
    assert [(source.label, source.auto_import) for source in sources] == [
        ("langsmith my-production-agent", True),
        ("langsmith abc123def456", False),
        ("langfuse", False),
        ("phoenix 4bf92f3577b34da6a3ce929d0e0e4736", False),
        ("mlflow support", False),
    ]


@pytest.mark.parametrize("key", [*PROJECT.members, *AGENT.members, *SESSION.members, *ANSWER.members, *SOURCE.members])
def test_every_key_is_described(key: str) -> None:
    if key != "parse_structured_input":  # read for the sake of files that have it
        assert re.search(rf"^\|.*`(\w+\.)?{key}(\.\w+)?`.*\|", CONFIG, re.MULTILINE)


@pytest.mark.parametrize("key", [*FLAKESTORM.members, *SESSION.members, *AGENT.members])
def test_every_key_of_the_other_files_is_accounted_for(key: str) -> None:
    assert key in ("retries", "tools") or re.search(rf"^\|.*`[\w.\[\]]*{key}[\w.\[\]]*`", COMING, re.MULTILINE)
