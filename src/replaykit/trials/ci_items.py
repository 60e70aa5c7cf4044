"""Items of `ci`: turn runs into items with their file, line and command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.evidence import EvidenceFiles
from replaykit.candidates.worlds import with_consent
from replaykit.cases.case import CASE_FILE, MAX_CASE_BYTES, ReplayCase
from replaykit.cases.find import Unusable
from replaykit.cases.run_session import seen
from replaykit.cases.session import Session
from replaykit.documents.document import Document, load_document
from replaykit.errors import ExitCode, NothingSelected, ReplayKitError
from replaykit.handlers.replay.tape import is_refused
from replaykit.model.isolation import NO_CONSENT, Consent, IsolationLevel
from replaykit.model.json_positions import DocumentPath
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Json, JsonObject, canonical
from replaykit.project.case_selection import FiledCase, IndexedCases
from replaykit.project.project import Project
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.trial_runs import TrialRun

if TYPE_CHECKING:
    from replaykit.cluster.cluster import Cluster


class Location(Struct, frozen=True, kw_only=True):
    """A file and line, and the contract named there."""

    file: str
    line: int | None = None
    contract: str = ""


class Locations:
    """Finds the lines of a project's parts. The configuration is read only once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._config = str(project.file)

    def of_subject(self, subject: ReplayCase | Unusable) -> Location:
        """Locate `desired` of a case or `contract` of a session; for an invalid file, its invalid line."""
        file = str(subject.file)
        if isinstance(subject, Unusable):
            return Location(file=getattr(subject.error, "file", file), line=getattr(subject.error, "line", None))
        if subject.tape is not None and subject.file == self._project.file:
            return self._sessions.get(subject.id, Location(file=file))
        try:
            document = load_document(file, limit_bytes=MAX_CASE_BYTES)
        except ReplayKitError:  # deleted or changed during the run; the failure is still reported
            return Location(file=file)
        key = "desired" if subject.tape is None else "contract"
        contract = ""
        if isinstance(document.value, dict) and isinstance(document.value.get(key), str):
            contract = document.value[key]
        return Location(file=file, line=document.line((key,)), contract=contract)

    def of_contract(self, name: str, *, invariant: int | None = None) -> Location:
        """Locate a contract in the configuration, or one of its invariants by index."""
        value = self._document.value if self._document is not None else None
        listed = value.get("contracts") if isinstance(value, dict) else None
        place: DocumentPath = ("contract",)
        if isinstance(listed, dict) and name in listed:
            place = ("contracts", name)
        for index, contract in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(contract, dict) and contract.get("name") == name:
                place = ("contracts", index)
        if invariant is not None:
            place = (*place, "invariants", invariant)
        return self._at(place)

    def of_key(self, key: str) -> Location:
        """Locate a key of the configuration."""
        return self._at((key,))

    @cached_property
    def _document(self) -> Document | None:
        try:
            return self._project.document()
        except ReplayKitError:  # deleted or changed during the run; the failure is still reported
            return None

    @cached_property
    def _sessions(self) -> dict[str, Location]:
        """The locations of all sessions inside the configuration, found in one pass."""
        locations: dict[str, Location] = {}
        if self._document is None:
            return locations
        places: list[DocumentPath] = [("replays", "sessions", index) for index in range(len(self._project.sessions))]
        for session, line in zip(self._project.sessions, self._document.lines(places), strict=True):
            if isinstance(session, Session):
                locations[session.id] = Location(file=self._config, line=line, contract=session.contract)
        return locations

    def _at(self, place: DocumentPath) -> Location:
        return Location(file=self._config, line=None if self._document is None else self._document.line(place))


def command(verb: str, project: Project, *words: str) -> str:
    """Return a command line that can be pasted."""
    return shlex.join(["replaykit", *verb.split(), "-c", str(project.file), *words])


