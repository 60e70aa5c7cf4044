"""Through the seam: one function, in the four forms that Python has for a call.

Each asks the handler first; a call that is not served is done live inside a scope of its own, and the handler learns
how it ended. `give` turns a served outcome into what the caller expects.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import Divergence, Unreplayable
from replaykit.model.tool_errors import is_raised
from replaykit.model.unreplayable import LATER
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, canonical, raw, read_items
from replaykit.seam.failures import came_from_outside, describe, is_interruption, raise_again
from replaykit.seam.results import END, ITEM
from replaykit.seam.scope import (
    CallAnswer,
    Handler,
    Injected,
    Order,
    Outcome,
    PendingCall,
    Scope,
    current,
    enter,
    leave,
)
from replaykit.seam.side_effects import still_changed

T = TypeVar("T")

KeepItem: TypeAlias = Callable[[Any, str], Raw]
"""Turns what a stream yields (`ITEM`) and returns (`END`) into data."""
ABANDONED = Outcome(complete=False)
MOST_ITEMS = 10_000
"""The limit of a stream that a fault changes: all of it has to be there for that."""
SEND, THROW, CLOSE = "send", "throw", "close"
"""The operations on a generator besides taking its next item."""


def through(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], T],
    give: Callable[[CallAnswer], T],
    keep: Callable[[T], Raw] = raw,
) -> T:
    """Return the outcome of a plain call; `keep` turns its result into data."""
    if call.is_awaited:
        call.is_awaited = False
    session, number = scope.session, scope.number(call.name)
    handler, order = session.handler, session.order
    served = handler.serve(call)
    if served is not None:
        if call.injected is not None:
            _pause(call.injected)
        if order is not None and not order.has_ended(call, served):
            order.wait(call, served)
        if not served.complete and not answered(served):
            raise Unreplayable(f"`{call.name}` was interrupted when it was recorded; there is no answer to give")
        return give(served)
    if order is not None:
        live = order.really(live)
    token = enter(scope.inside(call, number))
    began = time.perf_counter()
    try:
        if call.injected is not None:
            _pause(call.injected)
        result = live()
    except BaseException as error:
        leave(token)
        _settle(handler, call, failed(error), began)
        raise
    leave(token)
    if call.injected is not None and call.injected.alter is not None:
        return give(_altered(handler, call, Outcome(result_json=keep(result)), began))
    _settle(handler, call, Outcome(result_json=keep(result)), began)
    return result


async def athrough(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], Awaitable[T]],
    give: Callable[[CallAnswer], T],
    keep: Callable[[T], Raw] = raw,
) -> T:
    """Return the outcome of an awaited call."""
    session, number = scope.session, scope.number(call.name)
    handler, order = session.handler, session.order
    served = handler.serve(call)
    if served is not None:
        if call.injected is not None:
            await _apause(call.injected)
        if order is not None and not order.has_ended(call, served):
            await order.wait_awhile(call, served)
        if not served.complete and not answered(served):
            await never()
        return give(served)
    if order is not None:
        live = order.really_awaited(live)
    token = enter(scope.inside(call, number))
    began = time.perf_counter()
    try:
        if call.injected is not None:
            await _apause(call.injected)
        result = await live()
    except BaseException as error:
        leave(token)
        _settle(handler, call, failed(error), began)
        raise
    leave(token)
    if call.injected is not None and call.injected.alter is not None:
        return give(_altered(handler, call, Outcome(result_json=keep(result)), began))
    _settle(handler, call, Outcome(result_json=keep(result)), began)
    return result


def stream(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], Generator[T, Any, Any]],
    give: Callable[[CallAnswer], Replayed],
    keep: KeepItem,
) -> Generator[T, Any, Any]:
    """Yield the items of a generator call, and return its return value."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if call.injected is not None:
        _pause(call.injected)
    inner = scope.inside(call, number)
    if served is None and call.injected is not None and call.injected.alter is not None:
        served = _collected(inner, call, live, keep)
    if served is not None:
        tape = ReplayedStream(call, served, give, scope.session.order)
        for item in tape.items():
            if tape.wait_s:
                time.sleep(tape.wait_s)
            try:
                sent = yield item
            except GeneratorExit as error:
                return tape.closed(error)
            except BaseException as error:  # noqa: BLE001 (thrown in by the caller: the tape knows its effect)
                tape.interrupted(error)
            else:
                tape.resumed(sent)
        if tape.wait_s:
            time.sleep(tape.wait_s)
        if tape.was_left and scope.session.order is not None:
            scope.session.order.outlast(call)
        return tape.end()
    recorder = _Items(call, scope, keep)
    try:
        generator = live()
        resume = partial(generator.send, None)
        while True:
            item, result, ended = _advance(inner, resume)
            if ended:
                break
            recorder.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                returned: Any = recorder.closing(generator.close)  # since Python 3.13 it may return a value
                if returned is None:
                    raise
                return recorder.left(returned)
            except BaseException as error:  # noqa: BLE001 (thrown in by the caller, for the tool to handle)
                recorder.thrown(error)
                resume = partial(generator.throw, error)
            else:
                recorder.sent(sent)
                resume = partial(generator.send, sent)
    except BaseException as error:
        recorder.failed(error)
        raise
    recorder.ended(result)
    return result


