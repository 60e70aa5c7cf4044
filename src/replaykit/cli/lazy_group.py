"""Groups of commands that are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from replaykit.errors import nearest

Summaries = Mapping[str, str]
"""Names of commands, each with the first line of its help."""


class HelpFormatter(click.HelpFormatter):
    """Help whose examples and tables fit the terminal as well: click wraps only its paragraphs."""

    def write_text(self, text: str) -> None:
        from replaykit.report.layout import fit  # only help needs it

        start = len(self.buffer)
        super().write_text(text)
        self.buffer[start:] = [fit("".join(self.buffer[start:]))]


class HelpContext(click.Context):
    """The context of every command of `replaykit`."""

    formatter_class = HelpFormatter


_WHOLE = 1_000  # characters: more than a first sentence has


def _fit_help(command: click.Command) -> None:
    """Let the help of a command, and of the commands below it, fit the terminal, with no summary cut off."""
    command.context_class = HelpContext
    command.short_help = command.get_short_help_str(limit=_WHOLE)
    for part in getattr(command, "commands", {}).values():
        _fit_help(part)


class LazyGroup(click.Group):
    """A group whose commands are the modules of a package, each imported when it is used.

    It takes the summaries in sections, so that `--help` imports none of the modules. Unlisted commands run, but are not
    in the sections of `--help`. Synonyms are words that people try for a command; the error about one suggests it.
    """

    context_class = HelpContext

    def __init__(
        self,
        *arguments: Any,
        package: str,
        sections: Mapping[str, Summaries],
        unlisted: Summaries | None = None,
        synonyms: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._package = package
        self._sections = sections
        self._unlisted = unlisted or {}
        self._synonyms = synonyms or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for summaries in (*self._sections.values(), self._unlisted) for name in summaries]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{self._package}.{name}").command
        _fit_help(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, summaries in self._sections.items():
            with formatter.section(title):
                formatter.write_dl(list(summaries.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            synonym = self._synonyms.get(args[0])
            suggestion = f"did you mean {synonym!r}?" if synonym else nearest(args[0], known)
            raise click.UsageError(f"no such command {args[0]!r}; {suggestion}", ctx)
        return super().resolve_command(ctx, args)
