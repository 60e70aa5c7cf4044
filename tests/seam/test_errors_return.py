"""Exceptions come back from a tool as they were raised: class, arguments, attributes, and what lies behind them."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pydantic
import pytest
import requests
from pydantic_core import PydanticCustomError
from tests.matrix import sampled

import replaykit as rk
from replaykit.errors import RecordingWarning
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.values import Raw, canonical
from replaykit.seam.failures import RecordedError, ToolError


class ByName(Exception):
    """Takes its arguments by name, and leaves `args` empty."""

    def __init__(self, *, code: int, why: str) -> None:
        self.code = code
        self.why = why

    def __str__(self) -> str:
        return f"{self.code}: {self.why}"


class Below(ByName):
    pass


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__("slotted")
        self.code = code


class DiskError(OSError):
    def __init__(self, path: str, *, retry: bool) -> None:
        super().__init__(28, "No space left", path)
        self.retry = retry


class Both(ValueError, OSError):
    pass


@dataclass
class Checked(Exception):
    code: int
    details: dict[str, Any]


class Several(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Several:
        return Several(self.message, excs)


class Answer(pydantic.BaseModel):
    count: int
    kind: str = ""

    @pydantic.field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind == "bad":
            raise ValueError("no {such} kind")
        if kind == "custom":
            raise PydanticCustomError("shop_kind", "a {kind} kind", {"kind": "bad"})
        return kind


def http_error() -> None:
    response = requests.Response()
    response.status_code, response._content, response.url = 503, b'{"retry": true}', "http://shop.test/x"
    response.headers["Retry-After"] = "3"
    response.reason = "Unavailable"
    response.request = requests.Request("GET", "http://shop.test/x").prepare()
    response.raise_for_status()


def httpx_error() -> None:
    request = httpx.Request("GET", "http://shop.test/x", headers={"X": "1"})
    httpx.Response(429, json={"wait": 5}, headers={"Retry-After": "5"}, request=request).raise_for_status()


def chained() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        raise Below(code=1, why="cause") from error


def in_context() -> None:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        raise ByName(code=2, why="context")  # noqa: B904 (a context, and no cause)


def in_hidden_context() -> None:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        raise ByName(code=2, why="context") from None


def noted() -> None:
    error = ValueError("noted")
    error.add_note("look here")
    raise error


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


WAYS: dict[str, Callable[[], Any]] = {
    "arguments by name": raising(ByName(code=504, why="slow")),
    "a subclass": raising(Below(code=5, why="x")),
    "slots": raising(Slotted(7)),
    "an OSError": Path("/nowhere/at/all").read_bytes,
    "an OSError of two files": raising(OSError(18, "Cross-device", "a", None, "b")),
    "a subclass of OSError": raising(DiskError("/data", retry=True)),
    "two bases": raising(Both("both")),
    "a dataclass": raising(Checked(3, {"a": [1]})),
    "unicode": lambda: b"\xff".decode(),
    "json": lambda: json.loads("{"),
    "sqlite": raising(sqlite3.OperationalError("no such table: nothing")),
    "pydantic": lambda: Answer(count="x"),
    "pydantic, a validator": lambda: Answer(count=1, kind="bad"),
    "pydantic, a type of its own": lambda: Answer(count=1, kind="custom"),
    "requests": http_error,
    "requests, no response": raising(requests.exceptions.ConnectionError("refused")),
    "httpx": httpx_error,
    "a timeout of httpx": raising(httpx.ReadTimeout("slow", request=httpx.Request("GET", "http://shop.test"))),
    "a group": raising(ExceptionGroup("several", [ValueError("a"), KeyError("b"), ByName(code=1, why="c")])),
    "a group of its own class": raising(Several("several", [ValueError("a")])),
    "a cause": chained,
    "a context": in_context,
    "a context that is not shown": in_hidden_context,
    "a note": noted,
    "an exception as argument": raising(RuntimeError("outer", ValueError("inner"))),
    "an import": raising(ImportError("no", name="shop", path="/x")),
    "an exit": raising(SystemExit(3)),
}


@rk.tool
def fail(how):  # type: ignore[no-untyped-def]
    WAYS[how]()


def seen(error: BaseException | None) -> Any:
    """What a program can see of an exception."""
    if error is None:
        return None
    attributes = {
        name: getattr(error, name, None)
        for name in ("errno", "strerror", "filename", "filename2", "code", "why", "retry", "details", "start", "doc")
    }
    inner = [seen(one) for one in getattr(error, "exceptions", ())]
    chain = [seen(error.__cause__), seen(error.__context__), error.__suppress_context__]
    notes = getattr(error, "__notes__", None)
    return type(error), str(error), repr(error.args), attributes, inner, chain, notes


def caught(how: str) -> BaseException:
    try:
        fail(how)
    except BaseException as error:
        return error
    raise AssertionError("not raised")


def both(store: rk.Store, agent: Callable[[], Any]) -> tuple[Any, Any, Any]:
    with rk.record("agent", store=store) as run:
        recorded = agent()
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        replayed = agent()
    return recorded, replayed, replayer


@sampled("how", WAYS, count=2)
def test_an_exception_comes_back_as_it_was(store: rk.Store, how: str) -> None:
    recorded, replayed, replayer = both(store, lambda: caught(how))

    assert seen(replayed) == seen(recorded)
    assert replayer.all_deviations() == []


def test_a_validation_error_tells_what_is_wrong(store: rk.Store) -> None:
    for how in ("pydantic", "pydantic, a validator", "pydantic, a type of its own"):
        recorded, replayed, _ = both(store, lambda how=how: caught(how))  # type: ignore[misc]

        assert isinstance(replayed, ValueError)
        assert repr(replayed.errors()) == repr(recorded.errors())
        assert replayed.json() == recorded.json()


def test_an_http_error_has_its_response_and_request(store: rk.Store) -> None:
    for how, status, body in (("requests", 503, {"retry": True}), ("httpx", 429, {"wait": 5})):
        _, error, _ = both(store, lambda how=how: caught(how))  # type: ignore[misc]

        assert error.response.status_code == status
        assert error.response.json() == body
        assert error.response.headers["retry-after"] in ("3", "5")
        assert json.loads(error.response.text) == body
        assert error.request.method == "GET"
        assert str(error.request.url) == "http://shop.test/x"


def test_a_group_is_taken_apart_by_except_star(store: rk.Store) -> None:
    def agent() -> list[str]:
        heard = []
        try:
            fail("a group")
        except* ValueError as group:
            heard += [repr(error) for error in group.exceptions]
        except* (KeyError, ByName) as group:
            heard += [str(error) for error in group.exceptions]
        return heard

    recorded, replayed, _ = both(store, agent)

    assert replayed == recorded == ["ValueError('a')", "'b'", "1: c"]


def test_the_context_of_the_agent_is_its_own_exception(store: rk.Store) -> None:
    def agent() -> list[Any]:
        try:
            raise LookupError("mine")
        except LookupError as mine:
            error = caught("a context")
            behind = error.__context__
            return [type(behind), behind is not None and behind.__context__ is mine, str(error)]

    recorded, replayed, _ = both(store, agent)

    assert replayed == recorded == [ZeroDivisionError, True, "2: context"]


def test_a_subclass_is_caught_by_its_bases_also_where_it_is_gone(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rk.record("agent", store=store) as run, pytest.raises(Below):
        fail("a subclass")
    monkeypatch.delitem(globals(), "Below")
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer, pytest.raises(ByName) as raised:
        fail("a subclass")

    assert raised.value.code == 5
    assert isinstance(raised.value, RecordedError)
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["unbuilt"]


def test_an_exception_that_only_the_tool_knows_is_reported_when_it_is_recorded(store: rk.Store) -> None:
    @rk.tool
    def odd() -> None:
        class Inside(Exception):
            pass

        raise Inside("x")

    with pytest.warns(RecordingWarning, match="`odd` raised a .*Inside"), rk.record("agent", store=store) as run:
        with pytest.raises(Exception, match="x"):
            odd()

    assert [event.kind if hasattr(event, "kind") else event.name for event in store.load(run.id).events] == [
        "tool_call",
        "replaykit.unbuilt",
    ]


def test_what_nobody_looks_at_in_an_exception_leaves_the_replay_certain(store: rk.Store) -> None:
    @rk.tool
    def connect() -> None:
        error = ConnectionError("refused")
        error.pool = threading.Lock()  # type: ignore[attr-defined]
        raise error

    def agent() -> str:
        try:
            connect()
        except ConnectionError as error:
            return str(error)
        return ""

    recorded, replayed, replayer = both(store, agent)

    assert replayed == recorded
    assert replayer.all_deviations() == []


def failed_call(**error: Any) -> rk.Tape:
    info = ErrorInfo(**error)
    return rk.Tape([ToolCall(seq=0, name="ask", arguments_json=Raw(canonical({})), error=info)])


def test_an_error_of_a_trace_is_a_tool_error_also_the_first_in_a_process() -> None:
    """In a process of its own: the name is loaded on first use."""
    import subprocess
    import sys

    program = """