async def astream(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], AsyncGenerator[T, Any]],
    give: Callable[[CallAnswer], Replayed],
    keep: KeepItem,
) -> AsyncGenerator[T, Any]:
    """Yield the items of an async generator call."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if call.injected is not None:
        await _apause(call.injected)
    inner = scope.inside(call, number)
    if served is None and call.injected is not None and call.injected.alter is not None:
        served = await _acollected(inner, call, live, keep)
    if served is not None:
        tape = ReplayedStream(call, served, give, scope.session.order)
        for item in tape.items():
            if tape.wait_s:
                await later(tape.wait_s)
            try:
                sent = yield item
            except BaseException as error:  # noqa: BLE001 (thrown in by the caller: the tape knows its effect)
                tape.interrupted(error)
            else:
                tape.resumed(sent)
        if tape.wait_s:
            await later(tape.wait_s)
        if tape.was_left and scope.session.order is not None:
            await scope.session.order.outlast_awaited(call)
        tape.end()
        return
    recorder = _Items(call, scope, keep)
    try:
        generator = live()
        resume: Callable[[], Awaitable[T]] = generator.__anext__
        while True:
            token = enter(inner)
            try:
                item = await resume()
            except StopAsyncIteration:
                break
            finally:
                leave(token)
            recorder.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                await recorder.aclosing(generator.aclose)
                raise
            except BaseException as error:  # noqa: BLE001 (thrown in by the caller, for the tool to handle)
                recorder.thrown(error)
                resume = partial(generator.athrow, error)
            else:
                recorder.sent(sent)
                resume = partial(generator.asend, sent)
    except BaseException as error:
        recorder.failed(error)
        raise
    recorder.ended(None)


def failed(error: BaseException) -> Outcome:
    """Return the outcome of a call that raised; one that was cancelled or interrupted has none."""
    if came_from_outside(error):
        return ABANDONED
    return Outcome(error=describe(error))


def _settle(handler: Handler, call: PendingCall, outcome: Outcome, began: float) -> None:
    """Record the end of a live call."""
    duration_s = time.perf_counter() - began
    if call.look_again is not None:
        call.mutated = call.look_again()
    if call.surroundings is not None:
        call.mutated += still_changed(call.surroundings)
    if call.emitted:
        call.mutated += tuple(name for name in call.emitted if name not in call.mutated)
    if call.mutated:
        _tell_outer(call)
    handler.settle(call, outcome, duration_s)


def _tell_outer(call: PendingCall) -> None:
    """Count what a call inside of another has changed as changed by that one, too: a replay serves only that one."""
    scope = current()
    outer = None if scope is None else scope.outermost
    if outer is not None and outer is not call:
        # Its own arguments are identifiers, and belong to no other call.
        others = [name for name in call.mutated if not name.removesuffix(LATER).isidentifier()]
        outer.emitted += tuple(name for name in others if name not in outer.emitted)


class Replayed(Struct):
    """A recorded stream: its items, its return value, and the exception it may end with."""

    items: list[Any]
    result: Any = None
    error: BaseException | None = None


class _Items:
    """The items that a stream yields and is sent, each frozen at once; recorded when the stream or its run ends."""

    def __init__(self, call: PendingCall, scope: Scope, keep: KeepItem) -> None:
        self.items: list[Raw] = []
        self._sent: list[list[Json]] = []
        self._call = call
        self._keep = keep
        self._session = scope.session
        self._began = self._resumed = time.perf_counter()
        self._pauses_s: list[float] = []
        self._session.unfinished[call.seq] = self

    def add(self, item: Any) -> None:
        self._paused()
        self.items.append(self._keep(item, ITEM))

    def _paused(self) -> None:
        self._pauses_s.append(time.perf_counter() - self._resumed)

    def sent(self, value: Any) -> None:
        """Note that the caller continues, and a value that it sent; a plain `next` sends None."""
        self._resumed = time.perf_counter()
        if value is not None:
            self._sent.append([len(self.items), {SEND: Raw(canonical(value))}])

    def thrown(self, error: BaseException) -> None:
        """Note that the caller has thrown an exception."""
        self._resumed = time.perf_counter()
        self._sent.append([len(self.items), {THROW: Raw(canonical(error))}])

    def closing(self, close: Callable[[], T]) -> T:
        """Close the stream, and remember a failure to do so."""
        try:
            return close()
        except BaseException:
            self._sent.append([len(self.items), {CLOSE: True}])
            raise

    async def aclosing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Do the same as `closing` for an awaited stream."""
        try:
            await close()
        except BaseException:
            self._sent.append([len(self.items), {CLOSE: True}])
            raise

    def ended(self, result: Any) -> None:
        self._settle(self.outcome(result))

    def left(self, result: T) -> T:
        """Note that the caller has closed the stream, and that it returned a value all the same."""
        self._settle(Outcome(result_json=self._keep(result, END), complete=False))
        return result

    def failed(self, error: BaseException) -> None:
        self._settle(failed(error))

    def broke(self) -> None:
        """Note that the run has ended without anybody closing the stream."""
        self._settle(ABANDONED)

    def outcome(self, result: Any) -> Outcome:
        """Return the outcome of a stream that returned this."""
        return Outcome(items_json=tuple(self.items), result_json=self._keep(result, END), sent_json=self._sent_json)

    def _settle(self, outcome: Outcome) -> None:
        if self._session.unfinished.pop(self._call.seq, None) is not self:
            return  # recorded already
        if outcome.complete:
            self._paused()
        whole = replace(outcome, items_json=tuple(self.items), sent_json=self._sent_json, pauses_ms=self._pauses_ms)
        _settle(self._session.handler, self._call, whole, self._began)

    @property
    def _pauses_ms(self) -> tuple[float, ...]:
        pauses_ms = tuple([round(pause_s * 10_000) / 10 for pause_s in self._pauses_s])
        if any(pauses_ms):
            return pauses_ms
        return ()

    @property
    def _sent_json(self) -> Raw:
        if self._sent:
            return raw(self._sent)
        return ABSENT


