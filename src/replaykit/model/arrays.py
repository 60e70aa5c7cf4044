"""Encode NumPy scalars and arrays as JSON by value. NumPy is used if the program has loaded it, and never imported.

    scalar  [dtype, value]
    array   [dtype, items, shape]   items in C order: a list, or base64 of their bytes if there are many numbers

Dates and durations are the integers that NumPy stores.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

LISTED = 64
"""Arrays with up to this many numbers are written as lists, which people can read and compare."""
_DTYPE = re.compile(r"[<>|=]?([biufcmMSUO])(\d*)(?:\[\d*[A-Za-z]+\])?")
_NUMBERS = "biufc"
_MOMENTS = "mM"
_WIDEST = 16  # bytes; wider complex numbers depend on the machine
_CODES = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"} | {
    "f2": "e",
    "f4": "f",
    "f8": "d",
}
_MAX_DIMENSIONS = 32

Freeze = Callable[[Any], Any]
Thaw = Callable[[Any], Any]


def loaded_numpy() -> Any:
    """Return NumPy if the program has loaded it, else None."""
    return sys.modules.get("numpy")


def is_number(value: object) -> bool:
    """Return whether a value is a NumPy scalar."""
    numpy = loaded_numpy()
    return numpy is not None and hasattr(numpy, "generic") and isinstance(value, numpy.generic)


def is_array(value: object) -> bool:
    """Return whether a value is a NumPy array. Subclasses carry more than their items, so they do not count."""
    numpy = loaded_numpy()
    return numpy is not None and hasattr(numpy, "ndarray") and type(value) is numpy.ndarray


def number_content(value: Any) -> Any:
    """Return a NumPy scalar as a plain Python value; None if that would lose something."""
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind in _MOMENTS:
        return int(value.astype("i8"))
    if kind in "SU":
        return value.item()
    exact = kind in _NUMBERS and (kind != "f" or size <= 8) and (kind != "c" or size <= _WIDEST)
    if exact:
        return value.item()
    return None


def array_content(value: Any, freeze: Freeze) -> list[Any] | None:
    """Return the encoded array; None for record arrays and for numbers that differ between machines."""
    dtype = value.dtype
    if dtype.names is not None or not dtype_parts(dtype.str):
        return None
    return [dtype.str, _items(value, freeze), list(value.shape)]


def _items(value: Any, freeze: Freeze) -> Any:
    if value.dtype.kind in _MOMENTS:
        value = value.astype("i8")
    if value.dtype.kind in _NUMBERS and value.size > LISTED:
        return base64.b64encode(value.tobytes()).decode()
    return list(map(freeze, value.ravel().tolist()))


def dtype_parts(text: object) -> tuple[str, int] | None:
    """Return the kind and item size of a supported dtype; None for anything else."""
    if isinstance(text, str) and len(text) < 40:
        found = _DTYPE.fullmatch(text)
    else:
        found = None
    if found is None:
        return None
    kind, size = found[1], int(found[2] or 0)
    is_exact = (kind != "f" or size <= 8) and (kind != "c" or size <= _WIDEST)
    if is_exact:
        return (kind, size)
    return None


def plain_array(content: Any, thaw: Thaw) -> Any:
    """Decode a scalar to its plain value and an array to nested lists. Raises `TypeError` or `ValueError` if
    malformed."""
    if type(content) is not list or not 2 <= len(content) <= 3:
        raise TypeError(content)
    parts = dtype_parts(content[0])
    if parts is None:
        raise TypeError(content[0])
    if len(content) == 2:
        return thaw(content[1])
    shape = checked_shape(content[2])
    items = content[1]
    if isinstance(items, str):
        flat = _unpacked(items, parts, content[0])
    else:
        flat = list(map(thaw, items))
    if len(flat) != math.prod(shape):
        raise ValueError(shape)
    return _nested(flat, shape)


def checked_shape(shape: Any) -> list[int]:
    """Return the shape; raise `TypeError` if it is not a list of sizes."""
    if type(shape) is not list or len(shape) > _MAX_DIMENSIONS:
        raise TypeError(shape)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise TypeError(shape)
    return shape


def _unpacked(text: str, parts: tuple[str, int], dtype: str) -> list[Any]:
    kind, size = parts
    data = base64.b64decode(text, validate=True)
    order = ">" if dtype.startswith(">") else "<"
    if kind in _MOMENTS:
        kind = "i"
    if kind == "c":
        halves = _unpacked(text, ("f", size // 2), dtype)
        return [complex(*pair) for pair in zip(halves[::2], halves[1::2], strict=True)]
    code = _CODES[f"{kind}{size}"]
    return list(struct.unpack(f"{order}{len(data) // size}{code}", data))


def _nested(flat: list[Any], shape: list[int]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return flat
    step = math.prod(shape[1:])
    return [_nested(flat[place * step : (place + 1) * step], shape[1:]) for place in range(shape[0])]
