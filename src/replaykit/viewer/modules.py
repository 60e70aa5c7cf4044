"""Modules: the scripts of the page, joined into one for files that are opened from disk.

A page from disk cannot import modules. Each module becomes a function that returns its exports, so names that several
modules use for themselves do not meet. The modules keep to one form: imports by name from files beside them, and
exports in front of declarations.
"""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).with_name("static")
ENTRY = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_UNKNOWN = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def joined_script(directory: Path = STATIC, entry: str = ENTRY) -> str:
    """Return one script that does what the entry module and its imports do."""
    sources: dict[str, str] = {}
    _collect(directory, entry, sources, ())
    parts = ['"use strict";', *(_as_function(name, source) for name, source in sources.items())]
    script = "\n".join(parts) + "\n"
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a module holds text that would end its script element")
    return script


def _collect(directory: Path, name: str, sources: dict[str, str], importing: tuple[str, ...]) -> None:
    """Add a module after those that it imports."""
    if name in importing:
        raise ValueError(f"modules import each other: {' → '.join((*importing, name))}")
    if name in sources:
        return
    source = (directory / name).read_text(encoding="utf-8")
    for match in _IMPORT.finditer(source):
        _collect(directory, match[2], sources, (*importing, name))
    sources[name] = source


def _as_function(name: str, source: str) -> str:
    exports = [match[1] for match in _EXPORT.finditer(source)]
    body = _EXPORT.sub("", _IMPORT.sub(_as_constant, source))
    unknown = _UNKNOWN.search(body)
    if unknown is not None:
        raise ValueError(f"{name}: this form of import or export cannot be joined: {unknown[0][:100]}")
    return f"const {_identifier(name)} = (() => {{\n{body.rstrip()}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _as_constant(match: re.Match[str]) -> str:
    names = [name.strip().replace(" as ", ": ") for name in match[1].split(",") if name.strip()]
    return f"const {{ {', '.join(names)} }} = {_identifier(match[2])};"


def _identifier(name: str) -> str:
    """Return the constant for the exports of a module."""
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
