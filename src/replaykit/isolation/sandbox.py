"""Sandboxes: start a command, or continue in Python, in a process tree that the kernel confines."""

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
from typing import Any, NamedTuple, NoReturn

from replaykit.errors import ReplayKitError
from replaykit.isolation import dialing, filters, kernel, landlock, mounts, written
from replaykit.isolation.common import Common, can_map_all, enter_namespaces, forget_namespaces, with_all_users
from replaykit.isolation.guardian import Guardian
from replaykit.isolation.policy import CHANNELS, Findings, Level, Policy, Report, Stopped
from replaykit.isolation.process_tree import Keeper, adopt_orphans
from replaykit.isolation.support import Support, support

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
_BACKLOG = 512
_LONGEST_END_S = 5.0
_MOST_DESCRIPTORS = 64
_FULL = "the memory for what is written is full"
_ALL_SIGNALS = signal.valid_signals()
_OK, _FAILED = b"ok", b"failed:"
_ALWAYS_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")


class IsolationFailed(ReplayKitError):
    """A process could not be isolated, and was not started."""


class Sandbox:
    """One isolated process tree: created before it starts, asked for a report after it has ended, then closed.

        with Sandbox(policy) as sandbox:
            process = sandbox.start(["node", "agent.mjs"], stdout=subprocess.PIPE)
            process.wait()
            report = sandbox.report()

    A nested sandbox is for a process inside another one, such as a worker that forks for each replay. It has its own
    network and its own layers. It has no guardian, so whoever forked has to kill what is left behind
    (`kill_descendants`). The report of the outer sandbox lists what was stopped in it, under its `id`.

    Sandboxes with the same `common` are one world, for the child processes of a program that is in no sandbox.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        nested: bool = False,
        level: Level | None = None,
        common: Common | None = None,
        plan: mounts.Plan | None = None,
    ) -> None:
        """`level` requests less than the machine offers; more is an error. `plan` is the `lasting_plan` of an earlier
        nested sandbox with the same policy."""
        self.policy = policy
        self._nested = nested
        self._support = support()
        self.level = _chosen(self._support, level, nested=nested)
        self._allowed = dialing.resolve(policy.allow_connect)
        as_root = can_map_all()
        self._filter = _filter_for(self.level, as_root=as_root)
        self._common = common
        layers = None if common is None else common.layers
        self._plan = plan or mounts.plan(policy, self._allowed.hosts, as_root=as_root, nested=nested, layers=layers)
        has_own_users = as_root and common is None and self.level is Level.FULL
        self._users = with_all_users() if has_own_users else None
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        self._caller = os.getpid()
        self._guardian = 0
        self._received: list[int] | None = None
        self._setup: dict[str, Any] = {}

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in this sandbox; `options` are passed to `subprocess.Popen`."""
        try:
            with kernel.no_fork_warnings():
                process = subprocess.Popen(command, preexec_fn=self.enter, **options)
        except subprocess.SubprocessError:
            self._receive()
            raise IsolationFailed("the process could not be isolated") from None
        self._guardian = process.pid
        self.started()
        return process

    def started(self) -> None:
        """Note that the process was started: if this process ends, so does the tree."""
        self._theirs.close()

    def enter(self) -> None:
        """Enter the sandbox: call it in a newly forked process with one thread.

        It returns in the isolated process. The calling process stays behind as the guardian, and ends when and how the
        isolated one does; in a nested sandbox they are the same process. On failure it raises `IsolationFailed`, and
        the process has to end, since it may be half isolated.
        """
        if self.level is Level.PROCESS:
            return
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            entrance = _Entrance(self, self._theirs, mask)
            if self._nested:
                entrance.enter_nested()
                self._ours.close()  # its messages are for whoever forked
            else:
                entrance.enter(self.level)
        except (OSError, ReplayKitError) as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            text = f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                self._theirs.send(_FAILED + text.encode(errors="replace")[:4000])
            raise IsolationFailed(f"the process could not be isolated: {text}") from error

    @property
    def id(self) -> int:
        """The number of this sandbox in reports; 0 if it has no network of its own."""
        self._receive()
        return int(self._setup.get("id", 0))

    def listeners(self) -> list[socket.socket]:
        """Return sockets that accept connections from inside, one for each of `Policy.ports`.

        Empty if the tree shares this machine's network, in which the ports are the caller's own.
        """
        descriptors = self._receive()[3 + len(self._plan.bases()) :]
        return [socket.socket(fileno=os.dup(descriptor)) for descriptor in descriptors]

    def has_own_network(self) -> bool:
        """Return True if the tree shares its network with nobody."""
        return self.level is Level.FULL

    def new_socket(self, family: int) -> socket.socket:
        """Return an unconnected TCP socket in the tree's network, which can reach its servers."""
        self._receive()
        with self._asking:
            self._ours.send(b"%d" % family)
            data, descriptors, _, _ = socket.recv_fds(self._ours, 16, 1)
        if not data:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the process tree has ended")
        return socket.socket(fileno=descriptors[0])

    def network_tables(self) -> Path:
        """Return the directory with the socket tables of the tree's network, like `/proc/net`."""
        return Path(f"/proc/{self._guardian}/net")

    @property
    def lasting_plan(self) -> mounts.Plan | None:
        """The plan of the files for another sandbox like this one; None if it depends on changing directories."""
        return None if self._plan.bases() else self._plan

    def report(self, *, lists_written: bool = True) -> Report:
        """Return what was stopped and what was written; complete once the tree has ended."""
        if self.level is Level.PROCESS:
            return Report(levels=dict.fromkeys(CHANNELS, Level.PROCESS), notes=self._support.reasons())
        descriptors = self._receive()
        findings = _json_in(descriptors[1])
        stopped = tuple(Stopped(**entry) for entry in findings.get("stopped", ()))
        files, count = self._layers().listed() if lists_written and len(descriptors) > 2 else ((), 0)
        if len(descriptors) > 2 and os.fstatvfs(descriptors[2]).f_bavail == 0:
            stopped += (Stopped("files", f"{self.policy.project}/", "", sandbox=self.id, reason=_FULL),)
        notes = (*self._plan.notes, *self._setup.get("notes", ()), *findings.get("notes", ()))
        return Report(
            levels=self._levels(),
            stopped=stopped,
            more_stopped=findings.get("more", 0),
            written=files,
            written_count=count,
            notes=notes,
        )

    def has_ended(self) -> bool:
        """Return True if the started process has ended, with everything it left behind."""
        if self.level is Level.PROCESS:
            return False
        self.started()
        if self._received is None and self._is_readable():
            self._receive()
        return self._received is not None and self._is_readable()  # after the descriptors only the end comes

    def _is_readable(self) -> bool:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        return bool(poll.poll(0))

    def keep_writes(self, directory: Path) -> int:
        """Copy the tree's writes below a directory, under their full paths, and return the number of files."""
        return self._layers().copy_to(directory) if len(self._receive()) > 2 else 0

    def close(self) -> None:
        """Drop the layers with the tree's writes, and end the rest of the tree."""
        self._theirs.close()
        if self.level is Level.LANDLOCK:
            self._wait_for_end()
        self._ours.close()
        for descriptor in self._received or ():
            os.close(descriptor)
        self._received = []

    def _wait_for_end(self) -> None:
        """Wait until the tree and its keeper have ended, which takes time without a process namespace."""
        with contextlib.suppress(OSError):  # already ended
            self._ours.shutdown(socket.SHUT_WR)
        self._ours.settimeout(_LONGEST_END_S)
        with contextlib.suppress(OSError):
            while self._ours.recv(8192):
                pass

    def _levels(self) -> dict[str, Level]:
        return self._support.levels(self.level, has_own_processes=self._common is None)

    def _layers(self) -> written.Layers:
        descriptors = self._receive()
        return written.Layers(
            layers=descriptors[2],
            bases=list(zip(self._plan.bases(), descriptors[3:], strict=False)),
            overlays=[(path, self._plan.layer_names[path]) for path in self._setup["overlays"]],
            missing=frozenset(self._setup["missing"]),
            copied={path: tuple(state) for path, state in self._setup["copied"].items()},
            ours=("/etc/hosts",) if self._allowed.hosts else (),
        )

    def _receive(self) -> list[int]:
        """Return the guardian's descriptors: setup, findings, layers, bases, listeners."""
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
                hint="`replaykit.isolation.support()` returns what this machine offers.",
            )
        self._received = list(descriptors)
        self._setup = _json_in(descriptors[0])
        return self._received


