"""Plugins: modules that a configuration names, and what each of them registers.

A plugin is the project owner's code, like the agent. Commands that need it import it into ReplayKit's own process. No
case, session, contract or trace can name one.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from replaykit.cases.config_files import MAX_CONFIG_BYTES, WORKING_TREE, ConfigFiles
from replaykit.documents.document import Document, parse_document
from replaykit.documents.shape import find_flaws, refuse_flaws
from replaykit.errors import UsageError, nearest
from replaykit.project.shape import PLUGINS
from replaykit.redaction.finders import importing_from
from replaykit.registry import ENTERED, Entry
from replaykit.wire.json_fields import as_object


class Plugin(Struct, frozen=True, kw_only=True):
    """An imported plugin."""

    module: str
    file: str
    brings: tuple[tuple[str, str], ...]
    """Its entries: the kind of registry and the name of each."""


class PluginNames(Struct, frozen=True, kw_only=True):
    """The plugins that a configuration names, before any of them is imported."""

    document: Document
    modules: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """The directory whose modules take precedence over installed ones."""
        return Path(self.document.file).parent.resolve()

    def error(self, number: int, message: str, hint: str) -> UsageError:
        """Return an error about one of the plugins, with its line."""
        return self.document.error(message, ("plugins", number), hint=hint)


# The plugins of this process: a second import would not register anything again.
_IMPORTED: dict[str, Plugin] = {}


def plugin_names(config: Path, files: ConfigFiles = WORKING_TREE) -> PluginNames | None:
    """Return the plugins that a configuration names, without importing them; None if it names none."""
    data = files.read(config, limit_bytes=MAX_CONFIG_BYTES)
    if b"plugins" not in data:  # the usual case; a search is much faster than parsing YAML
        return None
    document = parse_document(data, os.fspath(config))
    modules = as_object(document.value).get("plugins")
    if not modules:
        return None
    refuse_flaws(document, find_flaws(PLUGINS, modules, ("plugins",)))
    return PluginNames(document=document, modules=tuple(dict.fromkeys(modules)))


def load_plugins(names: PluginNames, files: ConfigFiles = WORKING_TREE) -> tuple[Plugin, ...]:
    """Import the plugins; a `UsageError` names the line of one that fails."""
    plugins = []
    for number, module in enumerate(names.modules):
        if module not in _IMPORTED:
            _IMPORTED[module] = _imported(names, number, files)
        plugins.append(_IMPORTED[module])
    return tuple(plugins)


def plugin_file(names: PluginNames, number: int) -> str:
    """Return the file of a plugin without importing it; for a submodule, the file of its package.

    Raise `UsageError` if there is none.
    """
    top = names.modules[number].partition(".")[0]
    with importing_from(names.directory):
        places = _places(_spec(top))
    if not places:
        raise _not_found(names, number)
    return str(places[0])


def _imported(names: PluginNames, number: int, files: ConfigFiles) -> Plugin:
    module_name = names.modules[number]
    directory = _directory_to_trust(names, number, files)
    before = len(ENTERED)
    importlib.invalidate_caches()
    try:
        with importing_from(directory):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if _is_part(error.name, module_name):
            raise _not_found(names, number) from error
        raise _failed(names, number, error) from error
    except (Exception, SystemExit) as error:  # a module that exits must not end the command without a message
        raise _failed(names, number, error) from error
    file = str(getattr(module, "__file__", None) or module_name)
    _refuse_shadowed(names, number, file)
    own = [entry for entry in ENTERED[before:] if not entry.is_built_in]
    for entry in own:
        _refuse_taken(names, number, entry)
    brings = dict.fromkeys((entry.registry.what, entry.name) for entry in own)
    return Plugin(module=module_name, file=file, brings=tuple(brings))


def _directory_to_trust(names: PluginNames, number: int, files: ConfigFiles) -> Path | None:
    """Return the project's import directory; None with an untrusted working tree, where nothing in it may run."""
    if not files.revision_text:
        return names.directory
    module_name = names.modules[number]
    hint = "Install the plugin as a package, from outside of this repository."
    places = _places(_spec(module_name.partition(".")[0]))
    for place in places:
        if not files.may_import(place):
            message = f"the plugin {module_name!r} is {place}, which the working tree may have changed: not imported"
            raise names.error(number, message, hint)
    if not places:
        message = f"the plugin {module_name!r} is not installed, and nothing of the working tree is imported"
        raise names.error(number, message, hint)
    return None


