"""Recordings whose recorder was killed: found by their locks, and merged from the process logs that are left.

While it records, a recorder holds a lock on a file beside its plan. The operating system releases the lock when the
recorder dies, however that happens.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.private_files import locked
from replaykit.programs.command import with_program_facts
from replaykit.programs.file_swap import restore_swapped_file, to_stderr
from replaykit.programs.merge import merge_in_store
from replaykit.store.protocol import Store
from replaykit.wire.json_fields import object_in

RECORDER = "recorder"
_LOCK = "recorder.lock"
KILLED = ErrorInfo(type="RecordingInterrupted", message="the recorder was killed before the program had ended")


@contextlib.contextmanager
def recorder_lock(directory: Path, swapped: Iterable[Path]) -> Iterator[Json]:
    """Hold the lock during the block; yield facts for the run's header by which others find it.

    `swapped` are files that are swapped for others meanwhile.
    """
    with (directory / _LOCK).open("wb") as lock:
        locked(lock.fileno())
        recorder: JsonObject = {"host": socket.gethostname(), "directory": str(directory.absolute())}
        if swapped:
            recorder["swapped"] = [str(file.absolute()) for file in swapped]
        yield recorder


def interrupted_recordings(store: Store) -> list[RunHeader]:
    """Return runs whose recorder is gone, and whose process logs are not merged yet."""
    return list(filter(_is_abandoned, store.headers(status=RunStatus.RUNNING)))


def recover(store: Store) -> list[TraceRun]:
    """Merge the process logs of interrupted recordings, restore swapped files, and return the runs."""
    return [_recovered(store, header) for header in interrupted_recordings(store)]


def _recovered(store: Store, header: RunHeader) -> TraceRun:
    recorder = _recorder(header)
    directory = Path(recorder["directory"])
    _restore_files(recorder.get("swapped"))
    run = merge_in_store(store, with_program_facts(header, **{RECORDER: None}), _cancelled)
    if (directory / _LOCK).exists():
        shutil.rmtree(directory, ignore_errors=True)
    return run


def _restore_files(swapped: Json) -> None:
    """Restore swapped files, whose replacements are in a directory about to be removed."""
    if not isinstance(swapped, list):
        return
    for file in swapped:
        try:
            restore_swapped_file(Path(str(file)))
        except UsageError as error:  # changed since, or in use again: the run is merged anyway
            to_stderr(str(error))


def _cancelled(run: TraceRun) -> TraceRun:
    last = max((event.at + event.duration_s for event in run.events), default=run.started_at)
    return msgspec.structs.replace(run, status=RunStatus.CANCELLED, error=KILLED, ended_at=last)


def _is_abandoned(header: RunHeader) -> bool:
    """Return True for a run whose recorder ran on this machine, and has ended."""
    recorder = _recorder(header)
    if recorder.get("host") != socket.gethostname() or not isinstance(recorder.get("directory"), str):
        return False
    try:
        with (Path(recorder["directory"]) / _LOCK).open("rb") as file:
            return locked(file.fileno())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _recorder(header: RunHeader) -> JsonObject:
    return object_in(header.metadata.get("program"), RECORDER)
