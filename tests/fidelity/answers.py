"""Answers of random types, each with a serial number, and a fingerprint that tells any two of them apart."""

from __future__ import annotations

import errno
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import attrs
import numpy as np
from pydantic import BaseModel


class Colour(Enum):
    """A value by name."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Record:
    """A plain dataclass."""

    serial: int
    colour: Colour


class Pair(NamedTuple):
    """A tuple with names."""

    serial: int
    text: str


class Model(BaseModel):
    """A pydantic model with another one inside."""

    serial: int
    inner: dict[str, float]


@attrs.frozen
class Box:
    """An attrs class."""

    serial: int
    content: tuple[int, ...]


class Refused(Exception):
    """An error with a constructor of its own."""

    def __init__(self, *, serial: int, reason: str) -> None:
        super().__init__(f"{reason} ({serial})")
        self.serial = serial
        self.reason = reason


class RefusedForever(Refused):
    """A subclass, to be caught by its base."""


VALUES = {
    "int": lambda n: n,
    "text": lambda n: f"answer {n}",
    "float": lambda n: n + 0.5,
    "list": lambda n: [n, None, True],
    "bytes": lambda n: b"\x00\xff" + str(n).encode(),
    "datetime": lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
    "decimal": lambda n: Decimal(n) / 4,
    "tuple": lambda n: (n, (n,)),
    "set": lambda n: {n, n + 1},
    "keys": lambda n: {n: "n", "n": n},
    "enum": lambda n: [n, Colour.BLUE],
    "dataclass": lambda n: Record(n, Colour.RED),
    "named tuple": lambda n: Pair(n, "pair"),
    "pydantic": lambda n: Model(serial=n, inner={"x": 0.25}),
    "attrs": lambda n: Box(n, (1, 2)),
    "numpy scalar": lambda n: {"n": np.int32(n), "ok": np.bool_(False)},
    "numpy array": lambda n: np.arange(n, n + 4, dtype=np.float32).reshape(2, 2),
    "nested": lambda n: {"records": [Record(n, Colour.BLUE)], "pair": Pair(n, "inner")},
}


def _caused(n: int) -> BaseException:
    error = RuntimeError(f"wrapped {n}")
    error.__cause__ = Refused(serial=n, reason="cause")
    return error


ERRORS = {
    "value error": lambda n: ValueError(f"bad value {n}"),
    "key error": lambda n: KeyError(f"key {n}"),
    "own error": lambda n: Refused(serial=n, reason="own"),
    "subclass": lambda n: RefusedForever(serial=n, reason="subclass"),
    "os error": lambda n: FileNotFoundError(errno.ENOENT, "no such file", f"/tmp/{n}"),
    "timeout": lambda n: TimeoutError(f"upstream {n}"),
    "group": lambda n: ExceptionGroup(f"group {n}", [ValueError("one"), Refused(serial=n, reason="two")]),
    "caused": _caused,
}


def answer(kind: str, serial: int) -> Any:
    """Return the value of this kind, or raise the error of this kind."""
    if kind in ERRORS:
        raise ERRORS[kind](serial)
    return VALUES[kind](serial)


def fingerprint(value: Any) -> Any:
    """The value as plain data that differs wherever its type or its content does."""
    kind = type(value).__name__
    if value is None or isinstance(value, bool) or type(value) in (int, float, str):
        return [kind, repr(value)]
    if isinstance(value, BaseException):
        return _of_error(value)
    if isinstance(value, np.ndarray):
        return [kind, str(value.dtype), value.shape, value.tolist()]
    if isinstance(value, dict):
        return [kind, [[fingerprint(key), fingerprint(entry)] for key, entry in value.items()]]
    if isinstance(value, BaseModel):
        return [kind, fingerprint(dict(value))]
    if is_dataclass(value):
        return [kind, [[entry.name, fingerprint(getattr(value, entry.name))] for entry in fields(value)]]
    if attrs.has(type(value)):
        return [kind, [[entry.name, fingerprint(getattr(value, entry.name))] for entry in attrs.fields(type(value))]]
    if isinstance(value, set | frozenset):
        return [kind, sorted(repr(entry) for entry in value)]
    if isinstance(value, list | tuple):
        return [kind, [fingerprint(entry) for entry in value]]
    return [kind, repr(value)]


def _of_error(error: BaseException) -> Any:
    found = [type(error).__name__, str(error), sorted(base.__name__ for base in type(error).__mro__)]
    if isinstance(error, OSError):
        found += [error.errno, error.filename]
    if isinstance(error, BaseExceptionGroup):
        found += [[fingerprint(inner) for inner in error.exceptions]]
    own = {name: value for name, value in vars(error).items() if not name.startswith("__")}
    cause = None if error.__cause__ is None else fingerprint(error.__cause__)
    return [*found, fingerprint(own), cause]
