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
    from replaykit.candidates.attempt import Candidate as Candidate
    from replaykit.candidates.case_check import scaffold as scaffold
    from replaykit.candidates.golden import GoldenResult as GoldenResult
    from replaykit.candidates.golden import check_golden as check_golden
    from replaykit.candidates.pool import Pool as Pool
    from replaykit.candidates.replay import replay as replay
    from replaykit.candidates.retaping import NewCall as NewCall
    from replaykit.candidates.retaping import RetapeQuestion as RetapeQuestion
    from replaykit.candidates.retaping import Retaping as Retaping
    from replaykit.candidates.retaping import retape as retape
    from replaykit.cases.case import CaseSource as CaseSource
    from replaykit.cases.case import ReplayCase as ReplayCase
    from replaykit.cases.case import Scenario as Scenario
    from replaykit.cases.case import load_case as load_case
    from replaykit.cases.case_shape import ModelMode as ModelMode
    from replaykit.cases.config_files import ConfigFiles as ConfigFiles
    from replaykit.cases.golden import Aspect as Aspect
    from replaykit.cases.golden import Golden as Golden
    from replaykit.cases.session import Session as Session
    from replaykit.cases.signatures import FailureSignature as FailureSignature
    from replaykit.cases.signatures import detect as detect
    from replaykit.cases.takes import NewAnswer as NewAnswer
    from replaykit.cases.takes import Take as Take
    from replaykit.cases.written_answers import WrittenAnswer as WrittenAnswer
    from replaykit.checks.assertions import Assertion as Assertion
    from replaykit.checks.custom import register_check as register_check
    from replaykit.checks.rule import Seen as Seen
    from replaykit.contracts.contract import Contract as Contract
    from replaykit.documents.document import Document as Document
    from replaykit.errors import CorruptStore as CorruptStore
    from replaykit.errors import Divergence as Divergence
    from replaykit.errors import FormatTooNew as FormatTooNew
    from replaykit.errors import InvalidFile as InvalidFile
    from replaykit.errors import NothingSelected as NothingSelected
    from replaykit.errors import RecordingWarning as RecordingWarning
    from replaykit.errors import ReplayKitError as ReplayKitError
    from replaykit.errors import RunNotFound as RunNotFound
    from replaykit.errors import StoreError as StoreError
    from replaykit.errors import UsageError as UsageError
    from replaykit.handlers.recording.run import Run as Run
    from replaykit.handlers.recording.run import Step as Step
    from replaykit.handlers.recording.run import record as record
    from replaykit.handlers.replay.handler import Replayer as Replayer
    from replaykit.handlers.replay.handler import replaying as replaying
    from replaykit.handlers.replay.tape import Tape as Tape
    from replaykit.handlers.replay.tool_replayer import ToolReplayer as ToolReplayer
    from replaykit.judges.shape import JudgeSpec as JudgeSpec
    from replaykit.model.diff import Difference as Difference
    from replaykit.model.events import Call as Call
    from replaykit.model.events import CallSpan as CallSpan
    from replaykit.model.events import Change as Change
    from replaykit.model.events import Decision as Decision
    from replaykit.model.events import ErrorEvent as ErrorEvent
    from replaykit.model.events import ErrorInfo as ErrorInfo
    from replaykit.model.events import Exchange as Exchange
    from replaykit.model.events import LlmCall as LlmCall
    from replaykit.model.events import Message as Message
    from replaykit.model.events import Note as Note
    from replaykit.model.events import State as State
    from replaykit.model.events import ToolCall as ToolCall
    from replaykit.model.events import Usage as Usage
    from replaykit.model.events import WireInfo as WireInfo
    from replaykit.model.faults import Attack as Attack
    from replaykit.model.faults import ChaosPlan as ChaosPlan
    from replaykit.model.faults import ContextAttack as ContextAttack
    from replaykit.model.faults import Direction as Direction
    from replaykit.model.faults import Drift as Drift
    from replaykit.model.faults import Grade as Grade
    from replaykit.model.faults import ModelFault as ModelFault
    from replaykit.model.faults import ModelTrouble as ModelTrouble
    from replaykit.model.faults import Strategy as Strategy
    from replaykit.model.faults import ToolFault as ToolFault
    from replaykit.model.faults import ToolTrouble as ToolTrouble
    from replaykit.model.isolation import Consent as Consent
    from replaykit.model.isolation import Isolation as Isolation
    from replaykit.model.isolation import IsolationLevel as IsolationLevel
    from replaykit.model.isolation import StoppedAccess as StoppedAccess
    from replaykit.model.isolation import WrittenFile as WrittenFile
    from replaykit.model.matching import ErrorSpec as ErrorSpec
    from replaykit.model.matching import MatchMode as MatchMode
    from replaykit.model.matching import MatchRules as MatchRules
    from replaykit.model.matching import ModelMatch as ModelMatch
    from replaykit.model.matching import OnMiss as OnMiss
    from replaykit.model.matching import ToolMode as ToolMode
    from replaykit.model.result import Deviation as Deviation
    from replaykit.model.result import Evidence as Evidence
    from replaykit.model.result import EvidenceSource as EvidenceSource
    from replaykit.model.result import Finding as Finding
    from replaykit.model.result import ReplayResult as ReplayResult
    from replaykit.model.result import SemanticCheck as SemanticCheck
    from replaykit.model.result import Verdict as Verdict
    from replaykit.model.run import Chance as Chance
    from replaykit.model.run import Origin as Origin
    from replaykit.model.run import RunHeader as RunHeader
    from replaykit.model.run import RunStatus as RunStatus
    from replaykit.model.run import TraceRun as TraceRun
    from replaykit.model.sampling import Sampling as Sampling
    from replaykit.project.agent import AgentConfig as AgentConfig
    from replaykit.project.chaos_config import chaos_plan as chaos_plan
    from replaykit.project.project import Mutations as Mutations
    from replaykit.project.project import Project as Project
    from replaykit.project.project import Scoring as Scoring
    from replaykit.project.project import load_project as load_project
    from replaykit.project.sources import SessionSource as SessionSource
    from replaykit.retention.policy import RetentionPolicy as RetentionPolicy
    from replaykit.seam.failures import ToolError as ToolError
    from replaykit.seam.framework_tools import acall_tool as acall_tool
    from replaykit.seam.framework_tools import call_tool as call_tool
    from replaykit.seam.time_and_chance import now as now
    from replaykit.seam.time_and_chance import random as random
    from replaykit.seam.time_and_chance import uuid4 as uuid4
    from replaykit.seam.tool import idempotency_key as idempotency_key
    from replaykit.seam.tool import record_tool as record_tool
    from replaykit.seam.tool import tool as tool
    from replaykit.store.protocol import Damage as Damage
    from replaykit.store.protocol import Durability as Durability
    from replaykit.store.protocol import Store as AnyStore
    from replaykit.store.sqlite import SQLiteStore
    from replaykit.travel.checkpoints import Checkpoint as Checkpoint
    from replaykit.travel.checkpoints import CheckpointInfo as CheckpointInfo
    from replaykit.travel.checkpoints import CheckpointStore as CheckpointStore
    from replaykit.travel.checkpoints import StepEvent as StepEvent
    from replaykit.travel.checkpoints import step_events as step_events
    from replaykit.travel.compare import compare as compare
    from replaykit.travel.compare import compare_runs as compare_runs
    from replaykit.travel.compare_result import Comparison as Comparison
    from replaykit.travel.compare_result import DivergenceKind as DivergenceKind
    from replaykit.travel.compare_result import EntryKind as EntryKind
    from replaykit.travel.compare_result import EventEntry as EventEntry
    from replaykit.travel.compare_result import FirstDivergence as FirstDivergence
    from replaykit.travel.compare_result import OutcomeComparison as OutcomeComparison
    from replaykit.travel.compare_result import RunEnding as RunEnding
    from replaykit.travel.compare_result import StateEntry as StateEntry
    from replaykit.travel.compare_result import ToolComparison as ToolComparison
    from replaykit.travel.compare_result import ToolCount as ToolCount
    from replaykit.travel.compare_result import ToolStretch as ToolStretch
    from replaykit.travel.compare_result import UsageComparison as UsageComparison
    from replaykit.travel.compare_result import UsageTotals as UsageTotals
    from replaykit.travel.edits import Edits as Edits
    from replaykit.travel.fork import ForkResult as ForkResult
    from replaykit.travel.fork import fork as fork
    from replaykit.travel.fork import fork_run as fork_run
    from replaykit.travel.fork import resume as resume
    from replaykit.travel.fork import resume_from_checkpoint as resume_from_checkpoint
    from replaykit.travel.state_lookup import state_at as state_at

    Store = SQLiteStore
    StoreProtocol = AnyStore

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

