"""Search: which step holds a text, in its calls, results, messages, decisions or errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from replaykit.debugger.lines import ScreenLine
from replaykit.debugger.navigation import StepList
from replaykit.model.diff import call_text
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, Message, Note
from replaykit.model.values import sayable
from replaykit.terminal import visible


def find(step_list: StepList, at: int, needle: str) -> tuple[int, str] | None:
    """The next step that holds the text, and where in it: after this one, then from the start on; case is ignored."""
    search_text = _SearchText(needle)
    count = len(step_list.stops)
    for ahead in range(1, count + 1):
        place = (at + ahead) % count
        for event in step_list.stops[place].events:
            for where, text in _texts(event):
                if search_text.is_in(text):
                    return place, where
    return None


def find_row(rows: Sequence[ScreenLine], start: int, needle: str) -> int | None:
    """The first row that holds the text: this one or one below, then from the top on."""
    search_text = visible(needle).casefold()
    around = [*range(start, len(rows)), *range(min(start, len(rows)))]
    return next((row for row in around if search_text in rows[row].text.casefold()), None)


class _SearchText:
    """A text, as it is and as it is spelled inside of JSON."""

    def __init__(self, needle: str) -> None:
        spelled = orjson.dumps(sayable(needle)).decode()[1:-1]
        self._forms = {needle.casefold(), spelled.casefold()}

    def is_in(self, text: str) -> bool:
        folded = text.casefold()
        return any(form in folded for form in self._forms)


def _texts(event: AnyEvent) -> Iterator[tuple[str, str]]:
    """The texts of an event, each with its place in words."""
    if isinstance(event, Call):
        yield f"the call of {event.name}", call_text(event.name, event.arguments)
        yield f"the arguments of {event.name}", bytes(event.arguments_json).decode()
        yield f"the result of {event.name}", bytes(event.result_json).decode()
        for item in event.items_json or ():
            yield f"an item of {event.name}", bytes(item).decode()
        if event.error is not None:
            yield f"the error of {event.name}", str(event.error)
    elif isinstance(event, Message):
        yield f"a message of {event.role}", bytes(event.content_json).decode()
    elif isinstance(event, Decision):
        yield "a decision", bytes(event.content_json).decode()
    elif isinstance(event, Note):
        yield f"the note {event.name}", bytes(event.content_json).decode()
    elif isinstance(event, ErrorEvent):
        yield "an error", str(event.error)
