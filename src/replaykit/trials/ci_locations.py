"""Locations of items: the file and line of each, and the command to look closer."""

from __future__ import annotations

import shlex
from functools import cached_property

import orjson
from msgspec import Struct

from replaykit.cases.case import CASE_FILE, MAX_CASE_BYTES, ReplayCase
from replaykit.cases.find import Unusable
from replaykit.cases.session import Session
from replaykit.documents.document import Document, load_document
from replaykit.documents.document import DocumentPath as Place
from replaykit.errors import ReplayKitError
from replaykit.model.values import Json, canonical
from replaykit.project.project import Project


class Location(Struct, frozen=True, kw_only=True):
    """A file, the line in it, and the contract that is named there."""

    file: str
    line: int | None = None
    contract: str = ""


class Locations:
    """The files and lines of a project's parts. Its configuration is read once, however many of them fail."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._config = str(project.file)

    def of_subject(self, subject: ReplayCase | Unusable) -> Location:
        """Of a case or a session: its `desired`, or its `contract`; of what is wrong, the line that is."""
        file = str(subject.file)
        if isinstance(subject, Unusable):
            return Location(file=getattr(subject.error, "file", file), line=getattr(subject.error, "line", None))
        if subject.tape is not None and subject.file == self._project.file:
            return self._sessions.get(subject.id, Location(file=file))
        try:
            document = load_document(file, limit_bytes=MAX_CASE_BYTES)
        except ReplayKitError:  # gone or changed while the agent ran: the failure is reported all the same
            return Location(file=file)
        key = "desired" if subject.tape is None else "contract"
        contract = ""
        if isinstance(document.value, dict) and isinstance(document.value.get(key), str):
            contract = document.value[key]
        return Location(file=file, line=document.line((key,)), contract=contract)

    def of_contract(self, name: str) -> Location:
        """Of a contract in the configuration."""
        value = self._document.value if self._document is not None else None
        listed = value.get("contracts") if isinstance(value, dict) else None
        place: Place = ("contract",)
        if isinstance(listed, dict) and name in listed:
            place = ("contracts", name)
        for index, contract in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(contract, dict) and contract.get("name") == name:
                place = ("contracts", index)
        return self._at(place)

    def of_key(self, key: str) -> Location:
        """Of a part of the configuration."""
        return self._at((key,))

    @cached_property
    def _document(self) -> Document | None:
        try:
            return self._project.document()
        except ReplayKitError:  # gone or changed while the agent ran: the failure is reported all the same
            return None

    @cached_property
    def _sessions(self) -> dict[str, Location]:
        """The sessions that the configuration itself holds; all lines in one pass."""
        written = [
            (session, ("replays", "sessions", index))
            for index, session in enumerate(self._project.sessions)
            if isinstance(session, Session)
        ]
        if self._document is not None:
            lines = self._document.lines([place for _, place in written])
        else:
            lines = []
        return {
            session.id: Location(file=self._config, line=line, contract=session.contract)
            for (session, _), line in zip(written, lines, strict=False)
        }

    def _at(self, place: Place) -> Location:
        return Location(file=self._config, line=None if self._document is None else self._document.line(place))


def command(verb: str, project: Project, *words: str) -> str:
    """A command line that can be pasted."""
    return shlex.join(["replaykit", *verb.split(), "-c", str(project.file), *_files(verb, project), *words])


def _files(verb: str, project: Project) -> tuple[str, ...]:
    """Return the options that say where the configuration is read, for verbs that have them."""
    if verb == "replay":
        return project.files.options
    return ()


def input_argument(value: Json) -> str:
    """A value as `--input` takes it: a text that would be read as JSON is written as JSON."""
    if not isinstance(value, str):
        return canonical(value).decode()
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return canonical(value).decode()


def replay_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """Return the command that replays this one alone; one in the configuration runs with the others there."""
    if isinstance(subject, Unusable) and subject.command:
        return subject.command
    if subject.file == project.file:
        return command("replay", project)
    return command("replay", project, _typed(subject))


def prove_command(project: Project, subject: ReplayCase | Unusable) -> str:
    """Return the command that proves this one; only a person knows the candidate that still fails."""
    return f"{command('prove', project, _typed(subject))} --bad CANDIDATE"


def _typed(subject: ReplayCase | Unusable) -> str:
    is_case = isinstance(subject, ReplayCase) and subject.file_name == CASE_FILE
    return str(subject.file.parent if is_case else subject.file)
