"""The proxy: a server on the loopback interface that stands between a program and the APIs it asks.

It speaks plain HTTP to the program, and forwards to the upstreams it was told of. Each request is a call on the proxy's
own part of the run. It runs in a thread with a loop of its own. The port is open before the server is: in a replay that
has no pace to keep, who connects early waits a moment, and nobody waits for the imports.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from replaykit.errors import ReplayKitError
from replaykit.model.events import Call
from replaykit.model.run import RunStatus
from replaykit.programs.part import PROXY, Part, segment
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.props import MakeEndpoints
from replaykit.replayer.schedule import overlapping, spans_of
from replaykit.replayer.world import World
from replaykit.seam.guard import is_loopback
from replaykit.seam.unrecorded import UnrecordedLog

if TYPE_CHECKING:
    import logging

    from aiohttp.connector import AddrInfoType

    from replaykit.isolation import Sandbox

_BACKLOG = 512
_START_S = 20.0  # for the server to start on a very busy machine
HEAD_S = 30.0  # for the head of the first request on a connection
_GRACE_S = 0.2  # for responses that are under way when the program has ended


ServeInside: TypeAlias = "Callable[[Sandbox], None]"
"""Lets the proxy serve a program that was started in a sandbox."""


def open_port() -> socket.socket:
    """A port of this machine that listens already."""
    return socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)


def address_of(port: socket.socket) -> str:
    return f"http://127.0.0.1:{port.getsockname()[1]}"


@contextmanager
def proxying(
    port: socket.socket,
    plan: Plan,
    world: World | None = None,
    *,
    endpoints: MakeEndpoints | None = None,
    directory: Path | None = None,
) -> Iterator[ServeInside]:
    """The proxy serves that port during the block, and the same port in a sandbox that is handed to the function it
    gives. What went wrong inside of it is raised at the end.

    `endpoints` answer for some upstreams in a way of their own. `directory` is that of the session.
    """
    with port:
        part = Part(plan, world, iter([PROXY]))
        if directory is not None:
            part.leave_out_own_servers(directory)
        if plan.mode is Mode.RECORD:
            part.session.unrecorded = UnrecordedLog(part.session)  # for what it refuses
        thread = _Serving(port, plan, part, endpoints or (lambda part, ask: {}))
        thread.has_work = world is None or any(event.path.startswith(segment(PROXY)) for event in world.calls)
        thread.start()
        if world is None or (thread.has_work and _keeps_pace(part.tape_calls)):
            thread.is_serving.wait(_START_S)  # else a program with little patience would give up before it is heard
        try:
            yield thread.serve_inside
        finally:
            thread.stop()
            part.end(RunStatus.SUCCESS if thread.failure is None else RunStatus.ERROR)
    if thread.failure is not None:
        raise ReplayKitError(f"the proxy failed: {thread.failure}") from thread.failure


def _keeps_pace(calls: Iterable[Call]) -> bool:
    """True when responses have to come in time."""
    known = list(calls)
    return any(not call.complete for call in known) or bool(overlapping(spans_of(known)))


class _Serving(threading.Thread):
    """The thread of the server."""

    def __init__(self, port: socket.socket, plan: Plan, part: Part, endpoints: MakeEndpoints) -> None:
        super().__init__(name="replaykit-proxy", daemon=True)
        self._port = port
        self._plan = plan
        self._part = part
        self._endpoints = endpoints
        self._bell, self._rope = socket.socketpair()  # a byte for each socket to listen on as well; its end is the end
        self._listeners = [port]
        self._further: deque[socket.socket] = deque()
        self._sandbox: Sandbox | None = None
        self.has_work = True
        """False when it may well be that nobody comes, and that all the imports would be for nothing."""
        self.is_serving = threading.Event()
        """Set when requests are answered, and when that will never be."""
        self.failure: Exception | None = None

    def serve_inside(self, sandbox: Sandbox) -> None:
        """Serve the processes in a sandbox as well; servers of this machine are those in the sandbox from here on."""
        if not sandbox.has_own_network():
            return
        self._sandbox = sandbox
        if self._part.own is not None:
            self._part.own.look_into(sandbox.network_tables())
        for listener in sandbox.listeners():
            self._further.append(listener)
            self._rope.send(b"+")

    def _new_socket(self, address: AddrInfoType) -> socket.socket:
        """Make the socket for a connection to an upstream: where that is this machine, in the program's network."""
        family, kind, protocol, _, place = address
        if self._sandbox is not None and is_loopback(str(place[0])):
            return self._sandbox.new_socket(family)
        return socket.socket(family, kind, protocol)

    def stop(self) -> None:
        """End the server, and wait until it has ended."""
        self._rope.close()
        self.join()
        self._bell.close()
        for listener in (*self._listeners, *self._further):
            listener.close()

    def run(self) -> None:
        try:
            if self.has_work or self._is_visited():
                import asyncio  # noqa: PLC0415 (slow to import)

                asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 (handed to whoever ends the proxy)
            self.failure = error
            self._port.close()
        finally:
            self.is_serving.set()

    def _is_visited(self) -> bool:
        """True when somebody connects; False when it is time to end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._port, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if any(one is not self._bell for one in ready):
                    return True
                listener = self._next_listener()
                if listener is None:
                    return False
                selector.register(listener, selectors.EVENT_READ)

    def _next_listener(self) -> socket.socket | None:
        """Wait for one more socket to listen on; None when it is time to end."""
        if not self._bell.recv(1):
            return None
        listener = self._further.popleft()
        self._listeners.append(listener)
        return listener

    async def _serve(self) -> None:
        import asyncio  # noqa: PLC0415 (slow to import, as are the next)

        from aiohttp import web  # noqa: PLC0415

        from replaykit.http_server import HeadDeadline  # noqa: PLC0415 (needs asyncio)
        from replaykit.programs.relay import Relay  # noqa: PLC0415 (needs aiohttp, as does the next)
        from replaykit.programs.upstreams import LONGEST_LINE, Upstreams  # noqa: PLC0415

        loop, upstreams = asyncio.get_running_loop(), Upstreams(self._new_socket)
        relay = Relay(self._plan, self._part, upstreams)
        relay.endpoints = self._endpoints(self._part, upstreams.ask)
        deadline = HeadDeadline(HEAD_S)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            deadline.met(request.protocol)
            return await relay.handle(request)

        server = web.Server(
            handle,
            handler_cancellation=True,
            access_log=None,
            logger=_silent(),
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
        )
        listening = [await loop.create_server(deadline.watched(server), sock=one) for one in self._listeners]
        self.is_serving.set()
        while (listener := await loop.run_in_executor(None, self._next_listener)) is not None:
            listening.append(await loop.create_server(deadline.watched(server), sock=listener))
        for one in listening:
            one.close()
        await server.shutdown(_GRACE_S)
        for endpoint in relay.endpoints.values():
            endpoint.end()
        await upstreams.close()
        self.failure = relay.failure


def _silent() -> logging.Logger:
    """What clients send that is no HTTP is their affair, and is answered; nobody reads of it on stderr."""
    import logging  # noqa: PLC0415 (aiohttp has imported it by now)

    logger = logging.getLogger("replaykit.proxy")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
