"""Select the cases to replay, with the sessions of a configuration's sources."""

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
"""Called after each fetched run, for progress."""


def nobody() -> None:
    """Do nothing."""


def subjects_of(
    project: Project | None, paths: Sequence[Path] = (), *, on_fetched: OnFetched = nobody
) -> SelectedCases:
    """Return the cases to replay; without paths, including the sessions of the configuration's sources."""
    if paths or project is None or not project.sources:
        return select_cases(project, paths)
    return _with_sources(project, select_cases, on_fetched)


def indexed_subjects_of(project: Project, *, on_fetched: OnFetched) -> IndexedCases:
    """Return what `subjects_of` would for the whole configuration, without holding the cases in memory."""
    if not project.sources:
        return index_cases(project)
    return _with_sources(project, index_cases, on_fetched)


def _with_sources(project: Project, select: Callable[..., Chosen], on_fetched: OnFetched) -> Chosen:
    """Return the project's cases together with the sessions of its sources."""
    from replaykit.intake.source_sessions import sessions_of  # noqa: PLC0415 (slow to import; few projects have sources)

    fetched = sessions_of(project, on_fetched)
    try:
        cases = select(project, more=fetched.sessions)
    except NothingSelected as error:
        raise NothingSelected("; ".join((error.message, *fetched.notices)), hint=error.hint) from None
    return replace(cases, notices=(*fetched.notices, *cases.notices))
