"""`--quiet` and `--verbose`: one meaning in every command that prints a result.

Quiet leaves the essential line of the result, and errors. Verbose adds details on stderr: what the command used, and
how long it took. Neither changes the exit code, or what --json prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any

import click

from replaykit.config import default_store_path
from replaykit.report.layout import fit

_KEY = "replaykit.verbosity"


class Verbosity(StrEnum):
    """How much a command says."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def reports(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--quiet` and `--verbose` to a command that prints a result."""

    @wraps(command)
    def run_command(*arguments: Any, **parameters: Any) -> Any:
        begun = time.monotonic()
        try:
            return command(*arguments, **parameters)
        finally:
            if "store_path" in parameters:
                detail(f"store {parameters['store_path'] or default_store_path()}")
            detail(f"took {time.monotonic() - begun:.2f} s")

    return _quiet(_verbose(run_command))


def _choose(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if not is_given:
        return
    chosen = Verbosity(str(parameter.name))
    if context.meta.setdefault(_KEY, chosen) is not chosen:
        raise click.UsageError("--quiet and --verbose cannot be combined", context)


_quiet = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_choose,
    help="Print only errors and the essential line of the result.",
)
_verbose = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_choose,
    help="Print details as well: what was used, where it is, how long it took.",
)


def verbosity() -> Verbosity:
    """Return how much the command that runs is to say."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Verbosity.NORMAL
    return Verbosity(context.meta.get(_KEY, Verbosity.NORMAL))


def is_quiet() -> bool:
    """True when only errors and the essential line are printed."""
    return verbosity() is Verbosity.QUIET


def is_verbose() -> bool:
    """True when details are printed as well."""
    return verbosity() is Verbosity.VERBOSE


def hint(text: str) -> None:
    """Say on stderr what helps to understand the result, or to go on; not with `--quiet`."""
    if not is_quiet():
        click.echo(text, err=True)


def detail(*texts: str | Path) -> None:
    """Say on stderr what only `--verbose` tells, a line each."""
    if is_verbose():
        for text in texts:
            click.echo(fit(f"detail: {text}"), err=True)


def essential(text: str) -> str:
    """Return the line of a report that `--quiet` leaves: the last one, which says what it adds up to."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
