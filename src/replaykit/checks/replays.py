"""Assertions about a replay: whether the candidate followed the tape."""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias

from replaykit.checks.reading import first_seq, glob, last_seq, short
from replaykit.checks.rule import CannotTell, Context, Count, Rule, Seen, register
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun

Kind: TypeAlias = Literal[
    "ambiguous",
    "answer",
    "arguments",
    "blocked",
    "chance",
    "context",
    "fault",
    "handshake",
    "leftover",
    "live",
    "missing",
    "moved",
    "mutated",
    "network",
    "now",
    "outside",
    "refused",
    "rekeyed",
    "repeated",
    "stopped",
    "traceback",
    "unanswerable",
    "unbuilt",
    "undecided",
    "unordered",
    "unpinned",
    "unshared",
    "unused",
    "unwatched",
    "unwritten",
]
"""The kinds of deviation in `replaykit.model.result.EFFECTS`, spelled out for JSON Schemas."""


@register("replay.no_divergence")
class ReplayNoDivergence(Rule, frozen=True):
    """True: the candidate followed the tape, call by call, and used all of it. False: it did not.

    Only a replay can tell: for any other run, and for a candidate that makes its calls unobserved, the verdict is
    `inconclusive`. `allow` lists harmless kinds of deviations.
    """

    plain = "none"
    notes = {
        "none": "true: there must be none; a plain value sets this",
        "allow": "[sorts](formats.md#evidence) that do not count, such as `moved` and `unused`",
    }
    examples = (
        "replay.no_divergence: true",
        "replay.no_divergence: {allow: [moved, unused]}",
    )
    none: bool = True
    allow: list[Kind] = []

    def check(self, run: TraceRun, context: Context) -> Seen:
        deviations = _deviations(context, self.allow)
        expected = f"{'no' if self.none else 'a'} divergence"
        return _seen(run, deviations, (not deviations) is self.none, "Left the tape", expected)


@register("replay.diverges_at")
class ReplayDivergesAt(Rule, frozen=True):
    """The first deviation of the replay has this call number, name and kind.

    `call` counts the calls of the candidate from 0. A candidate that continues beyond the tape (`missing`, `blocked`,
    `network`, `stopped`, `outside`) gets the verdict `diverged`, whatever its assertions say.
    """

    plain = "call"
    notes = {
        "call": "the number of the call, from 0; a plain number sets this",
        "name": "the name of the call; `*` matches anything",
        "kind": "the sort of deviation, such as `arguments`",
        "allow": "sorts that do not count",
    }
    examples = (
        "replay.diverges_at: 1",
        "replay.diverges_at: {name: send_*, kind: arguments, allow: [moved]}",
    )
    call: Count | None = None
    name: str | None = None
    kind: Kind | None = None
    allow: list[Kind] = []

    def __post_init__(self) -> None:
        if self.call is None and self.name is None and self.kind is None:
            raise ValueError("expected `call`, `name` or `kind`")

    def check(self, run: TraceRun, context: Context) -> Seen:
        deviations = _deviations(context, self.allow)
        holds = bool(deviations) and self._is(deviations[0])
        return _seen(run, deviations, holds, "First deviation", f"the first divergence {self._in_words()}")

    def _is(self, deviation: Deviation) -> bool:
        return (
            self.call in (None, deviation.index)
            and (self.name is None or (deviation.name is not None and glob(self.name, deviation.name)))
            and self.kind in (None, deviation.kind)
        )

    def _in_words(self) -> str:
        parts = [("at call", self.call), ("of", self.name), ("being", self.kind)]
        return " ".join(f"{word} {value}" for word, value in parts if value is not None)


def _deviations(context: Context, allowed: list[Kind]) -> list[Deviation]:
    """Return the deviations that count; raise `CannotTell` if the run is not from a watched replay."""
    if context.deviations is None:
        raise CannotTell(
            "`replay.…` assertions need a replay: this run is not from one",
            hint="Replay with --agent, or a command whose calls ReplayKit serves.",
        )
    # A server with a running clock has still followed the tape.
    return [deviation for deviation in context.deviations if deviation.kind not in ("unpinned", *allowed)]


def _seen(run: TraceRun, deviations: list[Deviation], holds: bool, what: str, expected: str) -> Seen:
    """Return the result for these deviations, which shows the first one."""
    if not deviations:
        return Seen(holds, "Followed the tape", expected, "no divergence", last_seq(run))
    deviation = deviations[0]
    text = short(deviation.text)
    more = f" (and {len(deviations) - 1} more)" if len(deviations) > 1 else ""
    seq = last_seq(run)
    if deviation.index is not None:
        # Deviations count calls in the order they were made.
        seq = first_seq(list(islice(run.calls, deviation.index, deviation.index + 1)), run)
    return Seen(holds, f"{what}: {text}", expected, f"{deviation.kind}: {text}{more}", seq)
