"""Replays and cases: the evidence of replays, and cases beside the runs that they were made from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.case_check import check_case
from replaykit.candidates.worlds import source_run
from replaykit.cases.case import CASE_FILE, ReplayCase, load_case
from replaykit.cases.find import file_of, find_files
from replaykit.cases.proof import read_proof, standing_of
from replaykit.documents.document import read_bytes
from replaykit.errors import NothingSelected, ReplayKitError, UsageError
from replaykit.model.nesting import decode_json
from replaykit.model.result import ReplayResult, read_result
from replaykit.model.run import TraceRun
from replaykit.model.values import sayable
from replaykit.viewer.page_types import CasePage, ListedCase, ListedReplay, ReplayPage

RESULT_FILE = "result.json"
_SHOWN_REPLAYS = 50
_MAX_TEXT_BYTES = 1 << 20
_MAX_RESULT_BYTES = 512 * 1024 * 1024
REPLAY, CASE = "replay:", "case:"
"""The beginnings of the addresses of their runs."""


class _ResultHead(Struct, frozen=True):
    """The members of a result that a list shows."""

    case_id: str
    verdict: str
    candidate: str = ""
    reason: str = ""


class _CaseHead(Struct, frozen=True, kw_only=True):
    """The members of a case that a list shows; cases take long to read, so they are kept until the file changes."""

    id: str
    title: str
    changed_ns: int


_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding a damaged result raises."""


class EvidenceReader:
    """Finds replays in their directory and cases at their paths; a name that is in neither leads nowhere."""

    def __init__(self, evidence: Path, cases: Sequence[Path]) -> None:
        self._evidence = evidence
        self._case_paths = list(cases)
        self._named_results: dict[str, Path] = {}
        self._case_heads: dict[Path, _CaseHead] = {}
        self._heads: dict[Path, ListedReplay] = {}

    def add_result(self, file: Path) -> str:
        """Add a result outside of the directory, and return its name."""
        name = sayable(file.resolve().parent.name)
        self._named_results[name] = file
        return name

    def add_case(self, directory: Path) -> str:
        """Add the directory of a case, and return its name."""
        load_case(directory)
        self._case_paths.append(directory)
        return sayable(str(directory))

    def name_of(self, directory: str) -> str:
        """Return the name of the replay that left evidence in a directory; empty if none is there to show."""
        path = Path(directory)
        if directory and path.parent == self._evidence and os.path.isfile(path / RESULT_FILE):
            return path.name
        return ""

    def listed_replays(self) -> tuple[ListedReplay, ...]:
        """Return the newest replays that left evidence."""
        return tuple(map(self._head, self._result_files()))

    def _result_files(self) -> Iterator[Path]:
        yield from self._named_results.values()
        try:
            names = sorted(os.listdir(self._evidence), reverse=True)
        except OSError:  # no replay has left evidence yet
            return
        count = 0
        for name in names:
            file = self._evidence / name / RESULT_FILE
            if count < _SHOWN_REPLAYS and name not in self._named_results and os.path.isfile(file):
                count += 1
                yield file

    def _head(self, file: Path) -> ListedReplay:
        if file not in self._heads:
            name = sayable(file.resolve().parent.name)
            try:
                head = decode_json(read_bytes(file, limit_bytes=_MAX_RESULT_BYTES), _ResultHead)
            except (ReplayKitError, *_DAMAGE) as error:
                reason = sayable(f"it cannot be read: {error}")
                return ListedReplay(name=name, case_id="", verdict="inconclusive", reason=reason)
            self._heads[file] = ListedReplay(name=name, **msgspec.structs.asdict(head))
        return self._heads[file]

    def result(self, name: str) -> ReplayResult:
        """Return the result of a replay."""
        file = self._named_results.get(name, self._evidence / name / RESULT_FILE)
        is_entry = name not in ("", ".", "..") and os.sep not in name
        if not is_entry or not os.path.isfile(file):
            raise UsageError(f"no replay {name!r} left evidence")
        try:
            return read_result(read_bytes(file, limit_bytes=_MAX_RESULT_BYTES))
        except _DAMAGE as error:
            raise UsageError(f"{file} cannot be read: {error}") from None

    def replay_page(self, name: str) -> ReplayPage:
        """Return the page of a replay."""
        result = self.result(name)
        recorded = ""
        for case_name, file in self._case_files().items():
            if self._case_head(file).id == result.case_id:
                recorded = f"{CASE}{case_name}"
        return ReplayPage(
            name=name,
            result=replace(result, run=None, more=()),
            run="" if result.run is None else f"{REPLAY}{name}",
            recorded=recorded,
        )

    def listed_cases(self) -> tuple[ListedCase, ...]:
        """Return the cases of the project."""
        files = self._case_files().items()
        return tuple(ListedCase(name=name, title=self._case_head(file).title) for name, file in files)

    def _case_head(self, file: Path) -> _CaseHead:
        try:
            changed_ns = os.stat(file).st_mtime_ns
        except OSError as error:  # deleted meanwhile
            return _CaseHead(id="", title=f"(cannot be read: {error.strerror})", changed_ns=0)
        known = self._case_heads.get(file)
        if known is None or known.changed_ns != changed_ns:
            known = self._case_heads[file] = _read_head(file, changed_ns)
        return known

    def _case_files(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for path in self._case_paths:
            try:
                files = find_files([path]).files
            except (NothingSelected, UsageError):  # nothing there yet
                continue
            for source in files:
                file = file_of(source)
                if file.name == CASE_FILE:
                    found[sayable(str(file.parent))] = file
        return found

    def case(self, name: str) -> ReplayCase:
        """Return the case of a name."""
        file = self._case_files().get(name)
        if file is None:
            raise UsageError(f"no case {name!r}")
        return load_case(file)

    def case_run(self, name: str) -> TraceRun:
        """Return the run that a case was made from."""
        run = source_run(self.case(name))
        if run is None:
            raise UsageError(f"the case {name!r} has no source trace")
        return run

    def case_page(self, name: str) -> CasePage:
        """Return the page of a case, judged on its recorded run."""
        case = self.case(name)
        path = sayable(str(case.file))
        page = CasePage(name=name, title=case.title, path=path, text=_text_of(case.file), proof=sayable(_proof(case)))
        try:
            run = source_run(case)
            if run is None:
                return replace(page, problems=("The case has no source trace to judge.",))
            check = check_case(case, run, dry_run=True)
        except ReplayKitError as error:
            return replace(page, problems=(sayable(str(error)),))
        result = check.results[0]
        return replace(
            page,
            observed=result.observed,
            desired=result.desired,
            semantic=result.semantic,
            deviations=result.deviations,
            problems=(sayable(check.problem),) if check.problem else (),
        )


def _read_head(file: Path, changed_ns: int) -> _CaseHead:
    try:
        case = load_case(file)
    except ReplayKitError as error:
        return _CaseHead(id="", title=sayable(f"(cannot be read: {error})"), changed_ns=changed_ns)
    return _CaseHead(id=case.id, title=case.title, changed_ns=changed_ns)


def _text_of(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")


def _proof(case: ReplayCase) -> str:
    """Return when the case was seen red and green, in words."""
    _, problem = standing_of(case)
    try:
        proof = read_proof(case)
    except ReplayKitError:  # the problem says so
        return problem
    seen = []
    if proof.red is not None:
        seen.append(f"seen red with {proof.red.candidate} on {proof.red.at[:10]}")
    if proof.green is not None:
        seen.append(f"seen green with {proof.green.candidate} on {proof.green.at[:10]}")
    return "; ".join(filter(None, (*seen, problem)))
