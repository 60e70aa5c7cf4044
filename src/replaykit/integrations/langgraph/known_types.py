"""Types that are always known: messages, LangGraph's own types, and Python's standard types."""

from __future__ import annotations

import collections
import datetime as dt
import ipaddress
import pathlib
import re
import zoneinfo
from typing import Any

import langchain_core.documents
import langchain_core.messages
import langgraph.store.base
import langgraph.types
from langchain_core.messages.base import TextAccessor
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from replaykit.errors import UsageError
from replaykit.integrations.langgraph.object_codecs import EMPTY, ObjectCodec, codec_of
from replaykit.model.nesting import check_group_nesting
from replaykit.model.values import Json


def _as_text(cls: type) -> ObjectCodec:
    return ObjectCodec(f"{cls.__module__}.{cls.__qualname__}", str, cls)


def _zone(key: Any) -> zoneinfo.ZoneInfo:
    if not re.fullmatch(r"[\w+-]+(/[\w+-]+)*", key):
        raise ValueError(f"no zone: {key!r}")
    return zoneinfo.ZoneInfo(key)


def _pattern(content: Any) -> re.Pattern[Any]:
    source, flags = content
    try:
        check_group_nesting(source if isinstance(source, str) else source.decode("latin-1"))
        return re.compile(source, flags)
    except re.error as error:
        raise ValueError(str(error)) from None


_FACTORIES = {factory.__name__: factory for factory in (*EMPTY, int, float, bool)}


def _default_dict_content(value: Any) -> Json:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise UsageError(
            f"a defaultdict of the graph's state makes its values with {factory!r}, which cannot be kept",
            hint=f"These can: {', '.join(_FACTORIES)}.",
        )
    return [None if factory is None else factory.__name__, dict(value)]


def _default_dict(content: Any) -> Any:
    factory, items = content
    return collections.defaultdict(None if factory is None else _FACTORIES[factory], items)


_PATHS: dict[type, type] = {
    pathlib.PosixPath: pathlib.Path,
    pathlib.WindowsPath: pathlib.Path,
    pathlib.PurePosixPath: pathlib.PurePosixPath,
    pathlib.PureWindowsPath: pathlib.PureWindowsPath,
}
_MESSAGES = [
    found
    for name in dir(langchain_core.messages)
    if isinstance(found := getattr(langchain_core.messages, name), type)
    and issubclass(found, langchain_core.messages.BaseMessage)
]
_CLASSES: list[type] = [
    *_MESSAGES,
    TextAccessor,  # the text of a message, which is a kind of str
    langchain_core.documents.Document,
    langgraph.types.Send,
    langgraph.types.Interrupt,
    langgraph.types.Command,
    langgraph.types.Overwrite,
    langgraph.types.TimeoutPolicy,
    langgraph.types.StateSnapshot,
    langgraph.types.PregelTask,
    langgraph.store.base.Item,
    langgraph.store.base.SearchItem,
    langgraph.store.base.GetOp,
    _DeltaSnapshot,
]
_KINDS: dict[type, ObjectCodec] = {
    **{cls: ObjectCodec(f"pathlib.{cls.__name__}", str, make) for cls, make in _PATHS.items()},
    **{
        cls: _as_text(cls)
        for cls in (
            *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
            *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
        )
    },
    dt.timezone: ObjectCodec(
        "datetime.timezone", lambda zone: list(zone.__getinitargs__()), lambda content: dt.timezone(*content)
    ),
    zoneinfo.ZoneInfo: ObjectCodec("zoneinfo.ZoneInfo", lambda zone: zone.key, _zone),
    re.Pattern: ObjectCodec("re.Pattern", lambda pattern: [pattern.pattern, int(pattern.flags)], _pattern),
    collections.OrderedDict: ObjectCodec("collections.OrderedDict", dict, collections.OrderedDict),
    collections.Counter: ObjectCodec("collections.Counter", dict, collections.Counter),
    collections.defaultdict: ObjectCodec("collections.defaultdict", _default_dict_content, _default_dict),
    collections.deque: ObjectCodec(
        "collections.deque",
        lambda queue: [list(queue), queue.maxlen],
        lambda content: collections.deque(content[0], maxlen=content[1]),
    ),
}
BUILT_IN: dict[type, ObjectCodec] = {**{cls: codec_of(cls) for cls in _CLASSES}, **_KINDS}
