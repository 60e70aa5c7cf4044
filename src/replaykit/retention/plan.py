"""The prune plan: which runs are deleted, and why. Pure: takes summaries and a policy, returns names and reasons.

Runs are deleted or stay in groups: a program with its parts, a thread with its subgraphs, any other run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from replaykit.model.run import RunStatus
from replaykit.retention.policy import (
    FOREVER,
    KEEP,
    RetentionLimits,
    RetentionPolicy,
    RetentionRule,
    shown_bytes,
    shown_duration,
)
from replaykit.store.summaries import Contents, RunSummary

_BELOW = frozenset({"part", "subgraph"})  # origins of runs that belong to another
_APART = frozenset({"part", "subgraph", "replayed"})  # runs of any other origin share events with the run they name
THREAD = "langgraph"
"""The format of runs that are threads: the memory of an application."""


class RunGroup(Struct, frozen=True, kw_only=True, gc=False):
    """A run, and the runs that belong to it."""

    root: RunSummary
    runs: tuple[RunSummary, ...]
    """The root and all runs below it."""

    @property
    def is_thread(self) -> bool:
        return self.root.origin.format == THREAD

    @property
    def is_success(self) -> bool:
        return self.root.status is RunStatus.SUCCESS

    @property
    def time(self) -> float:
        """The time it ended; for an unfinished run, the time its last part began."""
        root = self.root
        if root.ended_at is not None or len(self.runs) == 1:
            return root.ended_at or root.started_at
        return max(run.started_at for run in self.runs)

    @property
    def word(self) -> str:
        if self.root.status is RunStatus.RUNNING:
            return "abandoned"
        if self.is_success:
            return "successful"
        return "failed"


def group_runs(runs: Iterable[RunSummary]) -> list[RunGroup]:
    """Group the runs with their parts and subgraphs, in the order of their numbers."""
    by_id = {run.id: run for run in runs}
    roots = {run.id: run for run in by_id.values() if run.origin.kind not in _BELOW}
    below: dict[str, list[RunSummary]] = {}
    if len(roots) < len(by_id):
        for run in by_id.values():
            if run.id not in roots:
                root = _root(run, by_id)
                roots[root.id] = root
                if root is not run:
                    below.setdefault(root.id, []).append(run)
    return [RunGroup(root=root, runs=(root, *below.get(root.id, ()))) for root in roots.values()]


def _root(run: RunSummary, by_id: dict[str, RunSummary]) -> RunSummary:
    seen = {run.id}
    while run.origin.kind in _BELOW and run.origin.run in by_id and run.origin.run not in seen:
        run = by_id[run.origin.run]
        seen.add(run.id)
    return run


class PrunedRun(Struct, frozen=True, kw_only=True):
    """A run to delete."""

    run: str
    """The id of the run."""
    name: str
    status: RunStatus
    ended_at: float
    """Seconds since the epoch."""
    size_bytes: int
    """The space that it frees, without values it shares with other runs."""
    why: str
    """Why it expired."""


class PrunePlan(Struct, frozen=True, kw_only=True):
    """The runs to delete, oldest first, and the space they free."""

    going: tuple[PrunedRun, ...]
    runs: tuple[RunSummary, ...]
    """All runs to delete, with parts and subgraphs."""
    stays: dict[str, int]
    """The number of expired runs that stay, by the reason."""
    remaining: int
    size_bytes: int
    notes: tuple[str, ...] = ()


def plan_pruning(
    policy: RetentionPolicy,
    contents: Contents,
    *,
    now: float,
    named: Collection[str] = (),
    last_at: Callable[[RunSummary], float | None] = lambda run: None,
) -> PrunePlan:
    """Return the runs to delete. `named` are ids that cases name; `last_at` gives the time of a thread's last event."""
    return _Planner(policy, contents, now, frozenset(named), last_at).build()


