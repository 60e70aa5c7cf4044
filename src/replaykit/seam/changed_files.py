"""Files that the recorded run changed: noted while recording, and watched in a replay.

A replay finds such a file in the state in which the recorded run left it, and a file that a tool wrote is not written
again. A candidate that reads it may behave differently for that alone. Python reports opened files to an audit hook.
The hook cannot be removed; without a run to watch it returns at once. It does not see files that C libraries, except
for SQLite, or other programs open.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from stat import S_ISDIR, S_ISREG
from types import FrameType
from typing import Any

import msgspec

from replaykit.model.changed_files import ABSENT_FILE, CHANGED_FILE, ChangedFile
from replaykit.model.events import Note
from replaykit.model.values import sayable
from replaykit.seam.hooks import Hooks
from replaykit.seam.own_code import Function, frames_from, is_ours, module_name
from replaykit.seam.scope import PendingCall, RunSession, current, only_session
from replaykit.seam.side_effects import remember_directory, remember_variable

LEFTOVER = "leftover"
"""The deviation of a candidate that reads a file which the recorded run changed."""
_NOTED = 200  # files noted one by one for each process
_HASHED_BYTES = 8_000_000  # larger files are compared by size and time
_FOUND = 8  # states of one file that are told apart
_DIRECTORY = "directory"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EXCLUSIVE = os.O_CREAT | os.O_EXCL
_TEMPORARY = getattr(os, "O_TMPFILE", 0)
_OF_THE_SYSTEM = ("/dev/", "/proc/", "/sys/")
_WRITERS = ("replaykit.store.", "replaykit.handlers.recording.recorder")
# Names of files that frameworks write for their own commands; CrewAI's is only for `crewai replay`.
_NEVER_READ_BY_RUNS = frozenset({"latest_kickoff_task_outputs.db"})
# Modules of Python that open files for their callers.
_FILE_MODULES = frozenset(
    {"codecs", "contextlib", "genericpath", "glob", "gzip", "importlib", "io", "os", "pathlib", "posixpath", "shutil"}
    | {"sqlite3", "tempfile"}
)


class FileWatcher:
    """Is notified of the files that a run opens. Paths are absolute."""

    def changes(self, path: str, *, anew: bool) -> None:
        """Note that the file is about to be changed; `anew`: its old content is discarded."""

    def reads(self, path: str, *, only_existence: bool = False) -> None:
        """Note that the file is about to be read, or that its existence is checked."""

    def holds_open(self, path: str) -> None:
        """Note that the file is a database about to be opened, which may be read at any time from then on."""

    def lists(self, directory: str) -> None:
        """Note that a directory is listed."""

    def makes_temporary(self, path: str) -> None:
        """Note that a file or directory with a unique name is about to be created."""

    def end(self) -> None:
        """Note the end of the run."""


class FileLog(FileWatcher):
    """In a recording: notes the files that a process changes."""

    def __init__(self, session: RunSession, directory: str = "") -> None:
        """`directory`: the one that paths are relative to; default: the current one."""
        self._session = session
        self._handler = session.handler
        self._process = os.getpid()
        self._directory = directory or os.getcwd()
        self._known: dict[str, ChangedFile] = {}
        self._found: dict[str, set[str]] = {}
        self._temporary: list[str] = []
        self._databases: set[str] = set()
        self._unwritten: list[ChangedFile] = []
        self._lock = threading.Lock()

    def changes(self, path: str, *, anew: bool) -> None:
        """Note a file before its first change."""
        if self._process != os.getpid() and not self._go_on_in_child():
            return
        call = _call_here()
        tool = "" if call is None else call.name
        if call is not None and path in self._databases:
            self._note_shared(path, call)
        known = self._known.get(path)
        if known is not None and (known.tool or not tool):
            return
        if not tool and self._is_temporary(path):
            return
        if known is None and len(self._known) >= _NOTED:
            if len(self._known) > _NOTED:
                return
            path, changed = "", ChangedFile(path="", before=str(time.time()))
        else:
            before = state_of(path) if known is None else known.before
            changed = ChangedFile(path=_relative(path, self._directory), before=before, tool=tool)
        with self._lock:
            self._known[path] = changed
            self._unwritten.append(changed)
        self._write()

    def reads(self, path: str, *, only_existence: bool = False) -> None:
        """Remember the state in which the agent finds a file that a tool changed."""
        known = self._known.get(path)
        if known is None or not known.tool or _call_here() is not None:
            return
        found = self._found.setdefault(path, set())
        if len(found) < _FOUND:
            found.add(state_of(path))

    def holds_open(self, path: str) -> None:
        """Remember the agent's databases: it may read what a tool has written there at any time."""
        if _call_here() is None and len(self._databases) < _NOTED:
            self._databases.add(path)

    def _note_shared(self, path: str, call: PendingCall) -> None:
        name = f"./{_relative(path, self._directory)}"
        if name not in call.emitted:
            call.emitted = (*call.emitted, name)

    def makes_temporary(self, path: str) -> None:
        """Remember unique names, which no replay uses again unless a tool returns them."""
        if _call_here() is None and len(self._temporary) < _NOTED:
            self._temporary.append(path)

    def end(self) -> None:
        """Note in which state the agent found the files that tools changed."""
        if self._process != os.getpid():
            return
        for path, changed in self._known.items():
            if not changed.tool:
                continue
            found = self._found.get(path) or {state_of(path)}
            after = "" if len(found) > 1 else next(iter(found))
            self._unwritten.append(msgspec.structs.replace(changed, after=after))
        self._write()

    def _write(self) -> None:
        """Write the findings, unless they were made in the middle of another write."""
        if _is_writing(sys._getframe().f_back):
            return
        with self._lock:
            notes, self._unwritten = self._unwritten, []
        for changed in notes:
            self._session.keep(Note, name=CHANGED_FILE, content_json=changed.content)

    def _is_temporary(self, path: str) -> bool:
        return any(path == own or path.startswith(f"{own}{os.sep}") for own in self._temporary)

    def _go_on_in_child(self) -> bool:
        """In a forked child: return True if it writes a log of its own."""
        if self._session.handler is self._handler:
            return False
        self._process, self._handler = os.getpid(), self._session.handler
        self._known, self._found, self._unwritten, self._lock = {}, {}, [], threading.Lock()
        return True


