"""`record`: a run from its first event to its last, as a context manager or a decorator."""

from __future__ import annotations

import functools
import inspect
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from os import urandom  # bound here, so that a run that controls randomness does not affect run ids
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, overload

from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.errors import RunNotFound, StoreFull, UsageError, wrong_argument
from replaykit.handlers.recording.automatic_pruning import prune_sometimes
from replaykit.handlers.recording.interrupted import NoWriter, warn_stopped, with_reason
from replaykit.handlers.recording.recorder import Recorder
from replaykit.handlers.recording.sampling import is_kept, share_of
from replaykit.model.events import Decision, ErrorEvent, Message, Note
from replaykit.model.pins import SETS, Clock, Pins
from replaykit.model.run import NO_CHANCE, Chance, RunHeader, TraceRun
from replaykit.model.sampling import sampling
from replaykit.model.unrecorded import UNRECORDED, all_unrecorded, unrecorded_lines
from replaykit.model.values import Json, JsonObject, raw, sayable
from replaykit.seam.agent_code import EntryPoint, entry_at, entry_of
from replaykit.seam.chance import hash_seed, held_for_run
from replaykit.seam.changed_files import FileLog, watching_files
from replaykit.seam.emissions import watching_emissions
from replaykit.seam.failures import describe, status_of
from replaykit.seam.own_code import Function
from replaykit.seam.own_servers import ServersHere
from replaykit.seam.processes import recorded_tree
from replaykit.seam.results import warn_user
from replaykit.seam.scope import RunSession, Scope, current, enter, leave
from replaykit.seam.unrecorded import watching
from replaykit.store.open import StoreLike, open_store
from replaykit.store.protocol import Durability, RunWriter, Store, durability_of
from replaykit.store.sqlite import SQLiteStore
from replaykit.telemetry.switch import watched

F = TypeVar("F", bound=Function)


def new_run_id() -> str:
    """Return an id that sorts by time: `20260215-143200-4f9cab12cd`."""
    now = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{int(now % 1 * 65536):04x}{urandom(3).hex()}"


class Run:
    """A run in progress: the agent adds messages, decisions, states and steps to it."""

    def __init__(self, run_id: str, session: RunSession, run_input: Json = None) -> None:
        self.id = run_id
        """The run's id: what `replaykit show` takes."""
        self.input = run_input
        """The input of the agent."""
        self.session = session
        self.output: Json = None
        """The agent's answer; set it before the run ends."""

    def message(self, role: str, content: Json) -> None:
        """Record a message."""
        _refuse_other("run.message", role, str, 'run.message("user", question)')
        self.session.keep(Message, role=sayable(role), content_json=raw(content))

    def decide(self, decision: Json) -> None:
        """Record what the agent decided to do next."""
        self.session.keep(Decision, content_json=raw(decision))

    def note(self, name: str, content: Json = None) -> None:
        """Record anything else under a name."""
        _refuse_other("run.note", name, str, 'run.note("cache", {"hit": True})')
        self.session.keep(Note, name=sayable(name), content_json=raw(content))

    def error(self, error: BaseException) -> None:
        """Record an error that the agent handled."""
        _refuse_other("run.error", error, BaseException, "run.error(error), in the `except` that caught it")
        self.session.keep(ErrorEvent, error=describe(error))

    def checkpoint(self, state: Json) -> Json:
        """Record the agent's state, and return the state to continue with: a fork may change it.

        `record(checkpoint_every=…, checkpoint_on_change=…)` decides which states are stored.
        """
        return self.session.checkpoint(state)

    def step(self, name: str | None = None, *, state: Json = None) -> Step:
        """Mark a step of the agent's loop: `with run.step("plan", state=state):`. Steps without a name are numbered.

        `state` is the state that the step begins with, stored if it differs from the end of the step before.
        """
        if name is not None:
            _refuse_other("run.step", name, str, 'with run.step("plan", state=state) as step:')
        return Step(self, sayable(name) if name else f"step_{next(self.session.steps)}", state)


