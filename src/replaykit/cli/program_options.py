"""The stage of a program: what follows two dashes, and what stands around it while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from replaykit.programs.launch_options import ORIGINAL

upstream = click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=URL",
    help="A further API behind the proxy; sets NAME_BASE_URL for the program. Repeatable.",
)

MCP_CONFIG = Path(".mcp.json")
"""The file in which many programs look for their MCP servers."""


def mcp_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """The configuration files of a program's MCP servers."""
    for option in (
        click.option(
            "--mcp-config-in-place",
            "in_place",
            is_flag=True,
            help="The program reads those files where they are: swap them while it runs.",
        ),
        click.option(
            "--mcp-config",
            "mcp_configs",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Lead the MCP servers in this file, such as .mcp.json, through ReplayKit. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def mcp_props(files: tuple[Path, ...], *, in_place: bool) -> Any:
    """Return the MCP servers that the `--mcp-config` options name; None without any."""
    if not files and not in_place and not MCP_CONFIG.with_name(MCP_CONFIG.name + ORIGINAL).exists():
        return None
    from replaykit.errors import UsageError
    from replaykit.programs.file_swap import restore_swapped_file

    for file in files:
        restore_swapped_file(file)
    if not files:
        with suppress(UsageError):  # whoever uses it is in nobody's way here
            restore_swapped_file(MCP_CONFIG)
        if in_place:
            raise UsageError("which file is to be swapped?", hint=f"Name it: --mcp-config {MCP_CONFIG}")
        return None
    from replaykit.programs.mcp.config import McpConfigs, checked_config

    for file in files:
        checked_config(file)
    return McpConfigs(files=tuple(dict.fromkeys(files)), in_place=in_place)


def upstreams_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the upstreams that the `--upstream` options name, by name."""
    if not pairs:
        return {}
    from replaykit.errors import UsageError
    from replaykit.programs.sdk_variables import checked_address

    found = {}
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals:
            raise UsageError(f"--upstream {pair!r}: expected NAME=URL")
        found[name] = checked_address(name, address)
    return found


class BeforeProgram(click.Command):
    """A verb whose arguments end at two dashes; what follows is a program, in `ctx.meta["program"]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta["program"] = args[:cut], tuple(args[cut + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]
