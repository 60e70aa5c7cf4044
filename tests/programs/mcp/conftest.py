"""What the tests of MCP share: a client over pipes, and shims that record a scripted server or play it."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.store.damaged import store_files

import replaykit as rk
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call
from replaykit.model.faults import ChaosPlan
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, TraceRun, encode_run
from replaykit.programs.mcp.shim_session import ShimSession, join_session, server_environment
from replaykit.programs.mcp.stdio import RecordedStdioServer, StdioRelay
from replaykit.programs.merge import all_deviations, load_process_logs, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan, write_plan

SERVER = Path(__file__).with_name("scripted_server.py")
NAME = "weather"
_PATIENCE_S = 20


class Client:
    """Speaks newline-delimited JSON-RPC over two pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._rest = b""
        self._waiting: list[Any] = []

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._sink, rest) :]

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.write(json.dumps(message).encode() + b"\n")

    def line(self) -> bytes:
        """The next line; nothing at the end."""
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([self._source], [], [], _PATIENCE_S)
            assert ready, "nothing came"
            chunk = os.read(self._source, 1 << 20)
            if not chunk:
                return b""
            pieces.append(chunk)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def receive(self) -> Any:
        """The next message; None at the end."""
        line = self.line()
        return json.loads(line) if line else None

    def silent(self) -> bool:
        """True when nothing is there to be read."""
        return not self._rest and not select.select([self._source], [], [], 0.05)[0]

    def request(self, number: Any, method: str, params: Any = None) -> Any:
        """The answer to a request, after anything else that came before it."""
        self.send(request(number, method, params))
        while (message := self.receive()) is not None and message.get("id") != number:
            self._waiting.append(message)
        return message

    def tool(self, number: Any, name: str, **arguments: Any) -> Any:
        return self.request(number, "tools/call", {"name": name, "arguments": arguments})

    def before(self) -> list[Any]:
        """What came before the last answers."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self) -> None:
        os.close(self._sink)


def request(number: Any, method: str, params: Any = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


class Directory:
    """A recording and its replay, in a directory: sessions as a whole program would have them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.code: int | None = None
        self.problem: BaseException | None = None
        self.run: TraceRun | None = None
        self.again: TraceRun | None = None
        self.deviations: list[Deviation] = []
        self._count = 0

    @contextmanager
    def recording(self) -> Iterator[ShimSession]:
        """A part of a recording; its run is there afterwards."""
        session = self._session(Mode.RECORD)
        with join_session(NAME, session) as own:
            yield own
        self.run = merge_runs(RunHeader(id="run"), self.parts(session))

    @contextmanager
    def replaying(self, rules: MatchRules | None = None, chaos: ChaosPlan | None = None) -> Iterator[ShimSession]:
        """A part of a replay of it; its run and deviations are there afterwards."""
        assert self.run is not None
        world = World(case_id="case", calls=self.run.events, rules=rules or MatchRules(), chaos=chaos)
        with self.in_world(world) as own:
            yield own

    @contextmanager
    def living(self, chaos: ChaosPlan | None = None) -> Iterator[ShimSession]:
        """A part of a live world; its run is there afterwards."""
        with self.in_world(World(case_id="case", tools={"*": ToolMode.LIVE}, chaos=chaos)) as own:
            assert own.has_server
            yield own

    @contextmanager
    def in_world(self, world: World) -> Iterator[ShimSession]:
        session = self._session(Mode.REPLAY, world)
        with join_session(NAME, session) as own:
            yield own
        parts = self.parts(session)
        self.again = merge_runs(RunHeader(id="again"), parts)
        self.deviations = all_deviations(parts, self.again, world)

    @contextmanager
    def recorded(self, *options: str, command: list[str] | None = None, grace_s: float = 5.0) -> Iterator[Client]:
        """A client whose server is the scripted one, behind a shim that records."""
        given = command or [sys.executable, "-I", str(SERVER), *options]
        with self.recording() as own, self._relayed(own, given, grace_s) as client:
            yield client

    @contextmanager
    def lived(self, chaos: ChaosPlan | None = None) -> Iterator[Client]:
        """A client whose server is the scripted one, in a live world with faults."""
        given = [sys.executable, "-I", str(SERVER)]
        with self.living(chaos) as own, self._relayed(own, given, 5.0) as client:
            yield client

    @contextmanager
    def _relayed(self, own: ShimSession, command: list[str], grace_s: float) -> Iterator[Client]:
        def shim(source: int, sink: int) -> int:
            return StdioRelay(NAME, own.session, source=source, sink=sink, grace_s=grace_s).run(
                command, server_environment(os.environ, own.plan)
            )

        with self._between(shim) as client:
            yield client

    @contextmanager
    def replayed(self, rules: MatchRules | None = None, chaos: ChaosPlan | None = None) -> Iterator[Client]:
        """A client that is played the server."""
        with self.replaying(rules, chaos) as own:

            def shim(source: int, sink: int) -> int:
                return RecordedStdioServer(NAME, own.session, own.recorded_server, source=source, sink=sink).run()

            with self._between(shim) as client:
                yield client

    @property
    def calls(self) -> dict[str, Call]:
        """The recorded calls by name; of several the last."""
        assert self.run is not None
        return {call.name: call for call in self.run.calls}

    def _session(self, mode: Mode, world: World | None = None) -> Path:
        self._count += 1
        session = self.directory / f"session-{self._count}"
        session.mkdir()
        write_plan(session, ProgramPlan(mode=mode, run_id="run", store=str(session / "store.db")), world)
        return session

    @contextmanager
    def _between(self, shim: Callable[[int, int], int]) -> Iterator[Client]:
        to_shim, from_client = os.pipe()
        to_client, from_shim = os.pipe()

        def run() -> None:
            try:
                self.code = shim(to_shim, from_shim)
            except BaseException as error:
                self.problem = error
            finally:
                os.close(from_shim)

        self.code, self.problem = None, None
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        client = Client(to_client, from_client)
        try:
            yield client
        finally:
            with _already_closed():
                client.close()
            thread.join(_PATIENCE_S)
            os.close(to_client)
        assert not thread.is_alive()

    def written(self) -> bytes:
        """Everything that is in the recording, as text and as it is at rest."""
        assert self.run is not None
        stores = self.directory.rglob("store.db")
        files = [file.read_bytes() for store in stores for file in store_files(store)]
        assert files
        return b"".join([encode_run(self.run), *files])

    def parts(self, session: Path) -> list[TraceRun]:
        """The parts that were written in a session."""
        with rk.Store.open(session / "store.db") as store:
            return load_process_logs(store, "run")


@contextmanager
def _already_closed() -> Iterator[None]:
    try:
        yield
    except OSError:
        pass


@pytest.fixture
def weather(own_directory: Path) -> Directory:
    return Directory(own_directory)
