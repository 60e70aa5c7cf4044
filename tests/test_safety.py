"""Nothing that is loaded can run: not from a case, a trace, a fixture, a run log, a runner's output or a store."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np  # noqa: F401 (arrays are made where it is loaded)
import pydantic
import pytest
import requests  # noqa: F401 (as above)

import replaykit as rk
from replaykit.candidates.output import parse_output
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.lint import lint_case
from replaykit.errors import CorruptStore, InvalidFile, ReplayKitError, StoreError
from replaykit.formats.files import import_trace
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import RunHeader
from replaykit.model.values import Opaque, Raw, canonical, decode, raw
from replaykit.seam.failures import RecordedError
from replaykit.seam.rebuild import Rebuilder, rebuild_error
from replaykit.store.event_log import LogFile
from replaykit.store.rows import seal
from replaykit.testing import sample_call, sample_run


class Evil:
    """Touches a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return (eval, ("open('owned', 'w').close()",))


PICKLES = [pickle.dumps(Evil(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
SYSTEM = b"cos\nsystem\n(S'touch owned'\ntR."
"""A pickle as the first protocol wrote it: os.system('touch owned')."""
CANARY = "a_module_that_nobody_has_imported"
TAGS = [
    "!!python/object/apply:os.system ['touch owned']",
    "!!python/object/new:os.system ['touch owned']",
    "!!python/name:os.system",
    "!!python/module:subprocess",
    "!!python/object:subprocess.Popen {args: touch owned}",
    "!!python/tuple [1, 2]",
    "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch owned']",
    "!custom {a: 1}",
    "!!set {a, b}",
    "!!binary aGVsbG8=",
]


@pytest.fixture
def canary(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that could be imported, and leaves a mark when it is."""
    site = own_directory / "site"
    site.mkdir()
    (site / f"{CANARY}.py").write_text("open('owned', 'w').close()\nclass Error(Exception): pass\n")
    monkeypatch.syspath_prepend(str(site))
    return CANARY


def nothing_happened() -> bool:
    return not Path("owned").exists() and CANARY not in sys.modules


def case_in(directory: str, text: str) -> Path:
    Path(directory).mkdir(exist_ok=True)
    (Path(directory) / "case.yaml").write_text(text)
    return Path(directory)


def served(call: ToolCall, tool: Callable[[], Any]) -> Any:
    """What the tool gives when this call is on the tape."""
    with rk.replaying(rk.Tape([call])):
        return tool()


def answer(result: str) -> ToolCall:
    return ToolCall(seq=0, name="ask", arguments_json=Raw(canonical({})), result_json=Raw(result.encode()))


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("place", ["id: {}", "title: {}", "scenario: {{input: {}}}", "id: c\ndesired: [{}]"])
def test_a_tag_in_a_case_is_refused_with_its_line(tag: str, place: str) -> None:
    case = case_in("c", "replaykit: 1\n" + place.format(tag))

    with pytest.raises(InvalidFile, match=r"tag .* is not allowed|not YAML") as caught:
        rk.load_case(case)

    assert caught.value.line in (2, 3)
    assert [problem.code for problem in lint_case(case)] == ["invalid-file"]
    assert nothing_happened()


def test_a_case_that_is_a_pickle_is_refused() -> None:
    for text in PICKLES:
        Path("c").mkdir(exist_ok=True)
        Path("c/case.yaml").write_bytes(text)

        with pytest.raises(InvalidFile):
            rk.load_case("c")
    assert nothing_happened()


@pytest.mark.parametrize(
    "trace", ["../../etc/passwd", "/etc/passwd", "..", "sub/../../x", "..\\x", "C:\\x", "\\\\host\\share", "~/../../x"]
)
def test_a_trace_outside_of_the_case_is_not_read(trace: str) -> None:
    case = case_in("c", f"replaykit: 1\nid: c\nsource: {{trace: {json.dumps(trace)}}}\ndesired: [status_is: success]\n")

    with pytest.raises(InvalidFile, match=r"source\.trace"):
        rk.load_case(case)

    assert "path-leaves-case" in [problem.code for problem in lint_case(case)]


@pytest.mark.parametrize("link", ["file", "folder", "chain"])
def test_a_link_out_of_the_case_is_not_followed(link: str) -> None:
    Path("outside").mkdir()
    Path("outside/secret.json").write_text('{"run_id": "secret", "status": "error", "events": []}')
    case = case_in("c", "replaykit: 1\nid: c\nsource: {trace: t/secret.json}\ndesired: [status_is: success]\n")
    outside = Path("outside").absolute()
    if link == "folder":
        (case / "t").symlink_to(outside)
    else:
        (case / "t").mkdir()
        hop = case / "hop"
        hop.symlink_to(outside / "secret.json")
        (case / "t" / "secret.json").symlink_to(outside / "secret.json" if link == "file" else hop.absolute())

    with pytest.raises(InvalidFile, match="link that leaves"):
        rk.load_case(case)

    assert all("secret'" not in problem.message for problem in lint_case(case))


def test_a_link_that_stays_inside_the_case_is_fine() -> None:
    case = case_in("c", "replaykit: 1\nid: c\nsource: {trace: t.json}\ndesired: [status_is: success]\n")
    (case / "real.json").write_text("{}")
    (case / "t.json").symlink_to("real.json")

    assert rk.load_case(case).trace_path == case / "t.json"


@pytest.mark.parametrize("text", [*PICKLES, SYSTEM, b"#!/usr/bin/env python\nopen('owned', 'w')"])
def test_a_trace_that_is_a_program_is_refused(text: bytes) -> None:
    for name in ("trace.json", "trace.pkl", "trace.yaml"):
        Path(name).write_bytes(text)

        with pytest.raises(InvalidFile):
            import_trace(name)
    assert parse_output(text).run is None
    assert nothing_happened()


@pytest.mark.parametrize(
    "value",
    [
        {"$obj": ["Popen", {"args": ["touch", "owned"]}]},
        {"$obj": ["subprocess.Popen", {"args": ["touch", "owned"]}]},
        {"$obj": ["Evil", {}]},
        {"$obj": ["type", ["X", [], {}]]},
        {"$obj": [["Popen"], {}]},
        {"$obj": {"__reduce__": ["os.system", ["touch owned"]]}},
        {"$call": ["os.system", "touch owned"]},
        {"py/object": "subprocess.Popen", "args": ["touch owned"]},
        {"__class__": "subprocess.Popen", "__reduce__": ["os.system", "touch owned"]},
        {"$opaque": "subprocess.Popen"},
        {"$path": "/etc/passwd"},
    ],
)
def test_an_object_in_a_value_is_plain_data(value: Any) -> None:
    read = decode(json.dumps(value).encode())

    assert isinstance(read, dict | list | PurePath | Opaque)
    assert nothing_happened()


@pytest.mark.parametrize("hint", [None, Any, object, dict, Exception, type, Callable, "Popen", dict[str, Any]])
@pytest.mark.parametrize("name", ["Popen", "Evil", "type", "dict", "CodeType", "ErrorInfo"])
def test_an_object_is_not_rebuilt_from_a_class_that_the_tool_does_not_name(hint: Any, name: str) -> None:
    @rk.tool
    def ask():  # type: ignore[no-untyped-def]
        raise AssertionError("live")

    inspect.unwrap(ask).__annotations__["return"] = hint

    result = served(answer(json.dumps({"$obj": [name, {"args": ["touch", "owned"], "type": "x"}]})), ask)

    assert result == {"args": ["touch", "owned"], "type": "x"}
    assert type(result) is dict
    assert nothing_happened()


RAN: list[str] = []


def ran(what: str) -> None:
    RAN.append(what)


class Meta(type):
    """A metaclass whose code must not run because a recording names one of its classes."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        ran("Meta.__call__")
        return super().__call__(*arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        ran(f"Meta.__getattr__ {name}")
        raise AttributeError(name)

    def __instancecheck__(cls, instance: Any) -> bool:
        ran("Meta.__instancecheck__")
        return False

    def __subclasscheck__(cls, other: type) -> bool:
        ran("Meta.__subclasscheck__")
        return False


class HashedMeta(type):
    def __hash__(cls) -> int:
        ran("HashedMeta.__hash__")
        return 1


class Watched:
    """Every way into an object that a class can define."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        ran("__new__")
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        ran("__init__")

    def __post_init__(self) -> None:
        ran("__post_init__")

    def __setattr__(self, name: str, value: Any) -> None:
        ran("__setattr__")

    def __setstate__(self, state: Any) -> None:
        ran("__setstate__")

    def __reduce__(self) -> Any:
        ran("__reduce__")
        return (ran, ("reduced",))

    def __getattribute__(self, name: str) -> Any:
        ran(f"__getattribute__ {name}")
        return super().__getattribute__(name)

    def __init_subclass__(cls) -> None:
        ran("__init_subclass__")


class Setter:
    """A descriptor that runs code when it is set."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        ran("Setter.__get__")
        return 1

    def __set__(self, instance: Any, value: Any) -> None:
        ran("Setter.__set__")


@dataclass(init=False)
class Data(Watched, metaclass=Meta):
    id: int
    command: Any = Setter()


@dataclass
class Hashed(metaclass=HashedMeta):
    id: int


@dataclass
class Deleted:
    id: int

    def __del__(self) -> None:
        ran("__del__")


class Choice(Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        ran("_missing_")
        return cls.ONE


class Pair(Watched, NamedTuple("Pair", [("id", int)])):
    pass


class Entry(pydantic.BaseModel):
    id: int = pydantic.Field(default_factory=lambda: ran("default_factory") or 1)
    more: Any = None

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        ran("__new__")
        return super().__new__(cls)

    def __init__(self, **named: Any) -> None:
        ran("__init__")
        super().__init__(**named)

    def model_post_init(self, context: Any) -> None:
        ran("model_post_init")

    def __setstate__(self, state: Any) -> None:
        ran("__setstate__")

    def __setattr__(self, name: str, value: Any) -> None:
        ran("__setattr__")

    @pydantic.field_validator("id")
    @classmethod
    def _checked(cls, value: int) -> int:
        ran("validator")
        return value


@attrs.define(init=False)
class Part:
    id: int = attrs.field(converter=lambda value: ran("converter"), on_setattr=lambda *_: ran("on_setattr"))

    def __init__(self) -> None:
        ran("__init__")

    def __attrs_post_init__(self) -> None:
        ran("__attrs_post_init__")


class Struct(msgspec.Struct):
    id: int

    def __post_init__(self) -> None:
        ran("__post_init__")


class Raised(Watched, Exception):
    @property
    def response(self) -> Any:
        ran("property")
        return None

    @response.setter
    def response(self, value: Any) -> None:
        ran("setter")


HERE = __name__
NAMED = {
    "a dataclass": ("Data", {"id": 7, "command": "touch owned"}),
    "a dataclass that something is hashed for": ("Hashed", {"id": 7}),
    "a dataclass that cleans up": ("Deleted", {"id": 7}),
    "an enum without that member": ("Choice", 2),
    "a named tuple": ("Pair", {"id": 7}),
    "a pydantic model": ("Entry", {"id": 7, "more": "x"}),
    "a pydantic model, a field left out": ("Entry", {"more": "x"}),
    "an attrs class": ("Part", {"id": 7}),
    "a struct": ("Struct", {"id": 7}),
    "no kind that is rebuilt": ("Watched", {"id": 7}),
    "a metaclass": ("Meta", {"id": 7}),
    "a function": ("ran", {"what": "called"}),
}


@pytest.mark.parametrize(("name", "content"), NAMED.values(), ids=NAMED.keys())
@pytest.mark.parametrize("detail", [None, {"command": "touch owned", "private": {"x": 1}, "set": ["id"]}, "TWO"])
def test_no_code_of_a_class_runs_because_a_recording_names_it(name: str, content: Any, detail: Any) -> None:
    @rk.tool
    def ask():  # type: ignore[no-untyped-def]
        raise AssertionError("live")

    RAN.clear()
    said = [name, content, HERE] if detail is None else [name, content, HERE, detail]
    with rk.replaying(rk.Tape([answer(json.dumps({"$obj": said}))])):
        made = ask()

    assert RAN == []
    del made
    assert RAN == []


@pytest.mark.parametrize("attributes", [{}, {"response": "touch owned", "__class__": "x", "args": 3}])
def test_no_code_of_an_exception_runs_because_a_recording_names_it(attributes: dict[str, Any]) -> None:
    for kind in ("Raised", "Gone"):
        info = ErrorInfo(
            type=kind,
            module=HERE,
            message="x",
            args_json=raw(("touch owned",)),
            attributes_json=raw(attributes),
            bases=(f"{HERE}.Raised",),
        )
        RAN.clear()

        rebuild_error(info, globals())

        assert RAN == []


POPEN = [
    ["Popen", {"args": ["touch", "owned"]}, "subprocess"],
    ["Popen", {"args": ["touch", "owned"], "shell": True}, "subprocess", {"args": "touch owned"}],
    ["system", "touch owned", "os"],
    ["CompletedProcess", {"args": ["touch", "owned"]}, "subprocess"],
    ["eval", "open('owned', 'w')", "builtins"],
    ["type", {"name": "x"}, "builtins"],
    ["Thread", {"target": "x"}, "threading"],
    ["Error", {}, CANARY],
    ["SQLiteStore", {"path": "owned"}, "replaykit.store.sqlite"],
    ["Path", ["owned", "x"], "pathlib"],
    ["Response", {"status_code": 200}, "requests.models"],
    ["defaultdict", ["eval", {"a": 1}], "collections"],
    ["range", ["a"], "builtins"],
]


@pytest.mark.parametrize("said", POPEN, ids=lambda said: f"{said[2]}.{said[0]}")
def test_a_hostile_case_that_names_a_class_is_refused(canary: str, said: list[Any]) -> None:
    case = case_in("c", "replaykit: 1\nid: c\nobserved: [status_is: error]\ndesired: [status_is: success]\n")
    (case / "fixtures").mkdir()
    (case / "fixtures" / "ask.json").write_text(fixture_of({"result": {"deep": [{"$obj": said}]}}))

    @rk.tool
    def ask():  # type: ignore[no-untyped-def]
        raise AssertionError("live")

    before = set(sys.modules)
    result = rk.replay(case, lambda: ask())

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert [deviation.kind for deviation in result.deviations] == ["unbuilt"]
    assert said[0] in result.reason
    assert CANARY not in set(sys.modules) - before
    assert nothing_happened()


def test_a_module_is_not_asked_for_what_it_has_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("lazy_module")
    module.__dict__["__getattr__"] = lambda name: ran(f"module __getattr__ {name}")

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            ran(f"lazy module {name}")
            return super().__getattribute__(name)

    class Proxy:
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            ran("proxy")
            return type

    module.__dict__["Proxy"] = Proxy()
    monkeypatch.setitem(sys.modules, "lazy_module", module)
    monkeypatch.setitem(sys.modules, "lazier_module", Lazy("lazier_module"))
    monkeypatch.setitem(sys.modules, "no_module", Proxy())

    RAN.clear()
    for home in ("lazy_module", "lazier_module", "no_module"):
        for name in ("Missing", "Proxy", "Proxy.Inner"):
            Rebuilder({}).value({"$obj": [name, {"a": 1}, home]})
            rebuild_error(ErrorInfo(type=name, module=home), {})

    assert RAN == []


def test_hostile_arrays_are_plain_data() -> None:
    for content in (
        ["O", [1]],
        ["|O", "x", [1]],
        ["<f8", "AAAA", [1000000000000]],
        ["<f8", [1.0], [2**70]],
        ["i4,f8", [1], [1]],
        [{"names": []}, [1], [1]],
        ["<f8", [1.0], [-1]],
        ["<U99999999999", "x"],
    ):
        rebuilder = Rebuilder({})

        rebuilder.value({"$numpy": content})

        assert rebuilder.unbuilt == ["damaged $numpy"]


def test_an_object_of_the_tools_own_class_is_rebuilt_without_running_it() -> None:
    ran: list[str] = []

    @dataclass
    class Order:
        id: int

        def __init__(self, id: int) -> None:
            ran.append("__init__")

        def __post_init__(self) -> None:
            ran.append("__post_init__")

        def __setattr__(self, name: str, value: Any) -> None:
            ran.append("__setattr__")

    @rk.tool
    def ask() -> Order:
        raise AssertionError("live")

    inspect.unwrap(ask).__annotations__["return"] = Order

    assert served(answer('{"$obj": ["Order", {"id": 7}]}'), ask).id == 7
    assert ran == []


def test_a_property_of_the_tools_own_class_is_not_set_by_a_log() -> None:
    ran: list[Any] = []

    @dataclass
    class Order:
        id: int

        @property
        def command(self) -> str:
            return ""

        @command.setter
        def command(self, value: str) -> None:
            ran.append(value)

    @rk.tool
    def ask() -> Order:
        raise AssertionError("live")

    inspect.unwrap(ask).__annotations__["return"] = Order

    served(answer('{"$obj": ["Order", {"id": 7, "command": "touch owned"}]}'), ask)

    assert ran == []


ARBITRARY = {
    "a function": ("os", "system"),
    "a class that is no exception": ("subprocess", "Popen"),
    "a builtin function": ("builtins", "eval"),
    "a builtin class": ("builtins", "type"),
    "a module": ("", "os"),
    "an attribute of a module": ("os", "environ"),
    "a dotted name": ("", "os.system"),
    "a class of ours": ("replaykit.store.sqlite", "SQLiteStore"),
    "nothing": ("", ""),
    "dunder": ("builtins", "__import__"),
}


@pytest.mark.parametrize(("module", "name"), ARBITRARY.values(), ids=ARBITRARY.keys())
def test_an_error_that_names_something_else_is_a_stand_in(module: str, name: str) -> None:
    info = ErrorInfo(type=name, module=module, message="touch owned", args_json=raw(("touch owned",)))

    error = rebuild_error(info, globals())

    assert isinstance(error, RecordedError)
    assert error.args == ("touch owned",)
    assert nothing_happened()


@pytest.mark.parametrize(
    "bases", [("os.system",), ("subprocess.Popen",), ("builtins.type", "builtins.object"), ("", ".")]
)
def test_a_base_that_is_something_else_is_left_out(bases: tuple[str, ...]) -> None:
    error = rebuild_error(ErrorInfo(type="Gone", module="nowhere", message="x", bases=bases), globals())

    assert isinstance(error, RecordedError)
    assert type(error).__mro__[1:] == RecordedError.__mro__


def test_a_module_is_not_imported_because_an_error_names_it(canary: str) -> None:
    rebuild_error(ErrorInfo(type="Gone"), {})  # whatever is imported on first use is here now
    before = set(sys.modules)

    for info in (
        ErrorInfo(type="Error", module=canary, message="x"),
        ErrorInfo(type="Gone", module="nowhere", message="x", bases=(f"{canary}.Error",)),
        ErrorInfo(type=f"{canary}.Error", message="x"),
    ):
        assert isinstance(rebuild_error(info, {}), RecordedError)

    assert set(sys.modules) == before
    assert nothing_happened()
    __import__(canary)
    assert not nothing_happened(), "the canary sings"
    del sys.modules[canary]


def test_an_exception_is_rebuilt_without_running_its_constructor() -> None:
    ran: list[Any] = []

    class Careful(Exception):
        def __new__(cls, *arguments: Any) -> Any:
            ran.append(arguments)
            return super().__new__(cls, *arguments)

        def __init__(self, *arguments: Any) -> None:
            ran.append(arguments)

    Careful.__module__ = "shop"

    error = rebuild_error(ErrorInfo(type="Careful", module="shop", message="touch owned"), {"Careful": Careful})

    assert type(error) is Careful
    assert ran == []


FIXTURE_ERRORS = [
    {"type": "system", "module": "os", "message": "touch owned", "args": ["touch owned"]},
    {"type": "Popen", "module": "subprocess", "args": {"$tuple": [["touch", "owned"]]}},
    {"type": "Error", "module": CANARY, "message": "touch owned"},
    {"type": "Gone", "bases": [f"{CANARY}.Error", "os.system"], "attributes": {"__class__": "Popen", "run": "x"}},
    {"type": "x; touch owned", "message": "$(touch owned)", "traceback": "`touch owned`"},
    {"type": "ValueError", "message": "x", "args": {"$obj": ["Popen", {"args": "touch owned"}]}},
]


@pytest.mark.parametrize("error", FIXTURE_ERRORS, ids=lambda error: error["type"])
def test_an_error_in_a_fixture_is_raised_and_nothing_else(canary: str, error: dict[str, Any]) -> None:
    case = case_in("c", "replaykit: 1\nid: c\ndesired: [status_is: success]\n")
    (case / "fixtures").mkdir()
    (case / "fixtures" / "ask.json").write_text(fixture_of({"error": error}))

    @rk.tool
    def ask() -> None:
        raise AssertionError("live")

    result = rk.replay(case, lambda: ask())

    assert len(read_fixtures(case)) == 1
    assert result.run is not None
    assert result.run.error is not None
    assert result.run.error.type == error["type"]
    assert nothing_happened()


@pytest.mark.parametrize("error", FIXTURE_ERRORS, ids=lambda error: error["type"])
def test_an_error_in_a_run_log_is_data(canary: str, error: dict[str, Any]) -> None:
    call = {"type": "tool_call", "seq": 0, "name": "ask", "arguments": {}, "error": error}
    log = {"replaykit": 1, "run": {"id": "r", "status": "error", "error": error, "events": [call]}}
    Path("run.json").write_text(json.dumps(log))

    (run,) = import_trace("run.json").runs
    rk.scaffold(run, "cases/made")

    assert run.error is not None
    assert run.error.type == error["type"]
    assert parse_output(Path("run.json").read_bytes()).reason == ""
    assert nothing_happened()


ODD_ERRORS = {
    "a name with a NUL": {"type": "a\0b", "message": "it failed"},
    "attributes that are a list": {"type": "Gone", "message": "it failed", "attributes": [1]},
    "a group as its base": {"type": "Gone", "message": "it failed", "bases": ["builtins.ExceptionGroup"]},
    "a module that is blocked": {"type": "Gone", "message": "it failed", "module": "blocked_module"},
}


@pytest.mark.parametrize("error", ODD_ERRORS.values(), ids=ODD_ERRORS.keys())
def test_an_odd_error_is_still_the_error_that_was_recorded(
    error: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "blocked_module", None)
    info = msgspec.convert({**error, "attributes": raw(error.get("attributes", {}))}, ErrorInfo)

    raised = rebuild_error(info, {})

    assert isinstance(raised, RecordedError)
    assert str(raised) == "it failed"


def test_a_fixture_cannot_interrupt_those_who_replay_it() -> None:
    case = case_in("c", "replaykit: 1\nid: c\ndesired: [status_is: success]\n")
    (case / "fixtures").mkdir()
    (case / "fixtures" / "ask.json").write_text(fixture_of({"error": {"type": "KeyboardInterrupt", "message": "x"}}))

    @rk.tool
    def ask() -> None:
        raise AssertionError("live")

    try:
        verdict = rk.replay(case, lambda: ask()).verdict
    except KeyboardInterrupt:
        pytest.fail("the fixture interrupted the replay")

    assert verdict is rk.Verdict.BROKEN


def test_a_store_that_is_a_pickle_is_a_named_error() -> None:
    for text in PICKLES:
        Path("s.db").write_bytes(text)

        with pytest.raises(StoreError):
            rk.Store.open("s.db", read_only=True).close()
    assert nothing_happened()


@pytest.mark.parametrize("text", PICKLES, ids=lambda text: f"protocol {text[1] if text[0] == 0x80 else 0}")
def test_pickles_in_the_rows_of_a_store_are_damage(text: bytes) -> None:
    with rk.Store.open("s.db") as store:
        store.add(sample_run("packed", 3))
        thread = store.share("tail")
        with thread.turn():
            thread.write_header(RunHeader(id="tail"))
            thread.append(sample_call(0))
        store.begin(RunHeader(id="logged"))
        LogFile(store.path, 3, "logged", store.durability).append(3 << 32, text)
    with sqlite3.connect("s.db") as db:
        pack, tail = (db.execute(f"SELECT key FROM {table}").fetchone()[0] for table in ("packs", "events"))
        db.execute("UPDATE packs SET data = ?", (seal(pack, b"r" + text),))  # sealed as the store itself would
        db.execute("UPDATE events SET data = ?", (seal(tail, text),))
        db.execute("INSERT INTO blobs (hash, size, data) VALUES (?, ?, ?)", (b"\1" * 20, len(text), b"r" + text))
    db.close()

    with rk.Store.open("s.db", read_only=True) as store:
        for run_id in ("packed", "tail", "logged"):
            with pytest.raises(CorruptStore):
                store.load(run_id)
        assert len(list(store.verify())) >= 4
    with sqlite3.connect("s.db") as db:
        db.execute("UPDATE runs SET header = ? WHERE n = 1", (seal(1, text),))
    db.close()
    with rk.Store.open("s.db", read_only=True) as store, pytest.raises(CorruptStore):
        store.headers()
    assert nothing_happened()


SCHEMAS = {
    "a view": "DROP TABLE events; CREATE VIEW events AS SELECT 4294967296 AS key, strike() AS data;",
    "a view over the runs": """
        ALTER TABLE runs RENAME TO old;
        CREATE VIEW runs AS SELECT n, id, name, strike() AS status, started_at, header FROM old;
    """,
    "a trigger": """
        CREATE TRIGGER on_run AFTER INSERT ON runs BEGIN SELECT strike(); END;
        CREATE TRIGGER on_event AFTER INSERT ON events BEGIN SELECT strike(); END;
    """,
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_schema_of_a_foreign_store_cannot_call_anything(schema: str) -> None:
    with rk.Store.open("s.db") as store:
        store.add(sample_run("r", 3))
    db = sqlite3.connect("s.db")
    db.create_function("strike", 0, lambda: 1, deterministic=True)
    db.executescript(schema)
    db.close()
    struck: list[str] = []

    for action in (
        lambda store: store.load("r"),
        lambda store: list(store.verify()),
        lambda store: store.headers(),
        lambda store: store.add(sample_run("new", 1)),
        lambda store: store.begin(RunHeader(id="next")).append(sample_call(0)),
    ):
        try:
            with rk.Store.open("s.db") as store:
                # Any function with an effect will do: here is one for the schema to call.
                store.db.create_function("strike", 0, lambda: struck.append("struck"), deterministic=True)
                action(store)
        except ReplayKitError:
            pass

    assert struck == []


AUDITED = r"""
import json, os, pathlib, sys
import replaykit as rk
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.lint import lint_case
from replaykit.errors import ReplayKitError
from replaykit.formats.files import import_trace
from replaykit.candidates.output import parse_output

FORBIDDEN = ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen", "exec",
             "compile", "import", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "code.__new__",
             "socket.connect", "sqlite3.enable_load_extension", "sqlite3.load_extension")

@rk.tool
def ask(): raise AssertionError("live")

def agent(*given):
    for _ in range(3):
        try: ask()
        except Exception: pass
    return "done"

def store_of(path):
    with rk.Store.open(path, read_only=True) as store:
        list(store.verify())
        for header in store.headers():
            store.load(header.id)

def load(directory):
    for path in sorted(pathlib.Path(directory).iterdir()):
        ways = [lambda: rk.load_case(path), lambda: lint_case(path), lambda: read_fixtures(path),
                lambda: rk.replay(path, agent)]
        if path.is_file():
            ways = [lambda: import_trace(path), lambda: parse_output(path.read_bytes()), lambda: store_of(path)]
        for way in ways:
            try: way()
            except ReplayKitError: pass

load("harmless")  # whatever is imported on first use is here now
seen = []

def hook(event, arguments):
    if seen is not None and event in FORBIDDEN:
        seen.append([event, repr(arguments)[:100]])

sys.addaudithook(hook)
for directory in sys.argv[1:]: load(directory)
told, seen = seen, None
print(json.dumps(told))
"""
Audited = Callable[..., list[list[str]]]
CASE = "replaykit: 1\nid: {}\nobserved: [status_is: error]\ndesired: [status_is: success]\n"


def put(directory: Path, *, case: str, fixture: str, trace: bytes, error: dict[str, Any], result: str) -> None:
    """A directory with a case, traces, outputs and a store, made of these parts."""
    (directory / "case" / "fixtures").mkdir(parents=True)
    (directory / "case" / "case.yaml").write_text(case)
    (directory / "case" / "fixtures" / "ask.json").write_text(fixture)
    (directory / "trace.json").write_bytes(trace)
    log = {"replaykit": 1, "run": {"id": "r", "status": "error", "error": error, "events": []}}
    (directory / "log.json").write_text(json.dumps(log))
    call = {"tool_name": "ask", "tool_output": json.loads(result)}
    output = {"status": "error", "errors": [error], "tool_calls": [call]}
    (directory / "output.json").write_text(json.dumps(output))
    native = {"run_id": "n", "status": "error", "events": [{"type": "error", "error": error}]}
    (directory / "native.json").write_text(json.dumps(native))
    with rk.Store.open(directory / "store.db") as store:
        store.add(sample_run("r", 2))
        info = ErrorInfo(type=error["type"], module=error["module"])
        store.add(rk.TraceRun(id="e", error=info, events=(answer(result),)))
    (directory / "bytes.db").write_bytes(trace)


def fixture_of(*outcomes: dict[str, Any]) -> str:
    calls = [{"call": n, "arguments": {}, **outcome} for n, outcome in enumerate(outcomes)]
    return json.dumps({"replaykit": 1, "kind": "tool_call", "name": "ask", "calls": calls})


@pytest.fixture
def audited(own_directory: Path, canary: str) -> Audited:
    """Load everything in a directory under an audit hook; gives what was done that loading must not do."""
    put(
        own_directory / "harmless",
        case=CASE.format("harmless") + "desird: []\n",  # wrong, so that the way to an error is there as well
        fixture=fixture_of({"result": 1}, {"error": {"type": "Gone", "message": "x"}}, {"result": {"$tuple": [1]}}),
        trace=b"{",
        error={"type": "ValueError", "module": "builtins", "message": "x"},
        result='{"$obj": ["Thing", {"a": 1}]}',
    )
    case = own_directory / "harmless" / "sound"
    case.mkdir()
    (case / "case.yaml").write_text(CASE.format("sound"))
    (case / "fixtures").mkdir()
    outcomes = [{"error": {"type": "Gone", "module": "nowhere", "message": "x"}}, {"result": {"$obj": ["T", 1, "m"]}}]
    (case / "fixtures" / "ask.json").write_text(fixture_of(*outcomes))

    def run(*directories: Path, program: str = AUDITED) -> list[list[str]]:
        env = {**os.environ, "PYTHONPATH": f"{own_directory / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        command = [sys.executable, "-c", program, *map(str, directories)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
        assert done.returncode == 0, done.stderr
        found: list[list[str]] = json.loads(done.stdout)
        return found

    return run


def test_loading_hostile_files_does_none_of_what_an_audit_hook_sees(audited: Audited) -> None:
    error = {"type": "Error", "module": CANARY, "message": "touch owned"}
    for number, text in enumerate([*PICKLES, SYSTEM]):
        put(
            Path("hostile") / str(number),
            case="replaykit: 1\nid: c\ntitle: !!python/object/apply:os.system ['touch owned']\n",
            fixture=fixture_of(*({"error": error} for error in FIXTURE_ERRORS[:3])),
            trace=text,
            error=[error, *FIXTURE_ERRORS[:2]][number % 3],
            result='{"$obj": ["Popen", {"args": ["touch", "owned"]}]}',
        )
        sound = Path("hostile") / str(number) / "sound"
        (sound / "fixtures").mkdir(parents=True)
        (sound / "case.yaml").write_text(CASE.format("sound"))
        (sound / "fixtures" / "ask.json").write_text(fixture_of(*({"error": error} for error in FIXTURE_ERRORS[:3])))

    assert audited(*Path("hostile").iterdir()) == []
    assert nothing_happened()


def test_the_audit_hook_sees_what_it_should(audited: Audited) -> None:
    """The control: the same program, with a loader that does execute."""
    Path("control").mkdir()
    Path("control/trace.json").write_text("{}")
    does = "import_trace = lambda path: [os.system('true'), eval('1'), pickle.loads(PICKLED), __import__(CANARY)]"
    program = f"import pickle\nCANARY, PICKLED = {CANARY!r}, {pickle.dumps(Path('x'))!r}\n" + AUDITED.replace(
        "for directory in", f"{does}\nfor directory in"
    )

    seen = {event for event, _ in audited(Path("control"), program=program)}

    assert {"os.system", "compile", "exec", "pickle.find_class", "import"} <= seen
