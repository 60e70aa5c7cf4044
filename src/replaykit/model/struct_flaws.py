"""Struct flaws: the part of a JSON text that does not fit its msgspec struct.

msgspec decodes valid texts. A text that it refused is decoded here again, part by part, so that no message of the
library needs parsing, and reading a good file costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from replaykit.errors import nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, Raw, read_items, read_members

_SHOWN_CHARS = 40

_Text: TypeAlias = bytes | Raw
_Parts: TypeAlias = dict[str, Raw] | list[Raw] | None
_Member: TypeAlias = tuple[str | int, Raw, Any]  # key or index, text, declared type


class RefusedPart(Struct, frozen=True):
    """The innermost part of a JSON text that its declared type does not allow."""

    path: DocumentPath
    text: _Text
    declared: Any
    reason: str
    """msgspec's message about this part alone."""
    unknown_key: str | None = None
    missing_key: str | None = None
    known_keys: tuple[str, ...] = ()

    @property
    def value(self) -> Json:
        return msgspec.json.decode(self.text)

    @property
    def unknown_key_reason(self) -> str:
        """The message about the unknown key, with the nearest known one."""
        key = (self.unknown_key or "")[:_SHOWN_CHARS]
        return f"unknown key {key!r}; {nearest(key, self.known_keys)}"


def refused_part(text: _Text, declared: Any) -> RefusedPart:
    """Return the innermost wrong part of a JSON text that msgspec refused to decode as `declared`."""
    path: DocumentPath = ()
    while (member := _refused_member(text, declared)) is not None:
        step, text, declared = member
        path = (*path, step)
    reason = _refusal(text, declared) or ""
    parts = _parts(text)
    struct = _struct(parts, declared)
    if struct is None or not isinstance(parts, dict):
        return RefusedPart(path, text, declared, reason)
    known = struct.__struct_encode_fields__
    unknown = None
    if struct.__struct_config__.forbid_unknown_fields:
        unknown = next((key for key in parts if key not in known), None)
    required = (field.encode_name for field in msgspec.structs.fields(struct) if field.required)
    missing = next((key for key in required if key not in parts), None)
    return RefusedPart(path, text, struct, reason, unknown, missing, known)


def _refused_member(text: _Text, declared: Any) -> _Member | None:
    for member in _members(_parts(text), declared):
        _, member_text, member_type = member
        if _refusal(member_text, member_type) is not None:
            return member
    return None


def _refusal(text: _Text, declared: Any) -> str | None:
    try:
        msgspec.json.decode(text, type=declared)
    except msgspec.MsgspecError as error:
        return str(error)
    return None


def _parts(text: _Text) -> _Parts:
    """Return the members or items of an object or list as texts; None for any other value."""
    opening = bytes(text).lstrip()[:1]
    if opening == b"{":
        return read_members(text)
    if opening == b"[":
        return read_items(text)
    return None


def _members(parts: _Parts, declared: Any) -> Iterator[_Member]:
    """Yield the members or items that have a declared type."""
    if isinstance(parts, dict):
        types = _member_types(parts, declared)
        for key, member in parts.items():
            if key in types:
                yield key, member, types[key]
    elif isinstance(parts, list):
        for index, (member, item_type) in enumerate(zip(parts, _item_types(declared), strict=False)):
            yield index, member, item_type


def _member_types(parts: dict[str, Raw], declared: Any) -> dict[str, Any]:
    struct = _struct(parts, declared)
    if struct is not None:
        return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    for option in _options(declared):
        if get_origin(option) is dict:
            return dict.fromkeys(parts, get_args(option)[1])
    # In a union of structs the tag selects the struct, and this tag selects none: the tag itself is the flaw.
    configs = [struct.__struct_config__ for struct in _structs(declared)]
    tags = tuple(config.tag for config in configs)
    return {str(config.tag_field): Literal[tags] for config in configs}


def _item_types(declared: Any) -> Iterator[Any]:
    for option in _options(declared):
        types = get_args(option)
        if get_origin(option) is list or Ellipsis in types:
            return repeat(types[0])
        if get_origin(option) is tuple:
            return iter(types)
    return iter(())


def _struct(parts: _Parts, declared: Any) -> type[Struct] | None:
    """Return the struct that an object should be: the declared one, or the one that its tag selects."""
    if not isinstance(parts, dict):
        return None
    for struct in _structs(declared):
        config = struct.__struct_config__
        if config.tag_field is None or parts.get(config.tag_field) == Raw(msgspec.json.encode(config.tag)):
            return struct
    return None


def _structs(declared: Any) -> list[type[Struct]]:
    return [option for option in _options(declared) if isinstance(option, type) and issubclass(option, Struct)]


def _options(declared: Any) -> tuple[Any, ...]:
    """Return the types of a union; any other type is the only option."""
    if get_origin(declared) in (Union, UnionType):
        return get_args(declared)
    return (declared,)
