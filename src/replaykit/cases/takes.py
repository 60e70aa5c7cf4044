"""Takes: the tapes of a case. The first is the recorded one; `retape` adds others beside it.

    cases/search-loop/takes/shorter-prompt/
      take.json      when it was made, by which candidate, and what was asked anew
      fixtures/      the calls of that run with their answers, as in the case itself

The takes of a session `incident.yaml` are in `incident.takes/`.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import CASE_FILE, RECORDED, ReplayCase
from replaykit.cases.case_shape import TAKE_NAME
from replaykit.cases.fixtures import FIXTURES, fixture_files, read_fixtures, write_fixtures
from replaykit.documents.document import confined_file
from replaykit.documents.struct_files import read_struct
from replaykit.errors import InvalidFile, ReplayKitError, UsageError, nearest
from replaykit.model.events import Call, Usage
from replaykit.model.values import Raw, encode_pretty
from replaykit.redaction.files import clean_bytes, file_redactor, refuse_leaks

TAKE_FORMAT = 1
"""Version of `take.json`; readers accept every older one."""
TAKE_FILE = "take.json"
TAKES = "takes"
"""The directory of a case that holds its other takes."""
SESSION_SUFFIX = f".{TAKES}"
MAX_TAKES = 100
"""Takes of one case. A replay may run the candidate once for each, and a case may come from a stranger."""
_MAX_BYTES = 4 << 20


class NewAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call that no earlier take could answer."""

    call: int
    """Its number in the take."""
    kind: str
    """`tool_call`, `llm_call` or `exchange`."""
    name: str
    """The tool, the model or the request."""
    answered_by: str
    """`live` for a real call, `person` or the name of a file for an answer that was written."""
    usage: Usage | None = None


