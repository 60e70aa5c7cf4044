"""The payloads every system is measured with: the same bytes on every machine and Python version.

The text is made of invented words drawn with the frequencies of natural language, so that compression is
neither a gift nor useless: zstd makes it 2.6 times smaller in frames of 64 KB, and English documentation and
Python sources 2.2 to 3.3 times.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any

MESSAGE_BYTES = 1024
RESULT_BYTES = 1024

_VOCABULARY = 6000
_SYLLABLES = [c + v for c in "bcdfghklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ar", "en", "is", "or")]


@cache
def _words() -> tuple[list[str], list[float]]:
    """The vocabulary, and its cumulated Zipf weights."""
    rng = random.Random(1)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(_VOCABULARY)]
    return words, list(accumulate(1 / (rank + 3) for rank in range(_VOCABULARY)))


def prose(rng: random.Random, size: int) -> str:
    """Text of exactly `size` characters that compresses like prose."""
    words, weights = _words()
    text = ""
    while len(text) < size:
        sentence = " ".join(rng.choices(words, cum_weights=weights, k=rng.randint(5, 16)))
        text += f"{sentence.capitalize()}{rng.choice(('. ', '. ', ', ', '; '))}"
    return text[:size]


def noise(rng: random.Random, size: int) -> str:
    """Text of exactly `size` characters that hardly compresses: letters and digits at random."""
    return "".join(rng.choices(string.ascii_letters + string.digits, k=size))


def messages(count: int, text: str = "prose") -> list[dict[str, Any]]:
    """Chat messages of 1,024 bytes of JSON each; their content is `prose` or `noise`."""
    rng = random.Random(2)
    write = {"prose": prose, "noise": noise}[text]
    out = []
    for index in range(count):
        message: dict[str, Any] = {
            "by": ("user", "assistant", "tool")[index % 3],  # not "role": LangGraph would make it a class
            "id": f"{rng.getrandbits(64):016x}",
            "content": "",
            "tokens": rng.randrange(100, 2000),
        }
        message["content"] = write(rng, MESSAGE_BYTES - len(json.dumps(message, separators=(",", ":"))))
        out.append(message)
    return out


def states(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The state after each step: one and the same dict, whose list of messages grows by 1 KB a step.

    Changed in place, as an agent that appends to its history does: whoever stores it has to take it now.
    """
    state: dict[str, Any] = {"step": 0, "messages": []}
    for index, message in enumerate(messages):
        state["step"] = index
        state["messages"].append(message)
        yield state


def state_at(messages: list[dict[str, Any]], step: int) -> dict[str, Any]:
    """What `states` yielded after that step."""
    return {"step": step, "messages": messages[: step + 1]}


def results(count: int) -> list[dict[str, Any]]:
    """Tool results of 1,024 bytes of JSON each, all different."""
    rng = random.Random(3)
    out = []
    for index in range(count):
        result: dict[str, Any] = {
            "id": index,
            "ok": True,
            "rows": [{"key": noise(rng, 20), "value": prose(rng, 80)} for _ in range(7)],
            "note": "",
        }
        result["note"] = prose(rng, RESULT_BYTES - len(json.dumps(result, separators=(",", ":"))))
        out.append(result)
    return out
