"""Navigation through the steps of a run: the current step, and the effect of a key. Pure: no keyboard, no screen.

A `StepList` is a run, step by step. A `DebuggerView` is the current step and the open page; `press` returns the next.
An `Action` that needs a question, an editor or the store is returned to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.debugger.lines import ScreenLine
from replaykit.model.diff import call_text
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, Message, Note
from replaykit.model.run import TraceRun
from replaykit.model.steps import step_name
from replaykit.model.values import sayable
from replaykit.terminal import visible
from replaykit.travel.run_steps import RunStep, run_steps


class DebuggerStep(Struct, frozen=True, kw_only=True):
    """A step of the list."""

    name: str
    """Empty if the run has no steps."""
    events: tuple[AnyEvent, ...] = ()
    """The events of the step, and those after it that belong to no step."""
    run_step: RunStep | None = None
    """The step itself, which a fork can change."""

    @property
    def own(self) -> list[AnyEvent]:
        """The events that belong to the step itself."""
        return self.run_step.events if self.run_step is not None else []

    @property
    def keeps_state(self) -> bool:
        """True if the step has a state of its own and the log holds it."""
        return self.run_step is not None and self.run_step.state in self.own and not self.run_step.unknown

    @property
    def loses_state(self) -> bool:
        """True if the step had a state that the log does not hold."""
        return self.run_step is not None and self.run_step.unknown


class StepList(Struct, frozen=True, kw_only=True):
    """A run, step by step."""

    run: TraceRun
    stops: tuple[DebuggerStep, ...]

    @property
    def count(self) -> int:
        """The number of steps; 0 if the run has none."""
        return len(self.stops) if self.stops[0].name else 0


class Page(StrEnum):
    """A page that shows something in full."""

    STATE = "state"  # the state after the step
    DIFF = "diff"  # what the step changed in it
    CALLS = "calls"  # everything that happened in the step
    LIST = "list"  # all steps
    COMPARE = "compare"  # this run beside its parent
    HELP = "help"


class Action(StrEnum):
    """The effect of a key."""

    NEXT = "next"
    BACK = "back"
    FIRST = "first"
    LAST = "last"
    LINE_DOWN = "line down"
    LINE_UP = "line up"
    PAGE_DOWN = "page down"
    PAGE_UP = "page up"
    CLOSE = "close"
    GO = "go"
    FIND = "find"
    AGAIN = "again"
    FORK = "fork"
    KEEP = "keep"
    RETURN = "return"
    RELOAD = "reload"
    QUIT = "quit"


class DebuggerView(Struct, frozen=True, kw_only=True):
    """The current step and the open page."""

    at: int = 0
    page: Page | None = None
    top: int = 0
    """The first visible row of the page."""
    needle: str = ""
    """The last search text."""
    message: ScreenLine | None = None
    """A line about the effect of the last key."""

    def with_message(self, text: str, look: str = "") -> DebuggerView:
        return replace(self, message=ScreenLine(text, look))

    def at_step(self, at: int) -> DebuggerView:
        """Return the view of another step; a page about a step stays open."""
        page = self.page if self.page in OF_A_STEP else None
        return replace(self, at=at, page=page, top=0, message=None)


OF_A_STEP = (Page.STATE, Page.DIFF, Page.CALLS)
_ANYWHERE: dict[str, Action | Page] = {
    "n": Action.NEXT,
    "right": Action.NEXT,
    "p": Action.BACK,
    "left": Action.BACK,
    "g": Action.GO,
    "s": Page.STATE,
    "d": Page.DIFF,
    "t": Page.CALLS,
    "l": Page.LIST,
    "c": Page.COMPARE,
    "?": Page.HELP,
    "/": Action.FIND,
    "N": Action.AGAIN,
    "e": Action.FORK,
    "k": Action.KEEP,
    "u": Action.RETURN,
    "backspace": Action.RETURN,
    "r": Action.RELOAD,
    "home": Action.FIRST,
    "0": Action.FIRST,
    "end": Action.LAST,
    "$": Action.LAST,
    "ctrl-d": Action.QUIT,
}
AT_A_STEP: dict[str, Action | Page] = {
    **_ANYWHERE,
    " ": Action.NEXT,
    "down": Action.NEXT,
    "b": Action.BACK,
    "up": Action.BACK,
    "q": Action.QUIT,
}
ON_A_PAGE: dict[str, Action | Page] = {
    **_ANYWHERE,
    " ": Action.PAGE_DOWN,
    "pgdn": Action.PAGE_DOWN,
    "b": Action.PAGE_UP,
    "pgup": Action.PAGE_UP,
    "down": Action.LINE_DOWN,
    "enter": Action.LINE_DOWN,
    "j": Action.LINE_DOWN,
    "up": Action.LINE_UP,
    "k": Action.LINE_UP,
    "q": Action.CLOSE,
    "esc": Action.CLOSE,
}
"""Keys on a page: those that move scroll it; n, p, left and right still lead to other steps."""


def step_list(run: TraceRun) -> StepList:
    """Split the run into steps; events outside of any step are shown with the step before them."""
    steps = run_steps(run)
    if not steps:
        return StepList(run=run, stops=(DebuggerStep(name="", events=run.events),))
    owner = {event.seq: place for place, step in enumerate(steps) for event in step.events}
    shown: list[list[AnyEvent]] = [[] for _ in steps]
    place = 0
    for event in run.events:
        place = owner.get(event.seq, place)
        shown[place].append(event)
    stops = []
    for step, events in zip(steps, shown, strict=True):
        stops.append(DebuggerStep(name=step.step_id, events=tuple(events), run_step=step))
    return StepList(run=run, stops=tuple(stops))


def place_of(step_list: StepList, word: str) -> int:
    """Return the position of a step, given by name or number; a `UsageError` names the nearest."""
    names = [stop.name for stop in step_list.stops]
    return names.index(step_name(step_list.run, word))


def press(
    step_list: StepList, view: DebuggerView, key: str, *, rows: int = 0, height: int = 1
) -> tuple[DebuggerView, Action | None]:
    """Return the view after a key, and the action left to do; `height` of the page's `rows` fit on the screen."""
    if not key:
        return view, None
    view = replace(view, message=None)
    action = (ON_A_PAGE if view.page else AT_A_STEP).get(key)
    if action is None:
        return view.with_message(f"{key} does nothing here; ? shows the keys", "dim"), None
    if isinstance(action, Page):
        return _open_page(step_list, view, action), None
    if action in (Action.NEXT, Action.BACK) or (view.page is None and action in (Action.FIRST, Action.LAST)):
        return _move(step_list, view, action), None
    if view.page is not None and action in SCROLLING:
        return scrolled(view, action, rows=rows, height=height), None
    if action is Action.CLOSE:
        return replace(view, page=None, top=0), None
    return view, action


