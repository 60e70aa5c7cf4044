"""Assertions about all tool calls of a run, compared with the expected calls."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from typing import TypeAlias, TypeVar

from msgspec import Struct

from replaykit.checks.compare import ArgsMode, args_agree, same
from replaykit.checks.reading import first, glob, in_order, seq_of, shown, tools_in_order
from replaykit.checks.rule import Rule, Seen, Share, register
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import JsonObject
from replaykit.wire.json_fields import as_object

MAX_EXPECTED = 1_000
"""The most calls that one assertion may expect: pairing takes time proportional to expected times actual calls."""


class TrajectoryMode(StrEnum):
    """How a run's calls must relate to the expected ones. `subset` and `superset` describe the run's calls."""

    STRICT = "strict"  # exactly these calls, in this order
    IN_ORDER = "in_order"  # these calls in this order, possibly with others between
    UNORDERED = "unordered"  # exactly these calls, in any order
    SUBSET = "subset"  # only these calls, in any order; some may be missing
    SUPERSET = "superset"  # at least these calls, in any order


class TrajectoryCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call named by an assertion; without arguments, any will do."""

    tool: str
    arguments: JsonObject | None = None

    def __str__(self) -> str:
        if self.arguments is None:
            return self.tool
        return f"{self.tool}({shown(self.arguments)})"


Difference: TypeAlias = tuple[str, ToolCall | None]
"""The mistake in a run's calls, and the wrong call, if there is one."""
_NO_DIFFERENCE: Difference = ("", None)


@register("trajectory.match")
class TrajectoryMatch(Rule, frozen=True):
    """The agent's tool calls are these.

    | `mode` | the calls | in order | more | fewer |
    |---|---|---|---|---|
    | `strict` | are these | yes | no | no |
    | `in_order` | include these | yes | yes | no |
    | `unordered` | are these | no | no | no |
    | `subset` | are among these | no | no | yes |
    | `superset` | include these | no | yes | no |

    `subset` and `superset` describe the run's calls relative to the expected ones: an extra call passes only `superset`
    and `in_order`, a missing one only `subset`. Each expected call needs a call of its own. `args` is the relation of
    the arguments, as in `tool.args`; an expected call without arguments accepts any. `overrides` sets it for one tool:
    another mode, or the list of the only arguments to compare.

    `strict` and `in_order` take time in proportion to the run; the others to the run times the expected calls, at
    most 1000 of them.
    """

    plain = "calls"
    notes = {
        "calls": "the expected calls: a tool's name, or `{tool, arguments}`; a plain list sets this",
        "mode": "`strict`, `in_order`, `unordered`, `subset` or `superset`",
        "args": "`exact`, `superset`, `subset` or `ignore`",
        "overrides": "by tool: another `args`, or the names of the arguments to compare",
    }
    examples = (
        "trajectory.match: [lookup_billing, lookup_billing, send_email]",
        "trajectory.match: {calls: [lookup_*, send_email], mode: in_order}",
        "trajectory.match: {calls: [{tool: lookup_billing, arguments: {page: 2}}], mode: superset, args: superset}",
        "trajectory.match: {calls: [{tool: send_email, arguments: {cc: []}}], mode: superset, "
        "overrides: {send_email: [cc]}}",
    )
    calls: list[str | TrajectoryCall]
    mode: TrajectoryMode = TrajectoryMode.STRICT
    args: ArgsMode = ArgsMode.EXACT
    overrides: dict[str, ArgsMode | list[str]] = {}

    def __post_init__(self) -> None:
        if len(self.calls) > MAX_EXPECTED:
            raise ValueError(f"expected at most {MAX_EXPECTED:,} calls, got {len(self.calls):,}")

    def seen_in(self, run: TraceRun) -> Seen:
        calls = [call if isinstance(call, TrajectoryCall) else TrajectoryCall(tool=call) for call in self.calls]
        difference, call = self._difference(calls, run.tool_calls)
        names = in_order(call.name for call in run.tool_calls)
        return Seen(
            holds=not difference,
            text=f"Tools called: {names}",
            expected=f"tools {in_order(map(str, calls))} ({self.mode.value})",
            actual=f"tools {names}; {difference}" if difference else f"tools {names}",
            seq=seq_of(call, run),
        )

    def _difference(self, expected: list[TrajectoryCall], calls: list[ToolCall]) -> Difference:
        """Return the first mistake in the calls, if any."""
        if self.mode is TrajectoryMode.STRICT:
            return self._strict_difference(expected, calls)
        if self.mode is TrajectoryMode.IN_ORDER:
            remaining = iter(calls)
            for expected_call in expected:
                if first(remaining, partial(self._fits, expected_call)) is None:
                    return _missing(expected_call)
            return _NO_DIFFERENCE
        pairs = paired(expected, calls, self._fits)
        if self.mode is not TrajectoryMode.SUBSET:
            for index, expected_call in enumerate(expected):
                if index not in pairs:
                    return _missing(expected_call)
        if self.mode is not TrajectoryMode.SUPERSET:
            met = set(pairs.values())
            for index, call in enumerate(calls):
                if index not in met:
                    return _unexpected(call)
        return _NO_DIFFERENCE

    def _strict_difference(self, expected: list[TrajectoryCall], calls: list[ToolCall]) -> Difference:
        for expected_call, call in zip_longest(expected, calls):
            if call is None:
                return _missing(expected_call)
            if expected_call is None:
                return _unexpected(call)
            if not self._fits(expected_call, call):
                return f"expected {expected_call} where {_text(call)} was called", call
        return _NO_DIFFERENCE

    def _fits(self, expected: TrajectoryCall, call: ToolCall) -> bool:
        if not glob(expected.tool, call.name):
            return False
        if expected.arguments is None:
            return True
        args_mode = self.overrides.get(call.name, self.args)
        if isinstance(args_mode, ArgsMode):
            return args_agree(call.arguments, expected.arguments, args_mode)
        return same(_selected(as_object(call.arguments), args_mode), _selected(expected.arguments, args_mode))


