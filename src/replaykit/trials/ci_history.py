"""The history of `ci`: a small file for each run. To merge the histories of two machines, copy their files together.

A file is named after its time and its content, so the same run is the same file everywhere. Files are written whole.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.config import make_home
from replaykit.documents.line_files import decode_line, first_line, lines_in, open_regular
from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError
from replaykit.redaction.files import replace_file, writing
from replaykit.trials.ci_causes import cause_digest
from replaykit.trials.ci_result import CiOutcome, CiPartName, CiResult

HISTORY_FORMAT = 1
"""The version of the file format. Readers accept all older ones."""
SHOWN_RUNS = 30
_MAX_FILES = 200
_MAX_BYTES = 32 * 1024 * 1024
_KIND = "ci-history"
_ABSENT = "."
_LETTERS = {CiOutcome.PASSED: "p", CiOutcome.FAILED: "f", CiOutcome.ERROR: "e", CiOutcome.UNTESTED: "u"}
_NOT_PASSED = frozenset("feu")

ItemKey = tuple[str, str]
"""The part and the id of an item."""


class HistoryHeader(Struct, frozen=True, kw_only=True):
    """The first line: the run."""

    replaykit: int = HISTORY_FORMAT
    kind: str = _KIND
    at: float = 0.0
    """When it began, in seconds since 1970."""
    revision: str = ""
    """The commit of the agent's code; empty if it is unknown."""
    settings: str = ""
    """A digest of the configuration and the options."""
    agent: str = ""

    @property
    def code(self) -> str:
        """What decides how a run ends, apart from chance; empty if it is unknown."""
        if self.revision:
            return f"{self.revision} {self.settings}"
        return ""


class HistoryItem(Struct, frozen=True, array_like=True):
    """Every other line: one item, as an array."""

    part: CiPartName
    id: str
    outcome: CiOutcome
    verdict: str = ""
    duration_s: float = 0.0
    cause: str = ""
    """A digest of its cause, the same for items that one fix may mend; empty if it passed."""


class SuiteHistory(Struct, frozen=True, kw_only=True):
    """The latest runs of an agent before a moment, the oldest first."""

    runs: tuple[HistoryHeader, ...] = ()
    outcomes: dict[ItemKey, str] = {}
    """For each item, a letter for each run: the first one of its outcome, or a dot if it did not run."""
    problems: tuple[str, ...] = ()
    """Files that cannot be read, and why."""

    def outcomes_of(self, part: CiPartName, item_id: str) -> str:
        """Return the letters of an item."""
        return self.outcomes.get((part.value, item_id), _ABSENT * len(self.runs))


class ItemStanding(Struct, frozen=True):
    """How an item stands, given its history."""

    word: str = ""
    """`flaky`, `new`, `failing` or `fixed`; empty if it passes as before."""
    since: int | None = None
    """The run since which it fails or passes, counted from the oldest; None if it has been so in all of them."""


def letter_of(outcome: CiOutcome) -> str:
    """Return the letter of an outcome."""
    return _LETTERS[outcome]


def standing_of(outcomes: str, codes: Sequence[str]) -> ItemStanding:
    """Return the standing of an item with these outcomes, the last of which is the current one.

    `codes` are those of the runs. An item is flaky if the same code both passed and did not.
    """
    if set(outcomes) == {"p"}:  # most items of a large suite
        return ItemStanding()
    current = outcomes[-1]
    earlier = [number for number, letter in enumerate(outcomes[:-1]) if letter != _ABSENT]
    if _is_flaky(outcomes, codes):
        return ItemStanding("flaky")
    if len(outcomes) > 1 and not earlier:
        return ItemStanding("new")
    has_failed = current in _NOT_PASSED
    others = [number for number in earlier if (outcomes[number] in _NOT_PASSED) != has_failed]
    if not has_failed and not others:
        return ItemStanding()
    word = "failing" if has_failed else "fixed"
    if not others:
        return ItemStanding(word)
    since = next(number for number in [*earlier, len(outcomes) - 1] if number > others[-1])
    return ItemStanding(word, since)


