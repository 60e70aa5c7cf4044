"""Find the agent of a project without a configuration, in its source code and without importing any of it."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from replaykit.project.agent import AgentType
from replaykit.wire.json_fields import as_object

_MAX_FILES = 500
_MAX_BYTES = 1_000_000
_LEFT_OUT = frozenset({"tests", "test", "docs", "build", "dist", "node_modules", "venv", "site-packages"})


def find_agents(directory: Path) -> list[str]:
    """Return candidates for a project's agent: functions decorated with `rk.record`, or else its Node program."""
    return recorded_functions(directory) or _node_programs(directory)


def _node_programs(directory: Path) -> list[str]:
    """Return the command that runs the main file of package.json, if any."""
    file = directory / "package.json"
    try:
        if file.stat().st_size > _MAX_BYTES:
            return []
        package = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    main = as_object(package).get("main")
    if not isinstance(main, str) or not (directory / main).is_file():
        return []
    return [shlex.join(["node", main])]


def recorded_functions(directory: Path) -> list[str]:
    """Return the functions decorated with `rk.record`, as `module:function`, file by file."""
    functions = []
    for number, file in enumerate(_source_files(directory)):
        if number == _MAX_FILES:
            break
        module = ".".join(file.relative_to(directory).with_suffix("").parts)
        functions += [f"{module}:{name}" for name in _recorded_in(file)]
    return functions


def agent_type(endpoint: str) -> AgentType:
    """Return the type of an agent that is given as a URL, as `module:function`, or else as a command."""
    if endpoint.startswith(("http://", "https://")):
        return AgentType.HTTP
    module, colon, function = endpoint.partition(":")
    if colon and all(part.isidentifier() for part in [*module.split("."), *function.split(".")]):
        return AgentType.PYTHON
    return AgentType.COMMAND


def _source_files(directory: Path) -> Iterator[Path]:
    """Yield the Python files of a project, parents before children, without hidden and third-party directories."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:  # no permission
        return
    yield from (entry for entry in entries if entry.suffix == ".py" and entry.is_file())
    for entry in entries:
        is_left_out = entry.name in _LEFT_OUT or entry.name.startswith((".", "_"))
        if entry.is_dir() and not entry.is_symlink() and not is_left_out:
            yield from _source_files(entry)


def _recorded_in(file: Path) -> Iterator[str]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):  # unreadable, or written for a newer Python
        return
    for statement in module.body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(map(_is_record, statement.decorator_list)):
            yield statement.name


def _is_record(decorator: ast.expr) -> bool:
    """True for `record` and `rk.record`, with or without arguments."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr == "record" and isinstance(decorator.value, ast.Name) and decorator.value.id in _NAMES
    return isinstance(decorator, ast.Name) and decorator.id == "record"


_NAMES = frozenset({"rk", "replaykit"})
