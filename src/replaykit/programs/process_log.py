"""Process logs: what one process of a program records, or is served, in the run of all of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from replaykit.errors import Divergence, RunExists, StoreError, StoreFull
from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.recording.interrupted import with_reason
from replaykit.handlers.recording.recorder import Recorder
from replaykit.handlers.replay.completion_order import turns_of
from replaykit.handlers.replay.handler import OUTSIDE, Replayer
from replaykit.handlers.replay.order import RecordedOrder
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.model.changes import Cleaning
from replaykit.model.events import AnyEvent, Call, Exchange, LlmCall, Note, StoredEvent, ToolCall
from replaykit.model.matching import MatchMode
from replaykit.model.pins import MACHINE
from replaykit.model.result import DEVIATION, Deviation
from replaykit.model.run import NO_CHANCE, PROCESS_LOGS, Chance, Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.programs.own_servers import OWN_PORT, OwnServers
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.proxy_addresses import UpstreamRouter, base_address, upstream_address
from replaykit.programs.shared_tape import SHARED_MODES, SharedMatcher, shared_tape
from replaykit.seam.call_events import event_of, with_source
from replaykit.seam.http.cleaning import clean_url
from replaykit.seam.scope import CallAnswer, Handler, Outcome, PendingCall, RunSession, wall_time
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.writer import SQLiteWriter

MAIN = "main"
"""The name of the program's first Python process: its calls have no path segment of their own."""
PROXY = "proxy"
"""The name of the proxy's log, with the calls of all processes that cannot record themselves."""
SHIM = "mcp-"
"""The prefix of logs of shims, which stand in front of MCP servers."""


def process_logs_prefix(run_id: str) -> str:
    """Return the prefix of the ids of a run's process logs."""
    return f"{PROCESS_LOGS}/{run_id}"


def process_log_id(run_id: str, name: str) -> str:
    return f"{process_logs_prefix(run_id)}/{name}"


def path_segment(name: str) -> str:
    """Return the path prefix of a process's calls in the merged run."""
    if name == MAIN:
        return ""
    return f"/!{name}"


