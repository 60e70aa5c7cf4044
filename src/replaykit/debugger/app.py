"""The main loop of the stepper: draw a screen, read a key, act on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replaykit.debugger import pages as pages
from replaykit.debugger.dialog import Dialog
from replaykit.debugger.lines import ScreenLine, row_of, rows_of
from replaykit.debugger.navigation import (
    Action,
    DebuggerView,
    Page,
    StepList,
    find,
    find_row,
    place_of,
    press,
    step_list,
)
from replaykit.debugger.screen import body_height, page_screen, step_lines, step_screen
from replaykit.debugger.terminal import Terminated
from replaykit.errors import Divergence, ReplayKitError, StateNotKept, UsageError
from replaykit.model.events import State
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.report.layout import counted
from replaykit.store.open import open_store
from replaykit.travel.checkpoints import state_after

if TYPE_CHECKING:
    from replaykit.debugger.forker import Forker
    from replaykit.travel.fork import ForkResult


class Debugger:
    """Steps through a run, and into its forks and back."""

    def __init__(self, dialog: Dialog, source: RunReader, forker: Forker, start: StepList, at: int) -> None:
        self._dialog = dialog
        self._source = source
        self._forker = forker
        self._steps, self._view = start, DebuggerView(at=at)
        self._parents: list[tuple[StepList, DebuggerView]] = []
        self._handlers: dict[Action | None, Callable[[], None]] = {
            Action.GO: self._go,
            Action.FIND: self._find,
            Action.AGAIN: self._find_again,
            Action.FORK: self._fork,
            Action.KEEP: self._keep,
            Action.RETURN: self._return,
            Action.RELOAD: self._reload,
        }
        self._lines: tuple[object, list[ScreenLine]] = (None, [])
        self._wrapped: tuple[list[ScreenLine], int, list[ScreenLine]] = ([], 0, [])

    def run(self) -> None:
        """Run until the user quits."""
        while True:
            try:
                self._draw()
                if self._press(self._dialog.terminal.key()):
                    return
            except Terminated:
                raise
            except KeyboardInterrupt:
                return
            if self._dialog.terminal.terminated:  # an agent swallowed the exception
                raise Terminated

    def _press(self, key: str) -> bool:
        """Handle a key; true if it quits."""
        if key == "resize":
            return False
        before = self._view
        height = body_height(self._dialog.terminal.size()[1])
        rows = len(self._rows()) if before.page else 0
        self._view, action = press(self._steps, before, key, rows=rows, height=height)
        try:
            self._handlers.get(action, lambda: None)()
            self._content()  # builds the page, so that its errors are shown here
            if self._view.page is Page.LIST is not before.page:
                self._view = replace(self._view, top=self._here(height))
        except ReplayKitError as error:
            self._refused(before, " ".join(str(error).split("\n")), "red")
        except Terminated:
            raise
        except KeyboardInterrupt:
            self._refused(before, "stopped", "yellow")
        return action is Action.QUIT

    def _refused(self, before: DebuggerView, text: str, look: str) -> None:
        """Show why nothing happened; a page that failed to open is closed again."""
        if self._view.page is not before.page or self._view.at != before.at:
            self._view = replace(self._view, page=None, top=0)
        self._view = self._view.with_message(text, look)

    def _here(self, height: int) -> int:
        """Return the first row of the list to show, with the current step in the middle."""
        marked = (number for number, row in enumerate(self._rows()) if row.text.startswith(">"))
        return max(0, min(next(marked, 0) - height // 2, len(self._rows()) - height))

    def _go(self) -> None:
        word = self._dialog.ask("To which step?")
        if word:
            self._view = self._view.at_step(place_of(self._steps, word))

    def _find(self) -> None:
        needle = self._dialog.ask("/")
        if needle:
            self._view = replace(self._view, needle=needle)
            self._find_again(again=False)

    def _find_again(self, *, again: bool = True) -> None:
        view, needle = self._view, self._view.needle
        if not needle:
            raise UsageError("nothing to find yet: search with /")
        if view.page is not None:
            row = find_row(self._rows(), view.top + again, needle)
            if row is None:
                raise UsageError(f"{needle!r} is not on this page")
            self._view = replace(view, top=row)
            return
        match = find(self._steps, view.at, needle)
        if match is None:
            raise UsageError(f"{needle!r} is in no step")
        place, where = match
        around = " (from the start)" if place <= view.at else ""
        self._view = view.at_step(place).with_message(f"{needle!r}: in {where}{around}; N finds the next", "cyan")

    def _fork(self) -> None:
        try:
            state = self._source.state(self._steps, self._view.at)
        except (StateNotKept, Divergence):
            state = None  # calls can be changed without a state
        result = self._forker.fork(self._steps, self._view.at, state)
        if isinstance(result, str):
            self._view = self._view.with_message(result, "yellow")
        else:
            self._forked(result)

    def _forked(self, result: ForkResult) -> None:
        """Show how a fork ended, and step into it if the user wants to."""
        from replaykit.debugger.forker import fork_page
        from replaykit.travel.compare import compare

        self._wait("comparing with the parent …")
        forked = self._source.load(result.run_id)
        comparison = compare(self._steps.run, forked)
        title = f"fork of {self._steps.run.id} at {self._steps.stops[self._view.at].name}"
        words = "enter step into the fork|q stay here"
        key = self._dialog.read(title, fork_page(result, comparison), words=words, keys=("enter", "y"))
        if not key:
            self._view = self._view.with_message(f"fork {result.run_id}: {result.status.value}", "cyan")
            return
        self._parents.append((self._steps, self._view))
        self._steps = step_list(forked)
        parts = comparison.first.b_step if comparison.first is not None else None
        names = [stop.name for stop in self._steps.stops]
        at = next((names.index(name) for name in (parts, forked.origin.step) if name in names), 0)
        self._view = DebuggerView(at=at).with_message("this is the fork; u returns to the run it was made from", "cyan")

    def _keep(self) -> None:
        """Ask for a case, store the run as a take of it, and show the result."""
        from replaykit.candidates.retaping import take_from_run
        from replaykit.report.retapes import retaping_text

        place = self._dialog.ask("Save it as a take of which case?")
        if not place:
            return
        self._wait("judging the run …")
        retaping = take_from_run(place, self._steps.run)
        if retaping.take is None:
            lines = list(map(ScreenLine, retaping_text(retaping).splitlines()))
            words = "w write it anyway|q back"
            if not self._dialog.read(f"not fixed: {place}", lines, words=words, keys=("w",)):
                return
            retaping = take_from_run(place, self._steps.run, keep=True)
        if retaping.take is None:
            raise UsageError(retaping.problem)
        self._view = self._view.with_message(f"take {retaping.take.name} of {place}: {retaping.directory}", "cyan")

    def _return(self) -> None:
        if not self._parents:
            raise UsageError("no run to return to: u returns from a fork that was made here")
        self._steps, self._view = self._parents.pop()

    def _reload(self) -> None:
        name = self._steps.stops[self._view.at].name
        self._source.forget()
        self._steps = step_list(self._source.load(self._steps.run.id))
        names = [stop.name for stop in self._steps.stops]
        at = names.index(name) if name in names else 0
        self._lines = (None, [])
        self._view = self._view.at_step(at).with_message(f"read again: {counted(self._steps.count, 'step')}", "cyan")

    def _draw(self) -> None:
        width, height = self._dialog.terminal.size()
        view = self._view
        if view.page is None:
            rows = step_screen(self._steps, view, self._content(), width, height, deep=bool(self._parents))
        else:
            content = self._rows()
            view = replace(view, top=max(0, min(view.top, len(content) - 1)))
            rows = page_screen(self._title(), content, view, width, height)
        self._dialog.show(rows)

    def _wait(self, text: str) -> None:
        """Announce a task that takes a while."""
        width, height = self._dialog.terminal.size()
        self._dialog.show(page_screen(text, [], DebuggerView(), width, height, " "))

    def _title(self) -> str:
        name = self._steps.stops[self._view.at].name or "the run"
        if self._steps.count:
            name = f"{name} ({self._view.at + 1} of {self._steps.count})"
        return {
            Page.STATE: f"state after {name}",
            Page.DIFF: f"what {name} changed in the state",
            Page.CALLS: f"{name} in full",
            Page.LIST: f"steps of {self._steps.run.name or 'run'}  {self._steps.run.id}",
            Page.COMPARE: f"{self._steps.run.id} beside its parent {self._steps.run.origin.run}",
            Page.HELP: "keys",
        }[self._view.page or Page.HELP]

    def _rows(self) -> list[ScreenLine]:
        """Return the open page as rows of the terminal's width, cached while nothing changes."""
        content, width = self._content(), self._dialog.terminal.size()[0]
        if self._wrapped[0] is not content or self._wrapped[1] != width:
            rows = rows_of(content, width)
            if self._view.page is Page.LIST:  # one row for each step, however long its text
                rows = [row_of(line, width) for line in content]
            self._wrapped = (content, width, rows)
        return self._wrapped[2]

    def _content(self) -> list[ScreenLine]:
        """Return the lines of the step or the open page, cached while nothing changes."""
        key = (self._steps.run.id, self._view.at, self._view.page)
        if self._lines[0] != key:
            self._lines = (key, list(self._build_lines()))
        return self._lines[1]

    def _build_lines(self) -> Iterable[ScreenLine]:
        here, at, page = self._steps, self._view.at, self._view.page
        if page is Page.STATE:
            return pages.state_page(here, at, self._source.state(here, at))
        if page is Page.DIFF:
            return pages.diff_page(here, at, self._source.state_before(here, at), self._source.state(here, at))
        if page is Page.CALLS:
            return pages.calls_page(here.run, here.stops[at])
        if page is Page.LIST:
            return pages.list_page(here, at)
        if page is Page.COMPARE:
            return self._compared()
        if page is Page.HELP:
            return pages.help_page()
        return step_lines(here, at)

    def _compared(self) -> Iterable[ScreenLine]:
        from replaykit.debugger.forker import compare_page
        from replaykit.travel.compare import compare

        self._wait("comparing with the parent …")
        return compare_page(compare(self._source.load(self._steps.run.origin.run or ""), self._steps.run))


