"""Shared by all tests: a store per test, and no leftovers of the machine it runs on."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.left_open import collect_warnings, logged, stop_collecting, summary
from tests.matrix import QUICK, THOROUGH

import replaykit as rk

for profile, max_examples in (("quick", QUICK), ("thorough", THOROUGH)):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=max_examples,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
settings.load_profile("quick")

# Python and its children never see a Ctrl-C where whoever started it ignores it, as `nohup` does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_LOG = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """In development mode, collect what processes leave open, in the session that starts all others."""
    is_worker = hasattr(config, "workerinput")
    if sys.flags.dev_mode and not is_worker:
        config.stash[_LOG] = Path(tempfile.mkdtemp()) / "left-open.log"
        collect_warnings(config.stash[_LOG])


def pytest_unconfigure(config: pytest.Config) -> None:
    if log := config.stash.get(_LOG, None):
        stop_collecting()
        shutil.rmtree(log.parent)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where processes left something open."""
    log = session.config.stash.get(_LOG, None)
    if log and logged(log) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    log = config.stash.get(_LOG, None)
    if warnings := logged(log) if log else []:
        terminalreporter.section("left open in processes that tests started", red=True)
        for line in summary(warnings):
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: what is imported for them stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Make collections of garbage cheap: all tests and their modules are half a gigabyte, which none need look at."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Fail a test, in development mode, that leaves open what only the garbage collector closes.

    A connection of sqlite3 refers to itself: without a collection its warning would come in some later test, or never.
    What survives stays: the next collection does not look at it again, or each would take longer than the last.
    """
    yield
    if sys.flags.dev_mode:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def own_directory(nothing_left_open: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in a directory of its own."""
    ours = ("STORE", "SAMPLE", "DEBUG", "REDACT", "REDACTION_KEY", "REDACTION_RULES")
    for name in (*(f"REPLAYKIT_{name}" for name in ours), "NO_COLOR", "PYTHONUNBUFFERED", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # The guards inside Python and Node have to hold without the kernel's help, and many tests look at written files.
    # The tests of confinement turn isolation on; `REPLAYKIT_TEST_ISOLATION=full` does it for all.
    monkeypatch.setenv("REPLAYKIT_ISOLATION", os.environ.get("REPLAYKIT_TEST_ISOLATION", "process"))
    # Python takes a file that was written again within a second, at the same length, for the one it has compiled.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[rk.Store]:
    with rk.Store.open(tmp_path / "store.db") as opened:
        yield opened
