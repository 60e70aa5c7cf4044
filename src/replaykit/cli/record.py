"""`replaykit record`: a whole program, recorded from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from replaykit.cli import options, stages

if TYPE_CHECKING:
    from replaykit.programs.recording import Recorded
    from replaykit.programs.wanted import Staging
    from replaykit.store.sqlite import SQLiteStore

_STDIN = "-"


class Asked(NamedTuple):
    """The options of one call."""

    program: tuple[str, ...]
    name: str | None
    given: str | None
    upstream: tuple[str, ...]
    mcp_configs: tuple[Path, ...]
    in_place: bool
    no_proxy: bool
    no_inject: bool
    pin_env: tuple[str, ...]
    no_pins: bool
    sample: float | None
    recover: bool
    store_path: Path | None
    as_json: bool


@click.command(name="record", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--name", help="The run's name.  [default: the script's]")
@click.option(
    "--input",
    "given",
    metavar="TEXT",
    help="What the agent is asked: JSON, or else text; - keeps what comes on standard input, for replays.",
)
@stages.upstream
@stages.mcp_config
@click.option("--no-proxy", is_flag=True, help="Start no proxy: record Python processes only.")
@click.option("--no-inject", is_flag=True, help="Leave Python processes alone: record at the proxy only.")
@click.option(
    "--pin-env", multiple=True, metavar="NAME", help="Write down a variable's value, for replays. Repeatable."
)
@click.option("--no-pins", is_flag=True, help="Leave chance alone, and write down nothing for replays to hold still.")
@click.option(
    "--sample",
    type=options.Number(0, 1),
    metavar="SHARE",
    help="Keep this share of successful runs, such as 0.1; failed ones always.  [default: the configuration's, or 1]",
)
@click.option("--recover", is_flag=True, help="Put together recordings that were killed, and run nothing.")
@options.no_redact
@options.store
@options.otel
@options.as_json
def command(**given: Any) -> None:
    """Run a program, and record what it does as one run.

    Nothing is changed in it. Python processes record their tools and HTTP calls themselves; the SDKs of other
    languages are led to a proxy on this machine by their environment variables. Exits with the program's own exit
    code. With --json the program's output goes to standard error, and the run's header to standard output. What is
    secret or personal is replaced before it is written; the program and the terminal have it as it is. Connections that
    cannot be recorded, such as one to a database, are named at the end.

    \b
    replaykit record -- python agent.py "Why was I charged?"
    echo "Why was I charged?" | replaykit record --input - -- python agent.py
    replaykit record --name billing -- node agent.mjs
    replaykit record --upstream stripe=https://api.stripe.com -- node agent.mjs
    replaykit record --mcp-config .mcp.json -- claude --mcp-config .mcp.json -p "..."
    """
    from replaykit.config import default_store_path
    from replaykit.errors import StoreFull
    from replaykit.programs.plan import SESSION
    from replaykit.report.recorded import unrecorded_text
    from replaykit.store.sqlite import SQLiteStore

    asked = Asked(**given)
    _check(asked)
    if asked.program and os.environ.get(SESSION):
        _pass_through(asked.program)
    servers = stages.mcp_props(asked.mcp_configs, in_place=asked.in_place)
    if asked.program and servers is None and stages.MCP_CONFIG.exists():
        click.echo(unrecorded_text(stages.MCP_CONFIG), err=True)
    staging = _staging(asked, servers)
    try:
        with SQLiteStore.open(asked.store_path or default_store_path()) as store:
            _recover(asked, store)
            if asked.recover:
                return
            recorded = _record(asked, store, staging)
    except StoreFull as error:  # there was no room for a store: the program is run all the same
        if not asked.program:
            raise
        recorded = _unrecorded(asked, error.message)
    _tell(asked, recorded, servers)
    if recorded.failure is not None:
        raise recorded.failure
    click.get_current_context().exit(recorded.exit_code)


def _check(asked: Asked) -> None:
    """A UsageError for options that do not go together."""
    from replaykit.errors import UsageError

    if not asked.program and not asked.recover:
        raise UsageError("no program to record", hint="Name it after two dashes: replaykit record -- python agent.py")
    if asked.program and asked.recover:
        raise UsageError("--recover runs no program", hint="Put it together first, then record.")
    if asked.pin_env and asked.no_pins:
        raise UsageError("--pin-env and --no-pins do not go together")


def _recover(asked: Asked, store: SQLiteStore) -> None:
    """Put together what was killed before; with --recover that is all there is to tell."""
    from replaykit.programs.recovery import recover
    from replaykit.report.recorded import not_recorded_text, recorded_json, recovered_text

    found = recover(store)
    for run in found:
        click.echo(recovered_text(run), err=True)
        if not_recorded := not_recorded_text(run):
            click.echo(not_recorded, err=True)
    if asked.recover:
        click.echo(recorded_json(found) if asked.as_json else f"{len(found)} put together")


def _staging(asked: Asked, servers: Any) -> Staging:
    from replaykit.programs.wanted import Staging

    return Staging(
        proxy=not asked.no_proxy,
        inject=not asked.no_inject,
        upstreams=stages.upstreams_of(asked.upstream),
        props=servers,
        swapped=servers.files if servers is not None and servers.in_place else (),
        facts={**({} if servers is None else servers.facts), "upstreams": sorted(asked.upstream) or None},
    )


def _record(asked: Asked, store: SQLiteStore, staging: Staging) -> Recorded:
    from replaykit.programs.recording import record_program

    return record_program(
        asked.program,
        store,
        name=asked.name or "",
        given=None if asked.given in (None, _STDIN) else options.json_or_text(asked.given),
        keep_input=asked.given == _STDIN,
        staging=staging,
        pin=not asked.no_pins,
        pin_env=asked.pin_env,
        sample=_configured_sample() if asked.sample is None else asked.sample,
        out=2 if asked.as_json else 1,
    )


def _unrecorded(asked: Asked, why: str) -> Recorded:
    from replaykit.model.run import RunHeader, TraceRun
    from replaykit.programs.ending import shell_code
    from replaykit.programs.recording import Recorded
    from replaykit.programs.running import run_through

    ran = run_through(asked.program, os.environ, 2 if asked.as_json else 1)
    run = TraceRun.of(RunHeader(id="", name=asked.name or ""), ())
    return Recorded(run=run, exit_code=shell_code(ran.code), kept=False, unrecorded=why)


def _configured_sample() -> float | None:
    """What the configuration says of it; nothing is loaded for one that does not."""
    from replaykit.project.find import find_project

    file = find_project()
    if file is None or b"sample" not in file.read_bytes():
        return None
    from replaykit.project.project import load_project

    share = load_project(file).retention.sample
    return None if share == 1 else share


def _tell(asked: Asked, recorded: Recorded, servers: Any) -> None:
    from replaykit.report.recorded import (
        dropped_text,
        not_recorded_text,
        recorded_json,
        recorded_text,
        unasked_text,
        unkept_text,
    )

    if asked.as_json:
        click.echo(recorded_json([recorded.run] if recorded.kept else []))
    if recorded.unrecorded:
        click.echo(f"replaykit: recording stopped; the run is not recorded: {recorded.unrecorded}", err=True)
        return
    again = () if servers is None else servers.options
    told = recorded_text(recorded.run, asked.program, asked.store_path, again, whole=recorded.failure is None)
    click.echo(told if recorded.kept else dropped_text(recorded.run), err=True)
    not_recorded = not_recorded_text(recorded.run)
    if recorded.kept and not_recorded:
        click.echo(not_recorded, err=True)
    if recorded.lost_input:
        click.echo(unkept_text(asked=asked.given == _STDIN), err=True)
    if servers is not None and not servers.were_asked(recorded.run):
        click.echo(unasked_text(asked.mcp_configs, in_place=asked.in_place), err=True)


def _pass_through(program: tuple[str, ...]) -> None:
    """Inside of a recorded or replayed program: the command takes part in that, as any other."""
    from replaykit.programs.ending import shell_code
    from replaykit.programs.plan import RECORDING
    from replaykit.programs.running import run_through

    run = os.environ.get(RECORDING)
    under_way = f"run {run} is recorded already" if run else "a replay is under way"
    click.echo(f"replaykit: {under_way}; the command takes part in it", err=True)
    click.get_current_context().exit(shell_code(run_through(program, os.environ, 1).code))
