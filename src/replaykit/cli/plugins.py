"""Plugins on the command line: which commands import them, and when.

Commands that run the project's agent, and those that bring runs in or write cases, import the plugins that the
configuration names. Commands that only read do so with `--plugins`: a look at a stranger's project runs none of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from replaykit.cases.config_files import MAX_CONFIG_BYTES, WORKING_TREE, ConfigFiles, find_project
from replaykit.cli import options
from replaykit.cli.verbosity import detail
from replaykit.redaction.project import MODULES_VARIABLE

with_plugins = options.flag(
    "--plugins", "with_plugins", help="Import the plugins that the configuration names, which runs their code."
)


def load_plugins(config: Path | None = None, files: ConfigFiles = WORKING_TREE) -> None:
    """Import the plugins of the configuration that was named, or that lies here.

    Processes that the command starts redact by the same finders.
    """
    names = named_plugins(config, files)
    if names is None:
        return
    from replaykit.project.plugins import load_plugins as load

    modules = []
    for plugin in load(names, files):
        detail(f"plugin {plugin.module} from {plugin.file}")
        if any(what == "finder" for what, _name in plugin.brings):
            modules.append(plugin.module)
    if modules and MODULES_VARIABLE not in os.environ:
        os.environ[MODULES_VARIABLE] = os.pathsep.join([str(names.directory), *modules])
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(lambda: os.environ.pop(MODULES_VARIABLE, None))


def named_plugins(config: Path | None, files: ConfigFiles) -> Any:
    """Return the plugins that a configuration names, and import none of them; None without any."""
    file = config or find_project(has=files.has)
    if file is None or not files.has(file):
        return None
    if files is WORKING_TREE and b"plugins" not in files.read(file, limit_bytes=MAX_CONFIG_BYTES):
        return None  # the import below takes longer than a replay needs to start
    from replaykit.project.plugins import plugin_names

    return plugin_names(file, files)
