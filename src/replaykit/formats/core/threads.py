"""Threads: join calls of model APIs, each of which repeats the conversation so far, into runs.

A call continues a run if its messages start with everything said there; if it brings the result of an open call,
though the history was cut or changed; or if it names the answer that it continues, where the provider keeps the
history. Any other call starts a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.formats.core.messages import RETURNING, SPEAKING, START, fingerprints
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.talk import Talk, Turn, content_id
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, Raw
from replaykit.wire.json_fields import text_in
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse

CUT_OFF = ErrorInfo(type="Incomplete", message="the model's answer was cut off")
MAX_OPEN = 64
MAX_OPEN_BYTES = 64 * 1024 * 1024
"""Limits for runs that may still continue; beyond them, the least recently continued run is closed."""

_MAX_TOLD = 100
_Tip = tuple[str, str | bytes]


class Used(Struct, frozen=True, kw_only=True):
    """A call of a tool that the provider ran, with its result."""

    use: ToolUse
    content: Json = msgspec.UNSET
    failed: bool = False


class Wired(Struct, frozen=True, kw_only=True):
    """The request and response of a call as they were sent."""

    request: Raw
    chunks: tuple[Raw, ...]
    info: WireInfo


class ModelExchange(Struct, frozen=True, kw_only=True):
    """A call of a model API, as far as the file shows it."""

    call: ModelCall
    messages: list[Json] | None = None
    """The messages of the request, in the shape of `core.messages`; None if the request is missing."""
    used: Callable[[ModelAnswer], list[Used]]
    answered: bool = True
    """False if the file has no response."""
    alone: bool = False
    """True if the exchange continues nothing else in the file."""
    history_id: str = ""
    """The id of the history that the provider keeps; the messages are then only the new ones."""
    keeps: tuple[str, ...] = ()
    """The ids under which the provider keeps this exchange."""
    name: str = ""
    at: float = 0.0
    duration_s: float = 0.0
    wired: Wired | None = None
    size: int = 0
    advice: tuple[str, ...] = ()
    """Advice on how to log more of this call."""


class ExchangeThreads:
    """The runs of a file that may still continue."""

    def __init__(self, format: str, advice: tuple[str, ...] = ()) -> None:
        self._format, self._advice = format, advice
        self._begun = self._size = 0
        self._open: dict[ExchangeThread, list[_Tip]] = {}
        self._tips: dict[_Tip, ExchangeThread] = {}

    def add(self, exchange: ModelExchange) -> Iterator[TraceRun]:
        """Add the next call; yield the runs that are over."""
        if exchange.alone:
            thread = self._new()
            thread.take(exchange, [], linked=False)
            yield thread.run(self._format, self._advice)
            return
        repeated = fingerprints(exchange.messages or ())
        thread, linked = self._found(exchange, repeated)
        self._forget(thread)
        thread.take(exchange, repeated, linked=linked)
        tips: list[_Tip] = [("mark", thread.talk.fingerprint)]
        tips += [("call", call_id) for call_id in thread.talk.waiting]
        tips += [("kept", history_id) for history_id in exchange.keeps]
        # Dicts keep their order, so the first thread is always the least recently continued one.
        self._open[thread] = tips
        self._tips.update(dict.fromkeys(tips, thread))
        self._size += thread.size
        while len(self._open) > MAX_OPEN or self._size > MAX_OPEN_BYTES:
            oldest = next(iter(self._open))
            self._forget(oldest)
            yield oldest.run(self._format, self._advice)

    def close(self) -> Iterator[TraceRun]:
        """Yield the remaining runs in the order they began."""
        for thread in sorted(self._open, key=lambda thread: thread.number):
            yield thread.run(self._format, self._advice)
        self._open.clear()
        self._tips.clear()

    def _found(self, exchange: ModelExchange, repeated: list[bytes]) -> tuple[ExchangeThread, bool]:
        """Return the thread to continue, and whether the provider keeps its history; a new thread if none fits."""
        tips: list[_Tip] = [("mark", mark) for mark in reversed(repeated)]
        tips += [("call", call_id) for call_id in _returned(exchange.messages or [])]
        if exchange.history_id:
            tips = [("kept", exchange.history_id)]
        for tip in tips:
            if tip in self._tips:
                return self._tips[tip], bool(exchange.history_id)
        return self._new(), False

    def _new(self) -> ExchangeThread:
        self._begun += 1
        return ExchangeThread(self._begun)

    def _forget(self, thread: ExchangeThread) -> None:
        self._size -= thread.size if thread in self._open else 0
        for tip in self._open.pop(thread, ()):
            if self._tips.get(tip) is thread:
                del self._tips[tip]


class ExchangeThread:
    """One run in the making."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.talk = Talk()
        self.size = 0
        self._name = ""
        self._lacking = False
        self._cut = False
        self._unanswered: ModelExchange | None = None
        self._metadata: dict[str, list[Json]] = {}
        self._advice: dict[str, None] = {}

    def take(self, exchange: ModelExchange, repeated: list[bytes], *, linked: bool) -> None:
        """Add the next call, with the fingerprints of its messages."""
        self.size += exchange.size
        self._name = self._name or exchange.name
        self.talk.offers(exchange.call.tools)
        self.talk.instructs(exchange.call.system)
        if linked:
            repeated = []
        else:
            self._lacking = self._lacking or bool(exchange.history_id)
            self._advice |= dict.fromkeys(exchange.advice)
        self._catch_up(exchange, repeated)
        self._unanswered = None
        if exchange.answered:
            self._answer(exchange)
        else:
            self._unanswered = exchange

    def run(self, format: str, advice: tuple[str, ...]) -> TraceRun:
        """Return the finished run."""
        last = self._unanswered
        if last is not None and last.messages and last.messages[-1].get("role") not in SPEAKING:
            self._answer(last)
        metadata = {name: values[:_MAX_TOLD] for name, values in self._metadata.items()}
        error = CUT_OFF if self._cut else None
        advised = (*self._advice, *advice)
        run = self.talk.run(id="", format=format, name=self._name, error=error, metadata=metadata, advice=advised)
        identity = [
            run.name,
            run.input_json,
            run.output_json,
            metadata.get("response_ids"),
            run.events,
        ]  # without advice, which may be reworded
        return replace(run, id=content_id(format, msgspec.json.encode(identity)))

    def _catch_up(self, exchange: ModelExchange, repeated: list[bytes]) -> None:
        """Add the messages after those that are known."""
        messages, mark = exchange.messages or [], self.talk.fingerprint
        if repeated and mark != START and mark not in repeated:
            self.talk.catches_up(messages, at=exchange.at)
            return
        for message in messages[repeated.index(mark) + 1 if mark in repeated else 0 :]:
            self._hear(message, exchange)

    def _hear(self, message: Json, exchange: ModelExchange) -> None:
        """Add a new message; for an answer, the file has no response of its own."""
        role = message.get("role")
        if role in SPEAKING:
            turn = self.talk.hear(message, model=exchange.call.model)
            self._use(turn, message.get("parts"), exchange)
        elif role in RETURNING:
            self.talk.hear(message, at=exchange.at)
        else:
            self.talk.hear(message)

    def _answer(self, exchange: ModelExchange) -> None:
        call = exchange.call
        answer = call.answer if call.error is None else None
        turn = self.talk.answers(
            answer,
            model=call.model,
            usage=call.usage,
            finish_reason=call.finish_reason,
            error=call.error,
            parameters=call.parameters,
            at=exchange.at,
            duration_s=exchange.duration_s,
            complete=call.complete or not exchange.answered,
        )
        self._cut = exchange.answered and not call.complete and call.error is None
        if self._lacking:
            turn.lacks.add(Lack.MESSAGES)
        if exchange.wired is not None:
            wired = exchange.wired
            turn.fields |= {"arguments_json": wired.request, "items_json": wired.chunks, "wire": wired.info}
        self._keep(exchange, answer)
        if answer is not None:
            self._use(turn, list(answer.parts), exchange)

    def _use(self, turn: Turn | None, parts: Json, exchange: ModelExchange) -> None:
        if turn is not None and isinstance(parts, list):
            for used in exchange.used(ModelAnswer(parts=tuple(parts))):
                self.talk.uses(turn, used.use, used.content, failed=used.failed)

    def _keep(self, exchange: ModelExchange, answer: ModelAnswer | None) -> None:
        """Keep the parts of a call that a run has no field for."""
        call = exchange.call
        if call.alternatives:
            self.talk.notes("alternatives", [other.message for other in call.alternatives], at=exchange.at)
        if call.answer is not None and answer is None:
            self.talk.notes("before the error", call.answer.message, at=exchange.at)
        if call.response_id:
            self._metadata.setdefault("response_ids", []).append(call.response_id)
        if call.problem and answer is None:
            self._metadata.setdefault("problems", []).append(call.problem)


def _returned(messages: list[Json]) -> Iterator[str]:
    """Yield the call ids of the results at the end."""
    for message in reversed(messages):
        if message.get("role") in SPEAKING:
            return
        if message.get("role") in RETURNING and text_in(message, "tool_call_id"):
            yield message["tool_call_id"]