def has_module(top: str) -> bool:
    """True if a module or package of this name exists; imports nothing."""
    return _spec(top) is not None


def _spec(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # ValueError: the module's `__spec__` is None
        return None


def _places(spec: ModuleSpec | None) -> list[Path]:
    """Return the file of a module, or the directories of a namespace package."""
    if spec is None:
        return []
    if spec.origin is not None:
        return [Path(spec.origin)]
    return list(map(Path, spec.submodule_search_locations or ()))


def _is_part(missing: str | None, module: str) -> bool:
    """True if the missing module is the plugin itself or a package that contains it."""
    return missing is not None and (module == missing or module.startswith(f"{missing}."))


def _not_found(names: PluginNames, number: int) -> UsageError:
    module = names.modules[number]
    parent, _, last = module.rpartition(".")
    known = sorted(set(_modules_in(names.directory, parent)))
    suggestion = nearest(last, known) if known else "there is no module here"
    file = names.directory.joinpath(*module.split("."))
    return names.error(
        number,
        f"no module {module!r} for a plugin; {suggestion}",
        f"Write it in {os.path.relpath(file)}.py, or install the package that has it: pip install NAME",
    )


def _modules_in(directory: Path, parent: str) -> Iterator[str]:
    """Yield the modules of a package or of the project's directory."""
    places: Sequence[str] = [str(directory)]
    if parent:
        module = sys.modules.get(parent)
        places = getattr(module, "__path__", [str(directory.joinpath(*parent.split(".")))])
    for module_info in pkgutil.iter_modules(places):
        yield module_info.name


def _failed(names: PluginNames, number: int, error: BaseException) -> UsageError:
    """Return an error with the last line of the traceback and its location."""
    last = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{os.path.relpath(error.filename)}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if not frame.filename.startswith("<")][-1]
        place = f"{os.path.relpath(frame.filename)}:{frame.lineno}, in {frame.name}"
    message = f"the plugin {names.modules[number]!r} cannot be imported: {last}\n  at {place}"
    return names.error(
        number, message, "Repair it, or take its name out of `plugins`. The traceback: replaykit --debug …"
    )


def _refuse_shadowed(names: PluginNames, number: int, file: str) -> None:
    """Raise an error if another module shadows a module of the project."""
    top = names.modules[number].partition(".")[0]
    for own in (names.directory / f"{top}.py", names.directory / top / "__init__.py"):
        if own.is_file() and not Path(file).resolve().is_relative_to(own.parent.resolve()):
            message = f"the plugin {top!r} is {own.name} here, but {file} is imported under that name already"
            raise names.error(number, message, "Rename your module.")


def _refuse_taken(names: PluginNames, number: int, entry: Entry) -> None:
    """Raise an error if a plugin registers a name that ReplayKit or another plugin uses."""
    module, what = names.modules[number], entry.registry.what
    hint = "Give it another name in one of them, or name one of them in `plugins`."
    owner = None
    for other in _IMPORTED.values():
        if (what, entry.name) in other.brings:
            owner = f"the plugin {other.module!r} defines"
    is_built_in = entry.registry.has_home(entry.name)
    for known in ENTERED:
        if known.registry is entry.registry and known.name == entry.name:
            is_built_in = is_built_in or known.is_built_in
    if is_built_in:
        owner, hint = "ReplayKit defines", "Give yours another name."
    if owner is not None:
        raise names.error(number, f"the plugin {module!r} defines the {what} {entry.name!r}, which {owner} too", hint)
