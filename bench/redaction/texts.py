"""Plain texts with nothing to find in them: what most of a recording is, and what a finder's speed is told by."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

from .forms import LOWER_HEX, pick, word

PIECE_BYTES = 4096
KINDS = ("prose", "json", "code")
"""Texts with nothing to find."""
ALL_KINDS = (*KINDS, "tool-results", "access-logs", "chats", "markdown", "hexadecimal", "base64")
"""Also texts that look like something to find: addresses of a network, digests, encoded bytes."""

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
    write = _WRITERS[kind]
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


def _until_full(line: Callable[[], str]) -> str:
    lines: list[str] = []
    while not _until(lines):
        lines.append(line())
    return "".join(lines)


def _tool_results(rng: random.Random) -> str:
    def line() -> str:
        items = [
            {
                "sku": f"SKU-{rng.randint(100, 999)}",
                "quantity": rng.randint(1, 9),
                "price": round(rng.random() * 100, 2),
            }
            for _ in range(3)
        ]
        moment = f"2026-03-{rng.randint(1, 28):02d}T10:{rng.randint(0, 59):02d}:00Z"
        return (
            json.dumps({"order": rng.randint(10**5, 10**6), "items": items, "at": moment, "note": _sentence(rng)})
            + "\n"
        )

    return _until_full(line)


def _access_logs(rng: random.Random) -> str:
    def line() -> str:
        client = f"10.0.{rng.randint(0, 255)}.{rng.randint(0, 255)}"
        moment = f"12/Mar/2026:14:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d} +0000"
        request = f"GET /api/v1/{word(rng)}/{rng.randint(1, 9999)}?page={rng.randint(1, 9)} HTTP/1.1"
        agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"
        return f'{client} - - [{moment}] "{request}" 200 {rng.randint(100, 99_999)} "-" "{agent}"\n'

    return _until_full(line)


def _chats(rng: random.Random) -> str:
    return _until_full(lambda: f"{rng.choice(('User', 'Assistant', 'Tool'))}: {_sentence(rng)}\n")


def _markdown(rng: random.Random) -> str:
    def section() -> str:
        link = f"[{word(rng)}](https://example.com/{word(rng)})"
        table = f"| a | b |\n|---|---|\n| {rng.randint(1, 999)} | {word(rng)} |"
        code = f"```python\n{word(rng)} = {rng.randint(1, 99)}\n```"
        return f"## {word(rng)}\n\n- **{word(rng)}**: {_sentence(rng)}\n- {link}\n\n{table}\n\n{code}\n\n"

    return _until_full(section)


def _hexadecimal(rng: random.Random) -> str:
    return _until_full(lambda: pick(rng, LOWER_HEX, rng.choice((32, 40, 64))) + rng.choice(("\n", " ", "  file.py\n")))


def _base64(rng: random.Random) -> str:
    return _until_full(lambda: base64.b64encode(rng.randbytes(rng.choice((30, 57, 300)))).decode() + "\n")


_WRITERS: dict[str, Callable[[random.Random], str]] = {
    "prose": _prose,
    "json": _json,
    "code": _code,
    "tool-results": _tool_results,
    "access-logs": _access_logs,
    "chats": _chats,
    "markdown": _markdown,
    "hexadecimal": _hexadecimal,
    "base64": _base64,
}
