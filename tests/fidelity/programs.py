"""Random concurrent agents as data: a tree of actions, its deciding moments, and edits of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from tests.fidelity.answers import ERRORS, VALUES

KEYS = ("a", "b", "c")
DELAYS_MS = (5, 20, 150, 290)
LIMITS_MS = (80, 220)
POLL_MS = 145


@dataclass(frozen=True)
class Node:
    """An action: a call, a sleep, or a way to run its parts."""

    kind: str
    parts: tuple[Node, ...] = ()
    key: str = ""
    answer: str = "int"
    delay_ms: int = 0
    """How long a call or a sleep takes."""
    limit_ms: int = 0
    """How long somebody waits for the parts."""

    def __str__(self) -> str:
        if self.kind == "call":
            return f"{self.key}{self.delay_ms}:{self.answer}"
        if self.kind == "sleep":
            return f"sleep{self.delay_ms}"
        return f"{self.kind}{self.limit_ms or ''}({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Program:
    """A whole agent: a tree, run by asyncio or by threads."""

    root: Node
    threads: bool = False

    def __str__(self) -> str:
        return f"{'threads' if self.threads else 'asyncio'} {self.root}"

    def json(self) -> dict[str, Any]:
        """The program as JSON."""
        return asdict(self)


def program_of(data: dict[str, Any]) -> Program:
    """The program that `json` wrote."""
    return Program(_node_of(data["root"]), data["threads"])


def _node_of(data: dict[str, Any]) -> Node:
    return Node(**{**data, "parts": tuple(map(_node_of, data["parts"]))})


def _calls(answers: list[str]) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        kind=st.just("call"),
        key=st.sampled_from(KEYS),
        answer=st.sampled_from(answers),
        delay_ms=st.sampled_from(DELAYS_MS),
    )


_CALL = _calls([*VALUES, *ERRORS])
_SLEEP = st.builds(Node, kind=st.just("sleep"), delay_ms=st.sampled_from((10, 70)))
_LEAF = st.one_of(_CALL, _CALL, _CALL, _SLEEP)


def _inner(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    one = parts.map(lambda part: (part,))
    limit = st.sampled_from(LIMITS_MS)
    return st.one_of(
        st.builds(Node, kind=st.just("sequence"), parts=several),
        st.builds(Node, kind=st.sampled_from(("gather", "race", "as_completed", "callbacks")), parts=several),
        st.builds(Node, kind=st.sampled_from(("race", "as_completed", "callbacks")), parts=several.map(_spread)),
        st.builds(Node, kind=st.sampled_from(("timeout", "cancel", "queue")), parts=one, limit_ms=limit),
        st.builds(Node, kind=st.just("wait"), parts=several, limit_ms=limit),
        st.builds(Node, kind=st.just("deadline"), parts=_CALL.map(lambda call: (call,)), limit_ms=limit),
        st.builds(Node, kind=st.just("retry"), parts=one),
        st.builds(Node, kind=st.just("group"), parts=st.lists(_CALL, min_size=2, max_size=3).map(tuple).map(_spread)),
        st.builds(Node, kind=st.just("hedge"), parts=st.tuples(_CALL, _CALL), limit_ms=limit),
    )


def _spread(parts: tuple[Node, ...]) -> tuple[Node, ...]:
    """The parts with calls that end far apart, so that their order is beyond doubt."""
    delays = [150, 5, 290]
    return tuple(
        replace(part, delay_ms=delay) if part.kind == "call" else part
        for part, delay in zip(parts, delays, strict=False)
    )


def programs() -> st.SearchStrategy[Program]:
    """Random programs of up to about eight calls, and at least one: a recording of none holds nothing to replay."""
    trees = st.recursive(_LEAF, _inner, max_leaves=7)
    return st.builds(Program, root=_inner(trees).filter(_has_call), threads=st.booleans())


def _has_call(node: Node) -> bool:
    return node.kind == "call" or any(map(_has_call, node.parts))


@dataclass
class Plan:
    """A simulated run: when it ends, which way it goes, and how far apart the moments are that decide it."""

    ends_ms: float
    branch: Any
    distances_ms: list[float] = field(default_factory=list)
    begins_ms: dict[str, float] = field(default_factory=dict)
    """When each call begins, by its place in the run."""
    part_ends_ms: dict[str, float] = field(default_factory=dict)
    """When each call and each sleep ends."""

    @property
    def closest_ms(self) -> float:
        """The smallest distance between two deciding moments."""
        return min(self.distances_ms, default=float("inf"))


def planned(program: Program) -> Plan:
    """Simulate a program on a machine that takes no time."""
    plan = Plan(0.0, None)
    plan.ends_ms, plan.branch = _simulate(program.root, 0.0, "0", plan)
    return plan


def _simulate(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    return _RULES[node.kind](node, at, place, plan)


def _sim_call(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    plan.begins_ms[place] = at
    plan.part_ends_ms[place] = at + node.delay_ms
    return at + node.delay_ms, "raised" if node.answer in ERRORS else "returned"


def _sim_sleep(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    plan.part_ends_ms[place] = at + node.delay_ms
    return at + node.delay_ms, "slept"


def _sim_sequence(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    branches = []
    for number, part in enumerate(node.parts):
        at, branch = _simulate(part, at, f"{place}.{number}", plan)
        branches.append(branch)
    return at, branches


def _parts(node: Node, at: float, place: str, plan: Plan) -> list[tuple[float, Any]]:
    return [_simulate(part, at, f"{place}.{number}", plan) for number, part in enumerate(node.parts)]


def _sim_gather(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    ended = _parts(node, at, place, plan)
    return max(end for end, _ in ended), [branch for _, branch in ended]


def _sim_race(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    ended = _parts(node, at, place, plan)
    ends = sorted(end for end, _ in ended)
    plan.distances_ms.append(ends[1] - ends[0])
    winner = min(range(len(ended)), key=lambda number: ended[number][0])
    return ends[0], ["won", winner, ended[winner][1]]


def _sim_order(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    ended = _parts(node, at, place, plan)
    ends = sorted(end for end, _ in ended)
    plan.distances_ms += [later - earlier for earlier, later in itertools.pairwise(ends)]
    order = sorted(range(len(ended)), key=lambda number: ended[number][0])
    return ends[-1], ["order", order, [ended[number][1] for number in order]]


def _sim_limit(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    end, branch = _simulate(node.parts[0], at, f"{place}.0", plan)
    limit = at + node.limit_ms
    plan.distances_ms.append(abs(end - limit))
    return (end, ["in time", branch]) if end <= limit else (limit, ["too late"])


def _sim_wait(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    ended = _parts(node, at, place, plan)
    limit = at + node.limit_ms
    plan.distances_ms += [abs(end - limit) for end, _ in ended]
    last = max(end for end, _ in ended)
    branches = [branch if end <= limit else "pending" for end, branch in ended]
    return min(last, limit), ["waited", branches]


def _sim_deadline(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    limit, polls = at + node.limit_ms, []
    while at < limit:
        plan.distances_ms.append(limit - at)
        at, branch = _simulate(node.parts[0], at, f"{place}.0[{len(polls)}]", plan)
        polls.append(branch)
        at += POLL_MS
    plan.distances_ms.append(at - limit)
    return at, ["polled", len(polls), polls]


def _sim_retry(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    branch: Any = None
    for attempt in range(2):
        at, branch = _simulate(node.parts[0], at, f"{place}.0[{attempt}]", plan)
        if branch != "raised":
            return at, ["attempt", attempt, branch]
        at += 10
    return at, ["gave up", branch]


def _sim_group(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    """The first part that raises ends the whole group."""
    ended = sorted((end, number, branch) for number, (end, branch) in enumerate(_parts(node, at, place, plan)))
    plan.distances_ms += [later[0] - earlier[0] for earlier, later in itertools.pairwise(ended)]
    seen = []
    for end, number, branch in ended:
        seen.append([number, branch])
        if branch == "raised":
            return end, ["group", seen]
    return ended[-1][0], ["group", seen]


def _sim_hedge(node: Node, at: float, place: str, plan: Plan) -> tuple[float, Any]:
    first, branch = _simulate(node.parts[0], at, f"{place}.0", plan)
    limit = at + node.limit_ms
    plan.distances_ms.append(abs(first - limit))
    if first <= limit:
        return first, ["no hedge", branch]
    second, other = _simulate(node.parts[1], limit, f"{place}.1", plan)
    plan.distances_ms.append(abs(first - second))
    return (first, ["won", 0, branch]) if first <= second else (second, ["won", 1, other])


_RULES = {
    "call": _sim_call,
    "sleep": _sim_sleep,
    "sequence": _sim_sequence,
    "gather": _sim_gather,
    "race": _sim_race,
    "as_completed": _sim_order,
    "callbacks": _sim_order,
    "timeout": _sim_limit,
    "cancel": _sim_limit,
    "queue": _sim_limit,
    "wait": _sim_wait,
    "deadline": _sim_deadline,
    "retry": _sim_retry,
    "group": _sim_group,
    "hedge": _sim_hedge,
}

EDITS = ("insert", "insert equal", "remove", "move", "change")


def edited(program: Program, edit: str, chance: random.Random) -> Program | None:
    """The program with one edit, or None where it has no place for it."""
    places = [place for place in _places(program.root) if _takes(_at(program.root, place), edit)]
    if not places:
        return None
    place = chance.choice(places)
    node = _edit(_at(program.root, place), edit, chance)
    return Program(_with(program.root, place, node), program.threads)


_LISTS = ("sequence", "gather", "as_completed", "callbacks", "wait")


def _takes(node: Node, edit: str) -> bool:
    if edit == "change":
        return node.kind == "call"
    if edit in ("insert", "insert equal"):
        return node.kind in _LISTS and (edit == "insert" or any(part.kind == "call" for part in node.parts))
    return node.kind in _LISTS and len(node.parts) > 1


def _edit(node: Node, edit: str, chance: random.Random) -> Node:
    if edit == "change":
        return replace(node, key=chance.choice([key for key in (*KEYS, "d") if key != node.key]))
    parts = list(node.parts)
    if edit == "remove":
        del parts[chance.randrange(len(parts))]
    elif edit == "move":
        parts.insert(chance.randrange(len(parts)), parts.pop(chance.randrange(len(parts))))
    else:
        calls = [part for part in parts if part.kind == "call"]
        key = "d" if edit == "insert" else chance.choice(calls).key
        parts.insert(chance.randrange(len(parts) + 1), Node("call", key=key, delay_ms=5))
    return replace(node, parts=tuple(parts))


def _places(node: Node, place: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield place
    for number, part in enumerate(node.parts):
        yield from _places(part, (*place, number))


def _at(node: Node, place: tuple[int, ...]) -> Node:
    for number in place:
        node = node.parts[number]
    return node


def _with(node: Node, place: tuple[int, ...], new: Node) -> Node:
    if not place:
        return new
    parts = list(node.parts)
    parts[place[0]] = _with(parts[place[0]], place[1:], new)
    return replace(node, parts=tuple(parts))