class LeftoverWatch(FileWatcher):
    """In a replay: notes files that a candidate reads in the state in which the recorded run left them."""

    def __init__(
        self,
        session: RunSession,
        changed: Iterable[ChangedFile],
        was_served: Callable[[str], bool],
        directory: str = "",
    ) -> None:
        """`was_served` tells whether a call of this tool was already answered from the tape."""
        base = directory or os.getcwd()
        self._session = session
        self._was_served = was_served
        self._changed: dict[str, ChangedFile] = {}
        self._unnamed: ChangedFile | None = None
        for file in changed:
            if file.path:
                self._changed[os.path.normpath(os.path.join(base, file.path))] = file
            else:
                self._unnamed = self._unnamed or file
        self._by_directory: dict[str, list[str]] = {}
        for path in self._changed:
            self._by_directory.setdefault(os.path.dirname(path), []).append(path)
        # Files that the candidate wrote, or that were noted; True if no served tool changes that.
        self._own: dict[str, bool] = {}

    def changes(self, path: str, *, anew: bool) -> None:
        """Remember the candidate's own writes."""
        changed = self._changed.get(path)
        if anew and (changed is not None or self._unnamed is not None):
            self._own[path] = changed is None or not changed.tool or self._was_served(changed.tool)

    def reads(self, path: str, *, only_existence: bool = False) -> None:
        """Note a doubt, once for each file, if the file is not as the recorded run found it."""
        changed = self._changed.get(path, self._unnamed)
        if changed is None or self._is_own(changed, path):
            return
        if not self._is_doubtful(changed, path, only_existence=only_existence):
            return
        self._own[path] = True
        if changed is self._unnamed:
            self._unnamed = None
        self._session.note_deviation(LEFTOVER, changed.doubt)

    def _is_own(self, changed: ChangedFile, path: str) -> bool:
        """True for the candidate's own file, as long as no tool is served that changed it afterwards."""
        stands = self._own.get(path)
        return stands is not None and (stands or not self._was_served(changed.tool))

    def _is_doubtful(self, changed: ChangedFile, path: str, *, only_existence: bool) -> bool:
        if not changed.path:
            return _changed_since(path, float(changed.before))
        expected = changed.before
        if changed.tool and self._was_served(changed.tool):
            expected = changed.after
        state = state_of(path)
        if only_existence and expected:
            return (state == ABSENT_FILE) != (expected == ABSENT_FILE)
        return state != expected

    def lists(self, directory: str) -> None:
        """Check whether the listed files exist as they did."""
        for path in self._by_directory.get(directory, ()):
            self.reads(path, only_existence=True)


def _changed_since(path: str, moment: float) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return S_ISREG(status.st_mode) and status.st_mtime >= moment


