"""Assertions about tools that failed, and the agent's reaction."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from replaykit.checks.admissions import admission, failure_hint
from replaykit.checks.conversation import inner_model_calls, said_to_user
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import (
    calls_like,
    first,
    first_seq,
    matches,
    output_text,
    says_something,
    short,
    shown_output,
)
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun


@register("tool.error")
class ToolErrorOccurred(Rule, frozen=True):
    """A call of the tool failed; with `like`, with this text, in which `*` matches anything.

    A call failed when it raised, or when its result [says so](#when-a-call-failed). With `min`, at least that many
    calls failed this way.
    """

    plain = "tool"
    notes = {
        "tool": f"{TOOL_NOTE}; a plain text sets this",
        "like": "the text of the failure, as for `run.error`",
        "min": "the minimum number of calls that failed this way",
    }
    examples = (
        "tool.error: lookup_billing",
        'tool.error: {tool: "*", like: "*timeout"}',
        'tool.error: {tool: lookup_billing, like: "Error: *", min: 1}',
    )
    tool: str
    like: str | None = None
    min: Annotated[int, Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        if self.like is not None and not self.like.strip():
            raise ValueError("expected the text of an error in `like`, with `*` for what may vary")

    def seen_in(self, run: TraceRun) -> Seen:
        calls = calls_like(run, self.tool)
        failures = []
        alike = []
        for call in calls:
            reason = call_failed(call)
            if reason is not None:
                failures.append((call, reason))
                if self.like is None or matches(self.like, reason):
                    alike.append((call, reason))
        like = f" like {self.like!r}" if self.like else ""
        times, least = "", ""
        if self.min > 1:
            times, least = f" {len(alike)} times", f", at least {self.min} times"
        expected = f"a failure of tool {self.tool!r}{like}{least}"
        if not failures:
            text = f"Tool {self.tool!r} did not fail"
            return Seen(False, text, expected, _outcomes(run, calls), first_seq(calls[-1:], run))
        holds = len(alike) >= self.min
        call, reason = alike[self.min - 1] if holds else failures[-1]
        text = f"Tool {call.name!r} failed{times}: {reason}"
        return Seen(holds, text, expected, f"failed{times} with {reason!r}", call.seq)


@register("tool.unretried_error")
class UnretriedToolError(Rule, frozen=True):
    """The tool failed, and the agent never called it again."""

    plain = "tool"
    notes = {"tool": "the tool's name; a plain text sets this"}
    examples = ("tool.unretried_error: lookup_billing",)
    tool: str

    def seen_in(self, run: TraceRun) -> Seen:
        calls = calls_of(run, self.tool)
        failed = first(calls, call_failed)
        holds = failed is not None and failed is calls[-1]
        if holds:
            ending = "failed and was not retried"
        elif failed is not None:
            ending = "was retried"
        elif calls:
            ending = "did not fail"
        else:
            ending = "was not called"
        seq = None
        if calls:
            seq = (failed or calls[-1]).seq
        return Seen(
            holds=holds,
            text=f"Tool {self.tool!r} {ending}",
            expected=f"tool {self.tool!r} failing without a retry",
            actual=_outcomes(run, calls),
            seq=seq,
        )


@register("tool.ignored_error")
class IgnoredToolError(Rule, frozen=True):
    """The tool's last call failed, yet the run succeeded with an answer that does not admit the failure.

    An answer admits one by a [phrase](#answers-that-admit-a-failure) such as "could not be reached", in one of twelve
    languages. Earlier messages of the agent count too, if a user answered them. Words of your own in `acknowledged_by`
    replace the phrases: an answer then admits a failure when some word in it begins like one of them. `anything` gives
    the benefit of the doubt, and is what `scaffold` writes into `desired`: an apology, a hand-over to a person, words
    of the tool's own message, or an unsupported language are enough. A sub-agent (a tool that asks a model itself)
    failed as well when its answer admits a failure.
    """

    plain = "tool"
    notes = {
        "tool": "the tool's name; a plain text sets this",
        "acknowledged_by": "words that an answer admits a failure with, or `anything`",
    }
    examples = (
        "tool.ignored_error: lookup_billing",
        "tool.ignored_error: {tool: lookup_billing, acknowledged_by: [erreur, échoué]}",
        "tool.ignored_error: {tool: lookup_billing, acknowledged_by: anything}",
    )
    tool: str
    acknowledged_by: Literal["anything"] | list[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.acknowledged_by, list) and not all(word.strip() for word in self.acknowledged_by):
            raise ValueError("expected words in `acknowledged_by`: an empty one is in every answer")

    def seen_in(self, run: TraceRun) -> Seen:
        calls = calls_of(run, self.tool)
        failed = failure_of(run, calls[-1]) if calls else None
        answered = run.status is RunStatus.SUCCESS and says_something(run)
        word = None
        if failed is not None:
            word = self._admission(run, calls[-1], failed)
        return Seen(
            holds=failed is not None and answered and word is None,
            text=self._text(failed, answered, word),
            expected=f"a failure of tool {self.tool!r} that the answer does not admit",
            actual=f"{_outcomes(run, calls)}; status {run.status.value}, {shown_output(run)}",
            seq=calls[-1].seq if calls else None,
        )

    def _admission(self, run: TraceRun, call: ToolCall, reason: str) -> str | None:
        for text in (output_text(run), *said_to_user(run, call.seq)):
            word = self._word(text, call, reason)
            if word is not None:
                return word
        return None

    def _word(self, text: str, call: ToolCall, reason: str) -> str | None:
        if isinstance(self.acknowledged_by, list):
            return _first_word(text, self.acknowledged_by)
        word = admission(text)
        if word is None and self.acknowledged_by == "anything":
            return failure_hint(text, call, reason)
        return word

    def _text(self, failed: str | None, answered: bool, word: str | None) -> str:
        if failed is None:
            return f"Tool {self.tool!r} did not fail in the end"
        if not answered:
            return f"Tool {self.tool!r} failed and the run gave no answer"
        if word is not None:
            return f"Tool {self.tool!r} failed and the answer says {word!r}"
        return f"Tool {self.tool!r} failed and the answer does not say so"


def calls_of(run: TraceRun, tool: str) -> list[ToolCall]:
    """Return the agent's calls of one tool."""
    return [call for call in run.tool_calls if call.name == tool]


def failure_of(run: TraceRun, call: ToolCall) -> str | None:
    """Return why the call failed, if it did; a sub-agent also failed if its answer admits a failure."""
    reason = call_failed(call)
    if reason is not None or not isinstance(call.result, str) or call.seq not in inner_model_calls(run):
        return reason
    if admission(call.result):
        return short(call.result)
    return None


def _first_word(text: str, words: list[str]) -> str | None:
    """Return the first of these words that starts a word of the text, or None."""
    plain = text.replace("\u2019", "'")
    for word in words:
        if re.search(rf"(?<!\w){re.escape(word.strip())}", plain, re.IGNORECASE):
            return word
    return None


def _outcomes(run: TraceRun, calls: list[ToolCall]) -> str:
    if not calls:
        return "no call"
    reason = failure_of(run, calls[-1])
    ending = f"failed with {reason!r}" if reason else "did not fail"
    if len(calls) > 1:
        return f"{len(calls)} calls, the last {ending}"
    return f"one call, it {ending}"
