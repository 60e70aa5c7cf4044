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

import msgspec
from msgspec import Struct

from replaykit.cases.case import CASE_FILE, RECORDED, ReplayCase
from replaykit.cases.case_shape import TAKE_NAME
from replaykit.cases.drafts import move_into_place, name_set_aside, remove
from replaykit.cases.fixtures import FIXTURES, fixture_files, read_fixtures, write_fixtures
from replaykit.documents.confined_path import confined_path
from replaykit.documents.document import read_bytes
from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError, UsageError, nearest
from replaykit.model.events import Call, Usage
from replaykit.model.json_positions import line_of, split_where
from replaykit.model.nesting import decode_json
from replaykit.model.values import Raw
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
    name: str
    answered_by: str
    """`live` for a real call, `person` or the name of a file for an answer that was written."""
    usage: Usage | None = None


class Take(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a take, beside its calls."""

    replaykit: int
    name: str
    at: str = ""
    """When it was made: ISO 8601, in UTC."""
    candidate: str = ""
    verdict: str = ""
    """What the run was judged to be."""
    based_on: str = RECORDED
    """The take whose answers were served where they fit."""
    new_answers: tuple[NewAnswer, ...] = ()


class _TakeVersion(Struct):
    replaykit: int


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
    if folder.is_dir():
        directories = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    else:
        directories = []
    names = {name for name in directories if not name.startswith(".")}
    names |= {name_set_aside(name) for name in directories} - {""}
    return sorted(names)


def read_take(case: ReplayCase, name: str) -> Take:
    """Return what is known about a take; `InvalidFile` when its file is missing or wrong."""
    file = _place(case, name) / TAKE_FILE
    text = read_bytes(file, limit_bytes=_MAX_BYTES)
    try:
        version = decode_json(text, _TakeVersion).replaykit
        if version > TAKE_FORMAT:
            raise FormatTooNew(f"{file}: take format {version}, this version reads up to {TAKE_FORMAT}")
        take = decode_json(text, Take)
    except msgspec.MsgspecError as error:
        message, path = split_where(str(error))
        raise InvalidFile(message, file=str(file), line=line_of(text, path) if path else None) from None
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
    folder = takes_directory(case)
    known = [RECORDED, *take_names(folder)]
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
    text = msgspec.json.format(msgspec.json.encode(take), indent=2) + b"\n"
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
    folder = takes_directory(case)
    try:
        return confined_path(case.directory, f"{folder.name}/{name}")
    except ValueError as error:
        raise InvalidFile(str(error), file=str(folder / name)) from None
