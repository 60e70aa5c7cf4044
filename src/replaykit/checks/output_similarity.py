"""Assertions about how near an answer is to a text, and whether it refuses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from replaykit.checks.output import seen_output
from replaykit.checks.reading import has_output, output_text, short
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen, Share
from replaykit.checks.text_similarity import edit_distance, refusal, similarity
from replaykit.model.run import TraceRun


@ASSERTIONS.register("output.edit_distance")
class OutputEditDistance(Rule, frozen=True, kw_only=True):
    """The output becomes this text by adding, taking away or replacing at most so many letters (Levenshtein).

    Takes time in proportion to the length of the output times `max`.
    """

    notes = {"to": "the text", "max": "the most letters, up to 1000"}
    examples = ('output.edit_distance: {to: "You were charged $49.99.", max: 3}',)
    to: str
    max: Annotated[int, Meta(ge=0, le=1000)]

    def check(self, run: TraceRun, context: Context) -> Seen:
        distance = edit_distance(output_text(run), self.to, self.max)
        actual = f"more than {self.max}" if distance is None else f"{distance}"
        return seen_output(
            run,
            has_output(run) and distance is not None,
            f"Output is {actual} letters away from the text",
            f"output at most {self.max} letters away from {short(self.to)!r}",
        )


@ASSERTIONS.register("output.similar")
class OutputSimilar(Rule, frozen=True, kw_only=True):
    """The output shares at least this much of its words with the text: a lexical similarity, without a model.

    Both texts are taken apart into words (letters, digits and `_`, upper and lower case alike) and pairs of
    neighbouring words. The similarity is twice what they share over what both have: 1 for the same words in the same
    order, 0 for no word in common. Texts without any word, such as emoji, are similar only when they are the same. It
    knows nothing of meaning: "paid" and "not paid" are near, "car" and "automobile" are not.
    """

    notes = {"to": "the text", "min": "the least similarity, from 0 to 1"}
    examples = ('output.similar: {to: "You were charged $49.99 for a plan.", min: 0.7}',)
    to: str
    min: Share

    def __post_init__(self) -> None:
        if not self.to.strip():
            raise ValueError("expected some text in `to`")

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = similarity(output_text(run), self.to) if has_output(run) else 0.0
        return seen_output(
            run,
            has_output(run) and found >= self.min - 1e-9,
            f"Output has a similarity of {found:.2f}",
            f"output with a similarity of at least {self.min:g} to {short(self.to)!r}",
        )


@ASSERTIONS.register("output.refusal")
class OutputRefusal(Rule, frozen=True, kw_only=True):
    """True: the output refuses to do what was asked. False: there is an output, and it does not.

    It refuses when its first 300 characters say that the speaker will not or cannot do something asked ("I can't help
    with that", "I must decline", "Your request cannot be granted"), in English or one of ten other languages.
    Being sorry is no refusal. These are words, not meaning: an answer that refuses and then complies counts as a
    refusal, so check as well that the tool was not called.
    """

    plain = "refuses"
    named = False
    examples = ("output.refusal: true",)
    refuses: bool

    def check(self, run: TraceRun, context: Context) -> Seen:
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