@register("trajectory.f1")
class TrajectoryF1(Rule, frozen=True):
    """The names of the called tools are close enough to these, by F1 score over the calls.

    F1 is twice the number of shared calls over the number of all calls of both: 1 if they are the same, 0 if they share
    none. Order and arguments do not count.
    """

    notes = {"tools": "the expected tools; list a tool twice to expect it twice", "min": "the minimum, from 0 to 1"}
    examples = ("trajectory.f1: {tools: [lookup_billing, send_email], min: 0.8}",)
    tools: list[str]
    min: Share

    def __post_init__(self) -> None:
        if not self.tools:
            raise ValueError("expected at least one tool")

    def seen_in(self, run: TraceRun) -> Seen:
        calls, expected = Counter(call.name for call in run.tool_calls), Counter(self.tools)
        share = 2 * (calls & expected).total() / (calls.total() + expected.total())
        extra = first(run.tool_calls, lambda call: call.name not in expected)
        return Seen(
            holds=share >= self.min - 1e-9,
            text=f"Tools called have an F1 of {share:.2f}",
            expected=f"tools like {in_order(self.tools)}, with an F1 of at least {self.min:g}",
            actual=f"{share:.2f}: {tools_in_order(run)}",
            seq=seq_of(extra, run),
        )


def _selected(arguments: JsonObject, names: list[str]) -> JsonObject:
    return {name: arguments[name] for name in names if name in arguments}


def _missing(expected: TrajectoryCall) -> Difference:
    return f"{expected} is missing", None


def _unexpected(call: ToolCall) -> Difference:
    return f"{_text(call)} was not expected", call


def _text(call: ToolCall) -> str:
    return f"{call.name}({shown(call.arguments)})"


A = TypeVar("A")
B = TypeVar("B")


def paired(lefts: Sequence[A], rights: Sequence[B], fits: Callable[[A, B], bool]) -> dict[int, int]:
    """Return the largest set of fitting pairs, as left indexes to right indexes; each index occurs at most once.

    Taking the first fit is not enough: it may be the only fit for a later left. So a left whose fits are all taken
    searches the shortest chain of exchanges that frees one.
    """
    options = []
    for left in lefts:
        options.append([index for index, right in enumerate(rights) if fits(left, right)])
    partners: dict[int, int] = {}
    for index in range(len(lefts)):
        _augment(index, options, partners)
    return {left: right for right, left in partners.items()}


def _augment(start: int, options: list[list[int]], partners: dict[int, int]) -> None:
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        start_index = waiting.popleft()
        for right in options[start_index]:
            if right in came_from:
                continue
            came_from[right] = start_index
            if right not in partners:
                _exchange(right, start, came_from, partners)
                return
            waiting.append(partners[right])


def _exchange(right: int, start: int, came_from: dict[int, int], partners: dict[int, int]) -> None:
    """Give each right along the chain to the left that requested it."""
    before = {left: place for place, left in partners.items()}
    while True:
        left = came_from[right]
        partners[right] = left
        if left == start:
            return
        right = before[left]
