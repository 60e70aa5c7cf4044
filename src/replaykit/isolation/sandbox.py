"""Sandboxes: start a command, or go on as Python, in a process tree that the kernel keeps shut."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from replaykit.errors import ReplayKitError
from replaykit.isolation import dialing, filters, kernel, landlock, mounts, users, written
from replaykit.isolation.guardian import Guardian
from replaykit.isolation.loopback import start_loopback
from replaykit.isolation.policy import CHANNELS, Findings, Level, Policy, Report, Stopped
from replaykit.isolation.support import Support, no_fork_warnings, support

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replaykit.isolation.common import Common

_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
_BACKLOG = 512
_MOST_DESCRIPTORS = 64
_OK, _FAILED = b"ok", b"failed:"
_ALWAYS_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")


class IsolationFailed(ReplayKitError):
    """A process could not be isolated. It was not started."""


class Sandbox:
    """One isolated process tree: made before it starts, asked for a report when it has ended, then closed.

        with Sandbox(policy) as sandbox:
            process = sandbox.start(["node", "agent.mjs"], stdout=subprocess.PIPE)
            process.wait()
            report = sandbox.report()

    A nested sandbox is for a process that is inside of one already, such as a worker that forks for each replay: it
    has its own network and its own layers of files, and its guardian kills what it leaves behind. What is stopped in it
    is in the report of the outer sandbox, under its `id`.

    Sandboxes with something in `common` are one world for the child processes of a program that is in no sandbox.
    """

    def __init__(
        self, policy: Policy, *, nested: bool = False, level: Level | None = None, common: Common | None = None
    ) -> None:
        """`level` asks for less than the machine offers; more is an error."""
        self.policy = policy
        self._nested = nested
        self._support = support()
        self.level = _chosen(self._support, level, nested=nested)
        self._allowed = dialing.resolve(policy.allow_connect)
        self._filter = _filter_for(self.level)
        as_root = users.can_map_all()
        self._common = common
        layers = None if common is None else common.layers
        self._plan = mounts.plan(policy, self._allowed.hosts, as_root=as_root, layers=layers)
        has_own_users = as_root and common is None and self.level is Level.FULL
        self._users = users.with_all_users() if has_own_users else None
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        self._guardian = 0
        self._received: list[int] | None = None
        self._setup: dict[str, Any] = {}

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in this sandbox; `options` are those of `subprocess.Popen`."""
        try:
            with no_fork_warnings():
                process = subprocess.Popen(command, preexec_fn=self.enter, **options)
        except subprocess.SubprocessError:
            self._receive()
            raise IsolationFailed("the process could not be isolated") from None
        self._guardian = process.pid
        self.started()
        return process

    def started(self) -> None:
        """Say that the process was started: from here on it ends when this one does."""
        self._theirs.close()

    def enter(self) -> None:
        """Enter the sandbox: call it in a process that was just forked and has one thread.

        It returns in the isolated process. The process that called it stays behind as its guardian: it ends when the
        isolated one has ended, in the same way. On failure it raises `IsolationFailed`, and the process has to end: it
        may be half isolated.
        """
        if self.level is Level.PROCESS:
            return
        try:
            entrance = _Entrance(self, self._theirs)
            entrance.enter(self.level)
        except (OSError, ReplayKitError) as error:
            text = f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                self._theirs.send(_FAILED + text.encode(errors="replace")[:4000])
            raise IsolationFailed(f"the process could not be isolated: {text}") from error

    @property
    def id(self) -> int:
        """The number by which reports name this sandbox; 0 when it has no network of its own."""
        self._receive()
        return int(self._setup.get("id", 0))

    def listeners(self) -> list[socket.socket]:
        """Return sockets that accept connections from inside the sandbox, one for each of `Policy.ports`.

        An empty list where the tree shares this machine's network: there the ports are the caller's own.
        """
        descriptors = self._receive()[3 + len(self._setup.get("bases", ())) :]
        return [socket.socket(fileno=os.dup(descriptor)) for descriptor in descriptors]

    def has_own_network(self) -> bool:
        """Return True when the tree shares no network with anybody."""
        return self.level is Level.FULL

    def new_socket(self, family: int) -> socket.socket:
        """Return a TCP socket in the network of the tree, not connected yet: it reaches the tree's own servers."""
        self._receive()
        with self._asking:
            self._ours.send(b"%d" % family)
            data, descriptors, _, _ = socket.recv_fds(self._ours, 16, 1)
        if not data:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the process tree has ended")
        return socket.socket(fileno=descriptors[0])

    def network_tables(self) -> Path:
        """Return where the system lists the sockets of the tree's network, as `/proc/net` does for this process."""
        return Path(f"/proc/{self._guardian}/net")

    def report(self) -> Report:
        """Return what the tree ran into and wrote; whole when the tree has ended."""
        if self.level is Level.PROCESS:
            return Report(levels=dict.fromkeys(CHANNELS, Level.PROCESS), notes=self._support.reasons())
        descriptors = self._receive()
        found = _json_in(descriptors[1])
        stopped = tuple(Stopped(**one) for one in found.get("stopped", ()))
        files, count = self._layers().listed() if len(descriptors) > 2 else ((), 0)
        notes = (*self._setup.get("notes", ()), *found.get("notes", ()))
        return Report(
            levels=self._levels(),
            stopped=stopped,
            more_stopped=found.get("more", 0),
            written=files,
            written_count=count,
            notes=notes,
        )

    def has_ended(self) -> bool:
        """Return True when the process that was started has ended, with everything it left behind."""
        if self.level is Level.PROCESS:
            return False
        self.started()
        if self._received is None and self._is_readable():
            self._receive()
        return self._received is not None and self._is_readable()  # after the descriptors, only the end comes

    def _is_readable(self) -> bool:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        return bool(poll.poll(0))

    def keep_writes(self, directory: Path) -> int:
        """Copy what the tree wrote below a directory, under its whole path, and return how many files that were."""
        return self._layers().copy_to(directory) if len(self._receive()) > 2 else 0

    def close(self) -> None:
        """Let go of the layers; the tree's writes are gone."""
        self._theirs.close()
        self._ours.close()
        for descriptor in self._received or ():
            os.close(descriptor)
        self._received = []

    def _levels(self) -> dict[str, Level]:
        return self._support.levels(self.level, has_own_processes=self._common is None)

    def _layers(self) -> written.Layers:
        descriptors = self._receive()
        return written.Layers(
            layers=descriptors[2],
            bases=list(zip(self._setup["bases"], descriptors[3:], strict=False)),
            overlays=[(path, name) for path, name in self._setup["overlays"]],
            rebuilt=[(path, base) for path, base in self._setup["rebuilt"]],
            entries=set(self._setup["entries"]),
            ours=("/etc/hosts",) if self._allowed.hosts else (),
        )

    def _receive(self) -> list[int]:
        """Return the descriptors that came from the guardian: setup, findings, layers, bases, listeners."""
        if self._received is not None:
            return self._received
        if self.level is Level.PROCESS:
            return []
        self.started()
        data, descriptors, _, _ = socket.recv_fds(self._ours, 8192, _MOST_DESCRIPTORS)
        if data != _OK:
            why = data.removeprefix(_FAILED).decode(errors="replace") or "its guardian died"
            raise IsolationFailed(
                f"the process could not be isolated: {why}",
                hint="`replaykit.isolation.support()` tells what this machine offers.",
            )
        self._received = list(descriptors)
        self._setup = _json_in(descriptors[0])
        return self._received


