"""JSON as programs write it that should not: with halves of characters, and with what is no number."""

from __future__ import annotations

import json
import math

import msgspec
from msgspec import Raw

from replaykit.model.nesting import NestedTooDeeply, check_value_nesting, decode_json
from replaykit.model.values import Json


def decoded(text: bytes | memoryview | Raw) -> Json:
    """The JSON value. Half of a character, or a NaN, in one run is no reason to lose all that stands beside it."""
    try:
        return decode_json(text)
    except NestedTooDeeply:
        raise
    except msgspec.DecodeError:
        try:
            value = json.loads(str(memoryview(text), "utf-8"))
            check_value_nesting(value)
            return _mended(value)
        except RecursionError:
            raise NestedTooDeeply from None
        except json.JSONDecodeError:
            pass
        raise


def _mended(value: Json) -> Json:
    """The value with a sign in the place of every half of a character, and its name in that of what is no number: no
    file, no store and no agent could take it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return list(map(_mended, value))  # a comprehension is a second stack frame for each level on Python 3.11
    if isinstance(value, dict):
        return dict(zip(map(_mended, value), map(_mended, value.values()), strict=True))
    return value
