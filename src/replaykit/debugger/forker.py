"""Edit and fork: the user edits the change as text and confirms everything that would be done for real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click import unstyle
from msgspec import Struct

from replaykit.debugger.dialog import Dialog
from replaykit.debugger.lines import ScreenLine
from replaykit.debugger.navigation import StepList
from replaykit.errors import UsageError
from replaykit.model.result import Deviation
from replaykit.report.comparison import comparison_text
from replaykit.report.forks import fork_text
from replaykit.terminal import visible
from replaykit.travel.compare_result import Comparison
from replaykit.travel.fork import ForkResult

if TYPE_CHECKING:
    from replaykit.debugger.edits import EditChoice
    from replaykit.model.run import RunHeader
    from replaykit.model.values import Json
    from replaykit.travel.edits import Edits


_KEYS = "123456789abcdefghijklmnoprtuvwxyz"


class NewFork(Struct, frozen=True):
    """A fork that was made in this session."""

    parent: str
    id: str
    status: str


class Forker:
    """Creates forks of a run, and asks the questions that this takes."""

    def __init__(
        self, dialog: Dialog, store_path: Path | None, agent: Callable[..., Any] | None, live: Iterable[str]
    ) -> None:
        self._dialog = dialog
        self._store_path = store_path
        self._agent = agent
        self._live = frozenset(live)
        self.new_forks: list[NewFork] = []

    def fork(self, step_list: StepList, at: int, state: Json) -> ForkResult | str:
        """Fork from a step, or return why not; `state` is the state after it, None if it cannot be edited."""
        from replaykit.debugger.edits import choices, document

        stop = step_list.stops[at]
        if not stop.name:
            raise UsageError("this run has no steps: there is nothing to fork from")
        options = choices(stop, state=state is not None)
        if not options:
            raise UsageError(f"{stop.name} made no call, and no state was kept by then: there is nothing to change")
        choice = self._choose(options)
        if choice is None:
            return "no fork"
        agent = self._agent_for(step_list.run)  # asked before the editor opens, so that no edit is lost
        if agent is None:
            return "no agent: no fork"
        edits = self._edited(choice, document(choice, state))
        if edits is None:
            return "nothing was changed: no fork"
        return self._forked(step_list.run, stop.name, edits, agent)

    def reexecuted_state(self, run: RunHeader, step: str) -> Json:
        """Return a state that was not kept: the agent runs up to it again, served from the recording."""
        from replaykit.errors import StateNotKept
        from replaykit.travel.state_lookup import state_at

        if self._agent is None:
            raise StateNotKept(f"the state after {step} was not stored; with --agent, the agent reconstructs it")
        with self._dialog.terminal.lent():
            return state_at(run.id, step, agent=self._agent, store=self._store_path)

    def _choose(self, options: list[EditChoice]) -> EditChoice | None:
        if len(options) == 1:
            return options[0]
        keyed = dict(zip(_KEYS, options, strict=False))
        lines = [ScreenLine(f"  {key}  {choice.text}", "", 5) for key, choice in keyed.items()]
        if len(options) > len(keyed):
            lines.append(ScreenLine(f"  {len(options) - len(keyed)} more: replaykit fork --tool NAME", "dim"))
        title = f"Fork from {options[0].step}: what do you want to change?"
        key = self._dialog.read(title, lines, words=f"{_KEYS[0]}–{_KEYS[len(keyed) - 1]} choose|q back", keys=keyed)
        return keyed.get(key)

    def _edited(self, choice: EditChoice, old: Json) -> Edits | None:
        """Open the editor until its content is valid; None if nothing was changed."""
        from replaykit.debugger.edits import edits_of, parsed, template, with_error

        text, wrong = template(choice, old), None
        while True:
            edited = self._editor(text)
            if edited is None or edited == text:
                if wrong is not None:
                    raise UsageError(f"not forked: {wrong.message}")
                return None
            try:
                return edits_of(choice, old, parsed(edited))
            except UsageError as error:
                text, wrong = with_error(edited, error), error

    def _editor(self, text: str) -> str | None:
        with self._dialog.terminal.lent():
            try:
                return click.edit(text, extension=".json")
            except (click.ClickException, ValueError) as error:  # no such editor, or a text that is not UTF-8
                reason = error.message if isinstance(error, click.ClickException) else str(error)
                raise UsageError(f"the editor failed: {reason}", hint="Name yours in $VISUAL or $EDITOR.") from None

    def _forked(self, run: RunHeader, step: str, edits: Edits, agent: Callable[..., Any]) -> ForkResult:
        """Fork, and fork again as long as the user allows one more tool that stopped it."""
        from replaykit.travel.fork import fork

        allowed, refused = set(self._live), set[str]()
        attempt: str | None = None
        while True:
            with self._dialog.terminal.lent():
                click.echo(visible(f"forking {run.id} at {step} …"), err=True)
                attempt, result = fork(
                    run.id, step, edits, agent=agent, store=self._store_path, live=allowed, attempt=attempt
                )
            self.new_forks.append(NewFork(run.id, result.run_id, result.status.value))
            if not self._allow(result, allowed, refused):
                return result

    def _allow(self, result: ForkResult, allowed: set[str], refused: set[str]) -> bool:
        """Ask about each tool that the fork stopped at; true if the user allows one."""

        questions, done = {}, []
        for deviation in result.deviations:
            if deviation.kind == "undecided" and deviation.name:
                questions[deviation.name] = deviation
            elif deviation.kind in ("live", "done"):
                done.append(deviation)
        more = False
        for name, question in questions.items():
            if name in allowed or name in refused:
                continue
            key = self._dialog.read(
                f"May {name} be called for real?",
                question_page(question, done),
                words="y yes, for this fork|N no",
                keys=("y", "Y", "n", "N", "enter"),
            )
            (allowed if key in ("y", "Y") else refused).add(name)
            more = more or name in allowed
        return more

    def _agent_for(self, run: RunHeader) -> Callable[..., Any] | None:
        """Return the agent of the command line, or the one known for this run, or else ask for it."""
        from replaykit.candidates.agent_loader import load_agent
        from replaykit.handlers.recording.agents import agent_of

        if self._agent is None:
            try:
                return agent_of(run)
            except UsageError:
                spec = self._dialog.ask("Which agent? module:function:")
                if not spec:
                    return None
            with self._dialog.terminal.lent():
                self._agent = load_agent(spec)
        return self._agent


_MARKS = {"~": "yellow", "+": "green", "-": "red", ">": "cyan"}


def compare_page(comparison: Comparison) -> Iterator[ScreenLine]:
    """Compare a fork with its parent."""
    return plain_lines(comparison_text(comparison, "parent", "fork"))


def plain_lines(text: str) -> Iterator[ScreenLine]:
    """Yield the lines of a report without its escape codes: a recorded value may contain some as well."""
    for line in unstyle(text).split("\n"):
        yield ScreenLine(line, _MARKS.get(line.lstrip()[:1], ""))


def fork_page(result: ForkResult, comparison: Comparison) -> Iterator[ScreenLine]:
    """Yield how a fork ended, and where it diverges from its parent."""
    yield from plain_lines(fork_text(result))
    yield ScreenLine("")
    yield from plain_lines(comparison_text(comparison, "parent", "fork").split("\n\n")[0])


def question_page(question: Deviation, done: Sequence[Deviation]) -> Iterator[ScreenLine]:
    """Yield what a fork wants to do for real, and what it has done so far."""
    yield ScreenLine(question.text, "yellow")
    yield ScreenLine("")
    yield ScreenLine("It was stopped there. If you agree, it is forked again, and may then call this tool for real.")
    if done:
        yield ScreenLine("What this one did for real is kept, and is not repeated:")
        yield from (ScreenLine(f"  {deviation.text.partition(': ')[2]}") for deviation in done)
