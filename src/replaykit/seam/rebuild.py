"""Rebuild recorded results and exceptions.

A recording names a class. It is looked up among the names that the tool's annotation, its module and its closure use,
and in the very module that the recording names, if that is loaded. Enums, dataclasses, named tuples, pydantic models,
attrs classes and exceptions are rebuilt field by field: no constructor, validator or setter of the class runs. Values
that cannot be rebuilt are counted in `Rebuilder.unbuilt`. The functions on hints analyse annotations, to find the
possible classes of a value.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, Flag
from functools import lru_cache
from typing import Any, get_args, get_origin

import msgspec
import orjson
from msgspec import Struct

from replaykit.errors import Unreplayable
from replaykit.model.arrays import checked_shape, dtype_parts, loaded_numpy
from replaykit.model.events import ErrorInfo
from replaykit.model.values import READERS, Json, Opaque, Raw, freeze, is_tagged, opaque_in_words, thaw
from replaykit.seam import shared_parts
from replaykit.seam.classes import Kind, defined, field_names, find_class, kind_of, members

_SEQUENCES: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
# Tags that no data but ours has.
_OBJECTS = ("$obj", "$error", "$numpy")
# Errors that content raises if it lacks the form which its class needs.
_WRONG = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class Unbuilt(Opaque):
    """Stands for a value that cannot be rebuilt. It may be passed on; any other use is refused."""

    __slots__ = ("_report",)

    def __init__(self, type_name: str, report: Callable[[str], None] | None = None) -> None:
        super().__init__(type_name)
        self._report = report

    def _refuse(self, *_: Any) -> Any:
        if self._report is not None:
            self._report(self.type_name)
        raise Unreplayable(
            f"{opaque_in_words(self.type_name)} stood here when this was recorded; it cannot be rebuilt",
            hint="Return plain data, a dataclass or a pydantic model from the tool, and record it again.",
        )

    def __getattr__(self, name: str) -> Any:
        return self._refuse()

    __hash__ = Opaque.__hash__
    __bool__ = __call__ = __iter__ = __len__ = __getitem__ = __contains__ = __next__ = __enter__ = __exit__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __int__ = __float__ = __index__ = __str__ = __format__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __await__ = __aiter__ = __setitem__ = _refuse


def value_of(text: Raw, hint: Any = None, namespace: Mapping[str, Any] | None = None) -> Json:
    """Return the recorded value, rebuilt as far as possible."""
    data = bytes(text)
    value = orjson.loads(data)
    return Rebuilder(namespace or {}).value(value, hint) if is_tagged(data) else value


def rebuild_error(info: ErrorInfo, namespace: Mapping[str, Any]) -> BaseException:
    """Return the recorded exception, as its own class if `namespace` or its module has it."""
    return Rebuilder(namespace).error(info)


class Rebuilder(Struct, eq=False):
    """Rebuilds recorded values, with the classes that one tool may use."""

    _namespace: Mapping[str, Any]
    _report: Callable[[str], None] | None = None
    unbuilt: list[str] = []
    """The types of values that could not be rebuilt."""
    _details: int = 0  # above 0 inside details that few read, such as the attributes of an exception

    def value(self, frozen: Json, hint: Any = None) -> Any:
        """Rebuild a frozen value; the hint is the annotation of its place."""
        if type(frozen) is list:
            return [self.value(item, item_hint(hint, i)) for i, item in enumerate(frozen)]
        if type(frozen) is not dict:
            return frozen
        if len(frozen) == 1:
            ((tag, content),) = frozen.items()
            if tag in READERS:
                try:
                    return self._tagged(tag, content, hint)
                except _WRONG:  # plain data that starts with "$", or a damaged object
                    if tag in _OBJECTS:
                        self.unbuilt.append(f"damaged {tag}")
                    return frozen
        return {key: self.value(item, member_hint(hint, key)) for key, item in frozen.items()}

    def error(self, info: ErrorInfo) -> BaseException:
        """Return the recorded exception, or one that handlers of its bases catch."""
        from replaykit.seam.recorded_errors import make_error  # noqa: PLC0415 (slow to import; most calls do not fail)

        return make_error(info, self._namespace, self._detail, self._missing_error)

    def _tagged(self, tag: str, content: Json, hint: Any) -> Any:
        if tag == "$obj":
            return self._object(content, hint)
        if tag == "$error":
            return self.error(msgspec.convert(_as_info(content), ErrorInfo))
        if tag == "$numpy":
            return self._array(content)
        if tag in ("$opaque", "$ref"):
            return self._missing(content)
        if tag in _SEQUENCES:
            return _SEQUENCES[tag]([self.value(item, item_hint(hint, i)) for i, item in enumerate(content)])
        if tag == "$dict":
            return {self.value(key): self.value(item, member_hint(hint, None)) for key, item in content}
        return READERS[tag](content)

    def _detail(self, frozen: Json) -> Any:
        """Rebuild a detail: what cannot be rebuilt in it counts only when it is used."""
        self._details += 1
        try:
            return self.value(frozen)
        finally:
            self._details -= 1

    def _missing(self, type_name: Json) -> Unbuilt:
        if type(type_name) is not str:
            raise TypeError(type_name)
        if self._details:
            return Unbuilt(type_name, self._report)
        self.unbuilt.append(type_name)
        return Unbuilt(type_name)

    def _missing_error(self, info: ErrorInfo) -> None:
        # No code here can name a class of a module that is not loaded, so a stand-in makes no difference.
        if not self._details and info.module in sys.modules:
            self.unbuilt.append(f"{info.module}.{info.type}")

    def _object(self, content: Json, hint: Any) -> Any:
        name, fields, module, detail = (list(content) + 2 * [None])[:4]
        if type(content) is not list or type(name) is not str or type(module) not in (str, type(None)):
            raise TypeError(content)
        try:
            if module is not None:
                if (module, name) == (shared_parts.MODULE, shared_parts.NAME):
                    return shared_parts.joined(self.value(fields, hint), detail)
                from replaykit.seam import libraries  # noqa: PLC0415 (slow to import; few recordings hold such objects)

                if libraries.is_known(module, name):
                    return libraries.build_library_object(module, name, self.value(fields))
            return self._rebuild(name, fields, module, detail, hint)
        except _WRONG:
            self.unbuilt.append(f"{module}.{name}" if module else name)
            return self.value(fields)

    def _rebuild(self, name: str, fields: Json, module: str | None, detail: Json, hint: Any) -> Any:
        kind = self._class(module, name, hint)
        which = None if kind is None else kind_of(kind)
        if kind is None or which is None:
            raise LookupError(name)
        if which is Kind.ENUM:
            return _member(kind, fields, detail)
        hints = {}
        if module is None:  # an older recording: annotations tell its classes
            hints = _known_field_hints(kind)
        return self._record(kind, which, fields, detail, hints)

    def _class(self, module: str | None, name: str, hint: Any) -> type | None:
        if module is not None:
            found = find_class(module, name, self._namespace)
            if found is not None:
                return found
        simple = name.rpartition(".")[2]
        by_hint = next((kind for kind in classes_in(hint) if kind.__name__ == simple), None)
        return by_hint or find_class(None, name, self._namespace)

    def _record(self, kind: type, which: Kind, fields: Json, detail: Json, hints: dict[str, Any]) -> Any:
        if type(fields) is not dict:
            raise TypeError(fields)
        names = field_names(kind)
        more = fields.keys() - set(names)
        values = {key: self.value(fields[key], hints.get(key)) for key in names if key in fields}
        if which is Kind.MODEL:
            # Older recordings hold a model's extra values among its fields.
            extra = {key: self.value(fields[key]) for key in fields if key in more}
            return _model(kind, values, extra, self._parts(detail))
        if len(values) != len(names) and which in (Kind.NAMED_TUPLE, Kind.STRUCT):
            raise ValueError(f"{kind.__name__} has other fields")
        if which is Kind.NAMED_TUPLE:
            return tuple.__new__(kind, values.values())
        if which is Kind.STRUCT:
            return kind(**values)
        beside = {name: part for name, part in self._parts(detail).items() if name not in values}
        return _filled(kind, {**values, **beside})

    def _parts(self, detail: Json) -> dict[str, Any]:
        """Return the values of an object beside its fields, part by part."""
        if type(detail) is not dict:
            return {}
        return {key: self._detail(item) for key, item in detail.items()}

    def _array(self, content: Json) -> Any:
        numpy = loaded_numpy()
        parts = dtype_parts(content[0])
        if parts is None:
            raise TypeError(content)
        if numpy is None:
            self.unbuilt.append("numpy.ndarray" if len(content) > 2 else "numpy.generic")
            return thaw({"$numpy": content})
        if len(content) == 2:
            return _number(numpy, content[0], self.value(content[1]))
        return _array(numpy, content, self.value)


def _as_info(content: Json) -> Json:
    """Prepare an error's content for `msgspec.convert`: its values stay JSON text."""
    if type(content) is not dict:
        raise TypeError(content)
    texts = {key: Raw(orjson.dumps(content[key])) for key in ("args", "attributes") if key in content}
    return {**content, **texts}


