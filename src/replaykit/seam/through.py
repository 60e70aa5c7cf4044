"""Through the seam: one function, in the four shapes that Python has for a call.

Each asks the handler first; what is not served is done live inside a scope of its own, and the handler is told
how it ended. `give` turns a served outcome into what the caller expects.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from typing import Any, TypeVar

import msgspec

from replaykit.errors import Unreplayable
from replaykit.model.values import ABSENT, NULL, Json, Raw, raw
from replaykit.seam.failures import describe, is_interruption
from replaykit.seam.scope import Answer, Handler, Injected, Outcome, PendingCall, Scope, enter, leave

T = TypeVar("T")

ABANDONED = Outcome(complete=False)
MOST_ITEMS = 10_000
"""Of a stream that a fault changes: all of it has to be there for that."""


def through(
    scope: Scope, call: PendingCall, live: Callable[[], T], give: Callable[[Answer], T], keep: Callable[[T], Raw] = raw
) -> T:
    """The outcome of a plain call; `keep` makes data of its result."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if served is not None:
        if not served.complete and not _answered(served):
            raise Unreplayable(f"`{call.name}` was interrupted when it was recorded; there is no answer to give")
        if call.injected is not None:
            _pause(call.injected)
        if scope.session.order is not None:
            scope.session.order.wait(served)
        return give(served)
    token = enter(scope.inside(call, number))
    began = time.perf_counter()
    try:
        if call.injected is not None:
            _pause(call.injected)
        result = live()
    except BaseException as error:
        leave(token)
        handler.settle(call, failed(error), time.perf_counter() - began)
        raise
    leave(token)
    if call.injected is not None and call.injected.alter is not None:
        return give(_altered(handler, call, Outcome(result_json=keep(result)), time.perf_counter() - began))
    handler.settle(call, Outcome(result_json=keep(result)), time.perf_counter() - began)
    return result


async def athrough(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], Awaitable[T]],
    give: Callable[[Answer], T],
    keep: Callable[[T], Raw] = raw,
) -> T:
    """The outcome of a call that is awaited."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if served is not None:
        if not served.complete and not _answered(served):
            await never()
        if call.injected is not None:
            await _apause(call.injected)
        if scope.session.order is not None:
            await scope.session.order.wait_awhile(served)
        return give(served)
    token = enter(scope.inside(call, number))
    began = time.perf_counter()
    try:
        if call.injected is not None:
            await _apause(call.injected)
        result = await live()
    except BaseException as error:
        leave(token)
        handler.settle(call, failed(error), time.perf_counter() - began)
        raise
    leave(token)
    if call.injected is not None and call.injected.alter is not None:
        return give(_altered(handler, call, Outcome(result_json=keep(result)), time.perf_counter() - began))
    handler.settle(call, Outcome(result_json=keep(result)), time.perf_counter() - began)
    return result


def stream(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], Generator[T, Any, Any]],
    give: Callable[[Answer], tuple[list[T], Json]],
) -> Generator[T, Any, Any]:
    """The items of a call that yields, its return value at the end."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if call.injected is not None:
        _pause(call.injected)
    if served is not None:
        items, result = give(_streamed(served))
        yield from items
        _end_of(served, call)
        return result
    inner = scope.inside(call, number)
    if call.injected is not None and call.injected.alter is not None:
        items, result = give(_streamed(_collected(inner, call, live)))
        yield from items
        return result
    recorder, began = _Items(), time.perf_counter()
    try:
        generator = live()
        resume = partial(generator.send, None)
        while True:
            item, result, ended = _advance(inner, resume)
            if ended:
                break
            recorder.add(item)
            try:
                resume = partial(generator.send, (yield item))
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:  # noqa: BLE001 (thrown in by the caller, for the tool to handle)
                resume = partial(generator.throw, error)
    except BaseException as error:
        handler.settle(call, recorder.failed(error), time.perf_counter() - began)
        raise
    handler.settle(call, recorder.ended(result), time.perf_counter() - began)
    return result


async def astream(
    scope: Scope,
    call: PendingCall,
    live: Callable[[], AsyncIterator[T]],
    give: Callable[[Answer], tuple[list[T], Json]],
) -> AsyncGenerator[T, None]:
    """The items of a call that yields asynchronously."""
    handler, number = scope.session.handler, scope.number(call.name)
    served = handler.serve(call)
    if call.injected is not None:
        await _apause(call.injected)
    if served is not None:
        items, _ = give(_streamed(served))
        for item in items:
            yield item
        _end_of(served, call)
        return
    inner = scope.inside(call, number)
    if call.injected is not None and call.injected.alter is not None:
        items, _ = give(_streamed(await _acollected(inner, call, live)))
        for item in items:
            yield item
        return
    recorder, began = _Items(), time.perf_counter()
    iterator = live().__aiter__()
    try:
        while True:
            token = enter(inner)
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                break
            finally:
                leave(token)
            recorder.add(item)
            yield item
    except BaseException as error:
        handler.settle(call, recorder.failed(error), time.perf_counter() - began)
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
        raise
    handler.settle(call, recorder.ended(None), time.perf_counter() - began)