def input_argument(value: Json) -> str:
    """Return a value as `--input` takes it. A text that would parse as JSON is encoded as JSON."""
    if not isinstance(value, str):
        return canonical(value).decode()
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return canonical(value).decode()


def replay_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """Return the command that replays a case.

    A session inside the configuration runs together with the others there.
    """
    if isinstance(subject, Unusable) and subject.command:
        return subject.command
    words = list(project.files.options)
    if subject.file != project.file:
        words.append(_typed(subject))
    return command("replay", project, *words)


def prove_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """Return the command that proves a case. The failing candidate is left to the user."""
    return f"{command('prove', project, _typed(subject))} --bad CANDIDATE"


def _typed(subject: ReplayCase | Unusable) -> str:
    is_case = isinstance(subject, ReplayCase) and subject.file_name == CASE_FILE
    return str(subject.file.parent if is_case else subject.file)


# Deviations that are not an unrecorded call of the agent.
_ON_THE_TAPE = frozenset({"unused", "context", "unwatched", "unpinned", "live"})


class CiSubjects(Struct, frozen=True, kw_only=True):
    """The cases and sessions of a suite. Files are read only when needed."""

    cases: IndexedCases
    consent: Consent = NO_CONSENT

    @property
    def all(self) -> tuple[ReplayCase | Unusable | FiledCase, ...]:
        """All cases and sessions with their ids and files."""
        return self.cases.all

    def load(self, index: int) -> ReplayCase | Unusable:
        """Load a case or session, with the user's consent added."""
        subject = self.cases.load(self.cases.all[index])
        if isinstance(subject, ReplayCase):
            return with_consent(subject, self.consent)
        return subject


class CiSettings(Struct, frozen=True, kw_only=True):
    """The settings of all parts."""

    project: Project
    places: Locations
    seed: int = 0
    seed_override: int | None = None
    """A seed that overrides those of the configuration."""
    evidence: EvidenceFiles | None = None
    """Where runs leave files; None keeps none."""
    subjects: CiSubjects
    requires_proof: bool = False
    """True if a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The lowest isolation with which a replay passes."""

    @property
    def timeout_s(self) -> float | None:
        return None if self.project.agent is None else self.project.agent.timeout_s


class CiWorkers(Struct, frozen=True, kw_only=True):
    """The agent under test, and how many runs happen in parallel."""

    candidate: Candidate
    jobs: int = 1
    on_done: Callable[[], None] = lambda: None
    cluster: Cluster | None = None
    """The cluster that runs replays. Runs of trials reach it through the candidate."""


def trial_members(run: TrialRun) -> JsonObject:
    """Return the fields of an item that come from a trial's run."""
    return {
        **run_members(run.attempt.run),
        "input_json": run.case.scenario.input_json,
        "divergence": first_divergence(run.attempt.deviations),
        "duration_s": run.duration_s,
    }


def run_members(run: TraceRun | None) -> JsonObject:
    """Return the fields of an item that come from a run."""
    if run is None:
        return {}
    return {
        "output_json": run.output_json or ABSENT,
        "error": "" if run.error is None else str(run.error),
        "calls": tuple(seen(call) for call in run.tool_calls if not is_refused(call)),
    }


def first_divergence(deviations: Iterable[Deviation]) -> Deviation | None:
    """The first call that did not follow the tape."""
    return next((deviation for deviation in deviations if deviation.kind not in _ON_THE_TAPE), None)


def untried_item(part: CiPartName, name: str, error: ReplayKitError, where: Location) -> CiItem:
    """Return an item for something that could not be run."""
    outcome = CiOutcome.UNTESTED if isinstance(error, NothingSelected) else CiOutcome.ERROR
    return CiItem(
        part=part,
        id=name,
        outcome=outcome,
        verdict=outcome.value,
        reason=str(error),
        file=where.file,
        line=where.line,
        is_wrong_file=error.exit_code is ExitCode.USAGE,
    )
