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
"""The form of what an MCP server answers to `tools/call`."""


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
    """None: what is given instead of a recorded answer has no place of its own in the run."""


CallAnswer: TypeAlias = Call | Outcome
"""The answer to a call: a recorded call, or an outcome."""


class Injected(Struct, eq=False):
    """The faults that a handler injects into one call."""

    faults: tuple[str, ...] = ()  # the names of those that have struck
    alter: Callable[[CallAnswer], CallAnswer] | None = None  # its answer becomes another one
    instead_of: CallAnswer | None = None  # the answer that was there first
    wait_s: float = 0.0  # how long it is waited for in earnest
    delay_s: float = 0.0  # how much longer the log says that it took

    def applied(self, answer: CallAnswer) -> CallAnswer:
        """The answer that is given and written down; whoever has it first asks, and only once."""
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
    key: bytes  # what it is found by on a tape
    path: str
    step: str | None
    parent: int | None
    seq: int
    at: float
    effects: str  # what it does to the world: none, idempotent or external
    parameters: Parameters | None = None  # of the function that is called, in a replay of a foreign trace
    hosted: bool = False  # a framework makes the call: a tool of that name right inside is the same call
    override: JsonObject | None = None  # other arguments that a handler wants it done with
    injected: Injected | None = None  # faults that a handler wants in it
    request: HttpRequest | None = None  # of a call that goes over HTTP
    is_awaited: bool = True  # False for one that holds up its thread: no event loop turns before it has ended
    is_forgotten: bool = False  # it did not happen after all, and leaves nothing behind
    form: str = ""  # what its answer is written in, where that is a protocol's own: MCP_RESULT
    look_again: Callable[[], tuple[str, ...]] | None = None  # finds what the tool has changed
    mutated: tuple[str, ...] = ()  # those that it found
    emitted: tuple[str, ...] = ()  # by whom of the agent its log records and warnings were taken in; see `emissions`
    surroundings: dict[str, str | None] | None = None  # what it changed of its process, as it was; see `reach`

    def rephrase(self, arguments: bytes) -> None:
        """Say the arguments otherwise wherever they are written down or compared; the call itself is made as it was."""
        self.arguments = self.key = arguments


def pending_call(
    kind: str, name: str, arguments: bytes, scope: Scope, at: float, effects: str = "external"
) -> PendingCall:
    """Return a call that is made in a scope, with the next number of its session."""
    number = next(scope.session.numbers)
    return PendingCall(kind, name, arguments, arguments, scope.path, scope.step, scope.parent, number, at, effects)


def wall_time() -> float:
    """Seconds since the epoch, whatever the agent is made to believe."""
    machine = sys.modules.get("time_machine")
    if machine is None or not machine.traveller_stack:
        return time.time()
    real: float = machine._time_machine.original_time()  # its public way takes five times as long
    return real


class Handler(Protocol):
    """The code behind the seam: it records, replays, forks, injects faults, or passes calls through."""

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """The outcome to give back, or None to let the call happen; may raise to stop it."""

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """A call that was let through has ended."""

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""

    def amend(self, step: str | None, state: Json) -> Json:
        """The state the agent shall go on with; the one it has, unless a fork changes it at this step."""


