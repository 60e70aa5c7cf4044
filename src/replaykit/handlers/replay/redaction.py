"""Redacted tapes: a candidate may have the values that the tape has placeholders for.

Its calls are looked for as they are, and then as they would have been recorded. Under the key of the recording a
placeholder is its value, and is compared as exactly. Under another key only its kind is left: then a recorded call is
given only where no second one could be meant, and whoever reads the result is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.handlers.replay.keys import key_of
from replaykit.model.matching import MatchMode
from replaykit.redaction.parts import Parts
from replaykit.redaction.placeholders import FoundPlaceholder, agree, blurred, key_id, placeholders_in
from replaykit.seam.scope import PendingCall

if TYPE_CHECKING:
    from replaykit.handlers.replay.tape import Matcher
    from replaykit.redaction.project import ProjectRedactor
    from replaykit.redaction.redactor import Redactor

Taken = tuple[int, str] | None


class ByKind(Struct, frozen=True):
    """A call found by kinds: its index, or None where `fitting` different ones fit."""

    index: int | None
    fitting: int = 1


class Redaction:
    """The calls of a candidate beside a tape that holds placeholders."""

    def __init__(self, matcher: Matcher, recorded_under: str) -> None:
        self._matcher = matcher
        self._recorded_under = recorded_under
        self._unredacted: tuple[PendingCall, bytes] | None = None
        """The last call that was redacted, and its arguments before that."""
        self._meant: dict[bytes, bytes] = {}
        """By what is compared of a call, what was compared of the recorded one that it was given by kinds."""

    def take(self, call: PendingCall, look: Callable[[PendingCall], Taken], *, anywhere: bool = True) -> Taken:
        """Return what `look` finds for the call as it is, or as it would have been recorded; else a call that says the
        same in other words, at another path too if `anywhere`."""
        by_arguments = self._matcher.mode in (MatchMode.CAUSAL, MatchMode.ARGS)
        if by_arguments and (found := look(call)) is not None:
            return found
        originals = call.name, call.path, call.arguments, call.key
        self._unredacted = call, call.arguments
        if (self._redact(call, self._redactor) or not by_arguments) and (found := look(call)) is not None:
            return found
        if not by_arguments or not anywhere:
            return None
        if self._is_old and (found := self._take_of_old_tape(call, look, originals)) is not None:
            return found
        return self._take_of_part(call)

    def take_by_kind(self, call: PendingCall, *, written: bool = False) -> ByKind | None:
        """The recorded call that can be meant by one with values of its own, where the recording had another key.

        `written`: the call comes from a log, where its values have been redacted.
        """
        arguments = call.arguments
        if self._unredacted and self._unredacted[0] is call:
            arguments = self._unredacted[1]
        if (arguments == call.arguments and not written) or not self._is_other_key:
            return self._take_by_part(call)
        handed_on = set() if written else {_named(found) for found in placeholders_in(arguments)}
        key = self._matcher.key(call.name, call.key)
        fitting: dict[bytes, list[int]] = {}
        for index in self._alike.get(_kinds(call.kind, call.name, key), ()):
            if self._matcher.mode is MatchMode.STRICT and index != self._matcher.expected():
                continue
            recorded = self._key_of(index)
            if self._meant.get(key, recorded) == recorded and _fits(recorded, key, handed_on):
                fitting.setdefault(recorded, []).append(index)
        return self._only(key, fitting)

    def _only(self, key: bytes, fitting: dict[bytes, list[int]]) -> ByKind | None:
        """The only one of the recorded calls that fit, by what is compared of them."""
        if not fitting:
            return None
        if len(fitting) > 1:
            return ByKind(None, len(fitting))
        ((recorded, indexes),) = fitting.items()
        if any(meant == recorded and other != key for other, meant in self._meant.items()):
            return None  # it stands for another value of the candidate already
        taken = self._matcher.take_of(indexes)
        if taken is None:
            return None
        self._meant[key] = recorded
        return ByKind(taken)

    def recorded_key(self, key: bytes) -> bytes:
        """Return what was compared of the recorded call that is given for such a call."""
        return self._meant.get(key, key)

    def _take_of_old_tape(
        self, call: PendingCall, look: Callable[[PendingCall], Taken], originals: tuple[str, str, bytes, bytes]
    ) -> Taken:
        """The same beside placeholders of an older version, which have no form."""
        now = call.name, call.path, call.arguments, call.key
        call.name, call.path, call.arguments, call.key = originals
        if self._redact(call, self._old_redactor) and (found := look(call)) is not None:
            return found
        call.name, call.path, call.arguments, call.key = now
        key = self._matcher.key(call.name, call.key)
        return self._first(call, lambda recorded: agree(recorded, key))

    def _first(self, call: PendingCall, is_same: Callable[[bytes], bool]) -> Taken:
        """The first recorded call of that name whose key is the same; one at the same path before all others."""
        same = [index for index in self._matcher.of_name(call) if is_same(self._key_of(index))]
        same.sort(key=lambda index: self._matcher.calls[index].path != call.path)
        index = self._matcher.take_of(same)
        if index is None:
            return None
        if self._matcher.calls[index].path == call.path or self._matcher.mode is MatchMode.ARGS:
            return index, "exact"
        return index, "moved"

    def _take_of_part(self, call: PendingCall) -> Taken:
        """A recorded call that differs in parts of redacted values alone, which are no value that is redacted.

        From `alice@acme.com` an agent may take `acme.com`, and from a phone its digits. Where it has placeholders it
        takes the same parts of those, and under the key of the recording both are seen to belong together.
        """
        if self._is_other_key:
            return None
        parts = Parts(self._matcher.key(call.name, call.key))
        if not parts:
            return None
        return self._first(call, lambda key: parts.agree_with(key, self._redactor.key))

    def _take_by_part(self, call: PendingCall) -> ByKind | None:
        """The same where that cannot be seen, if there is but one."""
        key = self._matcher.key(call.name, call.key)
        parts = Parts(key)
        if not parts or not (self._is_other_key or parts.are_names):
            return None
        fitting: dict[bytes, list[int]] = {}
        for index in self._matcher.of_name(call):
            recorded = self._key_of(index)
            if parts.fit(recorded):
                fitting.setdefault(recorded, []).append(index)
        return self._only(key, fitting)

    def _redact(self, call: PendingCall, redactor: Redactor) -> bool:
        """Say the call as it would have been recorded; False where that is what it says."""
        name, path = redactor.text(call.name), redactor.text(call.path)
        arguments = redactor.raw(call.arguments, tool=call.name)
        if (name, path) == (call.name, call.path) and arguments is call.arguments:
            return False
        key = arguments if call.key is call.arguments else redactor.raw(call.key, tool=call.name)
        call.name, call.path = name, path
        call.rephrase(arguments)
        call.key = key
        return True

    def _key_of(self, index: int) -> bytes:
        recorded = self._matcher.calls[index]
        return self._matcher.key(recorded.name, key_of(recorded))

    @cached_property
    def _redactor(self) -> ProjectRedactor:
        return _project_redactor()

    @cached_property
    def _old_redactor(self) -> ProjectRedactor:
        redactor = _project_redactor()
        redactor.has_forms = False
        return redactor

    @cached_property
    def _is_old(self) -> bool:
        """True when placeholders on the tape have no form although their kind has one."""
        for call in self._matcher.calls:
            text = bytes(call.request_json)
            if b"<" in text and any(found.is_old for found in placeholders_in(text)):
                return True
        return False

    @cached_property
    def _is_other_key(self) -> bool:
        """True when the tape was made with another key than the one here. Where nobody knows, it was the same."""
        if not self._redactor.has_key:
            return True
        return bool(self._recorded_under) and key_id(self._redactor.key) != self._recorded_under

    @cached_property
    def _alike(self) -> dict[tuple[str, bytes, bytes], list[int]]:
        """The recorded calls by what is left of them under another key."""
        found: dict[tuple[str, bytes, bytes], list[int]] = {}
        for index, call in enumerate(self._matcher.calls):
            found.setdefault(_kinds(call.kind, call.name, self._key_of(index)), []).append(index)
        return found


def _project_redactor() -> ProjectRedactor:
    from replaykit.redaction.project import project_redactor  # noqa: PLC0415 (many tapes hold nothing redacted)

    return project_redactor(foreign=True)


def _kinds(kind: str, name: str, key: bytes) -> tuple[str, bytes, bytes]:
    return kind, blurred(name.encode()), blurred(key)


def _fits(recorded: bytes, key: bytes, handed_on: set[str]) -> bool:
    """True when placeholders that the candidate was given, and hands on, are the recorded ones."""
    pairs = zip(placeholders_in(recorded), placeholders_in(key), strict=False)
    return all(_named(here) == _named(there) for there, here in pairs if _named(here) in handed_on)


def _named(found: FoundPlaceholder) -> str:
    return f"{found.kind}:{found.slot}"
