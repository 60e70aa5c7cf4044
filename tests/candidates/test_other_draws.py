"""Chance that a recording could not hold: a verdict has to hold whatever the candidate draws."""

from __future__ import annotations

import gc
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

import replaykit as rk
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worlds import world_of
from replaykit.model.pins import Clock, Pins
from replaykit.model.result import Verdict
from replaykit.seam.pinning import pinned


@rk.tool
def look(item: str) -> str:
    return f"no {item}"


def recorded_case(store: rk.Store, agent: Callable[[str], Any]) -> rk.TraceRun:
    with pytest.raises(LookupError), rk.record("shop", input="lamp", store=store) as recording:
        agent("lamp")
    run = store.load(recording.id)
    rk.scaffold(run, "case")
    return run


def outcomes_of(*fails: bool) -> Iterator[bool]:
    """What each run of an agent comes to, in the place of what it would decide by its draw; then it goes well."""
    yield from fails
    while True:
        yield False


def drawing(fails: Iterator[bool]) -> Callable[[str], str]:
    def agent(item: str) -> str:
        secrets.token_bytes(4)
        look(item)
        if next(fails):
            raise LookupError("unlucky")
        return "lucky"

    return agent


def test_a_fix_that_another_draw_takes_back_is_none(store: rk.Store) -> None:
    agent = drawing(outcomes_of(True, False, False, False, True))
    recorded_case(store, agent)

    result = rk.replay("case", agent)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "it depends on chance: the recorded agent drew from `secrets`" in result.reason
    assert "fixed with some draws and reproduced with others" in result.reason


def test_a_fix_that_holds_in_every_draw_is_one(store: rk.Store) -> None:
    recorded_case(store, drawing(outcomes_of(True)))
    runs: list[str] = []

    def fixed(item: str) -> str:
        runs.append(look(item))
        return "lucky"

    assert rk.replay("case", fixed).verdict is Verdict.FIXED
    assert len(runs) == 12


def test_a_failure_that_is_seen_again_needs_no_other_draw(store: rk.Store) -> None:
    agent = drawing(outcomes_of(True, True))
    recorded_case(store, agent)

    assert rk.replay("case", agent).verdict is Verdict.REPRODUCED


def test_another_failure_that_another_draw_takes_back_is_none(store: rk.Store) -> None:
    recorded_case(store, drawing(outcomes_of(True)))
    fails = outcomes_of(True, True)

    def breaks_otherwise(item: str) -> str:
        look(item)
        if next(fails):
            raise ValueError("another failure")
        return "lucky"

    result = rk.replay("case", breaks_otherwise)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "broken with some draws and fixed with others" in result.reason


@pytest.mark.parametrize(
    "draw",
    [
        lambda: secrets.randbelow(3),
        lambda: os.urandom(4),
        lambda: random.SystemRandom().choice([0, 1, 2]),
        lambda: random.SystemRandom().random(),
        lambda: secrets.token_urlsafe(),
    ],
)
def test_what_the_agents_own_code_draws_is_noted(store: rk.Store, draw: Callable[[], Any]) -> None:
    with rk.record("draws", store=store) as run:
        draw()

    assert store.load(run.id).chance.not_held == ("secrets",)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda: time.process_time(), "cpu_time"),
        (lambda: time.thread_time_ns(), "cpu_time"),
        (lambda: os.times(), "cpu_time"),
        (lambda: process_time(), "cpu_time"),
        (lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID), "cpu_time"),
        (lambda: psutil.Process().cpu_times(), "cpu_time"),
        (lambda: psutil.cpu_percent(interval=None), "cpu_time"),
        (lambda: tracemalloc.get_traced_memory(), "resources"),
        (lambda: psutil.Process().memory_info(), "resources"),
        (lambda: psutil.virtual_memory(), "resources"),
        (lambda: shutil.disk_usage("."), "resources"),
        (lambda: gc.get_objects(0), "resources"),
        (lambda: os.getloadavg(), "resources"),
        (lambda: os.getpid(), "process_id"),
    ],
)
def test_what_only_this_process_can_answer_is_noted(store: rk.Store, read: Callable[[], Any], name: str) -> None:
    before = (time.process_time, time.thread_time_ns, os.times, os.getpid)

    with rk.record("reads", store=store) as run:
        read()

    assert store.load(run.id).chance.not_held == (name,)
    assert (time.process_time, time.thread_time_ns, os.times, os.getpid) == before


@pytest.mark.parametrize(
    "read",
    [
        lambda: secrets.token_hex(),
        lambda: os.urandom(4),
        lambda: hash("text"),
        lambda: time.process_time(),
        lambda: tracemalloc.get_traced_memory(),
        lambda: os.getpid(),
    ],
)
def test_what_a_tool_draws_or_reads_decides_nothing(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any]
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)

    @rk.tool
    def measure() -> str:
        return str(read())

    with rk.record("reads", store=store) as run:
        measure()

    assert store.load(run.id).chance.not_held == ()


def test_a_fix_of_an_agent_that_read_its_memory_is_in_doubt(store: rk.Store, own_directory: Path) -> None:
    def agent(item: str) -> str:
        tracemalloc.get_traced_memory()
        look(item)
        raise LookupError("sold out")

    recorded_case(store, agent)
    result = rk.replay("case", look)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "memory" in result.reason


