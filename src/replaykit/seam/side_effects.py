"""Side effects of a tool inside the process: fields of its object, variables of its code, context variables.

A replay serves the call and repeats none of that. Only what the agent's own code reads is compared: plain values, the
items of containers, and the fields of objects whose class is the agent's own. An object in place of a plain value is
not a change: clients and connections are created once and kept.
"""

from __future__ import annotations

import io
import itertools
import marshal
import operator
import os
import sys
import threading
from collections import UserDict, UserList, deque
from collections.abc import Hashable, Iterator, Mapping
from contextvars import Context, copy_context
from functools import lru_cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, TypeAlias, cast

from msgspec import Struct

from replaykit.seam.agent_code import UNCHANGING, AgentCode, fields_of, is_own_class
from replaykit.seam.leftover_jobs import LeftoverJobs
from replaykit.seam.own_code import Function
from replaykit.seam.process_settings import ProcessSetting, may_change, may_change_settings, settings_read_by
from replaykit.seam.scope import RunSession, Scope, current
from replaykit.seam.tool_code import ToolCode, Variable

# Types that are compared as values, without fields.
_PLAIN = UNCHANGING | {list, dict, set, tuple, deque, bytearray}
# Classes as constants: `dict | set` in the code of a function builds a union in every call.
_Classes: TypeAlias = tuple[Any, ...]
_WITH_FIELDS: _Classes = (type, FunctionType, SimpleNamespace, threading.local)
_CODE: _Classes = (type, FunctionType)
_WRAPPERS: _Classes = (UserDict, UserList)
_CONTAINERS: _Classes = (dict, set, deque, list, bytearray, tuple, frozenset)
_SETS: _Classes = (set, frozenset)
_FILES: _Classes = (io.StringIO, io.BytesIO)
_WITH_STATE: _Classes = (*_CONTAINERS, *_FILES, itertools.count, threading.Event)
_EMPTY: tuple[Any, ...] = ([], (), range(0), {}, set())
_ITERATORS = tuple(type(iter(items)) for items in _EMPTY)
# Names by which code draws from the generator of `random`.
_DRAWS = ("random", "choice", "choices", "gauss", "randint", "randrange", "sample", "shuffle", "uniform")
# Names by which code can change something without mentioning its name.
_NAMES_AT_RUN_TIME = frozenset({"setattr", "__setattr__", "__dict__", "vars", "globals", "exec", "eval"})
_MOST_FIELDS = 64
_MOST_ITEMS = 1000
# Items of a container with objects, each of which is copied field by field.
_MOST_OBJECTS = 64
_MARSHALLED = frozenset({list, dict, tuple})
_WITHOUT_REFERENCES = 2  # a version of marshal's format in which equal values are equal bytes
_LARGE_BYTES = 32 * 1024
_DEEPEST = 4
# Stands for a value that is not compared.
_OTHER = object()
_ABSENT = object()
_WORKING_DIRECTORY = ""


