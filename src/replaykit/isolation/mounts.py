"""The file system of an isolated process tree: all files stay visible, and writes go to layers in memory.

Each directory below the root gets an overlay. The kernel refuses one over a directory with mounts in it (it would
uncover what the mounts hide), so such a directory is rebuilt in memory, with an overlay for each of its directories.
Existing unix sockets do not work through an overlay, and rebuilt directories leave them out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from enum import IntEnum, auto
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from replaykit.isolation import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from replaykit.isolation.policy import Policy

SPECIAL = ("/proc", "/sys", "/dev")
"""Directories that every new root has, and that no plan lists."""
_SHARED_MEMORY = "/dev/shm"
_ENTRIES_LOOKED_AT = 200
_MOST_COPIED_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1 << 20
_NOT_ENTERED = {"autofs"}  # a look inside would mount something
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "kfd", "dri", "accel", "dxg")
_DEVICE_PREFIXES = ("nvidia",)
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
# Parts of /proc that belong to the whole machine and that root could write to.
_MACHINE_WIDE = ("sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi", "mtrr", "driver")


class Mount(NamedTuple):
    """A visible mount."""

    path: str
    kind: str
    is_read_only: bool
    is_accessible: bool
    is_written_elsewhere: bool = False
    """True for a read-only mount of a writable file system: its sockets and pipes lead to other processes."""


class How(IntEnum):
    """The way an entry gets into a rebuilt directory."""

    LINK = auto()  # a symbolic link to the same target
    COPIED_FILE = auto()  # a writable copy
    FILE = auto()  # the real file, read-only
    DIRECTORY = auto()  # rebuilt as well; its entries follow
    REAL_DIRECTORY = auto()  # the real one, read-only
    OVERLAY = auto()
    READ_ONLY_OVERLAY = auto()  # without writes, and with dead sockets and pipes
    CLOSED = auto()  # an empty directory in place of an inaccessible one


class Base(NamedTuple):
    """A directory to rebuild in a file system of its own."""

    path: str
    mode: int
    entries: tuple[tuple[How, str, str | int], ...]
    """Entries at any depth, with a link's target or the mode of a directory or copy."""


class MountTree:
    """A new root under construction: everything is prepared before the first mount is attached."""

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.bases: list[tuple[str, int]] = []
        """Paths of rebuilt directories, and descriptors of their file systems."""
        self.overlays: list[str] = []
        """Paths of directories with an overlay."""
        self.missing: list[str] = []
        """Entries of the plan that were gone when the tree was built."""
        self.copied: dict[str, tuple[int, ...]] = {}
        """Copied files with the attributes of the copies; the last attribute is the change time."""
        self.notes: list[str] = []
        self.attachments: list[tuple[str, int]] = []

    def descriptors(self) -> list[int]:
        """Return the descriptors through which writes can be read outside: of the layers and the bases."""
        return [self.layers, *(descriptor for _, descriptor in self.bases)]


class Plan(NamedTuple):
    """A new file system as planned. Made before the fork: afterwards, every access to memory copies a page."""

    project: str
    writable: tuple[str, ...]
    """Directories that programs expect to be writable."""
    real: tuple[str, ...]
    """Directories that are written for real."""
    max_written_bytes: int | None
    hosts: str
    """Text to append to /etc/hosts."""
    as_root: bool
    """True if root's capabilities over files hold."""
    mounts: tuple[Mount, ...] = ()
    """The visible mounts."""
    parts: tuple[Base | str, ...] = ()
    """The parts to build: rebuilt directories, and the paths of directories with overlays."""
    layer_names: Mapping[str, str] = MappingProxyType({})
    """The names of the layers by path: the same for all sandboxes that share layers."""
    notes: tuple[str, ...] = ()
    layers: int | None = None
    """A descriptor of layers that several sandboxes share; None for new ones."""
    devices: tuple[tuple[str, bool], ...] = ()
    """Names in /dev of the sandbox, and whether they are directories."""
    machine_wide: tuple[str, ...] = ()
    """Names in /proc that nobody may write to."""

    def bases(self) -> list[Base]:
        """Return the rebuilt directories."""
        return [part for part in self.parts if isinstance(part, Base)]