SCROLLING = (Action.FIRST, Action.LAST, Action.LINE_DOWN, Action.LINE_UP, Action.PAGE_DOWN, Action.PAGE_UP)


def scrolled(view: DebuggerView, action: Action, *, rows: int, height: int) -> DebuggerView:
    """Return the view after scrolling; the last row stays at the bottom of the screen."""
    by = {
        Action.LINE_DOWN: 1,
        Action.LINE_UP: -1,
        Action.PAGE_DOWN: height,
        Action.PAGE_UP: -height,
        Action.FIRST: -rows,
        Action.LAST: rows,
    }
    top = max(0, min(view.top + by[action], rows - height))
    return replace(view, top=top)


def _open_page(step_list: StepList, view: DebuggerView, page: Page) -> DebuggerView:
    if page is view.page:  # the key that opened a page closes it
        return replace(view, page=None, top=0)
    if page is Page.COMPARE and step_list.run.origin.run is None:
        return view.with_message("this run is not a fork: there is no parent to compare it with", "yellow")
    return replace(view, page=page, top=0)


def _move(step_list: StepList, view: DebuggerView, action: Action) -> DebuggerView:
    last = len(step_list.stops) - 1
    by = {Action.NEXT: view.at + 1, Action.BACK: view.at - 1, Action.FIRST: 0, Action.LAST: last}
    at = max(0, min(by[action], last))
    if at != view.at:
        return view.at_step(at)
    if not step_list.count:
        return view.with_message("this run has no steps", "yellow")
    if at == 0 and action in (Action.BACK, Action.FIRST):
        return view.with_message("this is the first step")
    return view.with_message("this is the last step")


def find(step_list: StepList, at: int, needle: str) -> tuple[int, str] | None:
    """Find the next step with this text, ignoring case and wrapping around; return its position and a description."""
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
    """Find the next row with this text, from `start` on and then from the top."""
    search_text = visible(needle).casefold()
    around = [*range(start, len(rows)), *range(min(start, len(rows)))]
    return next((row for row in around if search_text in rows[row].text.casefold()), None)


class _SearchText:
    """A search text, also in the spelling of JSON strings."""

    def __init__(self, needle: str) -> None:
        spelled = orjson.dumps(sayable(needle)).decode()[1:-1]
        self._forms = {needle.casefold(), spelled.casefold()}

    def is_in(self, text: str) -> bool:
        folded = text.casefold()
        return any(form in folded for form in self._forms)


def _texts(event: AnyEvent) -> Iterator[tuple[str, str]]:
    """Yield the texts of an event, each with a description."""
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
