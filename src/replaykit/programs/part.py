"""A part: what one process of a program records, or is served, in the run that all of them make."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from replaykit.chaos.front import under_chaos
from replaykit.errors import Divergence, StoreError, StoreFull
from replaykit.model.changes import Cleaning
from replaykit.model.events import AnyEvent, Call, Exchange, LlmCall, Note, StoredEvent, ToolCall
from replaykit.model.matching import MatchMode
from replaykit.model.result import DEVIATION, Deviation
from replaykit.model.run import NO_CHANCE, Chance, Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.programs.access import base_address
from replaykit.programs.naming import ByUpstream, address_behind
from replaykit.programs.own import OWN, OwnPorts, OwnServers
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.sharing import MODES, SharedMatcher, shared_tape
from replaykit.recording.recorder import Recorder
from replaykit.recording.stopping import with_reason
from replaykit.replayer.handler import OUTSIDE, Replayer
from replaykit.replayer.order import RecordedOrder
from replaykit.replayer.tape import Tape
from replaykit.replayer.turns import turns_of
from replaykit.replayer.world import World
from replaykit.seam.http.cleaning import clean_url
from replaykit.seam.logged import event_of, with_source
from replaykit.seam.machine import MACHINE
from replaykit.seam.moment import wall_time
from replaykit.seam.scope import Answer, Handler, Order, Outcome, PendingCall, Session
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.writer import SQLiteWriter

MAIN = "main"
"""The part of the program's first Python process: its calls have no path segment of their own."""
PROXY = "proxy"
"""The part of the proxy, which stands in for all processes that cannot record themselves."""
PARTS = "part"
"""Ids of parts are below this, so that no beginning of a run's id is ambiguous while it is recorded."""
SHIM = "mcp-"
"""Names of parts begin so that stand before a server of another protocol."""


def parts_below(run_id: str) -> str:
    """What the ids of a run's parts are below."""
    return f"{PARTS}/{run_id}"


def part_id(run_id: str, name: str) -> str:
    return f"{parts_below(run_id)}/{name}"


def segment(name: str) -> str:
    """What the paths of a part's calls begin with in the whole run."""
    return "" if name == MAIN else f"/!{name}"


class Part:
    """One process's share of a run, open for writing."""

    def __init__(self, plan: Plan, world: World | None, names: Iterator[str]) -> None:
        redact_as = Path(plan.redact_as) if plan.redact_as else None
        self._store = SQLiteStore.open(plan.store, durability=plan.durability, redact=plan.redact, redact_as=redact_as)
        try:
            self.name, writer, self._header = _claim(self._store, plan, names)
        except BaseException:
            self._store.close()
            raise
        self._writer = _UntilCutOff(writer, self._store)
        self._recorder = Recorder(self._writer)
        handler: Handler = self._recorder
        recorded: Collection[str] = ()
        self.order: RecordedOrder | None = None
        self.tape_calls: list[Call] = []
        """In a replay: the recorded calls that this process is served."""
        turns: Order | None = None
        is_foreign = False
        if plan.mode is Mode.REPLAY and world is not None:
            handler = replaying = _Replaying(world, self.name, self._writer, Path(plan.store).with_name("taken"))
            recorded = {call.name for call in replaying.tape.calls}
            self.tape_calls = list(replaying.own.calls)
            turns = turns_of(self.tape_calls)
            # The proxy serves others, who have a time of their own; and who asks for a speed asks for real time.
            order = (
                RecordedOrder(replaying.own.calls, world.tie_picks) if self.name != PROXY and not plan.speed else None
            )
            if order is not None and order.is_known and plan.in_process:
                self.order = replaying.order = turns = order
            handler = under_chaos(replaying, world.chaos, place=self.name, recorded=replaying.own.calls)
            is_foreign = replaying.tape.is_foreign
        self.told = ByUpstream(handler, plan.proxy, plan.upstreams, recorded)
        self.session = Session(self.told, lineage=plan.run_id, cleaning=writer.cleaning)
        self.session.is_foreign = is_foreign
        self.session.speed = plan.speed
        self.session.order = turns
        if self.order is not None:
            self.order.numbers = self.session.numbers
        if world is not None and self.name != PROXY:
            self.session.leaves = _recorded_at_proxy_alone(world, plan)
        place = base_address(urlsplit(plan.proxy).netloc, plan.token)
        self.session.elsewhere = tuple(f"{place}/{name}/" for name in plan.endpoints)
        self._plan = plan
        self._recorded = None if world is None else world.calls
        self.own: OwnServers | None = None
        self.not_held: set[str] = set()
        """What of chance the process has drawn that a recording does not hold."""
        self._ended = False

    def leave_out_own_servers(self, directory: Path) -> None:
        """From here on, what the program says to itself is no part of the run. The directory is that of the session."""
        proxy = urlsplit(self._plan.proxy).port
        ports = OwnPorts(directory, world=() if proxy is None else (proxy,))
        behind = partial(address_behind, proxy=self._plan.proxy, upstreams=self._plan.upstreams)
        self.own = self.session.own = OwnServers(ports, behind, self._found_itself, self._recorded)

    def _found_itself(self, port: int) -> None:
        if self._plan.mode is Mode.RECORD:
            self._recorder.keep(Note(seq=next(self.session.numbers), at=wall_time(), name=OWN, content_json=raw(port)))

    def tell(self, text: str, kind: str = "network") -> None:
        """Write down that the process did what no call of the tape accounts for."""
        self._note(Deviation(kind=kind, text=text))

    def _note(self, deviation: Deviation) -> None:
        self._writer.append(_deviation(deviation, next(self.session.numbers)))

    def refuse(self, what: str, caller: str) -> Divergence:
        """Write down a call that belongs to no run, and give the error that stops it."""
        text = f"`{what}` was called outside of the run, by {caller} of {self.name}"
        self.tell(text, OUTSIDE)
        return Divergence(text, index=0, hint="Start what calls it inside of the run.")

    def end(self, status: RunStatus = RunStatus.SUCCESS) -> None:
        """Close the part."""
        if self._ended:
            return
        self._ended = True
        for port in sorted(self.own.waited_for) if self.own is not None else ():
            self.tell(f"a live connection to 127.0.0.1:{port} found nobody there: {self.name} tried")
        if self.session.unrecorded is not None:
            self.session.unrecorded.end()
        self._recorder.end()
        for doubt in [] if self.order is None else self.order.doubts():
            self._note(doubt)
        chance = Chance(not_held=tuple(sorted(self.not_held))) if self.not_held else NO_CHANCE
        header = msgspec.structs.replace(self._header, status=status, ended_at=wall_time(), chance=chance)
        try:
            self._writer.finish(with_reason(header, self._recorder.stopped))
        except StoreFull as error:
            self._recorder.stop(error)
        self._store.close()


