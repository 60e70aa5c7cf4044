"""Encode any Python value as JSON text that preserves its meaning, and decode it again.

Plain JSON values stay as they are. What JSON cannot express is an object with one `$` key:

    $tuple $set $frozenset   list of items          $int $float $decimal  text
    $dict                    list of [key, value]   $datetime $date $time ISO text
    $bytes $bytearray        base64                 $timedelta            [days, seconds, microseconds]
    $str                     base64 of UTF-8 with   $uuid $path           text
                             surrogates             $complex              [real, imaginary]
    $obj                     [class name, content], in a tool's result also [.., module, detail]
    $error                   an exception: `type`, `module`, `message`, `args`, `attributes`, `bases`
    $numpy                   a scalar as [dtype, value], an array as [dtype, items, shape]
    $ref                     the name of a function, class or module
    $opaque                  the name of a type without a form

An object that happens to look like one of these is written as `$dict`. Decoding never imports, calls or unpickles
anything that the text names; an unknown `$` key is plain data.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import threading
import uuid
from collections.abc import Callable
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias

import msgspec
import orjson

from replaykit.model.arrays import array_content, is_array, is_number, number_content, plain_array

Json: TypeAlias = Any
"""A user's payload: any JSON value, or a Python value that `freeze` turns into one."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object."""

Raw = msgspec.Raw
"""JSON text that is already encoded."""

read_members = msgspec.json.Decoder(dict[str, Raw]).decode
"""Return the members of a JSON object, each as text."""
read_items = msgspec.json.Decoder(list[Raw]).decode
"""Return the items of a JSON list, each as text."""

Writer: TypeAlias = Callable[[Any, int, "Forms | None"], Json]

MAX_DEPTH = 240  # orjson stops at 254

_ATOMS = frozenset({str, int, bool, type(None)})
_NAMES = frozenset({str})
DOLLAR = ord("$")  # an int: `bytes in bytes` first tries the operand as a number, and pays for the failure
# Makes orjson refuse what `freeze` has a form for, as far as orjson can be told to.
_AS_IT_IS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SORTED = orjson.OPT_SORT_KEYS | _AS_IT_IS
_BUFFER_BYTES = 4096
NULL = Raw(b"null")
ABSENT = Raw(b"")
"""No value at all, as opposed to `null`."""


class Opaque:
    """Stands for a recorded value whose type has no JSON form."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<opaque {self.type_name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.type_name == self.type_name

    def __hash__(self) -> int:
        return hash(self.type_name)


# The type names in `$opaque` of values that cannot be encoded.
_TOO_DEEP, _HOLDS_ITSELF = "nested too deeply", "a value that holds itself"


def opaque_in_words(type_name: str) -> str:
    """Return the phrase for a value without a form."""
    if type_name == _TOO_DEEP:
        return "a value that is nested too deeply"
    if type_name == _HOLDS_ITSELF:
        return type_name
    return f"a {type_name}"


class Forms(Protocol):
    """Forms of objects beyond the plain ones, for recorders that can rebuild more than plain data."""

    def freeze(self, value: Json, depth: int) -> Json | None:
        """Return the frozen object, or None if it has no form of its own."""


class _Around(threading.local):
    """The containers around the value being frozen, by id: a value among them contains itself."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


_AROUND = _Around()


