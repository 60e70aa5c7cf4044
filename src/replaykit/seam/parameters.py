"""Parameters of a tool: reduce the arguments of a call to those that a model would have written.

A foreign trace holds the arguments that a model wrote. The call of the function has more: defaults that the model did
not mention, objects built from its JSON, and values injected by the framework. `model_arguments` removes all of that,
so that the two can be compared. A value that differs from the default always stays.

`note_order` warns of arguments in the order of a set, which differs in every process, so that a replay cannot repeat
the call. A list does not show where its order comes from; but if it is exactly the order of a set of its items, and no
other order explains it, it most likely came from one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import inspect
import math
import typing
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, get_args, get_origin

import orjson

from replaykit.model.values import Json, JsonObject, canonical, record_fields
from replaykit.seam.own_code import Function
from replaykit.seam.rebuild import field_hints, item_hint, member_hint, options_of
from replaykit.seam.results import namespace_of

_FRAMEWORKS = frozenset(
    {
        "agent_framework",
        "agents",
        "agno",
        "autogen_core",
        "fastmcp",
        "google",
        "langchain",
        "langchain_core",
        "langgraph",
        "livekit",
        "llama_index",
        "mcp",
        "pydantic_ai",
        "semantic_kernel",
        "strands",
        "workflows",
    }
)
# Classes by these names, in these packages, are what frameworks pass to a tool beside the model's arguments.
_CONTEXTS = frozenset(
    {
        "Agent",
        "AsyncCallbackManagerForToolRun",
        "BaseStore",
        "CallbackContext",
        "CallbackManagerForToolRun",
        "CancellationToken",
        "Context",
        "FunctionInvocationContext",
        "InvocationContext",
        "Kernel",
        "ReadonlyContext",
        "RunContext",
        "RunContextWrapper",
        "RunnableConfig",
        "Runtime",
        "Team",
        "ToolContext",
        "ToolRuntime",
    }
)
# Prefixes of class names that mark a parameter as injected, in `Annotated` or as a default.
_INJECTING = ("Injected", "Depends", "CurrentContext")
_LISTS = frozenset({"$tuple", "$set", "$frozenset"})
_TEXTS = frozenset({"$datetime", "$date", "$time", "$decimal", "$uuid", "$path"})
_OPAQUE = "$opaque"
_FEWEST = 5  # fewer items are too often in that order by chance


class Parameters:
    """The parameters of one tool, examined when a call is first compared."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn

    def model_arguments(self, arguments: bytes, *, is_recorded: bool = False) -> bytes:
        """Return a model's arguments as canonical JSON; `is_recorded` is for those in a trace."""
        arguments_sent = orjson.loads(arguments)
        if type(arguments_sent) is not dict:
            return arguments
        remaining = {}
        for name, value in arguments_sent.items():
            if not is_recorded and (name in self._injected or _is_opaque(value)):
                continue
            plain = _as_json(value, self._hints.get(name))
            if canonical(plain) != self._defaults.get(name):  # as text, because in Python False == 0
                remaining[name] = plain
        return canonical(remaining)

    @cached_property
    def _signature(self) -> dict[str, inspect.Parameter]:
        return dict(signature_of(self.fn).parameters)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """The annotations by name; one that cannot be resolved stays text."""
        names = dict(namespace_of(self.fn))
        hints = {}
        for name, parameter in self._signature.items():
            if parameter.annotation is not parameter.empty:
                hints[name] = _resolved(parameter.annotation, names)
        return hints

    @cached_property
    def _defaults(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, parameter in self._signature.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                found[name] = b"[]"
            elif parameter.default is not parameter.empty:
                found[name] = _default_text(parameter.default, self._hints.get(name))
        return found

    @cached_property
    def _injected(self) -> frozenset[str]:
        parameters = self._signature.items()
        return frozenset(name for name, parameter in parameters if _injects(self._hints.get(name), parameter.default))


def signature_of(fn: Function) -> inspect.Signature:
    """Return the signature of a function; for builtins such as `max`, which have none, one that accepts anything."""
    try:
        return inspect.signature(fn)
    except ValueError:
        return _ANY_ARGUMENTS


_ANY_ARGUMENTS = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    holder = type("Holder", (), {"__annotations__": {"value": annotation}})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return annotation


def _default_text(default: Any, hint: Any) -> bytes:
    """Return a default as the canonical JSON that a model would have written."""
    return canonical(_as_json(orjson.loads(canonical(default)), hint))


def _injects(hint: Any, default: Any) -> bool:
    """True for a parameter that a framework fills in rather than a model."""
    if type(default).__name__.startswith(_INJECTING):
        return True
    if isinstance(hint, str):  # imported only for type checkers
        options = hint.replace("Optional[", "").split("|")
        return any(option.partition("[")[0].rpartition(".")[2].strip(" ]") in _CONTEXTS for option in options)
    if get_origin(hint) is typing.Annotated and any(map(_is_marker, get_args(hint)[1:])):
        return True
    return any(map(_is_context, options_of(hint)))


def _is_marker(mark: Any) -> bool:
    kind = mark if isinstance(mark, type) else type(mark)
    return kind.__name__.startswith(_INJECTING)


def _is_context(option: Any) -> bool:
    kind = get_origin(option) or option
    package = str(getattr(kind, "__module__", "")).partition(".")[0]
    return package in _FRAMEWORKS and getattr(kind, "__name__", "") in _CONTEXTS


def _is_opaque(value: Json) -> bool:
    return type(value) is dict and value.keys() == {_OPAQUE}


def _as_json(value: Json, hint: Any) -> Json:
    """Return a frozen value as the JSON that a model would have written, without defaults of its classes."""
    if type(value) is dict and len(value) == 1:
        ((tag, content),) = value.items()
        if (tag in _LISTS and type(content) is list) or tag in _TEXTS:
            value = content
        elif tag == "$obj" and type(content) is list and len(content) > 1:
            return _as_json(content[1], hint)
    if type(value) is list:
        items = [_as_json(item, item_hint(hint, index)) for index, item in enumerate(value)]
        return sorted(items, key=canonical) if _is_set(hint) else items
    if type(value) is dict:
        return _members(value, hint)
    return _scalar(value, hint)


def _members(value: JsonObject, hint: Any) -> JsonObject:
    kinds = [get_origin(option) or option for option in options_of(hint)]
    kinds = [kind for kind in kinds if isinstance(kind, type) and record_fields(kind) is not None]
    if len(kinds) != 1:
        return {name: _as_json(item, member_hint(hint, name)) for name, item in value.items()}
    (kind,) = kinds
    names = {alias: name for name, alias in _aliases(kind) if alias in value and name not in value}
    hints, defaults, remaining = field_hints(kind, include_extras=True), dict(_field_defaults(kind)), {}
    for field_name, item in value.items():
        name = names.get(field_name, field_name)
        plain = _as_json(item, hints.get(name))
        if name not in defaults or canonical(plain) != _default_text(defaults[name], hints.get(name)):
            remaining[name] = plain
    return remaining


def _aliases(kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of a pydantic model's fields with their names in JSON."""
    if not hasattr(kind, "model_construct"):
        return
    for name, field in kind.model_fields.items():
        for alias in (field.alias, field.validation_alias):
            if isinstance(alias, str) and alias != name:
                yield name, alias


def _field_defaults(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the defaults of a class's fields. Of factories, only those of plain collections are called."""
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_construct"):
        fields = kind.model_fields if hasattr(kind, "model_construct") else kind.__dataclass_fields__
        for name, field in fields.items():
            if field.default_factory in (list, dict, set, tuple):
                yield name, field.default_factory()
            elif type(field.default).__name__ not in ("_MISSING_TYPE", "PydanticUndefinedType"):
                yield name, field.default
    elif hasattr(kind, "__struct_fields__"):
        struct_defaults = kind.__struct_defaults__
        names = kind.__struct_fields__[len(kind.__struct_fields__) - len(struct_defaults) :]
        for name, default in zip(names, struct_defaults, strict=True):
            if type(default).__name__ != "_NoDefault":
                yield name, default
    elif hasattr(kind, "_field_defaults"):
        yield from kind._field_defaults.items()


def _is_set(hint: Any) -> bool:
    return any((get_origin(option) or option) in (set, frozenset) for option in options_of(hint))


def _scalar(value: Json, hint: Any) -> Json:
    """Normalise numbers and texts: JSON does not tell 50 from 50.0, or a date from its text."""
    if type(value) is float and math.isfinite(value) and value.is_integer():
        value = int(value)
    if type(value) not in (str, int, float):
        return value
    for option in options_of(hint):
        for kind, spell in _SPELLINGS.items():
            if option is kind:
                try:
                    return spell(str(value))
                except (ValueError, ArithmeticError):
                    return value
    return value


_SPELLINGS: dict[type, Callable[[str], str]] = {
    dt.datetime: lambda text: dt.datetime.fromisoformat(text).isoformat(),
    dt.date: lambda text: dt.date.fromisoformat(text).isoformat(),
    dt.time: lambda text: dt.time.fromisoformat(text).isoformat(),
    decimal.Decimal: lambda text: str(decimal.Decimal(text).normalize()),
    uuid.UUID: lambda text: str(uuid.UUID(text)),
}


def note_order(tool: str, arguments: Mapping[str, Any], noted: set[str]) -> None:
    """Warn once for each tool that is called with items in the order of a set."""
    for name, value in arguments.items():
        kind = type(value)
        if (kind is list or kind is tuple) and len(value) >= _FEWEST and tool not in noted and _is_of_set(value):
            noted.add(tool)
            with contextlib.suppress(RuntimeWarning):  # as an error it would change what the program does
                warnings.warn(
                    f"`{tool}` was called with `{name}` in the order of a set, which is another one in every process: "
                    "sort it, or set PYTHONHASHSEED before Python starts, so that a replay can make the same call",
                    RuntimeWarning,
                    stacklevel=4,
                )


def _is_of_set(items: Sequence[Any]) -> bool:
    if not all(type(item) is str for item in items):
        return False
    order = list(items)
    if len(set(order)) < len(order) or order == sorted(order):
        return False
    return list(set(order)) == order or any(_has_order_of_slots(order, size) for size in _table_sizes(len(order)))


def _table_sizes(count: int) -> tuple[int, ...]:
    """Return the possible numbers of slots of a set with so many items, which depend on how it grew."""
    smallest = 1 << (count * 5 // 3).bit_length()
    return smallest, smallest * 2, smallest * 4


def _has_order_of_slots(order: Sequence[str], size: int) -> bool:
    """True if the items are in the order of their hashes; one in eight may have found its slot taken."""
    slots = [hash(item) & (size - 1) for item in order]
    displaced = sum(slot > following for slot, following in pairwise(slots))
    return displaced <= len(order) // 8
