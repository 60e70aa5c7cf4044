"""The file system of an isolated process tree: all files stay visible, and what is written goes into layers in memory.

Each directory below the root gets an overlay. A directory with mounts below it cannot have one (the kernel refuses: the
overlay would uncover what the mounts hide), so it is built anew in memory, with an overlay for each of its directories.
Unix sockets that existed before do not work through an overlay, and directories that are built anew leave them out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path

from replaykit.isolation import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replaykit.isolation.policy import Policy

_SPECIAL = ("/proc", "/sys", "/dev")
_SHARED_MEMORY = "/dev/shm"
_ENTRIES_LOOKED_AT = 200
_NOT_ENTERED = {"autofs"}  # looking at it would mount something
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "kfd", "dri", "accel", "dxg")
_DEVICE_PREFIXES = ("nvidia",)
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_MACHINE_WIDE = ("sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi", "mtrr", "driver")
"""Parts of /proc that belong to the whole machine, and that root could write to."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount that can be seen."""

    path: str
    kind: str
    is_read_only: bool
    is_accessible: bool


@dataclass(slots=True)
class Tree:
    """A new root while it is built: everything is prepared before the first mount is attached."""

    layers: int
    bases: list[tuple[str, int]] = field(default_factory=list)
    """Paths of directories that are built anew in a file system of their own, and descriptors of those."""
    overlays: list[tuple[str, str]] = field(default_factory=list)
    """Paths, and the names of the layers that hold what is written below them."""
    rebuilt: list[tuple[str, int]] = field(default_factory=list)
    """Directories that are built anew, and the number of the base that holds them."""
    entries: list[str] = field(default_factory=list)
    """Paths that were put into those directories."""
    notes: list[str] = field(default_factory=list)
    attachments: list[tuple[str, int]] = field(default_factory=list)

    def descriptors(self) -> list[int]:
        """Return the descriptors by which what was written can be read outside: of the layers, and of the bases."""
        return [self.layers, *(descriptor for _, descriptor in self.bases)]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new file system is like. It is made before the fork: afterwards every look at memory costs a page."""

    project: str
    writable: tuple[str, ...]
    """Directories that a program expects to be able to write to."""
    real: tuple[str, ...]
    """Directories that are really written."""
    max_written_bytes: int | None
    hosts: str
    """Text for the end of /etc/hosts."""
    as_root: bool
    """Whether root's capabilities over files hold."""
    mounts: tuple[Mount, ...] = ()
    """The mounts that paths lead to."""
    layers: int | None = None
    """A descriptor of layers that several sandboxes share; None where there are new ones."""
    devices: tuple[tuple[str, bool], ...] = ()
    """Names in /dev that a sandbox has too, and whether they are directories."""
    machine_wide: tuple[str, ...] = ()
    """Names in /proc that nobody may write to."""


def plan(policy: Policy, hosts: str, *, as_root: bool, layers: int | None = None) -> Plan:
    """Return what the file system of a policy is like."""
    home = policy.home or Path(os.path.expanduser("~"))
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")
    expected = (policy.project, home, temporary, Path("/tmp"), Path("/var/tmp"))
    writable = [os.path.realpath(place) for place in expected]
    real = [os.path.realpath(place) for place in (*policy.scratch, *policy.allow_write)]
    return Plan(
        project=os.path.realpath(policy.project),
        writable=tuple(place for place in writable if os.path.isdir(place)),
        real=tuple(place for place in real if os.path.exists(place)),
        max_written_bytes=policy.max_written_bytes,
        hosts=hosts,
        as_root=as_root,
        mounts=visible_mounts(),
        layers=layers,
        devices=tuple(_harmless_devices()),
        machine_wide=tuple(name for name in _MACHINE_WIDE if os.path.exists(f"/proc/{name}")),
    )


