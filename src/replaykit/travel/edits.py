"""Edits: the change that a fork makes at its step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from replaykit.errors import UsageError
from replaykit.model.diff import brief
from replaykit.model.events import Call, ErrorInfo, Exchange, LlmCall, ToolCall
from replaykit.model.matching import ErrorSpec
from replaykit.model.patch import PatchError, apply_patch, merge, missing_keys
from replaykit.model.result import Deviation
from replaykit.model.values import NULL, Json, JsonObject, raw
from replaykit.seam.scope import CallAnswer, Outcome

_WORDS = {"tool_call": "tool", "llm_call": "model", "exchange": "request"}


class Edits(Struct, frozen=True, kw_only=True):
    """Changes at one step: to the state after it, the answer or arguments of its call, or the input of the run."""

    state: JsonObject = {}
    """Keys to set in the state; dotted keys set nested values."""
    patch: tuple[JsonObject, ...] = ()
    """A JSON Patch for the state."""
    result: Json | UnsetType = UNSET
    """The new answer of the step's last tool or model call; for a stream, the list of its items."""
    answer: Json | UnsetType = UNSET
    """The new answer of the step's last model call; for a stream, the list of its items.

    Over HTTP it is a text, or a message with `content` and `tool_calls`, and is sent in the format of the API.
    """
    error: ErrorSpec | None = None
    """The error that the step's last call fails with."""
    arguments: JsonObject | None = None
    """The new arguments of the step's last tool call."""
    input: Json | UnsetType = UNSET
    """The new input of the agent."""
    tool: str | None = None
    """The name of the tool or model whose call is changed, if the step calls several."""

    def __post_init__(self) -> None:
        changes = [name for name in ("result", "answer", "error", "arguments") if self._has(name)]
        if len(changes) > 1:
            raise UsageError(f"{' and '.join(changes)} change the same call: give one of them")
        if self.tool is not None and not changes:
            raise UsageError(
                f"tool={self.tool!r} says which call is changed, but not how",
                hint="Give its result, error or arguments as well (--result, --response, --error, --args).",
            )

    @classmethod
    def of(cls, changes: Edits | Mapping[str, Any] | None) -> Edits:
        """Return edits unchanged; a mapping holds keys of the state."""
        if isinstance(changes, Edits):
            return changes
        if changes is None or isinstance(changes, Mapping):
            return cls(state=dict(changes or {}))
        raise UsageError(f"changes are a mapping of state keys or Edits, not a {type(changes).__name__}")

    @property
    def of_state(self) -> bool:
        return bool(self.state or self.patch)

    @property
    def of_call(self) -> bool:
        return any(map(self._has, ("result", "answer", "error", "arguments")))

    def _has(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not UNSET and (value is not None or name in ("result", "answer"))

    def amended(self, state: Json) -> Json:
        """Return the changed state; raise `UsageError` if the change does not fit."""
        try:
            state = merge(state, self.state) if self.state else state
            if self.patch:
                return apply_patch(state, self.patch)
            return state
        except PatchError as error:
            raise UsageError(f"the change does not fit the state: {error}") from None

    def added_keys(self, state: Json, step: str) -> list[Deviation]:
        """Return new keys as deviations, because they may be typing errors."""
        added = []
        for key in missing_keys(state, self.state):
            text = f"the state after {step} had no key {key!r}; it has: {', '.join(state)}"
            added.append(Deviation(kind="added", text=text, name=key))
        return added

    def target(self, step: str, step_calls: list[Call], calls: Iterable[Call]) -> Call:
        """Return the call to change among those of the step; a `UsageError` names the calls."""
        all_calls = {call.seq: call for call in calls}
        fitting = [call for call in step_calls if isinstance(call, self._call_type) and self.tool in (None, call.name)]
        served = [call for call in fitting if call.parent not in all_calls]
        if self.tool is None:  # prefer a tool or model over bare HTTP, the clock and random numbers
            served = [call for call in served if not isinstance(call, Exchange)] or served
        if served:
            self.outcome_of(served[-1])  # fails now if the change does not fit, before a run is begun
            return served[-1]
        if fitting:
            inner, outer = fitting[-1], all_calls[fitting[-1].parent or 0]
            raise UsageError(
                f"{step}: `{inner.name}` is called inside `{outer.name}`, which is served as a whole",
                hint=f"Change what `{outer.name}` answers.",
            )
        sort = {Call: "call", LlmCall: "call of a model", ToolCall: "call of a tool"}[self._call_type]
        described = sort if self.tool is None else f"{sort} named {self.tool!r}"
        calls_made = ", ".join(dict.fromkeys(f"{_WORDS[call.kind]} `{call.name}`" for call in step_calls)) or "none"
        raise UsageError(f"{step} makes no {described}; its calls: {calls_made}")

    @property
    def _call_type(self) -> type[Call]:
        """The type of call that this change fits; only tools take new arguments."""
        if self.answer is not UNSET:
            return LlmCall
        if self.arguments is not None:
            return ToolCall
        return Call

    def outcome_of(self, recorded: Call) -> CallAnswer | None:
        """Return the outcome that replaces the recorded one; None to keep it."""
        if self.error is not None:
            message = (self.error.message,) if self.error.message else ()
            return Outcome(error=ErrorInfo(type=self.error.type, message=self.error.message, args_json=raw(message)))
        value = self.result if self.answer is UNSET else self.answer
        if value is UNSET:
            return None
        if recorded.wire is not None:
            from replaykit.travel.wire_answers import wire_outcome  # noqa: PLC0415 (few calls go over the wire)

            return wire_outcome(recorded, recorded.wire, value)
        if recorded.items_json is None:
            return Outcome(result_json=raw(value))
        if not isinstance(value, list):
            raise UsageError(
                f"`{recorded.name}` streams: what it answers instead is a list of items, not {brief(value)}",
                hint=f"It yielded {len(recorded.items_json)} items; for a single one, write [{brief(value)}].",
            )
        return Outcome(items_json=tuple(map(raw, value)), result_json=recorded.result_json or NULL)
