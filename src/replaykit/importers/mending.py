"""JSON as programs write it that should not: with halves of characters, and with what is no number."""

from __future__ import annotations

import json
import math

import msgspec
from msgspec import Raw

from replaykit.model.values import Json


def decoded(text: bytes | memoryview | Raw) -> Json:
    """The JSON value. Half of a character, or a NaN, in one run is no reason to lose all that stands beside it."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        try:
            return _mended(json.loads(str(memoryview(text), "utf-8")))
        except (ValueError, RecursionError):
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
        return [_mended(item) for item in value]
    return {_mended(key): _mended(item) for key, item in value.items()} if isinstance(value, dict) else value
