"""A run that is written checkpoint by checkpoint, by somebody who keeps no log of his own."""

from __future__ import annotations

import datetime as dt

import msgspec

from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent, Change, ErrorInfo, Message, State, ToolCall
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.sampling import Sampling, StateLog, Written
from replaykit.model.values import ABSENT, Json, Raw, canonical, raw
from replaykit.store.protocol import RunWriter, Store


class CheckpointWriter:
    """Takes checkpoints, and adds to the log what each has more than the one before."""

    def __init__(self, store: Store, header: RunHeader, rules: Sampling) -> None:
        self._header = msgspec.structs.replace(header, sampling=rules)
        self._writer: RunWriter = store.begin(self._header)
        self._states = StateLog(rules, self._writer.cleaning)
        self._seq = self._messages = self._calls = 0
        self._last: tuple[str, float] = ("", 0.0)

    def save(self, step_id: str, at: float, state: Json, messages: list[Json], tool_calls: list[Json]) -> None:
        """Append one checkpoint."""
        new_events: list[AnyEvent] = [
            *(_message(message) for message in messages[self._messages :]),
            *(_tool_call(call) for call in tool_calls[self._calls :]),
        ]
        written = self._states.next(state)
        if written is None and not new_events:
            written = (ABSENT, Change())  # nothing changed, and yet the step has to be there when it is asked for
        for event in new_events:
            self._append(event, step_id, at)
        self._append_state(written, step_id, at)
        self._messages, self._calls = len(messages), len(tool_calls)
        self._last = step_id, at

    def end(self) -> None:
        """Keep the last state, if it was not, and end the run."""
        self._append_state(self._states.last(), *self._last)
        self._writer.finish(msgspec.structs.replace(self._header, status=RunStatus.SUCCESS))

    def _append_state(self, written: Written | None, step_id: str, at: float) -> None:
        if written is None:
            return
        try:
            self._append(State(seq=0, state_json=written[0], change=written[1]), step_id, at)
        except BaseException:
            self._states.lost()
            raise

    def _append(self, event: AnyEvent, step_id: str, at: float) -> None:
        self._writer.append(msgspec.structs.replace(event, seq=self._seq, at=at, step=step_id))
        self._seq += 1


def timestamp_s(moment: dt.datetime | None) -> float:
    """A moment as events have it; without one, the present."""
    return (moment or dt.datetime.now(dt.UTC)).timestamp()


def _message(message: Json) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise UsageError("a message of a checkpoint is an object with `role` and `content`")
    return Message(seq=0, role=message["role"], content_json=raw(message.get("content")))


def _tool_call(call: Json) -> ToolCall:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise UsageError("a tool call of a checkpoint is an object with `name`, `arguments` and `result`")
    arguments = Raw(canonical(call.get("arguments") or {}))
    if call.get("error"):
        kind, _, message = str(call["error"]).partition(": ")
        return ToolCall(seq=0, name=call["name"], arguments_json=arguments, error=ErrorInfo(type=kind, message=message))
    return ToolCall(seq=0, name=call["name"], arguments_json=arguments, result_json=raw(call.get("result")))
