"""Edit and fork: what is changed is edited as text, and nothing is done for real without a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from replaykit.cli.debug_dialog import Dialog
from replaykit.errors import UsageError
from replaykit.report.stepper import Walk
from replaykit.report.stepper_text import Line
from replaykit.terminal import visible

if TYPE_CHECKING:
    from replaykit.model.run import RunHeader
    from replaykit.model.values import Json
    from replaykit.report.stepper_edit import Choice
    from replaykit.travel.edits import Edits
    from replaykit.travel.go import Journey

_KEYS = "123456789abcdefghijklmnoprtuvwxyz"


class Made(Struct, frozen=True):
    """A fork that was made here."""

    parent: str
    id: str
    status: str


class Forker:
    """Makes forks of a run, with the questions that this takes."""

    def __init__(
        self, dialog: Dialog, store_path: Path | None, agent: Callable[..., Any] | None, live: Iterable[str]
    ) -> None:
        self._dialog = dialog
        self._store_path = store_path
        self._agent = agent
        self._live = frozenset(live)
        self.made: list[Made] = []

    def fork(self, walk: Walk, at: int, state: Json) -> Journey | str:
        """A fork from a step, or why there is none; `state` is the one after it, None where there is none to edit."""
        from replaykit.report.stepper_edit import choices, document

        stop = walk.stops[at]
        if not stop.name:
            raise UsageError("this run has no steps: there is nothing to fork from")
        found = choices(stop, state=state is not None)
        if not found:
            raise UsageError(f"{stop.name} made no call, and no state was kept by then: there is nothing to change")
        choice = self._chosen(found)
        if choice is None:
            return "no fork"
        agent = self._agent_for(walk.run)  # before the editor: without one nobody's work is lost
        if agent is None:
            return "no agent: no fork"
        edits = self._edited(choice, document(choice, state))
        return "nothing was changed: no fork" if edits is None else self._forked(walk.run, stop.name, edits, agent)

    def reached(self, run: RunHeader, step: str) -> Json:
        """The state after a step that was not kept: the agent gets there again, served from the recording."""
        from replaykit.errors import StateNotKept
        from replaykit.travel.reach import state_at

        if self._agent is None:
            raise StateNotKept(f"the state after {step} was not kept; with --agent it is reached again")
        with self._dialog.terminal.lent():
            return state_at(run.id, step, agent=self._agent, store=self._store_path)

    def _chosen(self, found: list[Choice]) -> Choice | None:
        if len(found) == 1:
            return found[0]
        keyed = dict(zip(_KEYS, found, strict=False))
        lines = [Line(f"  {key}  {choice.text}", "", 5) for key, choice in keyed.items()]
        if len(found) > len(keyed):
            lines.append(Line(f"  {len(found) - len(keyed)} more: replaykit fork --tool NAME", "dim"))
        title = f"Fork from {found[0].step}: what shall be changed?"
        key = self._dialog.read(title, lines, words=f"{_KEYS[0]}–{_KEYS[len(keyed) - 1]} choose|q back", keys=keyed)
        return keyed.get(key)

    def _edited(self, choice: Choice, old: Json) -> Edits | None:
        """The change that was made in the editor; it comes back until what it holds can be read."""
        from replaykit.report.stepper_edit import edits_of, parsed, template, with_error

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
            except (click.ClickException, ValueError) as error:  # no such editor; a text that is not UTF-8
                reason = error.message if isinstance(error, click.ClickException) else str(error)
                raise UsageError(f"the editor failed: {reason}", hint="Name yours in $VISUAL or $EDITOR.") from None

    def _forked(self, run: RunHeader, step: str, edits: Edits, agent: Callable[..., Any]) -> Journey:
        """The fork; where it stops with a question, the answer decides whether it is made again."""
        from replaykit.travel.go import fork

        allowed, refused = set(self._live), set[str]()
        attempt: str | None = None
        while True:
            with self._dialog.terminal.lent():
                click.echo(visible(f"forking {run.id} at {step} …"), err=True)
                attempt, journey = fork(
                    run.id, step, edits, agent=agent, store=self._store_path, live=allowed, attempt=attempt
                )
            self.made.append(Made(run.id, journey.run_id, journey.status.value))
            if not self._allow(journey, allowed, refused):
                return journey

    def _allow(self, journey: Journey, allowed: set[str], refused: set[str]) -> bool:
        """Ask about each tool that the fork was stopped at; true when one of them may be called."""
        from replaykit.report.stepper_forks import question_page

        asked = {each.name: each for each in journey.deviations if each.kind == "undecided" and each.name}
        done = [each for each in journey.deviations if each.kind in ("live", "done")]
        more = False
        for name, question in asked.items():
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
        """The agent that was named, or else the one that is known for this run, or else the one that is named now."""
        from replaykit.recording.agents import agent_of
        from replaykit.runners.loading import load_agent

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
