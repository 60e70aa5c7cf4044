"""Text for a terminal: control characters are spelled out, and only colours of our own get through.

Recorded text is data. A run name or a tool result may hold escape sequences that retitle a terminal, erase lines or
reverse the reading order. `guarded_output` puts one door in front of standard output and standard error, so a verb
cannot forget it. A line of progress passes the same door: see `StatusLine`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TextIO

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)))
)
"""Characters that Unicode counts as letters or marks, and that take no ink. The two that choose emoji are left out."""
_LAYOUT = frozenset("\n\t")
_PLAIN = bytes(range(0x20, 0x7F)) + b"\n\t"

_MARK = str(int.from_bytes(os.urandom(6), "big"))
"""A number that only this process knows: data cannot spell a sequence that is taken for one of ours."""
_OURS = re.compile(rf"\r?\x1b\[{_MARK};([0-9;]*)([mK])")
ERASE_LINE = f"\r\x1b[{_MARK};K"
"""Go to the beginning of the line and clear it; nothing where there is no terminal."""

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
_COLOUR_NAMES = {str(code): name for name, code in _COLOURS.items()}
_BOLD, _DIM, _PLAIN_AGAIN = "1", "2", "0"


def visible(text: str) -> str:
    """Return one line with everything spelled out that a terminal would obey or hide: `\\x1b`, `\\n`, `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return _spelled_out(text, _hidden(text) | (_LAYOUT & set(text)))


def visible_lines(text: str) -> str:
    """Return `visible` of a text that keeps its lines and tabs. JSON text stays JSON, and means the same."""
    return _spelled_out(text, _hidden(text))


def style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return text in a colour or weight, for a stream behind `guarded_output`; elsewhere `click.unstyle` removes it."""
    codes = [str(_COLOURS[fg])] if fg else []
    codes += [_BOLD] if bold else []
    codes += [_DIM] if dim else []
    begin = "".join(f"\x1b[{_MARK};{code}m" for code in codes)
    return f"{begin}{text}\x1b[{_MARK};{_PLAIN_AGAIN}m"


class Piece(NamedTuple):
    """A part of a text in one style, with everything spelled out that a terminal would obey or hide."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def pieces(text: str) -> Iterator[Piece]:
    """Yield one line in pieces of one style each: what `style` marked, for code that lays text out."""
    fg: str | None = None
    weights: set[str] = set()
    end = 0
    for found in _OURS.finditer(text):
        if found.start() > end:
            yield Piece(visible(text[end : found.start()]), fg, _BOLD in weights, _DIM in weights)
        end = found.end()
        code = found[1]
        if code in _COLOUR_NAMES:
            fg = _COLOUR_NAMES[code]
        elif code == _PLAIN_AGAIN:
            fg = None
            weights.clear()
        else:
            weights.add(code)
    if end < len(text):
        yield Piece(visible(text[end:]), fg, _BOLD in weights, _DIM in weights)


def visible_styled(text: str) -> str:
    """Return `visible` of one line that may hold marks of `style`, which stay."""
    if _MARK not in text:
        return visible(text)
    return "".join(style(piece.text, fg=piece.fg, bold=piece.bold, dim=piece.dim) for piece in pieces(text))


def unstyle(text: str) -> str:
    """Return the text without colours of our own."""
    if _MARK not in text:
        return text
    return _OURS.sub("", text)


def is_terminal() -> bool:
    """Return True where standard output is a terminal behind the door: text may be laid out and styled for a person."""
    return isinstance(sys.stdout, GuardedStream) and sys.stdout.is_terminal


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Let nothing be printed during the block but visible text and colours of our own."""
    with _guarded("stdout"), _guarded("stderr"):
        yield


@contextlib.contextmanager
def _guarded(name: str) -> Iterator[None]:
    stream: TextIO | None = getattr(sys, name)
    if stream is None or isinstance(stream, GuardedStream):
        yield
        return
    _to_unicode(stream)
    guarded = GuardedStream(stream)
    setattr(sys, name, guarded)
    try:
        yield
    finally:
        # Somebody may have put another stream in front of this one, for good: click does when a pipe is closed.
        if getattr(sys, name) is guarded:
            setattr(sys, name, stream)


def _to_unicode(stream: TextIO) -> None:
    """Make an ASCII stream UTF-8; click would write to the bytes below it, past the door."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and (stream.encoding or "ascii").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
        reconfigure(encoding="utf-8")


class GuardedStream:
    """A text stream that spells control characters out, and is the stream behind it in everything else."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream
        self.status_line: StatusLine | None = None

    @property
    def is_terminal(self) -> bool:
        """True for a terminal that knows colours and can erase a line."""
        return self.unguarded.isatty() and os.environ.get("TERM") != "dumb"

    def write(self, text: str) -> int:
        if self.status_line is None:
            self.unguarded.write(self._shown(text))
        else:
            with self.status_line.out_of_the_way(text):
                self.unguarded.write(self._shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def _shown(self, text: str) -> str:
        if _MARK not in text:
            return visible_lines(text)
        has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        shown = []
        end = 0
        for found in _OURS.finditer(text):
            shown.append(visible_lines(text[end : found.start()]))
            shown.append(self._ours(*found.groups(), has_colour=has_colour))
            end = found.end()
        shown.append(visible_lines(text[end:]))
        return "".join(shown)

    def _ours(self, code: str, kind: str, *, has_colour: bool) -> str:
        if kind == "K":
            if self.is_terminal:
                return "\r\x1b[K"
            return ""
        if has_colour:
            return f"\x1b[{code}m"
        return ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


class StatusLine:
    """One line at the bottom of a terminal that is drawn over itself; whatever else is printed goes above it."""

    def __init__(self, stream: GuardedStream) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._is_drawn = False
        self._is_inside_a_line = False

    def draw(self, text: str) -> None:
        """Show one line with marks in the place of what was shown, unless a printed line is unfinished."""
        with self._lock:
            if not self._is_inside_a_line:
                self._write(f"{ERASE_LINE}{text}")
                self._is_drawn = True

    def erase(self) -> None:
        """Leave nothing on the terminal."""
        with self._lock:
            if self._is_drawn:
                self._write(ERASE_LINE)
                self._is_drawn = False

    @contextlib.contextmanager
    def out_of_the_way(self, text: str) -> Iterator[None]:
        """Erase the line while this text is printed."""
        with self._lock:
            self.erase()
            yield
            if text:
                self._is_inside_a_line = not text.endswith("\n")

    def _write(self, text: str) -> None:
        self._stream.unguarded.write(self._stream._shown(text))
        self._stream.unguarded.flush()


@contextlib.contextmanager
def status_line() -> Iterator[StatusLine | None]:
    """Give a line at the bottom of the terminal on standard error; None where there is no terminal."""
    errors = sys.stderr
    if not isinstance(errors, GuardedStream) or not errors.is_terminal:
        yield None
        return
    line = StatusLine(errors)
    streams = [stream for stream in (sys.stdout, errors) if isinstance(stream, GuardedStream) and stream.is_terminal]
    for stream in streams:
        stream.status_line = line
    try:
        yield line
    finally:
        for stream in streams:
            stream.status_line = None
        line.erase()


def _hidden(text: str) -> set[str]:
    """Return the characters of a text that are spelled out, layout aside."""
    # A set of all characters takes ten times as long, and most of a text is plain.
    unusual = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN).decode("utf-8", "surrogatepass")
    return set(filter(_is_hidden, set(unusual)))


def _is_hidden(char: str) -> bool:
    if char.isprintable():
        return char in _INVISIBLE
    import unicodedata  # noqa: PLC0415 (hardly ever needed)

    return unicodedata.category(char) != "Zs"


def _spelled_out(text: str, hidden: set[str]) -> str:
    if hidden:
        return text.translate({ord(char): _spelling(char) for char in hidden})
    return text


def _spelling(char: str) -> str:
    """Return an escape that JSON knows as well: encoders escape what is below a space, and leave all else as it is."""
    if char < " ":
        return ascii(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