def build(plan: Plan, processes: Callable[[], int]) -> Tree:
    """Make a new root for this mount namespace, and enter it. `processes` returns the file system for /proc."""
    kernel.make_private()
    tree = _new_tree(plan)
    builder = _Builder(plan, tree)
    builder.rebuild("/")
    root = tree.bases[0][1]
    _prepare_special(tree, root, plan)
    tree.attachments.append(("/proc", processes()))
    builder.add_real_places()
    kernel.detach(tree.layers)  # else it would be let go of in place of the old root
    # Any directory will do: the old root is let go of in a moment. Of /proc nothing is needed any more.
    with _opened("/proc") as place:
        kernel.attach(root, place)
    for path, mount in tree.attachments:
        kernel.attach(mount, root, path.lstrip("/"))
        os.close(mount)
    tree.attachments.clear()
    kernel.enter_root(root)
    if plan.as_root and plan.layers is None:  # else all of /proc is read-only
        _protect_machine(plan.machine_wide)
    return tree


def new_processes() -> int:
    """Return a file system for /proc that shows the process namespace of this process."""
    flags = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV | kernel.MOUNT_ATTR_NOEXEC
    return kernel.new_filesystem("proc", {}, flags)


def build_nested(plan: Plan) -> Tree:
    """Put new layers over the places where programs write, inside of a sandbox whose root is shut already."""
    kernel.make_private()
    tree = _new_tree(plan)
    builder = _Builder(plan, tree)
    for place in _outermost(plan.writable):
        builder.cover(place)
    tree.attachments.append((_SHARED_MEMORY, _new_shared_memory(plan.real)))
    builder.add_real_places()
    for path, mount in tree.attachments:
        with _opened(path) as place_descriptor:
            kernel.attach(mount, place_descriptor)
    kept = tree.descriptors()
    for _, mount in tree.attachments:
        if mount not in kept:
            os.close(mount)
    tree.attachments.clear()
    kernel.detach(tree.layers)
    return tree


def _new_tree(plan: Plan) -> Tree:
    tree = _with_shared_layers(plan) or _with_own_layers(plan)
    # Linux before 6.15 takes layers only from a mount of this namespace. Over the root it covers nothing: paths begin
    # below it.
    with _opened("/") as root:
        kernel.attach(tree.layers, root)
    os.fchdir(tree.layers)  # the paths of layers are relative to it
    return tree


def _with_own_layers(plan: Plan) -> Tree:
    size = {} if plan.max_written_bytes is None else {"size": str(plan.max_written_bytes)}
    tree = Tree(layers=kernel.new_filesystem("tmpfs", {"mode": "700", **size}))
    if plan.layers is not None:
        tree.notes.append("files that a child process writes are not seen by the others: that takes Linux 6.15")
    return tree


def _with_shared_layers(plan: Plan) -> Tree | None:
    if plan.layers is None:
        return None
    try:
        return Tree(layers=kernel.copy_of_mount(plan.layers))
    except OSError:  # Linux before 6.15 copies no mount that is attached nowhere
        return None


def _outermost(places: tuple[str, ...]) -> list[str]:
    """Return the places that are not below another one."""
    return [one for one in sorted(set(places)) if not any(one.startswith(f"{other}/") for other in places)]


def visible_mounts() -> tuple[Mount, ...]:
    """Return the mounts that paths lead to, outside of /proc, /sys and /dev."""
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        return _visible_of(file.readall())


@lru_cache(maxsize=1)
def _visible_of(table: bytes) -> tuple[Mount, ...]:
    """Return the visible ones of a table of mounts. Most sandboxes of a process find the same table."""
    found: dict[str, tuple[str, str, bool]] = {}
    by_number: dict[str, tuple[str, str, bool]] = {}
    for line in table.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        path = _unescaped(fields[4])
        options = (*fields[5].split(","), *after.split()[-1].split(","))
        found[path] = by_number[fields[0]] = (path, after.split(" ", 1)[0], "ro" in options)
    result = []
    for path, (_, kind, is_read_only) in sorted(found.items()):
        if path == "/" or _is_within(path, _SPECIAL):
            continue
        if kind in _NOT_ENTERED:
            result.append(Mount(path, kind, True, False))
            continue
        number = _mount_number(path)
        if number is None:
            result.append(Mount(path, kind, is_read_only, False))
        elif number in by_number and by_number[number][0] == path:
            _, kind, is_read_only = by_number[number]
            result.append(Mount(path, kind, is_read_only, True))
    return tuple(result)