def test_a_fix_of_an_agent_that_read_its_cpu_time_is_in_doubt(store: rk.Store, own_directory: Path) -> None:
    def agent(item: str) -> str:
        time.process_time()
        look(item)
        raise LookupError("sold out")

    recorded_case(store, agent)
    result = rk.replay("case", look)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "CPU time" in result.reason
    assert rk.replay("case", agent).verdict is Verdict.REPRODUCED


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000_000])
def test_a_seed_that_is_the_time_is_held(store: rk.Store, own_directory: Path, unit: int) -> None:
    drawn: list[float] = []

    def agent(item: str) -> str:
        drawn.append(random.Random(int(time.time() * unit)).random())
        random.seed(time.time() * unit)
        drawn.append(random.random())
        look(f"{item} {drawn[-2:]}")
        raise LookupError("sold out")

    recorded_case(store, agent)

    assert rk.replay("case", agent).verdict is Verdict.REPRODUCED
    assert drawn[:2] == drawn[2:]


def test_any_other_seed_is_the_agents_own(store: rk.Store) -> None:
    with rk.record("seeds", store=store):
        drawn = random.Random(4711).random(), random.Random(time.time() - 3600).getstate()[1][0]

    assert drawn[0] == random.Random(4711).random()


def test_a_constant_that_is_the_machine_s_uptime_is_no_time(store: rk.Store) -> None:
    seeds = [int(time.monotonic()) + more for more in (0, 1)]
    with rk.record("seeds", store=store):
        drawn = [random.Random(seed).random() for seed in seeds]

    assert drawn == [random.Random(seed).random() for seed in seeds]


def test_the_date_is_no_cpu_time(store: rk.Store) -> None:
    with rk.record("reads", store=store) as run:
        time.clock_gettime(time.CLOCK_REALTIME)

    assert store.load(run.id).chance.not_held == ()


def test_generators_seeded_with_one_moment_draw_alike(store: rk.Store) -> None:
    with rk.record("seeds", store=store):
        moment = int(time.time())
        one, other, later = random.Random(moment), random.Random(moment), random.Random(moment + 1)

    assert one.random() == other.random()
    assert one.random() != later.random()


def test_what_a_library_draws_is_noted_as_such_and_needs_no_other_draw(
    store: rk.Store, own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = own_directory / "site-packages"
    installed.mkdir()
    (installed / "keymaker.py").write_text(
        "import os, secrets\ndef key(): return os.urandom(8) + secrets.token_bytes(8)\n"
        "def place(text): return hash(text)\n"
    )
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    import keymaker  # type: ignore[import-not-found]

    def agent(item: str) -> str:
        keymaker.key()
        keymaker.place(item)
        look(item)
        raise LookupError("sold out")

    run = recorded_case(store, agent)
    runs: list[str] = []
    result = rk.replay("case", lambda item: runs.append(look(item)) or "fixed")

    assert run.chance.not_held == ("library_hashes", "library_secrets")
    assert (result.verdict, len(runs)) == (Verdict.FIXED, 1)


def test_names_of_temporary_files_are_no_draw_of_the_agent(store: rk.Store) -> None:
    with rk.record("draws", store=store) as run, tempfile.TemporaryDirectory():
        random.Random().random()
        uuid.uuid4()

    assert store.load(run.id).chance.not_held == ()


def drawn(draw: int) -> tuple[str, float]:
    with pinned(Pins(seed="run.00000001", draw=draw, clock=Clock.LIVE)):
        return secrets.token_hex(), random.random()


def test_another_draw_has_other_secrets_and_the_same_held_chance() -> None:
    (key, number), (same_key, _), (other_key, same_number) = drawn(0), drawn(0), drawn(1)

    assert key == same_key != other_key
    assert number == same_number


SHARDS = """
import replaykit as rk

@rk.tool
def look(item):
    return f"no {item}"

def even(item):
    look(item)
    if hash("customer") % 2 == 0:
        raise LookupError("unlucky")
    return "lucky"

def odd(item):
    look(item)
    if hash("customer") % 2 == 1:
        raise LookupError("unlucky")
    return "lucky"

def fixed(item):
    return look(item)
"""


@pytest.fixture
def sharded(store: rk.Store, own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of agents that decide by a hash, and a case of one of them that failed."""
    Path("shards.py").write_text(SHARDS)
    monkeypatch.syspath_prepend(str(own_directory))
    monkeypatch.setenv("PYTHONPATH", str(own_directory))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.delitem(sys.modules, "shards", raising=False)
    import shards  # type: ignore[import-not-found]

    recorded_case(store, shards.even if hash("customer") % 2 == 0 else shards.odd)
    return shards


@pytest.mark.usefixtures("sharded")
def test_every_process_has_other_hashes() -> None:
    verdicts = [rk.replay("case", PythonCandidate(f"shards:{name}")).verdict for name in ("even", "odd", "fixed")]

    assert sorted(verdicts[:2]) == [Verdict.INCONCLUSIVE, Verdict.REPRODUCED]
    assert verdicts[2] is Verdict.FIXED


def test_in_one_process_hashes_stay_as_they_are_and_a_fix_is_in_doubt(sharded: Any) -> None:
    result = rk.replay("case", sharded.fixed)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "it may depend on chance: the recorded agent used `hash`" in result.reason
    assert "--agent MODULE:FUNCTION" in result.reason


@pytest.mark.usefixtures("sharded")
def test_hashes_that_somebody_holds_are_not_changed() -> None:
    case = rk.load_case("case")
    other = replace(case, scenario=replace(case.scenario, draw=3))
    held = replace(other, scenario=replace(other.scenario, environment=(("PYTHONHASHSEED", "7"),)))

    assert world_of(other).pins.environment == {"PYTHONHASHSEED": "3"}
    assert world_of(held).pins.environment == {"PYTHONHASHSEED": "7"}
