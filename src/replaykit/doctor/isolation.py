"""Kernel isolation: the level that this machine offers, and how to raise it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from msgspec import Struct

from replaykit.doctor.results import DoctorItem, IsolationSupport, ItemState, item

# Type checkers accept any constant of this name, and importing `typing` is slow.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from replaykit.isolation import Support

_FULL = "full"
_OVERLAYS_SINCE = (5, 11)
_LANDLOCK_SINCE = (5, 13)
_USER_NAMESPACES = "/proc/sys/kernel/unprivileged_userns_clone"
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_MOST_USER_NAMESPACES = "/proc/sys/user/max_user_namespaces"
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_GUARDS_ONLY = "only guards inside Python and Node isolate a replay"


class KernelSettings(Struct, frozen=True, kw_only=True):
    """Kernel settings that commonly prevent isolation; None if the kernel lacks the setting."""

    release: str = ""
    is_root: bool = False
    user_namespaces: str | None = None
    """`0`: only root may create user namespaces (a Debian setting)."""
    apparmor_restricts: str | None = None
    """`1`: AppArmor removes their privileges (Ubuntu since 23.10)."""
    most_user_namespaces: str | None = None
    """`0`: none can be created."""
    is_container: bool = False
    has_seccomp_filter: bool = False
    """True if a parent process installed a system call filter."""
    security_modules: str | None = None
    """The active security modules, comma-separated."""


def read_settings(root: Path = Path("/")) -> KernelSettings:
    """Read the settings of the machine whose file system is at `root`."""
    status = _text(root, "/proc/self/status") or ""
    return KernelSettings(
        release=_text(root, "/proc/sys/kernel/osrelease") or "",
        is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
        user_namespaces=_text(root, _USER_NAMESPACES),
        apparmor_restricts=_text(root, _APPARMOR),
        most_user_namespaces=_text(root, _MOST_USER_NAMESPACES),
        is_container=_is_container(root),
        has_seccomp_filter=re.search(r"^Seccomp:\s*2$", status, re.MULTILINE) is not None,
        security_modules=_text(root, "/sys/kernel/security/lsm"),
    )


def _is_container(root: Path) -> bool:
    has_file = any((root / name.removeprefix("/")).exists() for name in _CONTAINER_FILES)
    return has_file or "KUBERNETES_SERVICE_HOST" in os.environ or "container" in os.environ


def _text(root: Path, name: str) -> str | None:
    try:
        return (root / name.removeprefix("/")).read_text("ascii", "replace").strip()
    except OSError:
        return None


def examine_isolation() -> tuple[IsolationSupport, DoctorItem]:
    """Return what this machine offers, determined by trying it in a child, and the item that reports it."""
    if sys.platform != "linux":
        return elsewhere(sys.platform)
    # The package needs modules that exist only on Linux.
    from replaykit.isolation import support  # noqa: PLC0415

    offered = support()
    return describe_support(offered, read_settings())


def describe_support(offered: Support, settings: KernelSettings) -> tuple[IsolationSupport, DoctorItem]:
    """Describe what the kernel offers, with advice unless it is full isolation."""
    channels = {channel: str(level) for channel, level in offered.levels(offered.level).items()}
    level = str(offered.level)
    isolation = IsolationSupport(level=level, channels=channels, reasons=offered.reasons())
    if level == _FULL:
        detail = f"full, for {', '.join(channels)}: the kernel isolates candidates"
        return isolation, item("isolation", "level", ItemState.OK, detail)
    shut = ", ".join(f"{channel} {who}" for channel, who in channels.items())
    parts = [f"{level}, not full ({shut})", *offered.reasons()]
    return isolation, item("isolation", "level", ItemState.NOTE, "; ".join(parts), *advice(offered, settings))


def elsewhere(platform: str) -> tuple[IsolationSupport, DoctorItem]:
    """Describe what systems other than Linux offer."""
    name = {"darwin": "macOS", "win32": "Windows"}.get(platform, platform)
    reason = f"{name} has no kernel isolation for ReplayKit: {_GUARDS_ONLY}"
    way = "WSL 2" if platform == "win32" else "a Linux virtual machine or container"
    advice = f"For candidates that you do not trust, run ReplayKit in {way}."
    support = IsolationSupport(level="process", reasons=(reason,))
    return support, item("isolation", "level", ItemState.NOTE, f"process: {reason}", advice)


def advice(offered: Support, settings: KernelSettings) -> list[str]:
    """Return advice for each cause found, one per line."""
    if "architecture" in offered.missing:
        return ["Run ReplayKit on Linux with an x86_64 or aarch64 processor for kernel isolation."]
    found = [*_about_namespaces(offered, settings), *_about_containers(offered, settings)]
    kernel = _version(settings.release)
    if offered.missing and kernel and kernel < _OVERLAYS_SINCE:
        found.append(f"Linux {settings.release} is too old: full isolation needs 5.11 or newer. Update the kernel.")
    if not found and not offered.landlock:
        found += _about_landlock(settings, kernel)
    if not found:
        found.append("No usual cause was found. A security module or a sandbox around this process may refuse it.")
    return found


def _about_namespaces(offered: Support, settings: KernelSettings) -> list[str]:
    """Return advice about settings that restrict ordinary users; only the last affects root."""
    found = []
    is_affected = any(name in offered.missing for name in ("user", "mount", "net", "pid", "overlay"))
    if is_affected and not settings.is_root and settings.user_namespaces == "0":
        found.append("Only root may make user namespaces here: sudo sysctl -w kernel.unprivileged_userns_clone=1")
    if is_affected and not settings.is_root and settings.apparmor_restricts == "1":
        found.append(
            "AppArmor restricts user namespaces (Ubuntu 23.10 and newer): "
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
        found.append(
            "This applies to every program until the next boot. To make it permanent, add a file to /etc/sysctl.d."
        )
    if is_affected and settings.most_user_namespaces == "0":
        found.append("User namespaces are limited to none: sudo sysctl -w user.max_user_namespaces=15000")
    return found


def _about_containers(offered: Support, settings: KernelSettings) -> list[str]:
    if not offered.missing or not (settings.is_container or settings.has_seccomp_filter):
        return []
    if not settings.is_container:
        return ["A system call filter applies to this process: start it without the filter, or outside its sandbox."]
    return [
        "The container's seccomp profile or its hidden /proc refuse namespaces. With Docker or Podman: "
        "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …",
        "In Kubernetes: securityContext: {seccompProfile: {type: Unconfined}, procMount: Unmasked}",
        "This loosens the container for everything in it; candidates then run in isolation inside of it.",
    ]


def _about_landlock(settings: KernelSettings, kernel: tuple[int, int] | None) -> list[str]:
    if kernel and kernel < _LANDLOCK_SINCE:
        return [f"Linux {settings.release} has no Landlock: it needs 5.13 or newer. Update the kernel."]
    if settings.security_modules is not None and "landlock" not in settings.security_modules.split(","):
        return [f"Landlock is switched off. Start the kernel with: lsm=landlock,{settings.security_modules}"]
    return []


def _version(release: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", release)
    if found:
        return (int(found[1]), int(found[2]))
    return None
