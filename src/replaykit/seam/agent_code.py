"""The agent's own code: which of it a run may execute outside of its tools, and which names that code reads.

Names that only tools read, such as a counter or a memo of theirs, decide nothing in a replay, which serves their calls.
Neither do names that a test or script reads after the run. So the search begins with the code that is running between
`rk.record` and the tool, and continues with every function that is mentioned there. A bare name is a mention, whoever's
it is.
"""

from __future__ import annotations

import dis
import functools
import gc
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from replaykit.seam.own_code import Function, frames_from, is_library, module_name
from replaykit.seam.thread_frames import thread_frames

# Attributes in which decorators and descriptors keep the function.
_WRAPPED = ("__func__", "fget", "fset", "func", "__wrapped__")
_MOST_WRAPPERS = 8
_LOOKS_UP_BY_TEXT = frozenset({"getattr", "hasattr", "attrgetter", "vars", "__dict__", "globals"})
# Methods of containers that reveal nothing of their contents.
_ONLY_CHANGES = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "remove", "update"}
)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
# Functions of Python that start a stack of their own: frames below them are not the run's, unless `rk.record` is.
_OUTERMOST = ("run_forever", "_bootstrap_inner")
_TOOL_FILE = __file__.replace("agent_code.py", "tool.py")
_CALLERS_OF_AGENTS = ("replaykit.candidates.", "replaykit.travel.", "replaykit.trials.")
_MOST_PLACES = 20_000
_DEEPEST_PLACE = 2


UNCHANGING = frozenset({str, int, float, bool, bytes, complex, type(None)})
"""Types whose values nobody can change."""
TOOL_BODIES: WeakSet[CodeType] = WeakSet()
"""The code of all tools. A tool defined inside a function is one of its constants, like any inner function."""


class EntryPoint(NamedTuple):
    """The code of the agent that entered its run, and the instruction at which it did."""

    code: CodeType
    offset: int = -1


class _Bounds(NamedTuple):
    """The instructions of a code object that belong to a run."""

    start: int
    end: int


def _is_inside(instruction: dis.Instruction, bounds: _Bounds | None) -> bool:
    return bounds is None or bounds.start <= instruction.offset < bounds.end


def entry_at(frame: FrameType | None) -> EntryPoint | None:
    """Return the place in the agent's own code that called; None if there is none."""
    for caller in frames_from(frame):
        if not is_library(caller.f_code.co_filename):
            return EntryPoint(caller.f_code, caller.f_lasti)
    return None


def entry_of(fn: Function) -> EntryPoint | None:
    """Return the entry of a run that is a call of this function."""
    for code in _codes_of(fn):
        return EntryPoint(code)
    return None


def _bounds_of(entry: EntryPoint) -> _Bounds | None:
    """Return the bounds of the `with` block that entered the run; None if no such block did."""
    code, offset = entry
    parse: Callable[[CodeType], list[Any]] | None = getattr(dis, "_parse_exception_table", None)
    if offset < 0 or parse is None:
        return None
    operations = {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}
    following = next((place for place in operations if place > offset), 0)
    protected = parse(code)
    for block in protected:
        handler = [name for place, name in operations.items() if place >= block.target][:3]
        if block.start == following and "WITH_EXCEPT_START" in handler:
            return _Bounds(offset, max(other.end for other in protected if other.target == block.target))
    return None


# Tells whether a code object, within bounds, reads a name; the set holds the names of modules.
_Reads: TypeAlias = Callable[[CodeType, str, _Bounds | None, set[str]], bool]


class _Function(NamedTuple):
    """A function of a module that is no library, or a method of one of its classes."""

    name: str
    code: CodeType
    holder: Mapping[str, Any]
    key: str
    is_method: bool
    is_of_tests: bool


