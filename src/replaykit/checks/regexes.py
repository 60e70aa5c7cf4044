"""Search regexes from files in bounded time: Python's `re` may take exponential time and has no timeout.

A pattern is cheap if a generous upper bound of its search steps is small; cheap patterns run here. All others run in a
separate Python process that is stopped after `DEADLINE_S`. So the answer is always that of `re`, or `CannotTell`.
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
# references, and verbose mode, whose blanks hide what is repeated
_REFERS = lazy(r"\\[1-9]|\(\?P=|\(\?\(|\(\?[a-zA-Z-]*x")
_CHILD = (
    "import json,re,sys;pattern,flags,text=json.load(sys.stdin);"
    "found=re.search(pattern,text,flags);print(json.dumps(found and found.span()))"
)


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` for an invalid pattern, or one that is too long."""
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
    """Return the span of the first match, or None; raise `CannotTell` if that takes too long."""
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
    # Warnings about sets whose meaning may change are for Python authors, not for cases.
    import warnings  # noqa: PLC0415 (needed only here)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern, flags)


def _steps(pattern: str, length: int) -> float:
    """Return an upper bound of the search steps: a repeat may end anywhere, and a choice doubles the ways.

    Repeated groups can be tried in exponentially many ways, and so can groups with references.
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