def _chosen(offered: Support, requested: Level | None, *, nested: bool) -> Level:
    order = (Level.PROCESS, Level.LANDLOCK, Level.FULL)
    highest = offered.nested_level if nested else offered.level
    if requested is None:
        return highest
    if order.index(requested) > order.index(highest):
        reasons = "; ".join(offered.reasons())
        raise IsolationFailed(f"the isolation level {requested.value!r} is not possible here: {reasons}")
    return requested


@cache  # there are few filters, and building one takes 74 µs
def _filter_for(level: Level, *, as_root: bool) -> bytes:
    if level is Level.PROCESS:
        return b""
    is_full = level is Level.FULL
    return filters.packed(filters.program(own_network=is_full, hears_writes=not (is_full and as_root)))


def _json_in(descriptor: int) -> dict[str, Any]:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    loaded = json.loads(data) if data else {}
    return loaded if isinstance(loaded, dict) else {}


class _Entrance:
    """The entry of one process into its sandbox; runs in the process that becomes the guardian, and in its children."""

    def __init__(self, sandbox: Sandbox, owner: socket.socket, mask: set[int | signal.Signals]) -> None:
        self._ports = sandbox.policy.ports
        self._caller = sandbox._caller
        self._temporary = None if sandbox.policy.temporary is None else str(sandbox.policy.temporary)
        self._filter = sandbox._filter
        self._allowed = sandbox._allowed
        self._plan = sandbox._plan
        self._nested = sandbox._nested
        self._users = sandbox._users
        self._common = sandbox._common
        self._owner = owner
        self._directory = os.getcwd()
        self._mask = mask
        self._setup = _memory_file("setup")
        self._findings = _memory_file("findings")

    def enter(self, level: Level) -> None:
        collects = gc.isenabled()
        gc.disable()  # a collection would copy every page of the caller's memory
        processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        dialer = self._start_dialer() if self._allowed.places else None
        ours, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
        keeper = Keeper(self._caller, self._temporary) if level is Level.LANDLOCK else None
        listeners = self._enter_namespaces() if level is Level.FULL else []
        has_processes = level is Level.FULL and self._common is None
        if not has_processes:
            adopt_orphans()
        # The forks come before the files are prepared, right after each other: after each fork, this process copies
        # every page that it works with once more.
        init = _Init.start() if has_processes else None
        child = kernel.fork()
        if child == 0 and keeper is not None:
            first = keeper.fork()
            if first:
                _close_all_but(*keeper.descriptors(), self._owner.fileno())
                _run_out(lambda: keeper.keep(first))
        if child == 0:
            ours.close()
            if init is not None:
                init.channel.close()
            if keeper is not None:
                keeper.close()
            try:
                self._become_isolated(level, theirs)
            except OSError as error:  # the guardian raises it: only one process may continue in the caller's code
                os.write(theirs.fileno(), _FAILED + str(error).encode(errors="replace"))
                os._exit(70)
            for descriptor in (processes, self._setup, self._findings):
                os.close(descriptor)
            for channel in filter(None, (*listeners, dialer, self._owner)):
                channel.close()
            forget_namespaces()
            if collects:
                gc.enable()
            return
        theirs.close()
        try:
            layers = self._prepare_files(level, init)
        except BaseException:
            ours.close()  # which ends the child
            os.waitpid(child, 0)
            raise
        first, listener = self._listener_of(child, ours, has_keeper=keeper is not None)
        listening = [listening_socket.fileno() for listening_socket in listeners]
        socket.send_fds(self._owner, [_OK], [self._setup, self._findings, *layers, *listening])
        for listening_socket in listeners:
            listening_socket.close()
        guardian = Guardian(first, listener, processes, Findings(), self._findings)
        guardian.keeper = child if keeper else None
        guardian.init = None if init is None else init.pid
        guardian.owner = self._owner
        guardian.allowed = self._allowed
        guardian.dialer = dialer
        guardian.decides = level is Level.LANDLOCK
        guardian.ports = self._ports
        guardian.writable = self._writable()
        guardian.layers.real = self._plan.real
        guardian.layers.mounts = tuple(mount.path for mount in self._plan.mounts)
        guardian.layers.hold_all_owners = self._plan.as_root
        _close_all_but(
            listener, processes, self._findings, self._owner.fileno(), dialer.fileno() if dialer is not None else -1
        )
        _run_out(guardian.stand)

    def enter_nested(self) -> None:
        """Enter in this very process: a guardian exists outside, and a fork would take as long as everything else."""
        self._enter_namespaces()
        layers = self._build().descriptors()
        socket.send_fds(self._owner, [_OK], [self._setup, self._findings, *layers])
        for descriptor in (*layers, self._setup, self._findings):
            os.close(descriptor)
        self._owner.close()
        forget_namespaces()
        self._restrict_full()
        if not filters.has_listener():  # the guardian of the outer sandbox
            raise IsolationFailed("there is no sandbox around this one")

    def _enter_namespaces(self) -> list[socket.socket]:
        """Enter new namespaces, and return listening sockets in them."""
        if self._common is not None:
            self._common.join()
            kernel.unshare(kernel.CLONE_NEWNS)
            return []
        namespaces = _NAMESPACES | (0 if self._nested else kernel.CLONE_NEWPID)
        enter_namespaces(namespaces, self._users)
        return [socket.create_server(("127.0.0.1", port), backlog=_BACKLOG) for port in self._ports]

    def _prepare_files(self, level: Level, init: _Init | None) -> list[int]:
        """Give the namespaces their files, describe those, and return descriptors of what will be written."""
        if level is not Level.FULL:
            self._describe({})
            return []
        if init is None:
            tree = self._build(lambda: kernel.copy_of_mounts("/proc"))
        else:
            with init.channel:
                tree = self._build(init.processes)
                init.channel.send(b"!")
        return tree.descriptors()

    def _build(self, processes: Callable[[], int] | None = None) -> mounts.MountTree:
        """Build the files of the namespaces, and describe them; without `processes` those of a nested sandbox."""
        network = os.stat("/proc/self/ns/net").st_ino
        if processes is None:
            tree = mounts.build_nested(self._plan)
        else:
            tree = mounts.build(self._plan, processes)
        self._describe(
            {
                "id": network,
                "overlays": tree.overlays,
                "missing": tree.missing,
                "copied": tree.copied,
                "notes": tree.notes,
            }
        )
        return tree

    def _describe(self, setup: dict[str, Any]) -> None:
        os.pwrite(self._setup, json.dumps(setup).encode(), 0)

    def _become_isolated(self, level: Level, guardian: socket.socket) -> None:
        """Go on as the isolated process: from here on nothing can be taken back."""
        if not os.read(guardian.fileno(), 1):
            os._exit(70)  # the guardian could not prepare the files
        if level is Level.FULL:
            self._restrict_full()
        else:
            self._restrict_landlock()
        listener = filters.install(self._filter)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        # The guardian takes the descriptor by its number: to send it would be a call that waits for the guardian.
        os.write(guardian.fileno(), b"%d %d" % (os.getpid(), listener))
        if not os.read(guardian.fileno(), 1):
            os._exit(70)  # the guardian is gone
        guardian.close()
        os.close(listener)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _restrict_full(self) -> None:
        """Give up what namespaces leave to this process: it goes on in the new files, where it was."""
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        os.chdir(self._directory)
        landlock.restrict_signals()
        kernel.drop_capabilities(kernel.FILE_CAPABILITIES if self._plan.as_root else ())

    def _restrict_landlock(self) -> None:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if landlock.version():
            landlock.restrict_all(self._writable())
        kernel.drop_capabilities(kernel.FILE_CAPABILITIES)

    def _listener_of(self, child: int, channel: socket.socket, *, has_keeper: bool) -> tuple[int, int]:
        """Return the isolated process, and the descriptor to hear of its system calls."""
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody inside may trace this process, from the first moment on
        with channel:
            channel.send(b"!")
            data = channel.recv(4096)
            if not data or data.startswith(_FAILED):
                os.waitpid(child, 0)
                why = data.removeprefix(_FAILED).decode(errors="replace")
                raise IsolationFailed(why or "the isolated process died while it was set up")
            own_number, number = map(int, data.split())
            first = own_number if has_keeper else child  # which has another number in a process namespace
            process = os.pidfd_open(first)
            listener = kernel.descriptor_of(process, number)
            os.close(process)
            channel.send(b"!")
        return first, listener

    def _writable(self) -> tuple[str, ...]:
        return (*self._plan.real, *_ALWAYS_WRITABLE)

    def _start_dialer(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if kernel.fork() == 0:
            _close_all_but(theirs.fileno())
            _run_out(lambda: dialing.serve(theirs))
        theirs.close()
        return ours


class _Init(NamedTuple):
    """The first process of a process namespace, as the guardian sees it."""

    pid: int
    channel: socket.socket

    @staticmethod
    def start() -> _Init:
        """Start it; it prepares /proc while this process prepares the rest."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = kernel.fork()
        if pid == 0:
            ours.close()  # else it would never see that the guardian has failed
            _run_out(lambda: _be_init(theirs))
        theirs.close()
        return _Init(pid, ours)

    def processes(self) -> int:
        """Return the file system for /proc that it has made."""
        data, descriptors, _, _ = socket.recv_fds(self.channel, 8192, 1)
        if data != _OK:
            raise IsolationFailed(data.removeprefix(_FAILED).decode(errors="replace") or "its first process died")
        return descriptors[0]


def _be_init(guardian: socket.socket) -> NoReturn:
    """Be the first process of a process namespace: make its /proc, then reap orphans until killed."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # it has no filter: nobody inside may trace it, from the first moment on
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        socket.send_fds(guardian, [_OK], [mounts.new_processes()])
    except OSError as error:
        guardian.send(_FAILED + str(error).encode(errors="replace"))
    if not guardian.recv(1):
        os._exit(0)  # the guardian has failed
    _close_all_but()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_own_capabilities()
    while True:
        signal.sigwait([signal.SIGCHLD])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _memory_file(name: str) -> int:
    return os.memfd_create(f"replaykit-{name}", os.MFD_CLOEXEC)


def _close_all_but(*descriptors: int) -> None:
    """Close all descriptors but these; the standard streams lead nowhere."""
    nowhere = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        if standard not in descriptors:
            os.dup2(nowhere, standard)
    last = 2
    for descriptor in sorted(descriptors):
        if descriptor > 2:
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