class AgentCode:
    """The code that a run may execute outside of its tools, collected when a tool is first called."""

    def __init__(self, entry: EntryPoint | None) -> None:
        self.entry = entry
        frames = list(_frames_of(entry))
        self.running = frozenset(frame.f_code for frame in frames)
        self._bounds = None if entry is None else _bounds_of(entry)
        self._functions: dict[str, list[_Function]] = {}
        self._special: dict[str, list[CodeType]] = {}
        self._nested: dict[str, list[CodeType]] = {}
        self._module_names: set[str] = set()
        self._places: dict[int, set[str]] = {}
        self._fields: dict[int, set[str]] = {}
        self._is_read: dict[tuple[_Reads, str], bool] = {}
        self.fields_read: dict[str, bool] = {}
        """Cached answers of `reads_field`, which runs in every call of a method."""
        for module in _modules_of(entry, frames):
            self._index(vars(module), module.__name__, "")
            self._find_places(vars(module))
        for frame in frames:
            self._find_places(locals_of(frame))
        self._codes: dict[CodeType, _Bounds | None] = {}
        self._reach([] if entry is None else [entry.code])
        self._reach([frame.f_code for frame in frames])
        self._reach([code for frame in frames for value in locals_of(frame).values() for code in _codes_of(value)])

    def is_running(self, entry: EntryPoint | None) -> bool:
        """Return whether this is the code of the run that was entered there."""
        return self.entry == entry and self.running == {frame.f_code for frame in _frames_of(entry)}

    def reads(self, value: object) -> bool:
        """Return whether the code reads a name or field that holds this very value."""
        if any(map(self.reads_variable, self._places.get(id(value), ()))):
            return True
        return any(map(self.reads_field, self._fields.get(id(value), ())))

    def reads_variable(self, name: str) -> bool:
        """Return whether the code reads a variable of this name, its own or another module's."""
        return self._reads(_reads_variable, name)

    def reads_field(self, name: str) -> bool:
        """Return whether the code reads a field of this name, on any object."""
        is_read = self.fields_read[name] = self._reads(_reads_field, name)
        return is_read

    def mentions(self, name: str) -> bool:
        """Return whether it reads anything of this name: a function, a variable or a field."""
        return self.reads_variable(name) or self.reads_field(name)

    def passes_on(self, name: str) -> bool:
        """Return whether the code uses an object of this name as a whole, rather than just a field of it."""
        return self._reads(_passes_on, name)

    def names_within(self, codes: Iterable[CodeType]) -> set[str]:
        """Return the names that these functions mention, and those of every function and tool that they mention."""
        tools: dict[str, list[CodeType]] = {}
        for code in list(TOOL_BODIES):
            tools.setdefault(code.co_name, []).append(code)
        names: set[str] = set()
        pending = set(codes)
        while pending:
            reached = self._reachable(pending)
            found = set[str]().union(*map(_mentions, reached)) - names
            names |= found
            pending = {code for name in found for code in tools.get(name, ())}
        return names

    def _reads(self, reads: _Reads, name: str) -> bool:
        known = self._is_read.get((reads, name))
        if known is None:
            known = any(self._is_read_in(code, reads, name, bounds) for code, bounds in self._codes.items())
            known = known or any(self._is_read_by_callback(function, reads, name) for function in self._unmentioned())
            self._is_read[reads, name] = known
        return known

    def _is_read_in(self, code: CodeType, reads: _Reads, name: str, bounds: _Bounds | None = None) -> bool:
        """Return whether the code, or that of its inner functions that are no tools, reads a name."""
        if reads(code, name, bounds, self._module_names):
            return True
        return any(self._is_read_in(inner, reads, name) for inner in _inner_code(code, bounds))

    def _is_read_by_callback(self, function: _Function, reads: _Reads, name: str) -> bool:
        """Return whether a function that nothing mentions, but that may still be called, reads the name: a method, or a
        function that a decorator has registered."""
        if not any(self._is_read_in(code, reads, name) for code in self._reachable([function.code])):
            return False
        return function.is_method or _is_registered(function)

    @functools.cached_property
    def _mentioned(self) -> set[str]:
        """Names that are mentioned anywhere, also in tools."""
        names: set[str] = set()
        for code in list(TOOL_BODIES):
            names |= _mentions(code)
        for functions in self._functions.values():
            for function in functions:
                names |= _mentions(function.code) - {function.name}
        return names

    def _unmentioned(self) -> Iterator[_Function]:
        for name, functions in self._functions.items():
            if name in self._mentioned or name.startswith(("test", "__")) or name in ("emit", "filter"):
                continue
            for function in functions:
                if function.is_method or not function.is_of_tests:
                    yield function

    def _index(self, members: Mapping[str, Any], module: str, owner: str) -> None:
        is_of_tests = module.rpartition(".")[2].startswith(("test_", "conftest"))
        for key, member in list(members.items()):
            if isinstance(member, type):
                if member.__module__ == module and not owner.startswith(member.__qualname__):
                    self._index(vars(member), module, member.__qualname__)
                continue
            for code in _codes_of(member):
                function = _Function(code.co_name, code, members, key, bool(owner), is_of_tests)
                self._functions.setdefault(code.co_name, []).append(function)
                for nested in _nested(code):
                    self._nested.setdefault(nested.co_name, []).append(nested)
                if owner and key.startswith("__"):
                    self._special.setdefault(owner.rpartition(".")[2], []).append(code)

    def _find_places(self, members: Mapping[str, Any]) -> None:
        """Note the names of the values in a namespace, and of those in fields of its objects."""
        for name, value in list(members.items()):
            kind = type(value)
            if isinstance(value, ModuleType):
                self._module_names.add(name)
            if kind in _PLAIN or len(self._places) > _MOST_PLACES or name.startswith("__"):
                continue
            self._places.setdefault(id(value), set()).add(name)
            if is_own_class(kind):
                self._find_fields(value, 0)

    def _find_fields(self, value: object, depth: int) -> None:
        for name, content in fields_of(value).items():
            kind = type(content)
            if kind in _PLAIN or len(self._fields) > _MOST_PLACES:
                continue
            is_known = id(content) in self._fields
            self._fields.setdefault(id(content), set()).add(name)
            if not is_known and depth < _DEEPEST_PLACE and is_own_class(kind):
                self._find_fields(content, depth + 1)

    def _reach(self, codes: Iterable[CodeType]) -> None:
        for code in self._reachable(codes):
            self._codes[code] = self._bounds_in(code)

    def _bounds_in(self, code: CodeType) -> _Bounds | None:
        if self.entry is not None and code is self.entry.code:
            return self._bounds
        return None

    def _reachable(self, codes: Iterable[CodeType]) -> set[CodeType]:
        seen: set[CodeType] = set()
        pending = list(codes)
        while pending:
            code = pending.pop()
            if code in seen:
                continue
            seen.add(code)
            for name in _mentions(code, self._bounds_in(code)):
                pending += [function.code for function in self._functions.get(name, ())]
                pending += self._special.get(name, ())
            for name in code.co_freevars:
                pending += [nested for nested in self._nested.get(name, ()) if _is_sibling(nested, code)]
        return seen


