"""Turns: the pieces of a conversation in the order in which they are compared.

Texts of one role that follow each other are one line. In a model's turn what it says comes before what it calls, and
results of tools that follow each other are in the order of their calls. Ids are the provider's: a call is known by its
number in the conversation, and a result by the number of its call.
"""

from __future__ import annotations

import orjson
from msgspec import Struct

from replaykit.wire.messages import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    MediaPiece,
    Piece,
    TextPiece,
    ToolCallPiece,
    ToolResultPiece,
    is_masked,
)

JOINER = "\n"
"""The separator of texts in one line."""


class ConversationLine(Struct, eq=False):
    """One thing in a conversation."""

    role: str
    texts: tuple[str, ...] = ()
    call: int | None = None
    """The number of a call of a tool, from 1; 0 for a result that answers none."""
    name: str = ""
    content: bytes = b""
    """Canonical JSON: the arguments of a call, its result, or a medium."""
    _json: bytes = b""

    @property
    def json(self) -> bytes:
        """The JSON that is compared. Encoded on first use: texts that are joined one by one are encoded once."""
        if not self._json:
            self._json = self.joined_by(JOINER)
        return self._json

    def joined_by(self, joiner: str) -> bytes:
        """Return what is compared of it, with something else between its texts."""
        role = orjson.dumps(self.role)
        if self.texts:
            return b'{"role":%b,"content":%b}' % (role, orjson.dumps(joiner.join(self.texts)))
        if self.call is None:
            return b'{"role":%b,"media":%b}' % (role, self.content)
        if self.role == TOOL:
            return b'{"role":%b,"call":%d,"content":%b}' % (role, self.call, self.content)
        name = orjson.dumps(self.name)
        return b'{"role":%b,"call":%d,"name":%b,"arguments":%b}' % (role, self.call, name, self.content)


class ConversationTurns:
    """The lines of a conversation, while it grows."""

    def __init__(self) -> None:
        self.lines: list[ConversationLine] = []
        self.system: list[str] = []
        """Instructions among the messages."""
        self.joints = 0
        """The number of times two texts were joined into one line."""
        self.gaps = 0
        """Messages whose content was lost or hidden by whoever wrote them down."""
        self._numbers: dict[str, int] = {}
        self._open: dict[int, str] = {}
        """The names of the calls that have no result yet, by their numbers."""
        self._count = 0

    def copied(self) -> ConversationTurns:
        """Return turns of their own that go on from here."""
        copy = ConversationTurns()
        copy.lines, copy.system, copy.joints, copy.gaps = list(self.lines), list(self.system), self.joints, self.gaps
        copy._numbers, copy._open, copy._count = dict(self._numbers), dict(self._open), self._count
        return copy

    def add(self, piece: Piece) -> None:
        """Add what comes next."""
        if isinstance(piece, ToolCallPiece):
            self._add_call(piece)
        elif isinstance(piece, ToolResultPiece):
            self._add_result(piece)
        elif isinstance(piece, MediaPiece):
            self.lines.append(ConversationLine(piece.role, content=piece.content))
        else:
            self.gaps += is_masked(piece.text)
            self._add_text(piece)

    def _add_text(self, piece: TextPiece) -> None:
        if piece.role == SYSTEM:
            self.system.append(piece.text)
            return
        place = len(self.lines)
        while piece.role == ASSISTANT and place and _is_call(self.lines[place - 1]):
            place -= 1
        if place:
            last = self.lines[place - 1]
        else:
            last = None
        if last is not None and last.role == piece.role and last.texts:
            self.joints += 1
            self.lines[place - 1] = ConversationLine(piece.role, (*last.texts, piece.text))
        else:
            self.lines.insert(place, ConversationLine(piece.role, (piece.text,)))

    def _add_call(self, piece: ToolCallPiece) -> None:
        self._count += 1
        number = self._count
        self._open[number] = piece.name
        if piece.id:
            self._numbers[piece.id] = number
        self.lines.append(ConversationLine(ASSISTANT, call=number, name=piece.name, content=piece.arguments))

    def _add_result(self, piece: ToolResultPiece) -> None:
        number = self._answered_by(piece)
        name = self._open.pop(number, piece.name)
        place = len(self.lines)
        while place and self.lines[place - 1].role == TOOL and (self.lines[place - 1].call or 0) > number:
            place -= 1
        self.lines.insert(place, ConversationLine(TOOL, call=number, name=name, content=piece.content))

    def _answered_by(self, piece: ToolResultPiece) -> int:
        """The number of the call that a result answers: by its id, else its name, else the first that is open."""
        if piece.id in self._numbers:
            return self._numbers[piece.id]
        for number, name in self._open.items():
            if name == piece.name:
                return number
        return next(iter(self._open), 0)


def _is_call(line: ConversationLine) -> bool:
    return line.role == ASSISTANT and line.call is not None
