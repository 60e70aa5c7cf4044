"""ReplayKit: turn failed agent runs into replayable regression cases.

    import replaykit as rk

    @rk.tool
    def search_docs(query: str) -> dict: ...

    with rk.record("billing", input=question) as run:
        run.output = agent(question)

The names below are imported on first use, so that `import replaykit` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers read it as True; `typing` alone would double the cost of this import
if TYPE_CHECKING:
    from replaykit import integrations as integrations
    from replaykit import middleware as middleware
    from replaykit import telemetry as telemetry
    from replaykit.candidates.case_check import scaffold as scaffold
    from replaykit.candidates.golden import GoldenResult as GoldenResult
    from replaykit.candidates.golden import check_golden as check_golden
    from replaykit.candidates.pool import Pool as Pool
    from replaykit.candidates.replay import replay as replay
    from replaykit.candidates.retaping import Retaping as Retaping
    from replaykit.candidates.retaping import retape as retape
    from replaykit.cases.case import ReplayCase as ReplayCase
    from replaykit.cases.case import load_case as load_case
    from replaykit.cases.signatures import FailureSignature as FailureSignature
    from replaykit.cases.signatures import detect as detect
    from replaykit.checks.custom import register_check as register_check
    from replaykit.errors import CorruptStore as CorruptStore
    from replaykit.errors import Divergence as Divergence
    from replaykit.errors import RecordingWarning as RecordingWarning
    from replaykit.errors import ReplayKitError as ReplayKitError
    from replaykit.errors import UsageError as UsageError
    from replaykit.handlers.recording.run import Run as Run
    from replaykit.handlers.recording.run import record as record
    from replaykit.handlers.replay.handler import replaying as replaying
    from replaykit.handlers.replay.tape import Tape as Tape
    from replaykit.handlers.replay.tool_replayer import ToolReplayer as ToolReplayer
    from replaykit.model.faults import ChaosPlan as ChaosPlan
    from replaykit.model.matching import MatchRules as MatchRules
    from replaykit.model.result import ReplayResult as ReplayResult
    from replaykit.model.result import Verdict as Verdict
    from replaykit.model.run import TraceRun as TraceRun
    from replaykit.project.chaos_config import chaos_plan as chaos_plan
    from replaykit.project.project import Project as Project
    from replaykit.project.project import load_project as load_project
    from replaykit.seam.failures import ToolError as ToolError
    from replaykit.seam.framework_tools import acall_tool as acall_tool
    from replaykit.seam.framework_tools import call_tool as call_tool
    from replaykit.seam.time_and_chance import now as now
    from replaykit.seam.time_and_chance import random as random
    from replaykit.seam.time_and_chance import uuid4 as uuid4
    from replaykit.seam.tool import idempotency_key as idempotency_key
    from replaykit.seam.tool import record_tool as record_tool
    from replaykit.seam.tool import tool as tool
    from replaykit.store.sqlite import SQLiteStore
    from replaykit.travel.checkpoints import Checkpoint as Checkpoint
    from replaykit.travel.checkpoints import CheckpointStore as CheckpointStore
    from replaykit.travel.checkpoints import StepEvent as StepEvent
    from replaykit.travel.checkpoints import step_events as step_events
    from replaykit.travel.compare import compare as compare
    from replaykit.travel.compare import compare_runs as compare_runs
    from replaykit.travel.compare_result import Comparison as Comparison
    from replaykit.travel.edits import Edits as Edits
    from replaykit.travel.fork import ForkResult as ForkResult
    from replaykit.travel.fork import fork as fork
    from replaykit.travel.fork import fork_run as fork_run
    from replaykit.travel.fork import resume as resume
    from replaykit.travel.fork import resume_from_checkpoint as resume_from_checkpoint
    from replaykit.travel.state_lookup import state_at as state_at

    Store = SQLiteStore

_HOMES = {  # name → module, or module:name where it has another name at home; a module is its own home
    "ChaosPlan": "model.faults",
    "Checkpoint": "travel.checkpoints",
    "CheckpointStore": "travel.checkpoints",
    "Comparison": "travel.compare_result",
    "CorruptStore": "errors",
    "Divergence": "errors",
    "Edits": "travel.edits",
    "FailureSignature": "cases.signatures",
    "ForkResult": "travel.fork",
    "GoldenResult": "candidates.golden",
    "MatchRules": "model.matching",
    "Pool": "candidates.pool",
    "Project": "project.project",
    "RecordingWarning": "errors",
    "ReplayCase": "cases.case",
    "ReplayKitError": "errors",
    "ReplayResult": "model.result",
    "Retaping": "candidates.retaping",
    "Run": "handlers.recording.run",
    "StepEvent": "travel.checkpoints",
    "Store": "store.sqlite:SQLiteStore",
    "Tape": "handlers.replay.tape",
    "ToolError": "seam.failures",
    "ToolReplayer": "handlers.replay.tool_replayer",
    "TraceRun": "model.run",
    "UsageError": "errors",
    "Verdict": "model.result",
    "acall_tool": "seam.framework_tools",
    "call_tool": "seam.framework_tools",
    "chaos_plan": "project.chaos_config",
    "check_golden": "candidates.golden",
    "compare": "travel.compare",
    "compare_runs": "travel.compare",
    "detect": "cases.signatures",
    "fork": "travel.fork",
    "fork_run": "travel.fork",
    "idempotency_key": "seam.tool",
    "integrations": "integrations",
    "load_case": "cases.case",
    "load_project": "project.project",
    "middleware": "middleware",
    "now": "seam.time_and_chance",
    "random": "seam.time_and_chance",
    "record": "handlers.recording.run",
    "record_tool": "seam.tool",
    "register_check": "checks.custom",
    "replay": "candidates.replay",
    "replaying": "handlers.replay.handler",
    "resume": "travel.fork",
    "resume_from_checkpoint": "travel.fork",
    "retape": "candidates.retaping",
    "scaffold": "candidates.case_check",
    "state_at": "travel.state_lookup",
    "step_events": "travel.checkpoints",
    "telemetry": "telemetry",
    "tool": "seam.tool",
    "uuid4": "seam.time_and_chance",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'replaykit' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only names of the table above are ever imported)

    module, _, attribute = home.partition(":")
    found = import_module(f"replaykit.{module}")
    value = found if module == name else getattr(found, attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _join_run() -> None:
    """Take part in the run that has started this process, if one has."""
    import os  # noqa: PLC0415 (there already)

    if os.environ.get("REPLAYKIT_SESSION") or os.environ.get("REPLAYKIT_RECORDED_TREE"):
        from replaykit.seam.processes import join  # noqa: PLC0415 (brings in the seam)

        join()


_join_run()
