"""`replaykit record -- CMD`: record a whole program as one run, without changing it."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from replaykit.errors import ReplayKitError, StoreFull, is_full
from replaykit.handlers.recording.automatic_pruning import prune_sometimes
from replaykit.handlers.recording.run import new_run_id
from replaykit.handlers.recording.sampling import is_kept, share_of
from replaykit.model.pins import Pins
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json, raw
from replaykit.programs.command import clean_command, finished_run, name_of_command, shell_code, with_program_facts
from replaykit.programs.connection_sampler import ConnectionSampler, unrecorded_connections
from replaykit.programs.foreground_process import ProgramExit, run_in_foreground
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import launch_environment
from replaykit.programs.merge import merge_in_store
from replaykit.programs.plan import Mode, ProgramPlan, new_pins
from replaykit.programs.process_log import process_logs_prefix
from replaykit.programs.recovery import RECORDER, recorder_lock
from replaykit.seam.http.request import text_or_bytes
from replaykit.store.sqlite import SQLiteStore
from replaykit.telemetry.switch import watched

if TYPE_CHECKING:
    from replaykit.telemetry.live_spans import LiveRun

_LATE_S = 1.0  # for processes that end right after their program
_LOOK_S = 0.01


class Recorded(Struct, frozen=True, kw_only=True):
    """A program's run, and its exit code as shells report it."""

    run: TraceRun
    exit_code: int
    is_stored: bool = True
    """False if the program succeeded and its run was not sampled."""
    lost_input: bool = False
    """True if standard input was read that is not in the run."""
    unrecorded: str = ""
    """The reason why there is no run although the program ran, such as a full disk."""
    failure: ReplayKitError | None = None
    """The error that left the recording incomplete."""


def record_program(
    command: Sequence[str],
    store: SQLiteStore,
    *,
    name: str = "",
    program_input: Json = None,
    keep_input: bool = False,
    launch_options: LaunchOptions | None = None,
    pin: bool = True,
    pin_env: Sequence[str] = (),
    sample: float | None = None,
    out: int,
) -> Recorded:
    """Run the command and record it as one run; its output goes to the file descriptor `out`.

    With `keep_input`, standard input becomes the run's input. `pin` seeds randomness, and notes what a replay has to
    pin; `pin_env` names further variables whose values are noted. `sample` is the share of successful runs to store.
    """
    runner = _ProgramRunner(command, out=out, keep_input=keep_input)
    launch_options = launch_options or LaunchOptions()
    share = share_of(sample)
    if pin:
        pins = new_pins(os.environ, pin_env)
    else:
        pins = Pins(started_at=time.time())
    header = RunHeader(
        id=new_run_id(),
        name=name or name_of_command(command),
        input_json=raw(program_input),
        started_at=pins.started_at,
    )
    header = with_program_facts(
        header,
        command=clean_command(command),
        python=platform.python_version(),
        started_at=pins.started_at,
        seed=pins.seed,
        environment=pins.environment or None,
        **launch_options.facts,
    )
    try:
        return _record(runner, store, header, pins, launch_options, share)
    except (StoreFull, OSError) as error:
        if isinstance(error, OSError) and not is_full(error):
            raise
        ran = runner.result()
        why = error.message if isinstance(error, StoreFull) else str(error.strerror)
        run = TraceRun.of(RunHeader(id="", name=header.name), ())
        return Recorded(run=run, exit_code=shell_code(ran.code), is_stored=False, unrecorded=why)


class _ProgramRunner:
    """Runs a program at most once."""

    def __init__(self, command: Sequence[str], *, out: int, keep_input: bool) -> None:
        self.command = command
        self.sampler = ConnectionSampler()
        self._perform = partial(run_in_foreground, out=out, keep_input=keep_input)
        self._has_begun = False
        self._ran: ProgramExit | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> ProgramExit:
        """Run the launcher's version of the command."""
        self._has_begun = True
        try:
            self._ran = self._perform(command, environment, on_start=lambda pid: self.sampler.begin(pid, environment))
        finally:
            self.sampler.end()
        return self._ran

    def result(self) -> ProgramExit:
        """Return how the program ended. It is run now if it never started, but not again if it was interrupted."""
        if not self._has_begun:
            return self.run(self.command, os.environ)
        if self._ran is None:
            raise ReplayKitError("the program was cut off: there was no room to continue")
        return self._ran