_PLAIN = frozenset({str, int, float, bool, bytes, complex, type(None), FunctionType, ModuleType, type})


def _modules_of(entry: EntryPoint | None, frames: Iterable[FrameType]) -> list[ModuleType]:
    """Return the modules of running code that are no libraries, and all such modules that they use.

    Other loaded modules, such as other tests, may have functions of the same names.
    """
    own = {name: module for name, module in list(sys.modules.items()) if _is_own(module)}
    names = set()
    for frame in frames:
        names.add(module_name(frame))
        names.update(type(value).__module__ for value in locals_of(frame).values())
    files = () if entry is None else (entry.code.co_filename,)
    pending = [module for name, module in own.items() if name in names or module.__file__ in files]
    found: dict[str, ModuleType] = {}
    while pending:
        module = pending.pop()
        if module.__name__ not in found:
            found[module.__name__] = module
            pending += [own[name] for name in _modules_used_by(module) if name in own]
    return list(found.values())


def _is_own(module: object) -> bool:
    """Return whether a module is the agent's own."""
    file = getattr(module, "__file__", None)
    return isinstance(module, ModuleType) and isinstance(file, str) and not is_library(file)


def _modules_used_by(module: ModuleType) -> set[str]:
    """Return the names of the modules that it holds, and of the modules that its other values come from."""
    names: set[str] = set()
    package = module.__package__ or ""
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            names.add(value.__name__)
        elif isinstance(value, FunctionType | type):
            names.add(value.__module__ or "")
        else:
            names.add(type(value).__module__)
        if not isinstance(value, FunctionType):
            continue
        for code in _codes_of(value):
            names.update(code.co_names)  # of an import in a function
            if package:
                names.update(f"{package}.{name}" for name in code.co_names)
    return names


def is_own_class(kind: type) -> bool:
    """Return whether a class comes from a module that is no library."""
    return _is_own_module(kind.__module__)


