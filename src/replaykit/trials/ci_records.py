"""The results of `ci` as a stream: a file with a line per item, and the result computed from it.

A shard writes the same format with its share of the items, so one function computes the results of whole and merged
runs.
"""

from __future__ import annotations

import heapq
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.config import make_home
from replaykit.contracts.contract import Severity
from replaykit.contracts.score import score_of
from replaykit.documents.line_files import decode_line, first_line, lines_in, open_regular
from replaykit.errors import ExitCode, FormatTooNew, InvalidFile, StoreError
from replaykit.redaction.files import clean_struct, file_redactor
from replaykit.trials.chaos import ChaosVerdict, nothing_asked
from replaykit.trials.ci_items import Location, untried_item
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPart, CiPartName, CiResult, exit_code_of, overall

RESULTS_FORMAT = 1
"""The version of the file format. Readers accept all older ones."""
NO_FAULT_TRIGGERED = "no fault was triggered; is the name right, and do the agent's calls pass through ReplayKit?"
_PARTS = tuple(CiPartName)
_FOOTER = b'{"end":'
_FOOTER_BYTES = 64


class Tally(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures behind a score that are not part of the item."""

    checks: tuple[tuple[Severity, bool | None], ...] = ()
    """The severity of each invariant checked, and whether it holds."""
    weight: float = 0.0
    """The weight of a mutation."""
    invariant_count: int = 0
    """The number of invariants checked under chaos."""


class CiRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One item with its place in the suite, before other items affect it."""

    place: tuple[int, int, int]
    """The indexes of the part, of the unit (a case, a contract), and of the run."""
    item: CiItem
    tally: Tally | None = None
    """None if the item could not be run."""


class PlannedPart(Struct, frozen=True, kw_only=True):
    """A part of the suite with something to run."""

    part: CiPartName
    weight: float


class CiHeader(Struct, frozen=True, kw_only=True):
    """The suite of the records: everything in a result but its items."""

    replaykit: int = RESULTS_FORMAT
    kind: str = "ci-results"
    version: str
    """The version of ReplayKit."""
    shard: int = 1
    shards: int = 1
    suite: str
    """A digest of the cases and everything checked on them."""
    settings: str
    """A digest of the configuration and the options that affect results."""
    assignment: str = ""
    """A digest of the assignment of cases to shards."""
    parts: tuple[PlannedPart, ...]
    agent: str = ""
    config: str = ""
    config_from: str = ""
    seed: int = 0
    min_score: float | None = None
    chaos_contract: str = ""
    """The contract checked under chaos."""
    chaos_file: str = ""
    chaos_line: int | None = None
    """The line of the faults in the configuration."""
    notices: tuple[str, ...] = ()
    started_at: float = 0.0
    """When the run began, in seconds since 1970; 0 if unknown."""
    revision: str = ""
    """The commit of the agent's code; empty if it is unknown, or if files differ from it."""

    @property
    def is_shard(self) -> bool:
        """Whether the records cover only a part of the suite."""
        return self.shards > 1


class CiFooter(Struct, frozen=True, kw_only=True):
    """The last line, without which the run is incomplete."""

    end: int
    """The number of records."""


class RecordFile:
    """Writes the results file line by line, redacted."""

    def __init__(self, file: Path, header: CiHeader) -> None:
        self.file = file
        self._redactor = file_redactor()
        self._count = 0
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._stream: IO[bytes] = file.open("wb")
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}") from None
        self.header = clean_struct(header, self._redactor)
        self._write(self.header)

    def add(self, record: CiRecord) -> None:
        """Write one record, flushed on return."""
        self._write(replace(record, item=clean_struct(record.item, self._redactor)))
        self._count += 1

    def finish(self) -> None:
        """Mark the file as complete."""
        self._write(CiFooter(end=self._count))

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _write(self, line: Struct) -> None:
        try:
            self._stream.write(msgspec.json.encode(line) + b"\n")
            # A killed run keeps every complete line.
            self._stream.flush()
        except OSError as error:
            raise StoreError(f"{self.file} cannot be written: {error.strerror}") from None


def new_results_file(directory: Path) -> Path:
    """Create an empty results file, named after the time."""
    make_home(directory)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for number in itertools.count(1):
        file = directory / (f"{stamp}.jsonl" if number == 1 else f"{stamp}~{number}.jsonl")
        try:
            # Creating the file reserves its name, so that parallel runs never share one.
            file.open("xb").close()
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}") from None
        return file
    raise AssertionError("unreachable: the loop ends by returning")


class _Version(Struct, frozen=True):
    replaykit: int = 0
    kind: str = ""


def read_header(file: Path) -> CiHeader:
    """Read the header of a results file; raise `InvalidFile` if it is not one."""
    try:
        line = first_line(file)
        version = decode_line(line, _Version)
        if version.kind != "ci-results":
            raise InvalidFile("not results of `replaykit ci`", file=str(file))
        if version.replaykit > RESULTS_FORMAT:
            message = f"{file}: format {version.replaykit}, this version reads up to {RESULTS_FORMAT}"
            raise FormatTooNew(message)
        return decode_line(line, CiHeader)
    except msgspec.MsgspecError:
        raise InvalidFile("not results of `replaykit ci`", file=str(file)) from None