def plan(policy: Policy, hosts: str, *, as_root: bool, nested: bool = False, layers: int | None = None) -> Plan:
    """Plan the file system for a policy."""
    home = policy.home or Path(os.path.expanduser("~"))
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")
    expected = (policy.project, home, temporary, Path("/tmp"), Path("/var/tmp"))
    writable = [os.path.realpath(place) for place in expected]
    real = [os.path.realpath(place) for place in (*policy.scratch, *policy.allow_write)]
    places = tuple(place for place in writable if os.path.isdir(place))
    mounts = visible_mounts()
    layout = _Layout(mounts, places, as_root=as_root, has_hosts=bool(hosts))
    parts = tuple(map(layout.part, _outermost(places))) if nested else (layout.base("/"),)
    return Plan(
        project=os.path.realpath(policy.project),
        writable=places,
        real=tuple(place for place in real if os.path.exists(place)),
        max_written_bytes=policy.max_written_bytes,
        hosts=hosts,
        as_root=as_root,
        mounts=mounts,
        parts=parts,
        notes=tuple(layout.notes),
        layer_names={path: sha256(os.fsencode(path)).hexdigest()[:32] for path in layout.overlays},
        layers=layers,
        devices=tuple(_harmless_devices()),
        machine_wide=tuple(name for name in _MACHINE_WIDE if os.path.exists(f"/proc/{name}")),
    )


def build(plan: Plan, processes: Callable[[], int]) -> MountTree:
    """Build a new root for this mount namespace, and enter it. `processes` returns the file system for /proc."""
    tree, builder = _begin(plan)
    root = tree.bases[0][1]
    _prepare_special(tree, root, plan)
    tree.attachments.append(("/proc", processes()))
    builder.add_real_places()
    kernel.detach(tree.layers)  # otherwise it would be dropped instead of the old root
    # Any directory will do, since the old root is dropped in a moment; /proc is no longer needed.
    with kernel.opened("/proc") as place:
        kernel.attach(root, place)
    for path, mount in tree.attachments:
        kernel.attach(mount, root, path.lstrip("/"))
        os.close(mount)
    tree.attachments.clear()
    kernel.enter_root(root)
    if plan.as_root and plan.layers is None:  # with shared layers, all of /proc is read-only
        _protect_machine(plan.machine_wide)
    return tree


def new_processes() -> int:
    """Return a file system for /proc with the process namespace of this process."""
    flags = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV | kernel.MOUNT_ATTR_NOEXEC
    return kernel.new_filesystem("proc", {}, flags)


def build_nested(plan: Plan) -> MountTree:
    """Put new layers over the places where programs write, in a sandbox whose root is already confined."""
    tree, builder = _begin(plan)
    tree.attachments.append((_SHARED_MEMORY, _new_shared_memory(plan.real)))
    builder.add_real_places()
    for path, mount in tree.attachments:
        with kernel.opened(path) as place_descriptor:
            kernel.attach(mount, place_descriptor)
    descriptors = tree.descriptors()
    for _, mount in tree.attachments:
        if mount not in descriptors:
            os.close(mount)
    tree.attachments.clear()
    kernel.detach(tree.layers)
    return tree


def _begin(plan: Plan) -> tuple[MountTree, _Builder]:
    """Detach this namespace, and prepare the parts of the plan."""
    kernel.make_private()
    tree = _new_tree(plan)
    builder = _Builder(plan, tree)
    for part in plan.parts:
        builder.put(part)
    return tree, builder


def _new_tree(plan: Plan) -> MountTree:
    tree = _with_shared_layers(plan) or _with_own_layers(plan)
    # Linux before 6.15 accepts layers only from a mount of this namespace. Over the root it hides nothing, because
    # paths are resolved below it.
    with kernel.opened("/") as root:
        kernel.attach(tree.layers, root)
    os.fchdir(tree.layers)  # the paths of layers are relative to it
    return tree


