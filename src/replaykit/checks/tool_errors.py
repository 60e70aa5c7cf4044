"""Assertions about tools that failed, and what the agent made of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from replaykit.checks.admissions import admission
from replaykit.checks.call_selection import glob
from replaykit.checks.conversation import inner_model_calls, said_to_user
from replaykit.checks.failure_hints import failure_hint
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, matches, output_text, says_something, short, shown_output
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun


@ASSERTIONS.register("tool.error")
class ToolErrorOccurred(Rule, frozen=True, kw_only=True):
    """A call of the tool failed; with `like`, in these words, `*` standing for anything.

    A call failed when it raised, or when its result [says so](#when-a-call-failed). With `min`, at least that many
    calls failed this way.
    """

    plain = "tool"
    notes = {
        "tool": f"{TOOL_NOTE}; a plain text is this",
        "like": "what the failure says, as for `run.error`",
        "min": "the least number of calls that failed this way",
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

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = [call for call in run.tool_calls if glob(self.tool, call.name)]
        failures = [(call, reason) for call in calls if (reason := call_failed(call)) is not None]
        alike = [(call, reason) for call, reason in failures if self.like is None or matches(self.like, reason)]
        if not failures:
            seq = calls[-1].seq if calls else last_seq(run)
            return Seen(False, f"Tool {self.tool!r} did not fail", self._expected, _outcomes(run, calls), seq)
        call, reason = alike[self.min - 1] if len(alike) >= self.min else failures[-1]
        times = f" {len(alike)} times" if self.min > 1 else ""
        return Seen(
            holds=len(alike) >= self.min,
            text=f"Tool {call.name!r} failed{times}: {reason}",
            expected=self._expected,
            actual=f"failed{times} with {reason!r}",
            seq=call.seq,
        )

    @property
    def _expected(self) -> str:
        like = f" like {self.like!r}" if self.like else ""
        times = f", at least {self.min} times" if self.min > 1 else ""
        return f"a failure of tool {self.tool!r}{like}{times}"


@ASSERTIONS.register("tool.unretried_error")
class UnretriedToolError(Rule, frozen=True, kw_only=True):
    """The tool failed, and the agent never called it again."""

    plain = "tool"
    notes = {"tool": "the tool's name; a plain text is this"}
    examples = ("tool.unretried_error: lookup_billing",)
    tool: str

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = calls_of(run, self.tool)
        failed = next((call for call in calls if call_failed(call)), None)
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


@ASSERTIONS.register("tool.ignored_error")
class IgnoredToolError(Rule, frozen=True, kw_only=True):
    """The tool's last call failed, yet the run succeeded with an answer that admits no failure.

    An answer admits one by a [phrase](#answers-that-admit-a-failure) such as "could not be reached", in one of twelve
    languages. What the agent said earlier counts too, where a user answered it. Words of your own in `acknowledged_by`
    replace the phrases: an answer then admits a failure when some word in it begins like one of them. `anything` gives
    the benefit of the doubt, and is what `scaffold` writes into `desired`: a regret, a hand-over to a person, words of
    the tool's own message, or a language that is not read are enough. A sub-agent (a tool that asks a model itself)
    failed as well when its answer admits a failure.
    """

    plain = "tool"
    notes = {
        "tool": "the tool's name; a plain text is this",
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

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = calls_of(run, self.tool)
        failed = failure_of(run, calls[-1]) if calls else None
        answered = run.status is RunStatus.SUCCESS and says_something(run)
        if failed is not None:
            word = self._admission(run, calls[-1], failed)
        else:
            word = None
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
    """The agent's calls of one tool."""
    return [call for call in run.tool_calls if call.name == tool]


def failure_of(run: TraceRun, call: ToolCall) -> str | None:
    """Return why the call failed; a sub-agent failed as well when its answer admits a failure."""
    reason = call_failed(call)
    if reason is not None or not isinstance(call.result, str) or call.seq not in inner_model_calls(run):
        return reason
    if admission(call.result):
        return short(call.result)
    return None


def _first_word(text: str, words: list[str]) -> str | None:
    """Return the first of the words that some word of the text begins with; None when there is none."""
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