class ProcessLog:
    """One process's share of a run, open for writing."""

    @classmethod
    def open(cls, plan: ProgramPlan, world: World | None, names: Iterator[str]) -> ProcessLog:
        """Open the log of this process in the plan's store, under the first of these names that is free."""
        redact_as = Path(plan.redact_as) if plan.redact_as else None
        store = SQLiteStore.open(plan.store, durability=plan.durability, redact=plan.redact, redact_as=redact_as)
        try:
            header, writer = _claim_name(store, plan, names)
        except BaseException:
            store.close()
            raise
        return cls(plan, world, header, writer, store)

    def __init__(
        self, plan: ProgramPlan, world: World | None, header: RunHeader, writer: SQLiteWriter, store: SQLiteStore
    ) -> None:
        self.name = header.name
        self._plan = plan
        self._header = header
        self._store = store
        self._writer = _DetachableWriter(writer, store)
        self._recorder = Recorder(self._writer)
        self._recorded = None if world is None else world.calls
        self._ended = False
        self.order: RecordedOrder | None = None
        self.tape_calls: list[Call] = []
        """In a replay: the recorded calls that this process is served."""
        self.was_served: Callable[[str], bool] = lambda tool: False
        """In a replay: tells whether a call of this tool was already answered from the tape."""
        self.own_servers: OwnServers | None = None
        self.not_held: set[str] = set()
        """The sources of randomness the process used that a recording does not pin."""
        # From the inside out: record or serve, then faults, then the names of upstreams. The router is outermost, so
        # that faults see the names on the tape.
        replayer: _ProcessReplayer | None = None
        handler: Handler = self._recorder
        if plan.mode is Mode.REPLAY and world is not None:
            replayer = _ProcessReplayer(world, self.name, self._writer, Path(plan.store).with_name("taken"))
            handler = under_chaos(replayer, world.chaos, place=self.name, recorded=replayer.own_tape.calls)
        if plan.proxy:
            recorded_names = () if replayer is None else {call.name for call in replayer.tape.calls}
            handler = UpstreamRouter(handler, plan.proxy, plan.upstreams, recorded_names)
        self.handler = handler
        self.session = RunSession(handler, lineage=plan.run_id, cleaning=writer.cleaning)
        self.session.speed = plan.speed
        # An endpoint of the proxy records its requests itself, in the protocol that it speaks.
        place = base_address(urlsplit(plan.proxy).netloc, plan.token)
        self.session.elsewhere = tuple(f"{place}/{name}/" for name in plan.endpoints)
        if plan.mode is Mode.RECORD:
            self.session.hold_ups = self._recorder.hold_ups
            self._recorder.number_by(self.session.numbers)
        if world is not None and self.name != PROXY:
            self.session.leaves = _proxy_only_urls(world, plan)
        if replayer is not None and world is not None:
            self._use_tape(replayer, world)

    def _use_tape(self, replayer: _ProcessReplayer, world: World) -> None:
        """Serve the session from the replayer's tape, in the recorded order."""
        self.tape_calls = list(replayer.own_tape.calls)
        self.was_served = replayer.was_served
        self.session.is_foreign = replayer.tape.is_foreign
        self.session.order = turns_of(self.tape_calls)
        # The proxy serves processes with clocks of their own, and a speed asks for real time.
        if self.name == PROXY or self._plan.speed or not self._plan.in_process:
            return
        order = RecordedOrder(self.tape_calls, world.tie_picks, world.held_up_s, world.after_calls_s)
        if order.is_known:
            order.numbers = self.session.numbers
            self.order = replayer.order = self.session.order = order

    def leave_out_own_servers(self, directory: Path) -> None:
        """Leave out requests to the program's own servers from now on; `directory` is the session's."""
        self.own_servers = self.session.own = OwnServers(directory, self._plan, self._found_itself, self._recorded)

    def _found_itself(self, port: int) -> None:
        if self._plan.mode is Mode.RECORD:
            self._recorder.keep(
                Note(seq=next(self.session.numbers), at=wall_time(), name=OWN_PORT, content_json=raw(port))
            )

    def add_deviation(self, text: str, kind: str = "network") -> None:
        """Record something that the process did and that the tape does not account for."""
        self._note(Deviation(kind=kind, text=text))

    def _note(self, deviation: Deviation) -> None:
        self._writer.append(_deviation_note(deviation, next(self.session.numbers)))

    def refuse(self, what: str, caller: str) -> Divergence:
        """Record a call that belongs to no run, and return the error that stops it."""
        text = f"`{what}` was called outside of the run, in {self.name}, by {caller}"
        self.add_deviation(text, OUTSIDE)
        return Divergence(text, index=0, hint="Start what calls it inside of the run.")

    def end(self, status: RunStatus = RunStatus.SUCCESS) -> None:
        """Write the end of the log, and close it."""
        if self._ended:
            return
        self._ended = True
        if self.own_servers is not None:
            for port in sorted(self.own_servers.waited_for):
                self.add_deviation(f"a live connection to 127.0.0.1:{port} found nobody there: {self.name} tried")
        if self.session.unrecorded is not None:
            self.session.unrecorded.end()
        if self.session.files is not None:
            self.session.files.end()
        self._recorder.end()
        if self.order is not None:
            for doubt in self.order.doubts():
                self._note(doubt)
        chance = Chance(
            not_held=tuple(sorted(self.not_held)),
            held_up_s=self._recorder.hold_ups.held_up_s,
            after_calls_s=self._recorder.after_calls_s if self.name == MAIN else 0.0,
        )
        if chance == NO_CHANCE:
            chance = NO_CHANCE  # the same object: encoding recognises a default by identity
        header = msgspec.structs.replace(self._header, status=status, ended_at=wall_time(), chance=chance)
        try:
            if self._recorder.stopped:
                header = with_reason(header, self._recorder.stopped)
            self._writer.finish(header)
        except StoreFull as error:
            self._recorder.stop(error)
        self._store.close()


