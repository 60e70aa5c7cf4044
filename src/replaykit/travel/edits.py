"""Edits: what a fork changes at its step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from replaykit.errors import UsageError
from replaykit.model.events import Call, ErrorInfo
from replaykit.model.matching import ErrorSpec
from replaykit.model.patch import PatchError, apply_patch, merge
from replaykit.model.values import Json, raw
from replaykit.seam.scope import Answer, Outcome


class Edits(Struct, frozen=True, kw_only=True):
    """Changes at one step: of the state after it, of its call's answer or arguments, of the run's input."""

    state: dict[str, Json] = {}
    """Keys to set in the state; dotted keys reach inside."""
    patch: tuple[dict[str, Json], ...] = ()
    """A JSON Patch for the state."""
    result: Json | UnsetType = UNSET
    """What the step's tool or model answers instead."""
    error: ErrorSpec | None = None
    """What the step's tool or model fails with instead."""
    arguments: dict[str, Json] | None = None
    """What the step's tool is called with instead."""
    input: Json | UnsetType = UNSET
    """What the agent is asked instead."""
    tool: str | None = None
    """Which call of the step is meant, where it makes several."""

    @classmethod
    def of(cls, changes: Edits | Mapping[str, Any] | None) -> Edits:
        """Edits as they are; a mapping is keys of the state."""
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
        return self.result is not UNSET or self.error is not None or self.arguments is not None

    def amended(self, state: Json) -> Json:
        """The state after the edits; a UsageError when they do not fit it."""
        try:
            state = merge(state, self.state) if self.state else state
            return apply_patch(state, self.patch) if self.patch else state
        except PatchError as error:
            raise UsageError(f"the change does not fit the state: {error}") from None

    def answer(self, recorded: Call) -> Answer | None:
        """The answer that takes the place of the recorded one; None when it stays."""
        if self.error is not None:
            message = (self.error.message,) if self.error.message else ()
            return Outcome(error=ErrorInfo(type=self.error.type, message=self.error.message, args_json=raw(message)))
        if self.result is UNSET:
            return None
        if recorded.items_json is not None:
            if not isinstance(self.result, list):
                raise UsageError(f"`{recorded.name}` streams: its changed result is a list of items")
            return Outcome(items_json=tuple(map(raw, self.result)), result_json=recorded.result_json)
        return Outcome(result_json=raw(self.result))