class ReplayedStream:
    """A served stream; values sent into it have to be the recorded ones."""

    def __init__(
        self, call: PendingCall, served: CallAnswer, give: Callable[[CallAnswer], Replayed], order: Order | None
    ) -> None:
        self._whole = _streamed(served)
        self.wait_s = 0.0
        """The wait before the next item, or before the end."""
        self._pauses_ms: tuple[float, ...] = ()
        if order is not None:
            order.begin(call, served)
            if order.pace:
                self._pauses_ms = served.pauses_ms
        self._call = call
        self._replayed = give(self._whole)
        self._sent: dict[int, JsonObject] = {}
        if served.sent_json:
            self._sent.update(orjson.loads(bytes(served.sent_json)))
        self._place = 0
        self._thrown: BaseException | None = None

    def items(self) -> Iterator[Any]:
        """Yield the items in turn."""
        pauses_s = iter([pause_ms / 1000 for pause_ms in self._pauses_ms])
        for place, item in enumerate(self._replayed.items, 1):
            self._place = place
            self.wait_s = next(pauses_s, 0.0)
            yield item
        self.wait_s = next(pauses_s, 0.0)

    @property
    def was_left(self) -> bool:
        """True if its continuation is unknown: it was cancelled, or its caller left it."""
        return not self._whole.complete and self._replayed.error is None and self._replayed.result is None

    def resumed(self, sent: Any) -> None:
        """Note that the caller continues, and may have sent a value."""
        recorded = self._sent.get(self._place)
        if sent is None and recorded is None:
            return
        if sent is None or recorded is None or not _is_recorded(sent, recorded.get(SEND, ABSENT)):
            self._leave(f"was sent {sent!r}", recorded)
        self._thrown = None

    def closed(self, error: GeneratorExit) -> Any:
        """Handle a close by the caller: return the recorded value, or end as recorded."""
        if CLOSE in self._sent.get(self._place, {}) and self._replayed.error is not None:
            raise_again(self._replayed.error)
        if self._whole.complete or self._replayed.result is None:
            raise error
        return self._replayed.result

    def interrupted(self, error: BaseException) -> None:
        """Handle an exception that the caller has thrown in, or a close of an awaited stream."""
        if isinstance(error, GeneratorExit):
            self.closed(error)
        if self.was_left and self._place == len(self._replayed.items) and is_interruption(type(error)):
            raise error  # cancelled where its recording was left
        recorded = self._sent.get(self._place)
        if recorded is None or not _is_recorded(error, recorded.get(THROW)):
            self._leave(f"was thrown {error!r}", recorded)
        self._thrown = error

    def end(self) -> Any:
        """End after the last item, as recorded."""
        error = self._replayed.error
        if error is not None and self._thrown is not None and _frozen(self._thrown) == _frozen(error):
            raise self._thrown
        if error is not None:
            raise_again(error)
        if not self._whole.complete:
            count = len(self._whole.items_json or ())
            raise Unreplayable(
                f"`{self._call.name}` was left after {count} items when it was recorded; there is no item {count + 1}"
            )
        return self._replayed.result

    def _leave(self, now: str, recorded: JsonObject | None) -> NoReturn:
        before = "nothing" if recorded is None else ", ".join(f"{how} {value}" for how, value in recorded.items())
        text = f"`{self._call.name}` {now} after item {self._place}; recorded: {before}"
        scope = current()
        if scope is not None:
            scope.session.note_deviation("missing", text, self._call.name)
        raise Divergence(text, index=self._place)