def state_of(path: str) -> str:
    """Return the state of a path as text: equal texts mean equal content. Empty if it is unknown."""
    try:
        status = os.stat(path)
        if S_ISDIR(status.st_mode):
            return _DIRECTORY
        if not S_ISREG(status.st_mode):
            return ""
        if status.st_size > _HASHED_BYTES:
            return f"{status.st_size} bytes at {status.st_mtime_ns}"
        from hashlib import blake2b  # noqa: PLC0415 (slow to import; few runs change files)

        with open(path, "rb") as file:
            return f"{status.st_size} bytes, {blake2b(file.read(), digest_size=8).hexdigest()}"
    except FileNotFoundError:
        return ABSENT_FILE
    except (OSError, ValueError):
        return ""


@contextmanager
def watching_files(session: RunSession, watcher: FileWatcher) -> Iterator[None]:
    """Notify the watcher of the files that the session's run opens during the block."""
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_on_event)
    session.files = watcher
    _watched.append(session)
    try:
        yield
    finally:
        _watched.remove(session)


@contextmanager
def watching_leftovers(
    session: RunSession, changed: Iterable[ChangedFile], was_served: Callable[[str], bool], directory: str = ""
) -> Iterator[None]:
    """Note the files changed by the recorded run that a candidate reads."""
    files = tuple(changed)
    if not files:
        yield
        return
    with watching_files(session, LeftoverWatch(session, files, was_served, directory)), _LOOKS.installed():
        yield


_is_hooked = False
# Sessions whose files are watched.
_watched: list[RunSession] = []


class _Busy(threading.local):
    """True in a thread while a watcher itself examines a file."""

    is_so = False


_busy = _Busy()


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    """Handle an audit event of Python; called for all of them, of any kind."""
    # First, because at exit Python still calls this after it has cleared this module.
    if not _watched or _busy.is_so:
        return
    handle = _EVENTS.get(event)
    if handle is None:
        return
    session = _session_here()
    if session is None or session.files is None:
        return
    _busy.is_so = True
    try:
        if not _is_our_own(sys._getframe().f_back):
            handle(session.files, *args)
    finally:
        _busy.is_so = False


def _session_here() -> RunSession | None:
    """Return the run of this thread, or else the only run in progress."""
    scope = current()
    if scope is None or scope.session.over:
        return only_session()
    if scope.session.is_apart:
        return None
    return scope.session


def _call_here() -> PendingCall | None:
    """Return the outermost call that this happens inside of; it is served as a whole."""
    scope = current()
    if scope is None:
        return None
    return scope.outermost


def _is_our_own(innermost: FrameType | None) -> bool:
    """True if ReplayKit itself opens the file."""
    for frame in frames_from(innermost):
        if is_ours(frame) and not _is_of_seam(frame):
            return True
        if not _opens_for_callers(frame):
            return False
    return False


def _is_of_seam(frame: FrameType) -> bool:
    return module_name(frame).startswith("replaykit.seam.")


def _opens_for_callers(frame: FrameType) -> bool:
    """True for code that opens files for its callers."""
    return module_name(frame).partition(".")[0] in _FILE_MODULES or _is_of_seam(frame)


def _is_writing(innermost: FrameType | None) -> bool:
    """True below the code that writes events: it may hold locks."""
    return any(module_name(frame).startswith(_WRITERS) for frame in frames_from(innermost))


def _path(path: Any, dir_fd: Any = -1) -> str:
    """Return the absolute path; empty for a descriptor, and for paths that do not concern a run."""
    if not isinstance(path, str | bytes | os.PathLike) or dir_fd not in (-1, None):
        return ""
    try:
        found = os.path.abspath(os.fsdecode(path))
    except (OSError, ValueError):  # the current directory is gone, or the path is invalid
        return ""
    if found.startswith(_OF_THE_SYSTEM) or "__pycache__" in found or os.path.basename(found) in _NEVER_READ_BY_RUNS:
        return ""
    return found


def _relative(path: str, directory: str) -> str:
    if path.startswith(directory.rstrip(os.sep) + os.sep):
        path = os.path.relpath(path, directory)
    return sayable(path)


def _opened(files: FileWatcher, path: Any, _mode: Any, flags: Any, *_: Any) -> None:
    found = _path(path)
    if not found or not isinstance(flags, int) or (_TEMPORARY and flags & _TEMPORARY == _TEMPORARY):
        return
    if flags & _EXCLUSIVE == _EXCLUSIVE:
        files.reads(found, only_existence=True)
    elif not flags & os.O_TRUNC and not flags & os.O_WRONLY:
        files.reads(found)
    # For the event, `NamedTemporaryFile` opens its directory.
    if flags & _WRITES and not os.path.isdir(found):
        files.changes(found, anew=bool(flags & os.O_TRUNC) or flags & _EXCLUSIVE == _EXCLUSIVE)


