"""Where it is written what an item asks, and what to type to look closer at it."""

from __future__ import annotations

import shlex
from functools import cached_property

import orjson
from msgspec import Struct

from replaykit.cases.case import CASE_FILE, MAX_CASE_BYTES, ReplayCase
from replaykit.cases.document import Document, load_document
from replaykit.cases.document import Path as Place
from replaykit.cases.find import Unusable
from replaykit.cases.session import Session
from replaykit.errors import ReplayKitError
from replaykit.model.values import Json, canonical
from replaykit.project.project import Project


class Where(Struct, frozen=True, kw_only=True):
    """A file, the line in it, and the contract that is named there."""

    file: str
    line: int | None = None
    contract: str = ""


class Places:
    """Where the things of one project stand. Its configuration is read once, however many of them fail."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._config = str(project.file)

    def of_subject(self, subject: ReplayCase | Unusable) -> Where:
        """Of a case or a session: its `desired`, or its `contract`; of what is wrong, the line that is."""
        file = str(subject.file)
        if isinstance(subject, Unusable):
            return Where(file=getattr(subject.error, "file", file), line=getattr(subject.error, "line", None))
        if subject.tape is not None and subject.file == self._project.file:
            return self._sessions.get(subject.id, Where(file=file))
        document = _opened(file, MAX_CASE_BYTES)
        key = "desired" if subject.tape is None else "contract"
        named = document.value.get(key) if document is not None and isinstance(document.value, dict) else None
        contract = named if isinstance(named, str) else ""
        return Where(file=file, line=None if document is None else document.line((key,)), contract=contract)

    def of_contract(self, name: str) -> Where:
        """Of a contract in the configuration."""
        value = self._document.value if self._document is not None else None
        listed = value.get("contracts") if isinstance(value, dict) else None
        place: Place = ("contract",)
        if isinstance(listed, dict) and name in listed:
            place = ("contracts", name)
        for index, contract in enumerate(listed if isinstance(listed, list) else ()):
            place = ("contracts", index) if isinstance(contract, dict) and contract.get("name") == name else place
        return self._at(place)

    def of_key(self, key: str) -> Where:
        """Of a part of the configuration."""
        return self._at((key,))

    @cached_property
    def _document(self) -> Document | None:
        try:
            return self._project.document()
        except ReplayKitError:  # gone or changed while the agent ran: what failed is told all the same
            return None

    @cached_property
    def _sessions(self) -> dict[str, Where]:
        """The sessions that the configuration itself holds; all lines in one pass."""
        written = [
            (session, ("replays", "sessions", index))
            for index, session in enumerate(self._project.sessions)
            if isinstance(session, Session)
        ]
        lines = self._document.lines([place for _, place in written]) if self._document is not None else []
        return {
            session.id: Where(file=self._config, line=line, contract=session.contract)
            for (session, _), line in zip(written, lines, strict=False)
        }

    def _at(self, place: Place) -> Where:
        return Where(file=self._config, line=None if self._document is None else self._document.line(place))


def _opened(file: str, limit_bytes: int) -> Document | None:
    try:
        return load_document(file, limit_bytes=limit_bytes)
    except ReplayKitError:  # gone or changed while the agent ran: what failed is told all the same
        return None


def command(verb: str, project: Project, *words: str) -> str:
    """A command line that can be pasted."""
    return shlex.join(["replaykit", *verb.split(), "-c", str(project.file), *_files(verb, project), *words])


def _files(verb: str, project: Project) -> tuple[str, ...]:
    """Where the configuration is read, for a verb that knows of that."""
    return project.files.options if verb == "replay" else ()


def spoken(value: Json) -> str:
    """A value as `--input` takes it: a text that would be read as JSON is written as JSON."""
    if not isinstance(value, str):
        return canonical(value).decode()
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return canonical(value).decode()


def replay_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """How to replay this one alone; a session that stands in the configuration runs with its neighbours."""
    if isinstance(subject, Unusable) and subject.command:
        return subject.command
    if subject.file == project.file:
        return command("replay", project)
    return command("replay", project, _typed(subject))


def prove_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """How to prove this one; the candidate that still fails, only a person knows."""
    return f"{command('prove', project, _typed(subject))} --bad CANDIDATE"


def _typed(subject: ReplayCase | Unusable) -> str:
    is_case = isinstance(subject, ReplayCase) and subject.file_name == CASE_FILE
    return str(subject.file.parent if is_case else subject.file)