def sayable(text: str) -> str:
    """Return the text with lone surrogates escaped, which no file could hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def encode(value: Json) -> bytes:
    """Encode any value as JSON text, keys in their own order."""
    return _dump(value, _AS_IT_IS)


def canonical(value: Json) -> bytes:
    """Encode any value as JSON text with sorted keys: equal values give equal bytes."""
    return _plain_text(value, _SORTED) or _frozen_text(value, _SORTED)


def encode_read(value: Json) -> bytes:
    """Encode a value that was read from JSON: like `encode`, but faster."""
    return _dump_read(value, _AS_IT_IS)


def canonical_read(value: Json) -> bytes:
    """Encode a value that was read from JSON: like `canonical`, but faster."""
    return _dump_read(value, _SORTED)


def raw(value: Json) -> Raw:
    """Encode a value as the field type that events carry."""
    return Raw(_dump(value, _AS_IT_IS))


def raw_plain(value: Json) -> Raw | None:
    """Return `raw(value)` for plain JSON; None for any other value."""
    text = _plain_text(value, _AS_IT_IS)
    if text is None:
        return None
    return Raw(text)


def raw_in(value: Json, forms: Forms) -> Raw:
    """Encode a value like `raw`, with objects in these forms."""
    return Raw(dumps(freeze(value, 0, forms), _AS_IT_IS))


def encode_pretty(value: object) -> bytes:
    """Encode structs and plain values for a file that people read: indented, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def decode(text: bytes | Raw) -> Json:
    """Decode the text of `encode`; instances of classes come back as plain dicts."""
    data = bytes(text) if isinstance(text, Raw) else text
    value = orjson.loads(data)
    if not is_tagged(data):
        return value
    try:
        return thaw(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_tagged(text: bytes) -> bool:
    """Return whether a JSON text may contain a tagged form."""
    return DOLLAR in text and text.find(b'{"$') >= 0


def dumps(value: Json, option: int | None = None) -> bytes:
    """Call `orjson.dumps` for a text that is stored: orjson keeps a 4 KB buffer behind every short one, so copy
    those."""
    text = orjson.dumps(value, option=option)
    if len(text) < _BUFFER_BYTES:
        return b"%b" % text
    return text


def _dump_read(value: Json, option: int) -> bytes:
    try:
        text = dumps(value, option)
    except (TypeError, RecursionError):
        return _dump(value, option)
    return _dump(value, option) if is_tagged(text) else text  # an object that looks tagged would not survive decoding


def _dump(value: Json, option: int) -> bytes:
    return _plain_text(value, option) or _frozen_text(value, option)


def _frozen_text(value: Json, option: int) -> bytes:
    return dumps(freeze(value), option)


def _plain_text(value: Json, option: int) -> bytes | None:
    try:
        text = orjson.dumps(value, option=option)
        if len(text) < _BUFFER_BYTES:  # as in `dumps`, without a call
            text = b"%b" % text
        if _holds_plain(value) and (not is_tagged(text) or is_plain(value)):
            return text
    except (TypeError, RecursionError):
        pass  # a huge integer, a lone surrogate, a cycle or deep nesting: `freeze` handles these
    return None


def _holds_plain(value: Json) -> bool:
    """Return `is_plain(value)` for a value that orjson has written: keys are strings, and tags show in the text.

    Plain loops, no map() and no generator: this runs for every call, on many small objects.
    """
    kind = type(value)
    if kind is dict:
        items = value.values()
    elif kind is list:
        items = value
    else:
        return kind in _ATOMS or (kind is float and math.isfinite(value))
    for item in items:
        if type(item) not in _ATOMS and not _holds_plain(item):
            return False
    return True


def is_plain(value: Json) -> bool:
    """Return whether orjson writes the value as it is and reads it back unchanged."""
    kind = type(value)
    if kind is dict:
        if not _NAMES.issuperset(map(type, value)) or (len(value) == 1 and next(iter(value))[:1] == "$"):
            return False
        items = value.values()
    elif kind is list:
        items = value
    else:
        return kind in _ATOMS or (kind is float and math.isfinite(value))
    if _ATOMS.issuperset(map(type, items)):
        return True
    for item in items:
        if type(item) not in _ATOMS and not is_plain(item):
            return False
    return True


def freeze(value: Json, depth: int = 0, forms: Forms | None = None) -> Json:
    """Return a JSON value that fully describes `value`, with tagged forms for what JSON cannot express."""
    if depth > MAX_DEPTH:
        return {"$opaque": _TOO_DEEP}
    if type(value) in _ATOMS:
        return _WRITERS[type(value)](value, depth, forms)
    around = _AROUND.ids
    if id(value) in around:
        return {"$opaque": _HOLDS_ITSELF}
    around.add(id(value))
    try:
        return _WRITERS.get(type(value), _freeze_instance)(value, depth, forms)
    except Exception:
        if type(value) in _WRITERS:
            raise
        # Properties and iterators of user classes may raise anything.
        return opaque(value)
    finally:
        around.discard(id(value))


def thaw(value: Json) -> Json:
    """Return the Python value of a frozen one; `$obj` becomes its content as plain data."""
    if type(value) is list:
        return list(map(thaw, value))  # a comprehension would take a second stack frame per level on Python 3.11
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        reader = READERS.get(key)
        if reader is not None:
            try:
                return reader(content)
            except (TypeError, ValueError, ArithmeticError, KeyError):
                return value  # plain data that happens to start with "$"
    return dict(zip(value, map(thaw, value.values()), strict=True))


def opaque(value: Json) -> Json:
    """Return the form of a value that has no other: the name of its type."""
    return {"$opaque": f"{type(value).__module__}.{type(value).__qualname__}"}


def _freeze_int(value: int, _depth: int, _forms: Forms | None = None) -> Json:
    if -(2**63) <= value < 2**64:
        return value
    return {"$int": _int_text(value)}


def _int_text(value: int) -> str:
    return hex(value)  # unlike decimal text, hex has no length limit (sys.set_int_max_str_digits)


def _freeze_float(value: float, _depth: int, _forms: Forms | None = None) -> Json:
    if math.isfinite(value):
        return value
    return {"$float": repr(value)}


def _freeze_str(value: str, _depth: int, _forms: Forms | None = None) -> Json:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"$str": _b64(value.encode("utf-8", "surrogatepass"))}
    return value


