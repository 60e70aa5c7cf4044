"""The seccomp filter: the system calls that an isolated process may make, and those that its guardian checks.

A filter sees numbers and arguments, but no memory. If the address of a peer matters, the call is handed to the guardian
(`SECCOMP_RET_USER_NOTIF`).
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct

from replaykit.isolation import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _NOTIFY, _KILL = 0x7FFF0000, 0x00050000, 0x7FC00000, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_MSG_FASTOPEN = 0x20000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
WRITING_FLAGS = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC

# io_uring performs operations that no filter sees, and clone3 has its flags in memory. Programs fall back to older
# calls on kernels without them, and so they do here.
_ABSENT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")

# With a cgroup namespace, root of a user namespace could mount the machine's control groups and write to them.
_MAKING_NAMESPACES = ("unshare", "clone")

_FORBIDDEN = (
    # The keyrings of the user and the session are shared with processes outside.
    "add_key", "request_key", "keyctl",
    # A file handle names a file without a path, under any mount.
    "open_by_handle_at",
    # The clock, the modules and the power switch of the whole machine.
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "reboot", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog",
    "iopl", "ioperm", "vhangup", "nfsservctl", "lookup_dcookie", "uselib",
    # Ways into the kernel that no agent needs.
    "bpf", "perf_event_open", "userfaultfd", "fanotify_init",
)  # fmt: skip

_BY_PATH = (
    "truncate", "creat", "unlink", "rmdir", "mkdir", "mknod", "chmod", "chown", "lchown", "utime", "utimes",
    "setxattr", "lsetxattr", "removexattr", "lremovexattr", "open",
)  # fmt: skip
_BY_DIRECTORY_AND_PATH = (
    "unlinkat", "mkdirat", "mknodat", "fchmodat", "fchmodat2", "fchownat", "futimesat", "utimensat", "setxattrat",
    "openat", "openat2",
)  # fmt: skip
WRITING_CALLS: dict[str, tuple[tuple[int | None, int], ...]] = {
    **dict.fromkeys(_BY_PATH, ((None, 0),)),
    **dict.fromkeys(_BY_DIRECTORY_AND_PATH, ((0, 1),)),
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
    "link": ((None, 1),),
    "linkat": ((2, 3),),
    "symlink": ((None, 1),),
    "symlinkat": ((1, 2),),
}
"""Calls that change files by path: for each path, the arguments with its directory and its text."""

RENAMES = ("rename", "renameat", "renameat2")
LINKED_FILES = {"link": (None, 0), "linkat": (0, 1)}
"""Calls that make hard links, with the arguments that hold the directory and the path of the file."""

Instruction = tuple[int, int, int, int]
_INSTRUCTION_BYTES = 8


def _argument(index: int, *, high: bool = False) -> Instruction:
    return (_LOAD, 16 + 8 * index + (4 if high else 0), 0, 0)


def _answer(action: int) -> Instruction:
    return (_RETURN, action, 0, 0)


def _refuse(error: int) -> Instruction:
    return _answer(_ERRNO | error)


_NUMBER_AGAIN = (_LOAD, _NUMBER, 0, 0)


def _for_call(name: str, body: list[Instruction]) -> list[Instruction]:
    """Return instructions that apply `body` to one system call and skip it for others."""
    result: list[Instruction] = []
    for number in kernel.numbers([name]):
        result += [(_EQUAL, number, 0, len(body)), *body]
    return result


def _socket_rules(*, own_network: bool) -> list[Instruction]:
    """Return the rules for `socket`: an allow-list of families, types and protocols.

    Programs use TCP, UDP and unix sockets; `getifaddrs` needs routing netlink. Everything else leads past the network
    namespace (vsock, Bluetooth, AF_ALG into the kernel) or past the guardian (MPTCP, raw and packet sockets).
    """
    stream, datagram, raw = int(socket.SOCK_STREAM), int(socket.SOCK_DGRAM), int(socket.SOCK_RAW)
    inet, inet6, unix, netlink = int(socket.AF_INET), int(socket.AF_INET6), int(socket.AF_UNIX), 16
    udp = _answer(_ALLOW if own_network else _NOTIFY)
    internet = [
        _argument(1),
        (_AND, 0xF, 0, 0),
        (_EQUAL, stream, 0, 5),
        _argument(2),
        (_EQUAL, 0, 1, 0),
        (_EQUAL, int(socket.IPPROTO_TCP), 0, 1),
        _answer(_ALLOW),
        _answer(_NOTIFY),
        (_EQUAL, datagram, 0, 5),
        _argument(2),
        (_EQUAL, 0, 1, 0),
        (_EQUAL, int(socket.IPPROTO_UDP), 0, 1),
        udp,
        _answer(_NOTIFY),
        _answer(_NOTIFY),
    ]
    # A datagram has its receiver in memory, unseen by the filter. Without its own network, a process gets only pairs.
    unix_rules = [
        _argument(1),
        (_AND, 0xF, 0, 0),
        (_EQUAL, datagram, 0, 1),
        _answer(_ALLOW if own_network else _NOTIFY),
        _answer(_ALLOW),
    ]
    netlink_rules = [
        _argument(2),
        (_EQUAL, 0, 0, 6),
        _argument(1),
        (_AND, 0xF, 0, 0),
        (_EQUAL, raw, 0, 1),
        _answer(_ALLOW),
        (_EQUAL, datagram, 0, 1),
        _answer(_ALLOW),
        _answer(_NOTIFY),
    ]
    return [
        _argument(0),
        (_EQUAL, inet, 1, 0),
        (_EQUAL, inet6, 0, len(internet)),
        *internet,
        (_EQUAL, unix, 0, len(unix_rules)),
        *unix_rules,
        (_EQUAL, netlink, 0, len(netlink_rules)),
        *netlink_rules,
        _answer(_NOTIFY),
    ]


def program(*, own_network: bool, hears_writes: bool = True) -> list[Instruction]:
    """Return the filter's instructions.

    With `own_network`, the process has a network namespace and its own mounts, and the guardian only reports what
    fails; without, the guardian also decides. With `hears_writes` it is notified of every call that changes files by
    path; without, only of renames and hard links.
    """
    rules: list[Instruction] = [
        (_LOAD, _ARCHITECTURE, 0, 0),
        (_EQUAL, kernel.audit_architecture(), 1, 0),
        _answer(_KILL),
        _NUMBER_AGAIN,
    ]
    if kernel.architecture() == "x86_64":
        rules += [(_GREATER_EQUAL, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for name in _ABSENT:
        rules += _for_call(name, [_refuse(errno.ENOSYS)])
    for name in _FORBIDDEN:
        rules += _for_call(name, [_refuse(errno.EPERM)])
    typed = [_argument(1), (_EQUAL, _TIOCSTI, 1, 0), (_EQUAL, _TIOCLINUX, 0, 1), _refuse(errno.EPERM), _answer(_ALLOW)]
    # Nested sandboxes need the other namespaces, so only this flag is refused.
    for name in _MAKING_NAMESPACES:
        no_groups = [(_ANY_BIT, kernel.CLONE_NEWCGROUP, 0, 1), _refuse(errno.EPERM)]
        rules += _for_call(name, [_argument(0), *no_groups, _answer(_ALLOW)])
    rules += _for_call("ioctl", typed)  # TIOCSTI would type into the terminal of the caller
    rules += _notifications(own_network=own_network)
    rules += _file_notifications(WRITING_CALLS if hears_writes else (*RENAMES, *LINKED_FILES))
    rules.append(_answer(_ALLOW))
    return rules


def _notifications(*, own_network: bool) -> list[Instruction]:
    rules = _for_call("socket", _socket_rules(own_network=own_network))
    rules += _for_call("connect", [_answer(_NOTIFY)])
    fast_open = _refuse(errno.EOPNOTSUPP)  # it connects without a call of `connect`
    with_address = [
        _argument(3), (_ANY_BIT, _MSG_FASTOPEN, 0, 1), fast_open,
        _argument(4), (_EQUAL, 0, 0, 2), _argument(4, high=True), (_EQUAL, 0, 1, 0), _answer(_NOTIFY), _answer(_ALLOW),
    ]  # fmt: skip
    rules += _for_call("sendto", with_address)
    # Without its own network, a process can create no socket whose messages name a receiver.
    message = _answer(_NOTIFY if own_network else _ALLOW)
    rules += _for_call("sendmsg", [_argument(2), (_ANY_BIT, _MSG_FASTOPEN, 0, 1), fast_open, message])
    rules += _for_call("sendmmsg", [_argument(3), (_ANY_BIT, _MSG_FASTOPEN, 0, 1), fast_open, message])
    if own_network:
        rules += _for_call("listen", [_answer(_NOTIFY)])
    return rules


def _file_notifications(names: Iterable[str]) -> list[Instruction]:
    flags_at = {"open": 1, "openat": 2}
    rules: list[Instruction] = []
    for name in names:
        if name in flags_at:
            body = [_argument(flags_at[name]), (_ANY_BIT, WRITING_FLAGS, 0, 1), _answer(_NOTIFY), _answer(_ALLOW)]
        else:
            body = [_answer(_NOTIFY)]
        rules += _for_call(name, body)
    return rules


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def packed(instructions: list[Instruction]) -> bytes:
    """Return the filter in the kernel's format. Call it before a fork: after one it costs a third of a millisecond."""
    return b"".join(struct.pack("HBBI", code, yes, no, value) for code, value, yes, no in instructions)


def has_listener() -> bool:
    """Return True if this process already has a guardian: it can have no second one."""
    try:
        install(packed([(_RETURN, _ALLOW, 0, 0)]))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return True
    return False


def install(program: bytes) -> int:
    """Install the filter for this process and its children, and return the descriptor for its guardian.

    Needs PR_SET_NO_NEW_PRIVS. A process can have only one guardian; a second one raises EBUSY.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    described = bytes(_Program(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(buffer)))
    syscall = kernel.number("seccomp")
    try:
        # Signals must wait for the guardian's answer: an interrupted and restarted call could connect twice.
        return kernel.call(syscall, _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, described)
    except OSError as error:
        if error.errno != errno.EINVAL:  # Linux before 5.19 does not know the flag
            raise
        return kernel.call(syscall, _SET_MODE_FILTER, _NEW_LISTENER, described)