class Take(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about a take, beside its calls."""

    replaykit: int
    """Version of the case format."""
    name: str
    at: str = ""
    """When it was made: ISO 8601, in UTC."""
    candidate: str = ""
    """The agent that made the calls."""
    verdict: str = ""
    """The verdict on the run."""
    based_on: str = RECORDED
    """The take whose answers were served where they fit."""
    new_answers: tuple[NewAnswer, ...] = ()
    """The calls that no earlier take answers."""


def takes_directory(case: ReplayCase) -> Path:
    """Return the directory that the other takes of a case are in, whether or not it exists."""
    if case.file_name == CASE_FILE:
        return case.directory / TAKES
    return case.directory / f"{Path(case.file_name).stem}{SESSION_SUFFIX}"


def holds_takes(name: str, *, beside_case: bool) -> bool:
    """True for the name of a directory with takes; `beside_case` where a case file lies in the same directory."""
    return name.endswith(SESSION_SUFFIX) or (beside_case and name == TAKES)


def read_takes(case: ReplayCase) -> list[Take]:
    """Return the takes beside the recorded one, newest first; `InvalidFile` for one that is wrong."""
    folder = takes_directory(case)
    if not _is_in_file(case) or not folder.is_dir():
        return []
    names = take_names(folder)
    if len(names) > MAX_TAKES:
        raise InvalidFile(f"{len(names)} takes; a case has at most {MAX_TAKES}", file=str(folder))
    takes = [read_take(case, name) for name in names if (_place(case, name) / TAKE_FILE).is_file()]
    return sorted(takes, key=lambda take: (take.at, take.name), reverse=True)


def take_names(folder: Path) -> list[str]:
    """Return the names of the takes in a directory; drafts that a killed `retape` left, and files, are none."""
    names = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            names.add(name_set_aside(entry.name) if entry.name.startswith(".") else entry.name)
    return sorted(names - {""})


def read_take(case: ReplayCase, name: str) -> Take:
    """Return what is known about a take; `InvalidFile` when its file is missing or wrong."""
    file = _place(case, name) / TAKE_FILE
    take = read_struct(file, Take, newest=TAKE_FORMAT, noun="take format {}", limit_bytes=_MAX_BYTES)
    if take.name != name:
        raise InvalidFile(f"the take is called {take.name!r}, its directory {name!r}", file=str(file))
    return take


def has_take(case: ReplayCase, name: str) -> bool:
    """True when the case has a take of this name."""
    return name == RECORDED or (_is_in_file(case) and (_place(case, name) / TAKE_FILE).is_file())


def check_take(case: ReplayCase, name: str) -> None:
    """Raise a `UsageError` that names the nearest take where the case has none of this name."""
    if has_take(case, name):
        return
    known = [RECORDED, *take_names(takes_directory(case))]
    raise UsageError(f"the case {case.id!r} has no take {name!r}; {nearest(name, known)}")


def take_calls(case: ReplayCase, name: str, held: Iterable[Raw] = ()) -> Sequence[Call]:
    """Return the recorded calls of a take, in order; `held` is for `read_fixtures`."""
    if name != RECORDED:
        return read_fixtures(_place(case, name), take_calls(case, RECORDED), held=held)
    if case.tape is None:
        return read_fixtures(case.directory, held=held)
    return case.tape


def take_files(case: ReplayCase, name: str) -> list[Path]:
    """Return the fixture files of a take; none for a case whose tape is in no file."""
    if name != RECORDED:
        return fixture_files(_place(case, name))
    if case.tape is None:
        return fixture_files(case.directory)
    return []


def write_take(
    case: ReplayCase,
    take: Take,
    calls: Iterable[Call],
    same_as: Mapping[int, int],
    *,
    replace: bool = False,
    check: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write a take, redacted, whole or not at all; with `replace` in the place of another. Return its directory.

    `same_as` says by their numbers which calls were answered by a call of the recorded take. `check` gets the name that
    the draft has beside the other takes; if it raises, everything stays as it was.
    """
    target = _own_place(case, take.name)
    draft = target.with_name(f".{take.name}.{os.getpid()}")
    redactor = file_redactor()
    text = encode_pretty(take)
    try:
        (draft / FIXTURES).mkdir(parents=True)
        write_fixtures(draft, calls, redactor, same_as)
        (draft / TAKE_FILE).write_bytes(clean_bytes(text, redactor))
        files = [file for file in sorted(draft.rglob("*")) if file.is_file()]
        refuse_leaks({str(target / file.relative_to(draft)): file.read_bytes() for file in files}, redactor)
        check(draft.name)
        before = _place(case, take.name)
        if before != target:  # set aside by a process that was killed
            before.rename(target)
        if replace:
            move_into_place(draft, target)
        else:
            draft.rename(target)  # fails where another process has written a take of this name meanwhile
    except OSError as error:
        raise ReplayKitError(f"the take {str(target)!r} could not be written: {error}") from error
    finally:
        remove(draft)
    return target


def check_name(name: str) -> str:
    """Return the name of a new take; a `UsageError` where it cannot be one."""
    if name == RECORDED:
        hint = "It is what a fix is compared with. Choose another name: --name NAME"
        raise UsageError(f"the take {RECORDED!r} is the recorded one and stays as it is", hint=hint)
    if not re.fullmatch(TAKE_NAME, name):
        hint = "Use lowercase letters, digits, dots, dashes and underscores, at most 60."
        raise UsageError(f"{name!r} cannot be the name of a take", hint=hint)
    return name


def new_name(case: ReplayCase) -> str:
    """Return a name that no take of the case has yet: `take-2`, `take-3`, …"""
    number = 2
    while has_take(case, f"take-{number}"):
        number += 1
    return f"take-{number}"


def _is_in_file(case: ReplayCase) -> bool:
    """False for a case that was made in memory, whose directory means nothing."""
    return bool(case.file_name) and case.file.is_file()


def _place(case: ReplayCase, name: str) -> Path:
    """The directory of a take: its own, or where a killed `retape --force` has set it aside."""
    place = _own_place(case, name)
    if place.is_dir() or not place.parent.is_dir():
        return place
    others = sorted(other for other in os.listdir(place.parent) if name_set_aside(other) == name)
    if others:
        return _own_place(case, others[-1])
    return place


def _own_place(case: ReplayCase, name: str) -> Path:
    return confined_file(case.directory, f"{takes_directory(case).name}/{name}")


_SET_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]+\.old")


def move_into_place(draft: Path, target: Path) -> None:
    """Move a draft to its place; what was there before is removed then."""
    if not target.exists():
        draft.rename(target)
    elif not _swap(draft, target):
        _replace(draft, target)
    remove(draft)


def _swap(draft: Path, target: Path) -> bool:
    """Swap two directories in one step; return False where the system or the file system cannot."""
    from replaykit.isolation.kernel import exchange  # noqa: PLC0415 (brings in ctypes, and few directories are replaced)

    try:
        exchange(str(draft), str(target))
    except OSError:  # an old kernel, a network file system; what is wrong otherwise, the renames find out
        return False
    return True


def _replace(draft: Path, target: Path) -> None:
    old = draft.with_name(f"{draft.name}.old")
    target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    old.rename(draft)  # so that nobody takes it for one that was set aside and has no successor


def name_set_aside(directory: str) -> str:
    """Return the name of what a killed process has set aside in a directory of this name; nothing for any other."""
    found = _SET_ASIDE.fullmatch(directory)
    if found is None:
        return ""
    return found[1]


def remove(draft: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    from shutil import rmtree  # noqa: PLC0415 (slow to import, and cases are mostly read)

    rmtree(draft, ignore_errors=True)