def read_footer(file: Path) -> int | None:
    """Return the number of records of a complete file, without reading them; None if the run has not ended."""
    with open_regular(file) as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _FOOTER_BYTES))
        line = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return decode_line(line, CiFooter).end if line.startswith(_FOOTER) else None
    except msgspec.MsgspecError:
        return None


def read_records(file: Path) -> Iterator[CiRecord]:
    """Yield the records of a file; raise `InvalidFile` if it is damaged or incomplete."""
    count = 0
    with open_regular(file) as stream:
        for number, line in enumerate(lines_in(stream, file), start=1):
            if number == 1:  # the header
                continue
            try:
                if line.startswith(_FOOTER):
                    if decode_line(line, CiFooter).end == count:
                        return
                    break
                record = decode_line(line, CiRecord)
            except msgspec.MsgspecError as error:
                raise InvalidFile(f"the line is damaged: {error}", file=str(file), line=number) from None
            yield record
            count += 1
    hint = "The run was stopped before everything was run: run it again."
    raise InvalidFile("the results are incomplete", file=str(file), hint=hint)


class RecordedItems(Sequence[CiItem]):
    """The items of a result, read from the files on each iteration instead of being held in memory."""

    def __init__(self, files: Sequence[Path], finish: Callable[[CiRecord], CiItem | None], count: int) -> None:
        self._files = tuple(files)
        self._finish = finish
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CiItem]:
        """Yield the items. Duplicate ids get a number, because reports identify items by id."""
        counts: Counter[tuple[CiPartName, str]] = Counter()
        for record in in_order(self._files):
            item = self._finish(record)
            if item is None:
                continue
            key = (item.part, item.id)
            counts[key] += 1
            if counts[key] > 1:
                item = replace(item, id=f"{item.id} ({counts[key]})")
            yield item

    @overload
    def __getitem__(self, index: int) -> CiItem: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[CiItem, ...]: ...

    def __getitem__(self, index: int | slice) -> CiItem | tuple[CiItem, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return next(itertools.islice(self, index % self._count, None))


def in_order(files: Sequence[Path]) -> Iterator[CiRecord]:
    """Yield the records of several files in the order of the suite."""
    # Each file is in order already, so merging needs one record of each in memory.
    return heapq.merge(*map(read_records, files), key=lambda record: record.place)


def place_of(part: CiPartName, unit: int, run: int = 0) -> tuple[int, int, int]:
    """Return the place of an item in the suite."""
    return _PARTS.index(part), unit, run


def case_name(case_id: str) -> str:
    """Return the unit name of a case."""
    return f"replay {case_id}"


def result_of(header: CiHeader, files: Sequence[Path]) -> CiResult:
    """Compute the result from the records in these files; for a single shard, as far as possible without the others."""
    chaos = _Chaos(header)
    sums = {planned.part: _PartSum(planned) for planned in header.parts}
    for record in in_order(files):
        part_sum = sums.get(record.item.part)
        if part_sum is None:
            message = (
                f"the results have an item of the part {record.item.part.value!r}, which their header does not name"
            )
            raise InvalidFile(message, file=", ".join(map(str, files)))
        chaos.add(record)
        part_sum.add(record)
    parts, best = [], []
    for figures in sums.values():
        part, best_score = figures.result(chaos)
        if part.total or not header.is_shard:
            parts.append(part)
            best.append(replace(part, score=best_score))
    items = RecordedItems(files, chaos.finish, sum(part.total for part in parts))
    outcomes = Counter(item.outcome for item in items)
    score = overall(parts)
    if not header.is_shard:
        code = exit_code_of(items, score, overall(best), header.min_score)
    elif outcomes:
        code = exit_code_of(items, None, None, header.min_score)
    else:
        code = ExitCode.PASSED
    return CiResult(
        passed=code is ExitCode.PASSED,
        exit_code=code,
        score=score,
        min_score=header.min_score,
        verdict=_verdict(header, code, outcomes, score),
        agent=header.agent,
        config=header.config,
        config_from=header.config_from,
        seed=header.seed,
        parts=tuple(parts),
        items=items,
        notices=header.notices,
        duration_s=round(sum(part.duration_s for part in parts), 6),
        started_at=header.started_at,
        revision=header.revision,
        settings=header.settings,
    )


def _verdict(header: CiHeader, code: ExitCode, counts: Counter[CiOutcome], score: float | None) -> str:
    """Return the result in one sentence."""
    shown = [f"{counts[outcome]} {outcome.value}" for outcome in CiOutcome if counts[outcome]]
    if header.is_shard:
        return f"{_WORDS[code]}: shard {header.shard} of {header.shards}; {', '.join(shown) or 'nothing to run'}"
    reached = "no score" if score is None else f"score {score:g}"
    if header.min_score is not None:
        reached += f" of at least {header.min_score:g}"
    return f"{_WORDS[code]}: {reached}; {', '.join(shown)}"


_WORDS = {
    ExitCode.PASSED: "passed",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "failed, files are wrong",
    ExitCode.CANNOT: "cannot tell",
    ExitCode.NOTHING: "not tested",
}


class _Chaos:
    """The effect of chaos items on each other: if no fault occurred in any of them, none tested anything."""

    def __init__(self, header: CiHeader) -> None:
        self._header = header
        self._first: tuple[int, int, int] | None = None
        self._failed_first: tuple[int, int, int] | None = None
        self._has_struck = self._was_asked = False

    def add(self, record: CiRecord) -> None:
        """Take a record into account."""
        item, tally = record.item, record.tally
        if item.part is not CiPartName.CHAOS:
            return
        self._first = self._first or record.place
        if tally is None:
            self._failed_first = self._failed_first or record.place
            return
        self._has_struck = self._has_struck or bool(item.faults)
        self._was_asked = self._was_asked or tally.invariant_count > 0 or item.verdict == ChaosVerdict.ERROR

    @property
    def is_untried(self) -> bool:
        """Whether a single item replaces all: an error, or a contract without applicable invariants."""
        return self._failed_first is not None or self._is_unasked

    @property
    def is_untested(self) -> bool:
        """Whether no fault occurred. A single shard cannot tell."""
        return not self._has_struck and not self._header.is_shard

    @property
    def _is_unasked(self) -> bool:
        return bool(self._header.chaos_contract) and not self._was_asked and not self._header.is_shard

    def finish(self, record: CiRecord) -> CiItem | None:
        """Return the final item of a record; None if another item replaces it."""
        item = record.item
        if item.part is not CiPartName.CHAOS:
            return item
        if self._failed_first is not None:
            return item if record.place == self._failed_first else None
        if self._is_unasked:
            return self._unasked_item() if record.place == self._first else None
        if self.is_untested and item.outcome is CiOutcome.PASSED:
            outcome = CiOutcome.UNTESTED
            return replace(item, outcome=outcome, verdict=outcome.value, reason=NO_FAULT_TRIGGERED)
        return item

    def _unasked_item(self) -> CiItem:
        where = Location(file=self._header.chaos_file, line=self._header.chaos_line)
        return untried_item(CiPartName.CHAOS, CiPartName.CHAOS.value, nothing_asked(self._header.chaos_contract), where)


class _PartSum:
    """Computes the score of one part."""

    def __init__(self, planned: PlannedPart) -> None:
        self._planned = planned
        self._outcomes: Counter[CiOutcome] = Counter()
        self._checks: Counter[tuple[Severity, bool | None]] = Counter()
        self._tried = 0
        self._weight = self._passed_weight = self._best_weight = 0.0
        self._duration_s = 0.0

    def add(self, record: CiRecord) -> None:
        """Count a record."""
        outcome, tally = record.item.outcome, record.tally
        self._outcomes[outcome] += 1
        self._duration_s += record.item.duration_s
        if tally is None:
            return
        self._tried += 1
        self._checks.update(tally.checks)
        self._weight += tally.weight
        if outcome is CiOutcome.PASSED:
            self._passed_weight += tally.weight
        if outcome in (CiOutcome.PASSED, CiOutcome.ERROR):
            self._best_weight += tally.weight

    def result(self, chaos: _Chaos) -> tuple[CiPart, float | None]:
        """Return the part, and its score if all inconclusive items had passed."""
        part = self._planned.part
        total, passed = self._outcomes.total(), self._outcomes[CiOutcome.PASSED]
        score, best = self._scores()
        if part is CiPartName.CHAOS and total:
            if chaos.is_untried:
                total, passed = 1, 0
            if chaos.is_untried or chaos.is_untested:
                score, best = None, self._best_without_score()
                passed = 0
        duration_s = round(self._duration_s, 6)
        weighed = CiPart(
            part=part,
            name=part.score_name,
            score=score,
            weight=self._planned.weight,
            total=total,
            passed=passed,
            duration_s=duration_s,
        )
        return weighed, best

    def _scores(self) -> tuple[float | None, float | None]:
        part = self._planned.part
        if part is CiPartName.CONTRACT and self._checks:
            checks = list(self._checks.elements())
            score = score_of((severity, holds is True) for severity, holds in checks)
            return score, score_of((severity, holds is not False) for severity, holds in checks)
        if part is CiPartName.MUTATION and self._tried:
            return _share(self._passed_weight, self._weight), _share(self._best_weight, self._weight)
        total = self._outcomes.total()
        if part in (CiPartName.REPLAY, CiPartName.CHAOS) and self._tried and total:
            best = total - self._outcomes[CiOutcome.FAILED]
            return _share(self._outcomes[CiOutcome.PASSED], total), _share(best, total)
        return None, self._best_without_score()

    def _best_without_score(self) -> float | None:
        """Return the best score of an unscored part: whatever could not be run might have passed."""
        return 100.0 if self._outcomes[CiOutcome.ERROR] else None


def _share(counted: float, whole: float) -> float:
    return round(100 * counted / whole, 2) if whole else 0.0
