"""The answer that an output gives, beside what a dataset says is right."""

from __future__ import annotations

import re

from replaykit.checks.output import seen_output
from replaykit.checks.reading import has_output, output_text, short
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.model.run import TraceRun
from replaykit.redaction.lazy_patterns import lazy

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


@ASSERTIONS.register("output.answer")
class OutputAnswer(Rule, frozen=True, kw_only=True):
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

    def check(self, run: TraceRun, context: Context) -> Seen:
        text = output_text(run)
        answer = marked_answer(text)
        holds = has_output(run) and gives_answer(text, self.reference)
        if answer:
            shown = f"Output answers {short(answer)!r}"
        else:
            shown = "Output marks no answer"
        verdict = "Output gives the expected answer" if holds else shown
        return seen_output(run, holds, verdict, f"the answer {short(self.reference)!r}")


def marked_answer(text: str) -> str | None:
    """Return what a text marks as its answer; None when it marks nothing."""
    found = list(_MARKED.finditer(text))
    if not found:
        return None
    return (found[-1]["answer"] or found[-1]["boxed"] or "").strip() or None


def gives_answer(text: str, reference: str) -> bool:
    """True when the text's answer is the reference."""
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
