"""A candidate's processes on the stage of a case, and the run that they leave there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from replaykit.candidates.tape_use import reported_on, served_from
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.config import default_store_path
from replaykit.model.result import Deviation, Evidence
from replaykit.model.run import Origin, RunHeader, TraceRun
from replaykit.private_directories import remove_tree
from replaykit.programs.command import MAX_OUTPUT, finished_run
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import LaunchEnvironment, launch_environment
from replaykit.programs.merge import all_deviations, load_process_logs, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import is_mcp_event
from replaykit.store.sqlite import SQLiteStore


class Performance:
    """One run of a program in a case's frozen world."""

    def __init__(self, case: ReplayCase, place: Path, launch_options: LaunchOptions | None = None) -> None:
        self._world = world_of(case)
        self._place = place.absolute()
        self._launch_options = launch_options or LaunchOptions()
        if self._launch_options.extension is None and any(map(is_mcp_event, self._world.calls)):
            from replaykit.candidates.servers import with_servers  # noqa: PLC0415 (few programs have any)

            self._launch_options = with_servers(self._launch_options, case)
        header = RunHeader(
            id=f"replay-{case.id}",
            name=case.id,
            input_json=case.scenario.input_json,
            started_at=time.time(),
            origin=Origin(kind="replayed", run=case.source.run),
        )
        self.run = TraceRun.of(header, ())
        """What its processes did; how it ended is not in it."""
        self.deviations: tuple[Deviation, ...] = ()
        self.evidence = Evidence()
        """What its processes used of the tape."""

    @contextmanager
    def stage(self) -> Iterator[LaunchEnvironment]:
        """The stage that the program is started on; what its processes left is read when the block ends."""
        self._place.mkdir()
        store = self._place / "parts.db"
        plan = ProgramPlan(
            mode=Mode.REPLAY,
            run_id=self.run.id,
            store=str(store),
            redact_as=str(default_store_path().absolute()),
            pins=self._world.pins,
            working_directory=os.getcwd(),
            speed=self._launch_options.speed,
        )
        try:
            with launch_environment(plan, self._world, self._place, self._launch_options) as stage:
                yield stage
            self._read(store)
        finally:
            remove_tree(self._place)  # the case holds the world, and the evidence will hold the run

    def _read(self, file: Path) -> None:
        with SQLiteStore.open(file) as store:
            parts = load_process_logs(store, self.run.id)
        self.run = merge_runs(self.run.header, parts)
        self.deviations = tuple(all_deviations(parts, self.run, self._world))
        self.evidence = served_from(self._world, self.run, self.deviations)

    def evidence_in(self, reported: TraceRun | None) -> Evidence:
        """What was served; where that is nothing, what the program says it used."""
        if self.evidence.used:
            return self.evidence
        return reported_on(self._world, reported)

    def ended(self, code: int, log: Path) -> TraceRun:
        """The run of a program that ended by itself, with what it printed."""
        return finished_run(self.run, code, _end_of(log), at=time.time())

    def like(self, other: TraceRun) -> TraceRun:
        """The run, ended as this other one."""
        return msgspec.structs.replace(self.run, status=other.status, error=other.error, ended_at=time.time())


def _end_of(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - MAX_OUTPUT))
            return file.read()
    except OSError:
        return b""
