"""TraceRun: a normalized record of one execution of an agent."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from replaykit.model.events import AnyEvent, Call, ErrorInfo, LlmCall, ToolCall
from replaykit.model.sampling import EVERY_STATE, Sampling
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode

RUN_FORMAT = 1
"""The version of the run log; readers accept all older ones."""
PROCESS_LOGS = "part"
"""Ids that sort below this name are process logs: parts of a recording that is in progress or was killed.

This keeps abbreviations of a run's id unambiguous while the run is recorded.
"""


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
    """The format that it was imported from."""
    run: str | None = None
    """The run that was forked or replayed."""
    step: str | None = None
    """The step at which it was forked."""


class Chance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Randomness and timing of a run, as `rk.record` noted them."""

    seed: str = ""
    """The seed of `random`, `uuid4`, `uuid1` and NumPy; empty if none was used or pinned."""
    hash_seed: str = ""
    """PYTHONHASHSEED, which determines the order of sets; empty if it was not set."""
    not_held: tuple[str, ...] = ()
    """Sources of randomness that were used but not pinned: a replay draws other values."""
    held_up_s: float = 0.0
    """The longest time that the machine held up a thread or event loop while others continued; 0 if negligible or
    unknown."""
    after_calls_s: float = 0.0
    """The time from the end of the last call to the end of the run; 0 if negligible."""


NO_CHANCE = Chance()


class RunHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about a run except its events."""

    id: str
    """Unique in its store; ids sort by the start times of runs."""
    name: str = ""
    agent: str = ""
    """The agent's name."""
    agent_version: str = ""
    """The agent's version, as its author set it."""
    input_json: Raw = field(default=NULL, name="input")
    """The agent's input."""
    output_json: Raw = field(default=ABSENT, name="output")
    """The agent's output; absent if there was none."""
    status: RunStatus = RunStatus.RUNNING
    error: ErrorInfo | None = None
    started_at: float = 0.0
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch; None while the run is in progress."""
    tags: tuple[str, ...] = ()
    """Labels such as `keep`."""
    metadata_json: Raw = field(default=Raw(b"{}"), name="metadata")
    """Further facts, such as the recorded program."""
    origin: Origin = Origin()
    sampling: Sampling = EVERY_STATE
    """Which of the agent's states are stored."""
    chance: Chance = NO_CHANCE
    event_count: int | None = None
    """The number of events at the end; None while the run is in progress."""

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
    """The events, in order."""

    @classmethod
    def of(cls, header: RunHeader, events: tuple[AnyEvent, ...]) -> "TraceRun":
        """Combine a header and events into a run."""
        return cls(**{name: getattr(header, name) for name in header.__struct_fields__}, events=events)

    @property
    def header(self) -> RunHeader:
        return RunHeader(**{name: getattr(self, name) for name in RunHeader.__struct_fields__})

    @property
    def calls(self) -> Iterator[Call]:
        """All calls, in the order they were made."""
        return (event for event in self.events if isinstance(event, Call))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls the agent itself made, without those that tools made."""
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
    """A run as a file of its own: an exported run log."""

    replaykit: int
    """The version of the run log."""
    run: TraceRun


_decode_file = msgspec.json.Decoder(RunFile).decode


def encode_run(run: TraceRun) -> bytes:
    """Encode a run as a run log: one JSON document."""
    return msgspec.json.encode(RunFile(replaykit=RUN_FORMAT, run=run))


def decode_run(text: bytes) -> TraceRun:
    """Decode a run that `encode_run` encoded; raises `msgspec.MsgspecError` on anything else."""
    return _decode_file(text).run
