"""Differences between two JSON values, by path."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from replaykit.model.jsonpath import member_path
from replaykit.model.text_lines import cut
from replaykit.model.values import Json

_LEAD = 20  # characters of the common beginning that are shown before the difference in long texts


class Difference(Struct, frozen=True):
    """One place where two values differ: `added`, `removed` or `changed`."""

    kind: str
    """`added`, `removed` or `changed`."""
    path: str
    """The JSON path of the place."""
    old: Json = None
    """The value before; null if there was none."""
    new: Json = None
    """The value now; null if there is none."""

    def __str__(self) -> str:
        if self.kind == "changed":
            return f"changed   {self.path}{_in_words(self.old, self.new)}"
        shown = self.new if self.kind == "added" else self.old
        return f"{self.kind:<9} {self.path}: {brief(shown)}"


def differences(old: Json, new: Json, *, limit: int = 20) -> list[Difference]:
    """Return the differences between `old` and `new`, in document order, at most `limit`."""
    return list(islice(_walk(old, new, "$"), limit))


def brief(value: Json, width: int = 60) -> str:
    """Return a value on one line, cut to the width."""
    return cut(repr(value), width)


def call_text(name: str, arguments: Json, width: int = 60) -> str:
    """Format a call as source code: `refund(order=7, amount=19.9)`. Each argument is cut to the width."""
    if isinstance(arguments, dict):
        return f"{name}({', '.join(f'{key}={brief(value, width)}' for key, value in arguments.items())})"
    return f"{name}({brief(arguments, width)})"


def _in_words(old: Json, new: Json) -> str:
    """Show two different values; for long texts, the part from just before the first difference."""
    place = ""
    if isinstance(old, str) and isinstance(new, str):
        same = _in_common(old, new)
        if brief(old[: same + 1]) == brief(new[: same + 1]):
            place = f" from character {same + 1} on"
            lead = old[max(same - _LEAD, 0) : same]
            lead = lead if len(repr(lead)) <= 2 * _LEAD else ""  # escapes would take up all the room
            old, new = (f"…{lead}{text[same:]}" for text in (old, new))
    shown: tuple[str, ...] = brief(old), brief(new)
    if _looks_alike(*shown):
        shown = tuple(text.encode("ascii", "backslashreplace").decode() for text in shown)
    return f"{place}: {' → '.join(shown)}"


def _in_common(old: str, new: str) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def _looks_alike(old: str, new: str) -> bool:
    """Return whether two texts differ only in Unicode composition, so that people cannot see the difference."""
    if old.isascii() and new.isascii():
        return False
    from unicodedata import normalize  # noqa: PLC0415 (rarely needed)

    return normalize("NFC", old) == normalize("NFC", new)


def _walk(old: Json, new: Json, path: str) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield Difference("removed", member_path(path, key), old=old[key])
            else:
                yield from _walk(old[key], new[key], member_path(path, key))
        for key in new:
            if key not in old:
                yield Difference("added", member_path(path, key), new=new[key])
    elif isinstance(old, list) and isinstance(new, list):
        for index, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from _walk(a, b, f"{path}[{index}]")
        for index in range(len(new), len(old)):
            yield Difference("removed", f"{path}[{index}]", old=old[index])
        for index in range(len(old), len(new)):
            yield Difference("added", f"{path}[{index}]", new=new[index])
    elif type(old) is not type(new) or old != new:
        yield Difference("changed", path, old=old, new=new)
