"""Assertions about tools that failed, and what the agent made of it."""

from __future__ import annotations

import re
from typing import ClassVar

from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, matches, output_text, says_something, shown_output
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.selecting import glob
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun

ACKNOWLEDGING = (
    "error",
    "fail",
    "unable",
    "not able",
    "could not",
    "couldn't",
    "cannot",
    "can't",
    "unavailable",
    "not available",
    "unreachable",
    "timed out",
    "timeout",
    "no response",
    "not respond",
    "declined",
    "rejected",
    "outage",
    "unsuccessful",
    "went wrong",
    "did not work",
    "didn't work",
    "did not go through",
    "didn't go through",
    "try again",
)
"""Beginnings of words by which an answer admits that something failed, unless an assertion names its own.

Left out on purpose, because answers that hide a failure use them too: sorry, problem, issue, however.
"""


@ASSERTIONS.register("tool.error")
class ToolError(Rule, frozen=True, kw_only=True):
    """A call of the tool failed; with `like`, in these words, `*` standing for anything.

    A call failed when it raised, when its result is a text that begins like an error (`Error`, `ValueError:`,
    `Traceback`), or an object with a truthy `error`, `errors`, `is_error` or `isError`, or with a `status`,
    `status_code` or `code` from 400 to 599.
    """

    plain: ClassVar[str] = "tool"
    notes: ClassVar[dict[str, str]] = {
        "tool": f"{TOOL_NOTE}; a plain text is this",
        "like": "what the failure says, as for `run.error`",
    }
    examples: ClassVar[tuple[str, ...]] = (
        "tool.error: lookup_billing",
        'tool.error: {tool: "*", like: "*timeout"}',
    )
    tool: str
    like: str | None = None

    def __post_init__(self) -> None:
        if self.like is not None and not self.like.strip():
            raise ValueError("expected the text of an error in `like`, with `*` for what may vary")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = [call for call in run.tool_calls if glob(self.tool, call.name)]
        reasons = [(call, reason) for call in calls if (reason := call_failed(call)) is not None]
        found = next((one for one in reasons if self.like is None or matches(self.like, one[1])), None)
        told = found or (reasons[-1] if reasons else None)
        return Seen(
            holds=found is not None,
            text=f"Tool {told[0].name!r} failed: {told[1]}" if told else f"Tool {self.tool!r} did not fail",
            expected=f"a failure of tool {self.tool!r}" + (f" like {self.like!r}" if self.like else ""),
            actual=f"failed with {told[1]!r}" if told else _outcomes(calls),
            seq=told[0].seq if told else calls[-1].seq if calls else last_seq(run),
        )


@ASSERTIONS.register("tool.unretried_error")
class UnretriedToolError(Rule, frozen=True, kw_only=True):
    """The tool failed, and the agent never called it again."""

    plain: ClassVar[str] = "tool"
    notes: ClassVar[dict[str, str]] = {"tool": "the tool's name; a plain text is this"}
    examples: ClassVar[tuple[str, ...]] = ("tool.unretried_error: lookup_billing",)
    tool: str

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = calls_of(run, self.tool)
        failed = next((call for call in calls if call_failed(call)), None)
        holds = failed is not None and failed is calls[-1]
        if holds:
            text = f"Tool {self.tool!r} failed and was not retried"
        else:
            text = f"Tool {self.tool!r} {'was retried' if failed else 'did not fail' if calls else 'was not called'}"
        return Seen(
            holds=holds,
            text=text,
            expected=f"tool {self.tool!r} failing without a retry",
            actual=_outcomes(calls),
            seq=failed.seq if failed else calls[-1].seq if calls else None,
        )


@ASSERTIONS.register("tool.ignored_error")
class IgnoredToolError(Rule, frozen=True, kw_only=True):
    """The tool's last call failed, yet the run succeeded with an answer that admits no failure.

    An answer admits one when some word in it begins like one of [these](#words-that-admit-a-failure), in upper or lower
    case. A list of your own in `acknowledged_by` replaces them.
    """

    plain: ClassVar[str] = "tool"
    notes: ClassVar[dict[str, str]] = {
        "tool": "the tool's name; a plain text is this",
        "acknowledged_by": "what an answer admits a failure with",
    }
    examples: ClassVar[tuple[str, ...]] = (
        "tool.ignored_error: lookup_billing",
        "tool.ignored_error: {tool: lookup_billing, acknowledged_by: [erreur, échoué]}",
    )
    tool: str
    acknowledged_by: list[str] | None = None

    def __post_init__(self) -> None:
        if self.acknowledged_by is not None and not all(word.strip() for word in self.acknowledged_by):
            raise ValueError("expected words in `acknowledged_by`: an empty one is in every answer")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = calls_of(run, self.tool)
        failed = call_failed(calls[-1]) if calls else None
        answered = run.status is RunStatus.SUCCESS and says_something(run)
        word = acknowledging_word(output_text(run), self.acknowledged_by)
        return Seen(
            holds=failed is not None and answered and word is None,
            text=self._text(failed, answered, word),
            expected=f"a failure of tool {self.tool!r} that the answer does not admit",
            actual=f"{_outcomes(calls)}; status {run.status.value}, {shown_output(run)}",
            seq=calls[-1].seq if calls else None,
        )

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


def acknowledging_word(text: str, words: list[str] | None = None) -> str | None:
    """The first of the words that some word of the text begins with; None when there is none."""
    plain = text.replace("\u2019", "'")
    for word in ACKNOWLEDGING if words is None else words:
        if re.search(rf"(?<!\w){re.escape(word.strip())}", plain, re.IGNORECASE):
            return word
    return None


def _outcomes(calls: list[ToolCall]) -> str:
    if not calls:
        return "no call"
    reason = call_failed(calls[-1])
    ending = f"failed with {reason!r}" if reason else "did not fail"
    return f"{len(calls)} calls, the last {ending}" if len(calls) > 1 else f"one call, it {ending}"