def failed(error: BaseException) -> Outcome:
    """The outcome of a call that raised; one that was cancelled or interrupted has none."""
    return ABANDONED if is_interruption(type(error)) else Outcome(error=describe(error))


class _Items:
    """What a stream yielded, frozen item by item."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Raw] = []

    def add(self, item: Json) -> None:
        self.items.append(raw(item))

    def ended(self, result: Json) -> Outcome:
        return Outcome(items_json=tuple(self.items), result_json=raw(result))

    def failed(self, error: BaseException) -> Outcome:
        cut = is_interruption(type(error))
        return Outcome(items_json=tuple(self.items), error=None if cut else describe(error), complete=not cut)


def _advance(inner: Scope, resume: Callable[[], Any]) -> tuple[Any, Any, bool]:
    """The generator's next item, or its return value and that it has ended."""
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


def _altered(handler: Handler, call: PendingCall, outcome: Outcome, duration_s: float) -> Answer:
    """What a fault makes of the answer of a call that was done: that is written down, and given."""
    altered = call.injected.applied(outcome) if call.injected is not None else outcome
    handler.settle(call, altered, duration_s)  # type: ignore[arg-type]
    return altered


def _collected(inner: Scope, call: PendingCall, live: Callable[[], Generator[Any, Any, Any]]) -> Answer:
    """All that a stream yields, changed by a fault; at most `MOST_ITEMS`, since some have no end."""
    handler, recorder, began = inner.session.handler, _Items(), time.perf_counter()
    generator, result, ended = live(), None, False
    try:
        while not ended and len(recorder.items) < MOST_ITEMS:
            item, result, ended = _advance(inner, partial(generator.send, None))
            if not ended:
                recorder.add(item)
        generator.close()
    except BaseException as error:
        handler.settle(call, recorder.failed(error), time.perf_counter() - began)
        raise
    return _altered(handler, call, recorder.ended(result), time.perf_counter() - began)


async def _acollected(inner: Scope, call: PendingCall, live: Callable[[], AsyncIterator[Any]]) -> Answer:
    """The same of a stream that is awaited."""
    handler, recorder, began = inner.session.handler, _Items(), time.perf_counter()
    iterator = live().__aiter__()
    token = enter(inner)
    try:
        while len(recorder.items) < MOST_ITEMS:
            recorder.add(await anext(iterator))
    except StopAsyncIteration:
        pass
    except BaseException as error:
        leave(token)
        handler.settle(call, recorder.failed(error), time.perf_counter() - began)
        raise
    leave(token)
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
    return _altered(handler, call, recorder.ended(None), time.perf_counter() - began)


def _answered(outcome: Answer) -> bool:
    return bool(outcome.result_json) or outcome.error is not None or outcome.items_json is not None


async def never() -> None:
    """Wait as the recorded call did: until the caller's own timeout or cancellation ends it."""
    if (trio := _trio()) is not None:
        await trio.sleep_forever()
    import asyncio  # noqa: PLC0415 (slow to import, and here already when this runs)

    await asyncio.get_running_loop().create_future()


async def later(seconds: float) -> None:
    """Wait for what took that long."""
    if (trio := _trio()) is not None:
        await trio.sleep(seconds)
        return
    import asyncio  # noqa: PLC0415 (as above)

    await asyncio.sleep(seconds)


def _trio() -> Any:
    """trio, where it runs this code; None where asyncio does."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return trio


def _streamed(served: Answer) -> Answer:
    """An answer as a stream gives it. Sessions and traces hold what a tool answered, and not how: one value for all
    that came. A list gives its items, null none, and anything else is one item."""
    if served.items_json is not None or served.error is not None:
        return served
    whole = served.result_json
    if bytes(whole).lstrip()[:1] == b"[":
        items = tuple(msgspec.json.decode(whole, type=list[Raw]))
    else:
        items = () if whole in (ABSENT, NULL) else (whole,)
    return Outcome(items_json=items, complete=served.complete)


def _end_of(served: Answer, call: PendingCall) -> None:
    if not served.complete:
        count = len(served.items_json or ())
        raise Unreplayable(
            f"`{call.name}` was left after {count} items when it was recorded; there is no item {count + 1}"
        )
