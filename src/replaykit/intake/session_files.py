"""Session files of runs: one for each run, named by its id."""

from __future__ import annotations

from pathlib import Path

from replaykit.cases.find import SUFFIXES
from replaykit.cases.run_session import holds, session_of_run, session_text, write_session
from replaykit.config import HOME
from replaykit.documents.slug import slug
from replaykit.errors import UsageError
from replaykit.model.run import TraceRun
from replaykit.project.project import Project
from replaykit.project.session_cases import DEFAULT_CONTRACT

FETCHED = Path(HOME, "imported")
"""Below the working directory: the latest version of sessions that are fetched each time."""


def contract_of_imports(project: Project | None, named: str) -> str:
    """Return the contract of imported sessions: the given one, the only one, or the default."""
    known = [] if project is None else list(project.contracts)
    if named:
        return named
    if len(known) == 1:
        return known[0]
    if DEFAULT_CONTRACT in known:
        return DEFAULT_CONTRACT
    return ""


def is_file_name(path: Path) -> bool:
    """True for a path that names one session file rather than a directory."""
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def session_file(output: Path, run: TraceRun) -> Path:
    """Return the path of a run's session: in the directory, or the file itself."""
    if is_file_name(output):
        return output
    return output / f"{slug('tool_call', run.id)}.yaml"


def text_of(run: TraceRun, file: Path, contract: str) -> str:
    """Return the text of a run's session file; raise `UsageError` if the run cannot become a session."""
    try:
        return session_text(session_of_run(run, contract), file)
    except UsageError as error:
        raise UsageError(f"no session can be made of it: {error.message}", hint=error.hint) from None


def keep_session(file: Path, text: str, *, force: bool) -> None:
    """Write a session file; an existing file with other content stays, unless `force`."""
    if holds(file, text):
        return
    if file.exists() and not force:
        raise UsageError(f"{file} already exists, and its content differs", hint="Replace it: --force")
    write_session(file, text)