_TYPES = {  # the types of arguments, results and their parts, which few programs name
    "AgentConfig": "project.agent",
    "Aspect": "cases.golden",
    "Assertion": "checks.assertions",
    "Attack": "model.faults",
    "Call": "model.events",
    "CallSpan": "model.events",
    "Candidate": "candidates.attempt",
    "CaseSource": "cases.case",
    "Chance": "model.run",
    "Change": "model.events",
    "CheckpointInfo": "travel.checkpoints",
    "ConfigFiles": "cases.config_files",
    "Consent": "model.isolation",
    "ContextAttack": "model.faults",
    "Contract": "contracts.contract",
    "Damage": "store.protocol",
    "Decision": "model.events",
    "Deviation": "model.result",
    "Difference": "model.diff",
    "Direction": "model.faults",
    "DivergenceKind": "travel.compare_result",
    "Document": "documents.document",
    "Drift": "model.faults",
    "Durability": "store.protocol",
    "EntryKind": "travel.compare_result",
    "ErrorEvent": "model.events",
    "ErrorInfo": "model.events",
    "ErrorSpec": "model.matching",
    "EventEntry": "travel.compare_result",
    "Evidence": "model.result",
    "EvidenceSource": "model.result",
    "Exchange": "model.events",
    "Finding": "model.result",
    "FirstDivergence": "travel.compare_result",
    "FormatTooNew": "errors",
    "Golden": "cases.golden",
    "Grade": "model.faults",
    "InvalidFile": "errors",
    "Isolation": "model.isolation",
    "IsolationLevel": "model.isolation",
    "JudgeSpec": "judges.shape",
    "LlmCall": "model.events",
    "MatchMode": "model.matching",
    "Message": "model.events",
    "ModelFault": "model.faults",
    "ModelMatch": "model.matching",
    "ModelMode": "cases.case_shape",
    "ModelTrouble": "model.faults",
    "Mutations": "project.project",
    "NewAnswer": "cases.takes",
    "NewCall": "candidates.retaping",
    "Note": "model.events",
    "NothingSelected": "errors",
    "OnMiss": "model.matching",
    "Origin": "model.run",
    "OutcomeComparison": "travel.compare_result",
    "Replayer": "handlers.replay.handler",
    "RetapeQuestion": "candidates.retaping",
    "RetentionPolicy": "retention.policy",
    "RunEnding": "travel.compare_result",
    "RunHeader": "model.run",
    "RunNotFound": "errors",
    "RunStatus": "model.run",
    "Sampling": "model.sampling",
    "Scenario": "cases.case",
    "Scoring": "project.project",
    "Seen": "checks.rule",
    "SemanticCheck": "model.result",
    "Session": "cases.session",
    "SessionSource": "project.sources",
    "State": "model.events",
    "StateEntry": "travel.compare_result",
    "Step": "handlers.recording.run",
    "StoppedAccess": "model.isolation",
    "StoreError": "errors",
    "StoreProtocol": "store.protocol:Store",
    "Strategy": "model.faults",
    "Take": "cases.takes",
    "ToolCall": "model.events",
    "ToolComparison": "travel.compare_result",
    "ToolCount": "travel.compare_result",
    "ToolFault": "model.faults",
    "ToolMode": "model.matching",
    "ToolStretch": "travel.compare_result",
    "ToolTrouble": "model.faults",
    "Usage": "model.events",
    "UsageComparison": "travel.compare_result",
    "UsageTotals": "travel.compare_result",
    "WireInfo": "model.events",
    "WrittenAnswer": "cases.written_answers",
    "WrittenFile": "model.isolation",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name) or _TYPES.get(name)
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
