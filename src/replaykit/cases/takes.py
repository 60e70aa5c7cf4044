"""Takes: the tapes of a case. The first is the recorded one; `retape` adds others.

    cases/search-loop/takes/shorter-prompt/
      take.json      when it was made, by which candidate, and which answers are new
      fixtures/      the calls of that run with their answers, as in the case itself

The takes of a session `incident.yaml` are in `incident.takes/`.
"""

# No `from __future__ import annotations`: msgspec would compile each annotation from text, once for every class.

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
"""The most takes of one case: a replay may run the candidate once for each, and cases are untrusted."""
_MAX_BYTES = 4 << 20


class NewAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that no earlier take could answer."""

    call: int
    """Its number in the take."""
    kind: str
    """`tool_call`, `llm_call` or `exchange`."""
    name: str
    """The tool, the model or the request."""
    answered_by: str
    """`live` for a real call; `person` or a file name for a written answer."""
    usage: Usage | None = None


class Take(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a take, without its calls."""

    replaykit: int
    """Version of the case format."""
    name: str
    at: str = ""
    """When it was made: ISO 8601, in UTC."""
    candidate: str = ""
    """The agent that made the calls."""
    verdict: str = ""
    """The verdict on its run."""
    based_on: str = RECORDED
    """The take that the other answers come from."""
    new_answers: tuple[NewAnswer, ...] = ()
    """The calls that no earlier take answers."""


def takes_directory(case: ReplayCase) -> Path:
    """Return the directory of a case's other takes, whether or not it exists."""
    if case.file_name == CASE_FILE:
        return case.directory / TAKES
    return case.directory / f"{Path(case.file_name).stem}{SESSION_SUFFIX}"


def holds_takes(name: str, *, beside_case: bool) -> bool:
    """True for the name of a directory with takes; `beside_case` if its parent has a case file."""
    return name.endswith(SESSION_SUFFIX) or (beside_case and name == TAKES)


def read_takes(case: ReplayCase) -> list[Take]:
    """Return the takes beside the recorded one, newest first; raise `InvalidFile` for an invalid one."""
    folder = takes_directory(case)
    if not _is_in_file(case) or not folder.is_dir():
        return []
    names = take_names(folder)
    if len(names) > MAX_TAKES:
        raise InvalidFile(f"{len(names)} takes; a case has at most {MAX_TAKES}", file=str(folder))
    takes = [read_take(case, name) for name in names if (_place(case, name) / TAKE_FILE).is_file()]
    return sorted(takes, key=lambda take: (take.at, take.name), reverse=True)


def take_names(folder: Path) -> list[str]:
    """Return the names of the takes in a directory, without drafts that a killed `retape` left."""
    names = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            names.add(name_set_aside(entry.name) if entry.name.startswith(".") else entry.name)
    return sorted(names - {""})


def read_take(case: ReplayCase, name: str) -> Take:
    """Return the description of a take; raise `InvalidFile` if it is missing or invalid."""
    file = _place(case, name) / TAKE_FILE
    take = read_struct(file, Take, newest=TAKE_FORMAT, noun="take format {}", limit_bytes=_MAX_BYTES)
    if take.name != name:
        raise InvalidFile(f"the take is called {take.name!r}, its directory {name!r}", file=str(file))
    return take


def has_take(case: ReplayCase, name: str) -> bool:
    return name == RECORDED or (_is_in_file(case) and (_place(case, name) / TAKE_FILE).is_file())


def check_take(case: ReplayCase, name: str) -> None:
    """Raise `UsageError` with the nearest take if the case has none of this name."""
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
    """Return the fixture files of a take; empty for a tape without files."""
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
    """Write a take atomically and redacted; with `replace`, over an existing one. Return its directory.

    `same_as` maps numbers of calls to the calls of the recorded take that answered them. `check` gets the name of the
    draft in the takes' directory; if it raises, nothing changes.
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
        if before != target:  # a killed process set the take aside
            before.rename(target)
        if replace:
            move_into_place(draft, target)
        else:
            draft.rename(target)  # fails if another process has written a take of this name
    except OSError as error:
        raise ReplayKitError(f"the take {str(target)!r} could not be written: {error}") from error
    finally:
        remove(draft)
    return target


def check_name(name: str) -> str:
    """Return the name of a new take; raise `UsageError` if it is invalid."""
    if name == RECORDED:
        hint = "It is what a fix is compared with. Choose another name: --name NAME"
        raise UsageError(f"the take {RECORDED!r} is the recorded one and stays as it is", hint=hint)
    if not re.fullmatch(TAKE_NAME, name):
        hint = "Use lowercase letters, digits, dots, dashes and underscores, at most 60."
        raise UsageError(f"{name!r} cannot be the name of a take", hint=hint)
    return name


def new_name(case: ReplayCase) -> str:
    """Return an unused name: `take-2`, `take-3`, …"""
    number = 2
    while has_take(case, f"take-{number}"):
        number += 1
    return f"take-{number}"


def _is_in_file(case: ReplayCase) -> bool:
    """False for a case in memory, whose directory means nothing."""
    return bool(case.file_name) and case.file.is_file()


def _place(case: ReplayCase, name: str) -> Path:
    """Return the directory of a take: its own, or the one where a killed `retape --force` set it aside."""
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
    """Move a draft to its place and remove what was there before."""
    if not target.exists():
        draft.rename(target)
    elif not _swap(draft, target):
        _replace(draft, target)
    remove(draft)


def _swap(draft: Path, target: Path) -> bool:
    """Swap two directories atomically; return False if the system cannot."""
    from replaykit.isolation.kernel import exchange  # noqa: PLC0415 (brings in ctypes, and few directories are replaced)

    try:
        exchange(str(draft), str(target))
    except OSError:  # an old kernel or a network file system; other errors will come up again in `_replace`
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
    old.rename(draft)  # under its first name, so that it is not taken for the only copy of a take


def name_set_aside(directory: str) -> str:
    """Return the name of a take that a killed process set aside in this directory; empty for any other directory."""
    match = _SET_ASIDE.fullmatch(directory)
    return "" if match is None else match[1]


def remove(draft: Path) -> None:
    """Remove a directory tree, if it exists."""
    from shutil import rmtree  # noqa: PLC0415 (slow to import, and cases are mostly read)

    rmtree(draft, ignore_errors=True)
