"""Run a candidate's processes in the launch environment of a case, and read the run that they leave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from replaykit.candidates.attempt import reported_on, served_from
from replaykit.candidates.worlds import source_run, world_of
from replaykit.cases.case import ReplayCase
from replaykit.config import default_store_path
from replaykit.documents.document import confined_path
from replaykit.errors import UsageError
from replaykit.model.result import Deviation, Evidence
from replaykit.model.run import Origin, RunHeader, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.private_files import remove_tree
from replaykit.programs.command import MAX_OUTPUT, finished_run
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import LaunchEnvironment, launch_environment
from replaykit.programs.mcp.config import FACT, McpConfigs
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
            self._launch_options = with_servers(self._launch_options, case)
        header = RunHeader(
            id=f"replay-{case.id}",
            name=case.id,
            input_json=case.scenario.input_json,
            started_at=time.time(),
            origin=Origin(kind="replayed", run=case.source.run),
        )
        self.run = TraceRun.of(header, ())
        """The run of all processes, without how it ended."""
        self.deviations: tuple[Deviation, ...] = ()
        self.evidence = Evidence()
        """How much of the tape the processes used."""

    @contextmanager
    def stage(self) -> Iterator[LaunchEnvironment]:
        """Yield the environment to start the program in. When the block ends, read what its processes recorded."""
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
        """Return what was served, or, if nothing was, what the program reports."""
        if self.evidence.used:
            return self.evidence
        return reported_on(self._world, reported)

    def ended(self, code: int, log: Path) -> TraceRun:
        """Return the run of a program that ended by itself, with its printed output."""
        return finished_run(self.run, code, _end_of(log), at=time.time())

    def like(self, other: TraceRun) -> TraceRun:
        """Return the run, ended like another one."""
        return replace(self.run, status=other.status, error=other.error, ended_at=time.time())


def _end_of(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - MAX_OUTPUT))
            return file.read()
    except OSError:
        return b""


def with_servers(launch_options: LaunchOptions, case: ReplayCase) -> LaunchOptions:
    """Return the launch options with the MCP configuration files that the recording names."""
    facts = _facts(case)
    if not facts:
        return launch_options
    if facts.get("in_place"):  # a program that reads the real file would start the real servers
        raise UsageError(
            f"{case.id}: the recorded program read its MCP servers from a file that was swapped in its place",
            hint="Repeat the option: --mcp-config FILE --mcp-config-in-place",
        )
    named = facts.get("configs")
    files = tuple(_below(named))
    gone = [str(file) for file in files if not file.is_file()]
    outside = facts.get("elsewhere") or not isinstance(named, list) or len(files) < len(named)
    if gone or outside or not files:
        # A program that finds such a file elsewhere would start the real servers.
        what = ", ".join(gone) or "a file outside of the directory it ran in"
        raise UsageError(
            f"{case.id}: the recorded program read its MCP servers from {what}, which is not found from here",
            hint="Name each of its files: --mcp-config FILE",
        )
    return replace(launch_options, extension=McpConfigs(files=files))


def _facts(case: ReplayCase) -> JsonObject:
    run = source_run(case)
    program = None if run is None else run.metadata.get("program")
    facts = program.get(FACT) if isinstance(program, dict) else None
    return facts if isinstance(facts, dict) else {}


def _below(named: Json) -> list[Path]:
    """Return the files below the working directory. A case is data and must not lead elsewhere."""
    found = []
    for text in named if isinstance(named, list) else ():
        try:
            found.append(confined_path(Path(), str(text)))
        except ValueError:
            continue
    return found
