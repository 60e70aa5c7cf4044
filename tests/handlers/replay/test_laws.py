"""The law of replay: whatever an agent does, replaying its recording gives the same again, without the world."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.model.matching import MatchMode

WORLD = itertools.count()


class Refused(Exception):
    pass


@rk.tool
def ask(key: str) -> list[Any]:
    answer = next(WORLD)
    if key == "fails":
        raise Refused(f"{key} {answer}")
    return [key, answer]


@rk.tool
async def aask(key: str) -> tuple[str, int]:
    await asyncio.sleep(0)
    return key, next(WORLD)


KEY = st.sampled_from(["a", "b", "fails"])
PROGRAM = st.recursive(
    st.tuples(st.just("ask"), KEY),
    lambda inner: st.one_of(
        st.tuples(st.just("sequence"), st.lists(inner, max_size=4)),
        st.tuples(st.just("threads"), st.lists(inner, max_size=4)),
        st.tuples(st.just("retry"), inner),
        st.tuples(st.just("tool"), st.lists(inner, max_size=3)),
        st.tuples(st.just("gather"), st.lists(st.sampled_from(["a", "b"]), max_size=4)),
    ),
    max_leaves=12,
)


def perform(program: Any) -> Any:
    """Run one program; its value says everything that the agent saw."""
    kind, detail = program
    if kind == "ask":
        try:
            return ask(detail)
        except Refused as error:
            return f"refused: {error}"
    if kind == "sequence":
        return [perform(part) for part in detail]
    if kind == "threads":
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(perform, detail))
    if kind == "retry":
        return [perform(detail), perform(detail)]
    if kind == "tool":
        return nested(detail)
    return asyncio.run(gathered(detail))


@rk.tool
def nested(parts: list[Any]) -> list[Any]:
    return [perform(part) for part in parts]


async def gathered(keys: list[str]) -> list[Any]:
    return list(await asyncio.gather(*[aask(key) for key in keys]))


@given(PROGRAM)
def test_replaying_a_recording_gives_the_same_and_touches_nothing(store: rk.Store, program: Any) -> None:
    with rk.record("law", store=store) as run:
        recorded = perform(program)
    before = next(WORLD)
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        replayed = perform(program)

    assert replayed == recorded
    assert next(WORLD) == before + 1
    assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []


@given(st.lists(KEY, max_size=8))
def test_every_mode_serves_unchanged_sequential_code(store: rk.Store, keys: list[str]) -> None:
    program = ("sequence", [("ask", key) for key in keys])
    with rk.record("law", store=store) as run:
        recorded = perform(program)
    tape = rk.Tape.of(store.load(run.id))

    for mode in MatchMode:
        with rk.replaying(tape, rk.MatchRules(mode=mode)) as replayer:
            assert perform(program) == recorded
        assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []
