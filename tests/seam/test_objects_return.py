"""Objects come back from a tool as they were: their class, their fields, and what they hold beside them."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import attrs
import httpx
import msgspec
import numpy as np
import pydantic
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.errors import RecordingWarning, Unreplayable
from replaykit.model.events import Note
from replaykit.model.unreplayable import MUTATED, UNBUILT, concerns
from replaykit.seam.results import ToolValues


class Status(Enum):
    OK = "ok"
    FAILED = "failed"


class Severity(IntEnum):
    LOW = 0
    HIGH = 1


class Mood(StrEnum):
    SAD = ""
    GLAD = "glad"


class Permission(Flag):
    READ = 1
    WRITE = 2


class Mode(IntFlag):
    A = 1
    B = 2


class Handler(Enum):
    """Two members that have nothing to tell them apart but their names."""

    FIRST = (lambda: 1,)
    SECOND = (lambda: 2,)


@dataclass
class Line:
    sku: str
    count: int = 1

    def __post_init__(self) -> None:
        self.label = f"{self.count} × {self.sku}"


@dataclass(frozen=True, slots=True)
class Frozen:
    id: int
    lines: tuple[Line, ...] = ()


@dataclass
class Falsy:
    value: int = 0

    def __bool__(self) -> bool:
        return False


@dataclass
class Locked:
    """Holds what has no form, beside its fields."""

    id: int

    def __post_init__(self) -> None:
        self.lock = threading.Lock()


class Point(NamedTuple):
    x: int
    y: int = 0


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    name: str
    count: int = 3
    _hidden: list[int] = pydantic.PrivateAttr(default_factory=lambda: [7])


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str


T = TypeVar("T")


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


IntPage = Page[int]


@attrs.define
class Slotted:
    value: int
    inner: Model


@attrs.frozen
class Attrs:
    value: int


class Packed(msgspec.Struct):
    id: int
    status: Status = Status.OK


class Outer:
    class Inner(NamedTuple):
        value: int


OBJECTS: dict[str, Callable[[], Any]] = {
    "enum": lambda: Status.FAILED,
    "int enum": lambda: Severity.LOW,
    "str enum": lambda: Mood.SAD,
    "flag": lambda: Permission.READ,
    "flags together": lambda: Permission.READ | Permission.WRITE,
    "no flag": lambda: Permission(0),
    "int flags": lambda: Mode.A | Mode.B,
    "enum of functions": lambda: Handler.SECOND,
    "dataclass": lambda: Line("a", 2),
    "slots": lambda: Frozen(1, (Line("b"),)),
    "falsy": Falsy,
    "named tuple": lambda: Point(1, 2),
    "nested class": lambda: Outer.Inner(3),
    "pydantic": lambda: Model(name="a"),
    "pydantic, extra": lambda: Open(name="a", more={"x": Status.OK}),
    "pydantic, generic": lambda: IntPage(items=[1, 2]),
    "attrs": lambda: Slotted(1, Model(name="b", count=4)),
    "attrs, frozen": lambda: Attrs(5),
    "msgspec": lambda: Packed(1, Status.FAILED),
    "deep": lambda: {"orders": [{"line": Line("x"), "at": Point(1)}], "by": {Severity.HIGH: Status.OK}},
    "in a set": lambda: {Status.OK, Status.FAILED},
    "keys": lambda: {Status.OK: 1, Point(1, 2): 2},
    "ordered": lambda: OrderedDict(b=1, a=2),
    "counter": lambda: Counter("aab"),
    "default": lambda: defaultdict(list, {"a": [1]}),
    "deque": lambda: deque([1, 2], maxlen=3),
    "range": lambda: range(1, 10, 3),
    "fraction": lambda: Fraction(1, 3),
    "namespace": lambda: SimpleNamespace(a=1, b=Status.OK),
    "completed process": lambda: [subprocess.CompletedProcess(["ls", Path("a")], 2, b"", b"no such file")],
    "path": lambda: Path("a/b"),
    "an exception": lambda: [ValueError("x"), KeyError("y")],
}


def kinds(value: Any) -> Any:
    """The types of a value and of all that it holds."""
    if isinstance(value, dict):
        return type(value), [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | deque):
        return type(value), [kinds(item) for item in value]
    held = getattr(value, "__dict__", None) if not isinstance(value, type | Enum) else None
    return type(value), kinds(dict(held)) if held else None


def twice(store: rk.Store, agent: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """What the agent gives when it is recorded, when it is replayed, and the replayer."""
    with rk.record("agent", store=store) as run:
        recorded = agent()
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        replayed = agent()
    return recorded, replayed, replayer


@rk.tool
def fetch(what):  # type: ignore[no-untyped-def]
    return OBJECTS[what]()


@pytest.mark.parametrize("what", OBJECTS)
def test_an_object_comes_back_without_an_annotation(store: rk.Store, what: str) -> None:
    recorded, replayed, replayer = twice(store, lambda: fetch(what))

    assert kinds(replayed) == kinds(recorded)
    assert isinstance(recorded, set) or repr(replayed) == repr(recorded)  # the order of a set is nobody's
    assert isinstance(recorded, list) or replayed == recorded
    assert bool(replayed) == bool(recorded)
    assert replayer.all_deviations() == []


def test_members_of_an_enum_are_the_very_members(store: rk.Store) -> None:
    _, replayed, _ = twice(store, lambda: [fetch("enum"), fetch("enum of functions"), fetch("str enum")])

    assert replayed[0] is Status.FAILED
    assert replayed[1] is Handler.SECOND
    assert replayed[2] is Mood.SAD


def test_what_an_object_holds_beside_its_fields_comes_back(store: rk.Store) -> None:
    _, replayed, _ = twice(store, lambda: [fetch("dataclass"), fetch("pydantic"), fetch("pydantic, extra")])
    line, model, extra = replayed

    assert line.label == "2 × a"
    assert model._hidden == [7]
    assert model.model_dump(exclude_unset=True) == {"name": "a"}
    assert extra.more == {"x": Status.OK}
    assert extra.model_extra == {"more": {"x": Status.OK}}


def test_a_class_that_the_tool_closes_over_is_found(store: rk.Store) -> None:
    @dataclass
    class Here:
        value: int

    @rk.tool
    def make(value):  # type: ignore[no-untyped-def]
        return Here(value)

    recorded, replayed, replayer = twice(store, lambda: make(1))

    assert replayed == recorded
    assert type(replayed) is Here
    assert replayer.all_deviations() == []


SCALARS = [
    np.bool_(False),
    np.bool_(True),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.float16(0.5),
    np.float32(0.1),
    np.float64("nan"),
    np.complex64(1 + 2j),
    np.str_("text"),
    np.bytes_(b"ab"),
    np.datetime64("2024-03-12T10:00:00", "s"),
    np.timedelta64(5, "ms"),
]
ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.arange(1000, dtype="float32").reshape(10, 10, 10),
    np.array([]),
    np.array(3.5),
    np.array([[True, False]]),
    np.array(["a", "bc"]),
    np.array([b"a", b"bc"]),
    np.array([1, "a", None, Status.OK], dtype=object),
    np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
    np.arange(200).astype("timedelta64[s]"),
    np.arange(10, dtype=">i4"),
    np.full(100, 1 + 2j),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
]


@rk.tool
def numbers(value):  # type: ignore[no-untyped-def]
    return {"deep": [value]}


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: str(value.dtype))
def test_numpy_scalars_come_back_by_value(store: rk.Store, value: Any) -> None:
    recorded, replayed, replayer = twice(store, lambda: numbers(value)["deep"][0])

    assert type(replayed) is type(recorded)
    assert replayed.dtype == recorded.dtype
    assert replayed.tobytes() == recorded.tobytes()
    assert bool(replayed == replayed) == bool(recorded == recorded)
    assert replayer.all_deviations() == []


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype} {value.shape}")
def test_numpy_arrays_come_back_by_value(store: rk.Store, value: Any) -> None:
    recorded, replayed, replayer = twice(store, lambda: numbers(value)["deep"][0])

    assert type(replayed) is np.ndarray
    assert (replayed.dtype, replayed.shape) == (recorded.dtype, recorded.shape)
    assert replayed.tolist() == recorded.tolist() or np.isnat(replayed).any()
    assert replayer.all_deviations() == []


def test_arrays_are_told_apart_by_their_values(store: rk.Store) -> None:
    @rk.tool
    def total(values):  # type: ignore[no-untyped-def]
        return float(values.sum())

    with rk.record("agent", store=store) as run:
        total(np.array([1.0, 2.0]))
        total(np.array([3.0, 4.0]))
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        assert total(np.array([3.0, 4.0])) == 7.0
        with pytest.raises(rk.Divergence):
            total(np.array([1.0, 2.5]))

    assert "unbuilt" not in {deviation.kind for deviation in replayer.deviations}


def test_a_numpy_number_is_matched_by_its_value(store: rk.Store) -> None:
    @rk.tool
    def double(value):  # type: ignore[no-untyped-def]
        return int(value) * 2

    with rk.record("agent", store=store) as run:
        double(np.int64(4))
    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert double(4) == 8


@given(
    st.sampled_from(["i1", "u2", "i8", "f4", "f8", "c16", "?"]).flatmap(
        lambda dtype: st.tuples(
            st.just(dtype), st.lists(st.integers(0, 100), max_size=80), st.sampled_from(["flat", "column"])
        )
    )
)
def test_any_array_of_numbers_comes_back(drawn: tuple[str, list[int], str]) -> None:
    dtype, items, form = drawn
    array = np.array(items, dtype=dtype)
    array = array.reshape(-1, 1) if form == "column" else array
    values = ToolValues("", None)

    back = values.give(values.keep(array))

    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert (back == array).all()


FIELDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(Status) | st.builds(Point, st.integers()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.builds(Line, inner, inner)
        | st.builds(SimpleNamespace, a=inner)
        | st.builds(lambda item: Open(name="x", more=item), inner)
    ),
    max_leaves=8,
)


@given(FIELDS)
def test_any_object_of_objects_comes_back(value: Any) -> None:
    values = ToolValues("", fetch)

    back = values.give(values.keep(value))

    assert back == value
    assert kinds(back) == kinds(value)


def test_responses_of_http_libraries_come_back(store: rk.Store) -> None:
    @rk.tool
    def get(which):  # type: ignore[no-untyped-def]
        if which == "httpx":
            request = httpx.Request("GET", "http://shop.test/x", headers={"Authorization": "Bearer abc"})
            return httpx.Response(200, json={"a": 1}, request=request)
        response = requests.Response()
        response.status_code, response._content, response.url = 404, b'{"b": 2}', "http://shop.test/y"
        response.headers["Content-Type"] = "application/json"
        response.request = requests.Request("POST", "http://shop.test/y", json={"q": 1}).prepare()
        return response

    _, (mine, yours), replayer = twice(store, lambda: (get("httpx"), get("requests")))

    assert (mine.status_code, mine.json(), mine.headers["content-type"]) == (200, {"a": 1}, "application/json")
    assert str(mine.request.url) == "http://shop.test/x"
    assert (yours.status_code, yours.json(), yours.ok) == (404, {"b": 2}, False)
    assert yours.request.method == "POST"
    assert replayer.all_deviations() == []
    assert "Bearer abc" not in str([call.result for call in store.load("agent").calls])


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 7, 1, 12, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2026, 10, 25, 2, 30, fold=1),
    ],
)
def test_a_moment_comes_back_with_its_time_zone(store: rk.Store, moment: datetime) -> None:
    @rk.tool
    def starts():  # type: ignore[no-untyped-def]
        return {"starts": moment}

    _, back, replayer = twice(store, starts)

    found = back["starts"]
    assert (found.isoformat(), found.tzinfo, found.fold) == (moment.isoformat(), moment.tzinfo, moment.fold)
    assert replayer.all_deviations() == []


@pytest.mark.parametrize("library", [httpx, requests])
def test_a_response_after_many_redirects_comes_back_with_its_history(store: rk.Store, library: Any) -> None:
    """Each response of a history has a history itself: written out, these would be a billion responses."""

    def response(status: int) -> Any:
        made = library.Response(status) if library is httpx else library.Response()
        made.status_code, made._content = status, b""
        if library is httpx:
            made.request = httpx.Request("GET", "http://shop.test/x")
        return made

    @rk.tool
    def get():  # type: ignore[no-untyped-def]
        redirects: list[Any] = []
        for place in range(30):
            redirect = response(301 + place % 2)
            redirect.history = list(redirects)
            redirects.append(redirect)
        last = response(200)
        last.history = redirects
        return last

    _, last, replayer = twice(store, get)

    assert [item.status_code for item in last.history] == [301, 302] * 15
    assert all(item.history == last.history[:place] for place, item in enumerate(last.history))
    assert replayer.all_deviations() == []


class Handle:
    """A class of no kind that is rebuilt."""

    def __init__(self, name: str) -> None:
        self.name = name


class Names(dict):  # type: ignore[type-arg]
    """A kind of dict that is more than its items."""


@rk.tool
def opaque(which):  # type: ignore[no-untyped-def]
    if which == "deep":
        return {"ok": True, "handle": Handle("a")}
    return {"dict": Names(a=1), "function": opaque, "generator": (i for i in ())}[which]


@pytest.mark.parametrize("which", ["deep", "dict", "function"])
def test_what_cannot_be_rebuilt_is_reported_once_for_each_tool_when_it_is_recorded(store: rk.Store, which: str) -> None:
    def agent() -> str:
        with rk.record("agent", store=store) as run:
            opaque(which)
            opaque(which)
        return str(run.id)

    with pytest.warns(RecordingWarning, match="`opaque` returned .* cannot rebuild") as warned:
        run_id = agent()

    assert len(warned) == 1
    notes = [event for event in store.load(run_id).events if isinstance(event, Note) and event.name == UNBUILT]
    assert [note.content["tool"] for note in notes] == ["opaque"]
    assert len(concerns(store.load(run_id).events)) == 1


def test_a_recording_warns_and_never_raises(store: rk.Store, capsys: pytest.CaptureFixture[str]) -> None:
    with rk.record("agent", store=store):
        assert opaque("deep")["ok"]  # warnings are errors here

    assert "replaykit: `opaque` returned a" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
def test_a_value_that_cannot_be_rebuilt_makes_a_replay_uncertain_and_is_of_no_use(store: rk.Store) -> None:
    with rk.record("agent", store=store) as run:
        opaque("deep")
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        handle = opaque("deep")["handle"]

    for use in (bool, len, str, int, iter, lambda h: h.name, lambda h: h == 1, lambda h: h(), lambda h: h["a"]):
        with pytest.raises(Unreplayable, match="Handle"):
            use(handle)
    (deviation,) = replayer.all_deviations()
    assert (deviation.kind, deviation.name) == ("unbuilt", "opaque")
    assert "Handle" in deviation.text


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
def test_a_class_that_is_gone_makes_a_replay_uncertain(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with rk.record("agent", store=store) as run:
        fetch("dataclass")
    monkeypatch.delitem(globals(), "Line")
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        assert fetch("dataclass") == {"sku": "a", "count": 2}

    assert [deviation.kind for deviation in replayer.all_deviations()] == ["unbuilt"]


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
def test_what_an_object_holds_beside_its_fields_is_uncertain_only_when_it_is_used(store: rk.Store) -> None:
    @rk.tool
    def locked():  # type: ignore[no-untyped-def]
        return Locked(5)

    with rk.record("agent", store=store) as run:
        locked()
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        made = locked()
        assert made.id == 5
        assert replayer.all_deviations() == []
        with pytest.raises(Unreplayable):
            made.lock.acquire()

    assert [deviation.kind for deviation in replayer.all_deviations()] == ["unbuilt"]


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
def test_an_argument_that_cannot_be_compared_makes_a_replay_uncertain(store: rk.Store) -> None:
    @rk.tool
    def name_of(handle, word):  # type: ignore[no-untyped-def]
        return handle.name + word

    with rk.record("agent", store=store) as run:
        name_of(Handle("a"), "!")
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        name_of(Handle("b"), "!")
    ignoring = rk.MatchRules(ignore=("$.handle",))
    with rk.replaying(rk.Tape.of(store.load(run.id)), ignoring) as second:
        name_of(Handle("b"), "!")

    assert [deviation.kind for deviation in replayer.all_deviations()] == ["unbuilt"]
    assert "compared" in replayer.all_deviations()[0].text
    assert second.all_deviations() == []


def test_classes_and_functions_are_told_apart_as_arguments(store: rk.Store) -> None:
    @rk.tool
    def ask(form):  # type: ignore[no-untyped-def]
        return form.__name__

    with rk.record("agent", store=store) as run:
        ask(Model)
        ask(kinds)
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        assert ask(kinds) == "kinds"
        with pytest.raises(rk.Divergence):
            ask(Open)

    assert "unbuilt" not in {deviation.kind for deviation in replayer.deviations}


@rk.tool
def change(items: list[int], factor: int = 1) -> int:
    items.append(1)
    return len(items)


def test_a_tool_that_changes_its_arguments_is_reported_once(store: rk.Store) -> None:
    def agent() -> str:
        with rk.record("agent", store=store) as run:
            change([])
            change([2])
        return str(run.id)

    with pytest.warns(RecordingWarning, match="`change` changed .*`items`") as warned:
        run_id = agent()

    assert len(warned) == 1
    notes = [event for event in store.load(run_id).events if isinstance(event, Note) and event.name == MUTATED]
    assert [note.content["arguments"] for note in notes] == [["items"]]


def test_a_tool_that_fails_after_it_changed_its_arguments_is_reported(store: rk.Store) -> None:
    @rk.tool
    async def fails(items: list[int]) -> None:
        items.append(1)
        raise ValueError("no")

    with pytest.warns(RecordingWarning, match="`fails` changed"), rk.record("agent", store=store):
        with pytest.raises(ValueError, match="no"):
            asyncio.run(fails([]))


def test_a_tool_that_changes_nothing_is_not_reported(store: rk.Store) -> None:
    @rk.tool
    def reads(items: list[int], at: Point, by: set[str]) -> int:
        return len(items)

    with rk.record("agent", store=store) as run:
        reads([1, 2], Point(1), {"a", "b"})

    assert len(store.load(run.id).events) == 1


def test_values_without_a_form_are_named_in_plain_words(store: rk.Store) -> None:
    @rk.tool
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth):
            value = [value]
        return value

    @rk.tool
    def cyclic() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    with pytest.warns(RecordingWarning) as warned, rk.record("agent", store=store):
        _ = nested(20_000), cyclic()

    texts = [str(one.message) for one in warned]
    assert texts[0].startswith("`nested` returned a value that is nested too deeply, which")
    assert texts[1].startswith("`cyclic` returned a value that holds itself, which")
