"""The guardian of an isolated process tree: waits for its end, forwards signals, and checks its system calls.

The caller started the guardian, and the isolated process is its child. So the guardian's exit status is the tree's, and
killing it kills the tree. A tree with namespaces of its own is confined whatever the guardian does: it only reports
what fails. A tree without them makes no connections by itself: the guardian makes the allowed ones, with the address
that it has read, so that nothing can be exchanged after the check.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import select
import signal
import socket
import stat
import struct
from _thread import start_new_thread
from typing import NoReturn

from replaykit.isolation import dialing, filters, kernel
from replaykit.isolation.layer_calls import LayerCalls
from replaykit.isolation.process_tree import descendants, end_like, kill_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from replaykit.isolation.policy import Findings

_RECEIVE, _SEND, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40182103
_NOTIFICATION = struct.Struct("QIIiIQ6Q")
_CONTINUE = 1
_SET_DESCRIPTOR = 1
_JOB_CONTROL = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
_FORWARDED = set(signal.Signals) - _JOB_CONTROL - {signal.SIGKILL, signal.SIGCHLD, signal.SIGPIPE}
_FROM_KERNEL = 0x80  # sent by a terminal, to the whole process group
_LONGEST_ADDRESS = 128
_MESSAGES_LOOKED_AT = 16
_LISTENING = "0A"
_MOST_SERVED = 10_000
_LINE_BYTES, _TABLE_BYTES = 150, 1 << 16
_IPPROTO_MPTCP = 262
_FAMILIES = {
    1: "AF_UNIX",
    2: "AF_INET",
    10: "AF_INET6",
    16: "AF_NETLINK",
    17: "AF_PACKET",
    29: "AF_CAN",
    31: "AF_BLUETOOTH",
    38: "AF_ALG",
    40: "AF_VSOCK",
    43: "AF_SMC",
    44: "AF_XDP",
}
_O_NONBLOCK, _O_CLOEXEC = 0o4000, 0o2000000


class Stop(Exception):
    """Answers the system call with an error number."""

    def __init__(self, number: int) -> None:
        self.number = number


class Guardian:
    """Stays outside of the tree whose first process is `child`."""

    def __init__(self, child: int, listener: int, processes: int, findings: Findings, findings_file: int) -> None:
        self._child = child
        self._listener = listener
        self._processes = processes  # the /proc of the outside
        self._findings = findings
        self._file = findings_file
        self._served: set[tuple[int, str, str, int]] = set()
        self._servers: set[tuple[int, int]] = set()
        self._answers: dict[int, tuple[socket.socket, int, int, int]] = {}
        self._poll = select.poll()
        self.keeper: int | None = None
        """The process that ends like the tree's first one, if that is not the guardian's own child."""
        self.init: int | None = None
        """The process whose end kills all others; None without a process namespace."""
        self.owner: socket.socket | None = None
        """A socket that closes when the process that reads the report ends."""
        self.allowed = dialing.Allowed(frozenset(), "")
        self.dialer: socket.socket | None = None
        self.decides = False
        """True for a tree without namespaces of its own."""
        self.ports: tuple[int, ...] = ()
        self.writable: tuple[str, ...] = ()
        self.layers = LayerCalls(processes, self._unwritten)

    def stand(self) -> NoReturn:
        """Wait until the tree has ended, and end in the same way."""
        signals = kernel.signal_descriptor(_FORWARDED)
        awaited = self._child if self.keeper is None else self.keeper
        end = os.pidfd_open(awaited)
        for descriptor in (signals, end):
            self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        if self.owner is not None:
            self._poll.register(self.owner, select.POLLIN)
        while True:
            events = dict(self._poll.poll())
            if end in events:
                break
            if signals in events:
                self._pass_on(os.read(signals, 128))
            if self.owner is not None and self.owner.fileno() in events:
                self._serve_owner(self.owner)
            for descriptor in self._answers.keys() & events.keys():
                self._inject(descriptor)
            if events.get(self._listener, 0) & select.POLLIN:
                self._hear()
            elif events.get(self._listener, 0):
                self._poll.unregister(self._listener)
        _, status = os.waitpid(awaited, 0)
        self._end_tree()
        self._write_findings()
        end_like(status)

    def _serve_owner(self, owner: socket.socket) -> None:
        """Create a socket in the tree's network for the process that reads the report; end the tree if that is gone."""
        try:
            family = owner.recv(16)
        except ConnectionResetError:  # the owner ended before it read everything
            family = b""
        if not family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)  # nobody waits for it any more
            self._poll.unregister(owner)
            return
        with socket.socket(int(family), socket.SOCK_STREAM) as client:
            socket.send_fds(owner, [family], [client.fileno()])

    def _pass_on(self, data: bytes) -> None:
        number, _, code = struct.unpack_from("IiI", data)
        if code != _FROM_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, number)

    def _end_tree(self) -> None:
        if self.dialer is not None:
            self.dialer.close()  # which ends its process
        if self.init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGKILL)
        else:
            kill_descendants()
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _write_findings(self) -> None:
        data = self._findings.to_json()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)

    def _hear(self) -> None:
        """Answer one system call."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError:  # the process has ended
            return
        number, pid, _, syscall, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        before = self._findings.changes
        refusal, is_answered = 0, False
        try:
            is_answered = self._look(number, pid, syscall, arguments)
        except Stop as stop:
            refusal = stop.number
        except OSError:  # its memory or /proc is unreadable: it has ended, or hides
            refusal = errno.EACCES if self.decides else 0
        if self._findings.changes != before:
            self._write_findings()  # before the answer: the process may end right after it
        if refusal:
            self._answer(number, -refusal)
        elif not is_answered:
            self._answer(number, 0, _CONTINUE)

    def _answer(self, number: int, result: int, flags: int = 0) -> None:
        error = min(result, 0)
        with contextlib.suppress(OSError):  # the process has ended
            fcntl.ioctl(self._listener, _SEND, struct.pack("QqiI", number, max(result, 0), error, flags))

    def _look(self, number: int, pid: int, syscall: int, arguments: list[int]) -> bool:
        """Check a system call; return False if it may proceed, and True if it is answered now or later."""
        name = _NAMES.get(syscall, "")
        if name == "socket":
            self._refuse_socket(pid, arguments)
        if name == "connect":
            address = kernel.read_memory(pid, arguments[1], min(arguments[2], _LONGEST_ADDRESS))
            return self._connect(number, pid, arguments[0], address)
        if name == "listen":
            self._note_server(pid, arguments[0])
        elif name == "sendto":
            address = kernel.read_memory(pid, arguments[4], min(arguments[5], _LONGEST_ADDRESS))
            self._send(pid, address)
        elif name in ("sendmsg", "sendmmsg"):
            count = 1 if name == "sendmsg" else min(arguments[2], _MESSAGES_LOOKED_AT)
            for index in range(count):
                target, length = struct.unpack("QI", kernel.read_memory(pid, arguments[1] + 64 * index, 12))
                if target and length:
                    self._send(pid, kernel.read_memory(pid, target, min(length, _LONGEST_ADDRESS)))
        elif name in filters.WRITING_CALLS:
            return self._change_files(number, pid, name, arguments)
        return False

    def _change_files(self, number: int, pid: int, name: str, arguments: list[int]) -> bool:
        if self.decides:
            self._write(pid, name, arguments)
            return False
        if not self.layers.hold_all_owners:
            self.layers.check_owner(pid, name, arguments)
        if name in filters.LINKED_FILES:
            self.layers.check_link(pid, name, arguments)
        result = self.layers.rename(pid, name, arguments) if name in filters.RENAMES else None
        if result is None:
            return False
        if result:
            raise Stop(result)
        self._answer(number, 0)
        return True

    def _refuse_socket(self, pid: int, arguments: list[int]) -> NoReturn:
        family, kind, protocol = (argument & 0xFFFFFFFF for argument in arguments[:3])
        kind &= 0xF
        self._stopped(_channel_of(family, kind), _socket_name(family, kind, protocol), pid)
        if family in (socket.AF_INET, socket.AF_INET6):
            is_plain = kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
            raise Stop(errno.EPROTONOSUPPORT if is_plain and protocol not in (0, 17) else errno.EACCES)
        raise Stop(errno.EACCES if family == socket.AF_UNIX else errno.EAFNOSUPPORT)

    def _connect(self, number: int, pid: int, descriptor: int, address: bytes) -> bool:
        if _family(address) == socket.AF_UNIX:
            return self._connect_unix(number, pid, descriptor, address)
        place = _internet_place(address)
        if place is None:
            return self._go_on(number, pid, descriptor, address)
        ip, port = place
        channel = "udp" if self._kind_of(pid, descriptor) == socket.SOCK_DGRAM else "tcp"
        if channel == "tcp" and (ip, port) in self.allowed.places:
            self._dial(number, pid, descriptor, ip, port)
            return True
        target, is_local = _target(ip, port), _is_local(ip)
        if is_local and self._is_served(pid, channel, ip, port):
            self._findings.remove(channel, target, self._sandbox(pid))
            return self._go_on(number, pid, descriptor, address)
        if (ip, port) not in self.allowed.places:  # resolvers connect UDP sockets only to learn their own address
            self._stopped(channel, target, pid)
        if self.decides:
            raise Stop(errno.ECONNREFUSED if is_local else errno.ENETUNREACH)
        return False

    def _connect_unix(self, number: int, pid: int, descriptor: int, address: bytes) -> bool:
        path = _unix_path(address)
        if not path:
            return self._go_on(number, pid, descriptor, address)
        if path.startswith("\0"):
            name = "@" + path[1:].rstrip("\0")
            if self._is_bound_inside(pid, name):
                return self._go_on(number, pid, descriptor, address)
            self._stopped("unix", name, pid)
            if self.decides:
                raise Stop(errno.ECONNREFUSED)
            return False
        absolute = os.path.join(self._directory_of(pid), path)
        if (os.path.realpath(absolute), 0) in self.allowed.places:
            self._dial(number, pid, descriptor, os.path.realpath(absolute), 0)
            return True
        if self.decides:
            return self._connect_path(number, pid, descriptor, absolute)
        if self._is_foreign_socket(pid, path, absolute):
            self._stopped("unix", absolute, pid)
        return False

    def _connect_path(self, number: int, pid: int, descriptor: int, path: str) -> bool:
        """Connect a socket of the tree to the path that was checked."""
        with kernel.opened(path) as place:  # ENOENT and the like become the answer
            if not self._is_writable(os.readlink(f"self/fd/{place}", dir_fd=self._processes)):
                self._stopped("unix", path, pid)
                raise Stop(errno.ECONNREFUSED)
            through = f"/proc/self/fd/{place}".encode()
            self._perform(number, pid, descriptor, struct.pack("H", socket.AF_UNIX) + through + b"\0")
        return True

    def _go_on(self, number: int, pid: int, descriptor: int, address: bytes) -> bool:
        """Let a call proceed: by itself or, if the guardian decides, with the address that was checked."""
        if not self.decides:
            return False
        self._perform(number, pid, descriptor, address)
        return True

    def _perform(self, number: int, pid: int, descriptor: int, address: bytes) -> None:
        """Perform `connect` on the process's own socket."""
        copy = self._copy_of(pid, descriptor)
        if fcntl.fcntl(copy, fcntl.F_GETFL) & _O_NONBLOCK or address[:2] == struct.pack("H", socket.AF_UNIX):
            self._perform_now(number, copy, address)
        else:
            start_new_thread(self._perform_now, (number, copy, address))

    def _perform_now(self, number: int, copy: int, address: bytes) -> None:
        try:
            kernel.call(kernel.number("connect"), copy, address, len(address))
        except OSError as error:
            self._answer(number, -(error.errno or errno.EACCES))
        else:
            self._answer(number, 0)
        finally:
            os.close(copy)

    def _dial(self, number: int, pid: int, descriptor: int, host: str, port: int) -> None:
        """Have a connection made outside; `_inject` receives it."""
        assert self.dialer is not None
        copy = self._copy_of(pid, descriptor)
        flags = fcntl.fcntl(copy, fcntl.F_GETFL)
        os.close(copy)
        answer = dialing.ask(self.dialer, host, port)
        self._answers[answer.fileno()] = (answer, number, descriptor, flags)
        self._poll.register(answer, select.POLLIN)

    def _inject(self, waiting: int) -> None:
        """Replace the socket of the process by a connection that was made outside."""
        answer, number, descriptor, flags = self._answers.pop(waiting)
        self._poll.unregister(waiting)
        with answer:
            connection, error = dialing.receive(answer)
        if connection < 0:
            self._answer(number, -error)
            return
        try:
            fcntl.fcntl(connection, fcntl.F_SETFL, flags)
            added = struct.pack("QIIII", number, _SET_DESCRIPTOR, connection, descriptor, _O_CLOEXEC)
            with contextlib.suppress(OSError):  # the process has ended
                fcntl.ioctl(self._listener, _ADD_DESCRIPTOR, added)
            self._answer(number, 0)
        finally:
            os.close(connection)

    def _send(self, pid: int, address: bytes) -> None:
        """Report the receiver of a message if it is outside of the tree."""
        if _family(address) == socket.AF_UNIX:
            path = _unix_path(address)
            absolute = path if path.startswith("\0") else os.path.join(self._directory_of(pid), path)
            if path and self._is_foreign_socket(pid, path, absolute):
                self._stopped("unix", absolute.replace("\0", "@"), pid)
        place = _internet_place(address)
        if place is None:
            return
        ip, port = place
        target = _target(ip, port)
        if _is_local(ip) and self._is_served(pid, "udp", ip, port):
            self._findings.remove("udp", target, self._sandbox(pid))
        else:
            self._stopped("udp", target, pid)

    def _write(self, pid: int, name: str, arguments: list[int]) -> None:
        """Report a write in a place where Landlock refuses it."""
        for directory_at, path_at in filters.WRITING_CALLS[name]:
            path = kernel.read_text(pid, arguments[path_at])
            directory = -1 if directory_at is None else arguments[directory_at] & 0xFFFFFFFF
            is_open = directory < 0x80000000 and directory_at is not None
            base = self._readlink(pid, f"fd/{directory}") if is_open else self._directory_of(pid)
            whole = os.path.join(base, path)
            real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
            if name in ("open", "openat", "openat2", "truncate", "creat"):
                real = os.path.realpath(whole)
            if name == "openat2" and not self._opens_for_writing(pid, arguments):
                continue
            if not self._is_writable(real) and not real.startswith("/proc/") and _may_write(real):
                self._stopped("files", real, pid)

    def _opens_for_writing(self, pid: int, arguments: list[int]) -> bool:
        flags = struct.unpack("Q", kernel.read_memory(pid, arguments[2], 8))[0]
        return bool(flags & filters.WRITING_FLAGS)

    def _is_writable(self, path: str) -> bool:
        return any(path == place or path.startswith(f"{place}/") for place in self.writable)

    def _stopped(self, channel: str, target: str, pid: int) -> None:
        self._findings.add(channel, target, self._program(pid), self._sandbox(pid))

    def _unwritten(self, path: str, pid: int, reason: str) -> None:
        self._findings.add("files", path, self._program(pid), self._sandbox(pid), reason=reason)

    def _program(self, pid: int) -> str:
        try:
            with kernel.opened(f"{pid}/cmdline", os.O_RDONLY, below=self._processes) as descriptor:
                words = os.read(descriptor, 600).split(b"\0")
        except OSError:
            return ""
        return b" ".join(words).decode(errors="replace").strip()

    def _sandbox(self, pid: int) -> int:
        """Return the number of a process's network namespace: each sandbox has its own."""
        try:
            return os.stat(f"{pid}/ns/net", dir_fd=self._processes).st_ino
        except OSError:
            return 0

    def _readlink(self, pid: int, name: str) -> str:
        return os.readlink(f"{pid}/{name}", dir_fd=self._processes)

    def _directory_of(self, pid: int) -> str:
        return self._readlink(pid, "cwd")

    def _copy_of(self, pid: int, descriptor: int) -> int:
        try:
            process = os.pidfd_open(pid)
        except OSError:  # the number of a thread, which has no pidfd: find its process
            process = os.pidfd_open(self._leader_of(pid))
        try:
            return kernel.descriptor_of(process, descriptor)
        finally:
            os.close(process)

    def _leader_of(self, thread: int) -> int:
        for line in self._read(f"{thread}/status").splitlines():
            if line.startswith("Tgid:"):
                return int(line.split()[1])
        raise ProcessLookupError(thread)

    def _kind_of(self, pid: int, descriptor: int) -> int:
        with socket.socket(fileno=self._copy_of(pid, descriptor)) as copy:
            return copy.type

    def _is_served(self, pid: int, channel: str, ip: str, port: int) -> bool:
        """Return True if a process of the tree, or the caller, serves a port of the loopback interface."""
        if self.decides:
            return (port in self.ports and ip == "127.0.0.1") or self._has_listener(pid, channel, ip, port)
        if channel == "tcp" and (self._sandbox(pid), port) in self._servers:
            return True
        key = (self._sandbox(pid), channel, ip, port)
        if key not in self._served and self._has_listener(pid, channel, ip, port):
            if len(self._served) >= _MOST_SERVED:
                self._served.clear()
            self._served.add(key)
        return key in self._served

    def _note_server(self, pid: int, descriptor: int) -> None:
        """Note that a process of the tree is about to serve a port; earlier attempts were just waiting for it."""
        with socket.socket(fileno=self._copy_of(pid, descriptor)) as server:
            if server.family not in (socket.AF_INET, socket.AF_INET6):
                return
            port = server.getsockname()[1]
        sandbox = self._sandbox(pid)
        self._servers.add((sandbox, port))
        self._findings.remove_port(port, sandbox)

    def _has_listener(self, pid: int, channel: str, ip: str, port: int) -> bool:
        suffix = f":{port:04X}"
        for table in (channel, f"{channel}6"):
            for line in self._sockets_in(f"{pid}/net/{table}", is_stream=channel == "tcp"):
                fields = line.split()
                if fields[1].endswith(suffix) and _reaches(ip, _ip_in_table(fields[1])):
                    return not self.decides or self._is_held_inside(fields[9])
        return False

    def _sockets_in(self, path: str, *, is_stream: bool) -> Iterator[str]:
        """Yield the lines of sockets that can be connected to.

        Listening TCP sockets come first. They are read in small pieces, because for the established connections after
        them the kernel walks through a table of the whole machine, which takes milliseconds.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        except OSError:
            return
        try:
            rest, is_header = b"", True
            while data := os.read(descriptor, _LINE_BYTES if is_stream else _TABLE_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    if is_header:
                        is_header = False
                    elif is_stream and text.split()[3] != _LISTENING:
                        return
                    else:
                        yield text
        finally:
            os.close(descriptor)

    def _is_bound_inside(self, pid: int, name: str) -> bool:
        for bound, inode in self._bound_sockets(pid):
            if bound == name:
                return not self.decides or self._is_held_inside(inode)
        return False

    def _bound_sockets(self, pid: int) -> Iterator[tuple[str, str]]:
        """Yield names and inodes of the named unix sockets in a process's network."""
        for line in self._read(f"{pid}/net/unix").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8:
                yield fields[7], fields[6]

    def _is_held_inside(self, inode: str) -> bool:
        """Return True if a process of the tree holds a socket."""
        for pid in descendants(self._processes):
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if self._readlink(pid, f"fd/{name}") == f"socket:[{inode}]":
                            return True
        return False

    def _is_foreign_socket(self, pid: int, path: str, absolute: str) -> bool:
        """Return True for an existing socket that no process of this sandbox has bound."""
        if path.startswith("\0"):
            return not self._is_bound_inside(pid, "@" + path[1:].rstrip("\0"))
        try:
            mode = os.stat(f"{pid}/root{absolute}", dir_fd=self._processes).st_mode
        except OSError:
            return False
        name = os.path.basename(path)
        is_own = any(os.path.basename(bound) == name for bound, _ in self._bound_sockets(pid))
        return stat.S_ISSOCK(mode) and not is_own

    def _read(self, path: str) -> str:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        except OSError:
            return ""
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read()


