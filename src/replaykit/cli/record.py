"""`replaykit record`: a whole program, recorded from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import click

from replaykit.cases.config_files import find_project
from replaykit.cli import candidate_options, options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.verbosity import hint, is_quiet, reports
from replaykit.config import default_store_path
from replaykit.errors import ExitCode, StoreFull, UsageError
from replaykit.model.run import RunHeader, TraceRun
from replaykit.programs.command import shell_code
from replaykit.programs.foreground_process import run_in_foreground
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.plan import RECORDING, SESSION
from replaykit.programs.recording import Recorded, record_program
from replaykit.programs.recovery import recover
from replaykit.report.recordings import (
    dropped_text,
    not_recorded_text,
    recorded_json,
    recorded_text,
    recovered_text,
    unasked_text,
    unkept_text,
    unrecorded_text,
)
from replaykit.store.sqlite import SQLiteStore

_STDIN = "-"


class RecordOptions(NamedTuple):
    """The options of one call."""

    program: tuple[str, ...]
    name: str | None
    input_text: str | None
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

    @property
    def out(self) -> int:
        """The file descriptor that the program prints to: standard output is for JSON, if that is asked for."""
        return 1 + self.as_json


@click.command(name="record", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--name", help="The run's name.  [default: the script's]")
@click.option(
    "--input",
    "input_text",
    metavar="TEXT",
    help="The agent's input: JSON, or else text; - records standard input, for replays.",
)
@candidate_options.upstream
@candidate_options.mcp_config
@options.flag("--no-proxy", help="Start no proxy: record Python processes only.")
@options.flag("--no-inject", help="Leave Python processes alone: record at the proxy only.")
@options.repeated("--pin-env", metavar="NAME", help="Store this variable's value for replays. Repeatable.")
@options.flag("--no-pins", help="Do not seed randomness, and store nothing for replays to freeze.")
@click.option(
    "--sample",
    type=options.NumberRange(0, 1),
    metavar="SHARE",
    help="Keep this share of successful runs, such as 0.1, and all failed ones.  [default: the configuration's, or 1]",
)
@options.flag("--recover", help="Recover recordings that were killed; run nothing.")
@options.no_redact
@options.store
@options.otel
@options.as_json
@reports
def command(**parameters: Any) -> int:
    """Run a program and record everything it does as one run.

    The program needs no change. Python processes record their tools and HTTP calls themselves; environment variables
    lead the SDKs of other languages to a proxy on this machine. Secrets and personal data are redacted before anything
    is written; the program and the terminal get the real values. Connections that cannot be recorded, such as one to a
    database, are listed at the end.

    Exits with the program's own exit code. With --json, the program's output goes to standard error and the run's
    header to standard output.

    \b
    replaykit record -- python agent.py "Why was I charged?"
    echo "Why was I charged?" | replaykit record --input - -- python agent.py
    replaykit record --name billing -- node agent.mjs
    replaykit record --upstream stripe=https://api.stripe.com -- node agent.mjs
    replaykit record --mcp-config .mcp.json -- claude --mcp-config .mcp.json -p "..."
    """
    options_ = RecordOptions(**parameters)
    _check(options_)
    if options_.program and os.environ.get(SESSION):
        return _pass_through(options_.program)
    load_plugins()
    servers = candidate_options.mcp_props(options_.mcp_configs, in_place=options_.in_place)
    if options_.program and servers is None and candidate_options.MCP_CONFIG.exists():
        hint(unrecorded_text(candidate_options.MCP_CONFIG))
    launch_options = _launch_options(options_, servers)
    try:
        with SQLiteStore.open(options_.store_path or default_store_path()) as store:
            _recover(options_, store)
            if options_.recover:
                return ExitCode.PASSED
            recorded = _record(options_, store, launch_options)
    except StoreFull as error:  # there was no room for a store: the program is run all the same
        if not options_.program:
            raise
        recorded = _unrecorded(options_, error.message)
    _report(options_, recorded, servers)
    if recorded.failure is not None:
        raise recorded.failure
    return recorded.exit_code


def _check(options_: RecordOptions) -> None:
    """A UsageError for options that do not go together."""
    if not options_.program and not options_.recover:
        raise UsageError("no program to record", hint="Name it after two dashes: replaykit record -- python agent.py")
    if options_.program and options_.recover:
        raise UsageError("--recover runs no program", hint="Recover first, then record.")
    if options_.pin_env and options_.no_pins:
        raise UsageError("--pin-env and --no-pins cannot be combined")


def _recover(options_: RecordOptions, store: SQLiteStore) -> None:
    """Put together what was killed before; with --recover that is all there is to tell."""
    found = recover(store)
    for run in found:
        hint(recovered_text(run))
        if not_recorded := not_recorded_text(run):
            hint(not_recorded)
    if options_.recover:
        options.show(options_.as_json, found, lambda runs: f"{len(runs)} put together", recorded_json)


def _launch_options(options_: RecordOptions, servers: Any) -> LaunchOptions:
    swapped, facts = (), {}
    if servers is not None:
        facts = servers.facts
        swapped = servers.files if servers.in_place else ()
    return LaunchOptions(
        proxy=not options_.no_proxy,
        inject=not options_.no_inject,
        upstreams=candidate_options.upstreams_of(options_.upstream),
        extension=servers,
        swapped=swapped,
        facts={**facts, "upstreams": sorted(options_.upstream) or None},
    )


def _record(options_: RecordOptions, store: SQLiteStore, launch_options: LaunchOptions) -> Recorded:
    if store.door is not None:
        options.note(*store.door.redactor.rules.notices)
    return record_program(
        options_.program,
        store,
        name=options_.name or "",
        program_input=None if options_.input_text in (None, _STDIN) else options.json_or_text(options_.input_text),
        keep_input=options_.input_text == _STDIN,
        launch_options=launch_options,
        pin=not options_.no_pins,
        pin_env=options_.pin_env,
        sample=_configured_sample() if options_.sample is None else options_.sample,
        out=options_.out,
    )


def _unrecorded(options_: RecordOptions, why: str) -> Recorded:
    ran = run_in_foreground(options_.program, os.environ, options_.out)
    run = TraceRun.of(RunHeader(id="", name=options_.name or ""), ())
    return Recorded(run=run, exit_code=shell_code(ran.code), is_stored=False, unrecorded=why)


def _configured_sample() -> float | None:
    """Return the configured sampling share; a configuration without one is not loaded."""
    file = find_project()
    if file is None or b"sample" not in file.read_bytes():
        return None
    from replaykit.project.project import load_project

    share = load_project(file).retention.sample
    return None if share == 1 else share


def _report(options_: RecordOptions, recorded: Recorded, servers: Any) -> None:
    if options_.as_json:
        options.print_json(recorded_json([recorded.run] if recorded.is_stored else []))
    if recorded.unrecorded:
        click.echo(f"replaykit: recording stopped; the run is not recorded: {recorded.unrecorded}", err=True)
        return
    if is_quiet() and recorded.is_stored:
        click.echo(recorded.run.id, err=True)  # standard output is the program's
    again = () if servers is None else servers.options
    text = recorded_text(recorded.run, options_.program, options_.store_path, again, whole=recorded.failure is None)
    hint(text if recorded.is_stored else dropped_text(recorded.run))
    not_recorded = not_recorded_text(recorded.run)
    if recorded.is_stored and not_recorded:
        hint(not_recorded)
    if recorded.lost_input:
        hint(unkept_text(is_too_long=options_.input_text == _STDIN))
    if servers is not None and not servers.were_asked(recorded.run):
        hint(unasked_text(options_.mcp_configs, in_place=options_.in_place))


def _pass_through(program: tuple[str, ...]) -> int:
    """Inside of a recorded or replayed program: the command takes part in that, as any other."""
    run = os.environ.get(RECORDING)
    under_way = f"run {run} is recorded already" if run else "a replay is under way"
    hint(f"replaykit: {under_way}; the command joins it")
    return shell_code(run_in_foreground(program, os.environ, 1).code)