class _DetachableWriter:
    """Writes a process log for as long as it exists in the store.

    A process may outlive its program. By then its log has been merged into the run, and the process continues
    unrecorded.
    """

    def __init__(self, writer: SQLiteWriter, store: SQLiteStore) -> None:
        self._writer = writer
        self._store = store
        self._cut_off = False

    @property
    def run_id(self) -> str:
        return self._writer.run_id

    @property
    def cleaning(self) -> Cleaning | None:
        return self._writer.cleaning

    def append(self, event: StoredEvent, served: Call | None = None) -> None:
        self._write(self._writer.append, event, served)

    def finish(self, header: RunHeader) -> None:
        self._write(self._writer.finish, header)

    def _write(self, write: Callable[..., object], *arguments: object) -> None:
        try:
            if not self._cut_off:
                write(*arguments)
        except StoreError:
            if self._is_there():
                raise

    def _is_there(self) -> bool:
        below = self.run_id.rpartition("/")[0]
        is_there = any(header.id == self.run_id for header in self._store.headers(below=below))
        self._cut_off = not is_there
        return is_there


class _ProcessReplayer(Replayer):
    """Serves a process its own part of the tape, and the calls that others leave of theirs; logs events at once."""

    def __init__(self, world: World, name: str, writer: _DetachableWriter, claims: Path) -> None:
        rules = world.rules
        if name == PROXY and rules.mode is MatchMode.CAUSAL:
            rules = msgspec.structs.replace(rules, mode=MatchMode.ARGS)  # the proxy sees requests without causal paths
        started_at = world.pins.started_at
        self.own_tape = Tape(_served_calls(world, name), name=world.case_id, started_at=started_at)
        is_shared = rules.mode in SHARED_MODES and not _is_stand_in(path_segment(name))
        super().__init__(Tape(()) if is_shared else self.own_tape, rules, tools=world.tools, models=world.models)
        if is_shared:
            self.tape = shared_tape(self.own_tape, _calls_of_others(world, name))
            self.matcher = SharedMatcher(self.tape, rules, claims)
        self.world = world
        self._writer = writer

    def keep(self, event: AnyEvent) -> None:
        self._writer.append(event)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._log(call, outcome, duration_s)

    def _log_plain(self, call: PendingCall, answer: Call, index: int) -> CallAnswer:
        return self._log(call, answer, answer.duration_s)

    def _log(self, call: PendingCall, answer: CallAnswer, duration_s: float) -> CallAnswer:
        # An answer from the tape was redacted when the tape was made.
        recorded = answer if isinstance(answer, Call) and call.injected is None else None
        event = event_of(call, answer, duration_s)
        if self.world.notes_sources:
            event = with_source(event, answer)
        self._writer.append(event, recorded)
        return answer

    def _note(self, kind: str, call: PendingCall, index: int, text: str) -> None:
        super()._note(kind, call, index, text)
        self._writer.append(_deviation_note(self.deviations[-1], call.seq))


def recorded_calls(world: World) -> list[Call]:
    """Return the recorded calls of a world, without its other events."""
    return [event for event in world.calls if isinstance(event, Call)]


def calls_of_process(world: World, name: str) -> list[Call]:
    """Return the recorded calls of one process, with paths as that process sees them."""
    calls, own = recorded_calls(world), path_segment(name)
    if not own:
        return [call for call in calls if not call.path.startswith("/!")]
    return [_inside_process(call, own) for call in calls if _is_below(call.path, own)]


def _calls_of_others(world: World, name: str) -> list[Call]:
    """Return the recorded calls of all other processes, with paths as each of them sees them. Calls of the proxy and of
    shims are not shared: each speaks for one place. Neither are time and randomness, which are no work of a process."""
    others = []
    for call in recorded_calls(world):
        place = _process_segment(call)
        if place != path_segment(name) and not _is_stand_in(place) and call.name not in MACHINE:
            others.append(_inside_process(call, place))
    return others


def _inside_process(call: Call, place: str) -> Call:
    return msgspec.structs.replace(call, path=call.path.removeprefix(place))