class Reach:
    """Everything that one tool can change besides its arguments."""

    def __init__(self, fn: Function, *, receiver: str) -> None:
        """`receiver`: `self` or `cls` for a method."""
        self._receiver = receiver
        self._fn = fn
        self._code: ToolCode | None = None
        self._variables: list[Variable] = []
        self._settings: list[ProcessSetting] = []
        self._agent: AgentCode | None = None
        # The last class of `self` without attributes to compare, and the number of its attributes.
        self._plain_class: tuple[type, int] | None = None
        # The names of containers that turned out to be large.
        self._large: set[str] = set()
        if not receiver:
            self._find_code(None)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to compare, whichever agent calls the tool."""
        code = self._code
        if code is None or code.variables or code.assigned:
            return False
        return not may_change_settings(code.functions)

    def _find_code(self, receiver: type | None) -> ToolCode:
        self._code = ToolCode(self._fn, receiver)
        return self._code

    def has_nothing_to_look_at(self) -> bool:
        """True if the agent of the current run reads nothing that the tool can change."""
        return not self._receiver and not self._variables_of_run(None) and not self._settings

    def look(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return everything that can be compared, under names that a user knows."""
        receiver = args[0] if self._receiver and args else None
        variables = self._variables_of_run(receiver)
        seen = _Seen(self._agent or AgentCode(None), self._large)
        if receiver is not None:
            seen.add_fields(self._receiver, receiver)
            if self._receiver == "self":
                self._add_class(seen, type(receiver))
        for variable in variables:
            seen.add(variable.label, variable.value(_ABSENT), variable.name)
        for setting in self._settings:
            seen.values[setting.label] = setting.value()
        return seen.values

    def changed_since(self, before: Mapping[str, Any], args: tuple[Any, ...], *, is_plain: bool) -> tuple[str, ...]:
        """Return the names of everything that the tool has changed.

        Other code of the agent may have run in the meantime if the function is no plain one (`is_plain`) or other
        threads are running: then a change counts only if the code of the tool mentions its name. Agents collect
        results and count progress while their other tools still run, and a replay repeats that.
        """
        now = self.look(args)
        names = sorted(differences(before, now))
        for name, copy in now.items():
            if type(copy) is bytes and len(copy) > _LARGE_BYTES:
                self._large.add(name)
        if not names or self._code is None or self._agent is None:
            return tuple(names)
        if is_plain and threading.active_count() == 1:
            return tuple(names)
        mentioned = self._agent.names_within(self._code.functions)
        if not mentioned.isdisjoint(_NAMES_AT_RUN_TIME):
            return tuple(names)
        known = {variable.label for variable in self._variables}
        known |= {setting.label for setting in self._settings if may_change(setting, self._code.functions)}
        return tuple(name for name in names if name in known or name.rpartition(".")[2] in mentioned)

    def changeable(self, args: tuple[Any, ...], jobs: LeftoverJobs) -> Iterator[str]:
        """Yield the names of everything that jobs which the tool has left running may still change."""
        names = self.look(args)
        agent, code = self._agent, self._code
        if agent is None or code is None:
            return
        mentioned = agent.names_within(code.functions)
        variables = {variable.label: variable for variable in self._variables}
        for name in sorted(names):
            variable = variables.get(name)
            if variable is None:
                if jobs.run_own_code and name.rpartition(".")[2] in mentioned:
                    yield name
                continue
            value = variable.value(_ABSENT)
            if variable not in code.assigned and type(value) in UNCHANGING:
                continue
            if jobs.run_own_code or jobs.hold(value):
                yield name

    def _add_class(self, seen: _Seen, kind: type) -> None:
        """Add the attributes of the class of `self`; remembers a class without any, as most are."""
        size = len(vars(kind))
        if self._plain_class == (kind, size):
            return
        before = len(seen.values)
        seen.add_fields(kind.__name__, kind)
        if len(seen.values) == before:
            self._plain_class = (kind, size)

    def _variables_of_run(self, receiver: object) -> list[Variable]:
        """Return the variables that the agent reads, computed once for each agent."""
        scope = current()
        known = self._agent
        if scope is None:  # the run has ended
            return self._variables
        agent = agent_code_of(scope.session, known)
        if agent is not known:
            self._agent, self._plain_class, self._large = agent, None, set()
            kind = receiver if isinstance(receiver, type) else type(receiver)
            code = self._code or self._find_code(None if receiver is None else kind)
            variables = (*code.variables, *code.assigned)
            self._variables = [variable for variable in variables if _may_be_read(variable, agent)]
            self._settings = settings_read_by(agent)
        return self._variables


def agent_code_of(session: RunSession, known: AgentCode | None = None) -> AgentCode:
    """Return the agent's own code of a run; `known` is that of another run, which may be the same."""
    if session.agent_code is None:
        if known is None or not known.is_running(session.entry):
            known = AgentCode(session.entry)
        session.agent_code = known
    return session.agent_code


def _may_be_read(variable: Variable, agent: AgentCode) -> bool:
    """True if the agent may read the variable, or a field of the object in it."""
    value = variable.value(_ABSENT)
    if variable.name == "random" and isinstance(value, ModuleType):
        return any(agent.reads_variable(name) or agent.reads_field(name) for name in _DRAWS)
    if _is_object(value) and not isinstance(value, threading.local):
        return True
    return agent.reads_variable(variable.name) or (type(value) not in UNCHANGING and agent.reads(value))


