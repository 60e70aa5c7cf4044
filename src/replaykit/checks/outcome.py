"""Assertions about how a run ended: its status, its error, its output."""

from __future__ import annotations

import re
from typing import ClassVar

from replaykit.checks.compare import same
from replaykit.checks.reading import (
    budget_reason,
    ending_seq,
    has_output,
    is_blank,
    last_seq,
    matches,
    output_text,
    run_errors,
    says_something,
    short,
    shown,
    shown_output,
    step_count,
)
from replaykit.checks.rule import ASSERTIONS, Rule, Seen
from replaykit.errors import nearest
from replaykit.model.events import ErrorInfo
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json

_CLASS = re.compile(r"\s*[A-Za-z_][\w.]*(?:Error|Exception): ")
_STATUSES = [status.value for status in RunStatus]
_ENDINGS = {
    RunStatus.RUNNING: "Run has not ended",
    RunStatus.CANCELLED: "Run was cancelled",
}


@ASSERTIONS.register("status_is")
class StatusIs(Rule, frozen=True, kw_only=True):
    """The run ended with this status, or with one of these."""

    plain: ClassVar[str] = "status"
    named: ClassVar[bool] = False
    status: str | list[str]

    def __post_init__(self) -> None:
        if not self.statuses:
            raise ValueError("expected at least one status")
        for status in self.statuses:
            if status not in _STATUSES:
                raise ValueError(f"unknown status {status!r}; {nearest(status, _STATUSES)}")

    @property
    def statuses(self) -> list[str]:
        """The accepted statuses."""
        return [self.status] if isinstance(self.status, str) else self.status

    def check(self, run: TraceRun, side: Side) -> Seen:
        return Seen(
            holds=run.status.value in self.statuses,
            text=_ENDINGS.get(run.status, f"Run ended with {run.status.value}"),
            expected=f"status {' or '.join(self.statuses)}",
            actual=f"status {run.status.value}{_because(run)}",
            seq=ending_seq(run),
        )


@ASSERTIONS.register("final_output_exists")
class FinalOutputExists(Rule, frozen=True, kw_only=True):
    """The run gave an output that says something (true), or none that does (false)."""

    plain: ClassVar[str] = "exists"
    named: ClassVar[bool] = False
    exists: bool

    def check(self, run: TraceRun, side: Side) -> Seen:
        return Seen(
            holds=says_something(run) is self.exists,
            text=_output_in_words(run),
            expected="a final output" if self.exists else "no final output",
            actual=shown_output(run),
            seq=last_seq(run),
        )


@ASSERTIONS.register("final_output_empty")
class FinalOutputEmpty(Rule, frozen=True, kw_only=True):
    """The run gave an output, and it is blank: white space, `{}` or `[]`. None at all is not an empty one."""

    plain: ClassVar[str] = "empty"
    named: ClassVar[bool] = False
    empty: bool

    def check(self, run: TraceRun, side: Side) -> Seen:
        return Seen(
            holds=(run.output is not None and is_blank(run.output)) is self.empty,
            text=_output_in_words(run),
            expected="an empty final output" if self.empty else "no empty final output",
            actual=shown_output(run),
            seq=last_seq(run),
        )


class _OutputText(Rule, frozen=True, kw_only=True):
    plain: ClassVar[str] = "text"
    named: ClassVar[bool] = False
    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("expected some text: nothing is in every output")

    def _seen(self, run: TraceRun, holds: bool, expected: str) -> Seen:
        found = "contains" if self.text in output_text(run) else "does not contain"
        return Seen(
            holds=holds,
            text=f"Output {found} {self.text!r}" if has_output(run) else "No final output",
            expected=expected,
            actual=shown_output(run),
            seq=last_seq(run),
        )


@ASSERTIONS.register("output_contains")
class OutputContains(_OutputText, frozen=True, kw_only=True):
    """The output contains the text, letter by letter; of an output that is no text, its JSON does."""

    def check(self, run: TraceRun, side: Side) -> Seen:
        return self._seen(run, self.text in output_text(run), f"output containing {self.text!r}")


@ASSERTIONS.register("output_not_contains")
class OutputNotContains(_OutputText, frozen=True, kw_only=True):
    """There is an output, and the text is not in it: a run without an answer does not pass by silence."""

    def check(self, run: TraceRun, side: Side) -> Seen:
        holds = has_output(run) and self.text not in output_text(run)
        return self._seen(run, holds, f"output without {self.text!r}")


@ASSERTIONS.register("output_equals")
class OutputEquals(Rule, frozen=True, kw_only=True):
    """The output is this JSON value."""

    plain: ClassVar[str] = "value"
    named: ClassVar[bool] = False
    value: Json

    def check(self, run: TraceRun, side: Side) -> Seen:
        equal = same(run.output, self.value)
        return Seen(
            holds=equal,
            text="Output is as expected" if equal else "Output differs" if has_output(run) else "No final output",
            expected=f"output {shown(self.value)}",
            actual=shown_output(run),
            seq=last_seq(run),
        )


@ASSERTIONS.register("error_like")
class ErrorLike(Rule, frozen=True, kw_only=True):
    """The run's error, or one of its error events, reads like this; `*` stands for anything."""

    plain: ClassVar[str] = "text"
    named: ClassVar[bool] = False
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("expected the text of an error, with `*` for what may vary")

    def check(self, run: TraceRun, side: Side) -> Seen:
        errors = run_errors(run)
        found = next(((seq, e) for seq, e in errors if self._reads(e)), None)
        seq, error = found or (errors[-1] if errors else (last_seq(run), None))
        return Seen(
            holds=found is not None,
            text=f"Error: {short(error.message or error.type)}" if error else "No error",
            expected=f"an error like {self.text!r}",
            actual=repr(short(str(error))) if error else "no error",
            seq=seq,
        )

    def _reads(self, error: ErrorInfo) -> bool:
        # Some candidates say "KeyError: x", some only "x", and some put the class beside the message.
        bare = _CLASS.sub("", error.message)
        return any(matches(self.text, text) for text in (error.message, str(error), bare))


@ASSERTIONS.register("step_budget_exhausted")
class StepBudgetExhausted(Rule, frozen=True, kw_only=True):
    """The run was stopped because it used up its steps, turns, iterations or tool calls."""

    plain: ClassVar[str] = "exhausted"
    named: ClassVar[bool] = False
    exhausted: bool

    def check(self, run: TraceRun, side: Side) -> Seen:
        reason = budget_reason(run)
        return Seen(
            holds=(reason is not None) is self.exhausted,
            text="Step budget exhausted" if reason else "Step budget not exhausted",
            expected="the step budget exhausted" if self.exhausted else "the step budget not exhausted",
            actual=reason or f"{step_count(run)} steps, no sign of a limit",
            seq=ending_seq(run),
        )


def _output_in_words(run: TraceRun) -> str:
    if not has_output(run):
        return "No final output"
    return "Final output exists" if says_something(run) else "Final output is empty"


def _because(run: TraceRun) -> str:
    return f" ({short(str(run.error))})" if run.error else ""
