"""Check the configuration of a project and its plugins."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from replaykit.cases.config_files import find_project
from replaykit.cases.find import find_files
from replaykit.doctor.files import wrong_file
from replaykit.doctor.results import DoctorItem, ItemState, item
from replaykit.errors import NothingSelected, ReplayKitError
from replaykit.project.agent import AgentType
from replaykit.project.plugins import Plugin, PluginNames, has_module, load_plugins, plugin_file, plugin_names
from replaykit.project.project import Project, load_project
from replaykit.redaction.finders import importing_from

_item = partial(item, "project")
_IMPORT = "See what it brings: replaykit doctor --plugins"


def examine_config(named: Path | None, *, with_plugins: bool) -> Iterator[DoctorItem]:
    """Check the configuration. Plugins are imported only on request."""
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
    try:
        project = load_project(file)
    except ReplayKitError as error:
        # A plugin that was not imported may define the assertion.
        if plugins and not with_plugins and "unknown assertion" in error.message:
            advice = "If a plugin defines it: replaykit doctor --plugins"
            yield _item("configuration", ItemState.NOTE, error.message, advice)
        else:
            yield wrong_file("configuration", error)
        yield from plugins
        return
    if project.notices:
        yield _item("configuration", ItemState.NOTE, f"{file}: {'; '.join(project.notices)}")
    else:
        yield _item("configuration", ItemState.OK, f"{file} is valid")
    yield _agent(project)
    yield _cases(project)
    yield from plugins


def _agent(project: Project) -> DoctorItem:
    """Check that the agent's file or program exists, without running it."""
    agent = project.agent
    if agent is None:
        advice = "Add it: agent: {type: python, endpoint: my_agent:answer}"
        return _item("agent", ItemState.NOTE, f"{project.file} names none", advice)
    if agent.type in (AgentType.PYTHON, AgentType.LANGCHAIN):
        top = agent.endpoint.partition(":")[0].partition(".")[0]
        with importing_from(project.directory.resolve()):
            is_there = has_module(top)
        advice = "Correct `agent.endpoint` in the configuration, or install the package that has it: pip install NAME"
    elif agent.type is AgentType.COMMAND:
        top = (agent.words or shlex.split(agent.endpoint) or ("",))[0]
        is_there = shutil.which(top) is not None or (project.directory / top).is_file()
        advice = "Correct `agent.endpoint` in the configuration, or install the program."
    else:
        return _item("agent", ItemState.OK, f"{agent.type}, {agent.endpoint}; not asked")
    if is_there:
        return _item("agent", ItemState.OK, f"{agent.type}, {agent.endpoint}")
    return _item("agent", ItemState.PROBLEM, f"{agent.endpoint}: there is no {top!r}", advice)


def _cases(project: Project) -> DoctorItem:
    """Count the cases and sessions. A project without any guards nothing yet."""
    directories = list(filter(Path.exists, project.cases))
    try:
        count = len(find_files(directories).files) if directories else 0
    except NothingSelected:
        count = 0
    except ReplayKitError as error:
        return wrong_file("cases", error)
    count += len(project.sessions)
    if count:
        return _item("cases", ItemState.OK, f"cases and sessions: {count}")
    return _item("cases", ItemState.NOTE, "none yet", "Make one: replaykit scaffold TRACE --out cases/NAME")


def _plugins(names: PluginNames, *, with_plugins: bool) -> Iterator[DoctorItem]:
    """Yield an item for each plugin, or one for the first unusable plugin."""
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
        return _item(
            name, ItemState.NOTE, f"{plugin.file} registers nothing", "See docs/assertions.md, Adding your own"
        )
    groups = []
    for what, entries in groupby(sorted(plugin.brings), key=lambda entry: entry[0]):
        groups.append(f"{what} {', '.join([entry_name for _, entry_name in entries])}")
    return _item(name, ItemState.OK, f"brings {'; '.join(groups)}")
