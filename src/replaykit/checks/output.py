"""Assertions about what a run answered, as a text: what is in it, and what it begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.checks.compare import same
from replaykit.checks.failure_texts import is_traceback
from replaykit.checks.reading import (
    has_output,
    is_blank,
    last_seq,
    output_text,
    says_something,
    short,
    shown,
    shown_output,
)
from replaykit.checks.regexes import check_pattern, search
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy

_CLASS = lazy(r"\A(?:[A-Za-z_]\w*\.)*([A-Z]\w*: )")
_ERROR_LABEL = lazy(
    r"\A(?:[A-Za-z_][\w.]*(?:Error|Exception)|(?:an )?(?:error|exception|failure)(?: occurred)?) ?[:-] ?", re.IGNORECASE
)


@ASSERTIONS.register("final_output_exists")
class FinalOutputExists(Rule, frozen=True, kw_only=True):
    """True: there is an output, and it is not blank. False: there is none, or a blank one."""

    family = "output"
    plain = "exists"
    named = False
    examples = ("final_output_exists: true",)
    exists: bool

    def check(self, run: TraceRun, context: Context) -> Seen:
        return seen_output(
            run,
            says_something(run) is self.exists,
            _in_words(run),
            "a final output" if self.exists else "no final output",
        )


@ASSERTIONS.register("output.empty")
class OutputEmpty(Rule, frozen=True, kw_only=True):
    """True: there is an output, and it is blank. False: there is none, or one that says something."""

    plain = "empty"
    named = False
    examples = ("output.empty: true",)
    empty: bool

    def check(self, run: TraceRun, context: Context) -> Seen:
        return seen_output(
            run,
            (run.output is not None and is_blank(run.output)) is self.empty,
            _in_words(run),
            "an empty final output" if self.empty else "no empty final output",
        )


@ASSERTIONS.register("output.equals")
class OutputEquals(Rule, frozen=True, kw_only=True):
    """The output is this JSON value. Null means that there is none."""

    plain = "value"
    named = False
    examples = ("output.equals: {paid: true, amount: 49.99}",)
    value: Json

    def check(self, run: TraceRun, context: Context) -> Seen:
        equal = same(run.output, self.value)
        if equal:
            text = "Output is as expected"
        elif has_output(run):
            text = "Output differs"
        else:
            text = "No final output"
        return seen_output(run, equal, text, f"output {shown(self.value)}")


class _OneText(Rule, frozen=True, kw_only=True):
    plain = "text"
    named = False
    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("expected some text: an empty one is in every output")

    def _seen(self, run: TraceRun, holds: bool, expected: str) -> Seen:
        found = "contains" if self.text in output_text(run) else "does not contain"
        if has_output(run):
            text = f"Output {found} {self.text!r}"
        else:
            text = "No final output"
        return seen_output(run, holds, text, expected)


@ASSERTIONS.register("output.contains")
class OutputContains(_OneText, frozen=True, kw_only=True):
    """The text is in the output, letter by letter.

    An output that is no text is looked at as JSON, compact and with sorted keys; so it is by all kinds of this family
    that look for a text.
    """

    examples = ('output.contains: "$49.99"', "output.contains: '\"paid\":true'")

    def check(self, run: TraceRun, context: Context) -> Seen:
        return self._seen(run, self.text in output_text(run), f"output containing {self.text!r}")


@ASSERTIONS.register("output.not_contains")
class OutputNotContains(_OneText, frozen=True, kw_only=True):
    """There is an output, and the text is not in it. A run without an output does not pass by silence."""

    examples = ("output.not_contains: internal error",)

    def check(self, run: TraceRun, context: Context) -> Seen:
        holds = has_output(run) and self.text not in output_text(run)
        return self._seen(run, holds, f"output without {self.text!r}")


@ASSERTIONS.register("output.icontains")
class OutputIContains(_OneText, frozen=True, kw_only=True):
    """The text is in the output, upper and lower case alike."""

    examples = ("output.icontains: yearly plan",)

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = self.text.casefold() in output_text(run).casefold()
        text = f"Output {'contains' if found else 'does not contain'} {self.text!r}, in any case"
        return seen_output(run, found, text, f"output containing {self.text!r}, in any case")


@ASSERTIONS.register("output.starts_with")
class OutputStartsWith(_OneText, frozen=True, kw_only=True):
    """The output begins with the text, letter by letter."""

    examples = ("output.starts_with: You were charged",)

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = output_text(run).startswith(self.text)
        text = f"Output {'begins' if found else 'does not begin'} with {self.text!r}"
        return seen_output(run, found, text, f"output that begins with {self.text!r}")


class _SomeTexts(Rule, frozen=True, kw_only=True):
    plain = "texts"
    notes = {"texts": "the texts", "ignore_case": "upper and lower case are alike"}
    texts: list[str]
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if not self.texts or not all(self.texts):
            raise ValueError("expected at least one text, and none that is empty: an empty one is in every output")

    def missing(self, run: TraceRun) -> list[str]:
        """The texts that are not in the output."""
        fold = str.casefold if self.ignore_case else str
        output = fold(output_text(run))
        return [text for text in self.texts if fold(text) not in output]


@ASSERTIONS.register("output.contains_all")
class OutputContainsAll(_SomeTexts, frozen=True, kw_only=True):
    """All of the texts are in the output, in any order."""

    examples = (
        'output.contains_all: ["$49.99", plan]',
        "output.contains_all: {texts: [YEARLY, Plan], ignore_case: true}",
    )

    def check(self, run: TraceRun, context: Context) -> Seen:
        missing = self.missing(run)
        if missing:
            text = f"Output does not contain {shown(missing)}"
        else:
            text = "Output contains all texts"
        return seen_output(run, not missing, text, f"output containing all of {shown(self.texts)}")


@ASSERTIONS.register("output.contains_any")
class OutputContainsAny(_SomeTexts, frozen=True, kw_only=True):
    """At least one of the texts is in the output."""

    examples = ('output.contains_any: ["$49.99", "49.99 USD"]',)

    def check(self, run: TraceRun, context: Context) -> Seen:
        missing = self.missing(run)
        found = [text for text in self.texts if text not in missing]
        if found:
            text = f"Output contains {found[0]!r}"
        else:
            text = f"Output contains none of {shown(self.texts)}"
        return seen_output(run, bool(found), text, f"output containing any of {shown(self.texts)}")


@ASSERTIONS.register("output.error")
class OutputError(_OneText, frozen=True, kw_only=True):
    """The output is an error in the place of an answer: a traceback, or an error's text and nothing more.

    The text is that of the error, with or without its class. A word in front of it such as `Error:` adds nothing; an
    answer that says what did not work, and names the error as the reason, is an answer. An output that is no text is
    not an error.
    """

    examples = ('output.error: "PaymentFailed: the card has expired"',)

    def check(self, run: TraceRun, context: Context) -> Seen:
        answer = run.output if isinstance(run.output, str) else ""
        expected = f"the error {short(self.text)!r} in the place of an answer"
        if is_traceback(answer):
            return seen_output(run, True, "Output is a traceback", expected)
        stripped = _ERROR_LABEL.sub("", " ".join(answer.split())).rstrip(".")
        is_error = stripped in {text.rstrip(".") for text in _spellings(" ".join(self.text.split()))}
        if is_error:
            text = "Output is the text of an error"
        else:
            text = "Output is not the text of an error"
        return seen_output(run, is_error, text, expected)


@ASSERTIONS.register("output.regex")
class OutputRegex(Rule, frozen=True, kw_only=True):
    """The pattern, as Python's `re` reads it, is found in the output.

    `.` does not match the end of a line unless the pattern begins with `(?s)`; `(?i)` makes upper and lower case alike.
    See [patterns from files](#patterns-from-files) for their bounds.
    """

    plain = "pattern"
    notes = {"pattern": "the pattern", "whole": "the whole output has to match"}
    examples = (
        r"output.regex: '\$\d+\.\d\d'",
        "output.regex: {pattern: '(?i)you were .*plan[.]', whole: true}",
    )
    pattern: str
    whole: bool = False

    def __post_init__(self) -> None:
        check_pattern(self._own)

    @property
    def _own(self) -> str:
        # Inline flags have to stay in front.
        flags = re.match(r"\(\?[aiLmsux]+\)", self.pattern)
        start = flags.end() if flags else 0
        if self.whole:
            return rf"{self.pattern[:start]}\A(?:{self.pattern[start:]})\Z"
        return self.pattern

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = has_output(run) and search(self._own, output_text(run)) is not None
        text = f"Output {'matches' if found else 'does not match'} /{self.pattern}/"
        return seen_output(run, found, text, f"output that matches /{self.pattern}/")


def seen_output(run: TraceRun, holds: bool, text: str, expected: str, actual: str | None = None) -> Seen:
    """Return the result of a rule about the output."""
    return Seen(holds, text, expected, shown_output(run) if actual is None else actual, last_seq(run))


def _spellings(error: str) -> Iterator[str]:
    """Give an error's text as it is, with its class but not the module, and without the class, or several of them."""
    yield error
    while found := _CLASS.match(error):
        yield error[found.start(1) :]
        error = error[found.end() :]
        yield error


def _in_words(run: TraceRun) -> str:
    if not has_output(run):
        return "No final output"
    if says_something(run):
        return "Final output exists"
    return "Final output is empty"
