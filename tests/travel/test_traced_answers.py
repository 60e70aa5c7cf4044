"""Forks of imported runs: a model's answer that only a trace tells of is served, or changed, in the API that asks."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.formats.core.talk import Talk
from replaykit.wire.model_calls import ModelAnswer

URL = "https://api.anthropic.com/v1/messages"


def agent(question: str) -> str:
    """Asks twice, with what it was told."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(2):
        body = json.dumps({"model": "claude-5", "max_tokens": 9, "messages": messages}).encode()
        request = urllib.request.Request(URL, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as response:
            content = json.loads(response.read())["content"]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "Sure?"}]
    return str(content[0]["text"])


@pytest.fixture
def store(tmp_path: Path) -> Any:
    talk = Talk()
    talk.says("user", "Is it lost?")
    talk.answers(ModelAnswer(content="Yes."), model="gpt-5")
    talk.says("user", "Sure?")
    talk.answers(ModelAnswer(content="Quite."), model="gpt-5")
    with rk.Store.open(tmp_path / "store.db") as store:
        store.replace([talk.run(id="r1", format="openai_chat")])
        yield store


def test_a_fork_is_served_what_the_trace_tells_of(store: rk.Store) -> None:
    _, journey = rk.fork("r1", "step_1", agent=agent, store=store)

    assert journey.output == "Quite."


def test_another_answer_goes_out_as_the_api_sends_it(store: rk.Store) -> None:
    _, journey = rk.fork("r1", "step_2", rk.Edits(answer="Not at all."), agent=agent, store=store)

    assert journey.output == "Not at all."
