"""Assertions about how a run ended: its status, its error, its steps."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from replaykit.checks.reading import (
    budget_reason,
    ending_seq,
    error_events,
    first,
    last_seq,
    matches,
    one_or_more,
    run_errors,
    short,
    step_count,
)
from replaykit.checks.rule import Rule, Seen, register
from replaykit.errors import Divergence, nearest
from replaykit.model.events import ErrorEvent, ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.redaction.lazy_patterns import lazy

_CLASS = lazy(r"\s*[A-Za-z_][\w.]*(?:Error|Exception): ")
_STATUSES = [status.value for status in RunStatus]
_EXHAUSTED = {True: "exhausted", False: "not exhausted"}
_ENDINGS = {
    RunStatus.RUNNING: "Run has not ended",
    RunStatus.CANCELLED: "Run was cancelled",
}


@register("status_is")
class StatusIs(Rule, frozen=True):
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
        return one_or_more(self.status)

    def seen_in(self, run: TraceRun) -> Seen:
        because = ""
        if run.error is not None:
            # The report of a replay shows the divergence itself, in full.
            is_divergence = run.error.type == Divergence.__name__
            because = " (it left the recording)" if is_divergence else f" ({short(str(run.error))})"
        return Seen(
            holds=run.status.value in self.statuses,
            text=_ENDINGS.get(run.status, f"Run ended with {run.status.value}"),
            expected=f"status {' or '.join(self.statuses)}",
            actual=f"status {run.status.value}{because}",
            seq=ending_seq(run),
        )


@register("run.error")
class RunError(Rule, frozen=True):
    """The run's error, or one of its error events, matches this text.

    `*` matches any text; without one the whole text must match. Any white space matches a single blank; matching is
    case-sensitive. Compared with the message, with `Class: message`, and with the message without a class in front of
    it. Errors of tools do not count: those are `tool.error`.
    """

    plain = "text"
    named = False
    examples = ('run.error: "Max tool call limit exceeded*"', 'run.error: "KeyError: *"')
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("expected the text of an error, with `*` for what may vary")

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"an error like {self.text!r}"
        errors = run_errors(run)
        if not errors:
            return Seen(False, "No error", expected, "no error", last_seq(run))
        matching = first(errors, lambda entry: self._reads(entry[1]))
        seq, error = matching or errors[-1]
        return Seen(
            holds=matching is not None,
            text=f"Error: {short(error.message or error.type)}",
            expected=expected,
            actual=repr(short(str(error))),
            seq=seq,
        )

    def _reads(self, error: ErrorInfo) -> bool:
        # Candidates report "KeyError: x", only "x", or the class beside the message.
        bare = _CLASS.sub("", error.message)
        return any(map(partial(matches, self.text), (error.message, str(error), bare)))


@register("run.failed_steps")
class RunFailedSteps(Rule, frozen=True):
    """At least this many errors happened outside of calls, such as steps whose code did not run."""

    plain = "min"
    notes = {"min": "the minimum number of errors; a plain number sets this"}
    examples = ("run.failed_steps: 1",)
    min: Annotated[int, Meta(ge=1)]

    def seen_in(self, run: TraceRun) -> Seen:
        errors = error_events(run)
        expected = f"at least {self.min} errors outside of calls"
        if not errors:
            return Seen(False, "The run reported no error", expected, "no errors", last_seq(run))
        last = errors[-1]
        count = "one error" if len(errors) == 1 else f"{len(errors)} errors"
        actual = f"{count}, the last one {short(str(last.error))!r}"
        seq = failing_call(run, last)
        if seq is None:
            seq = last.seq
        return Seen(len(errors) >= self.min, f"The run continued after {actual}", expected, actual, seq)


@register("steps.exhausted")
class StepsExhausted(Rule, frozen=True):
    """True: the run was stopped because it used up its steps. False: it was not.

    Steps, turns, iterations, rounds, recursion, tool calls and budgets of time, tokens or cost all count. The signs are
    an error about such a limit (rate limits do not count), an output that begins like `Agent stopped due to iteration
    limit` or `Max turns (30) reached`, or as many steps as the run's metadata names in `max_steps` in a run that did
    not succeed.
    """

    plain = "exhausted"
    named = False
    examples = ("steps.exhausted: true",)
    exhausted: bool

    def seen_in(self, run: TraceRun) -> Seen:
        reason = budget_reason(run)
        return Seen(
            holds=(reason is not None) is self.exhausted,
            text=f"Step budget {_EXHAUSTED[reason is not None]}",
            expected=f"the step budget {_EXHAUSTED[self.exhausted]}",
            actual=reason or f"{step_count(run)} steps, no sign of a limit",
            seq=ending_seq(run),
        )


def failing_call(run: TraceRun, error: ErrorEvent) -> int | None:
    """Return the last model call inside the failed step, if the log has the step's duration."""
    end = error.at + error.duration_s
    call = first(reversed(run.llm_calls), lambda call: error.at <= call.at < end)
    return None if call is None else call.seq