def _with_own_layers(plan: Plan) -> MountTree:
    tree = MountTree(layers=kernel.new_layers(plan.max_written_bytes))
    if plan.layers is not None:
        tree.notes.append("files that a child process writes are not seen by the others: that takes Linux 6.15")
    return tree


def _with_shared_layers(plan: Plan) -> MountTree | None:
    if plan.layers is None:
        return None
    try:
        return MountTree(layers=kernel.copy_of_mount(plan.layers))
    except OSError:  # Linux before 6.15 cannot copy an unattached mount
        return None


def _outermost(places: tuple[str, ...]) -> list[str]:
    """Return the places that are not below another one."""
    outermost = []
    for place in sorted(set(places)):
        if not any(place.startswith(f"{other}/") for other in places):
            outermost.append(place)
    return outermost


def visible_mounts() -> tuple[Mount, ...]:
    """Return the visible mounts outside of /proc, /sys and /dev."""
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        return _visible_of(file.readall())


@lru_cache(maxsize=1)
def _visible_of(table: bytes) -> tuple[Mount, ...]:
    """Return the visible mounts of a mount table, cached: most sandboxes of a process see the same one."""
    by_path: dict[str, Mount] = {}
    by_number: dict[str, Mount] = {}
    for line in table.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        path = _unescaped(fields[4])
        is_file_system_read_only = "ro" in after.split()[-1].split(",")
        is_mount_read_only = "ro" in fields[5].split(",")
        mount = Mount(
            path,
            kind=after.split(" ", 1)[0],
            is_read_only=is_mount_read_only or is_file_system_read_only,
            is_accessible=True,
            is_written_elsewhere=is_mount_read_only and not is_file_system_read_only,
        )
        by_path[path] = by_number[fields[0]] = mount
    result = []
    for path, last in sorted(by_path.items()):
        if path == "/" or _is_within(path, SPECIAL):
            continue
        if last.kind in _NOT_ENTERED:
            result.append(Mount(path, last.kind, is_read_only=True, is_accessible=False))
            continue
        number = _mount_number(path)
        if number is None:
            result.append(last._replace(is_accessible=False))
        elif number in by_number and by_number[number].path == path:
            result.append(by_number[number])
    return tuple(result)


def _mount_number(path: str) -> str | None:
    try:
        with kernel.opened(path) as descriptor, open(f"/proc/self/fdinfo/{descriptor}", encoding="utf-8") as lines:
            return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), None)
    except OSError:
        return None


def _unescaped(text: str) -> str:
    """Unescape a path of mountinfo: a backslash and three octal digits stand for a space and the like."""
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _is_within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _mode_of(path: str) -> int:
    """Return the mode for a replacement of this directory: only writable if the user may write to the original."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    return mode if os.access(path, os.W_OK) else mode & ~0o222


def _is_empty(path: str) -> bool:
    """Return True for an empty directory: rebuilding it gives the same, and an overlay takes time."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except PermissionError:
        return False


