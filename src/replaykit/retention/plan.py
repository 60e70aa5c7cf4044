"""The plan: which runs go, and why. Pure: summaries and a policy in, names and reasons out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from replaykit.model.run import RunStatus
from replaykit.retention.amounts import shown_bytes, shown_duration
from replaykit.retention.policy import FOREVER, KEEP, Limits, Policy, Rule
from replaykit.retention.units import Unit, units_of
from replaykit.store.summaries import Contents, RunSummary

_APART = frozenset({"part", "subgraph", "replayed"})  # runs of any other origin share events with the run they name


class Going(Struct, frozen=True, kw_only=True):
    """A run that goes."""

    run: str
    name: str
    status: RunStatus
    ended_at: float
    size_bytes: int
    """What comes back with it, but for what it shares with others."""
    why: str


class Plan(Struct, frozen=True, kw_only=True):
    """What goes, the oldest first, and what that gives back."""

    going: tuple[Going, ...]
    runs: tuple[RunSummary, ...]
    """Everything that is taken out for that, parts and subgraphs included."""
    stays: dict[str, int]
    """How many runs would go by their age, and stay for another reason, by that reason."""
    kept: int
    size_bytes: int
    notes: tuple[str, ...] = ()


def plan(
    policy: Policy,
    contents: Contents,
    *,
    now: float,
    named: Collection[str] = (),
    last_at: Callable[[RunSummary], float | None] = lambda run: None,
) -> Plan:
    """What goes by this policy. `named` are ids that cases name; `last_at` says when a thread last did something."""
    return _Planning(policy, contents, now, frozenset(named), last_at).plan()


class _Planning:
    def __init__(
        self,
        policy: Policy,
        contents: Contents,
        now: float,
        named: frozenset[str],
        last_at: Callable[[RunSummary], float | None],
    ) -> None:
        self._policy = policy
        self._now = now
        self._named = named
        self._last_at = last_at
        self._contents = contents
        self._units = units_of(contents.runs)
        self._bytes = _bytes_of(self._units, contents)
        self._children: dict[str, list[Unit]] = {}
        for unit in self._units:
            origin = unit.root.origin
            if origin.run is not None and origin.kind not in _APART:
                self._children.setdefault(origin.run, []).append(unit)
        self._why: dict[str, str] = {}  # the runs that go, and why
        self._stays: dict[str, int] = {}
        self._notes: list[str] = []

    def plan(self) -> Plan:
        """By age first, then by how many there are."""
        old = [(unit, why) for unit in self._units if (why := self._outlived(unit)) is not None]
        self._let_go(old, count=True)
        self._limit(self._units, self._policy.limits, "")
        for title, rules in (("tag", self._policy.tags), ("agent", self._policy.agents)):
            for name, rule in rules.items():
                self._limit(
                    [u for u in self._units if any(r is rule for r in self._rules(u))],
                    rule.limits,
                    f" of {title} {name!r}",
                )
        gone = [unit for unit in self._units if unit.root.id in self._why]
        return Plan(
            going=tuple(self._going(unit) for unit in sorted(gone, key=lambda unit: unit.time)),
            runs=tuple(run for unit in gone for run in unit.runs),
            stays=self._stays,
            kept=sum(not unit.is_thread for unit in self._units) - sum(not unit.is_thread for unit in gone),
            size_bytes=sum(self._bytes[unit.root.id] for unit in gone) + self._shared_bytes(gone),
            notes=tuple(self._notes),
        )

    def _going(self, unit: Unit) -> Going:
        root = unit.root
        return Going(
            run=root.id,
            name=root.name,
            status=root.status,
            ended_at=unit.time,
            size_bytes=self._bytes[root.id],
            why=self._why[root.id],
        )

    def _outlived(self, unit: Unit) -> str | None:
        """Why the run's time is over; None when it is not."""
        if unit.is_thread:
            return self._thread_outlived(unit)
        if unit.root.origin.kind == "imported":  # its times are those of another place
            return None
        limit = self._limit_s(unit)
        if self._now - unit.time <= limit:
            return None
        return f"{unit.word} and older than {shown_duration(limit)}"

    def _thread_outlived(self, unit: Unit) -> str | None:
        limit = self._policy.threads_s
        if limit == FOREVER:
            return None
        times = [at for run in unit.runs if (at := self._last_at(run)) is not None]
        if self._now - max(times, default=unit.time) <= limit:
            return None
        return f"a thread without a step for {shown_duration(limit)}"

    def _limit_s(self, unit: Unit) -> float:
        """The longest time that a rule for this run gives it."""
        given = [rule.successful_s if unit.is_success else rule.failed_s for rule in self._rules(unit)]
        usual = self._policy.successful_s if unit.is_success else self._policy.failed_s
        return max((usual if limit is None else limit for limit in given), default=usual)

    def _rules(self, unit: Unit) -> list[Rule]:
        """Those of its tags; without any, that of its agent."""
        tagged = [self._policy.tags[tag] for tag in unit.root.tags if tag in self._policy.tags]
        if tagged:
            return tagged
        name = unit.root.name.partition("@")[0]
        found = [self._policy.agents.get(agent) for agent in dict.fromkeys((unit.root.agent, name)) if agent]
        return [rule for rule in found if rule is not None][:1]

    def _protected(self, unit: Unit) -> str | None:
        """Why a run stays whatever its age."""
        if any(run.alive for run in unit.runs):
            return "being recorded"
        if KEEP in unit.root.tags:
            return f"tagged {KEEP!r}"
        if any(run.id in self._named for run in unit.runs):
            return "named by a case"
        if any(child.root.id not in self._why for run in unit.runs for child in self._children.get(run.id, ())):
            return "the parent of a fork that stays"
        return None

    def _let_go(self, units: Iterable[tuple[Unit, str]], *, count: bool = False) -> None:
        """Let go of those that nothing protects. Forks come before their parents, which may go with them."""
        for unit, why in sorted(units, key=lambda item: item[0].root.number, reverse=True):
            protection = self._protected(unit)
            if protection is None:
                self._why[unit.root.id] = why
            elif count:
                self._stays[protection] = self._stays.get(protection, 0) + 1

    def _limit(self, units: list[Unit], limits: Limits, whose: str) -> None:
        """Let go of the oldest until no more than these are left."""
        if limits.max_runs is not None:
            why = f"more than {limits.max_runs} run{'s' * (limits.max_runs != 1)}{whose}"
            self._limit_to(limits.max_runs, units, lambda unit: 1, why)
        if limits.max_bytes is not None:
            why = f"more than {shown_bytes(limits.max_bytes)}{whose}"
            self._limit_to(limits.max_bytes, units, lambda unit: self._bytes[unit.root.id], why)

    def _limit_to(self, most: int, units: list[Unit], size: Callable[[Unit], int], why: str) -> None:
        left = [unit for unit in units if unit.root.id not in self._why and not unit.is_thread]
        over = sum(map(size, left)) - most
        candidates = sorted(left, key=lambda unit: (not unit.is_success, unit.time))
        progress = True
        while over > 0 and progress:  # once more: a parent may go after its forks
            progress = False
            for unit in candidates:
                if over > 0 and unit.root.id not in self._why and self._protected(unit) is None:
                    self._why[unit.root.id] = why
                    over -= size(unit)
                    progress = True
        if over > 0:
            self._notes.append(f"there are {why}, and all that are left stay for another reason")

    def _shared_bytes(self, gone: list[Unit]) -> int:
        """Of blobs that several runs hold, those that only runs hold that go."""
        numbers = {run.number for unit in gone for run in unit.runs}
        holders = _holders(self._contents.uses)
        return sum(
            stored
            for blob, (stored, _) in self._contents.blobs.items()
            if len(runs := holders.get(blob, [])) > 1 and numbers.issuperset(runs)
        )


def _holders(uses: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    holders: dict[int, list[int]] = {}
    for run, blob in uses:
        holders.setdefault(blob, []).append(run)
    return holders


def _bytes_of(units: Iterable[Unit], contents: Contents) -> Mapping[str, int]:
    """What each takes alone: its rows, and the blobs that nobody else holds."""
    alone: dict[int, int] = {}
    for blob, runs in _holders(contents.uses).items():
        if len(runs) == 1 and blob in contents.blobs:
            alone[runs[0]] = alone.get(runs[0], 0) + contents.blobs[blob][0]
    return {
        unit.root.id: sum(contents.sizes[run.number].stored + alone.get(run.number, 0) for run in unit.runs)
        for unit in units
    }
