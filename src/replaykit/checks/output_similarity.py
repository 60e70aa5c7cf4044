"""Assertions about the similarity of an answer to a text, and about refusals: lexical, without a model."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from replaykit.checks.output import seen_output
from replaykit.checks.reading import has_output, output_text, short
from replaykit.checks.rule import Rule, Seen, Share, register
from replaykit.model.run import TraceRun


@register("output.edit_distance")
class OutputEditDistance(Rule, frozen=True):
    """The output becomes this text by adding, removing or replacing at most this many letters (Levenshtein).

    Takes time in proportion to the length of the output times `max`.
    """

    notes = {"to": "the text", "max": "the maximum number of characters that differ, up to 1000"}
    examples = ('output.edit_distance: {to: "You were charged $49.99.", max: 3}',)
    to: str
    max: Annotated[int, Meta(ge=0, le=1000)]

    def seen_in(self, run: TraceRun) -> Seen:
        distance = edit_distance(output_text(run), self.to, self.max)
        actual = f"more than {self.max}" if distance is None else f"{distance}"
        return seen_output(
            run,
            has_output(run) and distance is not None,
            f"Output is {actual} letters away from the text",
            f"output at most {self.max} letters away from {short(self.to)!r}",
        )


@register("output.similar")
class OutputSimilar(Rule, frozen=True):
    """The output shares at least this much of its words with the text: a lexical similarity, without a model.

    Both texts are split into words (letters, digits and `_`, ignoring case) and pairs of neighbouring words. The
    similarity is twice the shared ones over all of both: 1 for the same words in the same order, 0 for no word in
    common. Texts without any word, such as emoji, are similar only when they are the same. It knows nothing of meaning:
    "paid" and "not paid" are near, "car" and "automobile" are not.
    """

    notes = {"to": "the text", "min": "the minimum similarity, from 0 to 1"}
    examples = ('output.similar: {to: "You were charged $49.99 for a plan.", min: 0.7}',)
    to: str
    min: Share

    def __post_init__(self) -> None:
        if not self.to.strip():
            raise ValueError("expected some text in `to`")

    def seen_in(self, run: TraceRun) -> Seen:
        ratio = similarity(output_text(run), self.to) if has_output(run) else 0.0
        return seen_output(
            run,
            has_output(run) and ratio >= self.min - 1e-9,  # rounding may put a quotient slightly below its limit
            f"Output has a similarity of {ratio:.2f}",
            f"output with a similarity of at least {self.min:g} to {short(self.to)!r}",
        )


@register("output.refusal")
class OutputRefusal(Rule, frozen=True):
    """True: the output refuses to do what was asked. False: there is an output, and it does not.

    It refuses when its first 300 characters say that the speaker will not or cannot do something asked ("I can't help
    with that", "I must decline", "Your request cannot be granted"), in English or one of ten other languages. An
    apology alone is not a refusal. This matches words, not meaning: an answer that refuses and then complies counts as
    a refusal, so also check that the tool was not called.
    """

    plain = "refuses"
    named = False
    examples = ("output.refusal: true",)
    refuses: bool

    def seen_in(self, run: TraceRun) -> Seen:
        words = refusal(output_text(run))
        if self.refuses:
            holds = words is not None
        else:
            holds = has_output(run) and words is None
        return seen_output(
            run,
            holds,
            f"Output refuses: {words!r}" if words else "Output does not refuse",
            "output that refuses" if self.refuses else "output that does not refuse",
        )


REFUSAL_CHARS = 300
"""The characters of an answer within which a refusal may begin."""

_WORD = re.compile(r"\w+")
_NOT = (
    r"cannot|can not|can't|could not|couldn't|will not|won't|would not|wouldn't"
    r"|(?:am|'m|are|'re) (?:unable|not able|not allowed|not permitted|not going|not willing) to"
)
_HOW = r"(?:in good conscience|ethically|legally|directly|personally|possibly|ever|really|just) "
_DO = (
    r"help(?! but)|assist|comply|support|engage|participate|proceed|continue|fulfil|fulfill|accommodate|honou?r|grant"
    r"|do (?:that|this|so|it)|carry out|follow|perform|process|complete|execute|provide|share|give|offer|disclose"
    r"|reveal|discuss|answer|respond|create|generate|produce|write|send|make|transfer|access|issue|delete|approve"
    r"|authori[sz]e|agree"
)
_REFUSAL = (
    rf"\b(?:I|we) ?(?:{_NOT}) (?:{_HOW})?(?:{_DO})\b"
    r"|\b(?:I|we) (?:(?:must|have to|need to|will|would) )?(?:respectfully |politely )?(?:decline|refuse)\b"
    r"|\b(?:that|this|it)(?:'s| is) (?:not something (?:I|we) can|against (?:my|our) )"
    r"|\b(?:your|this|that|the) request (?:cannot be|can't be) (?:granted|fulfilled|processed|completed)\b"
)
_ELSEWHERE = (
    # German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Japanese, Chinese
    r"\b(?:dabei|damit|dabei leider|das|dieser bitte|diese anfrage)? ?kann ich (?:ihnen |dir )?(?:leider )?nicht"
    r" (?:helfen|nachkommen|erfüllen|beantworten|unterstützen)\b|\bich (?:muss|möchte) (?:das |dies )?ablehnen\b",
    r"\bje ne (?:peux|suis) pas (?:vous aider|t'aider|répondre|en mesure|autorisé|fournir|faire)",
    r"\bno (?:puedo|podemos) (?:ayudar|ayudarte|ayudarle|hacer eso|proporcionar|cumplir|responder)",
    r"\bnão (?:posso|podemos|consigo) (?:ajudar|fazer isso|fornecer|responder|atender)",
    r"\bnon (?:posso|possiamo) (?:aiutar|farlo|fornir|risponder|soddisfare)",
    r"\b(?:ik kan|daar kan ik) (?:je |u )?(?:daar )?niet (?:bij |mee )?(?:helpen|voldoen|verstrekken)\b",
    r"\bnie mogę (?:\w+ ){0,3}(?:pomóc|tego zrobić|udostępnić|odpowiedzieć|spełnić)",
    r"\bя не могу (?:\w+ ){0,3}(?:помочь|это сделать|предоставить|ответить|выполнить)",
    r"(?:お手伝い|お答え|ご案内|ご提供|対応)(?:は|が|することは)?できません|お断り(?:し|いた)",
    r"(?:无法|不能|無法)(?:为您|帮助|协助|提供|满足|回答|协助您|協助)|我(?:必须)?拒绝",
)


def edit_distance(text: str, other: str, most: int) -> int | None:
    """Return the edit distance of two texts; None if it is above `most`.

    Fills in only the band of the table that can stay within `most`: O(length · most).
    """
    if abs(len(text) - len(other)) > most:
        return None
    far = most + 1
    width = 2 * most + 1
    # Place k of row i is column i - most + k.
    row = [k - most if k >= most else far for k in range(width)]
    for index, letter in enumerate(text, 1):
        above, row = row, [far] * width
        for k in range(max(0, most - index), min(width, len(other) - index + most + 1)):
            column = index - most + k
            if column == 0:
                row[k] = min(index, far)
                continue
            best = above[k] + (letter != other[column - 1])
            if k + 1 < width:
                best = min(best, above[k + 1] + 1)
            if k:
                best = min(best, row[k - 1] + 1)
            row[k] = min(best, far)
    distance = row[len(other) - len(text) + most]
    if distance <= most:
        return distance
    return None


def similarity(text: str, other: str) -> float:
    """Return the share of words and word pairs that two texts have in common: from 0, nothing, to 1, all.

    This is the Dice coefficient, ignoring case; linear. Texts without any word are similar only if they are equal: a
    thumbs-up is not a thumbs-down.
    """
    a, b = _pieces(text), _pieces(other)
    both = a.total() + b.total()
    if both:
        return 2 * (a & b).total() / both
    return float(text.split() == other.split())


def refusal(text: str) -> str | None:
    """Return the words with which a text refuses a request, or None."""
    # Not compiled at import: Python caches patterns, and few runs need this one.
    pattern = "|".join((_REFUSAL, *_ELSEWHERE))
    match = re.search(pattern, text[: 2 * REFUSAL_CHARS].replace("\u2019", "'"), re.IGNORECASE)
    if match and match.start() < REFUSAL_CHARS:
        return match[0]
    return None


def _pieces(text: str) -> Counter[str]:
    words = _WORD.findall(text.casefold())
    return Counter([*words, *(f"{a} {b}" for a, b in pairwise(words))])
