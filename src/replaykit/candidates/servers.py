"""The MCP servers of a recorded program, found again when it is replayed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.documents.document import confined_path
from replaykit.errors import UsageError
from replaykit.formats.files import import_trace
from replaykit.model.values import Json
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.mcp.program_configs import FACT, McpConfigs


def with_servers(launch_options: LaunchOptions, case: ReplayCase) -> LaunchOptions:
    """The staging with the configuration files that the recording names."""
    facts = _facts(case)
    if not facts:
        return launch_options
    if facts.get("in_place"):  # a program that reads the real file would start the real servers
        raise UsageError(
            f"{case.id}: the recorded program read its MCP servers from a file that was swapped in its place",
            hint="Say it again: --mcp-config FILE --mcp-config-in-place",
        )
    named = facts.get("configs")
    files = tuple(_below(named))
    gone = [str(file) for file in files if not file.is_file()]
    outside = facts.get("elsewhere") or not isinstance(named, list) or len(files) < len(named)
    if gone or outside or not files:
        # Wherever the program finds such a file, it would start the real servers.
        what = ", ".join(gone) or "a file outside of the directory it ran in"
        raise UsageError(
            f"{case.id}: the recorded program read its MCP servers from {what}, which is not found from here",
            hint="Name each of its files: --mcp-config FILE",
        )
    return msgspec.structs.replace(launch_options, extension=McpConfigs(files=files))


def _facts(case: ReplayCase) -> dict[str, Json]:
    if case.trace_path is None:
        return {}
    runs = import_trace(case.trace_path, case.source.format).runs
    run = next((run for run in runs if case.source.run in (None, run.id)), None)
    program = run.metadata.get("program") if run is not None else None
    facts = program.get(FACT) if isinstance(program, dict) else None
    if isinstance(facts, dict):
        return facts
    return {}


def _below(named: Json) -> list[Path]:
    """Files below the working directory: a case is data, and may not lead anywhere else."""
    found = []
    for text in named if isinstance(named, list) else ():
        try:
            found.append(confined_path(Path(), str(text)))
        except ValueError:
            continue
    return found
