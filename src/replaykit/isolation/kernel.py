"""System calls that Python does not wrap: their numbers, and thin wrappers that raise OSError."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import posix
import socket
import struct
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

OPEN_TREE_CLONE = 1
AT_RECURSIVE = 0x8000
AT_EMPTY_PATH = 0x1000
AT_FDCWD = -100
O_CLOEXEC = 0o2000000
RENAME_EXCHANGE = 2
_FSOPEN_CLOEXEC = 1
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6
_FSMOUNT_CLOEXEC = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4
MOUNT_ATTR_NOEXEC = 8

_RESOLVE_IN_ROOT = 0x10
_LONGEST_PATH, _PAGE = 4096, 4096
_OVERLAY, _STATFS_BYTES = 0x794C7630, 256

# Calls added since 2019 have the same number on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_PIDFD_GETFD = 438
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446

_SYSTEM_CALLS = """
name                x86_64  aarch64
acct                   163       89
add_key                248      217
adjtimex               159      171
bpf                    321      280
capget                 125       90
capset                 126       91
chmod                   90        -
chown                   92        -
clock_adjtime          305      266
clock_settime          227      112
clone                   56      220
connect                 42      203
creat                   85        -
delete_module          176      106
fanotify_init          300      262
fchmodat               268       53
fchownat               260       54
finit_module           313      273
futimesat              261        -
init_module            175      105
ioctl                   16       29
ioperm                 173        -
iopl                   172        -
kexec_file_load        320      294
kexec_load             246      104
keyctl                 250      219
lchown                  94        -
link                    86        -
linkat                 265       37
listen                  50      201
lookup_dcookie         212       18
lremovexattr           198       15
lsetxattr              189        6
mkdir                   83        -
mkdirat                258       34
mknod                  133        -
mknodat                259       33
nfsservctl             180       42
open                     2        -
open_by_handle_at      304      265
openat                 257       56
perf_event_open        298      241
pivot_root             155       41
quotactl               179       60
reboot                 169      142
removexattr            197       14
rename                  82        -
renameat               264       38
renameat2              316      276
request_key            249      218
rmdir                   84        -
seccomp                317      277
sendmmsg               307      269
sendmsg                 46      211
sendto                  44      206
settimeofday           164      170
setxattr               188        5
signalfd4              289       74
socket                  41      198
swapoff                168      225
swapon                 167      224
symlink                 88        -
symlinkat              266       36
syslog                 103      116
truncate                76       45
unlink                  87        -
unlinkat               263       35
unshare                272       97
uselib                 134        -
userfaultfd            323      282
utime                  132        -
utimensat              280       88
utimes                 235        -
vhangup                153       58
"""
_EVERYWHERE: Mapping[str, int] = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "clone3": 435,
    "openat2": 437,
    "quotactl_fd": 443,
    "fchmodat2": 452,
    "setxattrat": 463,
}
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _numbers_on(machine: str) -> dict[str, int]:
    """Return the known numbers of system calls on an architecture."""
    columns, *rows = map(str.split, _SYSTEM_CALLS.strip().splitlines())
    by_name = dict(_EVERYWHERE)
    for row in rows if machine in columns else ():
        number_text = row[columns.index(machine)]
        if number_text != "-":
            by_name[row[0]] = int(number_text)
    return by_name


_NUMBERS = _numbers_on(platform.machine())


def architecture() -> str:
    """Return the machine's architecture in the kernel's spelling."""
    return platform.machine()


def is_known_architecture() -> bool:
    """Return True if system call numbers are known: on 64-bit Linux on x86_64 or aarch64."""
    return sys.platform == "linux" and architecture() in _AUDIT and struct.calcsize("P") == 8


def audit_architecture() -> int:
    """Return seccomp's number for this architecture."""
    return _AUDIT[architecture()]


def numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the named system calls, as far as this architecture has them."""
    return [_NUMBERS[name] for name in names if name in _NUMBERS]


def number(name: str) -> int:
    """Return the number of a system call that every architecture has."""
    return _NUMBERS[name]


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_MOST_ARGUMENTS = 6
_UNUSED = (0,) * _MOST_ARGUMENTS
if _libc is not None:
    # Numbers and addresses alike, as wide as a register. Declared once: a sandbox makes some 200 calls, and to wrap
    # each argument would take as long as the calls.
    _libc.syscall.argtypes = (ctypes.c_long, *[ctypes.c_void_p] * _MOST_ARGUMENTS)
    _libc.syscall.restype = ctypes.c_long


def fork() -> int:
    """Fork, bypassing patches of `os.fork` that follow the processes of an agent."""
    return posix.fork()


@contextlib.contextmanager
def no_fork_warnings() -> Iterator[None]:
    """Suppress Python's warning about forks beside threads: our forked code takes none of their locks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def fork_helper(work: Callable[[socket.socket], object]) -> tuple[int, socket.socket]:
    """Do some work in a forked process that then ends; return its process number and the other end of its socket."""
    ours, theirs = socket.socketpair()
    with no_fork_warnings():
        pid = fork()
    if pid == 0:
        # The caller's code must never continue in this process, whatever happens.
        with contextlib.suppress(BaseException):
            ours.close()  # otherwise the child would never notice that the caller is gone
            work(theirs)
        os._exit(0)
    theirs.close()
    return pid, ours


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_PATH, *, below: int | None = None) -> Iterator[int]:
    """Give a descriptor of a path, optionally below an open directory, for the length of the block."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, dir_fd=below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def call(syscall: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call by number and return its result; raise OSError if it fails."""
    assert _libc is not None
    result: int = _libc.syscall(syscall, *arguments, *_UNUSED[len(arguments) :])
    return result if result >= 0 else _checked(result)


def _checked(result: int, what: str = "") -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what or None)
    return result


def exchange(first: str, second: str) -> None:
    """Swap two files or directories atomically; raise OSError if the file system cannot."""
    if not is_known_architecture():
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call(number("renameat2"), AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    assert _libc is not None
    _checked(_libc.unshare(flags), "unshare")


def join(namespace: int) -> None:
    """Move this process into the namespace behind an open descriptor, such as `/proc/PID/ns/net`."""
    assert _libc is not None
    _checked(_libc.setns(namespace, 0), "setns")


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    """Set an attribute of this process."""
    assert _libc is not None
    wide = (ctypes.c_ulong(value), ctypes.c_ulong(third), ctypes.c_ulong(0), ctypes.c_ulong(0))
    _checked(_libc.prctl(option, *wide), "prctl")


def make_private() -> None:
    """Detach the mounts of this namespace from those they were copied from."""
    assert _libc is not None
    _checked(_libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "/")


def enter_root(directory: int) -> None:
    """Make an open directory the root of this mount namespace, and drop the old root."""
    assert _libc is not None
    os.fchdir(directory)
    call(number("pivot_root"), b".", b".")
    _checked(_libc.umount2(b".", MNT_DETACH), "the old root")
    os.chdir("/")


def detach(mount: int) -> None:
    """Remove a mount from this namespace; it stays usable through open descriptors."""
    assert _libc is not None
    os.fchdir(mount)
    _checked(_libc.umount2(b".", MNT_DETACH), "a mount")


def new_filesystem(kind: str, options: Mapping[str, str | None], attributes: int = 0) -> int:
    """Return a descriptor of a new, unattached file system. An option without a value is a flag."""
    context = call(_FSOPEN, kind.encode(), _FSOPEN_CLOEXEC)
    try:
        for name, value in options.items():
            if value is None:
                call(_FSCONFIG, context, _FSCONFIG_SET_FLAG, name.encode(), None, 0)
            else:
                call(_FSCONFIG, context, _FSCONFIG_SET_STRING, name.encode(), os.fsencode(value), 0)
        call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, attributes)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{kind} {dict(options)}") from None
    finally:
        os.close(context)


def new_layers(max_bytes: int | None = None) -> int:
    """Return a descriptor of a new file system in memory for the writes of sandboxes."""
    size = {} if max_bytes is None else {"size": str(max_bytes)}
    return new_filesystem("tmpfs", {"mode": "700", **size})


def copy_of_mounts(path: str, *, read_only: bool = True) -> int:
    """Return a descriptor of a copy of the mounts at a path and below."""
    tree = call(_OPEN_TREE, AT_FDCWD, os.fsencode(path), OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE)
    if read_only:
        make_read_only(tree, recursive=True)
    return tree


