"""Feedback on a run of LangSmith: what was said of it under each key, summed up.

"feedback_stats": {"correctness": {"n": 2, "avg": 0.0, "values": {"wrong": 2}, "comments": ["…"]}, …}
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.importers.labels import Label
from replaykit.importers.verdicts import says_failure
from replaykit.model.values import Json
from replaykit.wire.fields import as_object

_COMMENTS = 3


def feedback_labels(stats: Json) -> Iterator[Label]:
    """A label for each key: the mean of its scores, or the words that were chosen, and some of the comments."""
    for key, said in as_object(stats).items():
        found = as_object(said)
        mean, words = found.get("avg"), list(as_object(found.get("values")))
        is_number = isinstance(mean, int | float) and not isinstance(mean, bool)
        if not is_number and not words:
            continue
        comments = found.get("comments")
        told = [text for text in comments if isinstance(text, str)] if isinstance(comments, list) else []
        yield Label(
            name=key,
            value=mean if is_number else words[0] if len(words) == 1 else words,
            failed=says_failure(key, mean) if is_number else all(says_failure(key, word) for word in words),
            why="; ".join(told[:_COMMENTS]),
        )