def _chosen(offered: Support, wanted: Level | None, *, nested: bool) -> Level:
    order = (Level.PROCESS, Level.LANDLOCK, Level.FULL)
    highest = offered.nested_level if nested else offered.level
    if wanted is None:
        return highest
    if order.index(wanted) > order.index(highest):
        reasons = "; ".join(offered.reasons())
        raise IsolationFailed(f"the isolation level {wanted.value!r} is not possible here: {reasons}")
    return wanted


@cache
def _filter_for(level: Level) -> bytes:
    if level is Level.PROCESS:
        return b""
    return filters.packed(filters.program(own_network=level is Level.FULL))


def _json_in(descriptor: int) -> dict[str, Any]:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    loaded = json.loads(data) if data else {}
    return loaded if isinstance(loaded, dict) else {}


class _Entrance:
    """The way of one process into its sandbox. Runs in the process that becomes the guardian, and in its children."""

    def __init__(self, sandbox: Sandbox, owner: socket.socket) -> None:
        self._ports = sandbox.policy.ports
        self._filter = sandbox._filter
        self._allowed = sandbox._allowed
        self._plan = sandbox._plan
        self._nested = sandbox._nested
        self._users = sandbox._users
        self._common = sandbox._common
        self._owner = owner
        self._directory = os.getcwd()
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self._setup = _memory_file("setup")
        self._findings = _memory_file("findings")

    def enter(self, level: Level) -> None:
        collects = gc.isenabled()
        gc.disable()  # a collection would copy every page of what the caller has in memory
        processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        dialer = self._start_dialer() if self._allowed.places else None
        if level is Level.FULL:
            tree, listeners, init = self._enter_namespaces()
        else:
            tree, listeners, init = None, [], None
            self._describe({})
        if init is None:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        ours, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        child = kernel.fork()
        if child == 0:
            ours.close()
            try:
                self._become_isolated(level, theirs)
            except OSError as error:  # the guardian raises it: only one process may go on in the caller's code
                os.write(theirs.fileno(), _FAILED + str(error).encode(errors="replace"))
                os._exit(70)
            for descriptor in (processes, self._setup, self._findings, *(tree.descriptors() if tree else ())):
                os.close(descriptor)
            for one in (*listeners, *filter(None, (dialer,)), self._owner):
                one.close()
            users.forget()
            if collects:
                gc.enable()
            return
        theirs.close()
        listener = self._listener_of(child, ours)
        inside = [] if tree is None else tree.descriptors()
        descriptors = [self._setup, self._findings, *inside, *(one.fileno() for one in listeners)]
        socket.send_fds(self._owner, [_OK], descriptors)
        for one in listeners:
            one.close()
        guardian = Guardian(child, listener, processes, Findings(), self._findings)
        guardian.init = init
        guardian.owner = self._owner
        guardian.allowed = self._allowed
        guardian.dialer = dialer
        guardian.decides = level is Level.LANDLOCK
        guardian.ports = self._ports
        guardian.writable = tuple(map(str, self._writable()))
        _close_all_but(
            listener, processes, self._findings, self._owner.fileno(), dialer.fileno() if dialer is not None else -1
        )
        _run_out(guardian.stand)

    def _enter_namespaces(self) -> tuple[mounts.Tree, list[socket.socket], int | None]:
        if self._common is not None:
            self._common.join()
            kernel.unshare(kernel.CLONE_NEWNS)
            return self._build(lambda: kernel.copy_of_mounts("/proc")), [], None
        namespaces = _NAMESPACES | (0 if self._nested else kernel.CLONE_NEWPID)
        if self._users is None:
            user, group = os.geteuid(), os.getegid()
            kernel.unshare(kernel.CLONE_NEWUSER | namespaces)
            users.map_self(user, group)
        else:
            kernel.join(self._users)
            kernel.unshare(namespaces)
        start_loopback()
        listeners = [socket.create_server(("127.0.0.1", port), backlog=_BACKLOG) for port in self._ports]
        if self._nested:
            return self._build(lambda: -1), listeners, None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        init = kernel.fork()  # it prepares /proc while this process prepares the rest
        if init == 0:
            ours.close()  # else it would never see that the guardian has failed
            _run_out(lambda: _be_init(theirs))
        theirs.close()
        with ours:
            tree = self._build(lambda: _received_from(ours))
            ours.send(b"!")
        return tree, listeners, init

    def _build(self, processes: Callable[[], int]) -> mounts.Tree:
        network = os.stat("/proc/self/ns/net").st_ino
        if self._nested:
            tree = mounts.build_nested(self._plan)
        else:
            tree = mounts.build(self._plan, processes)
        self._describe(
            {
                "id": network,
                "bases": [path for path, _ in tree.bases],
                "overlays": tree.overlays,
                "rebuilt": tree.rebuilt,
                "entries": tree.entries,
                "notes": tree.notes,
            }
        )
        return tree

    def _describe(self, setup: dict[str, Any]) -> None:
        os.pwrite(self._setup, json.dumps(setup).encode(), 0)

    def _become_isolated(self, level: Level, guardian: socket.socket) -> None:
        """Go on as the isolated process: from here on nothing can be taken back."""
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if level is Level.FULL:
            os.chdir(self._directory)
        if level is Level.FULL:
            landlock.restrict_signals()
        elif landlock.version():
            landlock.restrict_all(self._writable())
        keep = kernel.FILE_CAPABILITIES if self._plan.as_root or level is Level.LANDLOCK else ()
        kernel.drop_capabilities(keep)
        try:
            listener = filters.install(self._filter)
        except OSError as error:
            if error.errno != errno.EBUSY or not self._nested:
                raise
            listener = -1  # the outer guardian hears of everything
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        # The guardian takes the descriptor by its number: to send it would be a call that waits for the guardian.
        os.write(guardian.fileno(), b"%d" % listener)
        if not os.read(guardian.fileno(), 1):
            os._exit(70)  # the guardian is gone
        guardian.close()
        if listener >= 0:
            os.close(listener)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _listener_of(self, child: int, channel: socket.socket) -> int:
        """Return the descriptor to hear of the child's system calls; -1 when somebody else does."""
        with channel:
            number = channel.recv(4096)
            if not number or number.startswith(_FAILED):
                os.waitpid(child, 0)
                why = number.removeprefix(_FAILED).decode(errors="replace")
                raise IsolationFailed(why or "the isolated process died while it was set up")
            listener = -1
            if int(number) >= 0:
                process = os.pidfd_open(child)
                listener = kernel.descriptor_of(process, int(number))
                os.close(process)
            channel.send(b"!")
        return listener

    def _writable(self) -> list[Path]:
        return [Path(place) for place in (*self._plan.real, *_ALWAYS_WRITABLE)]

    def _start_dialer(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if kernel.fork() == 0:
            _close_all_but(theirs.fileno())
            _run_out(lambda: dialing.serve(theirs))
        theirs.close()
        return ours


def _be_init(guardian: socket.socket) -> NoReturn:
    """Be the first process of a process namespace: make its /proc, then reap orphans until killed."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        socket.send_fds(guardian, [_OK], [mounts.new_processes()])
    except OSError as error:
        guardian.send(_FAILED + str(error).encode(errors="replace"))
    if not guardian.recv(1):
        os._exit(0)  # the guardian has failed
    _close_all_but()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # it has no filter: nobody inside may trace it
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_own_capabilities()
    while True:
        signal.sigwait([signal.SIGCHLD])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _received_from(init: socket.socket) -> int:
    data, descriptors, _, _ = socket.recv_fds(init, 8192, 1)
    if data != _OK:
        raise IsolationFailed(data.removeprefix(_FAILED).decode(errors="replace") or "its first process died")
    return descriptors[0]


def _memory_file(name: str) -> int:
    return os.memfd_create(f"replaykit-{name}", os.MFD_CLOEXEC)


def _close_all_but(*kept: int) -> None:
    """Close all descriptors but these; the standard streams lead nowhere."""
    nowhere = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        if standard not in kept:
            os.dup2(nowhere, standard)
    last = 2
    for descriptor in sorted(one for one in kept if one > 2):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, 1 << 20)


def _run_out(function: Any) -> NoReturn:
    """Run a function in a process of our own, and end it: nothing of the caller's code runs here."""
    try:
        function()
        os._exit(0)
    except BaseException:  # noqa: BLE001 (the caller's handlers are not for us)
        os._exit(70)
