"""Log records and warnings of tools: noted where the agent itself takes them in."""

from __future__ import annotations

import io
import logging
import logging.handlers
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import replaykit as rk

LOG = logging.getLogger("tests.emissions")
RECORDS: list[str] = []


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rk.RecordingWarning)
        yield
    LOG.handlers.clear()


def changes(agent: Callable[[], Any], store: rk.Store) -> list[tuple[str, ...]]:
    with rk.record("agent", store=store) as run:
        agent()
    return [call.mutated for call in store.load(run.id).calls]


class Collecting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []
        self.written = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())
        self.written += 1


class Remembering(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        RECORDS.append(record.getMessage())


class Printing(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines_printed = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines_printed += 1


@rk.tool
def fail() -> None:
    LOG.warning("slow")


@rk.tool
def warn() -> None:
    warnings.warn("old", DeprecationWarning, stacklevel=1)


@rk.tool
def warn_and_catch() -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    return len(caught)


def test_records_that_a_handler_of_the_agent_keeps_are_noted(store: rk.Store) -> None:
    def agent() -> int:
        handler = Collecting()
        LOG.addHandler(handler)
        LOG.warning("by the agent")
        fail()
        return len(handler.records)

    assert changes(agent, store) == [("Collecting.records",)]


def test_records_that_a_handler_puts_elsewhere_are_noted(store: rk.Store) -> None:
    def agent() -> bool:
        LOG.addHandler(Remembering())
        fail()
        return "slow" in RECORDS

    assert changes(agent, store) == [(f"Remembering.{__name__}.RECORDS",)]


def test_records_in_a_text_that_the_agent_reads_are_noted(store: rk.Store) -> None:
    def agent() -> bool:
        stream = io.StringIO()
        LOG.addHandler(logging.StreamHandler(stream))
        fail()
        return "slow" in stream.getvalue()

    assert changes(agent, store) == [("logging.StreamHandler.stream",)]


def test_records_that_a_handler_of_the_standard_library_keeps_are_noted(store: rk.Store) -> None:
    def agent() -> int:
        handler = logging.handlers.MemoryHandler(10)
        LOG.addHandler(handler)
        fail()
        return len(handler.buffer)

    assert changes(agent, store) == [("logging.MemoryHandler.buffer",)]


def test_records_that_are_only_passed_on_are_not_noted(store: rk.Store) -> None:
    def agent() -> None:
        LOG.addHandler(logging.handlers.MemoryHandler(10))
        fail()

    assert changes(agent, store) == [()]


def test_records_that_nobody_reads_are_not_noted(store: rk.Store) -> None:
    def agent() -> None:
        LOG.addHandler(Printing())
        LOG.addHandler(logging.StreamHandler(io.StringIO()))
        fail()

    assert changes(agent, store) == [()]


def test_warnings_that_the_agent_catches_are_noted(store: rk.Store) -> None:
    def agent() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn()
            warn_and_catch()
        return len(caught)

    assert changes(agent, store) == [("warnings.catch_warnings()",), ()]


def test_warnings_about_the_recording_are_not_among_those_that_the_agent_catches(store: rk.Store) -> None:
    counts = []

    def agent() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn()
        counts.append(len(caught))

    changes(agent, store)
    assert counts == [1]


def test_warnings_that_nobody_catches_are_not_noted(store: rk.Store) -> None:
    def agent() -> None:
        warn()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert changes(agent, store) == [()]
