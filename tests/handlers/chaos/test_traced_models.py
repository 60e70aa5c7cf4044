"""Faults strike answers of models that only a trace tells of, in the API that asks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from replaykit.formats.core.talk import Talk
from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.faults import ChaosPlan, ModelFault, ModelTrouble
from replaykit.wire.model_calls import ModelAnswer

ASKED = {"model": "claude-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Is it lost?"}]}


def answered(fault: ModelFault) -> Any:
    """What Anthropic's API answers under the fault."""
    talk = Talk()
    talk.says("user", "Is it lost?")
    talk.answers(ModelAnswer(content="It is lost, and nobody knows where it is."), model="gpt-5")
    replayer = Replayer(Tape.of(talk.run(id="r1", format="openai_chat")))
    body = json.dumps(ASKED).encode()
    request = urllib.request.Request(
        "https://api.anthropic.com/v1/messages", body, {"content-type": "application/json"}
    )
    with replayer.at_work(under_chaos(replayer, ChaosPlan(llm_faults=(fault,)))):
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())


def test_an_answer_breaks_off() -> None:
    message = answered(ModelFault(mode=ModelTrouble.TRUNCATED, max_tokens=2))

    assert message["stop_reason"] == "max_tokens"
    assert "It is lost, and nobody knows where it is.".startswith(message["content"][0]["text"])


def test_a_limit_comes_in_the_words_of_the_api_that_asks() -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        answered(ModelFault(mode=ModelTrouble.RATE_LIMIT))

    assert (caught.value.code, json.loads(caught.value.read())["error"]["type"]) == (429, "rate_limit_error")
