"""Cases to replay, with the sessions of a configuration's sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replaykit.errors import NothingSelected
from replaykit.project.case_selection import SelectedCases, select_cases

if TYPE_CHECKING:
    from replaykit.project.project import Project

OnFetched = Callable[[], None]
"""Called for each run that came, since a project may hold many."""


def nobody() -> None:
    """Do nothing."""


def subjects_of(
    project: Project | None, paths: Sequence[Path] = (), *, on_fetched: OnFetched = nobody
) -> SelectedCases:
    """Return the cases to replay; without paths, with the sessions of the configuration's sources."""
    if paths or project is None or not project.sources:
        return select_cases(project, paths)
    from replaykit.intake.source_sessions import sessions_of  # noqa: PLC0415 (slow to import; few projects have sources)

    fetched = sessions_of(project, on_fetched)
    try:
        found = select_cases(project, more=fetched.sessions)
    except NothingSelected as error:
        raise NothingSelected("; ".join((error.message, *fetched.notices)), hint=error.hint) from None
    return SelectedCases(all=found.all, notices=(*fetched.notices, *found.notices))
