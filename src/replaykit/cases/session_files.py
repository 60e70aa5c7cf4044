"""Session files: written whole, and only when what is written can be read again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from replaykit.cases.case import MAX_CASE_BYTES
from replaykit.cases.session import read_session
from replaykit.config import make_home
from replaykit.documents.document import parse_document
from replaykit.documents.yaml_writer import emit_yaml
from replaykit.errors import StoreError, UsageError
from replaykit.model.values import Json, canonical
from replaykit.redaction.files import file_redactor, write_clean


def session_text(session: dict[str, Json], file: Path) -> str:
    """The text of a session file, JSON or YAML by its name, redacted; a `UsageError` when no file can hold it."""
    redactor = file_redactor()
    session = session if redactor is None else redactor.value(session)
    if file.suffix.lower() == ".json":
        text = msgspec.json.format(msgspec.json.encode(session), indent=2).decode() + "\n"
    else:
        text = emit_yaml(session)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_CASE_BYTES:
        raise UsageError(f"it has more than {MAX_CASE_BYTES:,} bytes")
    document = parse_document(text, str(file))
    read_session(document)
    if canonical(document.value) != canonical(session):
        raise UsageError(f"{file.name} would not say exactly that", hint="Write YAML: it holds numbers of any size.")
    return text


def holds(file: Path, text: str) -> bool:
    """True when the file says exactly that already."""
    return file.is_file() and file.read_bytes() == text.encode()


def write_session(file: Path, text: str) -> Path:
    """Write the file; whoever reads it meanwhile sees the old one or the new one."""
    try:
        make_home(file.parent)
        write_clean(file, text, file_redactor(), fail_closed=True)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}") from None
    return file
