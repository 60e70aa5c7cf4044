"""A new project as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.cases.config_files import PROJECT_FILES
from replaykit.report.layout import JsonResult, indented


class NewProject(JsonResult, frozen=True, kw_only=True):
    """A directory that was set up as a project."""

    created: Sequence[str]
    """The files that were created."""
    existing: Sequence[str]
    """The files that existed, and were left alone."""
    agent: str
    """The agent that the new configuration names: `module:function`, a URL or a command; empty if it names none."""
    has_cases: bool
    """There are cases below `cases`."""


def project_text(project: NewProject) -> str:
    """Return which files were created, and what to do next."""
    lines = [*indented(project.existing, "exists    "), *indented(project.created, "created   ")]
    is_new = PROJECT_FILES[0] in "".join(project.created)
    if project.agent:
        lines += ["", f"The agent is {project.agent}. Change it in {PROJECT_FILES[0]}."]
    elif is_new:
        lines += ["", f"No agent found. Name it in {PROJECT_FILES[0]}."]
    if project.has_cases or (is_new and project.agent):
        return "\n".join([*lines, "", "Next: replaykit ci"])
    return "\n".join([*lines, "", "Next: replaykit scaffold TRACE --out cases/NAME", "See it work: replaykit demo"])
