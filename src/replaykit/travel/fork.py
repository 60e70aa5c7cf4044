"""Continue from a step: `resume` and `fork`.

An agent with a parameter `state` continues from the state of the step. Any other agent is re-executed up to the step,
served from the recording; so is the way from the nearest kept state if that of the step was not kept. Either way a new
run is recorded, linked to its parent.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.errors import UsageError
from replaykit.handlers.recording.agents import agent_of, root_name
from replaykit.handlers.recording.run import new_run_id
from replaykit.model.changes import Cleaning
from replaykit.model.events import AnyEvent, Shared
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.steps import StepWord, step_name
from replaykit.model.values import ABSENT, Json, raw
from replaykit.seam.failures import describe, status_of
from replaykit.store.open import StoreLike, open_store
from replaykit.store.protocol import RunWriter, Store
from replaykit.telemetry.span import of_origin
from replaykit.telemetry.switch import watcher
from replaykit.travel.edits import Edits
from replaykit.travel.fork_handler import ForkHandler
from replaykit.travel.fork_plan import ForkPlan, plan_fork, session_for


class ForkResult(Struct, frozen=True, kw_only=True):
    """The result of a fork or a resumed run."""

    replaykit: int = 1
    """Version of this format."""
    run_id: str
    """The id of the new run; a dry run creates none."""
    status: RunStatus
    output: Json = None
    """The agent's answer; null if there is none."""
    error: str | None = None
    """The error that ended the run."""
    way: str = ""
    """`state` or `re-execution`."""
    since: str | None = None
    """The step whose state the agent began with, if it is not the step of the fork."""
    deviations: tuple[Deviation, ...] = ()
    """Where the agent left the recording."""
    would_be_live: tuple[str, ...] = ()
    """The calls that a dry run would have made for real."""


@checked('rk.fork(run_id, "step_3", {"max_retries": 3}, agent=agent)')
def fork(
    run_id: str,
    step: StepWord,
    changes: Edits | Mapping[str, Any] | None = None,
    *,
    agent: Callable[..., Any] | None = None,
    store: StoreLike = None,
    live: Iterable[str] = (),
    reuse: bool = True,
    attempt: str | None = None,
    dry_run: bool = False,
) -> tuple[str, ForkResult]:
    """Continue from a step with something changed; return the new run's id and its result.

    `changes` are keys of the state, or `Edits`. After the step, recorded answers are served to exactly the recorded
    calls (unless `reuse` is false); other calls happen only if their tool is harmless or named in `live`. `attempt` is
    an earlier attempt at this fork that stopped: calls that it made for real are not made again.

    >>> fork_id, result = rk.fork(run_id, "look up", rk.Edits(result={"docs": []}), agent=agent)
    >>> result.output
    '0 documents'
    """
    journey = _fork_or_resume(
        run_id,
        step,
        Edits.of(changes),
        "forked",
        agent,
        store,
        live=live,
        reuse=reuse,
        attempt=attempt,
        dry_run=dry_run,
    )
    return journey.run_id, journey


@checked('rk.resume(run_id, "step_3", agent=agent)')
def resume(
    run_id: str,
    step: StepWord,
    *,
    agent: Callable[..., Any] | None = None,
    store: StoreLike = None,
    live: Iterable[str] = (),
    reuse: bool = True,
    attempt: str | None = None,
    dry_run: bool = False,
) -> ForkResult:
    """Continue from a step with nothing changed; the options are those of `fork`.

    >>> rk.resume(run_id, "look up", agent=agent).output
    '1 documents'
    """
    return _fork_or_resume(
        run_id, step, Edits(), "resumed", agent, store, live=live, reuse=reuse, attempt=attempt, dry_run=dry_run
    )