class _Planner:
    def __init__(
        self,
        policy: RetentionPolicy,
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
        self._groups = group_runs(contents.runs)
        self._bytes = _bytes_of(self._groups, contents)
        self._children: dict[str, list[RunGroup]] = {}
        for group in self._groups:
            origin = group.root.origin
            if origin.run is not None and origin.kind not in _APART:
                self._children.setdefault(origin.run, []).append(group)
        self._why: dict[str, str] = {}  # the runs to delete, and why
        self._stays: dict[str, int] = {}
        self._notes: list[str] = []

    def build(self) -> PrunePlan:
        """Return the plan: the age decides first, then the limits."""
        self._delete_expired()
        self._limit(self._groups, self._policy.limits, "")
        for name, rule in self._policy.tags.items():
            self._limit(self._groups_under(rule), rule.limits, f" of tag {name!r}")
        for name, rule in self._policy.agents.items():
            self._limit(self._groups_under(rule), rule.limits, f" of agent {name!r}")
        deleted: list[RunGroup] = []
        runs: list[RunSummary] = []
        remaining = 0
        for group in self._groups:
            if group.root.id in self._why:
                deleted.append(group)
                runs += group.runs
            elif not group.is_thread:
                remaining += 1
        return PrunePlan(
            going=tuple(map(self._pruned_run, sorted(deleted, key=lambda group: group.time))),
            runs=tuple(runs),
            stays=self._stays,
            remaining=remaining,
            size_bytes=sum(self._bytes[group.root.id] for group in deleted) + self._shared_bytes(runs),
            notes=tuple(self._notes),
        )

    def _groups_under(self, rule: RetentionRule) -> list[RunGroup]:
        return [group for group in self._groups if any(own is rule for own in self._rules(group))]

    def _pruned_run(self, group: RunGroup) -> PrunedRun:
        root = group.root
        return PrunedRun(
            run=root.id,
            name=root.name,
            status=root.status,
            ended_at=group.time,
            size_bytes=self._bytes[root.id],
            why=self._why[root.id],
        )

    def _expiry(self, group: RunGroup) -> str | None:
        """Return why the run is expired; None if it is not."""
        if group.is_thread:
            return self._thread_expiry(group)
        if group.root.origin.kind == "imported":  # its times come from another machine
            return None
        limit = self._limit_s(group)
        if self._now - group.time <= limit:
            return None
        return f"{group.word} and older than {shown_duration(limit)}"

    def _thread_expiry(self, group: RunGroup) -> str | None:
        limit = self._policy.threads_s
        if limit == FOREVER:
            return None
        times = [at for run in group.runs if (at := self._last_at(run)) is not None]
        if self._now - max(times, default=group.time) <= limit:
            return None
        return f"a thread without a step for {shown_duration(limit)}"

    def _limit_s(self, group: RunGroup) -> float:
        """Return the longest time that any rule for this run allows."""
        field = "successful_s" if group.is_success else "failed_s"
        default: float = getattr(self._policy, field)
        limits: list[float] = []
        for rule in self._rules(group):
            limit = getattr(rule, field)
            limits.append(default if limit is None else limit)
        return max(limits, default=default)

    def _rules(self, group: RunGroup) -> list[RetentionRule]:
        """Return the rules of its tags or, if none has a rule, the rule of its agent."""
        tagged = [self._policy.tags[tag] for tag in group.root.tags if tag in self._policy.tags]
        if tagged:
            return tagged
        name = group.root.name.partition("@")[0]
        for agent in (group.root.agent, name):
            if agent and agent in self._policy.agents:
                return [self._policy.agents[agent]]
        return []

    def _protected(self, group: RunGroup) -> str | None:
        """Return why a run stays whatever its age; None if nothing protects it."""
        if any(run.alive for run in group.runs):
            return "being recorded"
        if KEEP in group.root.tags:
            return f"tagged {KEEP!r}"
        if any(run.id in self._named for run in group.runs):
            return "named by a case"
        # A fork shares the events of its parent, which therefore has to stay.
        if any(child.root.id not in self._why for run in group.runs for child in self._children.get(run.id, ())):
            return "the parent of a fork that stays"
        return None

    def _delete_expired(self) -> None:
        """Delete expired groups that nothing protects. Forks come first, so that their parents can follow."""
        for group in sorted(self._groups, key=lambda group: group.root.number, reverse=True):
            why = self._expiry(group)
            if why is None:
                continue
            protection = self._protected(group)
            if protection is None:
                self._why[group.root.id] = why
            else:
                self._stays[protection] = self._stays.get(protection, 0) + 1

    def _limit(self, groups: list[RunGroup], limits: RetentionLimits, whose: str) -> None:
        """Delete the oldest runs until the limits hold."""
        if limits.max_runs is not None:
            why = f"more than {limits.max_runs} run{'s' * (limits.max_runs != 1)}{whose}"
            self._limit_to(limits.max_runs, groups, lambda group: 1, why)
        if limits.max_bytes is not None:
            why = f"more than {shown_bytes(limits.max_bytes)}{whose}"
            self._limit_to(limits.max_bytes, groups, lambda group: self._bytes[group.root.id], why)

    def _limit_to(self, most: int, groups: list[RunGroup], size: Callable[[RunGroup], int], why: str) -> None:
        remaining = [group for group in groups if group.root.id not in self._why and not group.is_thread]
        over = sum(map(size, remaining)) - most
        candidates = sorted(remaining, key=lambda group: (not group.is_success, group.time))
        progress = True
        while over > 0 and progress:  # deleting a fork can free its parent for the next round
            progress = False
            for group in candidates:
                if over > 0 and group.root.id not in self._why and self._protected(group) is None:
                    self._why[group.root.id] = why
                    over -= size(group)
                    progress = True
        if over > 0:
            self._notes.append(f"there are {why}, and all that are left stay for another reason")

    def _shared_bytes(self, deleted: Iterable[RunSummary]) -> int:
        """Return the size of the values that several runs share, all of which are deleted."""
        numbers = {run.number for run in deleted}
        total = 0
        for blob, runs in _holders(self._contents.uses).items():
            if len(runs) > 1 and numbers.issuperset(runs) and blob in self._contents.blobs:
                total += self._contents.blobs[blob][0]
        return total


def _holders(uses: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    holders: dict[int, list[int]] = {}
    for run, blob in uses:
        holders.setdefault(blob, []).append(run)
    return holders


def _bytes_of(groups: Iterable[RunGroup], contents: Contents) -> Mapping[str, int]:
    """Return the size of each group: its rows, and the values that only it uses."""
    alone: dict[int, int] = {}
    for blob, runs in _holders(contents.uses).items():
        if len(runs) == 1 and blob in contents.blobs:
            alone[runs[0]] = alone.get(runs[0], 0) + contents.blobs[blob][0]
    sizes = {}
    for group in groups:
        size = 0
        for run in group.runs:
            size += contents.sizes[run.number].stored + alone.get(run.number, 0)
        sizes[group.root.id] = size
    return sizes
