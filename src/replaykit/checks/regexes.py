"""Regexes from files: bounded, because Python's `re` can take exponential time and has no timeout.

A pattern is cheap when the number of ways it can be tried on a text, counted far too high, is small; then it runs
here. Every other one runs in a Python process of its own that is ended after `DEADLINE_S`. So the answer is always
that of `re`, or that nobody can tell.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from replaykit.checks.rule import CannotTell
from replaykit.model.nesting import NestedTooDeeply, check_group_nesting
from replaykit.redaction.lazy_patterns import lazy

MAX_PATTERN_CHARS = 1_000
MAX_TEXT_CHARS = 1_000_000
DEADLINE_S = 2.0
_CHEAP_STEPS = 1e7

_TOKEN = lazy(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[0-9]*,?[0-9]*\}|[^\\]", re.DOTALL)
_REFERS = lazy(r"\\[1-9]|\(\?P=|\(\?\(|\(\?[a-zA-Z-]*x")  # references; and blanks that hide what is repeated
_CHILD = (
    "import json,re,sys;pattern,flags,text=json.load(sys.stdin);"
    "found=re.search(pattern,text,flags);print(json.dumps(found and found.span()))"
)


def check_pattern(pattern: str) -> None:
    """Refuse what is no pattern, or too long for one; a `ValueError` says why."""
    if not pattern:
        raise ValueError("expected a pattern: an empty one is in every text")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"expected a pattern of at most {MAX_PATTERN_CHARS:,} characters, got {len(pattern):,}")
    try:
        check_group_nesting(pattern)
        _compiled(pattern, 0)
    except (re.error, OverflowError, NestedTooDeeply) as error:
        raise ValueError(f"bad pattern {pattern[:80]!r}: {error}") from None


def search(pattern: str, text: str, flags: re.RegexFlag = re.NOFLAG) -> tuple[int, int] | None:
    """Return the first match of the pattern in the text, or None. `CannotTell` when that takes too long."""
    if len(text) > MAX_TEXT_CHARS:
        raise CannotTell(
            f"the text has {len(text):,} characters; a pattern is looked for in {MAX_TEXT_CHARS:,} at most"
        )
    if _steps(pattern, len(text)) <= _CHEAP_STEPS:
        found = _compiled(pattern, int(flags)).search(text)
        if found:
            return found.span()
        return None
    return _search_apart(pattern, text, int(flags))


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    # A warning about a set that may change its meaning is for whoever writes Python, not for a case.
    import warnings  # noqa: PLC0415 (needed only here)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern, flags)


def _steps(pattern: str, length: int) -> float:
    """More steps than the search can take: each repeat may end anywhere, each choice doubles the ways.

    A group that is repeated can be tried in exponentially many ways, and one that is referred to as well.
    """
    if _REFERS.search(pattern):
        return float("inf")
    repeats = choices = 0
    before = ""
    for token in _TOKEN.findall(pattern):
        repeats += token in ("*", "+") or token.startswith("{")
        choices += token in ("?", "|")
        if before == ")" and (token in ("*", "+") or token.startswith("{")):
            return float("inf")
        before = token
    if repeats > 8 or choices > 20:
        return float("inf")
    return float((length + 1) ** (repeats + 1) * 2**choices)


def _search_apart(pattern: str, text: str, flags: int) -> tuple[int, int] | None:
    import json  # noqa: PLC0415 (few patterns get here)
    import subprocess  # noqa: PLC0415

    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD]
    try:
        done = subprocess.run(
            command, input=json.dumps([pattern, flags, text]), capture_output=True, text=True, timeout=DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        message = f"the pattern {pattern[:80]!r} took more than {DEADLINE_S:g} s on {len(text):,} characters"
        raise CannotTell(message, hint="Write it without a repeat inside a repeat, such as (a+)+.") from None
    except OSError as error:
        raise CannotTell(f"no process could be started to look for {pattern[:80]!r}: {error}") from None
    if done.returncode != 0:
        raise CannotTell(f"the pattern {pattern[:80]!r} could not be looked for: {done.stderr.strip()[-200:]}")
    found = json.loads(done.stdout)
    if found:
        return (found[0], found[1])
    return None
