"""Cases to replay, with the sessions of a configuration's sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from replaykit.errors import NothingSelected
from replaykit.project.case_selection import IndexedCases, SelectedCases, index_cases, select_cases

if TYPE_CHECKING:
    from replaykit.project.project import Project

Chosen = TypeVar("Chosen", bound=SelectedCases | IndexedCases)
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
    return _with_sources(project, select_cases, on_fetched)


def indexed_subjects_of(project: Project, *, on_fetched: OnFetched = nobody) -> IndexedCases:
    """Return the cases of a configuration and its sources, like `subjects_of`, without holding those in files."""
    if not project.sources:
        return index_cases(project)
    return _with_sources(project, index_cases, on_fetched)


def _with_sources(project: Project, select: Callable[..., Chosen], on_fetched: OnFetched) -> Chosen:
    """Return the cases that `select` finds among the project's own and the sessions of its sources."""
    from replaykit.intake.source_sessions import sessions_of  # noqa: PLC0415 (slow to import; few projects have sources)

    fetched = sessions_of(project, on_fetched)
    try:
        found = select(project, more=fetched.sessions)
    except NothingSelected as error:
        raise NothingSelected("; ".join((error.message, *fetched.notices)), hint=error.hint) from None
    return replace(found, notices=(*fetched.notices, *found.notices))