def _freeze_dict(value: dict[Json, Json], depth: int, forms: Forms | None = None) -> Json:
    named = all(type(key) is str and type(_freeze_str(key, 0)) is str for key in value)
    if named and not (len(value) == 1 and next(iter(value)).startswith("$")):
        return {key: freeze(item, depth + 1, forms) for key, item in value.items()}
    return {"$dict": [[freeze(k, depth + 3, forms), freeze(v, depth + 3, forms)] for k, v in value.items()]}


def _freeze_set(tag: str) -> Writer:
    def write(value: set[Json], depth: int, forms: Forms | None) -> Json:
        items = [freeze(item, depth + 2, forms) for item in value]
        return {tag: sorted(items, key=lambda item: orjson.dumps(item, option=orjson.OPT_SORT_KEYS))}

    return write


def _freeze_datetime(value: dt.datetime, depth: int, forms: Forms | None = None) -> Json:
    is_told_by_text = not value.fold and not isinstance(getattr(value.tzinfo, "key", None), str)
    if forms is not None and not is_told_by_text:
        return forms.freeze(value, depth)  # the text has only the offset
    return {"$datetime": value.isoformat()}


def _freeze_instance(value: Json, depth: int, forms: Forms | None) -> Json:
    """Freeze a value by what it is an instance of."""
    if isinstance(value, Opaque):
        return {"$opaque": value.type_name}
    frozen = forms.freeze(value, depth) if forms is not None else None
    if frozen is not None:
        return frozen
    name = type(value).__name__
    if isinstance(value, Enum):
        return {"$obj": [name, freeze(value.value, depth + 2, forms)]}
    if isinstance(value, BaseException):
        return {"$error": _error_content(value, depth)}
    fields = _object_fields(value)
    if fields is not None:
        return {"$obj": [name, {key: freeze(item, depth + 3, forms) for key, item in fields.items()}]}
    return _freeze_other(value, depth, forms)


def _freeze_other(value: Json, depth: int, forms: Forms | None) -> Json:
    if is_number(value):
        return _freeze_number(value, depth, forms)
    if is_array(value):
        content = array_content(value, lambda item: freeze(item, depth + 3, forms))
        if content is None:
            return opaque(value)
        return {"$numpy": content}
    from pathlib import PurePath  # noqa: PLC0415 (slow to import; few agents use paths)

    if isinstance(value, PurePath):
        return {"$path": str(value)}
    base = plain_base(value)
    if base is not None:
        return freeze(_PLAIN_BASES[base](value), depth + 1, forms)
    reference = _reference(value)
    if reference:
        return {"$ref": reference}
    return opaque(value)


def _freeze_number(value: Any, depth: int, forms: Forms | None) -> Json:
    """Freeze a NumPy scalar: as a plain number for comparisons, or with its dtype to be rebuilt."""
    plain = number_content(value)
    if plain is None:
        return opaque(value)
    content = freeze(plain, depth + 2, forms)
    is_moment = value.dtype.kind in "mM"
    if forms is None and not is_moment:
        return content
    return {"$numpy": [value.dtype.str, content]}


def plain_base(value: Json) -> type | None:
    """Return the plain type that the value is an instance of; None if there is none."""
    return next((base for base in _PLAIN_BASES if isinstance(value, base)), None)


def as_plain(value: Json, base: type) -> Json:
    """Convert the value to the plain type that it is an instance of."""
    return _PLAIN_BASES[base](value)


def _error_content(error: BaseException, depth: int) -> Json:
    args = [freeze(item, depth + 4) for item in error.args]
    return {"type": type(error).__qualname__, "args": {"$tuple": args}}


def _reference(value: Json) -> str:
    """Return the name by which the program finds the same function, class or module; empty if there is none.

    The module is left out: it is `__main__` in a program that is run, and has a name in one that is imported.
    """
    if isinstance(value, ModuleType):
        return value.__name__
    if not isinstance(value, type | FunctionType | BuiltinFunctionType):
        return ""
    if not isinstance(getattr(value, "__self__", None), ModuleType | None):
        return ""  # a method: its name says nothing about its object
    if "<" in value.__qualname__:
        return ""
    return value.__qualname__


def record_fields(kind: Any) -> list[str] | None:
    """Return the field names of a record-like class (dataclass, struct, pydantic, attrs, named tuple), or None."""
    if hasattr(kind, "__dataclass_fields__"):
        return [name for name, field in kind.__dataclass_fields__.items() if field._field_type.name == "_FIELD"]
    if hasattr(kind, "__struct_fields__"):
        return list(kind.__struct_fields__)
    if hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):  # pydantic
        return list(kind.model_fields)
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return list(kind._fields)
    return None


