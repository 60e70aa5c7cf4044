"""Landlock: restrictions that a process imposes on itself for good, without privileges."""

from __future__ import annotations

import os
import stat
import struct

from replaykit.isolation import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET_VERSION = 1
_WITH_SCOPES = 6
_PATH_BENEATH = 1
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGE_DIRECTORIES = sum(1 << bit for bit in range(4, 13))  # remove, create
_CONNECT_TCP = 1 << 1
_ABSTRACT_UNIX, _SIGNALS = 1, 2


def version() -> int:
    """Return the kernel's version of Landlock; 0 without it."""
    try:
        return kernel.call(kernel.LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict_signals() -> None:
    """Keep this process and its children from tracing and signalling processes outside.

    Older versions leave that to the process namespace: a rule about files would forbid the mounts of nested sandboxes.
    """
    if version() >= _WITH_SCOPES:
        _restrict(files=0, network=0, scopes=_ABSTRACT_UNIX | _SIGNALS, writable=())


def restrict_all(writable: Iterable[str]) -> None:
    """Let this process write files only below these directories, and open no TCP connection by itself."""
    offered = version()
    files = _WRITE_FILE | _CHANGE_DIRECTORIES
    if offered >= 2:
        files |= _REFER
    if offered >= 3:
        files |= _TRUNCATE
    network = _CONNECT_TCP if offered >= 4 else 0
    scopes = _ABSTRACT_UNIX | _SIGNALS if offered >= _WITH_SCOPES else 0
    _restrict(files=files, network=network, scopes=scopes, writable=writable)


def _restrict(*, files: int, network: int, scopes: int, writable: Iterable[str]) -> None:
    offered = version()
    fields = [files]
    if offered >= 4:
        fields.append(network)
    if offered >= _WITH_SCOPES:
        fields.append(scopes)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    rules = kernel.call(kernel.LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for place in writable:
            _allow(rules, place, files)
        kernel.call(kernel.LANDLOCK_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, place: str, files: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        allowed = files if is_directory else files & (_WRITE_FILE | _TRUNCATE)
        kernel.call(kernel.LANDLOCK_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
    finally:
        os.close(descriptor)
