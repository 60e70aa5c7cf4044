"""Values of every type that a saver keeps, and classes of a program's own."""

from __future__ import annotations

import collections
import datetime as dt
import ipaddress
import math
import pathlib
import re
import uuid
import zoneinfo
from collections import deque
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from typing import Any, NamedTuple

import attrs
import langchain_core.messages as lc
import msgspec
import pydantic
from langchain_core.documents import Document
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy


class Colour(Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 (another name for the same)
    BLUE = ("blue", 3)


class Size(IntEnum):
    SMALL = 1


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = auto()
    WRITE = auto()


@dataclass
class Cat:
    name: str
    lives: int = 9
    toys: list[str] = field(default_factory=list)
    checked: bool = field(default=False, init=False)


@dataclass
class Dog:
    name: str
    lives: int = 9
    toys: list[str] = field(default_factory=list)
    checked: bool = field(default=False, init=False)


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


class Pair(NamedTuple):
    left: Any
    right: Any = None


@attrs.define
class Box:
    content: Any


class Plan(msgspec.Struct, frozen=True):
    steps: list[str]
    after: Any = None


class Address(pydantic.BaseModel):
    street: str
    post_code: str = pydantic.Field(alias="postCode")


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    born: dt.date | None = None
    home: Address | None = None
    friends: list[Person] = []
    _secret: str = pydantic.PrivateAttr("none")
    _unset: int = pydantic.PrivateAttr()


class Numbers(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    n: int


class Name(str):
    __slots__ = ()


class Registry(dict[str, int]):
    pass


ALLOWED: list[type] = [
    *(Colour, Size, Word, Rights, Cat, Dog, Point, Pair, Box, Plan),
    *(Address, Person, Numbers, Checked, Name, Registry),
]


def person() -> Person:
    found = Person(name="Ada", home=Address(street="Hill", postCode="1"), nickname="A", marks={"x": (1, 2)})  # type: ignore[call-arg]
    found.friends = [Person(name="Bo", born=dt.date(2000, 1, 2))]
    found._secret = "told"
    return found


def call(**more: Any) -> lc.AIMessage:
    return lc.AIMessage(
        [{"type": "text", "text": "let me look"}, {"type": "image", "url": "data:"}],
        id="ai-1",
        name="agent",
        tool_calls=[{"name": "search", "args": {"q": "x", "deep": {"n": [1, None]}}, "id": "c1"}],
        invalid_tool_calls=[{"name": "bad", "args": "{", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_token_details": {"cache": 1}},  # type: ignore[typeddict-unknown-key]
        response_metadata={"model_name": "m", "logprobs": None, "finish": {"reason": "tool_calls"}},
        additional_kwargs={"reasoning": "…", "raw": {"a": [1.5]}},
        **more,
    )


SAMPLES: dict[str, Any] = {
    "nothing": None,
    "bool": True,
    "int": -7,
    "huge int": -(10**40),
    "int of 64 bits": 2**64 - 1,
    "float": 0.1,
    "minus zero": -0.0,
    "not a number": math.nan,
    "infinity": -math.inf,
    "text": "täxt \u2028 \0 \U0001f600",
    "lone surrogate": "a\ud800b",
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"abc"),
    "complex": complex(1, -2.5),
    "datetime": dt.datetime(2024, 2, 29, 12, 0, 0, 5),
    "datetime with an offset": dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3))),
    "datetime in a zone": dt.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
    "date": dt.date(1, 1, 1),
    "time": dt.time(23, 59, tzinfo=dt.UTC),
    "timedelta": dt.timedelta(days=-1, microseconds=7),
    "timezone": dt.timezone(dt.timedelta(hours=2), "two"),
    "zone": zoneinfo.ZoneInfo("Asia/Tokyo"),
    "decimal": Decimal("1.10"),
    "uuid": uuid.UUID(int=7),
    "path": pathlib.Path("/a/b c"),
    "pure path": pathlib.PureWindowsPath("C:\\x"),
    "addresses": [ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("1.2.3.4/5")],
    "pattern": re.compile("a(b+)", re.IGNORECASE | re.MULTILINE),
    "pattern of bytes": re.compile(b"\\d"),
    "tuple": (1, ("a", []), ()),
    "set": {1, "a", (2, 3)},
    "frozenset": frozenset({frozenset(), 1.5}),
    "deque": deque([1, {"a": (1,)}], maxlen=5),
    "keys that are no text": {1: "a", None: "b", (1, 2): {"c"}, 1.5: [], True and "t": b""},
    "keys that look like ours": {"$tuple": [1], "$": {"$obj": ["os.system", "true"]}},
    "a key that looks like ours": {"$obj": ["os.system", "true"]},
    "ordered dict": collections.OrderedDict(b=1, a=2),
    "default dict": collections.defaultdict(list, {"a": [1]}),
    "counter": collections.Counter("abca"),
    "enum": [Colour.RED, Colour.BLUE, Colour.CRIMSON],
    "enums that are values": {"size": Size.SMALL, "word": Word.YES},
    "flag": Rights.READ | Rights.WRITE,
    "no flag": Rights(0),
    "dataclass": Cat("Tom", toys=["ball"]),
    "frozen dataclass": Point(1.0, math.inf),
    "named tuple": Pair(1, Pair({2})),
    "attrs": Box(Box(None)),
    "struct": Plan(["a"], after=Plan([])),
    "model": person(),
    "model with an alias": Address(street="x", postCode="2"),
    "root model": Numbers([1, 2]),
    "validating dataclass": Checked(3),
    "a kind of text": Name("Bo"),
    "a kind of dict": Registry(a=1),
    "human": lc.HumanMessage("hi", id="h", name="Bo", example=True),
    "ai": call(),
    "ai with more": call(thinking={"steps": [1]}),
    "text of a message": lc.AIMessage("told").text,
    "chunk": lc.AIMessageChunk(
        "par",
        id="c",
        tool_call_chunks=[{"name": "f", "args": '{"a"', "id": "1", "index": 0, "type": "tool_call_chunk"}],
    ),
    "other messages": [
        lc.SystemMessage("be good"),
        lc.ToolMessage("found", tool_call_id="c1", artifact={"rows": [(1, 2)]}, status="error"),
        lc.FunctionMessage("x", name="f"),
        lc.ChatMessage("y", role="judge"),
        lc.RemoveMessage(id="gone"),
        lc.HumanMessageChunk("a"),
        lc.SystemMessageChunk("b"),
        lc.ToolMessageChunk("c", tool_call_id="1"),
        lc.FunctionMessageChunk("d", name="f"),
        lc.ChatMessageChunk("e", role="r"),
    ],
    "document": Document("text", id="d", metadata={"source": pathlib.Path("a.txt"), "page": 1}),
    "send": Send("node", {"message": lc.HumanMessage("x")}),
    "send in time": Send("node", 1, timeout=TimeoutPolicy(run_timeout=dt.timedelta(seconds=3))),
    "interrupt": Interrupt({"ok?": (1,)}, id="i"),
    "command": Command(update={"n": 1}, goto=[Send("a", Pair(1))], resume={"i": "yes"}),
    "overwrite": Overwrite([1]),
    "snapshot": _DeltaSnapshot([lc.HumanMessage("x")]),
    "item": Item(
        value={"a": 1},
        key="k",
        namespace=("a", "b"),
        created_at=dt.datetime(2024, 1, 1),
        updated_at=dt.datetime(2024, 1, 2),
    ),
}


def same(a: Any, b: Any) -> bool:
    """True when two values are equal and of the same types, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, pydantic.BaseModel):
        return all(
            same(getattr(a, name), getattr(b, name))
            for name in ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        ) and (isinstance(a, lc.BaseMessage) or a.model_fields_set == b.model_fields_set)
    if is_dataclass(a):
        return all(same(getattr(a, item.name), getattr(b, item.name)) for item in fields(a))
    if isinstance(a, dict):
        inner = getattr(a, "default_factory", None) == getattr(b, "default_factory", None)
        return inner and len(a) == len(b) and all(map(same, a, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, list | tuple | deque):
        bound = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return bound and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, set | frozenset):
        return bool(a == b) and same(sorted(a, key=repr), sorted(b, key=repr))
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    if isinstance(a, dt.datetime):
        return bool(a == b) and a.fold == b.fold and same(a.tzinfo, b.tzinfo)
    return bool(a == b)
