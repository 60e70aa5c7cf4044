"""Shared parts of sandboxes: user namespaces, and the world that the children of one program share.

Root's sandboxes keep all users. Only a process outside of a user namespace can map them, so the namespace is created by
a helper process, once, and every later sandbox of the same caller joins it. That saves two forks each time.

`Common` is for the child processes of a program that is in no sandbox itself. Their sandboxes share users, network, IPC
objects, and the layers that hold their writes: one child finds the files of another and reaches its servers. They have
no process namespace, because the program outside uses their process numbers, for example to send signals.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import threading

from replaykit.errors import ReplayKitError
from replaykit.isolation import kernel

_MAPPING_CAPABILITIES = (1 << 6) | (1 << 7) | (1 << 31)  # SETGID, SETUID, SETFCAP
# Descriptors of user namespaces, by the namespace of the process that created them.
_known: dict[int, int] = {}
_making = threading.Lock()


def can_map_all() -> bool:
    """Return True if this process may map all of its users into a new namespace."""
    if os.geteuid() != 0:
        return False
    return kernel.held_capabilities() & _MAPPING_CAPABILITIES == _MAPPING_CAPABILITIES


def with_all_users() -> int:
    """Return a descriptor of a user namespace with the same users as this one."""
    own = os.stat("/proc/self/ns/user").st_ino
    with _making:  # several workers may start at once
        if own not in _known:
            _known[own] = _make_namespace()
        return _known[own]


def forget_namespaces() -> None:
    """Close inherited descriptors of namespaces, which a process inside does not need."""
    for descriptor in _known.values():
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _known.clear()


def enter_namespaces(namespaces: int, all_users: int | None) -> None:
    """Enter new namespaces with a loopback interface, under the given user namespace or a new one."""
    if all_users is None:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER | namespaces)
        map_self(user, group)
    else:
        kernel.join(all_users)
        kernel.unshare(namespaces)
    start_loopback()


def map_self(user: int, group: int) -> None:
    """Map this process's own user and group to themselves: all that is possible without privileges."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1\n")
    _write("/proc/self/gid_map", f"{group} {group} 1\n")


def _make_namespace() -> int:
    pid, channel = kernel.fork_helper(_hold_namespace)
    try:
        with channel:
            data, descriptors, _, _ = socket.recv_fds(channel, 1000, 1)
            if not descriptors:
                why = data.decode(errors="replace") or "the process died"
                raise ReplayKitError(f"a user namespace cannot be made: {why}")
            _map_all(pid)
            channel.send(b"!")  # closing is not enough: a fork of another thread may hold the other end open
    finally:
        os.waitpid(pid, 0)
    return descriptors[0]


def _hold_namespace(caller: socket.socket) -> None:
    """Create a namespace, hand it out, and stay until its users are mapped."""
    try:
        kernel.unshare(kernel.CLONE_NEWUSER)
        descriptor = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        caller.send(str(error).encode(errors="replace"))
        return
    socket.send_fds(caller, [b"ok"], [descriptor])
    caller.recv(1)


def _map_all(process: int) -> None:
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="utf-8") as lines:
            ranges = [line.split() for line in lines]
        text = "".join(f"{inside} {inside} {count}\n" for inside, _, count in ranges)
        try:
            _write(f"/proc/{process}/{name}", text)
        except OSError as error:
            raise ReplayKitError(f"users cannot be mapped: {error}") from None


def _write(path: str, text: str) -> None:
    with kernel.opened(path, os.O_WRONLY) as descriptor:
        os.write(descriptor, text.encode())


_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def start_loopback() -> None:
    """Bring the loopback interface up; in a new network namespace it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))


_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
_OK = b"ok"
_BACKLOG = 512


class Common:
    """Namespaces and layers, held by descriptors: they last as long as these are open."""

    def __init__(self) -> None:
        self._descriptors = _make_descriptors()
        self.users, self.network, self.ipc, self.layers = self._descriptors[:4]
        self.listener = socket.socket(fileno=self._descriptors[4])
        """A socket in the sandboxes' network, at a port of 127.0.0.1, on which the caller serves them."""

    def join(self) -> None:
        """Move this process, which has only one thread, into the namespaces."""
        for namespace in (self.users, self.network, self.ipc):
            kernel.join(namespace)

    def close(self) -> None:
        """Close all descriptors; what the sandboxes wrote is gone once the last of them has ended."""
        self.listener.close()
        for descriptor in self._descriptors[:4]:
            os.close(descriptor)


def _make_descriptors() -> list[int]:
    """Create the namespaces in a helper process, so that this one does not change."""
    all_users = with_all_users() if can_map_all() else None
    pid, channel = kernel.fork_helper(lambda caller: _hand_out(caller, all_users))
    with channel:
        data, descriptors, _, _ = socket.recv_fds(channel, 1000, 5)
    os.waitpid(pid, 0)
    if data != _OK:
        why = data.decode(errors="replace") or "the process died"
        raise ReplayKitError(f"namespaces for child processes cannot be made: {why}")
    return list(descriptors)


def _hand_out(caller: socket.socket, all_users: int | None) -> None:
    try:
        descriptors = _entered(all_users)
    except (OSError, ReplayKitError) as error:
        caller.send(str(error).encode(errors="replace")[:1000])
        return
    socket.send_fds(caller, [_OK], descriptors)


def _entered(all_users: int | None) -> list[int]:
    """Enter new namespaces, and return descriptors: users, network, IPC, layers, and a listening socket."""
    enter_namespaces(_NAMESPACES, all_users)
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    layers = kernel.new_layers()
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "net", "ipc")]
    return [*namespaces, layers, listener.detach()]