class _Layout:
    """Plans the contents of a new root, before the fork."""

    def __init__(self, mounts: tuple[Mount, ...], writable: tuple[str, ...], *, as_root: bool, has_hosts: bool) -> None:
        self._mounts = {mount.path: mount for mount in mounts}
        self._writable = writable
        self._as_root = as_root
        self._has_hosts = has_hosts
        self._bytes_left = _MOST_COPIED_BYTES
        self.overlays: list[str] = []
        self.notes: list[str] = []

    def part(self, path: str) -> Base | str:
        """Plan the layer over one directory; the path stands for an overlay."""
        if self._has_mounts_below(path):
            return self.base(path)
        self.overlays.append(path)
        return path

    def base(self, path: str) -> Base:
        """Plan how to rebuild a directory."""
        return Base(path, _mode_of(path), tuple(self._entries(path)))

    def _entries(self, path: str) -> list[tuple[How, str, str | int]]:
        with os.scandir(path) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        result: list[tuple[How, str, str | int]] = []
        for entry in children:
            with contextlib.suppress(FileNotFoundError):  # it was just removed
                result += self._entry(entry)
        return result

    def _entry(self, entry: os.DirEntry[str]) -> list[tuple[How, str, str | int]]:
        if entry.path in SPECIAL:
            return []
        if entry.is_symlink():
            return [(How.LINK, entry.path, os.readlink(entry.path))]
        if entry.is_dir(follow_symlinks=False):
            return self._directory(entry.path)
        if entry.is_file(follow_symlinks=False):
            return [self._file(entry)]
        return []  # a socket, pipe or device of the outside

    def _directory(self, path: str) -> list[tuple[How, str, str | int]]:
        mount = self._mounts.get(path)
        if mount is not None and not mount.is_accessible:
            return [(How.CLOSED, path, 0o755)]
        if self._has_mounts_below(path) or _is_empty(path):
            return [(How.DIRECTORY, path, _mode_of(path)), *self._entries(path)]
        if mount is not None and mount.is_written_elsewhere:
            self.overlays.append(path)
            return [(How.READ_ONLY_OVERLAY, path, 0o755)]
        if (mount is not None and mount.is_read_only) or not self._needs_overlay(path):
            return [(How.REAL_DIRECTORY, path, 0o755)]
        self.overlays.append(path)
        return [(How.OVERLAY, path, 0o755)]

    def _file(self, entry: os.DirEntry[str]) -> tuple[How, str, int]:
        """Plan a file in a rebuilt directory: a copy if it is writable and small."""
        state = entry.stat(follow_symlinks=False)
        if entry.path in self._mounts or not os.access(entry.path, os.R_OK | os.W_OK):
            return How.FILE, entry.path, 0o600
        if state.st_size > self._bytes_left:
            if os.path.dirname(entry.path) != "/":  # swap files there are not worth a note
                self.notes.append(f"{entry.path} is read-only: it is large, and stands beside a mount")
            return How.FILE, entry.path, 0o600
        self._bytes_left -= state.st_size
        return How.COPIED_FILE, entry.path, stat.S_IMODE(state.st_mode)

    def _has_mounts_below(self, path: str) -> bool:
        return any(other.startswith(f"{path}/") for other in self._mounts)

    def _needs_overlay(self, path: str) -> bool:
        """Return False for system directories that the user could not write to anyway."""
        if self._as_root or path not in _SYSTEM or (path == "/etc" and self._has_hosts):
            return True
        return any(place.startswith(f"{path}/") for place in self._writable)


