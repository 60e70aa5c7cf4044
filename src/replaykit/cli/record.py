"""`replaykit record`: a whole program, recorded from outside."""

from __future__ import annotations

import os
from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="record", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--name", help="The run's name.  [default: the script's]")
@click.option("--input", "given", metavar="TEXT", help="What the agent is asked: JSON, or else text.")
@options.upstream
@options.mcp_config
@click.option("--no-proxy", is_flag=True, help="Start no proxy: record Python processes only.")
@click.option("--no-inject", is_flag=True, help="Leave Python processes alone: record at the proxy only.")
@click.option(
    "--pin-env", multiple=True, metavar="NAME", help="Write down a variable's value, for replays. Repeatable."
)
@click.option("--no-pins", is_flag=True, help="Leave chance alone, and write down nothing for replays to hold still.")
@click.option("--recover", is_flag=True, help="Put together recordings that were killed, and run nothing.")
@options.store
@options.as_json
def command(
    program: tuple[str, ...],
    name: str | None,
    given: str | None,
    upstream: tuple[str, ...],
    mcp_configs: tuple[Path, ...],
    in_place: bool,
    no_proxy: bool,
    no_inject: bool,
    pin_env: tuple[str, ...],
    no_pins: bool,
    recover: bool,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Run a program, and record what it does as one run.

    Nothing is changed in it. Python processes record their tools and HTTP calls themselves; the SDKs of other
    languages are led to a proxy on this machine by their environment variables. Exits with the program's own exit
    code. With --json the program's output goes to standard error, and the run's header to standard output.

    \b
    replaykit record -- python agent.py "Why was I charged?"
    replaykit record --name billing -- node agent.mjs
    replaykit record --upstream stripe=https://api.stripe.com -- node agent.mjs
    replaykit record --mcp-config .mcp.json -- claude --mcp-config .mcp.json -p "..."
    """
    from replaykit.config import default_store_path
    from replaykit.errors import UsageError
    from replaykit.programs.plan import SESSION
    from replaykit.programs.recording import record_program
    from replaykit.programs.recovery import recover as recovered
    from replaykit.programs.wanted import Staging
    from replaykit.report.recorded import recorded_json, recorded_text, recovered_text, unasked_text, unrecorded_text
    from replaykit.store.sqlite import SQLiteStore

    if not program and not recover:
        raise UsageError("no program to record", hint="Name it after two dashes: replaykit record -- python agent.py")
    if program and recover:
        raise UsageError("--recover runs no program", hint="Put it together first, then record.")
    if pin_env and no_pins:
        raise UsageError("--pin-env and --no-pins do not go together")
    if program and os.environ.get(SESSION):
        _pass_through(program)
    servers = options.mcp_props(mcp_configs, in_place=in_place)
    if program and servers is None and options.MCP_CONFIG.exists():
        click.echo(unrecorded_text(options.MCP_CONFIG), err=True)
    staging = Staging(
        proxy=not no_proxy,
        inject=not no_inject,
        upstreams=options.upstreams_of(upstream),
        props=servers,
        facts={} if servers is None else servers.facts,
    )
    with SQLiteStore.open(store_path or default_store_path()) as store:
        found = recovered(store)
        for run in found:
            click.echo(recovered_text(run), err=True)
        if recover:
            click.echo(recorded_json(found) if as_json else f"{len(found)} put together", nl=True)
            return
        recorded = record_program(
            program,
            store,
            name=name or "",
            given=None if given is None else options.json_or_text(given),
            staging=staging,
            pin=not no_pins,
            pin_env=pin_env,
            out=2 if as_json else 1,
        )
    if as_json:
        click.echo(recorded_json([recorded.run]))
    again = () if servers is None else servers.options
    click.echo(recorded_text(recorded.run, program, store_path, again), err=True)
    if servers is not None and not servers.were_asked(recorded.run):
        click.echo(unasked_text(mcp_configs), err=True)
    if recorded.failure is not None:
        raise recorded.failure
    click.get_current_context().exit(recorded.exit_code)


def _pass_through(program: tuple[str, ...]) -> None:
    """Inside of a recorded or replayed program: the command takes part in that, as any other."""
    from replaykit.programs.ending import shell_code
    from replaykit.programs.plan import RECORDING
    from replaykit.programs.running import run_through

    run = os.environ.get(RECORDING)
    under_way = f"run {run} is recorded already" if run else "a replay is under way"
    click.echo(f"replaykit: {under_way}; the command takes part in it", err=True)
    click.get_current_context().exit(shell_code(run_through(program, os.environ, 1).code))
