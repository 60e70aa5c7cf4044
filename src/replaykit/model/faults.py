"""Faults as values: what goes wrong between an agent and its tools, models and context.

Where a fault strikes is decided by the seed (`replaykit.handlers.chaos`), never by the clock or by who comes first.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from enum import StrEnum

from msgspec import Struct

from replaykit.model.values import Json, JsonObject


class ToolTrouble(StrEnum):
    """Faults of a tool."""

    TIMEOUT = "timeout"  # no answer: TimeoutError
    ERROR = "error"  # ToolError with `error_code`; of an HTTP exchange, a response with that status
    MALFORMED = "malformed"  # the answer as text that is no whole JSON
    SLOW = "slow"  # the answer, `delay_ms` later
    EMPTY = "empty"  # an answer of the same kind with nothing in it
    MALICIOUS = "malicious_response"  # the answer's text is `payload`, which wants to be obeyed
    STALE = "stale"  # the answer that the call before this one was given
    PARTIAL = "partial"  # the first half of the answer


class ModelTrouble(StrEnum):
    """Faults of a model."""

    TIMEOUT = "timeout"
    TRUNCATED = "truncated_response"  # cut after `max_tokens`
    RATE_LIMIT = "rate_limit"  # 429, as the API says it
    EMPTY = "empty"
    GARBAGE = "garbage"  # characters without meaning
    DRIFT = "response_drift"  # the same answer as another version of the model would put it


class Drift(StrEnum):
    """Ways in which another version of a model answers differently."""

    FIELD_RENAME = "json_field_rename"  # members of a JSON answer have other names
    VERBOSITY = "verbosity_shift"  # longer or shorter
    FORMAT = "format_change"  # JSON becomes prose, prose becomes JSON
    REFUSAL = "refusal_rephrase"  # it would rather not
    TONE = "tone_shift"  # formal or casual


class Attack(StrEnum):
    """Faults of an agent's context."""

    MEMORY_POISONING = "memory_poisoning"  # `payload` in the input
    INDIRECT_INJECTION = "indirect_injection"  # one of `payloads` in the answers of tools
    OVERFLOW = "overflow"  # `inject_tokens` of noise before the input
    CONFLICTING = "conflicting_context"  # two instructions that contradict each other
    INJECTION = "injection_via_context"  # `payload` in a document that comes with the input


class Strategy(StrEnum):
    """The place where a payload is put."""

    PREPEND = "prepend"
    APPEND = "append"
    REPLACE = "replace"


class Direction(StrEnum):
    """The direction of a drift."""

    EXPAND = "expand"  # of verbosity: longer
    COMPRESS = "compress"
    FORMAL = "formal"  # of tone
    CASUAL = "casual"


class Grade(StrEnum):
    """The extent of a drift."""

    LOW = "low"  # one member
    MEDIUM = "medium"  # half of them
    HIGH = "high"  # all


class ToolFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault of the tools that a name or pattern means, and of HTTP exchanges that the agent makes itself."""

    mode: ToolTrouble
    tool: str = "*"
    """A name or a pattern with `*` and `?`; an exchange is called `GET host/path`."""
    probability: float = 1.0
    """The chance that it strikes a call, from 0 to 1."""
    after_calls: int = 0
    """It strikes from the next call on, once this many were made; `chaos.chance` says how they are counted."""
    match: JsonObject = {}
    """JSON paths into the arguments, and what has to stand there; texts may be patterns."""
    match_url: str = ""
    """A pattern for the URL of HTTP exchanges: then only those are meant, inside of tools as well."""
    error_code: int = 503
    """The status of the error."""
    message: str = ""
    """The text of the error."""
    delay_ms: float = 0.0
    """How much later the answer comes."""
    sleep: bool = False
    """True to wait for `delay_ms` in earnest; else only the log says that it took so long."""
    payload: Json = None
    """The text or the value that the answer is replaced by."""

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"tool.{self.mode}"


class ModelFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault of the models that a name or pattern means."""

    mode: ModelTrouble
    model: str = "*"
    """A name or a pattern with `*` and `?`."""
    probability: float = 1.0
    """The chance that it strikes a call, from 0 to 1."""
    after_calls: int = 0
    """It strikes from the next call on, once this many were made."""
    max_tokens: int = 10
    """Where a truncated response is cut."""
    delay_ms: float = 0.0
    """How much later the answer comes."""
    sleep: bool = False
    """True to wait for `delay_ms` in earnest."""
    message: str = ""
    """The text of the error."""
    drift_type: Drift = Drift.FIELD_RENAME
    severity: Grade = Grade.MEDIUM
    direction: Direction = Direction.EXPAND
    factor: float = 2.0
    """How much longer or shorter a response gets."""

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"model.{self.drift_type if self.mode is ModelTrouble.DRIFT else self.mode}"


class ContextAttack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of what an agent is told, before it runs or by its tools."""

    type: Attack
    payload: str = ""
    """The text that is put there."""
    payloads: tuple[str, ...] = ()
    """Texts of which one is put there."""
    probability: float = 1.0
    """The chance that it strikes, from 0 to 1."""
    inject_at: str | int = "input"
    """`input`, the number of a message, or a JSON path to a text of the input."""
    strategy: Strategy = Strategy.PREPEND
    inject_tokens: int = 2000
    """The length of the noise."""
    after_calls: int = 0
    """It strikes from the next call on, once this many were made."""

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"context.{self.type}"

    @property
    def is_of_input(self) -> bool:
        """True when it changes the input; the others change what tools answer."""
        return self.type is not Attack.INDIRECT_INJECTION


class ChaosPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The faults of one run, and the seed that decides where they strike."""

    seed: int = 0
    """With the same seed the same faults strike the same calls."""
    tool_faults: tuple[ToolFault, ...] = ()
    llm_faults: tuple[ModelFault, ...] = ()
    context_attacks: tuple[ContextAttack, ...] = ()

    @property
    def is_calm(self) -> bool:
        """True when nothing is ever wrong."""
        return not (self.tool_faults or self.llm_faults or self.context_attacks)

    @property
    def injections(self) -> tuple[ContextAttack, ...]:
        """The attacks that come with the answers of tools."""
        return tuple(attack for attack in self.context_attacks if not attack.is_of_input)

    @property
    def of_input(self) -> bool:
        """True when an attack may change the input."""
        return any(attack.is_of_input for attack in self.context_attacks)

    @property
    def of_calls(self) -> bool:
        """True when a fault may strike a call."""
        return bool(self.tool_faults or self.llm_faults or self.injections)
