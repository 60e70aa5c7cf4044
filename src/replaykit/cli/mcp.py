"""`replaykit mcp`: stand between an MCP client and its server."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.config import default_store_path
from replaykit.errors import ReplayKitError, UsageError, failed_if
from replaykit.model.run import RunStatus
from replaykit.programs.mcp.shim_session import join_session, server_environment, server_name, standalone_session
from replaykit.programs.mcp.stdio import RecordedStdioServer, StdioRelay
from replaykit.programs.plan import SESSION
from replaykit.report.layout import to_json_line
from replaykit.report.servers import McpListening

if TYPE_CHECKING:
    from replaykit.programs.mcp.http_relay import SendToServer
    from replaykit.programs.mcp.shim_session import ShimSession


@click.command(name="mcp")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVER...]")
@click.option("--name", help="The server's name: its tools are NAME.TOOL.  [default: from the command or the URL]")
@click.option(
    "--http",
    "url",
    metavar="URL",
    help="The URL of a server that speaks HTTP; clients connect to a port on loopback instead.",
)
@click.option(
    "--port", type=options.WholeNumber(0, 65535), help="With --http: the port to listen on.  [default: a free one]"
)
@options.flag("--record", help="Record a separate run in the store.")
@click.option("--replay", "run_id", metavar="RUN", help="Answer from this recorded run; start no server.")
@click.option(
    "--session",
    type=options.DIRECTORY,
    help="The directory of the recording or replay to join.  [default: $REPLAYKIT_SESSION]",
)
@options.store
@options.flag("--json", "as_json", help="With --http: print the address it listens on as JSON.")
def command(
    command: tuple[str, ...],
    name: str | None,
    url: str | None,
    port: int | None,
    record: bool,
    run_id: str | None,
    session: Path | None,
    store_path: Path | None,
    as_json: bool,
) -> int:
    """Record or replay an MCP server, between a client and the server.

    \b
    In your client's configuration, replace the server's command:
      replaykit mcp --record -- npx -y some-mcp-server
      replaykit mcp --replay RUN -- npx -y some-mcp-server
    For a server that speaks HTTP, replace its URL by the one that this prints:
      replaykit mcp --record --http http://127.0.0.1:8000/mcp

    Under `replaykit record` and `replaykit replay`, leave out --record and --replay. A replay never starts the server.
    """
    if command and url:
        raise click.UsageError("give the server's command after `--` or --http URL, not both")
    if not command and not url and not (run_id and name):
        raise click.UsageError("which server? Give its command after `--`, or --http URL")
    if url is None and (port is not None or as_json):
        raise click.UsageError("--port and --json need --http")
    if record and run_id is not None:
        raise click.UsageError("--record or --replay, not both")
    called = name or _name_of(list(command), url)
    shim_session = _joined(called, record=record, run_id=run_id, session=session, store_path=store_path)
    if url is None:
        return _stdio(called, shim_session, list(command))
    return _http(called, shim_session, url, port or 0, as_json=as_json)


def _name_of(command: list[str], url: str | None) -> str:
    if url is None:
        return server_name(command)
    from urllib.parse import urlsplit

    return urlsplit(url).netloc.rpartition("@")[2] or "server"


def _joined(
    name: str, *, record: bool, run_id: str | None, session: Path | None, store_path: Path | None
) -> AbstractContextManager[ShimSession]:
    """The recording or replay that the options, or the environment, name."""
    if record or run_id is not None:
        load_plugins()
        if session is not None:
            raise click.UsageError("--session is for a recording or replay that is under way; leave out the other")
        return standalone_session(name, store_path or default_store_path(), replay=run_id)
    if store_path is not None:
        raise click.UsageError("--store needs --record or --replay")
    if session is None and not os.environ.get(SESSION):
        raise UsageError(
            "no recording or replay is under way here",
            hint="Record a run of its own with --record, or answer from one with --replay RUN.",
        )
    return join_session(name, session)


def _stdio(called: str, shim_session: AbstractContextManager[ShimSession], command: list[str]) -> int:
    sink = os.dup(1)
    os.dup2(2, 1)  # standard output is the client's: nothing else may be written there
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # not every system has both
            signal.signal(getattr(signal, name), _leave)
    with shim_session as own:
        if not own.has_server:
            code = RecordedStdioServer(called, own.session, own.recorded_server, source=0, sink=sink).run()
        else:
            code = StdioRelay(called, own.session, source=0, sink=sink).run(
                command, server_environment(os.environ, own.plan)
            )
            own.status = RunStatus.ERROR if code else RunStatus.SUCCESS
    return _report_run(own) or code


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _http(name: str, shim_session: AbstractContextManager[ShimSession], url: str, port: int, *, as_json: bool) -> int:
    import asyncio
    from urllib.parse import urlsplit

    from replaykit.programs.mcp.http_endpoint import McpEndpoint
    from replaykit.programs.mcp.http_shim import HttpShim
    from replaykit.programs.plan import Mode

    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise UsageError(f"--http {url!r}: expected a URL such as http://127.0.0.1:8000/mcp")

    def ready(here: str) -> None:
        options.show(as_json, here, str, lambda url: to_json_line(McpListening(name=name, url=url)))
        sys.stdout.flush()

    with shim_session as own:

        def endpoint(upstream: SendToServer) -> McpEndpoint:
            real = upstream if own.has_server else None
            as_sent = own.plan.mode is Mode.RECORD
            return McpEndpoint(name, own.session, upstream=real, recorded_server=own.recorded_server, as_sent=as_sent)

        try:
            asyncio.run(HttpShim(url, endpoint).run(port, ready))
        except OSError as error:
            raise ReplayKitError(f"cannot listen on port {port}: {error.strerror}", hint="Leave out --port.") from None
    return _report_run(own)


def _report_run(own: ShimSession) -> int:
    """Say what became of a run of its own; gives the exit code."""
    if own.run_id:
        verb = "recorded" if own.plan.mode == "record" else "replayed"
        click.echo(f"{verb}: {own.run_id}. Look at it: replaykit show {own.run_id}", err=True)
    left = own.left_the_tape()
    for deviation in left:
        click.echo(deviation.text, err=True)
    return failed_if(left)