@functools.lru_cache(maxsize=1024)
def _is_own_module(name: str) -> bool:
    return _is_own(sys.modules.get(name))


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of an object, including slots, without those that are computed once and cached."""
    slots, computed = _layout_of(cast(Hashable, type(value)))
    fields = getattr(value, "__dict__", None)
    if not slots and not computed and fields is not None:
        return dict(fields)
    found = dict(fields or ())
    for name in computed:
        found.pop(name, None)
    for name in slots:
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:  # not set yet, or a private name
            continue
    return found


@functools.lru_cache(maxsize=1024)  # called for every object in a tool's reach; inspecting a class takes 10 µs
def _layout_of(kind: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the slots of a class, and its fields that are computed once."""
    slots, computed = dict[str, None](), set[str]()
    for base in kind.__mro__:
        members = vars(base)
        names = members.get("__slots__", ())
        if isinstance(names, str):
            names = (names,)
        slots.update(dict.fromkeys(names))
        computed.update(name for name, member in members.items() if isinstance(member, functools.cached_property))
    for name in ("__dict__", "__weakref__"):
        slots.pop(name, None)
    return tuple(slots), frozenset(computed)


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a running function.

    Before Python 3.13, a frame keeps the dictionary that it has once returned, so an object would outlive the agent's
    `del`, and its finalizer would run later than without a recording. A dictionary that the agent itself may hold
    stays.
    """
    shown = frame.f_locals
    found = dict(shown)
    code = frame.f_code
    is_snapshot = sys.version_info < (3, 13) and bool(code.co_flags & _IS_FUNCTION)
    if is_snapshot and _SHOW_LOCALS.isdisjoint(code.co_names) and sys.gettrace() is None:
        shown.clear()
    return found


_IS_FUNCTION = 0x1  # `inspect.CO_OPTIMIZED`; the namespace of a module or class is not a snapshot
# The functions by which an agent can access its own variables.
_SHOW_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"})


def _frames_of(entry: EntryPoint | None) -> Iterator[FrameType]:
    """Yield the frames of the agent's own code that run inside of the entry and outside of tools: in this thread, and
    in the one that entered the run. Other threads of a run begin with functions that are mentioned somewhere."""
    here = sys._getframe(1)
    for innermost in thread_frames().values():
        # A plain loop is fast: frames of other threads may disappear between two steps.
        chain = []
        frame: FrameType | None = innermost
        while frame is not None:
            chain.append(frame)
            frame = frame.f_back
        has_entry = entry is not None and any(link.f_code is entry.code for link in chain)
        if entry is None or has_entry or here in chain:
            yield from _outside_of_tools(chain, entry if has_entry else None, is_whole=entry is None)


def _outside_of_tools(chain: list[FrameType], entry: EntryPoint | None, *, is_whole: bool) -> list[FrameType]:
    """Return the frames of a stack that belong to the run: down to its entry, or all of a whole program."""
    found: list[FrameType] = []
    for frame in chain:
        code = frame.f_code
        if code.co_filename == _TOOL_FILE:
            found.clear()  # the frames so far run inside of a tool
        elif not is_library(code.co_filename):
            found.append(frame)
        is_end = code.co_name in _OUTERMOST
        if entry is not None:
            is_end = code is entry.code
        # Frames below ReplayKit's code that runs a candidate are not the agent's.
        if (is_end and not is_whole) or module_name(frame).startswith(_CALLERS_OF_AGENTS):
            break
    return found


def _codes_of(member: Any) -> Iterator[CodeType]:
    """Yield the own code of a function, method or descriptor, through its decorators; nothing for tools."""
    codes = [function.__code__ for function in _unwrapped(member)]
    files = [code.co_filename for code in codes]
    if _TOOL_FILE not in files:
        yield from (code for code in codes if not is_library(code.co_filename))


def _unwrapped(member: Any) -> Iterator[FunctionType]:
    pending, seen = [member], 0
    while pending and seen < _MOST_WRAPPERS:
        wrapper = pending.pop()
        seen += 1
        if isinstance(wrapper, FunctionType):
            yield wrapper
        elif isinstance(wrapper, type) or type(wrapper) in _PLAIN:
            continue
        for name in _WRAPPED:
            with suppress(AttributeError, TypeError):
                pending.append(object.__getattribute__(wrapper, name))


def _nested(code: CodeType) -> Iterator[CodeType]:
    for inner in _inner_code(code):
        yield inner
        yield from _nested(inner)


def _is_sibling(inner: CodeType, code: CodeType) -> bool:
    """Return whether a function is defined in the function that this code is defined in."""
    outer = inner.co_qualname.rpartition(".")[0]
    return inner.co_filename == code.co_filename and code.co_qualname.startswith(f"{outer}.")


def _mentions(code: CodeType, bounds: _Bounds | None = None) -> set[str]:
    """Return the names in the code and in that of its inner functions that are no tools."""
    names = set(_names_in(code, bounds))
    for inner in _inner_code(code, bounds):
        names |= _mentions(inner)
    return names


@functools.lru_cache(maxsize=8192)  # going through the instructions of a long function takes 0.4 ms
def _names_in(code: CodeType, bounds: _Bounds | None) -> frozenset[str]:
    """Return the names in the code itself, without those of libraries, such as `run` in `asyncio.run`."""
    names = frozenset({*code.co_names, *code.co_freevars, *code.co_cellvars, *_texts_in(code)})
    if bounds is None and not any(_is_library_module(name) for name in code.co_names):
        return names
    found, before = set[str](), ""
    for instruction in dis.get_instructions(code):
        is_of_library = instruction.opname in _ATTRIBUTES and _is_library_module(before)
        before = _name_in(instruction)
        if _is_inside(instruction, bounds) and not is_of_library:
            found.add(before)
    return names & found


def _name_in(instruction: dis.Instruction) -> str:
    """Return the name that an instruction loads or stores; empty if it has none."""
    if isinstance(instruction.argval, str):
        return instruction.argval
    return ""


def _texts_in(code: CodeType) -> list[str]:
    """Return texts that may be names."""
    if _LOOKS_UP_BY_TEXT.isdisjoint(code.co_names):
        return []
    return [constant for constant in code.co_consts if isinstance(constant, str)]


def _inner_code(code: CodeType, bounds: _Bounds | None = None) -> list[CodeType]:
    """Return the code of the functions defined in the code, without tools."""
    parts = [part for part in code.co_consts if isinstance(part, CodeType) and part not in TOOL_BODIES]
    if not parts or bounds is None:
        return parts
    inside = [instruction.argval for instruction in dis.get_instructions(code) if _is_inside(instruction, bounds)]
    return [part for part in parts if part in inside]


@functools.lru_cache(maxsize=4096)
def _is_library_module(name: str) -> bool:
    """True for the name of a loaded library module."""
    module = sys.modules.get(name)
    return module is not None and not _is_own(module)


def _is_registered(function: _Function) -> bool:
    """Return whether anything but its module holds the function."""
    member = function.holder.get(function.key)
    for referrer in gc.get_referrers(member):
        is_module = isinstance(referrer, dict) and "__name__" in referrer
        is_own_module = is_module and getattr(member, "__globals__", None) is referrer
        if referrer is not function.holder and not isinstance(referrer, FrameType) and not is_own_module:
            return True
    return False


def _instructions(code: CodeType, bounds: _Bounds | None) -> Iterator[tuple[dis.Instruction, dis.Instruction]]:
    """Yield each instruction with the next one."""
    for pair in pairwise(dis.get_instructions(code)):
        if _is_inside(pair[0], bounds):
            yield pair


def _is_looked_up(code: CodeType, name: str, bounds: _Bounds | None) -> bool:
    if name not in code.co_consts or _LOOKS_UP_BY_TEXT.isdisjoint(code.co_names):
        return False
    return bounds is None or any(load.argval == name for load, _ in _instructions(code, bounds))


def _is_cell_load(instruction: dis.Instruction, code: CodeType) -> bool:
    """Return whether an instruction passes a variable on to an inner function, without reading its value.

    From Python 3.13 on, this is `LOAD_FAST` of a variable whose value only `LOAD_DEREF` reads.
    """
    if instruction.opname == "LOAD_CLOSURE":
        return True
    is_cell = instruction.argval in code.co_cellvars or instruction.argval in code.co_freevars
    return is_cell and instruction.opname.startswith("LOAD_FAST")


def _only_changes(instruction: dis.Instruction) -> bool:
    """Return whether an instruction loads a container's method that reveals nothing of its contents."""
    return instruction.opname in _ATTRIBUTES and instruction.argval in _ONLY_CHANGES


