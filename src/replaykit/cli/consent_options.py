"""Options by which a person allows a replay to do things for real. No file can allow them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from replaykit.errors import UsageError
from replaykit.model.isolation import NO_CONSENT, Consent, IsolationLevel

live = click.option(
    "--live",
    multiple=True,
    metavar="NAME",
    help="Do this tool, model or request for real where the case does not hold it, or asks for that; `models` is every"
    " model, `*` anything. Repeatable.",
)
allow_connect = click.option(
    "--allow-connect",
    multiple=True,
    metavar="HOST:PORT",
    help="Let the candidate reach this address, or a unix socket by its path. Repeatable.",
)
allow_write = click.option(
    "--allow-write",
    multiple=True,
    metavar="DIR",
    help="Let the candidate really write files in this directory. Repeatable.",
)

isolation = click.option(
    "--isolation",
    type=click.Choice(["full", "landlock", "process"]),
    default="full",
    help="Keep the candidate shut in at this level at most.  [default: the highest that this machine offers]",
)
keep_writes = click.option(
    "--keep-writes",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Copy the files that the candidate wrote in its sandbox into this directory.",
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The three options."""
    return live(allow_connect(allow_write(command)))


def consent_of(
    live: tuple[str, ...] = (), allow_connect: tuple[str, ...] = (), allow_write: tuple[str, ...] = ()
) -> Consent:
    """Return what the options allow."""
    if not (live or allow_connect or allow_write):
        return NO_CONSENT
    from replaykit.candidates.consent import consent_of as parsed

    return parsed(live, allow_connect, allow_write)


def taken_from(parameters: dict[str, Any]) -> Consent:
    """Remove the consent options from the parameters, and return what they allow."""
    return consent_of(parameters.pop("live"), parameters.pop("allow_connect"), parameters.pop("allow_write"))


def sandbox_from(parameters: dict[str, Any]) -> Consent:
    """Remove the sandbox options from the parameters, and return what they ask for."""
    directory = parameters.pop("keep_writes")
    directory_text = "" if directory is None else str(directory.absolute())
    return Consent(isolation=IsolationLevel(parameters.pop("isolation")), keep_writes=directory_text)


def refuse_in_live_world(allowed: Consent, *, is_recorded: bool) -> None:
    """Raise a `UsageError` where the options say nothing: what no case holds is live anyway."""
    if not is_recorded and allowed != NO_CONSENT:
        message = "--live, --allow-connect and --allow-write are for a recorded world, and this one is live"
        raise UsageError(message, hint="Name a case: --case CASE")