class Order:
    """When served calls end. Here: at once, whatever happens beside them."""

    pace = 0.0
    """At which recorded responses are given where nobody says otherwise: 1 as they came, 0 at once."""

    def begin(self, call: PendingCall, answer: CallAnswer) -> None:
        """A call begins that is served, and ends when its caller has read all of it."""

    def has_ended(self, call: PendingCall, answer: CallAnswer) -> bool:
        """True when nobody else has anything to do before this call ends: it has ended. A quick way around `wait`."""
        return False

    def wait(self, call: PendingCall, answer: CallAnswer) -> None:
        """Return when it is the turn of this call to end."""

    async def wait_awhile(self, call: PendingCall, answer: CallAnswer) -> None:
        """The same, for a call that is awaited."""

    def outlast(self, call: PendingCall) -> None:
        """Wait for what never came when it was recorded; return when nothing else can happen."""

    async def outlast_awaited(self, call: PendingCall) -> None:
        """The same, for a call that is awaited."""

    def really(self, live: Callable[[], T]) -> Callable[[], T]:
        """Return what does the same in real time: all time is real here."""
        return live

    def really_awaited(self, live: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """`really`, for a call that is awaited."""
        return live


class AnswerAtOnce(Protocol):
    """Answers a call of a tool in a replay without asking the handler, where nothing has to be said about it."""

    def __call__(self, scope: Scope, name: str, arguments: bytes) -> Call | None:
        """The recorded call; None for a call that goes through the seam."""


class Unfinished(Protocol):
    """An exchange whose answer is waited for, or still being read."""

    def broke(self) -> None:
        """It ends here: it is written down as far as it has come."""


class Beginning(Struct, frozen=True, kw_only=True):
    """The first numbers of a run that continues another."""

    number: int = 0
    """Of its events."""
    step: int = 1
    """Of its steps that have no name."""
    children: dict[str, int] = {}
    """Of its calls, tasks, jobs and threads, by name."""


AT_FIRST = Beginning()


class OwnPlaces(Protocol):
    """The places where a program itself listens: requests to them are neither recorded nor served."""

    def takes(self, url: str) -> bool:
        """True when a request for this URL stays within the program."""

    def has(self, host: str, port: int) -> bool:
        """True when a connection to this place stays within the program, or reaches nobody."""

    def had(self, host: str, port: int) -> bool:
        """True when a connection that was made to this place stayed within the program."""

    def has_path(self, path: str) -> bool:
        """True when a process of the program listens at this path."""


class RunSession:
    """One run in progress: its handler, the numbering of its events, and the states as they were last kept."""

    order: Order | None = None
    """In a replay of tools that ran side by side: the order they ended in."""
    answer_at_once: AnswerAtOnce | None = None
    """In a replay: a way around the handler, for calls that the agent makes one after the other."""
    elsewhere: tuple[str, ...] = ()
    """Places (host, port and the beginning of a path) whose requests somebody else writes down or serves."""
    own: OwnPlaces | None = None
    """The places where the agent, or the whole program, itself listens."""
    speed = 0.0
    """The pace at which recorded responses are given: 1 as they came, 2 twice as fast, 0 at once."""
    over = False
    """True when its run has ended; threads that it has left behind may still be at work."""
    is_ending = False
    """True when the main thread of a program has failed: what its other threads wait for will not come."""
    stops_when_over = False
    """True in a replay that ends what it has left behind when it is over."""
    entry: EntryPoint | None = None
    """In a recording: where the agent's own code entered the run; None for a whole program."""
    agent_code: AgentCode | None = None
    """In a recording: what the agent's own code reads; None until a tool is called that changes something."""
    hold_ups: HoldUps | None = None
    """In a recording: how long a busy machine held up its threads."""
    set_ordered: set[str] | None = None
    """In a recording: tools that were called with items in the order of a set, where that is chance."""
    is_foreign = False
    """In a replay: calls on the tape come from a foreign trace, which holds what a model wrote. Then calls carry
    the parameters of their functions. Otherwise they do not: the garbage collector would have to look at each."""
    carries = True
    """False while an agent's module is imported: threads started meanwhile belong to the run that comes after."""
    refuse: Callable[[str, str], BaseException] | None = None
    """In a replay: notes a call by somebody who belongs to no run, and gives the error that stops it."""
    make_tree: Callable[[], ProcessTree] | None = None
    """Makes the tree of the processes that the run starts; None where they are not followed."""
    is_elsewhere = False
    """True when the run is another process's, and this one writes down its own share of it."""
    is_apart = False
    """True for what is no part of any run, and is not to become one."""
    gives_way = False
    """True where a run that begins inside is one of its own, and no part of this one."""
    unrecorded: UnrecordedLog | None = None
    """In a recording: notes what is done past it."""
    files: FileWatcher | None = None
    """Is told which files the run opens."""
    _tree: ProcessTree | None = None
    begins_with_run = False
    """True where chance was held from where `rk.record` was entered, and has to begin there again."""

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
        """Exchanges that are under way, by their numbers."""
        self.leaves: Callable[[str], bool] = lambda _: False
        """In a replay: tells by its URL whether a request of http.client is left to the proxy, which recorded it."""
        self.reported: set[tuple[str, str]] = set()
        """Problems that were reported, each once for each tool."""
        self.idle_threads: set[int] = set()
        """Of such a replay: threads that it has started, and that wait for something to do since."""
        self.warning_logs: list[tuple[list[Any], PendingCall | None]] = []
        """In a recording: lists that the agent's own code catches warnings in, each with the call it did so in."""
        self.own_paths: list[str] = []
        """Directories and temporary files that the agent has made, and its semaphores and shared memory."""
        self.resalt: Callable[[str], None] = lambda _: None
        """Begins chance anew in a forked child of that name, which would go on as its parent does."""
        self.foreign: dict[Any, Scope] = {}
        """The scopes of threads and tasks that nobody of the run has started, by whoever they are."""
        self._states = StateLog(sampling, cleaning)
        self._state_lock = threading.Lock()
        self._state_scope = self.root  # where the last state was
        self._jobs = {name: number for name, number in begins.children.items() if name.startswith("~")}
        self._jobs_lock = threading.Lock()

    def keep(self, kind: type[Event], **fields: Any) -> None:
        """Hand an event that is not a call to the handler, placed where it happened."""
        self._keep(kind, _active.get() or self.root, **fields)

    def note_deviation(self, kind: str, text: str, name: str = "") -> None:
        """Keep a deviation of a replay from its tape, where nobody returns it."""
        from replaykit.model.result import DEVIATION, Deviation  # noqa: PLC0415 (no recording has results of replays)

        deviation = Deviation(kind=kind, name=name, text=text)
        self.keep(Note, name=DEVIATION, content_json=raw(to_builtins(deviation)))

    def checkpoint(self, state: Json) -> Json:
        """Keep the agent's state as it is now, and give back the state to go on with (a fork may change it)."""
        scope = _active.get() or self.root
        with self._state_lock:  # changes must be kept in the order they were made
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
        """Keep the state that a step begins with, where it is not the one before."""
        with self._state_lock:
            self._keep_state(self._states.next(state, only_on_change=True), _active.get() or self.root)

    def go_on_from(self, state: Json, *, after: str | None = None) -> None:
        """The agent begins with this state; with a step, it is kept as the one after that."""
        with self._state_lock:
            if after is None:
                self._states.go_on_from(state)
            else:
                self._keep_state(self._states.next(state), Scope(self, path="", step=after))

    def keep_last_state(self) -> None:
        """Keep the last state after all, if it was not; for the end of a run."""
        with self._state_lock:
            self._keep_state(self._states.last(), self._state_scope)

    def tree(self) -> ProcessTree | None:
        """The processes that the run starts; made when the first of them is."""
        with self._jobs_lock:
            if self._tree is None and self.make_tree is not None:
                self._tree = self.make_tree()
            return self._tree

    @property
    def has_started_processes(self) -> bool:
        return self._tree is not None

    def end_tree(self) -> None:
        """Gather what the processes of the run did."""
        if self._tree is not None:
            self._tree.close()

    def go_on_in_child(self, handler: Handler) -> None:
        """This is a forked child: what happens from here on is its own share of the run."""
        self.handler = handler
        self.order = None
        self._states.lost()  # the parent's log has it, not the child's

    def job_started(self, name: str, number: int) -> None:
        """The agent itself, not something it started, has started its n-th task, job or thread of that name."""
        with self._jobs_lock:
            self._jobs[name] = max(self._jobs.get(name, 0), number + 1)

    def end_exchanges(self) -> None:
        """Write down the exchanges that are still under way, as far as they have come, and take no more of them."""
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
            self._states.lost()  # this one is not in the log: the next must not be a change of it
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
        """Calls made inside belong to this session, in tasks and threads started inside as well."""
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
    """The new value in the old object, where that can be: the agent may go on with the very object it handed over."""
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
    call: PendingCall | None = None  # the call this is the inside of
    outermost: PendingCall | None = None  # the call that the agent itself made, of all that this is the inside of
    _children: dict[str, itertools.count[int]] = {}

    def number(self, name: str) -> int:
        """The next number for things of that name started here."""
        counter = self._children.get(name)
        if counter is None:
            counter = self._children.setdefault(name, itertools.count())  # atomic, as is next() on it
        return next(counter)

    def inside(self, call: PendingCall, number: int) -> Scope:
        """The scope inside a call made here."""
        outermost = self.outermost or call
        return Scope(self.session, f"{self.path}/{call.name}#{number}", self.step, call.seq, call, outermost)

    def job(self, name: str) -> Scope:
        """The scope of a task, pool job or thread started here."""
        name = f"~{name}"  # no call has such a name: calls and jobs are numbered apart
        number = self.number(name)
        if not self.path:
            self.session.job_started(name, number)
        if self.session.hold_ups is not None:
            self.session.hold_ups.watch()
        path = f"{self.path}/{name}#{number}"
        return Scope(self.session, path, self.step, self.parent, outermost=self.outermost)

    def go_on_numbering(self, children: Mapping[str, int]) -> None:
        """Number children from these numbers on, by name."""
        self._children = {name: itertools.count(number) for name, number in children.items()}

    def share_numbering(self, other: Scope) -> None:
        """Number children together with another scope of the same path."""
        self._children = other._children


active_sessions: list[RunSession] = []
"""The runs under way in this process, in any of its threads."""


def sessions_under_way() -> list[RunSession]:
    """Return the runs of this process that have not ended."""
    return [session for session in active_sessions if not session.over]


def only_session() -> RunSession | None:
    """Return the one run under way in this process; None where there are none or several."""
    under_way = sessions_under_way()
    if len(under_way) == 1:
        return under_way[0]
    return None


_active: ContextVar[Scope | None] = ContextVar("replaykit_scope", default=None)

current = _active.get
"""The active scope, or None outside of any run."""


def scope_in(context: Context) -> Scope | None:
    """The active scope of a context, whether or not anybody is in it."""
    return context.get(_active)


enter = _active.set
"""Make a scope the active one; gives the token for `leave`."""
leave = _active.reset
