"""TraceRun: a normalized record of what happened in one execution of an agent."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from replaykit.model.events import AnyEvent, Call, ErrorInfo, LlmCall, ToolCall
from replaykit.model.sampling import EVERY_STATE, Sampling
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode

RUN_FORMAT = 1
"""Version of the run log; readers accept every older one."""


class RunStatus(StrEnum):
    """How a run ended, or that it has not."""

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run came from: recorded, imported (`format`), forked or replayed (`run`, `step`)."""

    kind: str = "recorded"
    format: str | None = None
    run: str | None = None
    step: str | None = None


class Chance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `rk.record` knows of the chance in a run."""

    seed: str = ""
    """What `random`, `uuid4`, `uuid1` and NumPy drew from; nothing where nobody drew, or nobody held them."""
    hash_seed: str = ""
    """PYTHONHASHSEED, on which the order of sets depends; nothing where it was not set."""
    not_held: tuple[str, ...] = ()
    """What was drawn and is not known: a replay draws other values."""


NO_CHANCE = Chance()


class RunHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about a run but its events."""

    id: str
    name: str = ""
    agent: str = ""
    agent_version: str = ""
    input_json: Raw = field(default=NULL, name="input")
    output_json: Raw = field(default=ABSENT, name="output")
    status: RunStatus = RunStatus.RUNNING
    error: ErrorInfo | None = None
    started_at: float = 0.0
    ended_at: float | None = None
    tags: tuple[str, ...] = ()
    metadata_json: Raw = field(default=Raw(b"{}"), name="metadata")
    origin: Origin = Origin()
    sampling: Sampling = EVERY_STATE
    """Which states of the agent it keeps."""
    chance: Chance = NO_CHANCE
    event_count: int | None = None
    """How many events the run had when it ended; None while it runs."""

    @property
    def input(self) -> Json:
        return decode(self.input_json)

    @property
    def output(self) -> Json:
        return decode(self.output_json) if self.output_json else None

    @property
    def metadata(self) -> Json:
        return decode(self.metadata_json)

    @property
    def duration_s(self) -> float | None:
        """How long it took; never less than nothing, though a clock may have been set back meanwhile."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.started_at)


class TraceRun(RunHeader, frozen=True, kw_only=True, omit_defaults=True):
    """One execution of an agent: its header and its ordered events."""

    events: tuple[AnyEvent, ...] = ()

    @classmethod
    def of(cls, header: RunHeader, events: tuple[AnyEvent, ...]) -> "TraceRun":
        """The run with this header and these events."""
        return cls(**{name: getattr(header, name) for name in header.__struct_fields__}, events=events)

    @property
    def header(self) -> RunHeader:
        return RunHeader(**{name: getattr(self, name) for name in RunHeader.__struct_fields__})

    @property
    def calls(self) -> Iterator[Call]:
        """Every call, in the order the calls were made."""
        return (event for event in self.events if isinstance(event, Call))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls the agent itself made: those inside another tool are that tool's business."""
        tools = {event.seq for event in self.events if isinstance(event, ToolCall)}
        return [e for e in self.events if isinstance(e, ToolCall) and e.parent not in tools]

    @property
    def llm_calls(self) -> list[LlmCall]:
        return [event for event in self.events if isinstance(event, LlmCall)]


class RunFile(Struct, frozen=True, kw_only=True):
    """A run as a file of its own: the run log export."""

    replaykit: int
    run: TraceRun


_decode_file = msgspec.json.Decoder(RunFile).decode


def encode_run(run: TraceRun) -> bytes:
    """The run log export: one JSON document."""
    return msgspec.json.encode(RunFile(replaykit=RUN_FORMAT, run=run))


def decode_run(text: bytes) -> TraceRun:
    """The run that `encode_run` was given; raises `msgspec.MsgspecError` on anything else."""
    return _decode_file(text).run
