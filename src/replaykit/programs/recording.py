"""`replaykit record -- CMD`: a whole program as one run, with nothing changed in it."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import ReplayKitError, StoreFull, is_full
from replaykit.model.pins import Pins
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json, raw
from replaykit.programs.command import clean_command, name_of_command
from replaykit.programs.ending import ended, shell_code, with_facts
from replaykit.programs.merge import put_together
from replaykit.programs.outgoing import ConnectionSampler, unaccounted
from replaykit.programs.part import parts_below
from replaykit.programs.pinning import pins_of_today
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.recovery import RECORDER, being_recorded
from replaykit.programs.running import Ran, run_through
from replaykit.programs.staging import staged
from replaykit.programs.wanted import Staging
from replaykit.recording.auto import prune_sometimes
from replaykit.recording.keeping import is_kept, share_of
from replaykit.recording.run import new_run_id
from replaykit.seam.http.request import text_or_bytes
from replaykit.store.sqlite import SQLiteStore
from replaykit.telemetry.switch import Watched, watched

_LATE_S = 1.0  # for processes that end right after their program
_LOOK_S = 0.01


class Recorded(Struct, frozen=True, kw_only=True):
    """A program's run, and what it exited with, as shells tell it."""

    run: TraceRun
    exit_code: int
    kept: bool = True
    """False when the program succeeded, and its run was not among those that are kept."""
    lost_input: bool = False
    """True when the program was given something on its standard input that is not in the run."""
    unrecorded: str = ""
    """Why there is no run, though the program ran: there was no room for one."""
    failure: ReplayKitError | None = None
    """What went wrong with the recording itself; the run lacks something then."""


def record_program(
    command: Sequence[str],
    store: SQLiteStore,
    *,
    name: str = "",
    given: Json = None,
    keep_input: bool = False,
    staging: Staging | None = None,
    pin: bool = True,
    pin_env: Sequence[str] = (),
    sample: float | None = None,
    out: int = 1,
) -> Recorded:
    """Run the command, and keep what it did as one run; what it prints goes to the file descriptor `out`.

    With `keep_input`, what comes on standard input is the run's input. `pin` holds chance, and writes down what a
    replay has to hold; `pin_env` names further variables whose values are written down for that. `sample` is the share
    of successful runs that stay in the store.
    """
    sampler = ConnectionSampler()
    performing = _Performing(partial(run_through, out=out, keep_input=keep_input), sampler)
    try:
        return _recorded(
            command,
            store,
            performing,
            sampler,
            name=name,
            given=given,
            staging=staging or Staging(),
            pin=pin,
            pin_env=pin_env,
            share=share_of(sample),
        )
    except (StoreFull, OSError) as error:
        if isinstance(error, OSError) and not is_full(error):
            raise
        ran = performing.result(command)
        run = TraceRun.of(RunHeader(id="", name=name or name_of_command(command)), ())
        why = error.message if isinstance(error, StoreFull) else str(error.strerror)
        return Recorded(run=run, exit_code=shell_code(ran.code), kept=False, unrecorded=why)


class _Performing:
    """Runs a program once."""

    def __init__(self, run: Callable[..., Ran], sampler: ConnectionSampler) -> None:
        self._run = run
        self._sampler = sampler
        self._has_begun = False
        self._ran: Ran | None = None

    def __call__(self, command: Sequence[str], environment: Mapping[str, str]) -> Ran:
        self._has_begun = True
        try:
            self._ran = self._run(command, environment, on_start=lambda pid: self._sampler.begin(pid, environment))
        finally:
            self._sampler.end()
        return self._ran

    def result(self, command: Sequence[str]) -> Ran:
        """How the program ended; it is run now if it could not begin. One that was cut off is not run again."""
        if self._ran is None and not self._has_begun:
            return self(command, os.environ)
        if self._ran is None:
            raise ReplayKitError("the program was cut off: there was no room to go on")
        return self._ran


def _recorded(
    command: Sequence[str],
    store: SQLiteStore,
    perform: Callable[[Sequence[str], Mapping[str, str]], Ran],
    sampler: ConnectionSampler,
    *,
    name: str,
    given: Json,
    staging: Staging,
    pin: bool,
    pin_env: Sequence[str],
    share: float,
) -> Recorded:
    pins = pins_of_today(os.environ, pin_env) if pin else Pins(started_at=time.time())
    header = RunHeader(
        id=new_run_id(), name=name or name_of_command(command), input_json=raw(given), started_at=pins.started_at
    )
    header = with_facts(
        header,
        command=clean_command(command),
        python=platform.python_version(),
        started_at=pins.started_at,
        seed=pins.seed,
        environment=pins.environment or None,
        **staging.facts,
    )
    plan = Plan(
        mode=Mode.RECORD,
        run_id=header.id,
        store=str(store.path.absolute()),
        durability=store.durability.value,
        pins=pins,
    )
    with (
        _session_directory() as directory,
        being_recorded(Path(directory), staging.swapped) as recorder,
    ):
        writer = store.begin(with_facts(header, **{RECORDER: recorder}))
        told = watched(writer.run_id)
        ran, failure = _performed(command, store, plan, Path(directory), staging, perform)
        _wait_for_the_late(store, header.id)
        run = put_together(store, _asked(header, ran), lambda run: _told(run, ran, told), partial(unaccounted, sampler))
    if told is not None:
        told.whole(store.cleaned(run))
    kept = failure is not None or is_kept(run, share)
    if not kept:
        store.delete([run.id])
    prune_sometimes(store.path)
    return Recorded(run=run, exit_code=shell_code(ran.code), kept=kept, lost_input=ran.lost_input, failure=failure)


def _session_directory() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True)
    except FileNotFoundError:  # so Python says that nothing can be written to any of them
        raise StoreFull("no temporary directory can be written to") from None


def _performed(
    command: Sequence[str],
    store: SQLiteStore,
    plan: Plan,
    directory: Path,
    staging: Staging,
    perform: Callable[[Sequence[str], Mapping[str, str]], Ran],
) -> tuple[Ran, ReplayKitError | None]:
    ran: Ran | None = None
    try:
        with staged(plan, None, directory, staging) as stage:
            ran = perform(stage.command(command), stage.environment)
    except ReplayKitError as failure:
        if ran is None:  # it has not begun: nothing is left of it
            parts = [header.id for header in store.headers(below=parts_below(plan.run_id))]
            store.delete([plan.run_id, *parts])
            raise
        return ran, failure
    return ran, None


def _asked(header: RunHeader, ran: Ran) -> RunHeader:
    """The header with how the program ended, and with what it was given where that was kept."""
    if ran.given is None:
        return with_facts(header, exit_code=ran.code)
    header = msgspec.structs.replace(header, input_json=raw(text_or_bytes(ran.given)))
    return with_facts(header, exit_code=ran.code, stdin=True)


def _told(run: TraceRun, ran: Ran, told: Watched | None) -> TraceRun:
    run = ended(run, ran.code, ran.printed, at=time.time(), interrupted=ran.interrupted)
    return run if told is None else TraceRun.of(told.marked(run.header), run.events)


def _wait_for_the_late(store: SQLiteStore, run_id: str) -> None:
    """Give processes that end with their program the time to end; those that go on are cut off here."""
    give_up = time.monotonic() + _LATE_S
    while time.monotonic() < give_up and any(map(_is_running, store.headers(below=parts_below(run_id)))):
        time.sleep(_LOOK_S)


def _is_running(part: RunHeader) -> bool:
    pid = part.metadata.get("pid")
    if part.status is not RunStatus.RUNNING or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
