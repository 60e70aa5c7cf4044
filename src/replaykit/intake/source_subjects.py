"""Cases to replay, with the sessions of a configuration's sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replaykit.errors import NothingSelected
from replaykit.project.case_selection import IndexedCases, SelectedCases, index_cases, select_cases

if TYPE_CHECKING:
    from replaykit.intake.source_sessions import SourceSessions
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
    fetched = _fetched(project, on_fetched)
    try:
        found = select_cases(project, more=fetched.sessions)
    except NothingSelected as error:
        raise _with_notices(error, fetched) from None
    return replace(found, notices=(*fetched.notices, *found.notices))


def indexed_subjects_of(project: Project, *, on_fetched: OnFetched = nobody) -> IndexedCases:
    """Return the cases of a configuration and its sources, like `subjects_of`, without holding those in files."""
    if not project.sources:
        return index_cases(project)
    fetched = _fetched(project, on_fetched)
    try:
        found = index_cases(project, more=fetched.sessions)
    except NothingSelected as error:
        raise _with_notices(error, fetched) from None
    return replace(found, notices=(*fetched.notices, *found.notices))


def _fetched(project: Project, on_fetched: OnFetched) -> SourceSessions:
    from replaykit.intake.source_sessions import sessions_of  # noqa: PLC0415 (slow to import; few projects have sources)

    return sessions_of(project, on_fetched)


def _with_notices(error: NothingSelected, fetched: SourceSessions) -> NothingSelected:
    return NothingSelected("; ".join((error.message, *fetched.notices)), hint=error.hint)
