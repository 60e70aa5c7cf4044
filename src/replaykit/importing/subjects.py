"""What is replayed, the sessions of a configuration's sources among it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replaykit.errors import NothingSelected
from replaykit.project.subjects import Subjects, find_subjects

if TYPE_CHECKING:
    from replaykit.project.project import Project

OnFetched = Callable[[], None]
"""Called for each run that came, since a project may hold many."""


def nobody() -> None:
    """Tells nobody."""


def subjects_of(project: Project | None, paths: Sequence[Path] = (), *, on_fetched: OnFetched = nobody) -> Subjects:
    """What `find_subjects` finds; where no path is named, with the sessions of the configuration's sources."""
    if paths or project is None or not project.sources:
        return find_subjects(project, paths)
    from replaykit.importing.sources import sessions_of  # noqa: PLC0415 (slow to import; few projects have sources)

    given = sessions_of(project, on_fetched)
    try:
        found = find_subjects(project, more=given.sessions)
    except NothingSelected as error:
        raise NothingSelected("; ".join((error.message, *given.notices)), hint=error.hint) from None
    return Subjects(all=found.all, notices=(*given.notices, *found.notices))
