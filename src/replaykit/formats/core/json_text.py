"""Read JSON in traces: documents that are not quite JSON, and values that were written as JSON text."""

from __future__ import annotations

import json
import math

import msgspec
import orjson
from msgspec import Raw

from replaykit.model.nesting import NestedTooDeeply, check_value_nesting, decode_json
from replaykit.model.values import Json
from replaykit.wire.json_fields import load_arguments

_OPENINGS = ("{", "[", '"')


def decode_lenient(text: bytes | memoryview | Raw) -> Json:
    """Decode a JSON document; replace lone surrogates and NaN instead of refusing them.

    One bad character in one run is no reason to lose the other runs of a file.
    """
    try:
        return decode_json(text)
    except NestedTooDeeply:
        raise
    except msgspec.DecodeError:
        try:
            value = json.loads(str(memoryview(text), "utf-8"))
            check_value_nesting(value)
            return _repair(value)
        except RecursionError:
            raise NestedTooDeeply from None
        except json.JSONDecodeError:
            pass
        raise


def _repair(value: Json) -> Json:
    """Replace lone surrogates by U+FFFD, and NaN and infinities by their names.

    No file, store or agent could take them as they are.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        # on Python 3.11, a comprehension would add a second stack frame for each level
        return list(map(_repair, value))
    if isinstance(value, dict):
        return dict(zip(map(_repair, value), map(_repair, value.values()), strict=True))
    return value


def load_json(value: Json) -> Json:
    """Decode a value that is the JSON text of an object, a list or a string; return any other value unchanged.

    Other texts stay texts, since `5` may have been a number or a text.
    """
    if not isinstance(value, str) or value[:20].lstrip()[:1] not in _OPENINGS:
        return value
    return decode_text(value)


def decode_text(value: Json) -> Json:
    """Decode a JSON text; return the value unchanged if it is not text, or not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return _decode_cut_text(value)


def _decode_cut_text(value: str) -> Json:
    """Decode a text that was cut inside a surrogate pair before it was written as JSON."""
    if "\\u" not in value:
        return value
    try:
        return decode_lenient(value.encode())
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return value


def read_arguments(value: Json) -> Json:
    """Return the arguments of a tool call, which formats write as JSON text or as an object; `{}` if there are none."""
    if value is None:
        return {}
    if isinstance(value, str):
        return load_arguments(value)
    return value
