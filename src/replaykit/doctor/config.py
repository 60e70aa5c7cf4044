"""The configuration of a project, and its plugins."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from replaykit.doctor.files import wrong_file
from replaykit.doctor.results import DoctorItem, ItemState, item
from replaykit.errors import ReplayKitError
from replaykit.project.find import find_project
from replaykit.project.plugins import Plugin, PluginNames, load_plugins, plugin_file, plugin_names
from replaykit.project.project import load_project

_item = partial(item, "project")
_IMPORT = "See what it brings: replaykit doctor --plugins"


def examine_config(named: Path | None, *, with_plugins: bool) -> Iterator[DoctorItem]:
    """Look at the configuration; its plugins are imported only if somebody asks for that."""
    file = named if named is not None else find_project()
    if file is None:
        yield _item("configuration", ItemState.NOTE, "there is no replaykit.yaml here", "Make one: replaykit init")
        return
    try:
        names = plugin_names(file)
    except ReplayKitError as error:
        yield wrong_file("configuration", error)
        return
    plugins = list(_plugins(names, with_plugins=with_plugins)) if names is not None else []
    yield _config(file, needs_plugins=bool(plugins) and not with_plugins)
    yield from plugins


def _config(file: Path, *, needs_plugins: bool) -> DoctorItem:
    try:
        project = load_project(file)
    except ReplayKitError as error:
        if needs_plugins and "unknown assertion" in error.message:
            advice = "If a plugin defines it: replaykit doctor --plugins"
            return _item("configuration", ItemState.NOTE, error.message, advice)
        return wrong_file("configuration", error)
    if project.notices:
        return _item("configuration", ItemState.NOTE, f"{file}: {'; '.join(project.notices)}")
    return _item("configuration", ItemState.OK, f"{file} is valid")


def _plugins(names: PluginNames, *, with_plugins: bool) -> Iterator[DoctorItem]:
    """Yield an item for each plugin, or one for the first that cannot be used."""
    try:
        if with_plugins:
            for plugin in load_plugins(names):
                yield _brought(plugin)
            return
        for number, module in enumerate(names.modules):
            yield _item(f"plugin {module}", ItemState.OK, f"found in {plugin_file(names, number)}", _IMPORT)
    except ReplayKitError as error:
        yield wrong_file("plugins", error)


def _brought(plugin: Plugin) -> DoctorItem:
    name = f"plugin {plugin.module}"
    if not plugin.brings:
        return _item(name, ItemState.NOTE, f"{plugin.file} enters nothing", "See docs/assertions.md, Adding your own")
    groups = []
    for what, entries in groupby(sorted(plugin.brings), key=lambda entry: entry[0]):
        groups.append(f"{what} {', '.join([entry_name for _, entry_name in entries])}")
    return _item(name, ItemState.OK, f"brings {'; '.join(groups)}")