def _fork_or_resume(
    run_id: str,
    step: StepWord,
    edits: Edits,
    kind: str,
    agent: Callable[..., Any] | None,
    where: StoreLike,
    *,
    live: Iterable[str],
    reuse: bool,
    attempt: str | None,
    dry_run: bool,
) -> ForkResult:
    with open_store(where, read_only=dry_run) as store:
        parent = store.load(run_id)
        name = step_name(parent, step)  # reports an unknown step before anything else
        plan = plan_fork(store, parent, name, edits, agent if agent is not None else agent_of(parent))
        done = None if attempt is None else _attempted(store, attempt, parent.id)
        header = _header(parent, plan, kind, edits)
        writer = None if dry_run else _begun(store, header, parent.id)
        handler = ForkHandler(plan, edits, writer, live=live, reuse=reuse, attempt=done)
        if writer is not None:
            for event in plan.shared:
                writer.append(_reference(parent.id, event))
        output, failure = _run(plan, edits, handler, parent, None if writer is None else writer.cleaning)
        if writer is not None:
            writer.finish(_ended(header, output, failure))
            if (listening := watcher()) is not None:
                listening.forked(parent.header, store.header(header.id))
    if isinstance(failure, KeyboardInterrupt):
        raise failure
    return ForkResult(
        run_id=header.id,
        status=status_of(failure),
        output=output,
        error=str(describe(failure)) if failure is not None else None,
        way="state" if plan.at_once else "re-execution",
        since=plan.start.step if plan.start is not None and not plan.at_once else None,
        deviations=(*plan.added_keys, *handler.deviations, *(() if handler.would_be_live else handler.unmade())),
        would_be_live=tuple(handler.would_be_live),
    )


def _attempted(store: Store, attempt: str, parent: str) -> TraceRun:
    run = store.load(attempt)
    if run.origin.run != parent:
        hint = f"See what does: replaykit show {parent} --forks"
        raise UsageError(f"run {run.id} does not continue from a step of {parent}", hint=hint)
    return run


def _begun(store: Store, header: RunHeader, parent: str) -> RunWriter:
    """Begin the fork while its parent exists: pruning keeps the parent of a run."""
    with store.exclusive():
        store.header(parent)
        return store.begin(header)


def _run(
    plan: ForkPlan, edits: Edits, handler: ForkHandler, parent: TraceRun, cleaning: Cleaning | None
) -> tuple[Json, BaseException | None]:
    session = session_for(plan, handler, parent, cleaning)
    if plan.start is not None:
        changed = plan.at_once and edits.of_state
        session.go_on_from(plan.start.state, after=plan.cut.step if changed else None)
    with session.active():
        try:
            return plan.run(), None
        except BaseException as error:  # noqa: BLE001 (the way the agent ends is the result)
            return None, error


def _reference(run_id: str, event: AnyEvent) -> Shared:
    place = {name: getattr(event, name) for name in ("seq", "at", "step", "parent", "path")}
    return Shared(run=run_id, of=event.seq, **place)


def _header(parent: TraceRun, plan: ForkPlan, kind: str, edits: Edits) -> RunHeader:
    step = plan.cut.step
    return replace(
        of_origin(parent.header),
        id=new_run_id(),
        name=f"{root_name(parent)}@{step}",  # the plain name belongs to the parent
        sampling=plan.sampling,
        input_json=parent.input_json if edits.input is UNSET else raw(edits.input),
        output_json=ABSENT,
        status=RunStatus.RUNNING,
        error=None,
        started_at=time.time(),
        ended_at=None,
        event_count=None,
        origin=Origin(kind=kind, run=parent.id, step=step),
    )


def _ended(header: RunHeader, output: Json, failure: BaseException | None) -> RunHeader:
    error = None
    if failure is not None:
        error = describe(failure, traceback="".join(traceback.format_exception(failure)))
    return replace(
        header,
        status=status_of(failure),
        ended_at=time.time(),
        output_json=ABSENT if output is None else raw(output),
        error=error,
    )


resume_from_checkpoint = resume
fork_run = fork


class RunFamily(Struct, frozen=True):
    """A run and its forks, oldest first."""

    run: RunHeader
    children: tuple[RunFamily, ...] = ()
    """The forks of this run, oldest first."""


def family_of(store: Store, run_id: str) -> RunFamily:
    """Return the whole family, from the first ancestor that is still in the store."""
    headers = {header.id: header for header in store.headers()}
    root = store.header(run_id)
    seen = {root.id}
    while root.origin.run in headers and root.origin.run not in seen:
        root = headers[root.origin.run]
        seen.add(root.id)
    children: dict[str, list[RunHeader]] = {}
    for header in sorted(headers.values(), key=lambda header: header.started_at):
        if header.origin.run is not None and header.id != root.id:
            children.setdefault(header.origin.run, []).append(header)
    return _family(root, children)


def _family(run: RunHeader, children: dict[str, list[RunHeader]]) -> RunFamily:
    return RunFamily(run, tuple(_family(child, children) for child in children.pop(run.id, [])))
