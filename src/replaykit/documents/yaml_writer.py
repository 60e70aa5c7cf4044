"""Write plain data as YAML that is pleasant to read and means the same to every YAML reader.

Short flat collections take one line, everything else is in blocks; texts are quoted only if YAML 1.1 or 1.2 would read
them as something else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from replaykit.documents.yaml_values import MAX_DEPTH
from replaykit.errors import UsageError
from replaykit.model.values import Json, JsonObject

_COMMENT_COLUMN = 28
_FLOW_CHARS = 90
_KEY_CHARS = 1000  # libyaml reads keys of up to 1,024 characters without a `?`
_PLAIN = re.compile(r"[^\W\d][\w ./@%+=$()'\"!;<>-]*(?<! )")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def emit_yaml(value: JsonObject, comments: Mapping[str, str] | None = None) -> str:
    """Return the mapping as a YAML document; `comments` follow the top-level keys of their name."""
    lines = []
    for line in _mapping(value, 0, 1):
        comment = (comments or {}).get(line.partition(":")[0])
        lines.append(f"{line:<{_COMMENT_COLUMN}} # {comment}" if comment else line)
    return "\n".join(lines) + "\n"


def _mapping(value: JsonObject, indent: int, depth: int) -> Iterator[str]:
    _refuse_deep(depth)
    for key, item in value.items():
        name = _text(key)
        start = " " * indent
        if len(name) > _KEY_CHARS:
            yield f"{start}? {name}"
            name = ""
        yield from _entry(f"{start}{name}:", item, indent + 2, depth)


def _sequence(value: list[Json], indent: int, depth: int) -> Iterator[str]:
    _refuse_deep(depth)
    for item in value:
        start = " " * indent + "-"
        if isinstance(item, dict) and item:
            # The first member shares the line of the dash: "- status_is: error".
            lines = _mapping(item, indent + 2, depth + 1)
            yield f"{start} {next(lines).lstrip(' ')}"
            yield from lines
        else:
            yield from _entry(start, item, indent + 2, depth)


def _entry(start: str, item: Json, indent: int, depth: int) -> Iterator[str]:
    """Yield a key or a dash with its value, on the same line if that reads well, else below."""
    flow = _flow(item)
    if flow is not None:
        yield f"{start} {flow}"
    elif isinstance(item, str):
        yield from _literal(start, item, indent)
    else:
        yield start
        yield from (_mapping if isinstance(item, dict) else _sequence)(item, indent, depth + 1)


def _flow(item: Json) -> str | None:
    """Return the item on one line, or None if a block is better."""
    if isinstance(item, str) and _is_block_text(item):
        return None
    if not isinstance(item, dict | list):
        return _scalar(item)
    if not item:
        if isinstance(item, dict):
            return "{}"
        return "[]"
    if isinstance(item, dict):
        if any(isinstance(member, dict) and member for member in item.values()):
            return None
        parts = [f"{_text(key)}: {flow}" for key, member in item.items() if (flow := _flow(member))]
    else:
        parts = [flow for member in item if (flow := _flow_word(member))]
    text = ", ".join(parts)
    if len(parts) < len(item) or len(text) > _FLOW_CHARS:
        return None
    if isinstance(item, dict):
        return f"{{{text}}}"
    return f"[{text}]"


def _flow_word(item: Json) -> str | None:
    """Return a list item for one line: a word or a number; sentences get their own lines."""
    if isinstance(item, dict | list) or (isinstance(item, str) and re.search(r"\s", item)):
        return None
    return _scalar(item)


def _scalar(item: Json) -> str:
    if isinstance(item, str):
        return _text(item)
    if item is None or isinstance(item, bool):
        return {None: "null", True: "true", False: "false"}[item]
    if isinstance(item, float):
        return _float(item)
    if item < 2**64:
        return str(item)
    return hex(item)


def _float(item: float) -> str:
    if math.isnan(item):
        return ".nan"
    if math.isinf(item):
        if item > 0:
            return ".inf"
        return "-.inf"
    text = repr(item)
    # YAML 1.1 reads 1e+16 as text; with a point, both versions read a number.
    if "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text


def _text(item: str) -> str:
    if _PLAIN.fullmatch(item) and item.lower() not in _RESERVED:
        return item
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(item, ensure_ascii=False))


def _is_block_text(item: str) -> bool:
    """Return whether a literal block preserves these lines of text exactly."""
    body = item.removesuffix("\n")
    return (
        "\n" in item
        and bool(body)
        and not body[0].isspace()
        and not body.endswith("\n")
        and not _UNPRINTABLE.search(item)
    )


def _literal(start: str, item: str, indent: int) -> Iterator[str]:
    yield f"{start} |" if item.endswith("\n") else f"{start} |-"
    for line in item.removesuffix("\n").split("\n"):
        yield " " * indent + line if line else ""


def _refuse_deep(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UsageError(f"nested deeper than {MAX_DEPTH} levels: a case file cannot hold it")
