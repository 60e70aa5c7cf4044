"""Faults as values: failures to inject between an agent and its tools, models and context.

The seed decides where a fault strikes (`replaykit.handlers.chaos`), never the clock or the order of concurrent calls.
"""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from enum import StrEnum

from msgspec import Struct

from replaykit.model.values import Json, JsonObject


class ToolTrouble(StrEnum):
    """Faults of a tool."""

    TIMEOUT = "timeout"  # no answer: raises TimeoutError
    ERROR = "error"  # raises ToolError with `error_code`; an HTTP exchange gets a response with that status
    MALFORMED = "malformed"  # the answer as truncated JSON
    SLOW = "slow"  # the answer, `delay_ms` later
    EMPTY = "empty"  # an answer of the same type without content
    MALICIOUS = "malicious_response"  # the answer is `payload`, a text that gives instructions
    STALE = "stale"  # the answer to the previous call
    PARTIAL = "partial"  # the first half of the answer


class ModelTrouble(StrEnum):
    """Faults of a model."""

    TIMEOUT = "timeout"
    TRUNCATED = "truncated_response"  # cut after `max_tokens`
    RATE_LIMIT = "rate_limit"  # status 429, in the words of the API
    EMPTY = "empty"
    GARBAGE = "garbage"  # meaningless characters
    DRIFT = "response_drift"  # the same answer as another version of the model might phrase it


class Drift(StrEnum):
    """Ways in which another version of a model answers differently."""

    FIELD_RENAME = "json_field_rename"  # members of a JSON answer get other names
    VERBOSITY = "verbosity_shift"  # longer or shorter
    FORMAT = "format_change"  # JSON becomes prose, or prose becomes JSON
    REFUSAL = "refusal_rephrase"  # a polite refusal
    TONE = "tone_shift"  # formal or casual


class Attack(StrEnum):
    """Faults of an agent's context."""

    MEMORY_POISONING = "memory_poisoning"  # adds `payload` to the input
    INDIRECT_INJECTION = "indirect_injection"  # adds one of `payloads` to the answers of tools
    OVERFLOW = "overflow"  # adds `inject_tokens` of noise before the input
    CONFLICTING = "conflicting_context"  # adds two instructions that contradict each other
    INJECTION = "injection_via_context"  # adds a document with `payload` to the input


class Strategy(StrEnum):
    """The place at which a payload is inserted."""

    PREPEND = "prepend"
    APPEND = "append"
    REPLACE = "replace"


class Direction(StrEnum):
    """The direction of a drift."""

    EXPAND = "expand"  # for verbosity: longer
    COMPRESS = "compress"
    FORMAL = "formal"  # for tone
    CASUAL = "casual"


class Grade(StrEnum):
    """The extent of a drift."""

    LOW = "low"  # one member
    MEDIUM = "medium"  # half of the members
    HIGH = "high"  # all members


class ToolFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault of the tools that match a name or pattern, and of the agent's own HTTP exchanges."""

    mode: ToolTrouble
    tool: str = "*"
    """A name or a pattern with `*` and `?`; an exchange is named `GET host/path`."""
    probability: float = 1.0
    """The probability of the fault for each call, from 0 to 1."""
    after_calls: int = 0
    """The number of calls without the fault before the first with it; `chaos.chance` says how calls are counted."""
    match: JsonObject = {}
    """JSON paths into the arguments, and the values required there; texts may be patterns."""
    match_url: str = ""
    """A pattern for the URL of HTTP exchanges: limits the fault to these, also inside tools."""
    error_code: int = 503
    """The status of the error."""
    message: str = ""
    """The message of the error."""
    delay_ms: float = 0.0
    """The delay of the answer."""
    sleep: bool = False
    """True to really wait for `delay_ms`; otherwise only the log shows the delay."""
    payload: Json = None
    """The text or value that replaces the answer."""

    @property
    def name(self) -> str:
        """The fault's name in the log."""
        return f"tool.{self.mode}"


class ModelFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault of the models that match a name or pattern."""

    mode: ModelTrouble
    model: str = "*"
    """A name or a pattern with `*` and `?`."""
    probability: float = 1.0
    """The probability of the fault for each call, from 0 to 1."""
    after_calls: int = 0
    """The number of calls without the fault before the first with it."""
    max_tokens: int = 10
    """The number of tokens after which a truncated response ends."""
    delay_ms: float = 0.0
    """The delay of the answer."""
    sleep: bool = False
    """True to really wait for `delay_ms`."""
    message: str = ""
    """The message of the error."""
    drift_type: Drift = Drift.FIELD_RENAME
    severity: Grade = Grade.MEDIUM
    direction: Direction = Direction.EXPAND
    factor: float = 2.0
    """The factor by which a response gets longer or shorter."""

    @property
    def name(self) -> str:
        """The fault's name in the log."""
        return f"model.{self.drift_type if self.mode is ModelTrouble.DRIFT else self.mode}"


class ContextAttack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A manipulation of the agent's context: of its input, or of its tools' answers."""

    type: Attack
    payload: str = ""
    """The text to insert."""
    payloads: tuple[str, ...] = ()
    """Texts to choose one from."""
    probability: float = 1.0
    """The probability of the attack, from 0 to 1."""
    inject_at: str | int = "input"
    """`input`, the number of a message, or a JSON path to a text of the input."""
    strategy: Strategy = Strategy.PREPEND
    inject_tokens: int = 2000
    """The length of the noise."""
    after_calls: int = 0
    """The number of calls without the attack before the first with it."""

    @property
    def name(self) -> str:
        """The fault's name in the log."""
        return f"context.{self.type}"

    @property
    def is_of_input(self) -> bool:
        """True if it changes the input; otherwise it changes the tools' answers."""
        return self.type is not Attack.INDIRECT_INJECTION


class ChaosPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The faults of a run, and the seed that decides where they strike."""

    seed: int = 0
    """The same seed makes the same faults strike the same calls."""
    tool_faults: tuple[ToolFault, ...] = ()
    llm_faults: tuple[ModelFault, ...] = ()
    context_attacks: tuple[ContextAttack, ...] = ()

    @property
    def is_calm(self) -> bool:
        """True if there are no faults."""
        return not (self.tool_faults or self.llm_faults or self.context_attacks)

    @property
    def injections(self) -> tuple[ContextAttack, ...]:
        """The attacks on the answers of tools."""
        return tuple(attack for attack in self.context_attacks if not attack.is_of_input)

    @property
    def of_input(self) -> bool:
        """True if an attack may change the input."""
        return any(attack.is_of_input for attack in self.context_attacks)

    @property
    def of_calls(self) -> bool:
        """True if a fault may strike a call."""
        return bool(self.tool_faults or self.llm_faults or self.injections)
