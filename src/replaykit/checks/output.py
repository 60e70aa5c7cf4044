"""Assertions about the text of a run's answer: what it contains, how it begins, which answer it gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.checks.compare import same
from replaykit.checks.failures import is_traceback
from replaykit.checks.reading import (
    first,
    has_output,
    last_seq,
    output_text,
    says_something,
    short,
    shown,
    shown_output,
)
from replaykit.checks.regexes import check_pattern, search
from replaykit.checks.rule import Rule, Seen, register
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy

_CLASS = lazy(r"\A(?:[A-Za-z_]\w*\.)*([A-Z]\w*: )")
_ERROR_LABEL = lazy(
    r"\A(?:[A-Za-z_][\w.]*(?:Error|Exception)|(?:an )?(?:error|exception|failure)(?: occurred)?) ?[:-] ?", re.IGNORECASE
)


@register("final_output_exists")
class FinalOutputExists(Rule, frozen=True):
    """True: there is an output, and it is not blank. False: there is no output, or a blank one."""

    family = "output"
    plain = "exists"
    named = False
    examples = ("final_output_exists: true",)
    exists: bool

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"{'a' if self.exists else 'no'} final output"
        return seen_output(run, says_something(run) is self.exists, _in_words(run), expected)


@register("output.empty")
class OutputEmpty(Rule, frozen=True):
    """True: there is an output, and it is blank. False: there is none, or one that says something."""

    plain = "empty"
    named = False
    examples = ("output.empty: true",)
    empty: bool

    def seen_in(self, run: TraceRun) -> Seen:
        is_empty = has_output(run) and not says_something(run)
        expected = f"{'an' if self.empty else 'no'} empty final output"
        return seen_output(run, is_empty is self.empty, _in_words(run), expected)


@register("output.equals")
class OutputEquals(Rule, frozen=True):
    """The output is this JSON value. Null means that there is no output."""

    plain = "value"
    named = False
    examples = ("output.equals: {paid: true, amount: 49.99}",)
    value: Json

    def seen_in(self, run: TraceRun) -> Seen:
        equal = same(run.output, self.value)
        text = "Output differs" if has_output(run) else "No final output"
        return seen_output(run, equal, "Output is as expected" if equal else text, f"output {shown(self.value)}")


class _OneText(Rule, frozen=True, kw_only=True):
    plain = "text"
    named = False
    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("expected some text: an empty one is in every output")

    def _seen(self, run: TraceRun, holds: bool, expected: str) -> Seen:
        if not has_output(run):
            return seen_output(run, holds, "No final output", expected)
        found = "contains" if self.text in output_text(run) else "does not contain"
        return seen_output(run, holds, f"Output {found} {self.text!r}", expected)


@register("output.contains")
class OutputContains(_OneText, frozen=True, kw_only=True):
    """The text is in the output, letter by letter.

    An output that is no text is looked at as JSON, compact and with sorted keys; so it is by all kinds of this family
    that look for a text.
    """

    examples = ('output.contains: "$49.99"', "output.contains: '\"paid\":true'")

    def seen_in(self, run: TraceRun) -> Seen:
        return self._seen(run, self.text in output_text(run), f"output containing {self.text!r}")


@register("output.not_contains")
class OutputNotContains(_OneText, frozen=True, kw_only=True):
    """There is an output, and the text is not in it. A run without an output does not pass by silence."""

    examples = ("output.not_contains: internal error",)

    def seen_in(self, run: TraceRun) -> Seen:
        holds = has_output(run) and self.text not in output_text(run)
        return self._seen(run, holds, f"output without {self.text!r}")


@register("output.icontains")
class OutputIContains(_OneText, frozen=True, kw_only=True):
    """The text is in the output, upper and lower case alike."""

    examples = ("output.icontains: yearly plan",)

    def seen_in(self, run: TraceRun) -> Seen:
        found = self.text.casefold() in output_text(run).casefold()
        text = f"Output {'contains' if found else 'does not contain'} {self.text!r}, in any case"
        return seen_output(run, found, text, f"output containing {self.text!r}, in any case")


@register("output.starts_with")
class OutputStartsWith(_OneText, frozen=True, kw_only=True):
    """The output begins with the text, letter by letter."""

    examples = ("output.starts_with: You were charged",)

    def seen_in(self, run: TraceRun) -> Seen:
        found = output_text(run).startswith(self.text)
        text = f"Output {'begins' if found else 'does not begin'} with {self.text!r}"
        return seen_output(run, found, text, f"output that begins with {self.text!r}")


class _SomeTexts(Rule, frozen=True, kw_only=True):
    plain = "texts"
    notes = {"texts": "the texts", "ignore_case": "ignore upper and lower case"}
    texts: list[str]
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if not self.texts or not all(self.texts):
            raise ValueError("expected at least one text, and none that is empty: an empty one is in every output")

    def missing(self, run: TraceRun) -> list[str]:
        """Return the texts that are not in the output."""
        fold = str.casefold if self.ignore_case else str
        output = fold(output_text(run))
        return [text for text in self.texts if fold(text) not in output]


@register("output.contains_all")
class OutputContainsAll(_SomeTexts, frozen=True, kw_only=True):
    """All of the texts are in the output, in any order."""

    examples = (
        'output.contains_all: ["$49.99", plan]',
        "output.contains_all: {texts: [YEARLY, Plan], ignore_case: true}",
    )

    def seen_in(self, run: TraceRun) -> Seen:
        missing = self.missing(run)
        text = f"Output does not contain {shown(missing)}" if missing else "Output contains all texts"
        return seen_output(run, not missing, text, f"output containing all of {shown(self.texts)}")


@register("output.contains_any")
class OutputContainsAny(_SomeTexts, frozen=True, kw_only=True):
    """At least one of the texts is in the output."""

    examples = ('output.contains_any: ["$49.99", "49.99 USD"]',)

    def seen_in(self, run: TraceRun) -> Seen:
        missing = self.missing(run)
        found = first(self.texts, lambda text: text not in missing)
        text = f"Output contains none of {shown(self.texts)}" if found is None else f"Output contains {found!r}"
        return seen_output(run, found is not None, text, f"output containing any of {shown(self.texts)}")


@register("output.error")
class OutputError(_OneText, frozen=True, kw_only=True):
    """The output is an error instead of an answer: a traceback, or an error's text and nothing more.

    The text is that of the error, with or without its class. A word in front of it such as `Error:` adds nothing; an
    answer that says what did not work, and names the error as the reason, is an answer. An output that is no text is
    not an error.
    """

    examples = ('output.error: "PaymentFailed: the card has expired"',)

    def seen_in(self, run: TraceRun) -> Seen:
        answer = run.output if isinstance(run.output, str) else ""
        expected = f"the error {short(self.text)!r} in the place of an answer"
        if is_traceback(answer):
            return seen_output(run, True, "Output is a traceback", expected)
        stripped = _ERROR_LABEL.sub("", " ".join(answer.split())).rstrip(".")
        is_error = stripped in {text.rstrip(".") for text in _spellings(" ".join(self.text.split()))}
        return seen_output(run, is_error, f"Output is {'' if is_error else 'not '}the text of an error", expected)


@register("output.regex")
class OutputRegex(Rule, frozen=True):
    """The pattern, as Python's `re` reads it, is found in the output.

    `.` does not match the end of a line unless the pattern begins with `(?s)`; `(?i)` makes upper and lower case alike.
    See [patterns from files](#patterns-from-files) for their bounds.
    """

    plain = "pattern"
    notes = {"pattern": "the pattern", "whole": "the whole output must match"}
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
        # Inline flags must stay in front.
        flags = re.match(r"\(\?[aiLmsux]+\)", self.pattern)
        start = flags.end() if flags else 0
        if self.whole:
            return rf"{self.pattern[:start]}\A(?:{self.pattern[start:]})\Z"
        return self.pattern

    def seen_in(self, run: TraceRun) -> Seen:
        pattern = _shown_pattern(self.pattern)
        expected = f"output that matches {pattern}"
        found = search(self._own, output_text(run)) if has_output(run) else None
        if found is None:
            return seen_output(run, False, f"Output does not match {pattern}", expected)
        match = output_text(run)[slice(*found)]
        return seen_output(run, True, f"Output matches {pattern}", expected, f"{shown(match)} in {shown_output(run)}")

    def opposite(self, expected: str) -> str:
        return f"output that does not match {_shown_pattern(self.pattern)}"


def _shown_pattern(pattern: str) -> str:
    """Return a pattern in the common notation `/pattern/flags`."""
    flags = re.match(r"\(\?([aiLmsux]+)\)", pattern)
    if flags is None:
        return f"/{pattern}/"
    return f"/{pattern[flags.end() :]}/{flags[1]}"


def seen_output(run: TraceRun, holds: bool, text: str, expected: str, actual: str | None = None) -> Seen:
    """Return the result of a rule about the output."""
    return Seen(holds, text, expected, shown_output(run) if actual is None else actual, last_seq(run))


def _spellings(error: str) -> Iterator[str]:
    """Yield an error's text as it is, without the module of its class, and without one class after another."""
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


_MARKED = lazy(
    r"(?:final answer|answer|solution|antwort|réponse|respuesta|resposta|risposta|antwoord|odpowiedź|ответ"
    r"|答え|答案|回答)"
    r"\s*(?:is|lautet|est|es|é|è)?\s*(?:[:：=]|\bis\b)\s*\**\s*(?P<answer>[^\n]+)"
    r"|\\boxed\s*\{(?P<boxed>[^{}]+)\}",
    re.IGNORECASE,
)
_EDGES = " \t\r\n.,;:!?*_`\"'“”‘’()[]{}$€£%"
_GROUPED = lazy(r"(?<=\d)[,\u00a0\u202f](?=\d{3}(?!\d))")
_TRAILING_ZEROS = lazy(r"(?<=\d)\.0+(?!\d)")
_LETTER = lazy(r"\(?([a-z])\)?(?:[).:,\s]|$)")


@register("output.answer")
class OutputAnswer(Rule, frozen=True):
    """The output's answer is this one, as a dataset's reference has it.

    The answer is what stands behind the last "Answer:" or "Final answer:", in one of ten languages, or inside a LaTeX
    box. Without such a mark it is enough that the reference stands in the output as a whole word or phrase, unless it
    is a single letter. Upper and lower case, punctuation around it, currency signs, thousands separators and `.0` do
    not matter.
    """

    plain = "reference"
    named = False
    examples = ('output.answer: "$49.99"',)
    reference: str

    def __post_init__(self) -> None:
        if not _plain(self.reference):
            raise ValueError("expected the answer, as a text")

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"the answer {short(self.reference)!r}"
        text = output_text(run)
        if has_output(run) and gives_answer(text, self.reference):
            return seen_output(run, True, "Output gives the expected answer", expected)
        answer = marked_answer(text)
        shown = f"Output answers {short(answer)!r}" if answer else "Output marks no answer"
        return seen_output(run, False, shown, expected)


def marked_answer(text: str) -> str | None:
    """Return what a text marks as its answer, or None."""
    answer = ""
    for found in _MARKED.finditer(text):
        answer = found["answer"] or found["boxed"]
    return answer.strip() or None


def gives_answer(text: str, reference: str) -> bool:
    """Return whether the text's answer is the reference."""
    target = _plain(reference)
    if _plain(text) == target:
        return True
    marked = marked_answer(text)
    if marked is not None:
        return _is_answer(_plain(marked), target)
    if len(target) == 1 and target.isalpha():
        return False
    return _stands_in(target, _plain(text))


def _is_answer(answer: str, target: str) -> bool:
    if answer == target:
        return True
    if len(target) == 1 and target.isalpha():
        letter = _LETTER.match(answer)
        return letter is not None and letter[1] == target
    return _stands_in(target, answer)


def _stands_in(target: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(target)}(?![\w]|\.\d)", text) is not None


def _plain(text: str) -> str:
    line = " ".join(text.casefold().split()).strip(_EDGES)
    return _TRAILING_ZEROS.sub("", _GROUPED.sub("", line))
