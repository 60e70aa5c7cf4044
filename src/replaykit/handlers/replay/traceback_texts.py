"""The text of a traceback in arguments, compared without its frames.

An agent may tell its model how a tool failed. In a replay no tool runs, so its frames are missing; an edit moves lines.
The exception in the last line is compared.
"""

from __future__ import annotations

import re

FRAMES = b"<frames>"
# In JSON a line ends with a backslash and an n, or with more backslashes where the text is itself inside of JSON.
_END = rb"\\+n"
_REST = rb"(?:(?!" + _END + rb")(?:[^\"\\]|\\.))*"
# Lines of an exception group begin with bars. The line of a syntax error names no function: it is no frame.
_FRAME = rb"(?P<bars>[ |]*)  File \\*\"" + _REST + rb", line \d+, in " + _REST
_CODE = _END + rb"(?P=bars)    " + _REST
_REPEATED = _END + rb"(?P=bars)  \[Previous line repeated " + _REST
_FRAMES = re.compile(rb"(?:(?:(?<=\")|" + _END + rb")" + _FRAME + rb"(?:" + _CODE + rb"|" + _REPEATED + rb")*)+")


def without_frames(text: bytes) -> bytes:
    """Replace the frames of every traceback in JSON with `FRAMES`."""
    if b"  File " not in text:
        return text
    return _FRAMES.sub(FRAMES, text)
