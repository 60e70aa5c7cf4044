"""`@tool`: a function of the agent whose calls pass through the seam.

Outside of a run the function is called as it is. Arguments are bound to their names and frozen when the call
begins; `self` and `cls` are not part of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from replaykit.errors import UsageError, nearest
from replaykit.model.events import ToolCall
from replaykit.model.values import canonical, sayable
from replaykit.seam.failures import rebuild_error
from replaykit.seam.moment import wall_time
from replaykit.seam.rebuild import item_hint, return_hint, value_of
from replaykit.seam.scope import Answer, PendingCall, Scope, current
from replaykit.seam.through import astream, athrough, stream, through

F = TypeVar("F", bound=Callable[..., Any])
TOOL = str(ToolCall.__struct_config__.tag)
EFFECTS = ("none", "idempotent", "external")
RECEIVERS = ("self", "cls")


@overload
def tool(fn: F, /) -> F: ...
@overload
def tool(*, name: str | None = None, effects: str = "external") -> Callable[[F], F]: ...
def tool(fn: Any = None, /, *, name: str | None = None, effects: str = "external") -> Any:
    """Record and replay the calls of a function: plain, async, generator or async generator, or a method.

    `effects` says what a call does to the world, for forks that go on live: `none` (it may always be done again),
    `idempotent` (done again with the same `idempotency_key()`, it has happened once), or `external`.
    """
    if effects not in EFFECTS:
        raise UsageError(f"effects={effects!r}; {nearest(str(effects), EFFECTS)}")
    if fn is None:
        return functools.partial(tool, name=name, effects=effects)
    if isinstance(fn, classmethod | staticmethod):
        return type(fn)(_wrap(_Tool(fn.__func__, sayable(name or fn.__name__), effects)))
    return _wrap(_Tool(fn, sayable(name or fn.__name__), effects))


def idempotency_key() -> str:
    """Inside a tool: the same text whenever this very call of this run is done again, also in a fork of the run."""
    scope = current()
    if scope is None or scope.call is None:
        raise UsageError("idempotency_key() is for the inside of a tool, in a run")
    from hashlib import blake2b  # noqa: PLC0415 (slow to import; few tools ask for a key)

    parts = (scope.session.lineage.encode(), scope.path.encode(), scope.call.arguments)
    return blake2b(b"\0".join(parts), digest_size=16).hexdigest()


record_tool = tool


class _Tool:
    """One decorated function: how its arguments get names, and how its answers come back."""

    def __init__(self, fn: Callable[..., Any], name: str, effects: str) -> None:
        self.fn = fn
        self.name = name
        self.effects = effects
        self.bind = _binder(inspect.signature(fn))

    def live(self, call: PendingCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do it, with the arguments the agent gave, or with others that a fork wants tried."""
        if call.override is None:
            return self.fn(*args, **kwargs)
        names = list(inspect.signature(self.fn).parameters)
        receiver = args[:1] if names and names[0] in RECEIVERS else ()
        return self.fn(*receiver, **call.override)

    def call(self, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PendingCall | None:
        """The call, frozen; None when Python itself will refuse these arguments, or a framework has made it already."""
        if scope.call is not None and scope.call.hosted and scope.call.name == self.name:
            return None
        named = self.bind(args, kwargs)
        if named is None:
            return None
        return PendingCall(TOOL, self.name, canonical(named), scope, wall_time(), self.effects)

    @functools.cached_property
    def hint(self) -> Any:
        return return_hint(self.fn)

    def give(self, outcome: Answer) -> Any:
        """The recorded result, or the recorded exception raised."""
        if outcome.error is not None:
            raise rebuild_error(outcome.error, self.namespace)
        return value_of(outcome.result_json, self.hint)

    def give_items(self, outcome: Answer) -> tuple[list[Any], Any]:
        """The items of a stream, which may end in an exception, and its return value."""
        hint = item_hint(self.hint)
        items: Any = [value_of(item, hint) for item in outcome.items_json or ()]
        if outcome.error is not None:
            items = _then_raise(items, rebuild_error(outcome.error, self.namespace))
        return items, value_of(outcome.result_json, None) if outcome.result_json else None

    @property
    def namespace(self) -> dict[str, Any]:
        return getattr(inspect.unwrap(self.fn), "__globals__", {})


def _then_raise(items: list[Any], error: BaseException) -> Any:
    yield from items
    raise error


def _wrap(spec: _Tool) -> Callable[..., Any]:
    """The wrapper that has the same shape as the function, so that frameworks see what it is."""
    fn = spec.fn
    if inspect.isasyncgenfunction(fn):
        return _wrap_asyncgen(spec)
    if inspect.isgeneratorfunction(fn):
        return _wrap_generator(spec)
    if inspect.iscoroutinefunction(fn):
        return _wrap_async(spec)
    return _wrap_plain(spec)


def _wrap_plain(spec: _Tool) -> Callable[..., Any]:
    fn = spec.fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        pending = spec.call(scope, args, kwargs) if scope is not None else None
        if scope is None or pending is None:
            return fn(*args, **kwargs)
        return through(scope, pending, lambda: spec.live(pending, args, kwargs), spec.give)

    return call


def _wrap_async(spec: _Tool) -> Callable[..., Any]:
    fn = spec.fn

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        pending = spec.call(scope, args, kwargs) if scope is not None else None
        if scope is None or pending is None:
            return await fn(*args, **kwargs)
        return await athrough(scope, pending, lambda: spec.live(pending, args, kwargs), spec.give)

    return call


def _wrap_generator(spec: _Tool) -> Callable[..., Any]:
    fn = spec.fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        pending = spec.call(scope, args, kwargs) if scope is not None else None
        if scope is None or pending is None:
            return (yield from fn(*args, **kwargs))
        return (yield from stream(scope, pending, lambda: spec.live(pending, args, kwargs), spec.give_items))

    return call


def _wrap_asyncgen(spec: _Tool) -> Callable[..., Any]:
    fn = spec.fn

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        pending = spec.call(scope, args, kwargs) if scope is not None else None
        items = (
            fn(*args, **kwargs)
            if scope is None or pending is None
            else astream(scope, pending, lambda: spec.live(pending, args, kwargs), spec.give_items)
        )
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    return call


Binder = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]


def _binder(signature: inspect.Signature) -> Binder:
    """What turns (args, kwargs) into named arguments; gives None where Python will refuse them."""
    parameters = list(signature.parameters.values())
    receiver = parameters[0].name if parameters and parameters[0].name in RECEIVERS else None
    if all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
        return _simple_binder(parameters, receiver)
    rest = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        named = {key: value for key, value in bound.arguments.items() if key != receiver}
        more = {} if rest is None else named.pop(rest)  # `**rest` are arguments like the others, as a model gives them
        return {**named, **more} if named.keys().isdisjoint(more) else {**named, str(rest): more}

    return bind


def _simple_binder(parameters: list[inspect.Parameter], receiver: str | None) -> Binder:
    """`Signature.bind` takes longer than the rest of a call; nearly all tools do not need it."""
    names = tuple(p.name for p in parameters)
    known, total, is_function = frozenset(names), len(names), receiver is None
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        if is_function and not args and len(kwargs) == total and known.issuperset(kwargs):  # as models call
            return kwargs
        if len(args) > total:
            return None
        named = dict(zip(names, args, strict=False)) if args else {}
        if kwargs:
            if not known.issuperset(kwargs) or not named.keys().isdisjoint(kwargs):
                return None
            named.update(kwargs)
        if len(named) != total:
            named = {**defaults, **named}
            if len(named) != total:
                return None
        if receiver is not None:
            del named[receiver]
        return named

    return bind
