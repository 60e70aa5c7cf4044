"""A run as steps to stand at, and what a key does there. Pure: nothing here reads a key or writes a screen.

A `Walk` is the run, step by step. A `View` is where one stands and what one looks at; `press` makes the next one of
it. What needs a question, an editor or the store is handed back as a `Do`.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum

import msgspec
from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent
from replaykit.model.run import TraceRun
from replaykit.model.steps import unknown_step
from replaykit.report.stepper_text import Line
from replaykit.travel.standing import Standing, standings


class Stop(Struct, frozen=True, kw_only=True):
    """A step to stand at."""

    name: str
    """Nothing where the run has no steps at all."""
    events: tuple[AnyEvent, ...] = ()
    """What happened in it, and after it outside of any step."""
    standing: Standing | None = None
    """The step itself: what a fork can change."""

    @property
    def own(self) -> list[AnyEvent]:
        """What belongs to the step."""
        return self.standing.events if self.standing is not None else []

    @property
    def keeps_state(self) -> bool:
        """True when the step has a state of its own, and the log holds it."""
        return self.standing is not None and self.standing.state in self.own and not self.standing.unknown

    @property
    def loses_state(self) -> bool:
        """True when there is a state after the step, and the log does not hold it."""
        return self.standing is not None and self.standing.unknown


class Walk(Struct, frozen=True, kw_only=True):
    """A run, step by step."""

    run: TraceRun
    stops: tuple[Stop, ...]

    @property
    def count(self) -> int:
        """How many steps there are; a run without any has one place to stand at, which is none."""
        return len(self.stops) if self.stops[0].name else 0


class Page(StrEnum):
    """What can be looked at in full."""

    STATE = "state"  # the state after the step
    DIFF = "diff"  # what the step changed in it
    CALLS = "calls"  # everything that happened in the step
    LIST = "list"  # all steps
    COMPARE = "compare"  # this run beside its parent
    HELP = "help"


class Do(StrEnum):
    """What a key asks for."""

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


class View(Struct, frozen=True, kw_only=True):
    """Where one stands, and what one looks at."""

    at: int = 0
    page: Page | None = None
    top: int = 0
    """The first row of the page that is shown."""
    needle: str = ""
    """What was last searched for."""
    said: Line | None = None
    """One line about the last key."""

    def saying(self, text: str, look: str = "") -> View:
        return msgspec.structs.replace(self, said=Line(text, look))

    def standing(self, at: int) -> View:
        """The view at another step; a page about a step comes along."""
        page = self.page if self.page in OF_A_STEP else None
        return msgspec.structs.replace(self, at=at, page=page, top=0, said=None)


OF_A_STEP = (Page.STATE, Page.DIFF, Page.CALLS)
_ANYWHERE: dict[str, Do | Page] = {
    "n": Do.NEXT,
    "right": Do.NEXT,
    "p": Do.BACK,
    "left": Do.BACK,
    "g": Do.GO,
    "s": Page.STATE,
    "d": Page.DIFF,
    "t": Page.CALLS,
    "l": Page.LIST,
    "c": Page.COMPARE,
    "?": Page.HELP,
    "/": Do.FIND,
    "N": Do.AGAIN,
    "e": Do.FORK,
    "k": Do.KEEP,
    "u": Do.RETURN,
    "backspace": Do.RETURN,
    "r": Do.RELOAD,
    "home": Do.FIRST,
    "0": Do.FIRST,
    "end": Do.LAST,
    "$": Do.LAST,
    "ctrl-d": Do.QUIT,
}
AT_A_STEP: dict[str, Do | Page] = {
    **_ANYWHERE,
    " ": Do.NEXT,
    "down": Do.NEXT,
    "b": Do.BACK,
    "up": Do.BACK,
    "q": Do.QUIT,
}
ON_A_PAGE: dict[str, Do | Page] = {
    **_ANYWHERE,
    " ": Do.PAGE_DOWN,
    "pgdn": Do.PAGE_DOWN,
    "b": Do.PAGE_UP,
    "pgup": Do.PAGE_UP,
    "down": Do.LINE_DOWN,
    "enter": Do.LINE_DOWN,
    "j": Do.LINE_DOWN,
    "up": Do.LINE_UP,
    "k": Do.LINE_UP,
    "q": Do.CLOSE,
    "esc": Do.CLOSE,
}
"""On a page the keys that move lead through it; n, p and the arrows to the sides still lead to other steps."""


def walk(run: TraceRun) -> Walk:
    """The run as a walk; what happened outside of any step is shown with the step before it."""
    steps = standings(run)
    if not steps:
        return Walk(run=run, stops=(Stop(name="", events=run.events),))
    owner = {event.seq: place for place, step in enumerate(steps) for event in step.events}
    shown: list[list[AnyEvent]] = [[] for _ in steps]
    place = 0
    for event in run.events:
        place = owner.get(event.seq, place)
        shown[place].append(event)
    stops = [
        Stop(name=step.step_id, events=tuple(events), standing=step) for step, events in zip(steps, shown, strict=True)
    ]
    return Walk(run=run, stops=tuple(stops))


def place_of(walk: Walk, word: str) -> int:
    """Where the step of that name or number is; a UsageError names the nearest."""
    names = [stop.name for stop in walk.stops]
    if word and word in names:
        return names.index(word)
    if word.isdecimal() and 1 <= int(word) <= walk.count:
        return int(word) - 1
    error = unknown_step(walk.run, word)
    close = get_close_matches(word, names, n=1)
    raise UsageError(error.message, hint=f"Did you mean {close[0]!r}?" if close else error.hint)


def press(walk: Walk, view: View, key: str, *, rows: int = 0, height: int = 1) -> tuple[View, Do | None]:
    """What a key leads to; `rows` are those of the page that is open, of which `height` fit on the screen."""
    if not key:
        return view, None
    view = msgspec.structs.replace(view, said=None)
    wanted = (ON_A_PAGE if view.page else AT_A_STEP).get(key)
    if wanted is None:
        return view.saying(f"{key} does nothing here; ? shows the keys", "dim"), None
    if isinstance(wanted, Page):
        return _opened(walk, view, wanted), None
    if wanted in (Do.NEXT, Do.BACK) or (view.page is None and wanted in (Do.FIRST, Do.LAST)):
        return _moved(walk, view, wanted), None
    if view.page is not None and wanted in SCROLLING:
        return scrolled(view, wanted, rows=rows, height=height), None
    if wanted is Do.CLOSE:
        return msgspec.structs.replace(view, page=None, top=0), None
    return view, wanted


SCROLLING = (Do.FIRST, Do.LAST, Do.LINE_DOWN, Do.LINE_UP, Do.PAGE_DOWN, Do.PAGE_UP)


def scrolled(view: View, wanted: Do, *, rows: int, height: int) -> View:
    """The page, further on or back; it ends with its last row at the bottom of the screen."""
    by = {Do.LINE_DOWN: 1, Do.LINE_UP: -1, Do.PAGE_DOWN: height, Do.PAGE_UP: -height, Do.FIRST: -rows, Do.LAST: rows}
    top = max(0, min(view.top + by[wanted], rows - height))
    return msgspec.structs.replace(view, top=top)


def _opened(walk: Walk, view: View, page: Page) -> View:
    if page is view.page:  # the same key closes what it opened
        return msgspec.structs.replace(view, page=None, top=0)
    if page is Page.COMPARE and walk.run.origin.run is None:
        return view.saying("this run is no fork: there is nothing to compare it with", "yellow")
    return msgspec.structs.replace(view, page=page, top=0)


def _moved(walk: Walk, view: View, wanted: Do) -> View:
    last = len(walk.stops) - 1
    by = {Do.NEXT: view.at + 1, Do.BACK: view.at - 1, Do.FIRST: 0, Do.LAST: last}
    at = max(0, min(by[wanted], last))
    if at != view.at:
        return view.standing(at)
    if not walk.count:
        return view.saying("this run has no steps", "yellow")
    return view.saying(
        "this is the first step" if at == 0 and wanted in (Do.BACK, Do.FIRST) else "this is the last step"
    )
