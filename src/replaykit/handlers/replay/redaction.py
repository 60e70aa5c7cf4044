"""Redacted tapes: match a candidate with real values against a tape with placeholders.

Calls are looked up unchanged, and then as they would have been recorded. Under the recording's key, a placeholder
identifies its value exactly. Under another key only its kind is known: a recorded call is then served only if no other
one fits, and the result says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from replaykit.handlers.replay.call_index import CallIndex
from replaykit.handlers.replay.parts_lookup import PartsLookup
from replaykit.model.matching import MatchMode
from replaykit.redaction.parts import Parts
from replaykit.redaction.placeholders import FoundPlaceholder, agree, blurred, key_id, placeholders_in
from replaykit.seam.scope import PendingCall

if TYPE_CHECKING:
    from replaykit.handlers.replay.tape import Matcher
    from replaykit.redaction.project import ProjectRedactor
    from replaykit.redaction.redactor import Redactor

Taken = tuple[int, str] | None
Kinds: TypeAlias = tuple[str, bytes, bytes]
"""The kind, name and arguments of a call, with placeholders reduced to their kinds."""


class ByKind(Struct, frozen=True):
    """A call found by kinds: its index, or None if `fitting` different ones fit."""

    index: int | None
    fitting: int = 1


class Redaction:
    """Matches a candidate's calls against a tape with placeholders."""

    def __init__(self, matcher: Matcher, recorded_under: str) -> None:
        self._matcher = matcher
        self._recorded_under = recorded_under
        self._unredacted: tuple[PendingCall, bytes] | None = None
        """The last redacted call, with its original arguments."""
        self._meant: dict[bytes, bytes] = {}
        """Compared arguments of calls that were matched by kind, mapped to those of the recorded call."""
        self._stands_for: dict[bytes, bytes] = {}
        """The reverse mapping."""
        self._parts: dict[tuple[str, str], PartsLookup] = {}
        """The arguments on the tape by kind and name of their calls."""

    def take(self, call: PendingCall, look: Callable[[PendingCall], Taken], *, anywhere: bool = True) -> Taken:
        """Return what `look` finds for the call unchanged, or as it would have been recorded.

        Otherwise find an equivalent call, with `anywhere` also at another path.
        """
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
        """Find the only possible recorded call for one with real values, if the recording has another key.

        `written` means that the call comes from a log, in which its values are redacted.
        """
        arguments = call.arguments
        if self._unredacted and self._unredacted[0] is call:
            arguments = self._unredacted[1]
        if (arguments == call.arguments and not written) or not self._is_other_key:
            return self._take_by_part(call)
        handed_on = set() if written else {_named(found) for found in placeholders_in(arguments)}
        key = self._matcher.key(call.name, call.key)
        kinds = _kinds(call.kind, call.name, key)
        texts = self._alike.get(kinds, {})
        take: Callable[[bytes], int | None] = partial(self._take_alike, kinds)
        if self._matcher.mode is MatchMode.STRICT:
            texts, take = self._expected_alike(kinds)
        meant = self._meant.get(key)
        if meant is not None:
            texts = dict.fromkeys(text for text in (meant,) if text in texts)
        if handed_on:
            texts = dict.fromkeys(text for text in texts if _fits(text, key, handed_on))
        return self._only(key, texts, take)

    def _take_alike(self, kinds: Kinds, text: bytes) -> int | None:
        return self._matcher.take_first(self._alike_index, (kinds, text))

    def _expected_alike(self, kinds: Kinds) -> tuple[dict[bytes, None], Callable[[bytes], int | None]]:
        """Return the text of the next expected call, if it has these kinds, and a function that takes that call."""
        index = self._matcher.expected()
        if index is None or self._kinds_of(index) != kinds:
            return {}, lambda text: None
        return {self._matcher.compared_text(index): None}, lambda text: self._matcher.take_of([index])

    def _only(self, key: bytes, texts: Collection[bytes], take: Callable[[bytes], int | None]) -> ByKind | None:
        """Take the recorded call if only one fits."""
        if not texts:
            return None
        if len(texts) > 1:
            return ByKind(None, len(texts))
        (recorded,) = texts
        if self._stands_for.get(recorded, key) != key:
            return None  # it already stands for another value of the candidate
        taken = take(recorded)
        if taken is None:
            return None
        self._stands_for.pop(self._meant.get(key, recorded), None)
        self._meant[key], self._stands_for[recorded] = recorded, key
        return ByKind(taken)

    def recorded_key(self, key: bytes) -> bytes:
        """Return the compared arguments of the recorded call that answers such a call."""
        return self._meant.get(key, key)

    def _take_of_old_tape(
        self, call: PendingCall, look: Callable[[PendingCall], Taken], originals: tuple[str, str, bytes, bytes]
    ) -> Taken:
        """Match placeholders of an older version, which do not keep the form of their value."""
        now = call.name, call.path, call.arguments, call.key
        call.name, call.path, call.arguments, call.key = originals
        if self._redact(call, self._old_redactor) and (found := look(call)) is not None:
            return found
        call.name, call.path, call.arguments, call.key = now
        key = self._matcher.key(call.name, call.key)
        alike = self._alike.get(_kinds(call.kind, call.name, key), {})
        return self._first(call, [text for text in alike if agree(text, key)])

    def _first(self, call: PendingCall, texts: list[bytes]) -> Taken:
        """Take the first recorded call of that name with one of these texts, preferring the same path."""
        index = self._matcher.take_text(call, texts)
        if index is None:
            return None
        if self._matcher.calls[index].path == call.path or self._matcher.mode is MatchMode.ARGS:
            return index, "exact"
        return index, "moved"

    def _take_of_part(self, call: PendingCall) -> Taken:
        """Find a recorded call that differs only in parts of redacted values that would not be redacted themselves.

        An agent may extract `acme.com` from `alice@acme.com`, or the digits of a phone number. Given placeholders, it
        extracts the same parts of those, and the recording's key shows that both belong together.
        """
        if self._is_other_key:
            return None
        parts = Parts(self._matcher.key(call.name, call.key))
        if not parts:
            return None
        return self._first(call, self._parts_of(call).agreeing(parts, self._redactor.key))

    def _take_by_part(self, call: PendingCall) -> ByKind | None:
        """Find such a call without the recording's key, if only one fits."""
        key = self._matcher.key(call.name, call.key)
        parts = Parts(key)
        if not parts or not (self._is_other_key or parts.are_names):
            return None
        texts = self._parts_of(call).fitting(parts)
        return self._only(key, texts, lambda text: self._matcher.take_text(call, [text]))

    def _parts_of(self, call: PendingCall) -> PartsLookup:
        """Return the arguments of the recorded calls of this kind and name."""
        place = call.kind, call.name
        if place not in self._parts:
            self._parts[place] = PartsLookup(map(self._matcher.compared_text, self._matcher.of_name(call)))
        return self._parts[place]

    def _redact(self, call: PendingCall, redactor: Redactor) -> bool:
        """Rewrite the call as it would have been recorded; return False if nothing changes."""
        name, path = redactor.text(call.name), redactor.text(call.path)
        arguments = redactor.raw(call.arguments, tool=call.name)
        if (name, path) == (call.name, call.path) and arguments is call.arguments:
            return False
        key = arguments if call.key is call.arguments else redactor.raw(call.key, tool=call.name)
        call.name, call.path = name, path
        call.rephrase(arguments)
        call.key = key
        return True

    def _kinds_of(self, index: int) -> Kinds:
        call = self._matcher.calls[index]
        return _kinds(call.kind, call.name, self._matcher.compared_text(index))

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
        """Whether the tape has old placeholders, without the form that their kind now has."""
        for call in self._matcher.calls:
            text = bytes(call.request_json)
            if b"<" in text and any(found.is_old for found in placeholders_in(text)):
                return True
        return False

    @cached_property
    def _is_other_key(self) -> bool:
        """Whether the tape was made with another key. If unknown, the key is assumed to be the same."""
        if not self._redactor.has_key:
            return True
        return bool(self._recorded_under) and key_id(self._redactor.key) != self._recorded_under

    @cached_property
    def _alike(self) -> dict[Kinds, dict[bytes, None]]:
        """The distinct arguments on the tape, by what another key leaves of them."""
        found: dict[Kinds, dict[bytes, None]] = {}
        for index in range(len(self._matcher.calls)):
            found.setdefault(self._kinds_of(index), {})[self._matcher.compared_text(index)] = None
        return found

    @cached_property
    def _alike_index(self) -> CallIndex:
        """The recorded calls by what another key leaves of their arguments, and by the arguments themselves."""
        matcher = self._matcher
        keys = [(self._kinds_of(index), matcher.compared_text(index)) for index in range(len(matcher.calls))]
        return CallIndex(keys, matcher.used)


def _project_redactor() -> ProjectRedactor:
    from replaykit.redaction.project import project_redactor  # noqa: PLC0415 (many tapes hold nothing redacted)

    return project_redactor(foreign=True)


def _kinds(kind: str, name: str, key: bytes) -> Kinds:
    return kind, blurred(name.encode()), blurred(key)


def _fits(recorded: bytes, key: bytes, handed_on: set[str]) -> bool:
    """Return whether placeholders that the candidate was given and passes on equal the recorded ones."""
    pairs = zip(placeholders_in(recorded), placeholders_in(key), strict=False)
    return all(_named(here) == _named(there) for there, here in pairs if _named(here) in handed_on)


def _named(found: FoundPlaceholder) -> str:
    return f"{found.kind}:{found.slot}"
