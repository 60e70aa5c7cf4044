"""The MCP servers of a recorded program, found again when it is replayed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.confine import inside
from replaykit.errors import UsageError
from replaykit.importers.files import import_trace
from replaykit.mcp.staging import FACT, McpConfigs
from replaykit.model.values import Json
from replaykit.programs.swapping import to_stderr
from replaykit.programs.wanted import Staging


def with_servers(staging: Staging, case: ReplayCase) -> Staging:
    """The staging with the configuration files that the recording names."""
    facts = _facts(case)
    if not facts:
        return staging
    if facts.get("in_place"):  # a program that reads the real file would start the real servers
        raise UsageError(
            f"{case.id}: the recorded program read its MCP servers from a file that was swapped in its place",
            hint="Say it again: --mcp-config FILE --mcp-config-in-place",
        )
    files = tuple(file for file in _below(facts.get("configs")) if file.is_file())
    if not files:
        to_stderr(f"{case.id}: the file that its MCP servers were found in is not here; name it: --mcp-config FILE")
        return staging
    return msgspec.structs.replace(staging, props=McpConfigs(files=files))


def _facts(case: ReplayCase) -> dict[str, Json]:
    if case.trace_path is None:
        return {}
    runs = import_trace(case.trace_path, case.source.format).runs
    run = next((run for run in runs if case.source.run in (None, run.id)), None)
    program = run.metadata.get("program") if run is not None else None
    facts = program.get(FACT) if isinstance(program, dict) else None
    return facts if isinstance(facts, dict) else {}


def _below(named: Json) -> list[Path]:
    """Files below the working directory: a case is data, and may not lead anywhere else."""
    found = []
    for text in named if isinstance(named, list) else ():
        try:
            found.append(inside(Path(), str(text)))
        except ValueError:
            continue
    return found
