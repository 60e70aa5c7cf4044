"""Load an agent by the `module:function` name that a person typed, never by a name from a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from replaykit.errors import UsageError, nearest

if TYPE_CHECKING:
    from replaykit.handlers.replay.handler import Replayer
    from replaykit.model.events import AnyEvent
    from replaykit.model.values import Json
    from replaykit.seam.scope import CallAnswer, Outcome, PendingCall

_SPEC = re.compile(r"[\w.]+:[\w.]+")


def is_spec(text: str) -> bool:
    """Return whether a text has the form `module:function`."""
    return _SPEC.fullmatch(text) is not None


def check_spec(spec: str) -> str:
    """Return the spec if it has the right form, or raise `UsageError`."""
    if not is_spec(spec):
        raise UsageError(f"{spec!r} does not name an agent", hint="Write module:function, such as my_agent.main:answer")
    return spec


def load_agent(spec: str, *directories: str, what: str = "agent") -> Callable[..., Any]:
    """Import and return a function from these directories, by default the working directory.

    Tools must not run meanwhile.
    """
    found = load_named(spec, *directories, what=what)
    if not callable(found):
        raise UsageError(f"the {what} {spec!r} is of type {type(found).__name__}, which is not callable")
    return found  # type: ignore[no-any-return]


def load_named(spec: str, *directories: str, what: str = "agent", replayer: Replayer | None = None) -> Any:
    """Return the object that `module:attribute` names. Processes that its import starts belong to the replay."""
    module_name, _, attribute = check_spec(spec).partition(":")
    places = directories or (os.getcwd(),)
    # In reverse, so that the first directory ends up first in the search path.
    for directory in reversed(places):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    from replaykit.seam.scope import RunSession  # noqa: PLC0415 (a process that only names an agent does not need the seam)

    try:
        session = RunSession(_Importing(module_name))
        session.carries = False
        if replayer is not None:
            session.make_tree = partial(replayer.tree_for, session)
        with session.active():
            found: Any = import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except BaseException as error:  # importing runs user code, which may raise anything
        why = f"{type(error).__name__}: {error}{_suggestion(error, module_name, places)}"
        raise UsageError(f"the {what} {spec!r} cannot be loaded: {why}") from error
    return found


def _suggestion(error: BaseException, module_name: str, directories: Sequence[str]) -> str:
    """Return a suggestion for a misspelled name, ready to append to a message; empty if nothing is close."""
    suggestion = ""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        suggestion = nearest(error.name or "", [name for name in vars(error.obj) if not name.startswith("_")])
    elif isinstance(error, ModuleNotFoundError) and error.name == module_name:
        files = [file for directory in directories for file in Path(directory).glob("*.py")]
        suggestion = nearest(module_name, [file.stem for file in files])
    return f"; {suggestion}" if suggestion.startswith("did you mean") else ""


class _Importing:
    """The handler while an agent's module is imported. It refuses every tool call."""

    def __init__(self, module: str) -> None:
        self._module = module

    def serve(self, call: PendingCall) -> CallAnswer | None:
        raise UsageError(
            f"the tool `{call.name}` was called while {self._module} was imported",
            hint='Put what runs the agent under `if __name__ == "__main__":`',
        )

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Do nothing: `serve` lets no call through."""

    def keep(self, event: AnyEvent) -> None:
        """Ignore events that are not calls."""

    def amend(self, step: str | None, state: Json) -> Json:
        """Return the state unchanged."""
        return state
