"""Processes of one program, in a replay in which another of them does the work than in the recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import Divergence
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, ToolCall
from replaykit.model.matching import MatchMode, MatchRules
from replaykit.model.pins import NOW
from replaykit.model.values import Raw, canonical, raw
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import MAIN, PROXY, SHIM, ProcessLog, path_segment
from replaykit.programs.shared_tape import SharedMatcher, shared_tape
from replaykit.seam.scope import RunSession, pending_call


def recorded(seq: int, name: str, **arguments: object) -> ToolCall:
    """A call that the process of this name made."""
    return ToolCall(
        seq=seq, name="ask", path=path_segment(name), arguments_json=Raw(canonical(arguments)), result_json=raw(seq)
    )


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[list[ProcessLog]]:
    made: list[ProcessLog] = []
    yield made
    for part in made:
        part.end()


def part(
    parts: list[ProcessLog], tmp_path: Path, name: str, *calls: ToolCall, mode: MatchMode = MatchMode.CAUSAL
) -> ProcessLog:
    """A process that is served."""
    plan = ProgramPlan(mode=Mode.REPLAY, run_id="r1", store=str(tmp_path / "parts.db"))
    world = World(case_id="c1", calls=calls, rules=MatchRules(mode=mode))
    parts.append(ProcessLog.open(plan, world, iter([name])))
    return parts[-1]


def ask(part: ProcessLog, **arguments: object) -> object:
    """What the process is answered: the number of the recorded call."""
    answer = part.session.handler.serve(
        pending_call("tool_call", "ask", canonical(arguments), part.session.root, part.session.root.number("at"))
    )
    assert isinstance(answer, Call)
    return answer.result


@pytest.mark.parametrize(("one", "other"), [("worker#0", "worker#1"), (MAIN, "worker#0"), ("a#0", "b#0")])
def test_any_process_may_do_the_work_of_another_once(
    parts: list[ProcessLog], tmp_path: Path, one: str, other: str
) -> None:
    calls = (recorded(0, one, n=1), recorded(1, other, n=2))
    first, second = part(parts, tmp_path, one, *calls), part(parts, tmp_path, other, *calls)

    assert (ask(first, n=2), ask(second, n=1)) == (1, 0)
    for process in (first, second):
        for n in (1, 2):
            with pytest.raises(Divergence):
                ask(process, n=n)


def test_a_process_goes_to_its_own_calls_first(parts: list[ProcessLog], tmp_path: Path) -> None:
    calls = tuple(recorded(seq, f"worker#{seq % 2}") for seq in range(4))
    first, second = part(parts, tmp_path, "worker#0", *calls), part(parts, tmp_path, "worker#1", *calls)

    assert [ask(second), ask(second), ask(first)] == [1, 3, 0]
    assert ask(second) == 2
    with pytest.raises(Divergence):
        ask(first)


@pytest.mark.parametrize("mode", [MatchMode.SEQUENCE, MatchMode.STRICT])
def test_calls_that_are_found_by_their_order_are_not_shared(
    parts: list[ProcessLog], tmp_path: Path, mode: MatchMode
) -> None:
    calls = (recorded(0, "worker#0", n=1), recorded(1, "worker#1", n=2))
    process = part(parts, tmp_path, "worker#0", *calls, mode=mode)

    assert ask(process, n=1) == 0
    with pytest.raises(Divergence):
        ask(process, n=2)


def test_the_time_that_another_process_was_told_is_left_to_it(parts: list[ProcessLog], tmp_path: Path) -> None:
    told = msgspec.structs.replace(recorded(0, MAIN), name=NOW)
    first, second = part(parts, tmp_path, MAIN, told), part(parts, tmp_path, "worker#0", told)

    def now(part: ProcessLog) -> object:
        root = part.session.root
        return part.session.handler.serve(pending_call("tool_call", NOW, canonical({}), root, root.number("at")))

    assert now(second) is None, "it is asked anew"
    assert isinstance(now(first), Call)


@pytest.mark.parametrize("name", [PROXY, f"{SHIM}files#0"])
def test_what_stands_before_a_place_speaks_for_that_alone(parts: list[ProcessLog], tmp_path: Path, name: str) -> None:
    calls = (recorded(0, name, n=1), recorded(1, MAIN, n=2))
    place, process = part(parts, tmp_path, name, *calls), part(parts, tmp_path, MAIN, *calls)

    for asked, other in ((place, 2), (process, 1)):
        with pytest.raises(Divergence):
            ask(asked, n=other)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20), st.randoms(use_true_random=False))
def test_whoever_asks_each_recorded_call_is_served_once(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, int]], chance: object
) -> None:
    calls = [recorded(seq, MAIN, n=n) for seq, (_, n) in enumerate(made)]
    owners = {seq: owner for seq, (owner, _) in enumerate(made)}
    taken = tmp_path_factory.mktemp("session") / "taken"
    matchers = [
        SharedMatcher(
            shared_tape(
                Tape(call for call in calls if owners[call.seq] == own),
                [call for call in calls if owners[call.seq] != own],
            ),
            MatchRules(mode=MatchMode.ARGS),
            taken,
        )
        for own in range(3)
    ]
    asked = [(n, chance.randrange(3)) for _, n in made]  # type: ignore[attr-defined]
    chance.shuffle(asked)  # type: ignore[attr-defined]

    served = []
    for n, who in asked:
        found = matchers[who].take(pending_call("tool_call", "ask", canonical({"n": n}), _ROOT, 0.0))
        assert found is not None
        served.append(matchers[who].calls[found[0]])

    assert sorted(call.seq for call in served) == list(range(len(made)))
    assert [call.arguments["n"] for call in served] == [n for n, _ in asked]


class _Nothing:
    """The handler of a session in which nothing is called."""


_ROOT = RunSession(_Nothing()).root  # type: ignore[arg-type]