class _Builder:
    """Prepares the ordinary directories of a new root."""

    def __init__(self, plan: Plan, tree: MountTree) -> None:
        self._tree = tree
        self._hosts = plan.hosts
        self._as_root = plan.as_root
        self._names = plan.layer_names
        self._writable = plan.writable
        self._real = plan.real
        # Several overlays share one upper layer, which the kernel allows only without an index.
        self._sharing = {} if plan.layers is None else {"index": "off"}
        if not plan.as_root:
            self._note_other_owners(plan.project)

    def add_real_places(self) -> None:
        """Let the directories that are written for real show through."""
        for place in self._real:
            self._tree.attachments.append((place, kernel.copy_of_mounts(place, read_only=False)))

    def put(self, part: Base | str) -> None:
        """Put a layer over one directory."""
        if isinstance(part, str):
            self._overlay(part)
            return
        root = kernel.new_filesystem("tmpfs", {"mode": f"{part.mode:o}"})
        self._tree.bases.append((part.path, root))
        if part.path != "/":
            self._tree.attachments.append(self._tree.bases[-1])
        skipped = len(part.path.rstrip("/")) + 1
        for how, path, detail in part.entries:
            try:
                self._put_entry(root, path[skipped:], how, path, detail)
            except FileNotFoundError:  # it was just removed
                self._tree.missing.append(path)
                _remove_place(root, path[skipped:])

    def _put_entry(self, root: int, inside: str, how: How, path: str, detail: str | int) -> None:
        if isinstance(detail, str):
            os.symlink(detail, inside, dir_fd=root)
        elif how is How.COPIED_FILE:
            self._tree.copied[path] = _copy_file(path, root, inside, detail, with_owner=self._as_root)
        elif how is How.FILE:
            os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=root))
            self._attach_copy(path)
        else:
            os.mkdir(inside, 0o755, dir_fd=root)
            if how is How.DIRECTORY:
                os.chmod(inside, detail, dir_fd=root)
            elif how is How.REAL_DIRECTORY:
                self._attach_copy(path)
            elif how is How.OVERLAY:
                self._overlay(path)
            elif how is How.READ_ONLY_OVERLAY:
                self._overlay(path)
                kernel.make_read_only(self._tree.attachments[-1][1], recursive=False)

    def _note_other_owners(self, project: str) -> None:
        """Note that the project has files that the overlay cannot copy: their owner or group does not exist inside."""
        with os.scandir(project) as entries:
            for entry in islice(entries, _ENTRIES_LOOKED_AT):
                state = entry.stat(follow_symlinks=False)
                if (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
                    why = "belongs to another user or group; it cannot be changed here (EOVERFLOW)"
                    self._tree.notes.append(f"{entry.path} {why}")
                    return

    def _attach_copy(self, path: str) -> None:
        self._tree.attachments.append((path, kernel.copy_of_mounts(path)))

    def _overlay(self, path: str) -> None:
        name = self._names[path]
        upper, work = f"{name}/upper", f"{name}/work-{os.getpid()}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(name)
        os.mkdir(work)
        self._make_like(path, upper)
        if not self._as_root:
            self._make_ways(path, upper)
        if path == "/etc" and self._hosts:
            _write_hosts(upper, self._hosts)
        try:
            with kernel.opened(path) as place:  # a short name: the kernel takes no option beyond 255 bytes
                lower = f"/proc/self/fd/{place}"
                options = {"lowerdir": lower, "upperdir": upper, "workdir": work, "userxattr": None, **self._sharing}
                mount = kernel.new_filesystem("overlay", options)
        except OSError as error:
            self._tree.notes.append(f"{path} is read-only: no overlay there ({error.strerror})")
            self._attach_copy(path)
            return
        self._tree.overlays.append(path)
        self._tree.attachments.append((path, mount))

    def _make_ways(self, path: str, upper: str) -> None:
        """Create the directories that lead to places where this user writes.

        The overlay would copy them when the first file below is written, which fails if they belong to somebody who
        does not exist in the user namespace.
        """
        for place in self._writable:
            way = path
            for name in Path(place).relative_to(path).parts if place.startswith(f"{path}/") else ():
                way = f"{way}/{name}"
                self._make_like(way, upper + way.removeprefix(path))

    def _make_like(self, path: str, copy: str) -> None:
        state = os.stat(path)
        try:
            os.mkdir(copy)
        except FileExistsError:
            return  # created by a sandbox that shares this layer
        os.chmod(copy, _mode_of(path))
        if self._as_root:
            os.chown(copy, state.st_uid, state.st_gid)
        os.utime(copy, ns=(state.st_atime_ns, state.st_mtime_ns))


def attributes(state: os.stat_result) -> tuple[int, ...]:
    """Return the attributes that change when a file is written."""
    return (state.st_mode, state.st_uid, state.st_gid, state.st_size, state.st_mtime_ns)


def _remove_place(root: int, inside: str) -> None:
    """Remove a file or directory that was created as a mount point."""
    for remove in (os.rmdir, os.unlink):
        with contextlib.suppress(OSError):
            remove(inside, dir_fd=root)


def _copy_file(path: str, root: int, inside: str, mode: int, *, with_owner: bool) -> tuple[int, ...]:
    """Copy a small file with its attributes below an open directory, and return the attributes of the copy."""
    with kernel.opened(path, os.O_RDONLY | os.O_NOFOLLOW) as source:
        state = os.fstat(source)
        target = os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=root)
        try:
            while os.sendfile(target, source, None, _CHUNK_BYTES):
                pass
            if with_owner:
                os.chown(target, state.st_uid, state.st_gid)
            os.chmod(target, mode)
            os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
            copy = os.fstat(target)
            return (*attributes(copy), copy.st_ctime_ns)
        finally:
            os.close(target)


