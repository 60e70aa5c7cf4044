"""Model calls that only a trace contains, found by conversation, whichever API the candidate uses.

Each is entered into a separate matcher under the key of its conversation (`wire.conversation`), so that modes, ignored
members, placeholders and the current time work as for every other call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from replaykit.model.events import Call, LlmCall
from replaykit.model.matching import MatchMode, ModelMatch
from replaykit.model.values import NULL, Raw
from replaykit.seam.scope import MODEL, PendingCall
from replaykit.wire.conversation import JOINERS, ComparedFields, Conversation, ConversationReader
from replaykit.wire.traced_calls import outcome_of, response_id

if TYPE_CHECKING:
    from replaykit.handlers.replay.redaction import ByKind, Taken
    from replaykit.handlers.replay.tape import Matcher

T = TypeVar("T")
# The common name of all entries. If the model is compared, it is part of the key.
_NAME = "model"
# The number of recorded calls compared to find the one nearest to a miss.
_COMPARED = 50
_BY_KEY = (MatchMode.CAUSAL, MatchMode.ARGS)


class Traced(Struct, frozen=True):
    """A recorded model call and its conversation."""

    index: int
    """Its index on the tape."""
    call: LlmCall
    conversation: Conversation


class TracedCalls:
    """The model calls on a tape that are found by conversation."""

    def __init__(self, matcher: Matcher, make: Callable[[list[LlmCall]], Matcher], rule: ModelMatch | None) -> None:
        self._reader = ConversationReader()
        self._is_exact = rule is ModelMatch.EXACT
        self._calls: list[Traced] = []
        self.unknown: list[int] = []
        """The calls whose requests are missing from the trace."""
        for index, call in enumerate(matcher.calls):
            if isinstance(call, LlmCall) and (call.wire is None or rule is ModelMatch.IGNORE):
                self._enter(index, call)
        self.is_all = len(self._calls) + len(self.unknown) == sum(isinstance(call, LlmCall) for call in matcher.calls)
        """True if all model calls on the tape are among these."""
        self._indexes: list[int] = []
        """For each view, the index of its call on the tape."""
        self._views: dict[int, list[int]] = {}
        self._questions: list[bytes] = []
        """For each view, its request."""
        self._asked_alike: dict[bytes, list[int]] = {}
        """The calls with the same request, without used ones at the end."""
        views = []
        for number, (index, view) in enumerate(sorted(self._in_all_forms(matcher), key=lambda pair: pair[0])):
            views.append(view)
            self._indexes.append(index)
            self._views.setdefault(index, []).append(number)
            question = bytes(view.arguments_json)
            self._questions.append(question)
            self._asked_alike.setdefault(question, []).append(index)
        self._matcher = make(views)
        scopes = dict.fromkeys(traced.conversation.scope(exact=self._is_exact) for traced in self._calls)
        self._scopes = list(scopes) or [ComparedFields()]
        self._by_response: dict[str, Traced] | None = None
        self._recent: tuple[PendingCall, list[PendingCall]] | None = None

    def _enter(self, index: int, call: LlmCall) -> None:
        conversation = self._reader.read(bytes(call.request_json), model=call.name)
        if conversation is None or not conversation.is_known:
            self.unknown.append(index)
        else:
            self._calls.append(Traced(index, call, conversation))

    def _in_all_forms(self, matcher: Matcher) -> Iterator[tuple[int, LlmCall]]:
        """Yield a view of each call with its key as arguments; several if its texts can be joined in different ways."""
        for traced in self._calls:
            conversation = traced.conversation
            for joiner in _joiners(conversation, matcher):
                key = conversation.key(conversation.scope(exact=self._is_exact), joiner)
                yield traced.index, _view(traced.call, key)
        if matcher.mode is MatchMode.SEQUENCE:  # the only mode that does not need the requests
            for index in self.unknown:
                yield index, _view(matcher.calls[index], NULL)

    def take(self, matcher: Matcher, call: PendingCall) -> Taken:
        """Take the recorded call with the same conversation, in `matcher` as well, and return how it was found."""
        return self._first(matcher, call, self._matcher.take)

    def take_exactly(self, matcher: Matcher, call: PendingCall) -> int | None:
        """Do the same, but only at the same path."""
        found = self._first(matcher, call, lambda form: _pair(self._matcher.take_exactly(form)))
        if found is None:
            return None
        return found[0]

    def take_as_now(self, matcher: Matcher, call: PendingCall, began_at: float, now: float) -> Taken:
        """Do the same, ignoring the current time."""
        return self._first(matcher, call, lambda form: self._matcher.take_as_now(form, began_at, now))

    def take_by_kind(self, matcher: Matcher, call: PendingCall, *, written: bool) -> ByKind | None:
        """Do the same, with placeholders of another key."""
        for form in self._forms(call):
            found = self._matcher.take_by_kind(form, written=written)
            if found is None:
                continue
            if found.index is None:
                return found
            index = self._claim(matcher, found.index)
            if index is None:
                return None
            return msgspec.structs.replace(found, index=index)
        return None

    def last_outcome(self, call: PendingCall) -> int | None:
        """Return the last recorded call with the same conversation."""
        for form in self._forms(call):
            found = self._matcher.last_outcome(form)
            if found is not None:
                return self._indexes[found]
        return None

    def is_asked_again(self, matcher: Matcher, index: int) -> bool:
        """Return whether the tape holds another unused call with the same request."""
        for view in self._views.get(index, ()):
            alike = self._asked_alike[self._questions[view]]
            _drop_taken(alike, matcher.used)
            if alike:
                return True
        return False

    def has_unknown(self, matcher: Matcher) -> bool:
        """Return whether an unused call lacks its recorded request."""
        _drop_taken(self.unknown, matcher.used)
        return bool(self.unknown)

    def conversation(self, call: PendingCall) -> Conversation | None:
        """Return a call's conversation, including what the provider would have stored."""
        found = self._reader.read(call.arguments, model=call.name)
        if found is None or not found.continues:
            return found
        before = self._response_conversation(found.continues)
        if before is None:
            return found
        return self._reader.read(call.arguments, before=before, model=call.name)

    def nearest(self, matcher: Matcher, now: Conversation) -> Traced | None:
        """Return the recorded call with the most similar conversation, preferring unused calls."""
        candidates: list[Traced] = []
        for index in matcher.some_of_kind(MODEL, _COMPARED):
            call: LlmCall = matcher.calls[index]  # type: ignore[assignment]
            conversation = self._reader.read(bytes(call.request_json), model=call.name)
            if conversation is not None and conversation.is_known:
                candidates.append(Traced(index, call, conversation))
        current_lines = {line.json for line in now.lines}

        def likeness(traced: Traced) -> tuple[int, int]:
            lines = traced.conversation.lines
            return sum(line.json in current_lines for line in lines), -abs(len(lines) - len(current_lines))

        return max(candidates, key=likeness, default=None)

    def _response_conversation(self, response: str) -> Conversation | None:
        """Return the conversation that led to a served response, including its answer."""
        if self._by_response is None:
            self._by_response = {response_id(traced.call): traced for traced in self._calls}
        traced = self._by_response.get(response)
        if traced is None:
            return None
        answer = outcome_of(traced.call).answer
        if answer is None:
            return None
        return traced.conversation.answered(answer.message)

    def _first(self, matcher: Matcher, call: PendingCall, look: Callable[[PendingCall], Taken]) -> Taken:
        for form in self._forms(call):
            while (found := look(form)) is not None:
                index = self._claim(matcher, found[0])
                if index is not None:
                    return index, found[1]
        return None

    def _claim(self, matcher: Matcher, view: int) -> int | None:
        """Take a view's call in the tape's matcher; return None if that fails."""
        index = self._indexes[view]
        for number in self._views[index]:
            self._matcher.used[number] = 1
        if matcher.mode is MatchMode.STRICT and matcher.expected() != index:
            return None
        return matcher.take_of([index])

    def _forms(self, call: PendingCall) -> list[PendingCall]:
        """Return the forms in which the call may have been recorded, cached once, because redaction modifies them."""
        if self._recent is None or self._recent[0] is not call:
            self._recent = call, list(self._all_forms(call))
        return self._recent[1]

    def _all_forms(self, call: PendingCall) -> Iterator[PendingCall]:
        alone = self._reader.read(call.arguments, model=call.name)
        if alone is None:
            return
        conversations = [alone]
        if alone.continues and (whole := self.conversation(call)) is not None:
            conversations.insert(0, whole)
        for conversation in conversations:
            for joiner in _joiners(conversation, self._matcher):
                for scope in self._scopes:
                    yield _form(call, conversation.key(scope, joiner))


def _drop_taken(indexes: list[int], used: bytearray) -> None:
    """Remove used calls from the end of a list, so that each is checked only once."""
    while indexes and used[indexes[-1]]:
        indexes.pop()


def _joiners(conversation: Conversation, matcher: Matcher) -> Sequence[str]:
    """Return the ways in which the texts of a conversation may be joined."""
    if conversation.has_joints and matcher.mode in _BY_KEY:
        return JOINERS
    return JOINERS[:1]


def _view(call: Call, key: bytes | Raw) -> LlmCall:
    return LlmCall(seq=call.seq, name=_NAME, path=call.path, arguments_json=Raw(key))


def _form(call: PendingCall, key: bytes) -> PendingCall:
    return PendingCall(call.kind, _NAME, key, key, call.path, call.step, call.parent, call.seq, call.at, call.effects)


def _pair(index: int | None) -> Taken:
    if index is None:
        return None
    return (index, "exact")