def _frozen(value: Any) -> Json:
    return orjson.loads(canonical(value))


def _is_recorded(value: Any, recorded: Json) -> bool:
    """True if the value is the recorded one, plain or redacted."""
    text = canonical(value)
    if orjson.loads(text) == recorded:
        return True
    from replaykit.redaction.project import project_redactor  # noqa: PLC0415 (only if the values differ)

    return bool(orjson.loads(project_redactor(foreign=True).raw(text)) == recorded)


def _advance(inner: Scope, resume: Callable[[], Any]) -> tuple[Any, Any, bool]:
    """Return the generator's next item, or its return value and that it has ended."""
    token = enter(inner)
    try:
        return resume(), None, False
    except StopIteration as stop:
        return None, stop.value, True
    finally:
        leave(token)


def _pause(injected: Injected) -> None:
    if injected.wait_s:
        time.sleep(injected.wait_s)


async def _apause(injected: Injected) -> None:
    if injected.wait_s:
        await later(injected.wait_s)


def _altered(handler: Handler, call: PendingCall, outcome: Outcome, began: float) -> CallAnswer:
    """Record and return the answer of a live call, as a fault changes it."""
    assert call.injected is not None  # checked by the caller
    altered = call.injected.applied(outcome)
    _settle(handler, call, altered, began)  # type: ignore[arg-type]
    return altered


