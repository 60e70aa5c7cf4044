"""NumPy's arrays and numbers, for programs that have imported it: type, shape and bytes, nothing else."""

from __future__ import annotations

import re
import sys
from typing import Any

from replaykit.errors import UsageError
from replaykit.integrations.langgraph.kinds import Kind
from replaykit.model.values import Json

_DTYPE = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?")
_ARRAY, _NUMBER = "numpy.ndarray", "numpy.generic"


def kind_of_array(cls: type) -> Kind | None:
    """How arrays or numbers of this class are kept; None for any other class."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if cls is numpy.ndarray:
        return Kind(_ARRAY, _taken, _made)
    return Kind(_NUMBER, _taken, _made_number) if issubclass(cls, numpy.generic) else None


def kind_named(name: str) -> Kind | None:
    """How an array or number is made that was kept under this name."""
    if name not in (_ARRAY, _NUMBER):
        return None
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        raise UsageError(f"the thread holds a {name}, and the program has not imported numpy")
    return kind_of_array(numpy.ndarray if name == _ARRAY else numpy.generic)


def _taken(value: Any) -> Json:
    dtype = value.dtype.str
    if value.dtype.names is not None or not _DTYPE.fullmatch(dtype):
        raise UsageError(f"an array of the graph's state holds {value.dtype}, which cannot be kept")
    return [dtype, list(value.shape), value.tobytes()]


def _made(content: Any) -> Any:
    dtype, shape, data = content
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"no such dtype: {dtype!r}")
    numpy: Any = sys.modules["numpy"]
    return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _made_number(content: Any) -> Any:
    return _made(content)[()]