def copy_of_mount(mount: int) -> int:
    """Return a descriptor of an unattached copy of an open mount."""
    return call(_OPEN_TREE, mount, b"", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH)


def make_read_only(tree: int, *, recursive: bool) -> None:
    """Make a mount read-only that is unattached or the root of its tree."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    call(_MOUNT_SETATTR, tree, b"", flags, attributes, len(attributes))


def attach(tree: int, directory: int, path: str = "") -> None:
    """Mount a tree at a path below an open directory, or at the directory itself."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | (0 if path else _MOVE_MOUNT_T_EMPTY_PATH)
    try:
        call(_MOVE_MOUNT, tree, b"", directory, os.fsencode(path), flags)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def descriptor_of(process: int, descriptor: int) -> int:
    """Return a copy of a descriptor of another process, given as a pidfd."""
    return call(_PIDFD_GETFD, process, descriptor, 0)


class _Slice(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_memory(pid: int, address: int, length: int) -> bytes:
    """Return memory of another process; fewer bytes if it ends earlier."""
    assert _libc is not None
    buffer = ctypes.create_string_buffer(length)
    local = _Slice(ctypes.addressof(buffer), length)
    remote = _Slice(address, length)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    done = _libc.process_vm_readv(pid, ctypes.byref(local), one, ctypes.byref(remote), one, none)
    return buffer.raw[: _checked(done, "process_vm_readv")]


def read_text(pid: int, address: int) -> str:
    """Return a path from the memory of a process, reading page by page: the next page may not be mapped."""
    text = b""
    while len(text) < _LONGEST_PATH:
        data = read_memory(pid, address + len(text), min(256, _PAGE - (address + len(text)) % _PAGE))
        before, end, _ = data.partition(b"\0")
        text += before
        if end or not data:
            break
    return os.fsdecode(text)


def open_below(root: int, path: str) -> int:
    """Return a descriptor of a directory, resolved the way a process with this root directory would."""
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT)
    return call(number("openat2"), root, os.fsencode(path), how, len(how))


def is_overlay(descriptor: int) -> bool:
    """Return True for a file of an overlay."""
    assert _libc is not None
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    _checked(_libc.fstatfs(descriptor, buffer), "fstatfs")
    return int.from_bytes(buffer.raw[:8], sys.byteorder) == _OVERLAY


def signal_descriptor(signals: Iterable[int]) -> int:
    """Return a descriptor from which blocked signals can be read, 128 bytes each."""
    mask = sum(1 << (number - 1) for number in signals)
    return call(number("signalfd4"), -1, struct.pack("Q", mask), 8, O_CLOEXEC)


_CAPABILITY_HEADER = struct.pack("Ii", 0x20080522, 0)

FILE_CAPABILITIES = (0, 1, 2, 3, 4, 5, 6, 7, 10, 31)
"""CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE and SETFCAP: what root
expects to have over files and its children. They hold inside the user namespace only."""


def drop_capabilities(keep: Iterable[int]) -> None:
    """Give up all capabilities but these, for this process and everything that it starts.

    Needs PR_SET_NO_NEW_PRIVS; after that, only root can regain capabilities, by executing a program.
    """
    mask = sum(1 << capability for capability in set(keep))
    current = held_capabilities()
    if os.geteuid() == 0:
        for capability in range(64):
            if (current & ~mask) >> capability & 1:
                prctl(PR_CAPBSET_DROP, capability)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(mask & current)


def drop_own_capabilities() -> None:
    """Give up all capabilities, for a process that never executes a program and so cannot regain any."""
    _set_capabilities(0)


def _set_capabilities(mask: int) -> None:
    low, high = mask & 0xFFFFFFFF, mask >> 32
    call(number("capset"), _CAPABILITY_HEADER, struct.pack("6I", low, low, 0, high, high, 0))


def held_capabilities() -> int:
    """Return the effective capabilities of this process, as a bit set."""
    sets = ctypes.create_string_buffer(24)
    call(number("capget"), _CAPABILITY_HEADER, sets)
    low, _, _, high, _, _ = struct.unpack("6I", sets.raw)
    return int(low | high << 32)
