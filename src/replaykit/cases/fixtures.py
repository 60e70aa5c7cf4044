"""Fixtures: the frozen outcomes for a candidate, in one readable file per tool or model.

    fixtures/gpt-5.json
      {"replaykit": 3, "kind": "llm_call", "name": "gpt-5",
       "parts": {"messages": [{"role": "user", …}, …]},
       "calls": [{"call": 3, "path": "", "arguments": {…}, "parts": {"messages": "0-4"}, "result": …}, …]}
    fixtures/values/2c26b46b68ffc68ff99b453c1d304134.json

A call has a `result`, an `error`, the `items` of a stream, or none of them if the log holds no outcome or the call was
abandoned (`"complete": false`). A failed tool call from a foreign trace may have both: the `result` is what the model
saw, and the scenario's `tool_errors` says whether a replay returns it or raises the `error`. Step and date belong to
the run and are left out. For a call over HTTP, `items` are the chunks of the response and `wire` holds the rest. Values
keep their JSON text, tagged forms included.

Parts that the arguments of several calls share are stored once, in `parts` (`model.shared_parts`). A large value has a
file of its own (`value_files`), which `values` of the call names. A call of another take that the recorded take
answered refers to it (`same_as`) and repeats nothing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from replaykit.cases.fixture_entries import entry_of, place_of
from replaykit.cases.fixture_reader import FIXTURE_FORMAT, FixtureReader
from replaykit.documents.document import FilePath, confined_file
from replaykit.documents.slug import slug
from replaykit.errors import UsageError
from replaykit.model.compact_run import WriteValue
from replaykit.model.events import Call
from replaykit.model.json_layout import laid_out
from replaykit.model.run import ended_before
from replaykit.model.shared_parts import CanBeNamed, PartWriter
from replaykit.model.values import Json, JsonObject, Raw
from replaykit.redaction.files import clean_bytes
from replaykit.value_files import ValueWriter

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

from replaykit.redaction.files import replace_file
from replaykit.value_files import VALUES, is_value_name, value_name

FIXTURES = "fixtures"
"""The directory inside a case."""
_OPEN_LEVELS = 2
_NOTHING_SAME: Mapping[int, int] = {}


def write_fixtures(
    directory: FilePath,
    calls: Iterable[Call],
    redactor: Redactor | None = None,
    same_as: Mapping[int, int] = _NOTHING_SAME,
    *,
    values: ValueWriter | None = None,
) -> list[Path]:
    """Write the calls into `fixtures/` of a directory, and return the files; files of other names stay.

    `same_as` maps numbers of calls to the calls of the recorded take that answered them. `values` is for callers that
    write the same large values elsewhere too.
    """
    case = Path(directory)
    written: dict[Path, tuple[str, str]] = {}
    values = values or value_writer(case, redactor)
    can_be_named = reference_names(redactor)
    for (kind, name), group in _by_name(calls).items():
        file = _place(case, f"{slug(kind, name)}.json")
        if file in written:
            raise UsageError(f"{written[file]!r} and {(kind, name)!r} would share the file {file}")
        written[file] = (kind, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = encode_fixture(group, values.write, can_be_named, same_as)
        replace_file(file, clean_bytes(text, redactor))
    return list(written)


def value_writer(directory: FilePath, redactor: Redactor | None, passed: Iterable[Raw] = ()) -> ValueWriter:
    """Return a writer for the large values of a directory's fixtures; `passed` is for `ValueWriter`."""
    return ValueWriter(Path(directory) / FIXTURES, partial(clean_bytes, redactor=redactor), passed)


def reference_names(redactor: Redactor | None) -> CanBeNamed:
    """Return a function that decides whether a reference may replace the argument at a path.

    Under a name such as `password` it may not: redaction would mistake the reference for a secret.
    """
    from replaykit.redaction.rules import DEFAULT  # noqa: PLC0415 (slow to import, and most cases are only read)

    rules = DEFAULT if redactor is None else redactor.rules
    return lambda path: rules.hint_of(path) is None and rules.hint_of(f"arguments.{path}") is None


def encode_fixture(
    calls: Sequence[Call],
    write_value: WriteValue,
    can_be_named: CanBeNamed,
    same_as: Mapping[int, int] = _NOTHING_SAME,
) -> bytes:
    """Return the text of a fixture file with these calls of one name; `write_value` gets their large values."""
    # Calls that repeat recorded ones have no arguments of their own, so they must not add to the shared parts.
    own = (call.request_json for call in calls if call.seq not in same_as)
    parts = PartWriter(own, can_be_named)
    entries: list[Json] = []
    for call in calls:
        if call.seq in same_as:
            entries.append({"call": call.seq, "same_as": same_as[call.seq], **place_of(call)})
        else:
            entries.append(entry_of(call, parts, write_value))
    content: JsonObject = {"replaykit": FIXTURE_FORMAT, "kind": calls[0].kind, "name": calls[0].name}
    if parts.tables:
        content["parts"] = parts.tables
    content["calls"] = entries
    return laid_out(msgspec.json.encode(content), open_levels=_OPEN_LEVELS)


def read_fixtures(directory: FilePath, recorded: Sequence[Call] = (), *, held: Iterable[Raw] = ()) -> list[Call]:
    """Return all calls in `fixtures/` of a directory, in order; none if it does not exist.

    `recorded` are the calls that others may repeat. `held` are values in memory, which are used instead of equal ones
    from files, so that memory holds one copy.
    """
    reader = FixtureReader(Path(directory) / FIXTURES, recorded, held)
    calls = chain.from_iterable(map(reader.read, fixture_files(directory)))
    return sorted(calls, key=lambda call: call.seq)


def fixture_files(directory: FilePath) -> list[Path]:
    """Return the fixture files of a case, by name; raise `InvalidFile` if one leads out of the case's directory."""
    case = Path(directory)
    folder = case / FIXTURES
    if not folder.is_dir():
        return []
    names = [name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")]
    return [_place(case, name) for name in sorted(names)]


def read_fixture(file: Path) -> list[Call]:
    """Return the calls in one fixture file, in file order."""
    return FixtureReader(file.parent).read(file)


def _by_name(calls: Iterable[Call]) -> dict[tuple[str, str], list[Call]]:
    """Group the calls by kind and name, in order; concurrent calls of tools note the call that ended before them."""
    groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    ordered = sorted(calls, key=lambda call: call.seq)
    ended_after = ended_before(ordered)
    for call in ordered:
        after = ended_after.get(call.seq, call.after)
        if after != call.after:
            call = msgspec.structs.replace(call, after=after)
        groups[call.kind, call.name].append(call)
    return groups


def _place(case: Path, name: str) -> Path:
    return confined_file(case, f"{FIXTURES}/{name}")


def rename_changed_values(files: Iterable[Path]) -> None:
    """Rename value files whose content no longer matches their name, and the references to them."""
    for file in files:
        name = f"{VALUES}/{file.name}"
        if file.parent.name != VALUES or not is_value_name(name):
            continue
        new_name = value_name(file.read_bytes())
        if new_name == name:
            continue
        fixtures = file.parent.parent
        file.replace(fixtures / new_name)
        for other in (*sorted(fixtures.glob("*.json")), *sorted(fixtures.parent.glob("*.json"))):
            _replace_name(other, name.encode(), new_name.encode())


def _replace_name(file: Path, name: bytes, new_name: bytes) -> None:
    if file.is_symlink() or not file.is_file():
        return
    text = file.read_bytes()
    if name in text:
        replace_file(file, text.replace(name, new_name))
