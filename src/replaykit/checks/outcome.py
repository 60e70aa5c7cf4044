"""Assertions about how a run ended: its status, its error, its steps."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from replaykit.checks.reading import budget_reason, ending_seq, last_seq, matches, run_errors, short, step_count
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.errors import nearest
from replaykit.model.events import ErrorEvent, ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.redaction.lazy_patterns import lazy

_CLASS = lazy(r"\s*[A-Za-z_][\w.]*(?:Error|Exception): ")
_STATUSES = [status.value for status in RunStatus]
_ENDINGS = {
    RunStatus.RUNNING: "Run has not ended",
    RunStatus.CANCELLED: "Run was cancelled",
}


@ASSERTIONS.register("status_is")
class StatusIs(Rule, frozen=True, kw_only=True):
    """The run ended with this status, or with one of these.

    The statuses are `success`, `error`, `timeout`, `cancelled` and `running`.
    """

    family = "run"
    plain = "status"
    named = False
    examples = ("status_is: success", "status_is: [error, timeout]")
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
        if isinstance(self.status, str):
            return [self.status]
        return self.status

    def check(self, run: TraceRun, context: Context) -> Seen:
        return Seen(
            holds=run.status.value in self.statuses,
            text=_ENDINGS.get(run.status, f"Run ended with {run.status.value}"),
            expected=f"status {' or '.join(self.statuses)}",
            actual=f"status {run.status.value}{_because(run)}",
            seq=ending_seq(run),
        )


@ASSERTIONS.register("run.error")
class RunError(Rule, frozen=True, kw_only=True):
    """The run's error, or one of its error events, reads like this text.

    `*` stands for any stretch of text; without one the whole text has to agree. White space counts as one blank; upper
    and lower case differ. Compared with the message, with `Class: message`, and with the message without a class in
    front of it. Errors of tools do not count: those are `tool.error`.
    """

    plain = "text"
    named = False
    examples = ('run.error: "Max tool call limit exceeded*"', 'run.error: "KeyError: *"')
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("expected the text of an error, with `*` for what may vary")

    def check(self, run: TraceRun, context: Context) -> Seen:
        expected = f"an error like {self.text!r}"
        errors = run_errors(run)
        if not errors:
            return Seen(False, "No error", expected, "no error", last_seq(run))
        matching = [(seq, error) for seq, error in errors if self._reads(error)]
        seq, error = matching[0] if matching else errors[-1]
        return Seen(
            holds=bool(matching),
            text=f"Error: {short(error.message or error.type)}",
            expected=expected,
            actual=repr(short(str(error))),
            seq=seq,
        )

    def _reads(self, error: ErrorInfo) -> bool:
        # Some candidates say "KeyError: x", some only "x", and some put the class beside the message.
        bare = _CLASS.sub("", error.message)
        return any(matches(self.text, text) for text in (error.message, str(error), bare))


@ASSERTIONS.register("run.failed_steps")
class RunFailedSteps(Rule, frozen=True, kw_only=True):
    """At least so many errors happened in the run outside of calls, such as steps whose code did not run."""

    plain = "min"
    notes = {"min": "the least number of errors; a plain number is this"}
    examples = ("run.failed_steps: 1",)
    min: Annotated[int, Meta(ge=1)]

    def check(self, run: TraceRun, context: Context) -> Seen:
        errors = [(event.seq, event.error) for event in run.events if isinstance(event, ErrorEvent)]
        expected = f"at least {self.min} errors outside of calls"
        if not errors:
            return Seen(False, "The run reported no error", expected, "no errors", last_seq(run))
        seq, last = errors[-1]
        count = "one error" if len(errors) == 1 else f"{len(errors)} errors"
        actual = f"{count}, the last one {short(str(last))!r}"
        return Seen(len(errors) >= self.min, f"The run went on over {actual}", expected, actual, _cause(run, seq))


@ASSERTIONS.register("steps.exhausted")
class StepsExhausted(Rule, frozen=True, kw_only=True):
    """True: the run was stopped because it used up its steps. False: it was not.

    Steps, turns, iterations, rounds, recursion, tool calls and budgets of time, tokens or cost all count. The signs are
    an error that speaks of such a limit (a rate limit is none), an output that begins like `Agent stopped due to
    iteration limit` or `Max turns (30) reached`, or as many steps as the run's metadata names in `max_steps` in a run
    that did not succeed.
    """

    plain = "exhausted"
    named = False
    examples = ("steps.exhausted: true",)
    exhausted: bool

    def check(self, run: TraceRun, context: Context) -> Seen:
        reason = budget_reason(run)
        return Seen(
            holds=(reason is not None) is self.exhausted,
            text="Step budget exhausted" if reason else "Step budget not exhausted",
            expected="the step budget exhausted" if self.exhausted else "the step budget not exhausted",
            actual=reason or f"{step_count(run)} steps, no sign of a limit",
            seq=ending_seq(run),
        )


def _cause(run: TraceRun, seq: int) -> int:
    """Return the model call inside of the step that failed, where the log says how long the step took."""
    error = next(event for event in run.events if event.seq == seq)
    inside = [call.seq for call in run.llm_calls if error.at <= call.at < error.at + error.duration_s]
    if inside:
        return inside[-1]
    return seq


def _because(run: TraceRun) -> str:
    if run.error:
        return f" ({short(str(run.error))})"
    return ""