_STATES = 4  # cached states; others are read from the store again


class RunReader:
    """Reads runs and states; the store is open only during a read."""

    def __init__(self, store_path: Path | None, reexecute: Callable[[TraceRun, str], Json]) -> None:
        self.store_path = store_path
        self._reexecute = reexecute
        self._states: dict[tuple[str, int], Json] = {}

    def load(self, run_id: str) -> TraceRun:
        with open_store(self.store_path, read_only=True) as store:
            return store.load(run_id)

    def forget(self) -> None:
        """Drop the cached states."""
        self._states.clear()

    def state(self, step_list: StepList, at: int) -> Json:
        """Return the state after a step; None if the run had none by then."""
        key, stop = (step_list.run.id, at), step_list.stops[at]
        if not stop.name:
            return None
        if key not in self._states:
            if stop.loses_state:
                state = self._reexecute(step_list.run, stop.name)
            else:
                with open_store(self.store_path, read_only=True) as store:
                    state = state_after(store, step_list.run, stop.name)
            self._states = dict([*self._states.items(), (key, state)][-_STATES:])
        return self._states[key]

    def state_before(self, step_list: StepList, at: int) -> Json:
        """Return the state that a step began with; None if there was none."""
        if at:
            return self.state(step_list, at - 1)
        state_numbers = [event.seq for event in step_list.stops[0].own if isinstance(event, State) and event.is_kept]
        if len(state_numbers) < 2:
            return None
        with open_store(self.store_path, read_only=True) as store:
            return store.state_at(step_list.run.id, state_numbers[0])