def _collected(
    inner: Scope, call: PendingCall, live: Callable[[], Generator[Any, Any, Any]], keep: KeepItem
) -> CallAnswer:
    """Return all items of a stream, as a fault changes them; at most `MOST_ITEMS`, since some never end."""
    handler, recorder, began = inner.session.handler, _Items(call, inner, keep), time.perf_counter()
    generator, result, ended = live(), None, False
    try:
        while not ended and len(recorder.items) < MOST_ITEMS:
            item, result, ended = _advance(inner, partial(generator.send, None))
            if not ended:
                recorder.add(item)
        generator.close()
    except BaseException as error:
        recorder.failed(error)
        raise
    inner.session.unfinished.pop(call.seq, None)
    return _altered(handler, call, recorder.outcome(result), began)


async def _acollected(
    inner: Scope, call: PendingCall, live: Callable[[], AsyncIterator[Any]], keep: KeepItem
) -> CallAnswer:
    """Do the same for an awaited stream."""
    handler, recorder, began = inner.session.handler, _Items(call, inner, keep), time.perf_counter()
    iterator = live().__aiter__()
    token = enter(inner)
    try:
        while len(recorder.items) < MOST_ITEMS:
            recorder.add(await anext(iterator))
    except StopAsyncIteration:
        pass
    except BaseException as error:
        leave(token)
        recorder.failed(error)
        raise
    leave(token)
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
    inner.session.unfinished.pop(call.seq, None)
    return _altered(handler, call, recorder.outcome(None), began)


def answered(outcome: CallAnswer) -> bool:
    """True if there is an outcome to serve."""
    return bool(outcome.result_json) or outcome.error is not None or outcome.items_json is not None


async def never() -> None:
    """Wait like the recorded call, until the caller's own timeout or cancellation."""
    if (trio := running_trio()) is not None:
        await trio.sleep_forever()
    import asyncio  # noqa: PLC0415 (slow to import, and here already when this runs)

    await asyncio.get_running_loop().create_future()


async def later(seconds: float) -> None:
    """Wait for as long as the recorded call took."""
    if (trio := running_trio()) is not None:
        await trio.sleep(seconds)
        return
    import asyncio  # noqa: PLC0415 (as above)

    if seconds <= 0:
        await asyncio.sleep(0)
        return
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    timer = loop.call_later(seconds, recorded_pause_over, future)
    try:
        await future
    finally:
        timer.cancel()


def recorded_pause_over(future: Any) -> None:
    """End a recorded pause. The clock recognises it by this function, and not as one of the agent's timers."""
    if not future.done():
        future.set_result(None)


def running_trio() -> Any:
    """Return trio if it runs this code; None if asyncio does."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return trio


def _streamed(served: CallAnswer) -> CallAnswer:
    """Return an answer as a stream. Sessions and traces hold a tool's answer as one value: a list gives its items, null
    none, and anything else is one item."""
    if served.items_json is not None or is_raised(served):
        return served
    whole = served.result_json
    if bytes(whole).lstrip()[:1] == b"[":
        items = tuple(read_items(whole))
    else:
        items = () if whole in (ABSENT, NULL) else (whole,)
    return Outcome(items_json=items, complete=served.complete)