def _member(kind: type, value: Json, name: Json) -> Any:
    """Return the member of an enum, by name or value; a combination of flags by number."""
    named = defined(kind, "_member_map_")
    if type(named) is not dict:
        raise LookupError(kind)
    if type(name) is str and name in named:
        return named[name]
    expected = (value, freeze(thaw(value)))
    for member in named.values():
        if freeze(member._value_) in expected:
            return member
    if type(value) is int and _combines_itself(kind):
        return kind(value)
    raise LookupError(value)


def _combines_itself(kind: type) -> bool:
    """True for flags whose combinations are created by Python's own code only."""
    is_flag = issubclass(kind, Flag) and defined(kind, "_missing_") is members(Flag)["_missing_"]
    return is_flag and type(kind) is type(Enum) and defined(kind, "_member_type_") in (object, int)


def _filled(kind: type, values: dict[str, Any]) -> Any:
    """Return an object with these values, which are set without calling a setter."""
    instance: Any = object.__new__(kind)
    for name, value in values.items():
        shared_parts.set_field(instance, name, value)
    return instance


def _model(kind: type, values: dict[str, Any], extra: dict[str, Any], parts: dict[str, Any]) -> Any:
    """Return a pydantic model, filled part by part; neither validators nor `model_post_init` run."""
    instance: Any = object.__new__(kind)
    more = {**extra, **parts.get("extra", {})}
    config = defined(kind, "model_config") or {}
    object.__setattr__(instance, "__dict__", values)
    object.__setattr__(instance, "__pydantic_fields_set__", set(parts.get("set", values)))
    object.__setattr__(instance, "__pydantic_extra__", more if config.get("extra") == "allow" else None)
    object.__setattr__(instance, "__pydantic_private__", parts.get("private") or None)
    return instance


