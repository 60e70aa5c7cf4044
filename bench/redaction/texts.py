"""Plain texts with nothing to find in them: what most of a recording is, and what a finder's speed is told by."""

from __future__ import annotations

import json
import random

from .forms import LOWER_HEX, pick, word

PIECE_BYTES = 4096
KINDS = ("prose", "json", "code")

_COMMON = (
    *("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "they", "be", "at"),
    *("one", "have", "this", "from", "by", "not", "but", "what", "all", "were", "we", "when", "your", "can", "said"),
    *("there", "use", "an", "each", "which", "she", "do", "how", "their", "if", "will", "up", "other", "about", "out"),
    *("many", "then", "them", "these", "so", "some", "her", "would", "make", "like", "him", "into", "time", "has"),
)
_LINES = (
    "    def {a}(self, {b}: list[str], *, limit: int = {n}) -> dict[str, int]:",
    "        for index, {a} in enumerate(self.{b}):",
    '            if {a}.kind == "{b}" and index < {n}:',
    "                self._{a}[{b}] = max({n}, len({a}) - 1)",
    "        return {{{a}: {b}({a}, depth={n}) for {a} in self.{b}.values()}}",
    '        raise ValueError(f"{a} {{{b}!r}} has more than {n} entries")',
    "        # The {a} of a {b} is not known before it was read once.",
    "        {a} = sorted({b}, key=lambda item: (item.{a}, -item.count))[:{n}]",
    "",
)


def pieces(kind: str, size: int) -> list[str]:
    """`size` bytes of text of this kind, in pieces of 4 KB as messages and tool results are."""
    write = {"prose": _prose, "json": _json, "code": _code}[kind]
    rng = random.Random(f"plain {kind}")
    return [write(rng)[:PIECE_BYTES] for _ in range(max(1, size // PIECE_BYTES))]


def _sentence(rng: random.Random) -> str:
    words = [rng.choice(_COMMON) if rng.random() < 0.6 else word(rng) for _ in range(rng.randint(6, 18))]
    return " ".join(words).capitalize() + rng.choice((". ", ". ", "? ", ", so to say. "))


def _until(write: list[str], size: int = PIECE_BYTES) -> bool:
    return sum(map(len, write)) >= size


def _prose(rng: random.Random) -> str:
    parts: list[str] = []
    while not _until(parts):
        parts.append(_sentence(rng))
    return "".join(parts)


def _json(rng: random.Random) -> str:
    messages: list[str] = []
    while not _until(messages):
        message = {
            "id": f"msg_{pick(rng, LOWER_HEX, 24)}",
            "role": rng.choice(("user", "assistant", "tool")),
            "content": "".join(_sentence(rng) for _ in range(rng.randint(2, 5))),
            "usage": {"prompt_tokens": rng.randint(10, 9000), "completion_tokens": rng.randint(10, 900)},
            "created": 1_700_000_000 + rng.randint(0, 10**7),
            "score": round(rng.random(), 6),
        }
        messages.append(json.dumps(message))
    return "[" + ", ".join(messages) + "]"


def _code(rng: random.Random) -> str:
    lines: list[str] = []
    while not _until(lines):
        lines.append(rng.choice(_LINES).format(a=word(rng), b=word(rng), n=rng.randint(2, 512)) + "\n")
    return "".join(lines)