def _is_object(value: Any) -> bool:
    """True for a value that is compared field by field."""
    kind = type(value)
    if kind in _PLAIN:
        return False
    is_object = _is_class_of_objects(cast(Hashable, kind))
    if is_object is not None:
        return is_object
    return isinstance(value, _WITH_FIELDS) or (_state_of(value) is _OTHER and is_own_class(kind))


# Called for every object that a tool reaches, twice in every call: `_state_of` alone takes 2 µs.
@lru_cache(maxsize=1024)
def _is_class_of_objects(kind: Any) -> bool | None:
    """Return what `_is_object` answers for all values of a class; None if that differs between values."""
    has_own_class = any("__class__" in vars(base) for base in kind.__mro__[:-1])
    if has_own_class or kind.__getattribute__ is not object.__getattribute__:
        return None  # a proxy may pretend to be of another class
    if issubclass(kind, _WITH_FIELDS):
        return True
    if not is_own_class(kind):
        return False
    if issubclass(kind, _WRAPPERS):
        return None
    random: Any = sys.modules.get("random")
    return not issubclass(kind, _WITH_STATE) and (random is None or not issubclass(kind, random.Random))


class _Seen(Struct, eq=False):
    """A snapshot of everything that the agent reads."""

    _agent: AgentCode
    _large: set[str]
    values: dict[str, Any] = {}
    _objects: list[Any] = []

    def add(self, label: str, value: Any, name: str = "", depth: int = 0) -> None:
        """Add a value or its fields."""
        if isinstance(value, threading.local):
            self.values[label] = dict(vars(value))  # those of this thread
        elif _is_object(value):
            self.add_fields(label, value, name, depth)
        else:
            self.values[label] = self._copy(label, value)

    def _copy(self, label: str, value: Any) -> Any:
        if label in self._large and type(value) in _MARSHALLED:
            return _LargeContainer(value)
        return _copied(value)

    def add_fields(self, label: str, value: Any, name: str = "", depth: int = 0) -> None:
        """Add the fields of an object that the agent reads; all of them if it uses the object as a whole."""
        if depth > _DEEPEST or any(known is value for known in self._objects):
            return
        self._objects.append(value)
        fields = _fields(value)
        if len(fields) > _MOST_FIELDS:
            return
        agent, fields_read, values = self._agent, self._agent.fields_read, self.values
        is_whole = bool(name) and not isinstance(value, _CODE) and agent.passes_on(name)
        for field, content in fields.items():
            kind = type(content)
            is_read = fields_read[field] if field in fields_read else agent.reads_field(field)
            if kind in _PLAIN:  # the usual case
                if is_read or is_whole:
                    place = f"{label}.{field}"
                    values[place] = content if kind in UNCHANGING else self._copy(place, content)
                continue
            is_inner = _is_object(content) and not isinstance(content, _CODE)
            if is_inner or is_whole or is_read:
                self.add(f"{label}.{field}", content, field, depth + 1)