def _number(numpy: Any, dtype: str, value: Any) -> Any:
    if dtype_parts(dtype) is None or dtype.lstrip("<>|=")[:1] == "O":
        raise TypeError(dtype)
    if dtype.lstrip("<>|=")[0] in "mM":
        return numpy.array(value, dtype="i8").astype(dtype)[()]
    return numpy.array(value, dtype=dtype)[()]


def _array(numpy: Any, content: Json, rebuild: Callable[[Json], Any]) -> Any:
    dtype, items, shape = content
    kind = dtype.lstrip("<>|=")[0]
    checked_shape(shape)
    if isinstance(items, str):
        data = READERS["$bytes"](items)
        stored = dtype if kind not in "mM" else "<i8"
        flat = numpy.frombuffer(data, dtype=stored).astype(dtype)
    elif kind == "O":
        flat = numpy.empty(len(items), dtype=object)
        flat[:] = [rebuild(item) for item in items]
    else:
        values = [rebuild(item) for item in items]
        flat = numpy.array(values, dtype="i8" if kind in "mM" else dtype).astype(dtype)
    return flat.reshape(shape)


_STREAMS = ("Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator")


def return_hint(fn: Any) -> Any:
    """Return the function's resolved return annotation; None if there is none."""
    try:
        return typing.get_type_hints(fn, include_extras=False).get("return")
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return getattr(fn, "__annotations__", {}).get("return")


def stream_item_hint(hint: Any) -> Any:
    """Return the annotation of the items of a stream with this return annotation."""
    for option in options_of(hint):
        origin = get_origin(option)
        if getattr(origin, "__name__", "") in _STREAMS and get_args(option):
            return get_args(option)[0]
    return None


def stream_return_hint(hint: Any) -> Any:
    """Return the annotation of the return value of a generator with this return annotation."""
    for option in options_of(hint):
        if getattr(get_origin(option), "__name__", "") == "Generator" and len(get_args(option)) == 3:
            return get_args(option)[2]
    return None


def item_hint(hint: Any, index: int) -> Any:
    """Return the annotation of an item of a sequence with this annotation."""
    for option in options_of(hint):
        arguments = get_args(option)
        if not arguments:
            continue
        if get_origin(option) is tuple and arguments[-1] is not Ellipsis:
            return dict(enumerate(arguments)).get(index)
        return arguments[0]
    return None


def member_hint(hint: Any, key: str | None) -> Any:
    """Return the annotation of a member of a mapping with this annotation."""
    for option in options_of(hint):
        if typing.is_typeddict(option):
            return field_hints(option).get(key or "")
        arguments = get_args(option)
        if len(arguments) == 2:
            return arguments[1]
    return None


def classes_in(hint: Any) -> Iterator[type]:
    """Yield the classes that a hint can mean, and those inside them."""
    for option in options_of(hint):
        yield from _with_subclasses(option)


def field_hints(kind: Any, *, include_extras: bool = False) -> dict[str, Any]:
    """Return the resolved annotations of a class's fields; empty if they cannot be resolved."""
    try:
        return typing.get_type_hints(kind, include_extras=include_extras)
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return {}


_known_field_hints = lru_cache(256)(field_hints)  # resolving annotations is slow


def options_of(hint: Any) -> Iterator[Any]:
    """Yield the classes and generics that a hint can mean, from unions, aliases and wrappers."""
    if isinstance(hint, typing.TypeVar):
        yield from options_of(hint.__bound__)
        for constraint in hint.__constraints__:
            yield from options_of(constraint)
    elif hasattr(hint, "__supertype__"):
        yield from options_of(hint.__supertype__)
    elif hasattr(hint, "__value__"):  # a `type X = …` alias
        yield from options_of(hint.__value__)
    elif get_origin(hint) in (typing.Union, types.UnionType):
        for argument in get_args(hint):
            yield from options_of(argument)
    elif get_origin(hint) in (typing.Annotated, typing.Final, typing.ClassVar):
        yield from options_of(get_args(hint)[0])
    elif hint is not None:
        yield hint


def _with_subclasses(option: Any) -> Iterator[type]:
    origin = get_origin(option) or option
    if isinstance(origin, type) and origin is not object:
        yield origin
        if origin.__module__ == "builtins":
            return
        children: list[type] = type.__subclasses__(origin)
        for child in children:
            yield from _with_subclasses(child)