class _UntilCutOff:
    """Writes a part for as long as it is there.

    A process may outlive the program it belongs to. Its part has been put into the run by then, and the process goes on
    as if nobody recorded it.
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
        try:
            if not self._cut_off:
                self._writer.append(event, served)
        except StoreError:
            if self._is_there():
                raise

    def finish(self, header: RunHeader) -> None:
        try:
            if not self._cut_off:
                self._writer.finish(header)
        except StoreError:
            if self._is_there():
                raise

    def _is_there(self) -> bool:
        below = self.run_id.rpartition("/")[0]
        self._cut_off = all(header.id != self.run_id for header in self._store.headers(below=below))
        return not self._cut_off


class _Replaying(Replayer):
    """Serves a process its own part of the tape, and what the others leave of theirs; writes down what it does as it
    does it."""

    def __init__(self, world: World, name: str, writer: _UntilCutOff, taken: Path) -> None:
        rules = world.rules
        if name == PROXY and rules.mode is MatchMode.CAUSAL:
            rules = msgspec.structs.replace(rules, mode=MatchMode.ARGS)  # it sees requests, and no paths
        started_at = world.pins.started_at
        self.own = Tape(_tape_of(world, name), name=world.case_id, started_at=started_at)
        is_shared = rules.mode in MODES and not _stands_before(segment(name))
        super().__init__(Tape(()) if is_shared else self.own, rules, tools=world.tools, models=world.models)
        if is_shared:
            self.tape = shared_tape(self.own, _calls_of_others(world, name))
            self.matcher = SharedMatcher(self.tape, rules, taken)
        self.world = world
        self._writer = writer

    def keep(self, event: AnyEvent) -> None:
        self._writer.append(event)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._log(call, outcome, duration_s)

    def _log(self, call: PendingCall, answer: Answer, duration_s: float) -> Answer:
        # An answer off the tape has been looked through when the tape was made.
        recorded = answer if isinstance(answer, Call) and call.injected is None else None
        event = event_of(call, answer, duration_s)
        if self.world.notes_sources:
            event = with_source(event, answer)
        self._writer.append(event, recorded)
        return answer

    def _note(self, kind: str, call: PendingCall, index: int, text: str) -> None:
        super()._note(kind, call, index, text)
        self._writer.append(_deviation(self.deviations[-1], call.seq))


def own_calls(world: World, name: str) -> list[Call]:
    """The recorded calls of one process, their paths as that process sees them."""
    own = segment(name)
    calls = (event for event in world.calls if isinstance(event, Call))
    if not own:
        return [call for call in calls if not call.path.startswith("/!")]
    found = (call for call in calls if _is_below(call.path, own))
    return [msgspec.structs.replace(call, path=call.path.removeprefix(own)) for call in found]


def _calls_of_others(world: World, name: str) -> list[Call]:
    """The recorded calls of all processes but one, their paths as each of them saw them. Nobody shares what belongs to
    the proxy or to a shim: each speaks for one place. Nor the time and chance: they are not what a process does."""
    calls = (event for event in world.calls if isinstance(event, Call) and event.name not in MACHINE)
    placed = ((call, _place(call)) for call in calls)
    return [
        msgspec.structs.replace(call, path=call.path.removeprefix(place))
        for call, place in placed
        if place != segment(name) and not _stands_before(place)
    ]


def _recorded_at_proxy_alone(world: World, plan: Plan) -> Callable[[str], bool]:
    """Tell by its URL whether the proxy recorded a request, and no Python process did. Older recordings have requests
    of http.client there."""
    calls = [event for event in world.calls if isinstance(event, Call) and event.wire is not None]
    at_proxy = {_address(call) for call in calls if _is_below(call.path, segment(PROXY))}
    at_proxy -= {_address(call) for call in calls if not _is_below(call.path, segment(PROXY))}

    def leaves(url: str) -> bool:
        address = address_behind(clean_url(url), plan.proxy, plan.upstreams) if at_proxy else ""
        return address.partition("?")[0] in at_proxy

    return leaves


def _address(call: Call) -> str:
    """The URL that a call went to, without its query."""
    return "" if call.wire is None else call.wire.url.partition("?")[0]


def _place(call: Call) -> str:
    """What the path of a call begins with that says which process made it."""
    return call.path[: (call.path + "/").index("/", 1)] if call.path.startswith("/!") else ""


def _stands_before(place: str) -> bool:
    return place == segment(PROXY) or place.startswith(segment(SHIM))


def is_at_proxy_alone(world: World) -> bool:
    """True when the recording was made at the proxy, and no process recorded itself. Servers and what was put before
    them say nothing of that."""
    others = [event for event in world.calls if not is_of_server(event)]
    return bool(others) and all(_is_below(event.path, segment(PROXY)) for event in others)


def is_of_server(event: AnyEvent) -> bool:
    """True for what was asked of an MCP server: written down by a shim, or by the proxy in its place."""
    if event.path.startswith(segment(SHIM)):
        return True
    is_asked = isinstance(event, ToolCall) or (isinstance(event, Exchange) and event.name.startswith("MCP "))
    return is_asked and _is_below(event.path, segment(PROXY))


def _tape_of(world: World, name: str) -> list[Call]:
    """What a process is served from. Where the recording was made without a proxy, the proxy answers for all that went
    over the wire."""
    own = own_calls(world, name)
    at_proxy = [event for event in world.calls if _is_below(event.path, segment(PROXY))]
    if name != PROXY or not all(map(is_of_server, at_proxy)):
        return own
    calls = (event for event in world.calls if isinstance(event, Call) and _is_over_http(event))
    return [*own, *(call for call in calls if not _is_below(call.path, segment(PROXY)))]


def _is_over_http(call: Call) -> bool:
    """True for a call that went over HTTP, or whose answer can go there: a model's that only a trace tells of."""
    return call.wire is not None or isinstance(call, LlmCall)


