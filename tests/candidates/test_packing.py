"""Tasks and replies on their way: large values once, nothing lost, and hostile sizes refused."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec
import pytest

from replaykit.candidates import worker_protocol
from replaykit.candidates.worker_protocol import (
    PackedReply,
    Reply,
    Task,
    receive_reply,
    receive_task,
    send,
    send_reply,
    send_task,
)
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, LlmCall, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, canonical, raw

LARGE = raw("0123456789abcdef" * 5000)
MESSAGES = [{"role": "user", "content": f"{number} " + "word " * 100} for number in range(40)]
CONVERSATION = [
    LlmCall(seq=n, name="gpt", arguments_json=Raw(canonical({"messages": MESSAGES[: n + 1]})), result_json=raw("a"))
    for n in range(40)
]
FETCHES = [ToolCall(seq=40 + n, name="fetch", arguments_json=raw({"n": n}), result_json=LARGE) for n in range(3)]


def task_of(calls: Sequence[Call]) -> Task:
    return Task(world=World(case_id="c", calls=tuple(calls)), timeout_s=1)  # type: ignore[arg-type]


def reply_of(calls: Sequence[Call]) -> Reply:
    return Reply(run=TraceRun(id="r", events=tuple(calls)))  # type: ignore[arg-type]


def sent(task: Task) -> io.BytesIO:
    stream = io.BytesIO()
    send_task(stream, task)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("calls", [[], CONVERSATION[:2], CONVERSATION, FETCHES, [*CONVERSATION, *FETCHES]])
def test_a_task_and_its_reply_arrive_as_they_were(calls: list[Call]) -> None:
    stream = sent(task_of(calls))

    task = receive_task(stream)

    assert task == task_of(calls)
    assert receive_task(stream) is None
    stream = io.BytesIO()
    send_reply(stream, reply_of(task.world.calls), task.world.calls)  # type: ignore[union-attr,arg-type]
    stream.seek(0)
    assert receive_reply(stream, calls) == reply_of(calls)  # type: ignore[arg-type]


def test_a_conversation_takes_its_messages_once_on_the_way() -> None:
    assert len(sent(task_of(CONVERSATION)).getvalue()) < 2 * len(CONVERSATION[-1].arguments_json)


def test_a_reply_does_not_send_back_what_came_with_the_task() -> None:
    task = receive_task(sent(task_of(FETCHES)))
    assert task is not None
    stream = io.BytesIO()

    send_reply(stream, reply_of(task.world.calls), task.world.calls)  # type: ignore[arg-type]

    assert len(stream.getvalue()) < 2000
    stream.seek(0)
    reply = receive_reply(stream, FETCHES)
    assert reply is not None
    assert reply.run is not None
    assert [call.result_json is LARGE for call in reply.run.calls] == [True] * 3


def test_a_reply_that_wants_too_much_memory_is_refused() -> None:
    stream = io.BytesIO()
    send(stream, PackedReply(reply=reply_of([]), packing=Raw(b"{}"), sizes=(worker_protocol.MAX_REPLY_BYTES + 1,)))
    stream.seek(0)

    with pytest.raises(ValueError, match="at most 268,435,456 are read"):
        receive_reply(stream)


@pytest.mark.parametrize(
    "packed",
    [
        b'{"references": [[0, {"values": {"result": "recorded/7"}}]]}',
        b'{"references": [[0, {"values": {"result": "attached/0"}}]]}',
        b'{"references": [[9, {"values": {"result": "recorded/0"}}]]}',
        b'{"references": [[-1, {"parts": {"messages": "0"}}]]}',
        b'{"parts": {"m": ["x"]}, "references": [[0, {"parts": {"m": "0-999999999"}}]]}',
        b'{"references": 1}',
    ],
)
def test_a_reply_with_references_to_nothing_is_refused(packed: bytes) -> None:
    stream = io.BytesIO()
    send(stream, PackedReply(reply=reply_of([ToolCall(seq=0, name="fetch")]), packing=Raw(packed)))
    stream.seek(0)

    with pytest.raises((ValueError, msgspec.MsgspecError)):
        receive_reply(stream, FETCHES)


def test_a_value_that_is_no_json_is_refused() -> None:
    stream = io.BytesIO()
    beside = Raw(b'{"references": [[0, {"values": {"result": "attached/0"}}]]}')
    send(stream, PackedReply(reply=reply_of([ToolCall(seq=0, name="fetch")]), packing=beside, sizes=(3,)))
    stream.write(b"{x}")
    stream.seek(0)

    with pytest.raises(msgspec.MsgspecError):
        receive_reply(stream)
