"""`replaykit demo`: the whole loop, offline, in a few seconds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from replaykit import demo
from replaykit.candidates.case_check import check_case
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.replay import replay
from replaykit.cases.promote import promote
from replaykit.cli import options
from replaykit.handlers.recording.run import record
from replaykit.report.cases import case_text
from replaykit.report.layout import fit
from replaykit.report.replays import result_text
from replaykit.report.runs import run_text
from replaykit.store.open import open_store
from replaykit.terminal import style

STORE = Path(".replaykit", "store.db")


@click.command(name="demo")
@options.destination(
    "directory", "Keep the store and the case there.  [default: a temporary directory]", type=options.DIRECTORY
)
def command(directory: Path | None) -> None:
    """Watch the whole loop run offline, in seconds.

    Records a failing agent, makes a case of it, and replays the case against the bug and the fix. Needs no network and
    no key, and leaves nothing behind unless you use --out.

    \b
    replaykit demo
    replaykit demo --out demo
    """
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        _show(directory, f"Next: replaykit show last --store {directory / STORE}")
        return
    with tempfile.TemporaryDirectory(prefix="replaykit-demo-") as scratch:
        _show(Path(scratch), "Look at the files: replaykit demo --out demo\nSet up a project: replaykit init")


def _show(directory: Path, next_step: str) -> None:
    store = directory / STORE
    _title("1. An agent fails, and is recorded")
    try:
        with record("billing", input=demo.QUESTION, store=store) as run:
            run.output = demo.looping_agent(demo.QUESTION)
    except RuntimeError:
        with open_store(store, read_only=True) as source:
            click.echo(fit(run_text(source.load(run.id))))

    _title("2. The failed run becomes a case, as `replaykit scaffold` makes it")
    promoted = promote(run.id, directory / "cases" / "billing-loop", force=True, store=store)
    check_case(promoted.case, promoted.run)
    case = promoted.case
    click.echo(fit(case_text(case).rpartition("\n\nNext: ")[0]))

    _title("3. The same agent against the case, its tools answered from the recording")
    click.echo(fit(result_text(replay(case, PythonCandidate("replaykit.demo:looping_agent")))))

    _title("4. The fixed agent against the same case")
    click.echo(fit(result_text(replay(case, PythonCandidate("replaykit.demo:patient_agent")))))
    last = "The case is a directory of readable files: commit it, and the failure cannot come back unnoticed."
    click.echo(fit(f"\n{last}\n\n{next_step}"))


def _title(text: str) -> None:
    click.echo()
    click.echo(fit(style(text, bold=True)))
    click.echo()