def _refuse_other(call: str, value: object, kind: type, example: str) -> None:
    """Raise for a value of another type. Faster than `checked`, as agents call this often."""
    if not isinstance(value, kind):
        raise wrong_argument(call, value, example)


class Step:
    """A step of a run. Calls made inside belong to it."""

    def __init__(self, run: Run, name: str, state: Json = None) -> None:
        self.run = run
        self.id = name
        self.state = state

    def __enter__(self) -> Step:
        if self.state is not None:
            self.run.session.begin_step(self.state)
        here = current() or self.run.session.root
        # Keep the step out of the path, so that adding steps to an agent later does not make its calls look moved.
        scope = Scope(here.session, here.path, self.id, here.parent, outermost=here.outermost)
        scope.share_numbering(here)
        self._token = enter(scope)
        return self

    def __exit__(self, *_: object) -> None:
        leave(self._token)

    def decide(self, decision: Json) -> None:
        """Record what the agent decided in this step."""
        self.run.decide(decision)

    def done(self, state: Json) -> Json:
        """Record the state that the step leads to, and return the state to continue with: a fork may change it."""
        return self.run.checkpoint(state)


@overload
def record(name: F, /) -> F: ...
@overload
def record(
    name: str = "",
    *,
    input: Json = None,
    agent: str = "",
    agent_version: str = "",
    tags: Iterable[str] = (),
    metadata: JsonObject | None = None,
    store: StoreLike = None,
    durability: str | Durability = Durability.PROCESS,
    checkpoint_every: int = 1,
    checkpoint_on_change: bool = False,
    sample: float | None = None,
    redact: bool | None = None,
) -> RunRecorder: ...
@checked('rk.record("billing", input=question), or `@rk.record` above a function')
def record(
    name: str | Function = "",
    *,
    input: Json = None,
    agent: str = "",
    agent_version: str = "",
    tags: Iterable[str] = (),
    metadata: JsonObject | None = None,
    store: StoreLike = None,
    durability: str | Durability = Durability.PROCESS,
    checkpoint_every: int = 1,
    checkpoint_on_change: bool = False,
    sample: float | None = None,
    redact: bool | None = None,
) -> Any:
    """Record a run: `with record("billing", input=question) as run:`, or `@record` on the agent function.

    Of the agent's states the first is kept, every `checkpoint_every`-th after it, and the last when the run ends; of
    the others the log says that they were there, and `state_at` finds them by re-execution. With
    `checkpoint_on_change` a state that is equal to the one before leaves no trace at all.

    `sample` is the share of successful runs that are kept, 1 unless said here or in `REPLAYKIT_SAMPLE`. A run that
    fails, or is killed, is kept whole.

    What is secret or personal is replaced before it is written; the agent's own values stay as they are. `redact=False`
    keeps it, for made-up data; without it `REPLAYKIT_REDACT` decides.

    >>> with rk.record("refunds", input="Where is my refund?") as run:
    ...     run.output = agent("Where is my refund?")
    >>> store.load(run.id).status.value
    'success'
    """
    fn = name if callable(name) else None
    header = RunHeader(
        id="",
        name=sayable(name) if isinstance(name, str) else "",
        input_json=raw(input),
        agent=sayable(agent),
        agent_version=sayable(agent_version),
        tags=tuple(map(sayable, tags)),
        metadata_json=raw(metadata or {}),
        sampling=sampling(checkpoint_every, checkpoint_on_change, name="checkpoint_every"),
    )
    recorder = RunRecorder(header, store, durability_of(durability), share_of(sample), redact)
    if fn is None:
        return recorder
    return recorder(fn)


def _is_left_behind(scope: Scope) -> bool:
    """Return whether the scope's run has ended, or belongs to the parent process."""
    if scope.session.gives_way:
        return True
    handler = scope.session.handler
    return isinstance(handler, Recorder) and not handler.is_at_work