def _write_hosts(upper: str, hosts: str) -> None:
    before = Path("/etc/hosts").read_bytes() if Path("/etc/hosts").exists() else b""
    Path(upper, "hosts").write_bytes(before + b"\n" + hosts.encode())
    os.chmod(Path(upper, "hosts"), 0o644)


def _prepare_special(tree: MountTree, root: int, plan: Plan) -> None:
    """Prepare /sys and /dev, and a mount point for /proc."""
    for name in ("proc", "sys", "dev"):
        os.mkdir(name, 0o755, dir_fd=root)
    if os.path.isdir("/sys"):
        tree.attachments.append(("/sys", kernel.copy_of_mounts("/sys")))
    _prepare_devices(tree, plan)


def _new_shared_memory(real: tuple[str, ...], flags: int = 0) -> int:
    """Return a new file system for /dev/shm, with mount points for directories below it that are written for real."""
    memory = kernel.new_filesystem("tmpfs", {"mode": "1777"}, flags)
    for place in real:
        if place.startswith(f"{_SHARED_MEMORY}/"):
            _make_place(memory, place)
    return memory


def _make_place(memory: int, place: str) -> None:
    """Create a mount point in /dev/shm: the directories, and the file if the place is one."""
    *ways, last = Path(place).relative_to(_SHARED_MEMORY).parts
    is_file = not os.path.isdir(place)
    way = ""
    for name in ways if is_file else (*ways, last):
        way = os.path.join(way, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(way, 0o700, dir_fd=memory)
    if is_file:
        os.close(os.open(os.path.join(way, last), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=memory))


def _harmless_devices() -> Iterator[tuple[str, bool]]:
    """Yield the harmless devices and those of GPUs; through others, root could write to disks."""
    for name in sorted(os.listdir("/dev")):
        path = f"/dev/{name}"
        if (name in _DEVICES or name.startswith(_DEVICE_PREFIXES)) and not os.path.islink(path):
            yield name, os.path.isdir(path)


def _prepare_devices(tree: MountTree, plan: Plan) -> None:
    """Prepare a /dev with a few devices."""
    devices = kernel.new_filesystem("tmpfs", {"mode": "755"})
    mounts: list[tuple[str, int]] = []
    for name, is_directory in plan.devices:
        if is_directory:
            os.mkdir(name, 0o755, dir_fd=devices)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=devices))
        mounts.append((f"/dev/{name}", kernel.copy_of_mounts(f"/dev/{name}")))
    for name, target in _LINKS.items():
        os.symlink(target, name, dir_fd=devices)
    os.symlink("pts/ptmx", "ptmx", dir_fd=devices)
    for name in ("shm", "pts", "mqueue"):
        os.mkdir(name, 0o755, dir_fd=devices)
    mounts.append((_SHARED_MEMORY, _new_shared_memory(plan.real, kernel.MOUNT_ATTR_NODEV)))
    mounts.append(
        ("/dev/pts", kernel.new_filesystem("devpts", {"newinstance": None, "ptmxmode": "0666", "mode": "620"}))
    )
    with contextlib.suppress(OSError):  # a kernel without POSIX message queues
        mounts.append(("/dev/mqueue", kernel.new_filesystem("mqueue", {})))
    kernel.make_read_only(devices, recursive=False)
    tree.attachments += [("/dev", devices), *mounts]


def _protect_machine(names: tuple[str, ...]) -> None:
    """Make the parts of /proc read-only that belong to the whole machine."""
    with kernel.opened("/proc") as directory:
        for name in names:
            copy = kernel.copy_of_mounts(f"/proc/{name}")
            kernel.attach(copy, directory, name)
            os.close(copy)