def _proxy_only_urls(world: World, plan: ProgramPlan) -> Callable[[str], bool]:
    """Return a function that tells whether only the proxy recorded a URL, and no Python process. In older recordings
    this is so for http.client."""
    at_proxy: set[str] = set()
    elsewhere: set[str] = set()
    for call in recorded_calls(world):
        if call.wire is not None:
            urls = at_proxy if _is_below(call.path, path_segment(PROXY)) else elsewhere
            urls.add(_without_query(call.wire.url))
    at_proxy -= elsewhere

    def leaves(url: str) -> bool:
        if not at_proxy:
            return False
        return _without_query(upstream_address(clean_url(url), plan.proxy, plan.upstreams)) in at_proxy

    return leaves


def _without_query(url: str) -> str:
    return url.partition("?")[0]


def _process_segment(call: Call) -> str:
    """Return the path prefix that says which process made a call."""
    if call.path.startswith("/!"):
        return call.path[: (call.path + "/").index("/", 1)]
    return ""


def _is_stand_in(place: str) -> bool:
    return place == path_segment(PROXY) or place.startswith(path_segment(SHIM))


def is_recorded_at_proxy_only(world: World) -> bool:
    """True if the recording was made at the proxy, and no process recorded itself. Shims are not counted: they record
    in either case."""
    others = [event for event in world.calls if not is_mcp_event(event)]
    return bool(others) and all(_is_below(event.path, path_segment(PROXY)) for event in others)


def is_mcp_event(event: AnyEvent) -> bool:
    """True for a request to an MCP server, recorded by a shim or by the proxy."""
    if event.path.startswith(path_segment(SHIM)):
        return True
    is_asked = isinstance(event, ToolCall) or (isinstance(event, Exchange) and event.name.startswith("MCP "))
    return is_asked and _is_below(event.path, path_segment(PROXY))


def _served_calls(world: World, name: str) -> list[Call]:
    """Return the calls for a process. If the recording was made without a proxy, the proxy serves everything that went
    over the wire."""
    own = calls_of_process(world, name)
    if name != PROXY:
        return own
    served = list(own)
    for event in world.calls:
        if _is_below(event.path, path_segment(PROXY)):
            if not is_mcp_event(event):
                return own
        # A model call from a trace can be answered over HTTP as well.
        elif isinstance(event, LlmCall) or (isinstance(event, Call) and event.wire is not None):
            served.append(event)
    return served


def _is_below(path: str, own: str) -> bool:
    return path == own or path.startswith(f"{own}/")


def _claim_name(store: SQLiteStore, plan: ProgramPlan, names: Iterator[str]) -> tuple[RunHeader, SQLiteWriter]:
    """Begin a log under the first name that no other process has taken."""
    for name in names:
        header = RunHeader(
            id=process_log_id(plan.run_id, name),
            name=name,
            started_at=wall_time(),
            origin=Origin(kind=PROCESS_LOGS, run=plan.run_id),
            metadata_json=raw({"part": name, "pid": os.getpid()}),
        )
        try:
            # In a replay, the proxy lives in the process that reports: nobody misses what is lost with it.
            return header, store.begin(header, lazily=name == PROXY and plan.mode is Mode.REPLAY)
        except RunExists:
            continue
    raise StoreError(f"run {plan.run_id} has such a part already: two recordings or replays cannot share one run")


def numbered_names(name: str) -> Iterator[str]:
    """Yield `name#0`, `name#1`, … for similar processes."""
    for number in itertools.count():
        yield f"{name}#{number}"


def python_names(script: str) -> Iterator[str]:
    """Yield the names for a Python process; the first one is for the program itself."""
    yield MAIN
    yield from numbered_names(script)


def _deviation_note(deviation: Deviation, seq: int) -> Note:
    return Note(seq=seq, at=wall_time(), name=DEVIATION, content_json=raw(msgspec.to_builtins(deviation)))


def deviations_of(part: TraceRun) -> list[Deviation]:
    """Return the deviations from the tape that a process noted."""
    notes = (event for event in part.events if isinstance(event, Note) and event.name == DEVIATION)
    return [msgspec.convert(note.content, Deviation) for note in notes]