class _InProgress(NamedTuple):
    """The facts about a run that the processes it starts need."""

    header: RunHeader
    store: SQLiteStore
    pins: Pins


class RunRecorder:
    """A recording that has not begun: enter it for one run, or decorate an agent function with it."""

    def __init__(
        self, header: RunHeader, store: StoreLike, durability: Durability, share: float, redact: bool | None = None
    ) -> None:
        self._header = header
        self._store = store
        self._durability = durability
        self._share = share
        self._redact = redact
        self._entry: EntryPoint | None = None
        self._stack: ExitStack | None = None
        self._writer: RunWriter | None = None

    def __enter__(self) -> Run:
        if self._stack is not None:
            raise UsageError("this recording is in use already; call `record(...)` once for each run")
        scope = current()
        with ExitStack() as stack:
            if scope is None or _is_left_behind(scope):
                self._begin(stack)
            else:  # inside another run that is recorded or replayed, of which this becomes a part
                self._run = Run("", scope.session, self._header.input)
                if scope is scope.session.root and scope.session.begins_with_run:
                    scope.session.resalt("")
            self._stack = stack.pop_all()
        return self._run

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        stack, self._stack = self._stack, None
        if stack is None:
            raise UsageError("this recording was not entered")
        session = self._run.session
        with stack:
            if self._writer is not None:
                session.end_exchanges()
                session.keep_last_state()
                for log in (session.unrecorded, session.files):
                    if log is not None:
                        log.end()
                self._recorder.end()
                self._end(self._writer, self._ended(error))
                session.end_tree()
                self._warn_of_unrecorded()

    def _warn_of_unrecorded(self) -> None:
        """Warn about what the run did that is not recorded, and that a replay therefore cannot serve."""
        session, store = self._run.session, self._opened
        if store is None or session.unrecorded is None:
            return
        found = session.unrecorded.everything()
        if session.has_started_processes:
            found = []
            with suppress(RunNotFound):  # sampling may already have deleted the run
                found = all_unrecorded(store.load(self._header.id).events)
        notes = [Note(seq=seq, name=UNRECORDED, content_json=thing.content) for seq, thing in enumerate(found)]
        if notes:  # redacted for display, like in the store
            cleaned = store.cleaned(TraceRun.of(RunHeader(id=""), tuple(notes)))
            for line in unrecorded_lines(all_unrecorded(cleaned.events)):
                warn_user(line)

    def _begin(self, stack: ExitStack) -> None:
        store = self._opened = self._open(stack)
        started = self._started = time.perf_counter()
        self._header = replace(self._header, id=new_run_id(), started_at=time.time())
        seed, self._chance = stack.enter_context(held_for_run(self._header.id, self._header.started_at))
        self._header = replace(self._header, chance=Chance(seed=seed, hash_seed=hash_seed()))
        self._writer = self._begun(store)
        self._recorder = Recorder(self._writer, started)
        session = RunSession(
            self._recorder,
            lineage=self._header.id,
            sampling=self._header.sampling,
            cleaning=self._writer.cleaning,
        )
        # Frame 2 is the caller of `__enter__`, which contains the `with` statement.
        session.entry = self._entry or entry_at(sys._getframe(2))
        session.hold_ups = self._recorder.hold_ups
        self._recorder.number_by(session.numbers)
        session.set_ordered = None if hash_seed() else set()
        session.own = ServersHere(session)
        if self._chance is not None:
            session.resalt = self._chance.begin
        if isinstance(store, SQLiteStore):
            pins = Pins(seed=seed or None, started_at=self._header.started_at, clock=Clock.LIVE)
            session.make_tree = partial(recorded_tree, _InProgress(self._header, store, pins), session)
        self._run = Run(self._header.id, session, self._header.input)
        if (watcher := watched(self._header.id)) is not None:
            stack.enter_context(watcher.active())
        stack.enter_context(watching(self._run.session))
        stack.enter_context(watching_files(session, FileLog(session)))
        stack.enter_context(watching_emissions())
        stack.enter_context(self._run.session.active())

    def _open(self, stack: ExitStack) -> Store | None:
        """Open the store; return None if the disk is full, because the agent must run anyway."""
        try:
            return stack.enter_context(open_store(self._store, durability=self._durability, redact=self._redact))
        except StoreFull as error:
            warn_stopped(error)
            return None

    def _begun(self, store: Store | None) -> RunWriter:
        if store is not None:
            try:
                return store.begin(self._header)
            except StoreFull as error:
                warn_stopped(error)
        return NoWriter(self._header.id)

    def _end(self, writer: RunWriter, header: RunHeader) -> None:
        if self._opened is None or isinstance(writer, NoWriter):
            return
        if is_kept(header, self._share):
            try:
                if self._recorder.stopped:
                    header = with_reason(header, self._recorder.stopped)
                writer.finish(header)
            except StoreFull as error:
                self._recorder.stop(error)
        else:
            self._opened.delete([header.id])
            if (watcher := watched(header.id)) is not None:
                watcher.end(self._opened.cleaned(TraceRun.of(header, ())).header)
        if isinstance(self._opened, SQLiteStore):
            prune_sometimes(self._opened.path)

    def _ended(self, error: BaseException | None) -> RunHeader:
        started_at, took_s = self._header.started_at, time.perf_counter() - self._started
        ended = replace(
            self._header,
            status=status_of(error),
            ended_at=max(time.time(), started_at + took_s),
            chance=self._drawn(),
        )
        if error is not None:
            text = "".join(traceback.format_exception(error))
            ended = replace(ended, error=describe(error, traceback=text))
        if self._run.output is not None:
            ended = replace(ended, output_json=raw(self._run.output))
        return ended

    def _drawn(self) -> Chance:
        """Return the randomness that a replay has to reproduce."""
        recorder = self._recorder
        known = replace(
            self._header.chance, held_up_s=recorder.hold_ups.held_up_s, after_calls_s=recorder.after_calls_s
        )
        if self._chance is None:
            return replace(known, not_held=("random",))  # another run controls `random`
        if not self._chance.has_drawn() and not self._run.session.has_started_processes:
            known = replace(known, seed="")
        not_held = sorted(self._chance.not_held)
        if self._run.session.set_ordered:
            not_held.append(SETS)
        drawn = replace(known, not_held=tuple(not_held))
        if drawn == NO_CHANCE:
            return NO_CHANCE  # this very object is omitted when encoding
        return drawn

    def __call__(self, fn: F) -> F:
        """Decorate an agent function, so that each call of it is a run."""
        from replaykit.handlers.recording.agents import AGENTS  # noqa: PLC0415 (a `with` block has no agent to look up)

        signature = inspect.signature(fn)
        entry = entry_of(fn)

        def one_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> RunRecorder:
            header = replace(self._header, name=self._header.name or fn.__name__)
            if bytes(header.input_json) == b"null":
                header = replace(header, input_json=raw(_input_of(signature, args, kwargs)))
            recorder = RunRecorder(header, self._store, self._durability, self._share, self._redact)
            recorder._entry = entry
            return recorder

        name = self._header.name or fn.__name__
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def acall(*args: Any, **kwargs: Any) -> Any:
                with one_run(args, kwargs) as run:
                    run.output = await fn(*args, **kwargs)
                    return run.output

            return AGENTS.register(name)(acall)  # type: ignore[return-value]

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with one_run(args, kwargs) as run:
                run.output = fn(*args, **kwargs)
                return run.output

        return AGENTS.register(name)(call)  # type: ignore[return-value]


def _input_of(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Json:
    """Return the agent's input: its only argument, or all of them by name."""
    bound = signature.bind(*args, **kwargs)
    named = {key: value for key, value in bound.arguments.items() if key not in ("self", "cls")}
    if len(named) == 1:
        return next(iter(named.values()))
    return named
