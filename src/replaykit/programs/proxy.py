"""The proxy: a server on the loopback interface between a program and the APIs it uses.

It speaks plain HTTP to the program, and forwards to its upstreams. Each request is a call in the proxy's own process
log. It runs in a thread with its own event loop. The port is open before the server is: in a replay without a pace to
keep, an early client waits a moment, and the launch does not wait for the imports.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from replaykit.errors import ReplayKitError
from replaykit.handlers.replay.schedule import overlapping, spans_of
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call
from replaykit.model.run import RunStatus
from replaykit.programs.launch_options import MakeEndpoints
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import PROXY, ProcessLog, path_segment
from replaykit.seam.sockets import is_loopback
from replaykit.seam.unrecorded import UnrecordedLog

if TYPE_CHECKING:
    import logging

    from aiohttp.connector import AddrInfoType

    from replaykit.isolation import Sandbox

_BACKLOG = 512
_START_S = 20.0  # for the server to start on a very busy machine
HEAD_S = 30.0  # for the head of the first request on a connection
_GRACE_S = 0.2  # for responses in progress after the program's end


ServeSandbox: TypeAlias = "Callable[[Sandbox], None]"
"""Lets the proxy serve a program that was started in a sandbox."""


def open_port() -> socket.socket:
    """Open a listening port on the loopback interface."""
    return socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)


def address_of(port: socket.socket) -> str:
    return f"http://127.0.0.1:{port.getsockname()[1]}"


@contextmanager
def running_proxy(
    port: socket.socket,
    plan: ProgramPlan,
    world: World | None,
    *,
    endpoints: MakeEndpoints | None = None,
    directory: Path | None = None,
) -> Iterator[ServeSandbox]:
    """Serve the port for the length of the block; yield a function that serves it in a sandbox too. An error inside the
    proxy is raised at the end.

    `endpoints` answer for some upstreams in their own ways. `directory` is the session's.
    """
    with port:
        process_log = ProcessLog.open(plan, world, iter([PROXY]))
        if directory is not None:
            process_log.leave_out_own_servers(directory)
        if plan.mode is Mode.RECORD:
            process_log.session.unrecorded = UnrecordedLog(process_log.session)  # for refused requests
        thread = _ProxyThread(port, plan, process_log, endpoints or (lambda process_log, send: {}))
        thread.has_work = world is None or any(event.path.startswith(path_segment(PROXY)) for event in world.calls)
        thread.start()
        if world is None or (thread.has_work and _keeps_pace(process_log.tape_calls)):
            thread.is_serving.wait(_START_S)  # otherwise an impatient program could give up before it is served
        try:
            yield thread.serve_inside
        finally:
            thread.stop()
            process_log.end(RunStatus.SUCCESS if thread.failure is None else RunStatus.ERROR)
    if thread.failure is not None:
        raise ReplayKitError(f"the proxy failed: {thread.failure}") from thread.failure


def _keeps_pace(calls: Sequence[Call]) -> bool:
    """True if responses have to come at recorded times."""
    return not all(call.complete for call in calls) or bool(overlapping(spans_of(calls)))


class _ProxyThread(threading.Thread):
    """The thread of the server. It imports aiohttp only when a client connects, or if it is known to have work."""

    def __init__(
        self, port: socket.socket, plan: ProgramPlan, process_log: ProcessLog, endpoints: MakeEndpoints
    ) -> None:
        super().__init__(name="replaykit-proxy", daemon=True)
        self._port = port
        self._plan = plan
        self._process_log = process_log
        self._endpoints = endpoints
        # Wakes the thread: one byte for each further socket to listen on; closing it ends the server.
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._listeners = [port]
        self._further: deque[socket.socket] = deque()
        self._sandbox: Sandbox | None = None
        self.has_work = True
        """False if the proxy may get no requests at all, so that its slow imports can wait."""
        self.is_serving = threading.Event()
        """Set once requests are answered, or never will be."""
        self.failure: Exception | None = None

    def serve_inside(self, sandbox: Sandbox) -> None:
        """Also serve the processes in a sandbox, whose network replaces this machine's loopback from now on."""
        if not sandbox.has_own_network():
            return
        self._sandbox = sandbox
        if self._process_log.own_servers is not None:
            self._process_log.own_servers.network = sandbox.network_tables()
        for listener in sandbox.listeners():
            self._further.append(listener)
            self._wakeup_sender.send(b"+")

    def _new_socket(self, address: AddrInfoType) -> socket.socket:
        """Create the socket for a connection to an upstream: in the program's network if that is on this machine."""
        family, kind, protocol, _, place = address
        if self._sandbox is not None and is_loopback(str(place[0])):
            return self._sandbox.new_socket(family)
        return socket.socket(family, kind, protocol)

    def stop(self) -> None:
        """End the server, and wait for it."""
        self._wakeup_sender.close()
        self.join()
        self._wakeup_receiver.close()
        for listener in (*self._listeners, *self._further):
            listener.close()

    def run(self) -> None:
        try:
            if self.has_work or self._has_client():
                import asyncio  # noqa: PLC0415 (slow to import)

                asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 (re-raised by `running_proxy`)
            self.failure = error
            self._port.close()
        finally:
            self.is_serving.set()

    def _has_client(self) -> bool:
        """Return True when a client connects, False when the server is to end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._port, selectors.EVENT_READ)
            selector.register(self._wakeup_receiver, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is not self._wakeup_receiver for key, _ in selector.select()):
                    return True
                listener = self._next_listener()
                if listener is None:
                    return False
                selector.register(listener, selectors.EVENT_READ)

    def _next_listener(self) -> socket.socket | None:
        """Wait for one more socket to listen on; None when it is time to end."""
        if not self._wakeup_receiver.recv(1):
            return None
        listener = self._further.popleft()
        self._listeners.append(listener)
        return listener

    async def _serve(self) -> None:
        import asyncio  # noqa: PLC0415 (slow to import, as are the next)

        from aiohttp import web  # noqa: PLC0415

        from replaykit.http_server import HeadDeadline  # noqa: PLC0415 (needs asyncio)
        from replaykit.programs.proxy_handler import ProxyHandler  # noqa: PLC0415 (needs aiohttp, as does the next)
        from replaykit.programs.upstream_client import LONGEST_LINE, UpstreamClient  # noqa: PLC0415

        loop, upstreams = asyncio.get_running_loop(), UpstreamClient(self._new_socket)
        proxy_handler = ProxyHandler(self._plan, self._process_log, upstreams)
        proxy_handler.endpoints = self._endpoints(self._process_log, upstreams.send)
        deadline = HeadDeadline(HEAD_S)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            deadline.met(request.protocol)
            return await proxy_handler.handle(request)

        server = web.Server(
            handle,
            handler_cancellation=True,
            access_log=None,
            logger=_silent(),
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
        )
        listening = [await loop.create_server(deadline.watched(server), sock=port) for port in self._listeners]
        self.is_serving.set()
        while (listener := await loop.run_in_executor(None, self._next_listener)) is not None:
            listening.append(await loop.create_server(deadline.watched(server), sock=listener))
        for listening_server in listening:
            listening_server.close()
        await server.shutdown(_GRACE_S)
        for endpoint in proxy_handler.endpoints.values():
            endpoint.end()
        await upstreams.close()
        self.failure = proxy_handler.failure


def _silent() -> logging.Logger:
    """Return a logger that writes nothing: malformed requests get an answer, and do not concern the user."""
    import logging  # noqa: PLC0415 (aiohttp has imported it by now)

    logger = logging.getLogger("replaykit.proxy")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