def _object_fields(value: Json) -> JsonObject | None:
    """Return the fields of a record-like object, or None if it is not one."""
    names = record_fields(type(value))
    if names is None:
        return None
    if hasattr(value, "model_fields_set"):
        extra = getattr(value, "model_extra", None)
    else:
        extra = None
    return {name: getattr(value, name) for name in [*names, *(extra or ())] if hasattr(value, name)}


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _items(tag: str) -> Writer:
    return lambda value, depth, forms: {tag: [freeze(item, depth + 2, forms) for item in value]}


# Instances of subclasses are written as the plain type.
_PLAIN_BASES: dict[type, Callable[[Any], Any]] = {
    dict: dict,
    list: list,
    str: lambda v: str.__str__(v),
    int: lambda v: int.__int__(v),
    float: lambda v: float.__float__(v),
    bytes: bytes,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    dt.datetime: lambda v: dt.datetime.fromisoformat(v.isoformat()),
}

_WRITERS: dict[type, Writer] = {
    type(None): lambda v, *_: v,
    bool: lambda v, *_: v,
    int: _freeze_int,
    float: _freeze_float,
    str: _freeze_str,
    list: lambda v, depth, forms: [freeze(item, depth + 1, forms) for item in v],
    dict: _freeze_dict,
    tuple: _items("$tuple"),
    set: _freeze_set("$set"),
    frozenset: _freeze_set("$frozenset"),
    bytes: lambda v, *_: {"$bytes": _b64(v)},
    bytearray: lambda v, *_: {"$bytearray": _b64(bytes(v))},
    memoryview: lambda v, *_: {"$bytes": _b64(bytes(v))},
    complex: lambda v, depth, _: {"$complex": [freeze(v.real, depth + 1), freeze(v.imag, depth + 1)]},
    dt.datetime: _freeze_datetime,
    dt.date: lambda v, *_: {"$date": v.isoformat()},
    dt.time: lambda v, *_: {"$time": v.isoformat()},
    dt.timedelta: lambda v, *_: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    decimal.Decimal: lambda v, *_: {"$decimal": str(v)},
    uuid.UUID: lambda v, *_: {"$uuid": str(v)},
    Raw: lambda v, *_: orjson.loads(bytes(v)) if v else None,
    Opaque: lambda v, *_: {"$opaque": v.type_name},
}


def _read_obj(content: Json) -> Json:
    name, fields = content[:2]
    if type(name) is not str or type(content) is not list:
        raise TypeError(name)
    return thaw(fields)


def _read_error(content: Json) -> Json:
    if type(content) is not dict or type(content.get("type")) is not str:
        raise TypeError(content)
    return {key: thaw(item) for key, item in content.items()}


def _read_path(content: Json) -> Json:
    from pathlib import PurePath  # noqa: PLC0415 (slow to import, and needed only here)

    return PurePath(_read_text(content))


def _read_list(content: Json) -> list[Json]:
    if type(content) is not list:
        raise TypeError(content)
    return list(map(thaw, content))


def _read_text(content: Json) -> str:
    if type(content) is not str:
        raise TypeError(content)
    return content


READERS: dict[str, Callable[[Json], Json]] = {
    "$tuple": lambda v: tuple(_read_list(v)),
    "$set": lambda v: set(_read_list(v)),
    "$frozenset": lambda v: frozenset(_read_list(v)),
    "$dict": lambda v: {thaw(key): thaw(item) for key, item in v},
    "$int": lambda v: int(_read_text(v), 16),
    "$float": lambda v: float(_read_text(v)),
    "$str": lambda v: _unb64(_read_text(v)).decode("utf-8", "surrogatepass"),
    "$bytes": lambda v: _unb64(_read_text(v)),
    "$bytearray": lambda v: bytearray(_unb64(_read_text(v))),
    "$complex": lambda v: complex(*map(thaw, v)),
    "$datetime": lambda v: dt.datetime.fromisoformat(_read_text(v)),
    "$date": lambda v: dt.date.fromisoformat(_read_text(v)),
    "$time": lambda v: dt.time.fromisoformat(_read_text(v)),
    "$timedelta": lambda v: dt.timedelta(*v),
    "$decimal": lambda v: decimal.Decimal(_read_text(v)),
    "$uuid": lambda v: uuid.UUID(_read_text(v)),
    "$path": _read_path,
    "$obj": _read_obj,
    "$error": _read_error,
    "$numpy": lambda v: plain_array(v, thaw),
    "$ref": lambda v: Opaque(_read_text(v)),
    "$opaque": lambda v: Opaque(_read_text(v)),
}