def _mount_number(path: str) -> str | None:
    try:
        with _opened(path) as descriptor, open(f"/proc/self/fdinfo/{descriptor}", encoding="utf-8") as lines:
            return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), None)
    except OSError:
        return None


def _unescaped(text: str) -> str:
    """Return a path of mountinfo: a backslash and three octal digits stand for a space and the like."""
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _is_within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mode_of(path: str) -> int:
    """Return the mode that a directory of ours gets in the place of this one: nobody may write who could not."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    return mode if os.access(path, os.W_OK) else mode & ~0o222


def _is_empty(path: str) -> bool:
    """Return True for a directory with nothing in it: built anew it is the same, and an overlay takes time."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except PermissionError:
        return False


class _Builder:
    """Prepares the ordinary directories of a new root."""

    def __init__(self, plan: Plan, tree: Tree) -> None:
        self._tree = tree
        self._hosts = plan.hosts
        self._as_root = plan.as_root
        self._base = ""
        self._root = -1
        self._mounts = {mount.path: mount for mount in plan.mounts}
        self._writable = plan.writable
        self._real = plan.real
        # Several overlays may have one upper layer: without an index the kernel lets them.
        self._sharing = {} if plan.layers is None else {"index": "off"}
        if not plan.as_root:
            self._note_other_owners(plan.project)

    def add_real_places(self) -> None:
        """Let the directories that are really written show through."""
        for place in self._real:
            self._tree.attachments.append((place, kernel.copy_of_mounts(place, read_only=False)))

    def cover(self, path: str) -> None:
        """Put a layer over one directory."""
        if any(other.startswith(f"{path}/") for other in self._mounts):
            self.rebuild(path)
            self._tree.attachments.insert(0, self._tree.bases[-1])
        else:
            self._overlay(path)

    def rebuild(self, path: str) -> None:
        """Build a directory anew in a file system of its own."""
        mode = f"{_mode_of(path):o}"
        self._base = path.rstrip("/")
        self._root = kernel.new_filesystem("tmpfs", {"mode": mode})
        self._tree.bases.append((path, self._root))
        self._fill(path)

    def _fill(self, path: str) -> None:
        """Put a mount into a directory that is built anew for each entry of the real one."""
        self._tree.rebuilt.append((path, len(self._tree.bases) - 1))
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.path not in _SPECIAL:
                    self._put(entry)

    def _put(self, entry: os.DirEntry[str]) -> None:
        inside = self._inside(entry.path)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), inside, dir_fd=self._root)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(inside, 0o755, dir_fd=self._root)
            self._put_directory(entry.path)
        elif entry.is_file(follow_symlinks=False):
            os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=self._root))
            self._attach_copy(entry.path)
        else:
            return  # a socket, a pipe or a device of the outside
        self._tree.entries.append(entry.path)

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._base).lstrip("/")

    def _put_directory(self, path: str) -> None:
        mount = self._mounts.get(path)
        if mount is not None and not mount.is_accessible:
            return
        if any(other.startswith(f"{path}/") for other in self._mounts) or _is_empty(path):
            os.chmod(self._inside(path), _mode_of(path), dir_fd=self._root)
            self._fill(path)
        elif (mount is not None and mount.is_read_only) or not self._needs_overlay(path):
            self._attach_copy(path)
        else:
            self._overlay(path)

    def _note_other_owners(self, project: str) -> None:
        """Note when the project has files that the overlay cannot copy: their owner or group is unknown inside."""
        with os.scandir(project) as entries:
            for entry in islice(entries, _ENTRIES_LOOKED_AT):
                found = entry.stat(follow_symlinks=False)
                if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                    why = "belongs to another user or group; it cannot be changed here (EOVERFLOW)"
                    self._tree.notes.append(f"{entry.path} {why}")
                    return

    def _needs_overlay(self, path: str) -> bool:
        """Return False for directories of the system, of a person who could not write there anyway."""
        if self._as_root or path not in _SYSTEM or (path == "/etc" and self._hosts):
            return True
        return any(place.startswith(f"{path}/") for place in self._writable)

    def _attach_copy(self, path: str) -> None:
        self._tree.attachments.append((path, kernel.copy_of_mounts(path)))

    def _overlay(self, path: str) -> None:
        name = sha256(os.fsencode(path)).hexdigest()[:32]  # the same for all sandboxes that share layers
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
            with _opened(path) as place:  # by its number: the kernel takes no option of more than 255 bytes
                lower = f"/proc/self/fd/{place}"
                options = {"lowerdir": lower, "upperdir": upper, "workdir": work, "userxattr": None, **self._sharing}
                mount = kernel.new_filesystem("overlay", options)
        except OSError as error:
            self._tree.notes.append(f"{path} is read-only: no overlay there ({error.strerror})")
            self._attach_copy(path)
            return
        self._tree.overlays.append((path, name))
        self._tree.attachments.append((path, mount))

    def _make_ways(self, path: str, upper: str) -> None:
        """Make the directories that lead to places where this person writes.

        The overlay would copy them when the first file is written below; it cannot where they belong to somebody who
        does not exist in the user namespace.
        """
        for place in self._writable:
            way = path
            for name in Path(place).relative_to(path).parts if place.startswith(f"{path}/") else ():
                way = f"{way}/{name}"
                self._make_like(way, upper + way.removeprefix(path))

    def _make_like(self, path: str, made: str) -> None:
        found = os.stat(path)
        try:
            os.mkdir(made)
        except FileExistsError:
            return  # a sandbox that shares this layer has made it
        os.chmod(made, _mode_of(path))
        if self._as_root:
            os.chown(made, found.st_uid, found.st_gid)
        os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))


