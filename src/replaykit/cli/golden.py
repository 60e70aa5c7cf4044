"""`replaykit golden`: a recorded run becomes a regression test."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path

import click

from replaykit.candidates.agent_loader import load_agent
from replaykit.candidates.golden import check_golden
from replaykit.cases.golden import golden_file, golden_of, refuse_taken, write_golden
from replaykit.cli import candidate_options, options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.errors import ExitCode, UsageError
from replaykit.report.golden import golden_json, golden_text
from replaykit.store.open import open_store


@click.command(name="golden", cls=candidate_options.PythonAgentOnly)
@click.argument("run_id", metavar="RUN")
@options.destination(
    "out",
    "The directory of golden traces.",
    type=options.DIRECTORY,
    default=Path("fixtures/golden_traces"),
    show_default=True,
)
@click.option("--name", help="The name of the golden trace and its file.  [default: the run's name, or its id]")
@click.option("--agent", metavar="MODULE:FUNCTION", help="Write it only if this agent repeats the run exactly.")
@options.repeated("--ignore", metavar="JSONPATH", help="A member that changes every time, such as $.id. Repeatable.")
@options.flag("--force", help="Replace an existing golden trace.")
@candidate_options.allow_connect
@options.no_redact
@options.store
@options.as_json
@reports
def command(
    run_id: str,
    out: Path,
    name: str | None,
    agent: str | None,
    ignore: tuple[str, ...],
    force: bool,
    allow_connect: tuple[str, ...],
    store_path: Path | None,
    as_json: bool,
) -> int:
    """Save a run as a golden trace that later runs must match.

    RUN is an id, the beginning of one, a name (its newest run), or `last`. pytest collects the file and runs the agent
    in the recorded world: calls, states and outcome must match the recording. With --agent, this is tried right away;
    if the agent does something else, nothing is written and the exit code is 1.

    \b
    You have                             Keep it as      With
    a failure that must not come back    a case          replaykit scaffold
    an incident that you can describe    a session       replaykit replay FILE.yaml
    a good run that must stay as it is   a golden trace  replaykit golden

    \b
    replaykit golden 20260215-143200 --agent my_agent:answer
    replaykit golden checkout --name checkout-refused --ignore '$.request_id'
    """
    if allow_connect and agent is None:
        raise UsageError("--allow-connect is for an agent that is run", hint="Name it: --agent MODULE:FUNCTION")
    load_plugins()
    with open_store(store_path, read_only=True) as store:
        golden = golden_of(store.load(run_id), name=name, ignore=ignore)
    file = golden_file(out, golden.name)
    if not force:
        refuse_taken(file)
    result = None
    if agent is not None:
        # What the agent prints is no part of the answer.
        with contextlib.redirect_stdout(sys.stderr), progress("running the agent"):
            result = check_golden(golden, load_agent(agent), allow_connect=allow_connect)
    if result is not None and not result.passed:
        as_document = partial(golden_json, file=None, result=result)
        options.show(as_json, golden, lambda _: f"{result.text}\nNothing was written.", as_document)
        return ExitCode.FAILED
    write_golden(file, golden)
    as_document = partial(golden_json, file=file, result=result)
    as_text = partial(golden_text, file=file, agent=agent)
    options.show(as_json, golden, as_text, as_document, brief=lambda _: str(file))
    return ExitCode.PASSED
