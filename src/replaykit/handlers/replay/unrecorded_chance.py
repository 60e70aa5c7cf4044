"""Misses that randomness alone explains, because the recording could not control it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import orjson

from replaykit.model.diff import differences
from replaykit.model.events import Call
from replaykit.model.pins import HASHES, LIBRARY_HASHES, LIBRARY_SECRETS, SECRETS
from replaykit.model.values import Json
from replaykit.seam.own_process import PROCESS_ID

RANDOM = "random"
"""The source name for `random`, `uuid4` and NumPy while another run of the process controlled them."""
CHANCE = "chance"
"""The kind of deviation for such a miss."""
_KEY = re.compile(r"[0-9A-Za-z_\-+/=]{8,}")
_BETWEEN = re.compile(r"[\s,;|]+")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
_MODULE = re.compile(r"<[\w.]+\.(?=\w+ object at \*)")  # a script's classes are in `__main__`
_NUMBER = re.compile(r"\d+")
_POOL_THREAD = re.compile(r"\bThreadPoolExecutor-\d+_\d+")
_TEMPORARY = re.compile(r"\btmp[a-z0-9_]{8}\b")
_ADDRESSES = range(0x5500_0000_0000, 0x8000_0000_0000, 16)  # object addresses of 64-bit programs on Linux and macOS


def by_chance(recorded: Call, now: Json, *, not_held: Sequence[str]) -> str:
    """Return why randomness alone may explain the difference from the recorded call; empty if it cannot."""
    before = orjson.loads(bytes(recorded.request_json))
    if before != now and _without_order(before) == _without_order(now):
        return (
            f"`{recorded.name}` was called with the recorded items in another order: sets have another order in every "
            "process, unless PYTHONHASHSEED was set when the run was recorded"
        )
    if _differ_in(_are_of_process, before, now):
        return (
            f"`{recorded.name}` was called with another address in memory, thread of a pool or temporary file: these "
            "may differ from process to process. Leave `id`, the `repr` of objects and such names out of arguments"
        )
    if _has_any(not_held, SECRETS, LIBRARY_SECRETS) and _differ_in(_are_keys, before, now):
        return f"`{recorded.name}` was called with another random key: what `secrets` and `os.urandom` give is not kept"
    if _has_any(not_held, HASHES, LIBRARY_HASHES) and _differ_in(_are_drawn, before, now):
        return (
            f"`{recorded.name}` was called with another number: `hash` gives another one for a text in every process, "
            "unless PYTHONHASHSEED was set when the run was recorded"
        )
    if PROCESS_ID in not_held and _differ_in(_are_numbered, before, now):
        return (
            f"`{recorded.name}` was called with another number, which may be the id of the process: "
            "every process has its own. Leave `os.getpid()` out of arguments"
        )
    if RANDOM in not_held and _differ_in(_are_drawn, before, now):
        return (
            f"`{recorded.name}` was called with another random value: another run of the recorded process controlled "
            "`random`, so this one could not"
        )
    return ""


def _has_any(not_held: Sequence[str], *names: str) -> bool:
    return any(name in not_held for name in names)


def _without_order(value: Json) -> Json:
    """Return the value with list items and words of texts sorted."""
    if isinstance(value, dict):
        return {key: _without_order(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted((_without_order(item) for item in value), key=lambda item: orjson.dumps(item))
    if isinstance(value, str):
        return " ".join(sorted(_BETWEEN.split(value)))
    return value


def _differ_in(alike: Callable[[Json, Json], bool], before: Json, now: Json) -> bool:
    found = differences(before, now)
    return bool(found) and all(alike(difference.old, difference.new) for difference in found)


def _are_of_process(before: Json, after: Json) -> bool:
    """Return whether two values differ only in object addresses, names of pool threads, or temporary files."""
    if type(before) is int and type(after) is int:
        return before in _ADDRESSES and after in _ADDRESSES
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    return _without_process(before) == _without_process(after)


def _without_process(text: str) -> str:
    """Mask addresses, pool threads and temporary files in a text."""
    text = _MODULE.sub("<", _ADDRESS.sub(" at *", text))
    return _TEMPORARY.sub("tmp*", _POOL_THREAD.sub("ThreadPoolExecutor-*", text))


def _are_numbered(before: Json, after: Json) -> bool:
    """Return whether two values are integers, or texts that differ only in integers."""
    if type(before) is int and type(after) is int:
        return True
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    return _NUMBER.sub("*", before) == _NUMBER.sub("*", after)


def _are_drawn(before: Json, after: Json) -> bool:
    """Return whether two values may be random numbers or keys."""
    numbers = (int, float)
    return (type(before) in numbers and type(after) in numbers) or _are_keys(before, after)


def _are_keys(before: Json, after: Json) -> bool:
    """Return whether two texts differ only in random characters at the same positions."""
    if not isinstance(before, str) or not isinstance(after, str) or len(before) != len(after):
        return False
    same = _KEY.sub("*", before) == _KEY.sub("*", after)
    return same and _KEY.search(before) is not None
