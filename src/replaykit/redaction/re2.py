"""Translate RE2 patterns, as rule files for Go have them, to Python's syntax.

The two differ in flags set in the middle, named classes, the meaning of `$`, and a few escapes. Anything without a
counterpart is an error, and so are repeats that are linear in RE2 but may take Python forever.
"""

from __future__ import annotations

import re
import warnings

from replaykit.model.nesting import NestedTooDeeply, check_group_nesting
from replaykit.redaction.repeats import refuse_slow_pattern
from replaykit.redaction.rules import WINDOW

MAX_CHARS = 8_000

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": r"0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_GROUP = re.compile(r"\((?:\?P?<(?P<name>\w+)>|(?P<plain>\?:)?)")
_TOKEN = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|\Z) | \\x\{(?P<code>[0-9A-Fa-f]{1,6})\} | \\p\{?(?P<kind>\w+)\}? | \\(?P<escape>.)
      | \[:(?P<not>\^?)(?P<posix>[a-z]+):\] | (?P<counted>\{\d+(?:,\d*)?\}) | (?P<char>.)""",
    re.VERBOSE | re.DOTALL,
)
_UNICODE = {"L": "[A-Za-z\u00aa-\U0010ffff]", "Lu": "[A-Z]", "Ll": "[a-z]", "N": "[0-9]", "Nd": "[0-9]"}


def compile_re2(pattern: str, window: int = WINDOW) -> re.Pattern[str]:
    """Compile a pattern; raise `ValueError` if Python cannot, or could take too long on `window` characters."""
    if len(pattern) > MAX_CHARS:
        raise ValueError(f"expected a pattern of at most {MAX_CHARS:,} characters, got {len(pattern):,}")
    text = _Translation(pattern).run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sets whose meaning may change in Python, but not in RE2
        try:
            check_group_nesting(text)
            compiled = re.compile(text, re.ASCII)
            refuse_slow_pattern(text, re.ASCII, window)
        except (re.error, OverflowError, NestedTooDeeply) as error:
            raise ValueError(f"not a pattern: {error}") from None
    return compiled


class _Translation:
    """A walk over the pattern that tracks the flags of each open group."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.out: list[str] = []
        self.flags = [""]  # of each open group: the flags set inside it
        self.opened = [0]  # how many of our wrappers `(?i:` are open in it
        self.at = 0

    def run(self) -> str:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "(":
                self._open()
            elif char == ")":
                self._close()
            elif char == "[":
                self._set()
            elif char == "|":
                self._next_branch()
            else:
                self._token()
        self.out.append(")" * self.opened[0])
        if len(self.flags) > 1:
            raise ValueError("a group is not closed")
        return "".join(self.out)

    def _open(self) -> None:
        flags = _FLAGS.match(self.pattern, self.at)
        if flags and (flags[1] or flags[2]):
            if "U" in flags[1] + (flags[2] or ""):
                raise ValueError("the flag U (repeats that take little) has no counterpart in Python")
            wrapper = f"(?{flags[1]}{'-' + flags[2] if flags[2] else ''}:"
            self.at = flags.end()
            self.out.append(wrapper)
            if flags[3] == ")":
                self.flags[-1] += wrapper
                self.opened[-1] += 1
            else:
                self._enter()
            return
        group = _GROUP.match(self.pattern, self.at)
        if group is None or (group["name"] is None and self.pattern.startswith("(?", self.at) and not group["plain"]):
            raise ValueError(f"Python has no {self.pattern[self.at : self.at + 4]!r}")
        self.out.append(f"(?P<{group['name']}>" if group["name"] else group[0])
        self.at = group.end()
        self._enter()

    def _enter(self) -> None:
        self.flags.append("")
        self.opened.append(0)

    def _close(self) -> None:
        if len(self.flags) == 1:
            raise ValueError("a group is closed that was not opened")
        self.flags.pop()
        self.out.append(")" * self.opened.pop() + ")")
        self.at += 1

    def _next_branch(self) -> None:
        """Start the next branch: a flag holds until the end of its group, across branches."""
        self.out.append(")" * self.opened[-1] + "|" + self.flags[-1])
        self.at += 1

    def _is_multiline(self) -> bool:
        return any("m" in part.partition("-")[0] for part in self.flags)

    def _token(self) -> None:
        token = _TOKEN.match(self.pattern, self.at)
        if token is None:
            raise ValueError("it ends in the middle of an escape")
        self.at = token.end()
        if token["posix"]:  # only valid inside a set
            raise ValueError(f"{token[0]} stands outside of a set")
        if token["char"]:
            plain = token["char"]
            if plain == "$" and not self._is_multiline():
                plain = r"\Z"
            elif plain == "{":
                plain = r"\{"
            self.out.append(plain)
        elif token["counted"]:
            self.out.append(token["counted"])
        else:
            self.out.append(_escape(token, inside=False))

    def _set(self) -> None:
        end = self.at + 1
        self.out.append("[")
        if self.pattern.startswith("^", end):
            self.out.append("^")
            end += 1
        first = True
        while end < len(self.pattern) and (first or self.pattern[end] != "]"):
            token = _TOKEN.match(self.pattern, end)
            if token is None:
                raise ValueError("it ends in the middle of an escape")
            if token["char"] or token["counted"]:
                self.out.append(f"\\{token[0][0]}" if token[0][0] in "[]&~|" else token[0][0])
                end += 1
            else:
                self.out.append(_escape(token, inside=True))
                end = token.end()
            first = False
        if end >= len(self.pattern):
            raise ValueError("a set is not closed")
        self.out.append("]")
        self.at = end + 1


def _escape(token: re.Match[str], *, inside: bool) -> str:
    if token["literal"] is not None:
        return re.escape(token["literal"])
    if token["code"]:
        return f"\\U{int(token['code'], 16):08x}"
    if token["posix"]:
        if token["posix"] not in _POSIX or token["not"]:
            raise ValueError(f"the class {token[0]} has no counterpart in Python")
        return _POSIX[token["posix"]]
    if token["kind"]:
        if inside or token["kind"] not in _UNICODE:
            raise ValueError(f"the class {token[0]} has no counterpart in Python")
        return _UNICODE[token["kind"]]
    escape = token["escape"]
    if escape == "z":
        return r"\Z"
    if escape in "CXKRGhHZ" or (escape.isdigit() and escape != "0"):
        raise ValueError(f"the escape \\{escape} has no counterpart in Python")
    return "\\" + escape
