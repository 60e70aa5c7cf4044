"""Files that a recorded run changed, as noted in its log. A replay starts from what the run left behind."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from replaykit.model.events import AnyEvent, Note
from replaykit.model.values import Raw, raw

CHANGED_FILE = "replaykit.changed_file"
"""The name of the notes about changed files."""
ABSENT_FILE = "absent"
"""The state of a path at which there is no file."""


class ChangedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file or directory that a recorded run created, wrote, renamed or removed."""

    path: str = ""
    """The path, relative to the directory that the run was started in if the file is below it, else absolute. Empty if
    there are too many files to note each one."""
    before: str = ""
    """The state before the run changed it: `absent`, `directory`, or the file's size and hash. Empty if unknown."""
    tool: str = ""
    """The tool that changed it, itself or in one of its calls; empty if the agent did."""
    after: str = ""
    """The state in which the agent found a file that a tool changed. Empty if the agent found several states, or if the
    state is unknown."""

    @property
    def content(self) -> Raw:
        """The content of the note about this file."""
        return raw(msgspec.to_builtins(self))

    @property
    def doubt(self) -> str:
        """Why a replay that reads this file may take another path, and what to do about it."""
        if not self.path:
            return "the recorded run changed more files than its recording names, and the candidate reads one"
        if self.tool:
            return (
                f"`{self.tool}` changed {self.path} when it was recorded, a replay does not, and the candidate reads "
                "it: let the tool return what the agent needs, or restore the file as the tool left it"
            )
        return (
            f"the recorded run changed {self.path}, and the candidate finds it changed: restore it as it was before "
            "that run, or make it part of the input"
        )


def changed_files(events: Iterable[AnyEvent]) -> tuple[ChangedFile, ...]:
    """Return the changed files noted in these events, each once. The first note has the state before the run."""
    found: dict[str, ChangedFile] = {}
    for event in events:
        if not isinstance(event, Note) or event.name != CHANGED_FILE:
            continue
        try:
            one = msgspec.convert(event.content, ChangedFile)
        except msgspec.ValidationError:
            continue  # written by a newer version, or by hand
        first = found.get(one.path)
        found[one.path] = one if first is None else _joined(first, one)
    return tuple(found.values())


def _joined(first: ChangedFile, later: ChangedFile) -> ChangedFile:
    return msgspec.structs.replace(first, tool=first.tool or later.tool, after=later.after)