def _is_flaky(outcomes: str, codes: Sequence[str]) -> bool:
    seen: dict[str, set[str]] = {}
    for letter, code in zip(outcomes, codes, strict=True):
        if code and letter != _ABSENT:
            seen.setdefault(code, set()).add(letter)
    return any("p" in letters and not letters.isdisjoint("fe") for letters in seen.values())


def add_run(directory: Path, result: CiResult) -> Path:
    """Write the file of a run, delete the oldest files if there are too many, and return the file."""
    header = HistoryHeader(at=result.started_at, revision=result.revision, settings=result.settings, agent=result.agent)
    lines = [msgspec.json.encode(header)]
    for item in result.items:
        line = HistoryItem(
            item.part, item.id, item.outcome, item.verdict, round(item.duration_s, 3), cause_digest(item)
        )
        lines.append(msgspec.json.encode(line))
    content = b"".join(line + b"\n" for line in lines)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(result.started_at))
    file = directory / f"{stamp}-{hashlib.sha256(content).hexdigest()[:12]}.jsonl"
    with writing(file):
        make_home(directory)
        replace_file(file, content)
        _delete_oldest(directory)
    return file


def _delete_oldest(directory: Path) -> None:
    size = 0
    for number, file in enumerate(_files(directory)):
        try:
            size += file.stat().st_size
        except FileNotFoundError:  # another run deleted it
            continue
        if number and (number >= _MAX_FILES or size > _MAX_BYTES):
            file.unlink(missing_ok=True)


def _files(directory: Path) -> list[Path]:
    """Return the files of a history, the newest first."""
    return sorted(directory.glob("*.jsonl"), reverse=True)


def read_history(directory: Path, *, agent: str, before: float, limit: int = SHOWN_RUNS) -> SuiteHistory:
    """Read the latest runs of an agent that began before a moment. Unreadable files are named in `problems`."""
    problems = []
    found: list[tuple[HistoryHeader, Path]] = []
    for file in _files(directory):
        try:
            header = read_run_header(file)
        except ReplayKitError as error:
            problems.append(str(error))
            continue
        if header.agent == agent and header.at < before:
            found.append((header, file))
        if len(found) == limit:
            break
    found.sort(key=lambda run: run[0].at)
    letters: dict[ItemKey, bytearray] = {}
    for number, (_, file) in enumerate(found):
        try:
            for item in read_items(file):
                of_item = letters.setdefault((item.part.value, item.id), bytearray(_ABSENT.encode() * len(found)))
                of_item[number] = ord(_LETTERS[item.outcome])
        except ReplayKitError as error:
            problems.append(str(error))
    return SuiteHistory(
        runs=tuple(header for header, _ in found),
        outcomes={key: of_item.decode() for key, of_item in letters.items()},
        problems=tuple(problems),
    )


class _HistoryVersion(Struct, frozen=True):
    replaykit: int = 0
    kind: str = ""


def read_run_header(file: Path) -> HistoryHeader:
    """Read the first line of a file."""
    line = first_line(file)
    try:
        version = decode_line(line, _HistoryVersion)
        if version.kind == _KIND and version.replaykit > HISTORY_FORMAT:
            message = f"{file}: format {version.replaykit}, this version reads up to {HISTORY_FORMAT}"
            raise FormatTooNew(message)
        header = decode_line(line, HistoryHeader)
    except msgspec.MsgspecError:
        raise InvalidFile("not a history of `replaykit ci`", file=str(file)) from None
    if version.kind != _KIND:
        raise InvalidFile("not a history of `replaykit ci`", file=str(file))
    return header


def read_items(file: Path) -> Iterator[HistoryItem]:
    """Yield the items of a file. A last line that was cut, such as by a copy that was stopped, is skipped."""
    with open_regular(file) as stream:
        for number, line in enumerate(lines_in(stream, file), start=1):
            if not line.endswith(b"\n"):
                return
            if number == 1:  # the header
                continue
            try:
                item = decode_line(line, HistoryItem)
            except msgspec.MsgspecError as error:
                raise InvalidFile(f"the line is damaged: {error}", file=str(file), line=number) from None
            yield item
