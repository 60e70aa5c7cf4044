"""Files that a recorded run changed, as noted in its log: a replay finds them as the run left them."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from replaykit.model.events import AnyEvent, Note
from replaykit.model.values import Raw, raw

CHANGED_FILE = "replaykit.changed_file"
"""The name of notes that say which file a run changed."""
ABSENT_FILE = "absent"
"""The state of a path where nothing is."""


class ChangedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file or directory that a recorded run created, wrote, renamed or removed."""

    path: str = ""
    """Relative to the directory that the run was started in, if the file is below it; absolute otherwise. Empty where
    there were more files than are noted one by one."""
    before: str = ""
    """Its state before the run changed it: `absent`, `directory`, or its size and the hash of its content. Empty if
    unknown."""
    tool: str = ""
    """The tool that changed it, or whose call did; empty where the agent itself did."""
    after: str = ""
    """Of a file that a tool changed: the state that the agent found. Empty if it found several, or that is unknown."""

    @property
    def content(self) -> Raw:
        """The content of the note about it."""
        return raw(msgspec.to_builtins(self))

    @property
    def doubt(self) -> str:
        """Why a replay that reads this file may take another way, and what to do about it."""
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
    """Return the files that the notes among these events name, each once: the first note knows the state before."""
    found: dict[str, ChangedFile] = {}
    for event in events:
        if not isinstance(event, Note) or event.name != CHANGED_FILE:
            continue
        try:
            one = msgspec.convert(event.content, ChangedFile)
        except msgspec.ValidationError:
            continue  # of a newer version, or written by hand
        first = found.get(one.path)
        found[one.path] = one if first is None else _joined(first, one)
    return tuple(found.values())


def _joined(first: ChangedFile, later: ChangedFile) -> ChangedFile:
    return msgspec.structs.replace(first, tool=first.tool or later.tool, after=later.after)
