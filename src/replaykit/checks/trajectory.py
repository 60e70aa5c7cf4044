"""Trajectories: the tool calls of a run against those that were expected."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from replaykit.checks.arguments import ArgsMode, args_agree
from replaykit.checks.call_selection import glob
from replaykit.checks.pairing import paired
from replaykit.checks.reading import last_seq, seq_of, shown
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen, Share
from replaykit.checks.tools import in_order
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

MAX_EXPECTED = 1_000
"""The most calls that one assertion may expect: pairing them takes time in proportion to expected times made."""


class TrajectoryMode(StrEnum):
    """The relation of a run's calls to the expected ones. `subset` and `superset` are about the run's calls."""

    STRICT = "strict"  # these calls and no others, in this order
    IN_ORDER = "in_order"  # these calls in this order, maybe with others between
    UNORDERED = "unordered"  # these calls and no others, in any order
    SUBSET = "subset"  # no calls but these, in any order; some may be missing
    SUPERSET = "superset"  # at least these calls, in any order


class TrajectoryCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call as an assertion names it; without arguments, whatever they are."""

    tool: str
    arguments: dict[str, Json] | None = None


@ASSERTIONS.register("trajectory.match")
class TrajectoryMatch(Rule, frozen=True, kw_only=True):
    """The agent's tool calls are these.

    | `mode` | the run's calls | in order | others allowed | some may be missing |
    |---|---|---|---|---|
    | `strict` | are the expected ones | yes | no | no |
    | `in_order` | have the expected ones among them | yes | yes | no |
    | `unordered` | are the expected ones | no | no | no |
    | `subset` | are some of the expected ones | no | no | yes |
    | `superset` | have the expected ones among them | no | yes | no |

    `subset` and `superset` are about what the run did, seen from what was expected: a call too many passes only
    `superset` and `in_order`, a missing one only `subset`. Each expected call needs a call of its own. `args` says in
    the same words how the arguments of a call stand to the named ones, as in `tool.args`; a call that is named without
    arguments takes any. `overrides` says it for one tool: another mode, or the list of the only arguments that are
    compared.

    `strict` and `in_order` take time in proportion to the run; the others to the run times the expected calls, at
    most 1000 of them.
    """

    plain = "calls"
    notes = {
        "calls": "the expected calls: a tool's name, or `{tool, arguments}`; a plain list is this",
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

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.tool_calls
        wrong = self._differs(calls)
        names = [call.name for call in calls]
        return Seen(
            holds=wrong is None,
            text=f"Tools called: {in_order(names)}",
            expected=f"tools {in_order([self._shown(call) for call in self._expected])} ({self.mode.value})",
            actual=f"tools {in_order(names)}" + (f"; {wrong[0]}" if wrong else ""),
            seq=wrong[1].seq if wrong and wrong[1] else last_seq(run),
        )

    @property
    def _expected(self) -> list[TrajectoryCall]:
        return [TrajectoryCall(tool=call) if isinstance(call, str) else call for call in self.calls]

    def _differs(self, calls: list[ToolCall]) -> tuple[str, ToolCall | None] | None:
        """Return what is wrong with the calls, and the call; None when nothing is."""
        if self.mode is TrajectoryMode.STRICT:
            return self._differs_strictly(calls)
        if self.mode is TrajectoryMode.IN_ORDER:
            return self._differs_in_order(calls)
        return self._differs_in_any_order(calls)

    def _differs_strictly(self, calls: list[ToolCall]) -> tuple[str, ToolCall | None] | None:
        for expected, call in zip(self._expected, calls, strict=False):
            if not self._fits(expected, call):
                return f"expected {self._shown(expected)} where {_text(call)} was called", call
        if len(calls) > len(self.calls):
            return f"{_text(calls[len(self.calls)])} was not expected", calls[len(self.calls)]
        if len(calls) < len(self.calls):
            return self._missing(self._expected[len(calls)])
        return None

    def _differs_in_order(self, calls: list[ToolCall]) -> tuple[str, ToolCall | None] | None:
        left = iter(calls)
        for expected in self._expected:
            if not any(self._fits(expected, call) for call in left):
                return self._missing(expected)
        return None

    def _differs_in_any_order(self, calls: list[ToolCall]) -> tuple[str, ToolCall | None] | None:
        expected = self._expected
        pairs = paired(expected, calls, self._fits)
        if self.mode is not TrajectoryMode.SUBSET and len(pairs) < len(expected):
            return self._missing(next(one for index, one in enumerate(expected) if index not in pairs))
        if self.mode is not TrajectoryMode.SUPERSET and len(pairs) < len(calls):
            met = set(pairs.values())
            call = next(call for index, call in enumerate(calls) if index not in met)
            return f"{_text(call)} was not expected", call
        return None

    def _missing(self, expected: TrajectoryCall) -> tuple[str, None]:
        return f"{self._shown(expected)} is missing", None

    def _fits(self, expected: TrajectoryCall, call: ToolCall) -> bool:
        if not glob(expected.tool, call.name):
            return False
        if expected.arguments is None:
            return True
        how = self.overrides.get(call.name, self.args)
        if isinstance(how, ArgsMode):
            return args_agree(call.arguments, expected.arguments, how)
        actual = call.arguments if isinstance(call.arguments, dict) else {}
        actual, named = ({name: value[name] for name in how if name in value} for value in (actual, expected.arguments))
        return args_agree(actual, named, ArgsMode.EXACT)

    def _shown(self, call: TrajectoryCall) -> str:
        if call.arguments is None:
            return call.tool
        return f"{call.tool}({shown(call.arguments)})"


@ASSERTIONS.register("trajectory.f1")
class TrajectoryF1(Rule, frozen=True, kw_only=True):
    """The names of the tools that were called are near enough to these: by F1, counting each call.

    F1 is twice the calls that both have over all calls of both; 1 when they are the same, 0 when they share none.
    Order and arguments do not count.
    """

    notes = {"tools": "the expected tools, each as often", "min": "the least, from 0 to 1"}
    examples = ("trajectory.f1: {tools: [lookup_billing, send_email], min: 0.8}",)
    tools: list[str]
    min: Share

    def __post_init__(self) -> None:
        if not self.tools:
            raise ValueError("expected at least one tool")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls, expected = Counter(call.name for call in run.tool_calls), Counter(self.tools)
        share = 2 * (calls & expected).total() / (calls.total() + expected.total())
        extra = next((call for call in run.tool_calls if call.name not in expected), None)
        return Seen(
            holds=share >= self.min - 1e-9,
            text=f"Tools called have an F1 of {share:.2f}",
            expected=f"tools like {in_order(self.tools)}, with an F1 of at least {self.min:g}",
            actual=f"{share:.2f}: tools {in_order([call.name for call in run.tool_calls])}",
            seq=seq_of(extra, run),
        )


def _text(call: ToolCall) -> str:
    return f"{call.name}({shown(call.arguments)})"