def _record(
    runner: _ProgramRunner,
    store: SQLiteStore,
    header: RunHeader,
    pins: Pins,
    launch_options: LaunchOptions,
    share: float,
) -> Recorded:
    plan = ProgramPlan(
        mode=Mode.RECORD,
        run_id=header.id,
        store=str(store.path.absolute()),
        durability=store.durability.value,
        pins=pins,
        working_directory=os.getcwd(),
    )
    # The lock is held from before the run is in the store until its logs are merged. In between, the lock tells other
    # processes whether the run is still being recorded.
    with (
        _session_directory() as directory,
        recorder_lock(Path(directory), launch_options.swapped) as recorder,
    ):
        writer = store.begin(with_program_facts(header, **{RECORDER: recorder}))
        watcher = watched(writer.run_id)
        ran, failure = _run_launched(runner, store, plan, Path(directory), launch_options)
        _wait_for_late_processes(store, header.id)
        run = merge_in_store(
            store,
            _with_exit(header, ran),
            lambda run: _finished(run, ran, watcher),
            partial(unrecorded_connections, runner.sampler),
        )
    # Telemetry gets only the merged run, not the logs of single processes.
    if watcher is not None:
        watcher.whole(store.cleaned(run))
    is_stored = failure is not None or is_kept(run, share)
    if not is_stored:
        store.delete([run.id])
    prune_sometimes(store.path)
    return Recorded(
        run=run, exit_code=shell_code(ran.code), is_stored=is_stored, lost_input=ran.lost_input, failure=failure
    )


def _session_directory() -> tempfile.TemporaryDirectory[str]:
    """Make a directory. The header of the run names it, so it must not begin like the token of a proxy."""
    try:
        return tempfile.TemporaryDirectory(prefix="replaykit_", ignore_cleanup_errors=True)
    except FileNotFoundError:  # how Python reports that no candidate directory is writable
        raise StoreFull("no temporary directory can be written to") from None


def _run_launched(
    runner: _ProgramRunner, store: SQLiteStore, plan: ProgramPlan, directory: Path, launch_options: LaunchOptions
) -> tuple[ProgramExit, ReplayKitError | None]:
    ran: ProgramExit | None = None
    try:
        with launch_environment(plan, None, directory, launch_options) as launch:
            ran = runner.run(launch.command(runner.command), launch.environment)
    except ReplayKitError as failure:
        if ran is None:  # the program has not started: remove all traces
            logs = [header.id for header in store.headers(below=process_logs_prefix(plan.run_id))]
            store.delete([plan.run_id, *logs])
            raise
        return ran, failure
    return ran, None


def _with_exit(header: RunHeader, ran: ProgramExit) -> RunHeader:
    """Return the header with the program's exit code, and its input if that was stored."""
    if ran.input_bytes is None:
        return with_program_facts(header, exit_code=ran.code)
    header = msgspec.structs.replace(header, input_json=raw(text_or_bytes(ran.input_bytes)))
    return with_program_facts(header, exit_code=ran.code, stdin=True)


def _finished(run: TraceRun, ran: ProgramExit, watcher: LiveRun | None) -> TraceRun:
    run = finished_run(run, ran.code, ran.printed, at=time.time(), interrupted=ran.interrupted)
    if watcher is None:
        return run
    return TraceRun.of(watcher.marked(run.header), run.events)


def _wait_for_late_processes(store: SQLiteStore, run_id: str) -> None:
    """Wait for processes that end with their program; those that continue are cut off here."""
    give_up = time.monotonic() + _LATE_S
    while time.monotonic() < give_up and any(map(_is_running, store.headers(below=process_logs_prefix(run_id)))):
        time.sleep(_LOOK_S)


def _is_running(log: RunHeader) -> bool:
    pid = log.metadata.get("pid")
    if log.status is not RunStatus.RUNNING or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
