"""`@tool`: a function of the agent whose calls pass through the seam.

Outside of a run the function is called as it is. Arguments are bound to names and frozen when the call begins; `self`
and `cls` are not among them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from types import FunctionType
from typing import Any, Literal, TypeAlias, TypeVar, overload

import orjson
from msgspec import Struct

from replaykit.errors import UsageError, nearest, wrong_argument
from replaykit.model.unreplayable import LATER
from replaykit.model.values import DOLLAR, canonical, sayable
from replaykit.seam.agent_code import TOOL_BODIES, UNCHANGING
from replaykit.seam.foreign_threads import adopted
from replaykit.seam.leftover_jobs import LeftoverJobs
from replaykit.seam.own_code import Function
from replaykit.seam.parameters import Parameters, note_order, signature_of
from replaykit.seam.results import END, ITEM, OPAQUE, ToolValues, report_mutated, report_uncompared
from replaykit.seam.scope import TOOL, CallAnswer, PendingCall, Scope, current, wall_time
from replaykit.seam.side_effects import Reach, changed_context
from replaykit.seam.through import Replayed, astream, athrough, stream, through

F = TypeVar("F", bound=Function)
Effects: TypeAlias = Literal["none", "idempotent", "external"]
EFFECTS: tuple[Effects, ...] = ("none", "idempotent", "external")
_RECEIVERS = ("self", "cls")


@overload
def tool(fn: F, /) -> F: ...
@overload
def tool(*, name: str | None = None, effects: Effects = "external") -> Callable[[F], F]: ...
def tool(fn: Any = None, /, *more: Any, name: str | None = None, effects: Effects = "external", **unknown: Any) -> Any:
    """Record and replay the calls of a function: plain, async, generator or async generator, or a method.

    `effects` says what a call does to the world, for forks that continue live: `none` (it may be repeated),
    `idempotent` (repeated with the same `idempotency_key()`, it has happened once), or `external`.

    >>> @rk.tool(effects="none")
    ... def search(query: str) -> list[str]:
    ...     return [query]
    >>> search("refunds")
    ['refunds']
    """
    if more or unknown:
        surplus = [*map(repr, more), *unknown]
        raise UsageError(
            f"rk.tool takes no argument {', '.join(surplus)}",
            hint='Write `@rk.tool`, or `@rk.tool(name="search_docs", effects="none")`, above a function',
        )
    if effects not in EFFECTS:
        raise UsageError(f"effects={effects!r}; {nearest(str(effects), EFFECTS)}")
    if name is not None and not isinstance(name, str):
        raise wrong_argument("rk.tool", name, '@rk.tool(name="search_docs")', name="name")
    if fn is None:
        return functools.partial(tool, name=name, effects=effects)
    if not callable(fn) and not isinstance(fn, classmethod):
        raise wrong_argument("rk.tool", fn, "`@rk.tool`, or `@rk.tool(name=…, effects=…)`, above a function")
    if isinstance(fn, classmethod | staticmethod):
        return type(fn)(_wrap(_Tool(fn.__func__, sayable(name or fn.__name__), effects)))
    return _wrap(_Tool(fn, sayable(name or _name_of(fn)), effects))


def _name_of(fn: Function) -> str:
    """Return the name of a function; for a partial that of its function, for any other object that of its class."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__name__", None) or type(fn).__name__


def idempotency_key() -> str:
    """Return, inside a tool, a text that is the same whenever this call of this run is repeated, also in a fork.

    >>> @rk.tool(effects="idempotent")
    ... def refund(order: int) -> str:
    ...     return rk.idempotency_key()
    >>> with rk.record("refunds"):
    ...     len(refund(7))
    32
    """
    scope = current()
    if scope is None or scope.call is None:
        raise UsageError("idempotency_key() is for the inside of a tool, in a run")
    from hashlib import blake2b  # noqa: PLC0415 (slow to import; few tools need a key)

    parts = (scope.session.lineage.encode(), scope.path.encode(), scope.call.arguments)
    return blake2b(b"\0".join(parts), digest_size=16).hexdigest()


