"""Masking: an error's text with `*` in place of what will be different next time."""

from __future__ import annotations

import re

from replaykit.redaction.placeholders import placeholders_in

_CHARS = 200

# In this order: what a later pattern would take a piece of comes first.
_VOLATILE = re.compile(
    r"""
      (?<=:)[0-9a-f]{8}(?=>)                                                      # what stands for a secret
    | [a-z][a-z0-9+.-]*://[^\s'"<>)\]]+                                           # an address
    | [0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}                        # a UUID
    | \d{4}-\d\d-\d\d(?:[T\s]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?  # a time
    | \d\d:\d\d(?::\d\d(?:[.,]\d+)?)?                                             # a time of day
    | (?<![\w/])(?:~|[A-Za-z]:)?(?:[\\/][\w.@+-]+){2,}                            # a path
    | \b0x[0-9a-fA-F]+\b                                                          # an address in memory
    | \b(?=[\w-]*\d)[A-Za-z]\w*(?:[-_]\w+)*                                       # an id: letters with digits
    | [-+]?\b\d[\d,._]*(?:\s?(?:ns|us|µs|ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|[kKMGT]i?B|bytes|%))?(?!\w)
    | \d+
    """,
    re.VERBOSE,
)
_STARS = re.compile(r"\*[\s*]*\*")


def mask(text: str) -> str:
    """A pattern for `run.error` that the text itself matches: one line, volatile parts as `*`."""
    line = _without_forms(_telling_line(text.strip()))
    return _STARS.sub("*", _VOLATILE.sub("*", line)) or "*"


def _without_forms(line: str) -> str:
    """Mask placeholders that look like values: where they are not redacted, the values themselves stand there."""
    raw = line.encode("utf-8", "surrogatepass")
    for found in reversed(placeholders_in(raw)):
        if b"<" not in raw[found.start : found.end]:
            raw = raw[: found.start] + b"*" + raw[found.end :]
    return raw.decode("utf-8", "surrogatepass")


def _telling_line(text: str) -> str:
    """Of several lines the first; of a traceback the last, which is where Python names the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        if lines[0].startswith("Traceback"):
            text = f"*{lines[-1]}"
        else:
            text = f"{lines[0]}*"
    if len(text) <= _CHARS:
        return text
    return f"{text[:_CHARS].rstrip()}*"
