"""Search: find where a text occurs in the events of a run, exactly or in another spelling.

Spellings agree if only case, spaces or the form of a number differ: `1,250.00` and `1250`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

from replaykit.model.jsonpath import member_path
from replaykit.model.values import Json, JsonObject, sayable
from replaykit.viewer.page_types import Occurrence

MAX_OCCURRENCES = 1000
_MAX_NEEDLE_CHARS = 10_000
_AROUND_CHARS = 60
_CERTAIN_WORDS = 8
_PATH_CHARS = 1000
_PLACES = ("arguments", "result", "content", "items", "conversation", "options", "errors", "facts")
"""The members of a page that are searched before its row, which repeats them."""
_NUMBER = re.compile(r"[+-]?\d[\d,']*(?:\.\d+)?")
_WORD = re.compile(r"[^\W_]+")


class SearchText:
    """A text to find."""

    def __init__(self, text: str) -> None:
        self._exact = text[:_MAX_NEEDLE_CHARS]
        self._folded = _folded(self._exact)
        self._number = _number_of(self._exact)
        self._words = [word.encode() for word in self._certain_words()]

    def _certain_words(self) -> list[str]:
        """Return parts of the text that each line with an occurrence contains, in any spelling."""
        if self._number is not None:
            whole = self._exact.partition(".")[0]
            return [digits[-3:] for digits in re.findall(r"\d+", whole)[-1:]]  # those in front may be set apart
        return [word for word in _WORD.findall(self._folded) if word.isascii()][:_CERTAIN_WORDS]

    def may_be_in(self, line: bytes) -> bool:
        """Return False for a line of JSON that certainly has no occurrence, without reading it."""
        lowered = line.lower()
        return all(word in lowered for word in self._words)

    def find(self, text: str) -> tuple[int, int, bool] | None:
        """Return where the text occurs in another one, from and to, and whether it does so exactly."""
        at = text.find(self._exact)
        if at >= 0:
            return at, at + len(self._exact), True
        if self._number is not None:
            for match in _NUMBER.finditer(text):
                if _number_of(match[0]) == self._number:
                    return match.start(), match.end(), False
            return None
        at = _folded(text).find(self._folded) if self._folded else -1
        if at < 0:
            return None
        return min(at, len(text)), min(at + len(self._exact), len(text)), False


def find_text(lines: Iterable[bytes], text: str) -> Iterator[Occurrence]:
    """Yield the occurrences of a text in the pages of events, in their order."""
    search_text = SearchText(text)
    if not text.strip():
        return
    count = 0
    for line in lines:
        if not search_text.may_be_in(line):
            continue
        for occurrence in _in_page(orjson.loads(line), search_text):
            yield occurrence
            count += 1
            if count == MAX_OCCURRENCES:
                return


def _in_page(page: JsonObject, search_text: SearchText) -> Iterator[Occurrence]:
    seq, _, title, answer, *_ = page["row"]
    has_found = False
    for place in _PLACES:
        if place not in page:
            continue
        for position, value in _leaves(_searched(place, page[place])):
            found = search_text.find(value)
            if found is not None:
                has_found = True
                start, end, is_exact = found
                excerpt = _excerpt(value, start, end)
                yield Occurrence(seq=seq, place=place, path=_path_of(position), excerpt=excerpt, is_exact=is_exact)
    for path, value in (("$.title", title), ("$.answer", answer)):
        found = None if has_found else search_text.find(value)
        if found is not None:
            has_found = True
            excerpt = _excerpt(value, found[0], found[1])
            yield Occurrence(seq=seq, place="row", path=path, excerpt=excerpt, is_exact=found[2])


def _searched(place: str, value: Json) -> Json:
    """Return what is searched of a member: of a conversation, only the messages that are new."""
    if place != "conversation":
        return value
    return [message if message.get("is_new", True) else None for message in value]


class _Position(NamedTuple):
    """Where a value is. Its path is spelled for occurrences only: with it, each value would hold the names above it."""

    above: _Position | None
    key: str | int


def _leaves(value: Json) -> Iterator[tuple[_Position | None, str]]:
    """Yield the texts, numbers and names in a value; iterative, so that depth does not matter."""
    stack: list[tuple[_Position | None, Json]] = [(None, value)]
    while stack:
        position, item = stack.pop()
        if isinstance(item, dict):
            stack += [(_Position(position, key), member) for key, member in reversed(item.items())]
            yield from ((_Position(position, key), key) for key in item)
        elif isinstance(item, list):
            stack += [(_Position(position, index), item[index]) for index in range(len(item) - 1, -1, -1)]
        elif isinstance(item, str):
            yield position, item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield position, str(item)


def _path_of(position: _Position | None) -> str:
    keys = []
    while position is not None:
        keys.append(position.key)
        position = position.above
    path = "$"
    for key in reversed(keys):
        path = member_path(path, key[:_PATH_CHARS] if isinstance(key, str) else key)
        if len(path) > _PATH_CHARS:
            return f"{path[:_PATH_CHARS]}…"
    return path


def _excerpt(text: str, start: int, end: int) -> str:
    first, last = max(0, start - _AROUND_CHARS), min(len(text), end + _AROUND_CHARS)
    before = "…" if first else ""
    after = "…" if last < len(text) else ""
    return sayable(f"{before}{text[first:last][:1000]}{after}")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _number_of(text: str) -> float | None:
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None:
        return None
    try:
        return float(stripped.replace(",", "").replace("'", ""))
    except ValueError:
        return None
