"""`replaykit serve`: receive traces over OTLP."""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from pathlib import Path

import click
from msgspec.structs import asdict

from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.config import default_store_path
from replaykit.errors import install_hint
from replaykit.formats.otel.protobuf import can_read
from replaykit.intake.receiver.server import Server
from replaykit.intake.receiver.spool import Spool, as_it_is, spool_beside
from replaykit.intake.receiver.trace_processor import ReceiverTotals, SettledTrace, TraceProcessor
from replaykit.report.layout import to_json_line
from replaykit.report.servers import (
    ReceivedRun,
    ReceiverEnded,
    ReceiverLine,
    ReceiverListening,
    ReceiverRefused,
    TraceProblem,
)
from replaykit.store.sqlite import SQLiteStore
from replaykit.terminal import ERASE_LINE, style, visible

STATUSES = ("all", "error")
_MAX_REASONS = 20


@click.command(name="serve")
@click.option(
    "--port", type=options.WholeNumber(0, 65535), default=4318, show_default=True, help="The port; 0 picks a free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. On any other than loopback, everyone who can reach it can add runs.",
)
@options.repeated(
    "--allow-host",
    "allowed_hosts",
    metavar="NAME",
    help="Accept requests under this host name as well. Repeatable.",
)
@click.option(
    "--status",
    type=options.OneOf(STATUSES),
    default="all",
    show_default=True,
    help="Which runs to store: all, or only failed ones.",
)
@click.option(
    "--idle",
    "quiet_s",
    type=options.NumberRange(0.1, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Store an incomplete trace after this long without a new span.",
)
@options.store
@options.flag("--json", "as_json", help="Print events as JSON, one object per line.")
def command(
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    status: str,
    quiet_s: float,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Receive OTLP traces and store each one as a run.

    \b
    Start it, and point any program that uses OpenTelemetry to it:
      replaykit serve
      OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf python agent.py

    Accepts /v1/traces and /v1/logs, as protobuf or JSON. Every acknowledged span is on disk, beside the store, and
    survives a crash. A trace is stored as a run when it is complete, or after --idle seconds without a new span; later
    spans update the run. Ctrl-C stores everything received, and exits.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        click.echo(f"warning: anyone who can reach {host} can add runs to this store", err=True)
    if not can_read():
        click.echo(f"note: only OTLP as JSON is accepted. For protobuf: {install_hint('otel')}", err=True)
    load_plugins()
    path = default_store_path() if store_path is None else store_path
    teller = _Reporter(as_json=as_json)
    with SQLiteStore.open(path) as store:
        door = store.door
        spool = Spool(spool_beside(path), clean=as_it_is if door is None else door.redactor.raw)
        processor = TraceProcessor(
            spool,
            store,
            quiet_s=quiet_s,
            only_failed=status == "error",
            on_settled=teller.settled,
            on_refused=teller.refused,
        )
        teller.processor = processor

        async def run() -> None:
            server = Server(processor, on_tick=teller.progress, allowed_hosts=(host, *allowed_hosts))
            await server.serve(host, port, lambda url: teller.ready(url, path))

        try:
            asyncio.run(run())
            teller.ended(processor.totals, processor.waiting())
        finally:
            spool.close()


class _Reporter:
    """Says what happens: results on stdout, the rest on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._on_terminal = sys.stderr.isatty() and not as_json
        self._reported: set[str] = set()
        self.processor: TraceProcessor | None = None

    def ready(self, url: str, store: Path) -> None:
        if self._as_json:
            self._line(ReceiverListening(url=url, store=str(store)))
        else:
            click.echo(f"listening on {url}, storing runs in {store}; press Ctrl-C to stop", err=True)
            click.echo(f"point your agent to it: OTEL_EXPORTER_OTLP_ENDPOINT={url}", err=True)

    def settled(self, settled: SettledTrace) -> None:
        """A trace has become a run, or could not."""
        self._clear()
        if settled.problem:
            self._problem(settled.trace, settled.problem)
        run, landing = settled.run, settled.landing
        if run is None or landing is None:
            return
        if self._as_json:
            line = ReceivedRun(
                run=run.id,
                name=run.name,
                status=run.status,
                result=landing.value,
                tool_calls=len(run.tool_calls),
                notes=settled.notes,
            )
            self._line(line)
            return
        colour = "green" if run.status.value == "success" else "red"
        calls = len(run.tool_calls)
        shown = visible(run.name)[:60]
        click.echo(f"{run.id}  {style(run.status.value, fg=colour)}  {shown}  tool calls: {calls}  {landing.value}")

    def refused(self, why: str) -> None:
        """A request, or spans of one, were not taken; each reason is told once, and not more than some of them."""
        if why in self._reported or len(self._reported) >= _MAX_REASONS:
            return
        self._reported.add(why)
        self._clear()
        if self._as_json:
            self._line(ReceiverRefused(problem=why))
        else:
            click.echo(f"refused: {why}", err=True)

    def progress(self) -> None:
        if self._on_terminal and self.processor is not None:
            click.echo(f"{ERASE_LINE}{_counts(self.processor.totals)}", nl=False, err=True)

    def ended(self, totals: ReceiverTotals, waiting: int) -> None:
        self._clear()
        if self._as_json:
            self._line(ReceiverEnded(**asdict(totals), waiting=waiting))
            return
        click.echo(f"ended: {_counts(totals)}", err=True)
        if waiting:
            click.echo(f"{waiting} traces are incomplete; they stay until replaykit serve is started again", err=True)

    def _problem(self, trace: str, problem: str) -> None:
        if self._as_json:
            self._line(TraceProblem(trace=trace, problem=problem))
        else:
            click.echo(f"trace {trace}: {problem}", err=True)

    def _line(self, line: ReceiverLine) -> None:
        click.echo(to_json_line(line))
        sys.stdout.flush()

    def _clear(self) -> None:
        if self._on_terminal:
            click.echo(ERASE_LINE, nl=False, err=True)


def _counts(totals: ReceiverTotals) -> str:
    fields = f"{totals.spans:,} spans, {totals.traces:,} traces, {totals.runs:,} runs, {totals.failed_runs:,} failed"
    lost = {"spans rejected": totals.rejected, "requests refused": totals.refused, "traces without a run": totals.aside}
    return ", ".join((fields, *(f"{count:,} {what}" for what, count in lost.items() if count)))
