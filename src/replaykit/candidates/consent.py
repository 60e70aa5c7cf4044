"""Build a `Consent` from what the user who runs a replay typed. Values from files never get here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from replaykit.errors import UsageError
from replaykit.isolation.policy import Address
from replaykit.model.isolation import Consent

_SPECIAL = ("/proc", "/sys", "/dev")


def consent_of(
    live: Iterable[str] = (), connect: Iterable[str] = (), write: Iterable[str | os.PathLike[str]] = ()
) -> Consent:
    """Return the consent for these names, addresses and directories, or raise `UsageError` for a meaningless one.

    Missing directories are created, because a sandbox can only allow writing to an existing place.
    """
    return Consent(
        live=tuple(map(_name, _several(live, "live"))),
        connect=tuple(map(_address, _several(connect, "allow_connect"))),
        write=tuple(map(_directory, _several(write, "allow_write"))),
    )


def _several(values: Iterable[str | os.PathLike[str]], what: str) -> list[str]:
    if isinstance(values, str | os.PathLike):
        raise UsageError(f"{what} is {values!r}; it is a list", hint=f"Write [{str(values)!r}].")
    return [os.fspath(one) for one in values]


def _name(name: str) -> str:
    if not name.strip():
        raise UsageError(
            "the name of what may be called for real is empty", hint="Name a tool, a model, `models` or `*`."
        )
    return name


def _address(text: str) -> str:
    address = Address.parse(text)
    if not address.port:
        return text  # a Unix socket
    if "*" in address.host:
        raise UsageError(f"{text!r} names no host", hint="Allow each address by its name: HOST:PORT.")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _directory(text: str) -> str:
    if not text:
        raise UsageError("the directory that may be written is empty", hint="Use '.' for this one.")
    place = Path(text).absolute()
    if os.path.realpath(place) == "/" or any(place.is_relative_to(special) for special in _SPECIAL):
        raise UsageError(f"{text!r} cannot be allowed to be written", hint="Name a directory with files of yours.")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{text!r} is not a writable directory: {error.strerror}") from None
    return str(place)
