"""Sessions as cases with contracts: those in a configuration, and those in files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.find import Unusable, unusable
from replaykit.cases.session import Session, case_of_session, read_session
from replaykit.checks.assertions import Assertions
from replaykit.contracts.contract import Contract, conditions_of
from replaykit.contracts.find import find_contract
from replaykit.documents.document import Document, confined_path
from replaykit.errors import InvalidFile, UsageError
from replaykit.project.project import Project

DEFAULT_CONTRACT = "default"
"""The contract of a session that names none, if it exists."""


class SessionCases:
    """Turns sessions into cases, with the contracts of a configuration; reads each contract file once."""

    def __init__(self, project: Project | None) -> None:
        self._project = project or Project(file=Path("replaykit.yaml"))
        self._contracts = dict(self._project.contracts)

    def read(self, document: Document) -> ReplayCase | Unusable:
        """Read the session in a document as a case."""
        return self.subject_of(read_session(document))

    def subject_of(self, session: Session | InvalidFile, place: str = "") -> ReplayCase | Unusable:
        """Return the case of a session; any flaw in it or its contract makes it unusable.

        `place` identifies a session of the configuration that is too broken to have an id.
        """
        if isinstance(session, InvalidFile):
            file = Path(session.file)
            if place and file == self._project.file:
                return Unusable(id=place, file=file, error=session)
            return unusable(file, session)
        try:
            desired = self._desired(session)
        except UsageError as error:
            return Unusable(id=session.id, file=session.file, error=error)
        agent = self._project.agent
        if agent is not None and agent.timeout_s is not None:
            limit = agent.timeout_s
        else:
            limit = DEFAULT_TIMEOUT_S
        after = partial(self._desired, session)
        return case_of_session(session, desired, desired_after=after, models=self._project.models, timeout_s=limit)

    def _desired(self, session: Session, faults: Iterable[str] = ()) -> Assertions:
        contract, conditions = self._contract(session), conditions_of(faults, session.calls)
        assertions = contract.assertions(conditions)
        if not assertions:
            message = f"no invariant of the contract {contract.name!r} applies: {conditions}"
            raise session.error(message, "contract", hint="Add an invariant with `when: always`.")
        return (*assertions, *self._project.checks)

    def _contract(self, session: Session) -> Contract:
        name = session.contract or DEFAULT_CONTRACT
        if name in self._contracts:
            return self._contracts[name]
        if not session.contract:
            hint = "Name the contract that the agent must keep: contract: NAME"
            raise session.error(f"the session {session.id!r} names no contract", "contract", hint=hint)
        try:
            confined_path(self._project.directory, name)  # sessions are untrusted data and must not reach other files
            contract = find_contract(name, self._contracts, self._project.directory, self._project.files)
        except InvalidFile:
            raise
        except (ValueError, UsageError) as error:
            message = getattr(error, "message", None) or f"no contract {name!r}: {error}"
            raise session.error(f"contract: {message}", "contract", hint=getattr(error, "hint", None)) from None
        self._contracts[name] = contract
        return contract
