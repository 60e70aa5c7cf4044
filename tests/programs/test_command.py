"""What is written down of a command: its name, and its words without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.programs.command import HIDDEN, clean_command, name_of_command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "agent.py", "--fast"], "agent"),
        (["/usr/bin/python3.12", "-u", "src/billing_agent.py"], "billing_agent"),
        (["python", "-m", "my.agent", "x"], "my.agent"),
        (["node", "--enable-source-maps", "dist/agent.mjs"], "agent"),
        (["./run-agent", "x"], "run-agent"),
        (["uv", "run", "agent.py"], "agent"),
        (["npx", "tsx", "agent.ts"], "agent"),
        (["python", "-c", "print(1)"], "python"),
        (["bash", "-c", "python agent.py"], "bash"),
        (["python"], "python"),
    ],
)
def test_a_run_is_called_after_its_script(command: list[str], name: str) -> None:
    assert name_of_command(command) == name


@pytest.mark.parametrize(
    ("command", "cleaned"),
    [
        (["a", "--api-key", "v-123"], ["a", "--api-key", HIDDEN]),
        (["a", "--api-key=v-123", "x"], ["a", f"--api-key={HIDDEN}", "x"]),
        (["env", "OPENAI_API_KEY=v-123", "a"], ["env", f"OPENAI_API_KEY={HIDDEN}", "a"]),
        (["a", "-token", "v-123", "--model", "m"], ["a", "-token", HIDDEN, "--model", "m"]),
        (["a", "sk-abcdefgh12345678"], ["a", HIDDEN]),
        (["curl", "-H", "Authorization: Bearer v-123.x"], ["curl", "-H", f"Authorization: Bearer {HIDDEN}"]),
        (["a", "postgres://me:pw@host/db"], ["a", f"postgres://{HIDDEN}@host/db"]),
        (["a", "--tokens", "500", "why was I charged?"], ["a", "--tokens", "500", "why was I charged?"]),
    ],
)
def test_secrets_among_the_words_are_hidden(command: list[str], cleaned: list[str]) -> None:
    assert clean_command(command) == cleaned


@given(st.lists(st.text(), min_size=1))
def test_any_words_can_be_named_and_cleaned(command: list[str]) -> None:
    assert len(clean_command(command)) == len(command)
    assert isinstance(name_of_command(command), str)