def _has_variable(code: CodeType, name: str) -> bool:
    return name in code.co_names or name in code.co_freevars or name in code.co_cellvars


def _reads_variable(code: CodeType, name: str, bounds: _Bounds | None, modules: set[str]) -> bool:
    if _has_variable(code, name):
        before = ""
        for load, after in _instructions(code, bounds):
            is_load = load.argval == name and load.opname.startswith(("LOAD_", "IMPORT_FROM"))
            is_other = _is_cell_load(load, code) or (load.opname in _ATTRIBUTES and before not in modules)
            before = _name_in(load)
            if is_load and not is_other and not _only_changes(after):
                return True
    return _is_looked_up(code, name, bounds)


def _reads_field(code: CodeType, name: str, bounds: _Bounds | None, _modules: set[str]) -> bool:
    if name in code.co_names:
        for load, after in _instructions(code, bounds):
            if load.argval == name and load.opname in _ATTRIBUTES and not _only_changes(after):
                return True
    if any(isinstance(constant, tuple) and name in constant for constant in code.co_consts):
        return True  # `case State(count=3)`
    return _is_looked_up(code, name, bounds)


def _passes_on(code: CodeType, name: str, bounds: _Bounds | None, _modules: set[str]) -> bool:
    if not _has_variable(code, name):
        return False
    for load, after in _instructions(code, bounds):
        is_load = load.argval == name and load.opname.startswith("LOAD_") and not _is_cell_load(load, code)
        if is_load and after.opname not in (*_ATTRIBUTES, "STORE_ATTR", "COPY"):
            return True
    return False
