"""The code that a tool runs, and the variables that it may change: globals, closures, fields of own objects.

Computed once for each tool. A constant that is only read is left out, since code without an instruction or method that
changes something changes no global.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from replaykit.seam.agent_code import is_own_class
from replaykit.seam.own_code import Function, is_library

_MOST_FUNCTIONS = 200
_CHANGING_OPERATIONS = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"})
_ASSIGNING_OPERATIONS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF"})
_CHANGING_NAMES = frozenset(
    {"add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert"}
    | {"intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault"}
    | {"sort", "subtract", "symmetric_difference_update", "update", "__setitem__", "__setattr__", "setattr"}
    | {"heapify", "heappop", "heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right"}
    | {"put", "put_nowait", "get_nowait", "next", "set", "shuffle", "write", "writelines", "print"}
    | {"execute", "executemany", "executescript"}
)
# Methods that code calls without mentioning their names.
_CALLED_BY_SYNTAX = frozenset({"__setitem__", "__call__", "__enter__", "__exit__"})


class Variable(NamedTuple):
    """A global or closure variable that a tool may change."""

    label: str
    name: str
    place: Mapping[str, Any] | CellType

    def value(self, default: object) -> Any:
        """Return its current value."""
        if isinstance(self.place, CellType):
            try:
                found = self.place.cell_contents
            except ValueError:  # not assigned yet
                return default
        else:
            found = self.place.get(self.name, default)
        return found.get(default) if isinstance(found, ContextVar) else found


class ToolCode:
    """The functions that a call of a tool may run, and the variables that they name."""

    def __init__(self, fn: Function, receiver: type | None) -> None:
        self.variables: list[Variable] = []
        """The variables whose values may be changed in place."""
        self.assigned: list[Variable] = []
        """The variables that may be assigned another value."""
        self._labels: set[str] = set()
        self.functions: set[CodeType] = set()
        self._changes = False
        while isinstance(fn, functools.partial):
            bound = dict(zip(map(str, range(len(fn.args))), fn.args, strict=True)) | fn.keywords
            self.variables += [Variable(f"partial({name})", name, bound) for name in bound]
            fn = fn.func
        if not isinstance(fn, FunctionType) and is_own_class(type(fn)):  # a callable object
            self.variables.append(Variable(f"{type(fn).__name__}()", "", {"": fn}))
            fn = vars(type(fn)).get("__call__", fn)
        self._pending: list[FunctionType] = [fn] if isinstance(fn, FunctionType) else []
        while self._pending and len(self.functions) < _MOST_FUNCTIONS:
            function = self._pending.pop()
            if function.__code__ not in self.functions:
                self.functions.add(function.__code__)
                self._look_into(function, receiver)
        if not self._changes:
            self.variables.clear()

    def _look_into(self, function: FunctionType, receiver: type | None) -> None:
        namespace = function.__globals__
        module = namespace.get("__name__", "")
        names, assigned = set[str](), set[str]()
        for code in _with_nested(function.__code__):
            names.update(code.co_names)
            self._changes = self._changes or not _CHANGING_NAMES.isdisjoint(code.co_names)
            for instruction in dis.get_instructions(code):
                self._changes = self._changes or instruction.opname in _CHANGING_OPERATIONS
                if instruction.opname in _ASSIGNING_OPERATIONS:
                    assigned.add(instruction.argval)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        for name in sorted(names | assigned):
            if name in namespace or (name in assigned and name not in cells):
                self._add(Variable(f"{module}.{name}", name, namespace), names, is_assigned=name in assigned)
        for name, cell in cells.items():
            label = f"{function.__qualname__}.{name}"
            self._add(Variable(label, name, cell), names, is_assigned=name in assigned)
        if receiver is not None:
            self._add_methods(receiver, names)

    def _add(self, variable: Variable, names: set[str], *, is_assigned: bool) -> None:
        value = variable.value(None)
        if isinstance(value, FunctionType) and not is_library(value.__code__.co_filename):
            self._pending.append(value)
        elif isinstance(value, ModuleType):
            if value.__name__ == "random":
                self._add_generator(value)
            elif not is_library(getattr(value, "__file__", None) or "<frozen"):
                self._add_members(value, names)
            return
        elif type(getattr(value, "__self__", None)).__module__ == "random":  # `from random import choice`
            self._add_generator(sys.modules["random"])
            return
        elif isinstance(value, type):
            if not is_own_class(value):
                return
            self._add_methods(value, names | {"__init__"})
        elif is_own_class(type(value)):
            self._add_methods(type(value), names)
        if variable.label not in self._labels:
            self._labels.add(variable.label)
            (self.assigned if is_assigned else self.variables).append(variable)

    def _add_generator(self, random: ModuleType) -> None:
        """Add the generator of `random`, which every draw advances."""
        if "random" not in self._labels:
            self._labels.add("random")
            self.assigned.append(Variable("random.getstate()", "random", {"random": random}))

    def _add_members(self, module: ModuleType, names: set[str]) -> None:
        """Add what the code may use of another module of the agent."""
        members = vars(module)
        for name in sorted(names.intersection(members)):
            if not isinstance(members[name], ModuleType):
                self._add(Variable(f"{module.__name__}.{name}", name, members), names, is_assigned=True)

    def _add_methods(self, kind: type, names: set[str]) -> None:
        for base in kind.__mro__:
            for name, member in list(vars(base).items()):
                if name in names or name in _CALLED_BY_SYNTAX:
                    function = getattr(member, "__func__", member)
                    if isinstance(function, FunctionType) and not is_library(function.__code__.co_filename):
                        self._pending.append(function)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)