_NAMES: dict[int, str] = {}
if kernel.is_known_architecture():
    for _name in ("socket", "connect", "listen", "sendto", "sendmsg", "sendmmsg", *filters.WRITING_CALLS):
        for _number in kernel.numbers([_name]):
            _NAMES[_number] = _name


def _channel_of(family: int, kind: int) -> str:
    if kind == socket.SOCK_DGRAM and family in (socket.AF_INET, socket.AF_INET6):
        return "udp"
    return "socket"


def _socket_name(family: int, kind: int, protocol: int) -> str:
    family_name = _FAMILIES.get(family, f"family {family}")
    try:
        kind_name = socket.SocketKind(kind).name
    except ValueError:
        kind_name = f"type {kind}"
    suffix = f" protocol {protocol}" if protocol else ""
    if protocol == _IPPROTO_MPTCP:
        suffix = " MPTCP"
    return f"{family_name} {kind_name}{suffix}"


def _family(address: bytes) -> int:
    """Return the family of a socket address; 0 if it is too short."""
    return struct.unpack_from("H", address)[0] if len(address) >= 2 else 0


def _target(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _is_local(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    return address.is_loopback or address.is_unspecified


def _internet_place(address: bytes) -> tuple[str, int] | None:
    family = _family(address)
    if family == socket.AF_INET and len(address) >= 8:
        return str(ipaddress.IPv4Address(address[4:8])), int.from_bytes(address[2:4], "big")
    if family == socket.AF_INET6 and len(address) >= 24:
        ip = ipaddress.IPv6Address(address[8:24])
        return str(ip.ipv4_mapped or ip), int.from_bytes(address[2:4], "big")
    return None


def _ip_in_table(text: str) -> str:
    """Return the address in a line of /proc/net: 32-bit words in this machine's byte order."""
    digits = text.rpartition(":")[0]
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    ip = ipaddress.ip_address(struct.pack(f"{len(words)}I", *words))
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)


def _reaches(ip: str, listening: str) -> bool:
    """Return True if a connection to one address reaches a socket that listens on the other."""
    address, own = ipaddress.ip_address(ip), ipaddress.ip_address(listening)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return address == own or (own.is_unspecified and own.version >= address.version)


def _unix_path(address: bytes) -> str:
    path = address[2:]
    if not path.startswith(b"\0"):
        path = path.partition(b"\0")[0]
    return os.fsdecode(path)


def _may_write(path: str) -> bool:
    """Return True if the user could write there: only then has the isolation stopped anything."""
    if os.path.lexists(path):
        return os.access(path, os.W_OK) or os.access(os.path.dirname(path), os.W_OK)
    return os.access(os.path.dirname(path), os.W_OK)
