"""NumPy's arrays and numbers, for programs that have imported it: type, shape and bytes, nothing else."""

from __future__ import annotations

import re
import sys
from typing import Any

from replaykit.errors import UsageError
from replaykit.integrations.langgraph.object_codecs import ObjectCodec
from replaykit.model.values import Json

_DTYPE = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?")
_ARRAY, _NUMBER = "numpy.ndarray", "numpy.generic"


def array_codec(cls: type) -> ObjectCodec | None:
    """Return the codec of an array or number class; None for any other class."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if cls is numpy.ndarray:
        return ObjectCodec(_ARRAY, _encode_array, _decode_array)
    if issubclass(cls, numpy.generic):
        return ObjectCodec(_NUMBER, _encode_array, _decode_number)
    return None


def codec_named(name: str) -> ObjectCodec | None:
    """Return the codec of this name; None for any other name."""
    if name not in (_ARRAY, _NUMBER):
        return None
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        raise UsageError(f"the thread holds a {name}, and the program has not imported numpy")
    return array_codec(numpy.ndarray if name == _ARRAY else numpy.generic)


def _encode_array(value: Any) -> Json:
    dtype = value.dtype.str
    if value.dtype.names is not None or not _DTYPE.fullmatch(dtype):
        raise UsageError(f"an array of the graph's state holds {value.dtype}, which cannot be kept")
    return [dtype, list(value.shape), value.tobytes()]


def _decode_array(content: Any) -> Any:
    dtype, shape, data = content
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"no such dtype: {dtype!r}")
    numpy: Any = sys.modules["numpy"]
    return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _decode_number(content: Any) -> Any:
    return _decode_array(content)[()]
