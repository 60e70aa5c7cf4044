"""The text of a traceback in arguments, compared without its frames.

An agent may tell its model how a tool failed. In a replay no tool runs, so its frames are missing; an edit moves lines.
The exception in the last line is compared.
"""

from __future__ import annotations

import re

FRAMES = b"\0frames"
"""What stands for the frames of a traceback. JSON contains no such byte."""
# In JSON a line ends with a backslash and an n, or with more backslashes where the text is itself inside of JSON.
_LINE_END = re.compile(rb"(?<!\\)(\\++n)")
# Lines of an exception group begin with a bar. The line of a syntax error names no function: it is no frame.
_FRAME = re.compile(
    rb'(?:^|(?<="))(?P<bar>(?: *\| )?)  File (?P<escape>\\*)"[^"]{1,4096}", line \d{1,9}, in [^\s"\\]{1,300}$'
)
_QUOTE = re.compile(rb'(?<!\\)(\\*+)"')
# Python prints a line of code for each frame, its marks, and a few more lines of a long statement.
_MOST_CODE_LINES = 10


def without_frames(text: bytes) -> bytes:
    """Replace the frames of every traceback in JSON with `FRAMES`."""
    if b"  File " not in text:
        return text
    parts = [b"", *_LINE_END.split(text)]  # line ends, and the lines after them
    remaining: list[bytes] = []
    frame, code_lines = None, 0
    for line_end, line in zip(parts[::2], parts[1::2], strict=True):
        next_frame = _FRAME.search(line)
        if next_frame is not None:
            if next_frame.start():
                remaining += [line_end, line[: next_frame.start()]]
            if not remaining or remaining[-1] != FRAMES:
                remaining.append(FRAMES)
            frame, code_lines = next_frame, 0
            continue
        rest = line
        if frame is not None and code_lines < _MOST_CODE_LINES and _is_code(line, frame["bar"]):
            rest = _after_text(line, len(frame["escape"]))
            code_lines += 1
        if rest == line:
            remaining.append(line_end)
        if rest or rest == line:
            remaining.append(rest)
            frame = None
    return b"".join(remaining)


def _is_code(line: bytes, bar: bytes) -> bool:
    return line.startswith((bar + b"    ", bar + b"  [Previous line repeated "))


def _after_text(line: bytes, escape: int) -> bytes:
    """Return what follows the text that a line belongs to. Quotes inside of that text have `escape` backslashes."""
    for quote in _QUOTE.finditer(line):
        if len(quote[1]) < escape:
            return line[quote.start() :]
    return b""
