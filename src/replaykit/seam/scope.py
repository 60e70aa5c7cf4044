"""Scope: where in a run a call is made.

A scope is a place in the causal tree of a run: the run itself, an asyncio task, a thread job, the inside of a
call. The path names it by who started it and in which order, never by time, so the same program gives the same
paths however its parts are scheduled. The active scope is the one context variable of this package.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from weakref import ref

from msgspec import Struct, to_builtins

from replaykit.model.events import (
    AnyEvent,
    Call,
    CallSpan,
    ErrorInfo,
    Event,
    Exchange,
    LlmCall,
    Note,
    State,
    ToolCall,
    Usage,
    WireInfo,
)
from replaykit.model.sampling import EVERY_STATE, NOT_KEPT, Sampling, StateLog, Written
from replaykit.model.values import ABSENT, Json, JsonObject, Raw, raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from weakref import ReferenceType

    from replaykit.model.changes import Cleaning
    from replaykit.seam.agent_code import AgentCode, EntryPoint
    from replaykit.seam.changed_files import FileWatcher
    from replaykit.seam.http.request import HttpRequest
    from replaykit.seam.parameters import Parameters
    from replaykit.seam.processes import ProcessTree
    from replaykit.seam.scheduling_delays import HoldUps
    from replaykit.seam.unrecorded import UnrecordedLog


T = TypeVar("T")

TOOL, MODEL, EXCHANGE = (str(kind.__struct_config__.tag) for kind in (ToolCall, LlmCall, Exchange))
"""The kinds of calls."""
MCP_RESULT = "mcp"
"""The form of an MCP server's answers to `tools/call`."""
_JOBS_BETWEEN_LOOKS = 64


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of a call: a result, an error, a stream of items, or (all absent) none at all."""

    result_json: Raw = ABSENT
    error: ErrorInfo | None = None
    items_json: tuple[Raw, ...] | None = None
    complete: bool = True
    wire: WireInfo | None = None
    sent_json: Raw = ABSENT
    pauses_ms: tuple[float, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    span: CallSpan | None = None
    """None: an answer in place of a recorded one has no position of its own in the run."""


CallAnswer: TypeAlias = Call | Outcome
"""The answer to a call: a recorded call, or an outcome."""


class Injected(Struct, eq=False):
    """The faults that a handler injects into one call."""

    faults: tuple[str, ...] = ()  # the names of those that struck
    alter: Callable[[CallAnswer], CallAnswer] | None = None  # changes the answer
    instead_of: CallAnswer | None = None  # the original answer
    wait_s: float = 0.0  # the real delay
    delay_s: float = 0.0  # the additional duration in the log

    def applied(self, answer: CallAnswer) -> CallAnswer:
        """Return the answer to give and record. Whoever gets the original calls this, and only once."""
        alter, self.alter = self.alter, None
        self.instead_of = answer
        if alter is None:
            return answer
        return alter(answer)


class PendingCall(Struct, eq=False):  # made for every call: in half the time that a class with an `__init__` takes
    """A call that has been made and not answered yet; `pending_call` makes one."""

    kind: str
    name: str
    arguments: bytes  # canonical JSON, frozen at the call
    key: bytes  # its lookup key on a tape
    path: str
    step: str | None
    parent: int | None
    seq: int
    at: float
    effects: str  # on the world: none, idempotent or external
    parameters: Parameters | None = None  # of the called function, in a replay of a foreign trace
    hosted: bool = False  # made by a framework: a tool of that name right inside is the same call
    override: JsonObject | None = None  # other arguments that a handler wants to try
    injected: Injected | None = None  # faults from a handler
    request: HttpRequest | None = None  # of a call that goes over HTTP
    is_awaited: bool = True  # False for a call that blocks its thread: no event loop turns before it ends
    is_forgotten: bool = False  # it did not happen after all, and leaves no trace
    form: str = ""  # the protocol of its answer, if it has its own: MCP_RESULT
    look_again: Callable[[], tuple[str, ...]] | None = None  # finds what the tool has changed
    mutated: tuple[str, ...] = ()  # what it found
    emitted: tuple[str, ...] = ()  # the agent's objects that received its log records and warnings; see `emissions`
    surroundings: dict[str, str | None] | None = None  # the original state of what it changed; see `reach`
    jobs: list[ReferenceType[Any]] | None = None  # the threads, tasks and futures it started; see `leftover_jobs`

    def rephrase(self, arguments: bytes) -> None:
        """Replace the arguments for recording and matching; the call itself is made with the original ones."""
        self.arguments = self.key = arguments


def pending_call(
    kind: str, name: str, arguments: bytes, scope: Scope, at: float, effects: str = "external"
) -> PendingCall:
    """Return a call made in a scope, with the next number of its session."""
    number = next(scope.session.numbers)
    return PendingCall(kind, name, arguments, arguments, scope.path, scope.step, scope.parent, number, at, effects)


def wall_time() -> float:
    """Return the real time in seconds since the epoch, even if the agent sees another."""
    machine = sys.modules.get("time_machine")
    if machine is None or not machine.traveller_stack:
        return time.time()
    real: float = machine._time_machine.original_time()  # the public function takes five times as long
    return real


class Handler(Protocol):
    """The code behind the seam: it records, replays, forks, injects faults, or passes calls through."""

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return the outcome, or None to let the call happen; may raise to stop it."""

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Record the outcome of a call that was let through."""

    def keep(self, event: AnyEvent) -> None:
        """Record an event that is not a call."""

    def amend(self, step: str | None, state: Json) -> Json:
        """Return the state for the agent to continue with: its own, unless a fork changes it at this step."""


class Order:
    """When served calls end. By default at once, whatever happens beside them."""

    pace = 0.0
    """The pace of recorded responses by default: 1 as they came, 0 at once."""

    def begin(self, call: PendingCall, answer: CallAnswer) -> None:
        """Note the begin of a served call, which ends when its caller has read all of it."""

    def has_ended(self, call: PendingCall, answer: CallAnswer) -> bool:
        """Return True if nothing else can happen before this call ends: it has ended. A shortcut for `wait`."""
        return False

    def wait(self, call: PendingCall, answer: CallAnswer) -> None:
        """Wait until it is this call's turn to end."""

    async def wait_awhile(self, call: PendingCall, answer: CallAnswer) -> None:
        """Do the same for an awaited call."""

    def outlast(self, call: PendingCall) -> None:
        """Wait for an answer that never came in the recording; return when nothing else can happen."""

    async def outlast_awaited(self, call: PendingCall) -> None:
        """Do the same for an awaited call."""

    def really(self, live: Callable[[], T]) -> Callable[[], T]:
        """Return a function that does the same in real time: here, all time is real."""
        return live

    def really_awaited(self, live: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """Do the same as `really` for an awaited call."""
        return live


class AnswerAtOnce(Protocol):
    """Answers a tool call in a replay without asking the handler, if nothing has to be reported about it."""

    def __call__(self, scope: Scope, name: str, arguments: bytes) -> Call | None:
        """Return the recorded call; None for a call that goes through the seam."""


class Unfinished(Protocol):
    """An exchange whose answer is awaited, or still being read."""

    def broke(self) -> None:
        """End it here: record it as far as it has come."""


class Beginning(Struct, frozen=True, kw_only=True):
    """The first numbers of a run that continues another one."""

    number: int = 0
    """Of its events."""
    step: int = 1
    """Of its unnamed steps."""
    children: dict[str, int] = {}
    """Of its calls, tasks, jobs and threads, by name."""


AT_FIRST = Beginning()


class OwnPlaces(Protocol):
    """The places where a program itself listens: requests to them are neither recorded nor served."""

    def takes(self, url: str) -> bool:
        """Return True if a request for this URL stays within the program."""

    def has(self, host: str, port: int) -> bool:
        """Return True if a connection to this place stays within the program, or reaches nobody."""

    def had(self, host: str, port: int) -> bool:
        """Return True if a connection that was made to this place stayed within the program."""

    def has_path(self, path: str) -> bool:
        """Return True if a process of the program listens at this path."""


class RunSession:
    """One run in progress: its handler, the numbers of its events, and its last states."""

    order: Order | None = None
    """In a replay of concurrent tools: the order in which they ended."""
    answer_at_once: AnswerAtOnce | None = None
    """In a replay: a way around the handler, for calls that the agent makes one after the other."""
    elsewhere: tuple[str, ...] = ()
    """Places (host, port and the start of a path) whose requests another process records or serves."""
    own: OwnPlaces | None = None
    """The places where the agent, or the whole program, itself listens."""
    speed = 0.0
    """The pace of recorded responses: 1 as they came, 2 twice as fast, 0 at once."""
    over = False
    """True once the run has ended; threads that it left behind may still be working."""
    is_ending = False
    """True once the main thread of a program has failed: what its other threads wait for will not come."""
    stops_when_over = False
    """True in a replay that stops its leftover threads and tasks at its end."""
    entry: EntryPoint | None = None
    """In a recording: where the agent's own code entered the run; None for a whole program."""
    agent_code: AgentCode | None = None
    """In a recording: what the agent's own code reads; None until a tool is called that changes something."""
    hold_ups: HoldUps | None = None
    """In a recording: how long a busy machine held up its threads."""
    set_ordered: set[str] | None = None
    """In a recording: tools that were called with items in the order of a set, if that order is random."""
    is_foreign = False
    """In a replay: True if the tape comes from a foreign trace, with arguments written by a model. Calls then carry the
    parameters of their functions; otherwise they do not, since the garbage collector would have to visit each."""
    carries = True
    """False while an agent's module is imported: threads started meanwhile belong to the run that follows."""
    refuse: Callable[[str, str], BaseException] | None = None
    """In a replay: notes a call that belongs to no run, and returns the error that stops it."""
    make_tree: Callable[[], ProcessTree] | None = None
    """Creates the tree of the processes that the run starts; None if they are not followed."""
    is_elsewhere = False
    """True if the run belongs to another process, and this one writes its own log of it."""
    is_apart = False
    """True for code that belongs to no run, and must not join one."""
    gives_way = False
    """True if a run that begins inside is independent of this one."""
    unrecorded: UnrecordedLog | None = None
    """In a recording: notes unrecorded effects."""
    files: FileWatcher | None = None
    """Is notified of the files that the run opens."""
    _tree: ProcessTree | None = None
    begins_with_run = False
    """True if randomness was pinned from the entry of `rk.record` on, and has to restart there."""

    def __init__(
        self,
        handler: Handler,
        *,
        lineage: str = "",
        begins: Beginning = AT_FIRST,
        sampling: Sampling = EVERY_STATE,
        cleaning: Cleaning | None = None,
    ) -> None:
        self.handler = handler
        self.lineage = lineage
        """The id of the run, or of the run it was first forked from."""
        self.numbers = itertools.count(begins.number)
        self.steps = itertools.count(begins.step)
        self.root = Scope(self, path="")
        self.root.go_on_numbering(begins.children)
        self.unfinished: dict[int, Unfinished] = {}
        """Exchanges in progress, by their numbers."""
        self.leaves: Callable[[str], bool] = lambda _: False
        """In a replay: tells by URL whether a request of http.client is left to the proxy, which recorded it."""
        self.reported: set[tuple[str, str]] = set()
        """Problems that were reported, once for each tool."""
        self.idle_threads: set[int] = set()
        """In such a replay: threads that it has started and that have been idle since."""
        self.warning_logs: list[tuple[list[Any], PendingCall | None]] = []
        """In a recording: lists in which the agent's own code catches warnings, each with its call."""
        self.own_paths: list[str] = []
        """Directories and temporary files that the agent has created, and its semaphores and shared memory."""
        self.resalt: Callable[[str], None] = lambda _: None
        """Restarts randomness in a forked child of that name, which would otherwise repeat its parent's."""
        self.foreign: dict[Any, Scope] = {}
        """The scopes of threads and tasks that the run has not started, by thread or task."""
        self._states = StateLog(sampling, cleaning)
        self._state_lock = threading.Lock()
        self._state_scope = self.root  # where the last state was
        self._jobs = {name: number for name, number in begins.children.items() if name.startswith("~")}
        self._jobs_lock = threading.Lock()

    def keep(self, kind: type[Event], **fields: Any) -> None:
        """Pass an event that is not a call to the handler, placed where it happened."""
        self._keep(kind, _active.get() or self.root, **fields)

    def note_deviation(self, kind: str, text: str, name: str = "") -> None:
        """Record a deviation of a replay from its tape."""
        from replaykit.model.result import DEVIATION, Deviation  # noqa: PLC0415 (no recording has results of replays)

        deviation = Deviation(kind=kind, name=name, text=text)
        self.keep(Note, name=DEVIATION, content_json=raw(to_builtins(deviation)))

    def checkpoint(self, state: Json) -> Json:
        """Record the agent's current state, and return the state to continue with, which a fork may change."""
        scope = _active.get() or self.root
        with self._state_lock:  # changes must be recorded in their own order
            written = self._states.next(state)
            if written is None:
                return state
            amended = self.handler.amend(scope.step, state)
            if amended is not state:
                self._states.lost()
                written = self._states.next(amended)
                amended = _taken_over(state, amended)
            self._keep_state(written, scope)
        return amended

    def begin_step(self, state: Json) -> None:
        """Record the state that a step begins with, unless it is the one before."""
        with self._state_lock:
            self._keep_state(self._states.next(state, only_on_change=True), _active.get() or self.root)

    def go_on_from(self, state: Json, *, after: str | None = None) -> None:
        """Make the agent begin with this state; `after` records it as the state after that step."""
        with self._state_lock:
            if after is None:
                self._states.go_on_from(state)
            else:
                self._keep_state(self._states.next(state), Scope(self, path="", step=after))

    def keep_last_state(self) -> None:
        """Record the last state if sampling skipped it, at the end of a run."""
        with self._state_lock:
            self._keep_state(self._states.last(), self._state_scope)

    def tree(self) -> ProcessTree | None:
        """Return the processes that the run starts; created when the first of them is."""
        with self._jobs_lock:
            if self._tree is None and self.make_tree is not None:
                self._tree = self.make_tree()
            return self._tree

    @property
    def has_started_processes(self) -> bool:
        return self._tree is not None

    def end_tree(self) -> None:
        """Collect the work of the run's processes."""
        if self._tree is not None:
            self._tree.close()

    def go_on_in_child(self, handler: Handler) -> None:
        """Continue in a forked child, which records its own share of the run."""
        self.handler = handler
        self.order = None
        self._states.lost()  # the parent's log has it, but not the child's

    def job_started(self, name: str, number: int) -> None:
        """Note that the agent itself has started its n-th task, job or thread of that name."""
        with self._jobs_lock:
            self._jobs[name] = max(self._jobs.get(name, 0), number + 1)

    def end_exchanges(self) -> None:
        """Record the exchanges in progress as far as they have come, and accept no more of them."""
        self.over = True
        for exchange in list(self.unfinished.values()):
            exchange.broke()

    def _keep_state(self, written: Written | None, scope: Scope) -> None:
        if written is None:
            return
        self._state_scope = scope
        try:
            jobs = dict(self._jobs) if written is not NOT_KEPT else {}
            self._keep(State, scope, state_json=written[0], change=written[1], jobs=jobs)
        except BaseException:
            self._states.lost()  # this state is not in the log: the next must not be a change of it
            raise

    def _keep(self, kind: type[Event], scope: Scope, **fields: Any) -> None:
        event = kind(
            seq=next(self.numbers),
            at=wall_time(),
            step=scope.step,
            parent=scope.parent,
            path=scope.path,
            **fields,
        )
        self.handler.keep(event)  # type: ignore[arg-type]

    @contextmanager
    def active(self) -> Iterator[RunSession]:
        """Make calls in the block, and in tasks and threads started in it, belong to this session."""
        from replaykit.seam import patches  # noqa: PLC0415 (it needs this module)

        with patches.installed():
            self.over = False
            active_sessions.append(self)
            token = _active.set(self.root)
            try:
                yield self
            finally:
                active_sessions.remove(self)
                with suppress(ValueError):  # left in another context than it was entered in, as async generators may be
                    _active.reset(token)
                self.end_exchanges()


def _taken_over(old: Json, new: Json) -> Json:
    """Put the new value into the old object if possible: the agent may continue with that very object."""
    if type(old) is dict and type(new) is dict:
        taken = {key: _taken_over(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(taken)
        return old
    if type(old) is list and type(new) is list:
        old[:] = new
        return old
    return new


class Scope(Struct, eq=False):  # made for every call: in half the time that a class with an `__init__` takes
    """One place in the causal tree of a run."""

    session: RunSession
    path: str
    step: str | None = None
    parent: int | None = None
    call: PendingCall | None = None  # the call that this is the inside of
    outermost: PendingCall | None = None  # the agent's own call around it
    _children: dict[str, itertools.count[int]] = {}

    def number(self, name: str) -> int:
        """Return the next number for things of that name started here."""
        counter = self._children.get(name)
        if counter is None:
            counter = self._children.setdefault(name, itertools.count())  # atomic, as is next() on it
        return next(counter)

    def inside(self, call: PendingCall, number: int) -> Scope:
        """Return the scope inside a call made here."""
        outermost = self.outermost or call
        return Scope(self.session, f"{self.path}/{call.name}#{number}", self.step, call.seq, call, outermost)

    def job(self, name: str) -> Scope:
        """Return the scope of a task, pool job or thread started here."""
        name = f"~{name}"  # no call has such a name: calls and jobs are numbered separately
        number = self.number(name)
        if not self.path:
            self.session.job_started(name, number)
        if self.session.hold_ups is not None:
            self.session.hold_ups.watch()
        path = f"{self.path}/{name}#{number}"
        return Scope(self.session, path, self.step, self.parent, outermost=self.outermost)

    def note_job(self, job: Any) -> None:
        """Note a thread, a task or the future of a job that was started here, inside of a call."""
        try:
            reference = ref(job)  # a call, which contexts refer to, must not keep it alive
        except TypeError:  # a task of a foreign loop or factory: nothing can be known about it
            return
        for call in {id(call): call for call in (self.outermost, self.call) if call is not None}.values():
            if call.jobs is None:
                call.jobs = []
            elif len(call.jobs) % _JOBS_BETWEEN_LOOKS == 0:
                # A task that the call left running may start timers for hours.
                call.jobs = [known for known in call.jobs if known() is not None]
            call.jobs.append(reference)

    def go_on_numbering(self, children: Mapping[str, int]) -> None:
        """Continue numbering children from these numbers, by name."""
        self._children = {name: itertools.count(number) for name, number in children.items()}

    def share_numbering(self, other: Scope) -> None:
        """Number children together with another scope of the same path."""
        self._children = other._children


active_sessions: list[RunSession] = []
"""The runs in progress in this process, in any of its threads."""


def sessions_under_way() -> list[RunSession]:
    """Return the runs of this process that have not ended."""
    return [session for session in active_sessions if not session.over]


def only_session() -> RunSession | None:
    """Return the only run in progress in this process; None if there are none or several."""
    under_way = sessions_under_way()
    if len(under_way) == 1:
        return under_way[0]
    return None


_active: ContextVar[Scope | None] = ContextVar("replaykit_scope", default=None)

current = _active.get
"""The active scope, or None outside of any run."""


def inside_call() -> bool:
    """Return whether this is the inside of a call: what is drawn and read here decides nothing in a replay."""
    scope = current()
    return scope is not None and scope.outermost is not None


def scope_in(context: Context) -> Scope | None:
    """Return the active scope of a context, whether or not it is the current one."""
    return context.get(_active)


enter = _active.set
"""Make a scope the active one; returns the token for `leave`."""
leave = _active.reset
