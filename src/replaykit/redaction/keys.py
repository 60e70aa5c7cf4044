"""The key of a project. Placeholders derive from it, so it stays on the machine and out of git."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from replaykit.config import make_home
from replaykit.errors import StoreFull, UsageError, is_full

VARIABLE = "REPLAYKIT_REDACTION_KEY"
FILE = "redaction.key"
SIZE = 32
_LEAST = 16


def project_key(directory: Path) -> bytes:
    """Return the key from `$REPLAYKIT_REDACTION_KEY` (hex or text) or `redaction.key`, which is created if missing."""
    variable = os.environ.get(VARIABLE)
    if variable is not None:
        return _from_text(variable.strip(), f"${VARIABLE}")
    path = directory / FILE
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    make_home(directory, files=(FILE, f".{FILE}.*"))
    _make(path)
    return _read(path)


def check_key(directory: Path) -> bool:
    """Return whether there is a key; raise `UsageError` if it is unusable."""
    variable = os.environ.get(VARIABLE)
    if variable is not None:
        _from_text(variable.strip(), f"${VARIABLE}")
        return True
    try:
        _read(directory / FILE)
    except FileNotFoundError:
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        text = path.read_text("ascii")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"the redaction key {path} cannot be read: {reason}",
            hint=f"Make it readable for you alone (chmod 600 {path}), or set {VARIABLE}.",
        ) from None
    return _from_text(text.strip(), str(path))


def _from_text(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = text.encode()
    if len(key) < _LEAST:
        raise UsageError(
            f"the redaction key in {where} has {len(key)} bytes; it needs {_LEAST} at least",
            hint="A good one: python -c 'import secrets; print(secrets.token_hex(32))'. "
            "With another key the same values have other placeholders.",
        )
    return key


def _make(path: Path) -> None:
    """Create the file atomically, by a link: it fails if another process created the file first."""
    import secrets  # noqa: PLC0415 (slow to import, and a key is made once)

    own = path.with_name(f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(SIZE) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            _place(own, path)
    except OSError as error:
        if is_full(error):
            raise StoreFull(f"no redaction key could be made at {path}: {error.strerror}") from None
        raise UsageError(
            f"no redaction key could be made at {path}: {error.strerror or error}",
            hint=f"Make the directory writable, or set {VARIABLE}.",
        ) from None
    finally:
        own.unlink(missing_ok=True)


def _place(own: Path, path: Path) -> None:
    try:
        os.link(own, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(own.read_text("ascii"))