def _is_below(path: str, own: str) -> bool:
    return path == own or path.startswith(f"{own}/")


def _claim(store: SQLiteStore, plan: Plan, names: Iterator[str]) -> tuple[str, SQLiteWriter, RunHeader]:
    """The first name that no other process has taken, and the run that was begun under it."""
    for name in names:
        header = RunHeader(
            id=part_id(plan.run_id, name),
            name=name,
            started_at=wall_time(),
            origin=Origin(kind=PARTS, run=plan.run_id),
            metadata_json=raw({"part": name, "pid": os.getpid()}),
        )
        try:
            # In a replay the proxy is in the process that reports: what is lost with it is missed by nobody.
            return name, store.begin(header, lazily=name == PROXY and plan.mode is Mode.REPLAY), header
        except StoreError as error:
            if "is in the store already" not in error.message:
                raise
    raise StoreError(f"run {plan.run_id} has such a part already: two recordings or replays cannot share one run")


def numbered(name: str) -> Iterator[str]:
    """`name#0`, `name#1`, … for processes that are alike."""
    number = 0
    while True:
        yield f"{name}#{number}"
        number += 1


def python_names(script: str) -> Iterator[str]:
    """The names a Python process may bear: the first one is the program itself."""
    yield MAIN
    yield from numbered(script)


def _deviation(deviation: Deviation, seq: int) -> Note:
    return Note(seq=seq, at=wall_time(), name=DEVIATION, content_json=raw(msgspec.to_builtins(deviation)))


def deviations_of(part: TraceRun) -> list[Deviation]:
    """What a part says of where it left its tape."""
    notes = (event for event in part.events if isinstance(event, Note) and event.name == DEVIATION)
    return [msgspec.convert(note.content, Deviation) for note in notes]