def _connected(files: FileWatcher, database: Any) -> None:
    if not isinstance(database, str | bytes | os.PathLike):
        return
    text = os.fsdecode(database)
    if text.startswith("file:"):
        text, _, options = text.removeprefix("file:").partition("?")
        if "mode=memory" in options:
            return
    if not text or text == ":memory:":
        return
    found = _path(text)
    if found:
        files.reads(found)
        files.changes(found, anew=False)
        files.holds_open(found)


def _renamed(files: FileWatcher, source: Any, target: Any, source_fd: Any = -1, target_fd: Any = -1) -> None:
    before, after = _path(source, source_fd), _path(target, target_fd)
    if before:
        files.reads(before)
        files.changes(before, anew=True)
    if after:
        files.changes(after, anew=True)


def _removed(files: FileWatcher, path: Any, dir_fd: Any = -1) -> None:
    found = _path(path, dir_fd)
    if found:
        files.changes(found, anew=True)


def _truncated(files: FileWatcher, path: Any, _length: Any) -> None:
    found = _path(path)
    if found:
        files.changes(found, anew=False)


def _made_directory(files: FileWatcher, path: Any, _mode: Any, dir_fd: Any = -1) -> None:
    found = _path(path, dir_fd)
    if not found:
        return
    if not _accepts_existing(sys._getframe().f_back):
        files.reads(found, only_existence=True)
    files.changes(found, anew=True)


def _listed(files: FileWatcher, path: Any) -> None:
    found = _path("." if path is None else path)
    if found and not _is_of_import(sys._getframe().f_back):
        files.lists(found)


def _made_temporary(files: FileWatcher, path: Any) -> None:
    found = _path(path)
    if found:
        files.makes_temporary(found)


def _set_variable(files: FileWatcher, name: Any, *_: Any) -> None:
    if (known := _surroundings_here(files)) is not None:
        remember_variable(known, os.fsdecode(name))


def _changed_directory(files: FileWatcher, _path: Any) -> None:
    if (known := _surroundings_here(files)) is not None:
        remember_directory(known)


def _surroundings_here(files: FileWatcher) -> dict[str, str | None] | None:
    """Return the known changes of the current call to its process; None outside of a call, and in a replay."""
    call = _call_here()
    if call is None or not isinstance(files, FileLog):
        return None
    if call.surroundings is None:
        call.surroundings = {}
    return call.surroundings


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _opened,
    "os.chdir": _changed_directory,
    "os.listdir": _listed,
    "os.mkdir": _made_directory,
    "os.putenv": _set_variable,
    "os.remove": _removed,
    "os.rename": _renamed,
    "os.rmdir": _removed,
    "os.scandir": _listed,
    "os.truncate": _truncated,
    "os.unsetenv": _set_variable,
    "sqlite3.connect": _connected,
    "tempfile.mkdtemp": _made_temporary,
    "tempfile.mkstemp": _made_temporary,
}


def _accepts_existing(innermost: FrameType | None) -> bool:
    """True below `os.makedirs` or `Path.mkdir` with `exist_ok=True`, which do not care what exists."""
    for frame in frames_from(innermost):
        if frame.f_code.co_name in ("makedirs", "mkdir") and frame.f_locals.get("exist_ok"):
            return True
        if not _opens_for_callers(frame):
            return False
    return False


def _is_of_import(innermost: FrameType | None) -> bool:
    """True if Python is looking for a module."""
    for frame in frames_from(innermost):
        if not _is_of_seam(frame):
            return module_name(frame).partition(".")[0] == "importlib"
    return False


def _looking(original: Function) -> Function:
    """Wrap a function that looks at a file without opening it, which Python does not audit."""

    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        session = None if _busy.is_so else _session_here()
        if session is not None and session.files is not None:
            _busy.is_so = True
            try:
                found = _path(path, kwargs.get("dir_fd"))
                frame = sys._getframe().f_back
                if found and not _is_our_own(frame) and not _accepts_existing(frame):
                    session.files.reads(found, only_existence=True)
            finally:
                _busy.is_so = False
        return original(path, *args, **kwargs)

    for supported in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if original in supported:
            supported.add(look)  # `shutil` checks this set
    return look


_LOOKS = Hooks({"os": tuple(("", name, _looking) for name in ("access", "lstat", "stat"))})
