"""TraceRun: a normalized record of what happened in one execution of an agent."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from replaykit.model.events import AnyEvent, Call, ErrorInfo, LlmCall, ToolCall
from replaykit.model.sampling import EVERY_STATE, Sampling
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode

RUN_FORMAT = 1
"""Version of the run log; readers accept every older one."""
PROCESS_LOGS = "part"
"""Ids below this name are logs of processes: parts of a recording that is under way, or was killed.
So no beginning of a run's id is ambiguous while it is recorded."""


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of a run: recorded, imported (`format`), forked or replayed (`run`, `step`)."""

    kind: str = "recorded"
    """`recorded`, `imported`, `forked`, `resumed` or `replayed`."""
    format: str | None = None
    """The format it was imported from."""
    run: str | None = None
    """The run it was forked from, or that was replayed."""
    step: str | None = None
    """The step it was forked from."""


class Chance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts that `rk.record` notes about randomness and timing in a run."""

    seed: str = ""
    """The seed of `random`, `uuid4`, `uuid1` and NumPy; empty if none was used or pinned."""
    hash_seed: str = ""
    """PYTHONHASHSEED, on which the order of sets depends; nothing where it was not set."""
    not_held: tuple[str, ...] = ()
    """Sources of randomness that were used and not pinned: a replay draws other values."""
    held_up_s: float = 0.0
    """The longest time a thread or event loop was held up by the machine while others went on; 0 if that is too short
    to make a difference, or unknown."""
    after_calls_s: float = 0.0
    """The time the run went on after its last call had ended; 0 if that is too short to make a difference."""


NO_CHANCE = Chance()


class RunHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about a run but its events."""

    id: str
    """Unique in its store; ids sort by the time when runs began."""
    name: str = ""
    agent: str = ""
    """The agent's name."""
    agent_version: str = ""
    """The agent's version, as its author gave it."""
    input_json: Raw = field(default=NULL, name="input")
    """What the agent was asked."""
    output_json: Raw = field(default=ABSENT, name="output")
    """What the agent answered; missing if it did not."""
    status: RunStatus = RunStatus.RUNNING
    error: ErrorInfo | None = None
    started_at: float = 0.0
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch; None while it runs."""
    tags: tuple[str, ...] = ()
    """Labels such as `keep`."""
    metadata_json: Raw = field(default=Raw(b"{}"), name="metadata")
    """Further facts, such as the recorded program."""
    origin: Origin = Origin()
    sampling: Sampling = EVERY_STATE
    """The choice of the agent's states that it keeps."""
    chance: Chance = NO_CHANCE
    event_count: int | None = None
    """The number of events when it ended; None while it runs."""

    @property
    def input(self) -> Json:
        return decode(self.input_json)

    @property
    def output(self) -> Json:
        if self.output_json:
            return decode(self.output_json)
        return None

    @property
    def metadata(self) -> Json:
        return decode(self.metadata_json)

    @property
    def duration_s(self) -> float | None:
        """The duration; never negative, even if the clock was set back meanwhile."""
        if self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.started_at)


class TraceRun(RunHeader, frozen=True, kw_only=True, omit_defaults=True):
    """One execution of an agent: its header and its ordered events."""

    events: tuple[AnyEvent, ...] = ()
    """What happened, in order."""

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


def ended_before(calls: Iterable[Call]) -> dict[int, int]:
    """Tool calls, by number, and the one of their like that ended last before them while they were under way."""
    tools = [call for call in calls if isinstance(call, ToolCall) and call.answered and call.at]
    found, last = {}, dict[int | None, tuple[float, int]]()
    for call in sorted(tools, key=lambda call: call.at + call.duration_s):
        end, number = last.get(call.parent, (0.0, -1))
        if end > call.at:
            found[call.seq] = number
        last[call.parent] = (call.at + call.duration_s, call.seq)
    return found


class RunFile(Struct, frozen=True, kw_only=True):
    """A run as a file of its own: the run log export."""

    replaykit: int
    """Version of the run log."""
    run: TraceRun


_decode_file = msgspec.json.Decoder(RunFile).decode


def encode_run(run: TraceRun) -> bytes:
    """The run log export: one JSON document."""
    return msgspec.json.encode(RunFile(replaykit=RUN_FORMAT, run=run))


def decode_run(text: bytes) -> TraceRun:
    """The run that `encode_run` was given; raises `msgspec.MsgspecError` on anything else."""
    return _decode_file(text).run
