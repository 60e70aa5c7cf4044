"""Assertions about an agent that gets no further: calls in a row that lead nowhere, states that come back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, times_text
from replaykit.checks.rule import ASSERTIONS, CannotTell, Context, Rule, Seen
from replaykit.model.changes import StateFold
from replaykit.model.events import State, ToolCall
from replaykit.model.run import TraceRun

_TIMES_NOTE = "how often, at least 2"


@ASSERTIONS.register("tool.stuck")
class ToolStuck(Rule, frozen=True, kw_only=True):
    """The agent called the tool at least so many times in a row, and nothing came of it.

    Nothing came of a row of calls when every one of them failed, or all gave the very same answer. The arguments may
    differ.
    """

    notes = {"tool": "the tool's name", "times": _TIMES_NOTE}
    examples = ("tool.stuck: {tool: lookup_billing, times: 4}",)
    tool: str
    times: Annotated[int, Meta(ge=2)]

    def check(self, run: TraceRun, context: Context) -> Seen:
        rows = [row for row in rows_of(run, self.tool) if is_fruitless(row)]
        longest = max(rows, key=len, default=[])
        if longest and call_failed(longest[0]):
            answers = "each failed"
        else:
            answers = "all gave the same answer"
        text = f"Tool {self.tool!r} was called {len(longest)} times in a row, and {answers}"
        return Seen(
            holds=len(longest) >= self.times,
            text=text if longest else f"Tool {self.tool!r} was called, if at all, with some success",
            expected=f"at least {self.times} calls of tool {self.tool!r} in a row that lead nowhere",
            actual=f"{len(longest)} such calls",
            seq=longest[-1].seq if longest else last_seq(run),
        )


@ASSERTIONS.register("state.repeated")
class StateRepeated(Rule, frozen=True, kw_only=True):
    """The agent's state was the very same at least so many times. States that the log does not hold do not count."""

    plain = "times"
    notes = {"times": f"{_TIMES_NOTE}; a plain number is this"}
    examples = ("state.repeated: 3",)
    times: Annotated[int, Meta(ge=2)]

    def check(self, run: TraceRun, context: Context) -> Seen:
        places: dict[bytes, list[int]] = {}
        for seq, digest in _state_digests(run):
            places.setdefault(digest, []).append(seq)
        most = max(places.values(), key=len, default=[])
        if most:
            text = f"The same state came {times_text(len(most))}"
        else:
            text = "The log holds no state"
        expected = f"the same state at least {self.times} times"
        return Seen(len(most) >= self.times, text, expected, times_text(len(most)), most[-1] if most else last_seq(run))


def rows_of(run: TraceRun, tool: str) -> Iterator[list[ToolCall]]:
    """Give the stretches of a run in which the agent called this tool and no other."""
    row: list[ToolCall] = []
    for call in run.tool_calls:
        if call.name == tool:
            row.append(call)
        elif row:
            yield row
            row = []
    if row:
        yield row


def is_fruitless(calls: list[ToolCall]) -> bool:
    """True when nothing came of any of the calls: all failed, or all gave the very same."""
    if all(call_failed(call) for call in calls):
        return True
    results = [call.result_json for call in calls if call.error is None]
    return bool(results) and all(result == results[0] for result in results)


def _state_digests(run: TraceRun) -> Iterator[tuple[int, bytes]]:
    fold = StateFold()
    for event in run.events:
        if not isinstance(event, State) or not event.kept:
            continue
        try:
            fold.apply(event)
        except (ValueError, KeyError, IndexError) as error:
            raise CannotTell(f"the states do not fit together at event {event.seq}: {error}") from None
        yield event.seq, hashlib.sha256(bytes(fold.text)).digest()