def _write_hosts(upper: str, hosts: str) -> None:
    before = Path("/etc/hosts").read_bytes() if Path("/etc/hosts").exists() else b""
    Path(upper, "hosts").write_bytes(before + b"\n" + hosts.encode())
    os.chmod(Path(upper, "hosts"), 0o644)


def _prepare_special(tree: Tree, root: int, plan: Plan) -> None:
    """Prepare /sys and /dev, and a place for /proc."""
    for name in ("proc", "sys", "dev"):
        os.mkdir(name, 0o755, dir_fd=root)
    tree.entries += _SPECIAL
    if os.path.isdir("/sys"):
        tree.attachments.append(("/sys", kernel.copy_of_mounts("/sys")))
    _prepare_devices(tree, plan)


def _new_shared_memory(real: tuple[str, ...], flags: int = 0) -> int:
    """Return a new file system for /dev/shm; directories below it that are really written have a place there."""
    memory = kernel.new_filesystem("tmpfs", {"mode": "1777"}, flags)
    for place in real:
        if place.startswith(f"{_SHARED_MEMORY}/"):
            _make_place(memory, place)
    return memory


def _make_place(memory: int, place: str) -> None:
    """Make the directories, or the directories and the file, that a place of /dev/shm is mounted on."""
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
    """Yield the harmless devices and those of GPUs, by name: by the others root could write to disks."""
    for name in sorted(os.listdir("/dev")):
        path = f"/dev/{name}"
        if (name in _DEVICES or name.startswith(_DEVICE_PREFIXES)) and not os.path.islink(path):
            yield name, os.path.isdir(path)


def _prepare_devices(tree: Tree, plan: Plan) -> None:
    """Prepare a /dev with some of the devices."""
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
    """Let nobody write to the parts of /proc that belong to the whole machine."""
    with _opened("/proc") as directory:
        for name in names:
            copy = kernel.copy_of_mounts(f"/proc/{name}")
            kernel.attach(copy, directory, name)
            os.close(copy)
