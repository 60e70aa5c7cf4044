"""The common parts of several sandboxes: users, a network, IPC objects, and the layers that hold what they write.

Sandboxes that share these are for the child processes of a program that is in no sandbox itself: one child finds the
files that another one wrote, and reaches its servers. They have no process namespace, because the numbers of their
processes are used outside: the program sends signals by them.
"""

from __future__ import annotations

import os
import socket

from replaykit.errors import ReplayKitError
from replaykit.isolation import kernel, users

_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
_OK = b"ok"
_BACKLOG = 512


class Common:
    """Namespaces and layers, by their descriptors: they last as long as these are open."""

    def __init__(self, max_written_bytes: int | None = None) -> None:
        self._descriptors = _make_descriptors(max_written_bytes)
        self.users, self.network, self.ipc, self.layers = self._descriptors[:4]
        self.listener = socket.socket(fileno=self._descriptors[4])
        """A socket on which the caller serves the sandboxes, at a port of 127.0.0.1 in their network."""

    def join(self) -> None:
        """Move this process, which has one thread, into the namespaces."""
        for namespace in (self.users, self.network, self.ipc):
            kernel.join(namespace)

    def close(self) -> None:
        """Let go of everything; what the sandboxes wrote is gone when the last of them has ended."""
        self.listener.close()
        for descriptor in self._descriptors[:4]:
            os.close(descriptor)


def _make_descriptors(max_written_bytes: int | None) -> list[int]:
    """Make the namespaces in a process of its own: this one must not change."""
    all_users = users.with_all_users() if users.can_map_all() else None
    pid, channel = kernel.fork_helper(lambda caller: _hand_out(caller, all_users, max_written_bytes))
    with channel:
        data, descriptors, _, _ = socket.recv_fds(channel, 1000, 5)
    os.waitpid(pid, 0)
    if data != _OK:
        why = data.decode(errors="replace") or "the process died"
        raise ReplayKitError(f"namespaces for child processes cannot be made: {why}")
    return list(descriptors)


def _hand_out(caller: socket.socket, all_users: int | None, max_written_bytes: int | None) -> None:
    try:
        descriptors = _entered(all_users, max_written_bytes)
    except (OSError, ReplayKitError) as error:
        caller.send(str(error).encode(errors="replace")[:1000])
        return
    socket.send_fds(caller, [_OK], descriptors)


def _entered(all_users: int | None, max_written_bytes: int | None) -> list[int]:
    """Enter new namespaces, and return descriptors: users, network, IPC, layers, and a listening socket."""
    users.enter_namespaces(_NAMESPACES, all_users)
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    layers = kernel.new_layers(max_written_bytes)
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "net", "ipc")]
    return [*namespaces, layers, listener.detach()]