import replaykit as rk
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.values import Raw
@rk.tool
def ask(): raise AssertionError("live")
call = ToolCall(seq=0, name="ask", arguments_json=Raw(b"{}"), error=ErrorInfo(type="ToolError", message="no"))
with rk.replaying(rk.Tape([call])):
    try:
        ask()
    except rk.ToolError as error:
        print("caught", error, error.status, error.response)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "caught no 0 None\n"


def test_a_tools_own_tool_error_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    own = type("ToolError", (Exception,), {"__module__": __name__})
    monkeypatch.setitem(globals(), "ToolError", own)

    @rk.tool
    def ask() -> None:
        raise AssertionError("live")

    with rk.replaying(failed_call(type="ToolError", message="no")), pytest.raises(own):
        ask()


def test_a_recorded_tool_error_has_its_status(store: rk.Store) -> None:
    @rk.tool
    def ask() -> None:
        raise ToolError("down", status=503, response={"a": 1})

    def agent() -> Any:
        try:
            ask()
        except rk.ToolError as error:
            return error.status, error.response, str(error)

    recorded, replayed, _ = both(store, agent)

    assert replayed == recorded == (503, {"a": 1}, "down")


def test_an_error_without_a_module_is_no_reason_for_doubt() -> None:
    """Traces of other tools name classes that nobody has; that is all they can say."""

    @rk.tool
    def ask() -> None:
        raise AssertionError("live")

    with rk.replaying(failed_call(type="GatewayError", message="no")) as replayer:
        with pytest.raises(RecordedError, match="no"):
            ask()

    assert replayer.all_deviations() == []