record_tool = tool


class _Tool:
    """One decorated function: how its arguments are named, and how its answers are rebuilt."""

    def __init__(self, fn: Function, name: str, effects: str) -> None:
        self.fn = fn
        self.name = name
        self.effects = effects
        parameters = list(signature_of(fn).parameters.values())
        self.receiver = ""
        """`self` or `cls` for a method."""
        if parameters and parameters[0].name in _RECEIVERS:
            self.receiver = parameters[0].name
        self.bind = _binder(signature_of(fn), self.receiver)
        self.parameters = Parameters(fn)
        self.values = ToolValues(name, fn)
        self.keep, self.give = self.values.keep, self.values.answer
        self.is_stream = inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
        """True if the agent's own code runs between the begin and the end of a call."""
        self.reach: Reach | None = None
        """Its possible side effects; None if there are none, and before the first call."""
        self.is_simple: bool | None = None
        """True for a plain function without side effects; None before the first call."""
        if isinstance(fn, FunctionType):
            TOOL_BODIES.add(fn.__code__)
        self.is_plain_function = not self.is_stream and not inspect.iscoroutinefunction(fn)

    def prepare(self) -> None:
        """Find its side effects on the first call: a function may be defined before the globals it uses."""
        reach = Reach(self.fn, receiver=self.receiver)
        if not reach.is_empty:
            self.reach = reach
        self.is_simple = reach.is_empty and self.is_plain_function

    def is_idle(self) -> bool:
        """True for a plain function that changes nothing the agent of the current run reads."""
        return self.is_plain_function and self.reach is not None and self.reach.has_nothing_to_look_at()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Live | None:
        """Return the frozen call; None outside of any run, if Python itself will refuse the arguments, or if a
        framework has already made the call."""
        scope = current()
        if scope is None or scope.session.over:
            scope = adopted(scope, self.name)
        if scope is None or (scope.call is not None and scope.call.hosted and scope.call.name == self.name):
            return None
        named = self.bind(args, kwargs)
        if named is None:
            return None
        is_plain = UNCHANGING.issuperset(map(type, named.values()))
        if not is_plain and scope.session.set_ordered is not None:
            note_order(self.name, named, scope.session.set_ordered)
        arguments = canonical(named)
        # What `pending_call` does, written out: it takes a sixth less time.
        number = next(scope.session.numbers)
        pending = PendingCall(
            TOOL,
            self.name,
            arguments,
            arguments,
            scope.path,
            scope.step,
            scope.parent,
            number,
            wall_time(),
            self.effects,
            self.parameters if scope.session.is_foreign else None,
        )
        return _Live(scope, pending, self, args, kwargs, named, arguments, is_plain)

    def answered_at_once(self, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallAnswer | None:
        """Return the recorded answer if no other call is running in this replay and nothing has to be reported.

        Return None for any other call, which goes through the seam.
        """
        answer_at_once = scope.session.answer_at_once
        if answer_at_once is None or scope.session.over:  # of a run that has ended: see `adopted`
            return None
        named = self.bind(args, kwargs)
        if named is None:
            return None
        return answer_at_once(scope, self.name, canonical(named))

    def give_items(self, outcome: CallAnswer) -> Replayed:
        """Return the items of a stream, its return value, and the exception it may end with."""
        items = [self.values.give(item, ITEM) for item in outcome.items_json or ()]
        replayed = Replayed(items)
        if outcome.result_json:
            replayed.result = self.values.give(outcome.result_json, END)
        if outcome.error is not None:
            replayed.error = self.values.error(outcome.error)
        return replayed


class _Live(Struct):  # created for every call: in a quarter of the time of a class with an `__init__`
    """One live call of a tool, which afterwards reports what a replay cannot repeat."""

    scope: Scope
    pending: PendingCall
    _spec: _Tool
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _named: dict[str, Any]
    _arguments: bytes
    _has_plain_arguments: bool
    _has_run: bool = False
    _context: Context | None = None
    _surroundings: dict[str, Any] | None = None

    def __call__(self) -> Any:
        """Make the call, with its own arguments or with others from a fork."""
        self._has_run = True
        spec, pending = self._spec, self.pending
        fn, override = spec.fn, pending.override
        if spec.is_simple is None:
            spec.prepare()
        if self._has_plain_arguments and override is None and (spec.is_simple or spec.is_idle()):
            # The common case: comparing within one context takes a third of the time of `_changes`.
            context = copy_context()
            try:
                return fn(*self._args, **self._kwargs)
            finally:
                pending.mutated = changed_context(context)
        pending.look_again = self._changes
        if not spec.is_stream:
            self._context = copy_context()
        if spec.reach is not None:
            self._surroundings = spec.reach.look(self._args)
        if override is None:
            return fn(*self._args, **self._kwargs)
        receiver = self._args[:1] if spec.receiver else ()
        return fn(*receiver, **override)

    def ended(self, error: BaseException | None = None) -> None:
        """Report effects of the call that a replay cannot repeat, compare or rebuild."""
        if not self._has_run:
            return
        if error is not None:
            self._spec.values.check_error(error)
        if DOLLAR in self._arguments and OPAQUE in self._arguments:
            report_uncompared(self.scope.session, self._spec.name, self._arguments)
        if self.pending.mutated:
            report_mutated(self.scope.session, self._spec.name, self.pending.mutated)

    def _changes(self) -> tuple[str, ...]:
        """Return the names of everything that differs from before the call."""
        self.pending.look_again = None
        changed: tuple[str, ...] = ()
        if not self._has_plain_arguments:
            changed = self._mutated_arguments()
        if self._surroundings is not None and self._spec.reach is not None:
            is_plain = self._spec.is_plain_function
            changed += self._spec.reach.changed_since(self._surroundings, self._args, is_plain=is_plain)
        if self._context is not None:
            changed += changed_context(self._context)
        if self.pending.jobs is not None:
            changed += tuple(self._changed_later(LeftoverJobs(self.pending.jobs), changed))
        return changed

    def _changed_later(self, jobs: LeftoverJobs, changed: tuple[str, ...]) -> Iterator[str]:
        """Yield the names of everything that the jobs which the call has left running may still change."""
        if jobs.is_empty:
            return
        names = [name for name, value in self._named.items() if type(value) not in UNCHANGING and jobs.hold(value)]
        if self._surroundings is not None and self._spec.reach is not None:
            names += self._spec.reach.changeable(self._args, jobs)
        yield from (name + LATER for name in names if name not in changed)

    def _mutated_arguments(self) -> tuple[str, ...]:
        """Return the names of the arguments that differ from before the call."""
        now_json = canonical(self._named)
        if now_json == self._arguments:
            return ()
        before, now = orjson.loads(self._arguments), orjson.loads(now_json)
        return tuple(name for name in now if name in before and before[name] != now[name])


def _wrap(spec: _Tool) -> Function:
    """Return the wrapper, with a twin as its `__wrapped__`, so that calling that one does not bypass the seam.

    The twin's own `__wrapped__` is the function, for lookups of signatures and sources.
    """
    call: Any = _shaped_like(spec)
    twin = FunctionType(call.__code__, call.__globals__, call.__name__, None, call.__closure__)
    call.__wrapped__ = functools.update_wrapper(twin, spec.fn)
    return call  # type: ignore[no-any-return]


def _shaped_like(spec: _Tool) -> Function:
    """Return a wrapper of the function's own kind, so that frameworks see what it is."""
    fn = spec.fn
    if inspect.isasyncgenfunction(fn):
        return _wrap_asyncgen(spec)
    if inspect.isgeneratorfunction(fn):
        return _wrap_generator(spec)
    if inspect.iscoroutinefunction(fn):
        return _wrap_async(spec)
    return _wrap_plain(spec)


def _wrap_plain(spec: _Tool) -> Function:
    fn = spec.fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is not None and not scope.path and scope.session.answer_at_once is not None:
            answer = spec.answered_at_once(scope, args, kwargs)
            if answer is not None:
                return spec.give(answer)
        live = spec.call(args, kwargs)
        if live is None:
            return fn(*args, **kwargs)
        try:
            result = through(live.scope, live.pending, live, spec.give, spec.keep)
        except BaseException as error:
            live.ended(error)
            raise
        live.ended()
        return result

    return call


def _wrap_async(spec: _Tool) -> Function:
    fn = spec.fn

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is not None and not scope.path and scope.session.answer_at_once is not None:
            answer = spec.answered_at_once(scope, args, kwargs)
            if answer is not None:
                return spec.give(answer)
        live = spec.call(args, kwargs)
        if live is None:
            return await fn(*args, **kwargs)
        try:
            result = await athrough(live.scope, live.pending, live, spec.give, spec.keep)
        except BaseException as error:
            live.ended(error)
            raise
        live.ended()
        return result

    return call


def _wrap_generator(spec: _Tool) -> Function:
    fn = spec.fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        live = spec.call(args, kwargs)
        if live is None:
            items = fn(*args, **kwargs)
        else:
            items = stream(live.scope, live.pending, live, spec.give_items, spec.keep)
        resume = items.__next__
        try:
            while True:
                item = resume()
                # `yield from` would lose the value that `close` returns since Python 3.13.
                try:
                    sent = yield item
                except GeneratorExit:
                    returned = items.close()
                    if returned is None:
                        raise
                    break
                except BaseException as error:  # noqa: BLE001 (thrown in by the caller, for the tool to handle)
                    resume = functools.partial(items.throw, error)
                else:
                    resume = functools.partial(items.send, sent)
        except StopIteration as stop:
            returned = stop.value
        except BaseException as error:
            if live is not None:
                live.ended(error)
            raise
        if live is not None:
            live.ended()
        return returned

    return call


def _wrap_asyncgen(spec: _Tool) -> Function:
    fn = spec.fn

    @functools.wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        live = spec.call(args, kwargs)
        if live is None:
            items = fn(*args, **kwargs)
        else:
            items = astream(live.scope, live.pending, live, spec.give_items, spec.keep)
        resume = items.__anext__
        try:
            while True:
                item = await resume()
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 (thrown in by the caller, for the tool to handle)
                    resume = functools.partial(items.athrow, error)
                else:
                    resume = functools.partial(items.asend, sent)
        except StopAsyncIteration:
            if live is not None:
                live.ended()
        except BaseException as error:
            if live is not None:
                live.ended(error)
            raise
        finally:
            await items.aclose()

    return call


Binder = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]


def _binder(signature: inspect.Signature, receiver: str) -> Binder:
    """Return a function that turns (args, kwargs) into named arguments, or None if Python will refuse them."""
    parameters = list(signature.parameters.values())
    if all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
        return _simple_binder(parameters, receiver)
    rest = parameters[-1].name if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else ""

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        named = dict(bound.arguments)
        named.pop(receiver, None)
        more = named.pop(rest, {})
        if named.keys().isdisjoint(more):  # `**rest` counts as arguments, as in a model's call
            return {**named, **more}
        return {**named, rest: more}

    return bind


def _simple_binder(parameters: list[inspect.Parameter], receiver: str) -> Binder:
    """Return a fast binder for ordinary tools: `Signature.bind` takes longer than the rest of a call."""
    names = tuple(p.name for p in parameters)
    known, total, is_function = frozenset(names), len(names), not receiver
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
        if receiver:
            del named[receiver]
        return named

    return bind
