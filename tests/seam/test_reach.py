"""What tools change beside their arguments: noted while recording, since a replay does not repeat it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk

NOTES: list[str] = []
PRICES = {"lamp": 49}
LOCAL = threading.local()
COUNT = 0
USER = contextvars.ContextVar("USER", default="")
OPTIONS = contextvars.ContextVar[object]("OPTIONS")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rk.RecordingWarning)
        yield


def changes(agent: Callable[[], Any], store: rk.Store) -> list[tuple[str, ...]]:
    """Return what each call of the agent is recorded to have changed."""
    with rk.record("agent", store=store) as run:
        agent()
    return [call.mutated for call in store.load(run.id).calls]


class Bot:
    def __init__(self) -> None:
        self.errors = 0
        self.history: list[str] = []
        self.client: object | None = None
        self.name = "bot"
        self.unread_count = 0

    def has_failed(self) -> bool:
        return self.errors > 0 or bool(self.history)

    @functools.cached_property
    def url(self) -> str:
        return f"http://{self.name}"

    @rk.tool
    def fail(self) -> None:
        self.errors += 1
        self.history.append("failed")

    @rk.tool
    def ask(self) -> None:
        self.unread_count += 1

    @rk.tool
    def connect(self) -> str:
        self.client = object()
        return self.url

    @rk.tool
    async def fail_later(self) -> None:
        await asyncio.sleep(0)
        self.errors += 1

    @rk.tool
    def fail_twice(self) -> Any:
        self.errors += 1
        yield 1


def test_fields_that_a_method_changes_are_noted(store: rk.Store) -> None:
    assert changes(Bot().fail, store) == [("self.errors", "self.history")]


def test_a_field_that_only_tools_look_at_is_not_noted(store: rk.Store) -> None:
    assert changes(Bot().ask, store) == [()]


def test_a_client_that_is_made_at_first_use_is_no_change(store: rk.Store) -> None:
    assert changes(Bot().connect, store) == [()]


def test_awaited_methods_and_streams_are_looked_at_when_they_end(store: rk.Store) -> None:
    def agent() -> None:
        asyncio.run(Bot().fail_later())
        list(Bot().fail_twice())

    assert changes(agent, store) == [("self.errors",), ("self.errors",)]


@rk.tool
def take_note(text: str) -> str:
    NOTES.append(text)
    return text


@rk.tool
def count() -> None:
    global COUNT
    COUNT += 1


def has_asked() -> bool:
    return COUNT > 0 and LOCAL.user == "me"


@rk.tool
def set_local(user: str) -> None:
    LOCAL.user = user


@rk.tool
def price(item: str) -> int:
    return PRICES[item]


def test_globals_that_a_tool_assigns_are_noted(store: rk.Store) -> None:
    def agent() -> None:
        take_note("a")
        count()
        set_local("me")
        price("lamp")
        assert has_asked()

    expected = [(), (f"{__name__}.COUNT",), (f"{__name__}.LOCAL",), ()]
    assert changes(agent, store) == expected


@rk.tool
def enter(user: str) -> None:
    USER.set(user)
    OPTIONS.set(object())


@rk.tool
def enter_and_leave(user: str) -> None:
    USER.reset(USER.set(user))


def test_context_variables_with_another_plain_value_are_noted(store: rk.Store) -> None:
    def agent() -> None:
        enter_and_leave("me")
        enter("me")
        enter("me")

    recorded = contextvars.copy_context().run(changes, agent, store)
    assert recorded == [(), ("ContextVar('USER')",), ()]


@rk.tool
def set_variable(name: str, value: str) -> None:
    os.environ[name] = value


@rk.tool
def set_variable_for_a_while(name: str) -> None:
    os.environ[name] = "x"
    del os.environ[name]


@rk.tool
def outer(name: str) -> None:
    set_variable(name, "x")


def test_variables_of_the_process_are_noted_for_the_call_that_the_agent_made(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACH_A", "before")
    monkeypatch.setenv("REACH_B", "before")

    def agent() -> None:
        set_variable("REACH_A", "after")
        set_variable_for_a_while("REACH_C")
        outer("REACH_B")

    changed = ["os.environ['REACH_A']"], [], [], ["os.environ['REACH_B']"]
    found = changes(agent, store)
    assert sorted(map(list, found)) == sorted(changed)


def test_the_working_directory_is_noted(store: rk.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    @rk.tool
    def go_to(directory: str) -> None:
        os.chdir(directory)

    assert changes(lambda: go_to("elsewhere"), store) == [("os.getcwd()",)]


def test_the_sentence_tells_arguments_from_other_things() -> None:
    from replaykit.model.unreplayable import unrepeated_text

    text = unrepeated_text("ask", ["rows", "self.errors"])
    assert text == "`ask` changed what it was given as `rows` and `self.errors`; a replay cannot repeat that"