class _LargeContainer:
    """A container that would take too long to copy in every call.

    It counts as changed if it is another object, or has another length.
    """

    __slots__ = ("_container", "_length")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, container: Any) -> None:
        self._container = container
        self._length = len(container)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _LargeContainer):
            return False
        return self._container is other._container and self._length == other._length


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the fields that can be compared."""
    if isinstance(value, type):
        return {
            name: content
            for name, content in list(vars(value).items())
            if not name.startswith("__") and _is_data(content)
        }
    if isinstance(value, FunctionType):
        return {name: content for name, content in vars(value).items() if name != "__wrapped__"}
    return fields_of(value)


def _is_data(value: Any) -> bool:
    """True for an attribute of a class that is no method or descriptor."""
    if type(value) in UNCHANGING or _state_of(value) is not _OTHER:
        return True
    return is_own_class(type(value)) and not hasattr(type(value), "__get__")


def _state_of(value: Any) -> Any:
    """Return the contents of a container, or the position of an iterator; `_OTHER` for anything else."""
    if isinstance(value, _WRAPPERS):
        value = value.data
    kind = type(value)
    if kind.__module__ in ("queue", "asyncio.queues"):
        value = getattr(value, "queue", None) or getattr(value, "_queue", ())
    if isinstance(value, _CONTAINERS) or kind.__module__ == "array":
        return value
    if isinstance(value, _FILES):
        return None if value.closed else value.getvalue()
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, _ITERATORS):
        return operator.length_hint(value)
    random: Any = sys.modules.get("random")
    if random is not None and (value is random or isinstance(value, random.Random)):
        return hash(value.getstate())
    if isinstance(value, threading.Event):
        return value.is_set()
    if kind.__module__ == "sqlite3" and hasattr(value, "total_changes"):
        return _changes_of(value)
    if kind.__module__ == "asyncio.locks" and hasattr(value, "is_set"):
        return value.is_set()
    return _OTHER


def _changes_of(connection: Any) -> Any:
    try:
        return connection.total_changes
    except Exception:  # noqa: BLE001 (closed, or another thread's; its error class is not imported just for this)
        return _OTHER


def _copied(value: Any, depth: int = 0) -> Any:
    """Return a copy of the value that does not change."""
    kind = type(value)
    if kind in UNCHANGING or value is _ABSENT:
        return value
    if kind in _MARSHALLED and len(value) <= _MOST_ITEMS:
        try:
            return marshal.dumps(value, _WITHOUT_REFERENCES)  # takes a sixth of the time of a copy
        except ValueError:
            pass  # it contains something that cannot be marshalled
    state = value if kind is dict else _state_of(value)
    if state is _OTHER:
        if depth and depth <= _DEEPEST and is_own_class(kind):
            return kind, {name: _copied(field, depth + 1) for name, field in fields_of(value).items()}
        return _OTHER if not depth else kind
    if type(state) in UNCHANGING:
        return state
    if len(state) > _MOST_ITEMS or depth > _DEEPEST:
        return len(state)
    if isinstance(state, dict) and len(state) <= _MOST_OBJECTS:
        return {_key(key): _copied(item, depth + 1) for key, item in list(state.items())}
    if isinstance(state, _SETS):
        return set(state)
    if len(state) > _MOST_OBJECTS:
        return len(state)
    return [_copied(item, depth + 1) for item in list(state)]


def _key(key: Any) -> Any:
    if type(key) in UNCHANGING or isinstance(key, tuple):
        return key
    return id(key)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of everything that has changed."""
    for name in before.keys() | now.keys():
        old, new = before.get(name, _ABSENT), now.get(name, _ABSENT)
        if old is not _OTHER and new is not _OTHER and _differ(old, new):
            yield name


def _differ(old: Any, new: Any) -> bool:
    if old is new:
        return False
    try:
        return bool(old != new)
    except Exception:  # noqa: BLE001 (items compare as their classes say, and arrays raise)
        return True


def changed_context(before: Context) -> tuple[str, ...]:
    """Return the names of the context variables whose plain values have changed."""
    now = copy_context()
    try:
        if now == before:
            return ()  # as after most calls: in a twentieth of the time
    except Exception:  # noqa: BLE001 (classes define how values are compared: arrays, for one, refuse)
        pass
    return tuple(changed_variables(before, now))


def changed_variables(before: Context, now: Context) -> Iterator[str]:
    """Yield the names of context variables with other plain values than before."""
    for variable, value in now.items():
        old = before.get(variable, _OTHER) if variable in before else None
        if old is value or type(value) is Scope:  # our own, which each call sets
            continue
        if _copied(old) is not _OTHER and _copied(value) is not _OTHER and _differ(old, value):
            yield f"ContextVar({variable.name!r})"


def remember_variable(known: dict[str, str | None], name: str) -> None:
    """Remember the value of an environment variable that is about to change."""
    known.setdefault(name, os.environ.get(name))


def remember_directory(known: dict[str, str | None]) -> None:
    """Remember the working directory, which is about to change."""
    known.setdefault(_WORKING_DIRECTORY, _directory())


def still_changed(known: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the names of everything that differs from what was remembered."""
    names = []
    for name, before in known.items():
        if name == _WORKING_DIRECTORY:
            if _directory() != before:
                names.append("os.getcwd()")
        elif os.environ.get(name) != before:
            names.append(f"os.environ[{name!r}]")
    return tuple(names)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # the directory was removed
        return None
