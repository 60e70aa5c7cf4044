"""What a replay may do for real: the options by which the person who runs it says so. No file can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from replaykit.model.consent import Consent

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
    """What the options allow."""
    from replaykit.model.consent import NO_CONSENT

    if not (live or allow_connect or allow_write):
        return NO_CONSENT
    from replaykit.runners.allowing import consent_of as parsed

    return parsed(live, allow_connect, allow_write)


def taken_from(given: dict[str, Any]) -> Consent:
    """What the options among these allow; they are taken out."""
    return consent_of(given.pop("live"), given.pop("allow_connect"), given.pop("allow_write"))


def sandbox_from(given: dict[str, Any]) -> Consent:
    """What the options among these say about the sandbox; they are taken out."""
    from replaykit.model.consent import Consent
    from replaykit.model.isolation import IsolationLevel

    directory = given.pop("keep_writes")
    kept = "" if directory is None else str(directory.absolute())
    return Consent(isolation=IsolationLevel(given.pop("isolation")), keep_writes=kept)


def refuse_in_live_world(allowed: Consent, *, is_recorded: bool) -> None:
    """Raise a `UsageError` where the options say nothing: what no case holds is live anyway."""
    from replaykit.errors import UsageError
    from replaykit.model.consent import NO_CONSENT

    if not is_recorded and allowed != NO_CONSENT:
        message = "--live, --allow-connect and --allow-write are for a recorded world, and this one is live"
        raise UsageError(message, hint="Name a case: --case CASE")
