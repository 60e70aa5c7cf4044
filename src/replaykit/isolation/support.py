"""The isolation that this machine supports, found out by trying it in a forked child."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import NamedTuple

from replaykit.isolation import filters, kernel, landlock
from replaykit.isolation.common import map_self
from replaykit.isolation.policy import CHANNELS, Level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LANDLOCK_WITH_SCOPES = 6
_NAMES = {
    "user": "user namespaces",
    "mount": "mount namespaces",
    "net": "network namespaces",
    "pid": "process namespaces",
    "overlay": "overlays in memory",
    "filter": "system call filters",
    "listener": "system call notifications",
}


class Support(NamedTuple):
    """The supported means of isolation; `missing` maps the others to reasons."""

    architecture: str
    landlock: int
    missing: dict[str, str]

    def has(self, name: str) -> bool:
        """Return True if `user`, `mount`, `net`, `pid`, `overlay`, `filter` or `listener` is supported."""
        return name not in self.missing

    @property
    def level(self) -> Level:
        """The highest possible level."""
        if not self.missing:
            return Level.FULL
        if self.has("filter") and self.has("listener"):
            return Level.LANDLOCK
        return Level.PROCESS

    @property
    def nested_level(self) -> Level:
        """The highest possible level for a nested sandbox: the outer one has the filter."""
        is_possible = all(map(self.has, ("user", "mount", "net", "overlay")))
        return Level.FULL if is_possible else Level.PROCESS

    def levels(self, level: Level, *, has_own_processes: bool = True) -> dict[str, Level]:
        """Return what confines each channel at a level, with or without a process namespace."""
        levels = dict.fromkeys(CHANNELS, level)
        if level is Level.LANDLOCK and not self.landlock:
            levels["files"] = Level.PROCESS
        needs_landlock = level is Level.LANDLOCK or (level is Level.FULL and not has_own_processes)
        if needs_landlock and self.landlock < _LANDLOCK_WITH_SCOPES:
            levels["signals"] = Level.PROCESS
        return levels

    def reasons(self) -> tuple[str, ...]:
        """Return the missing means with their reasons, in words."""
        if "architecture" in self.missing:
            return (self.missing["architecture"],)
        reasons = [f"{_NAMES[name]}: {reason}" for name, reason in self.missing.items()]
        if not self.landlock:
            reasons.append("Landlock: the kernel does not offer it")
        return tuple(reasons)


@cache
def support() -> Support:
    """Return what this machine supports."""
    if not kernel.is_known_architecture():
        why = f"isolation needs Linux on x86_64 or aarch64; this is {kernel.architecture() or 'unknown'}"
        return Support(architecture=kernel.architecture(), landlock=0, missing={"architecture": why})
    missing = _in_child(_try_all)
    return Support(architecture=kernel.architecture(), landlock=landlock.version(), missing=missing)


def _in_child(attempt: Callable[[], dict[str, str]]) -> dict[str, str]:
    pid, channel = kernel.fork_helper(lambda caller: caller.sendall(json.dumps(attempt()).encode()))
    with channel, channel.makefile("rb") as answer:
        data = answer.read()
    os.waitpid(pid, 0)
    return dict(json.loads(data)) if data else dict.fromkeys(_NAMES, "the attempt was killed")


def _try_all() -> dict[str, str]:
    missing: dict[str, str] = {}
    user, group = os.geteuid(), os.getegid()

    def attempt(name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            missing[name] = f"{error.strerror or error}"

    def try_filter() -> None:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        filters.install(filters.packed(filters.program(own_network=True)))

    attempt("user", lambda: kernel.unshare(kernel.CLONE_NEWUSER))
    if "user" in missing:
        missing.update(dict.fromkeys(("mount", "net", "pid", "overlay"), "needs user namespaces"))
    else:
        attempt("user", lambda: map_self(user, group))
        attempt("mount", lambda: kernel.unshare(kernel.CLONE_NEWNS))
        attempt("net", lambda: kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC))
        attempt("pid", _try_processes)
        attempt("overlay", _try_overlay)
    attempt("listener", try_filter)
    if "listener" in missing:
        missing["filter"] = missing["listener"]
    return missing


def _try_processes() -> None:
    """Create a process namespace with its own /proc, which the kernel refuses if parts of /proc are hidden."""
    kernel.unshare(kernel.CLONE_NEWPID)
    pid = kernel.fork()
    if pid == 0:
        try:
            kernel.new_filesystem("proc", {})
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(abs(code), f"a new /proc cannot be mounted: {os.strerror(abs(code))}")


def _without_mounts_below() -> str:
    """Return a directory without mounts in it: in a user namespace, the kernel refuses an overlay over others."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        mounts = [line.split()[4] for line in lines]
    places = list(filter(os.path.isdir, ("/tmp", "/var/tmp", os.path.expanduser("~"), "/var", "/usr")))
    for place in places:
        if not any(mount.startswith(f"{place}/") for mount in mounts):
            return place
    return places[0]


def _try_overlay() -> None:
    kernel.make_private()
    layers = kernel.new_filesystem("tmpfs", {"mode": "700"})
    with kernel.opened("/") as root:
        kernel.attach(layers, root)  # Linux before 6.15 accepts layers only from a mount of this namespace
    os.fchdir(layers)
    os.mkdir("upper")
    os.mkdir("work")
    options = {"lowerdir": _without_mounts_below(), "upperdir": "upper", "workdir": "work", "userxattr": None}
    kernel.new_filesystem("overlay", options)
