"""Ids that several cases or sessions have: reports, evidence and judgements go by them, so none of those runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replaykit.cases.case import MAX_CASE_BYTES, ReplayCase
from replaykit.cases.find import Unusable
from replaykit.documents.document import Document, load_document
from replaykit.errors import InvalidFile, ReplayKitError

_HINT = "Give each an id of its own: reports and evidence go by it."


def refuse_duplicate_ids(subjects: Sequence[ReplayCase | Unusable]) -> tuple[ReplayCase | Unusable, ...]:
    """The subjects; those that share an id are unusable."""
    indexes_by_id: dict[str, list[int]] = {}
    for index, subject in enumerate(subjects):
        if isinstance(subject, ReplayCase):
            indexes_by_id.setdefault(subject.id, []).append(index)
    checked = list(subjects)
    for indexes in indexes_by_id.values():
        if len(indexes) > 1:
            for index, wrong in zip(indexes, _unusable([subjects[index] for index in indexes]), strict=True):
                checked[index] = wrong
    return tuple(checked)


def _unusable(cases: Sequence[ReplayCase | Unusable]) -> Iterator[Unusable]:
    """Return the errors of cases that share one id."""
    lines: dict[Path, Iterator[int | None]] = {}
    places = [(str(case.file), next(lines.setdefault(case.file, _lines(case)), None)) for case in cases]
    for number, (case, (file, line)) in enumerate(zip(cases, places, strict=True)):
        others = [f"{other}:{at}" if at else other for index, (other, at) in enumerate(places) if index != number]
        message = f"the id {case.id!r} is also that of {', '.join(others)}"
        yield Unusable(id=case.id, file=case.file, error=InvalidFile(message, file=file, line=line, hint=_HINT))


def _lines(case: ReplayCase | Unusable) -> Iterator[int | None]:
    """The lines of its file that say the id: in a configuration as many as there are sessions with it."""
    try:
        document = load_document(case.file, limit_bytes=MAX_CASE_BYTES)
    except ReplayKitError:  # gone meanwhile: the id is told all the same
        return
    yield from document.lines(list(_places(document, case.id)))


def _places(document: Document, name: str) -> Iterator[tuple[str | int, ...]]:
    value = document.value if isinstance(document.value, dict) else {}
    if value.get("id") == name:
        yield ("id",)
    replays = value.get("replays")
    sessions = replays.get("sessions") if isinstance(replays, dict) else None
    for index, session in enumerate(sessions if isinstance(sessions, list) else ()):
        if isinstance(session, dict) and session.get("id") == name:
            yield ("replays", "sessions", index, "id")
