"""What a tape asked is read once: its keys, and whether something in it is redacted."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.taped_requests import TapedRequests
from replaykit.model.events import ToolCall
from replaykit.model.values import Raw
from replaykit.redaction.placeholders import may_be_redacted

MESSAGE_BYTES = 3000
PLACEHOLDER = "<secret:5f4dcc3b>"


def calls_over(messages: list[str], start: int = 1) -> list[ToolCall]:
    """Calls of which each has one message more than the one before."""
    return [
        ToolCall(seq=number, name="ask", arguments_json=Raw(text_of(messages[:number])))
        for number in range(start, len(messages) + 1)
    ]


def text_of(messages: list[str]) -> bytes:
    rows = [{"content": message, "role": "user"} for message in messages]
    return json.dumps({"messages": rows, "model": "m"}, separators=(",", ":")).encode()


@given(
    st.integers(0, 19),
    st.sampled_from([0, 1, MESSAGE_BYTES // 2, MESSAGE_BYTES]),
    st.sampled_from(["", '"},{"', "},{"]),
)
def test_a_placeholder_is_found_wherever_it_stands_in_a_growing_conversation(position, offset, around):
    messages = ["word " * (MESSAGE_BYTES // 5) for _ in range(20)]
    message = messages[position]
    messages[position] = message[:offset] + around + PLACEHOLDER + around + message[offset:]

    assert Tape(calls_over(messages)).is_redacted


def test_the_texts_of_a_growing_conversation_hold_each_message_about_once():
    calls = calls_over([f"{number} " * (MESSAGE_BYTES // 3) for number in range(40)])

    texts = list(TapedRequests(calls).distinct_texts())

    assert not may_be_redacted(texts)
    assert sum(map(len, texts)) < 3 * len(calls[-1].request_json)


def test_a_replayed_call_with_long_arguments_has_the_recorded_text(tmp_path):
    @rk.tool
    def ask(messages):
        return len(messages)

    def agent():
        for count in range(1, 31):
            ask(messages=[{"content": f"{number} " * 1000} for number in range(count)])
        raise RuntimeError("no answer")

    with rk.Store.open(tmp_path / "store.db") as store:
        with suppress(RuntimeError), rk.record("long", store=store):
            agent()
        recorded = store.load("long")

    result = rk.replay(recorded, agent)

    pairs = list(zip(recorded.calls, result.run.calls, strict=True))
    assert all(bytes(one.arguments_json) == bytes(other.arguments_json) for one, other in pairs)
    assert pairs[-1][0].arguments_json is pairs[-1][1].arguments_json
