"""Sessions: an incident in one small file, read as a case.

A session holds an input, the answers of the tools, and the name of a contract. The arguments of the calls are unknown,
so each answer goes to the next call of that tool, once; after the last one the tool is blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import MAX_CASE_BYTES, ReplayCase, Scenario
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S, EvidenceMode, ModelMode
from replaykit.cases.session_shape import FOLLOWED, SESSION
from replaykit.cases.tagged_values import TAGGED, as_it_stands
from replaykit.checks.assertions import Assertions
from replaykit.documents.document import Document, confined_path, load_document
from replaykit.documents.shape import find_flaws, refuse_flaws
from replaykit.errors import InvalidFile
from replaykit.model.events import ToolCall
from replaykit.model.json_positions import DocumentPath
from replaykit.model.matching import MatchMode, MatchRules
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, canonical, decode, raw
from replaykit.seam.failures import ToolError, describe

FAILED_FROM = 400
"""The lowest status of a failed tool; 0, for no answer, is a failure too."""


MAX_FOLLOWED = 16


class Session(Struct, frozen=True, kw_only=True):
    """An incident: the agent's input, the answers of its tools, and the contract that it must keep."""

    id: str
    name: str = ""
    source: str = ""
    captured_at: str = ""
    input_json: Raw = NULL
    context_json: Raw = ABSENT
    calls: tuple[ToolCall, ...] = ()
    expected_failure: str = ""
    contract: str = ""
    rests_on_output: bool = False
    document: Document
    at: DocumentPath = ()
    """The place in the document."""

    @property
    def file(self) -> Path:
        return Path(self.document.file)

    def error(self, message: str, key: str, *, hint: str | None = None) -> InvalidFile:
        """Return an error about one of the keys, with its line."""
        return self.document.error(message, (*self.at, key), hint=hint)


def load_session(file: Path) -> Session:
    """Load the session in a file; an `InvalidFile` names the line of the first flaw."""
    return read_session(load_document(file, limit_bytes=MAX_CASE_BYTES))


def read_session(document: Document, at: DocumentPath = (), *, value: Json = None) -> Session:
    """Read the session in a document, or in its part `value` at that place."""
    return _session(document, at, document.value if not at else value, trail=())


def _session(document: Document, at: DocumentPath, value: Json, *, trail: tuple[str, ...]) -> Session:
    refuse_flaws(document, find_flaws(SESSION, value, at))
    named = value.get(FOLLOWED)
    if named is None:
        return _built(document, at, value)
    # A configuration belongs to the user and may name any file; a session is data and stays below its directory.
    trail = (*trail, str(Path(document.file).resolve())) if not at else trail
    file = _named(document, at, named)
    if str(file.resolve()) in trail:
        raise document.error(f"{FOLLOWED}: {named!r} refers back to the file that names it", (*at, FOLLOWED))
    if len(trail) > MAX_FOLLOWED:
        raise document.error(f"{FOLLOWED}: more than {MAX_FOLLOWED} files name one another", (*at, FOLLOWED))
    inner = _opened(document, at, file)
    followed = inner.value
    if isinstance(followed, dict):
        followed = {**followed}
        _fill_in(document, at, value, followed)
    return _session(inner, (), followed, trail=trail)


def _named(document: Document, at: DocumentPath, text: str) -> Path:
    directory = Path(document.file).parent
    if at:
        return directory / text
    try:
        return confined_path(directory, text)
    except ValueError as error:
        message = str(error).replace("the case's directory", "the session's directory")
        raise document.error(f"{FOLLOWED}: {message}", (FOLLOWED,)) from None


def _opened(document: Document, at: DocumentPath, file: Path) -> Document:
    if not file.is_file():
        hint = f"The path is relative to {document.file}."
        raise document.error(f"{FOLLOWED}: there is no file {str(file)!r}", (*at, FOLLOWED), hint=hint)
    return load_document(file, limit_bytes=MAX_CASE_BYTES)


def _fill_in(document: Document, at: DocumentPath, value: JsonObject, followed: JsonObject) -> None:
    """Add the keys beside `file` to the session in the file; a contradiction is an error."""
    for key, response in value.items():
        if key == FOLLOWED:
            continue
        if followed.setdefault(key, response) != response:
            message = f"{key}: the file {value[FOLLOWED]!r} says something else"
            raise document.error(message, (*at, key), hint="Remove one of them.")


def _built(document: Document, at: DocumentPath, value: JsonObject) -> Session:
    context = value.get("context")
    read = as_it_stands if value.get(TAGGED) else _plain
    return Session(
        id=value["id"],
        name=value.get("name") or "",
        source=value.get("source") or "",
        captured_at=value.get("captured_at") or "",
        input_json=read(value["input"]),
        context_json=ABSENT if context is None else read(context),
        calls=tuple(_call(seq, answer, read) for seq, answer in enumerate(value.get("tool_responses") or ())),
        expected_failure=value.get("expected_failure") or "",
        contract=value.get("contract") or "",
        rests_on_output=value.get("evidence") == EvidenceMode.OUTPUT,
        document=document,
        at=at,
    )


def _plain(value: Json, *, sort_keys: bool = False) -> Raw:
    if sort_keys:
        return Raw(canonical(value))
    return raw(value)


def _call(seq: int, answer: JsonObject, read: Callable[..., Raw]) -> ToolCall:
    tool, status, response = answer["tool"], answer.get("status"), read(answer.get("response"))
    arguments = answer.get("arguments")
    failure = None
    if status is not None and (status >= FAILED_FROM or status == 0):
        failure = describe(_failure(tool, status, decode(response)))
    return ToolCall(
        seq=seq,
        name=tool,
        arguments_json=NULL if arguments is None else read(arguments, sort_keys=True),
        result_json=response if failure is None else ABSENT,
        error=failure,
        duration_s=(answer.get("latency_ms") or 0) / 1000,
    )


def _failure(tool: str, status: int, response: Json) -> ToolError:
    message = f"`{tool}` answered {status}" if status else f"`{tool}` gave no answer"
    detail = f": {response[:200]}" if isinstance(response, str) and response else ""
    return ToolError(message + detail, status=status, response=response)


def case_of_session(
    session: Session,
    desired: Assertions,
    *,
    desired_after: Callable[[Iterable[str]], Assertions] | None = None,
    models: ModelMode = ModelMode.RECORDED,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> ReplayCase:
    """Return a session as a case, which serves its answers in order."""
    return ReplayCase(
        id=session.id,
        title=session.name or session.expected_failure,
        notes=session.name and session.expected_failure,
        scenario=Scenario(
            input_json=session.input_json,
            context_json=session.context_json,
            models=models,
            match=MatchRules(mode=MatchMode.SEQUENCE),
            timeout_s=timeout_s,
        ),
        desired=desired,
        desired_after=desired_after,
        rests_on_output=session.rests_on_output,
        is_session=True,
        expected_failure=session.expected_failure,
        tape=session.calls,
        directory=session.file.parent,
        file_name=session.file.name,
    )
