"""`replaykit scaffold`: a failed trace or run becomes a case."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.candidates.case_check import check_case
from replaykit.cases.promote import promote
from replaykit.cli import candidate_options, options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, reports
from replaykit.config import default_evidence_path
from replaykit.errors import UsageError
from replaykit.programs.command import HIDDEN
from replaykit.report.cases import case_json, case_text, check_text
from replaykit.report.layout import fit
from replaykit.report.replays import result_details

if TYPE_CHECKING:
    from replaykit.cases.promote import Promoted


@click.command(name="scaffold", cls=candidate_options.BeforeProgram)
@click.argument("source", metavar="TRACE|RUN")
@options.destination("out", "The case's directory.  [default: cases/NAME]", type=options.DIRECTORY)
@click.option("--format", "format_", metavar="NAME", help="The trace's format, where it cannot be recognised.")
@click.option(
    "--select",
    "run_id",
    metavar="RUN",
    help="Which run, where a trace holds several: its id, the beginning of it, last or last-failed.",
)
@click.option("--id", "case_id", metavar="ID", help="The case's id.  [default: the directory's name]")
@click.option("--title", help="The case's title.")
@options.flag("--allow-incomplete", help="Make a case even if none of its tool calls can be replayed.")
@options.flag("--force", help="Replace an existing case.")
@candidate_options.candidate
@options.flag("--no-check", help="Run no agent and no program: judge the recorded run alone.")
@candidate_options.consent
@options.no_redact
@options.store
@options.as_json
@reports
def command(
    source: str,
    out: Path | None,
    format_: str | None,
    run_id: str | None,
    case_id: str | None,
    title: str | None,
    allow_incomplete: bool,
    force: bool,
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    no_check: bool,
    live: tuple[str, ...],
    allow_connect: tuple[str, ...],
    allow_write: tuple[str, ...],
    store_path: Path | None,
    as_json: bool,
) -> int:
    """Turn a failed trace or recorded run into a case.

    Detects how the run failed, freezes the recorded answers as fixtures, and proposes what a fix must show. A trace may
    have any format (`replaykit help formats`), and may be compressed. Secrets and personal data are redacted. If any
    are left, or the trace holds too little for a replay, nothing is written and the exit code is 2.

    The new case is then checked: the recorded run is judged through the finished files, and so is the agent that
    failed, if you name it, or else the recorded program. Exit 0 if each is `reproduced`: the case is ready, and has its
    first proof. Otherwise the files stay for you to look at, and the exit code is 1, or 3 if the check is inconclusive.

    \b
    You have                             Keep it as      With
    a failure that must not come back    a case          replaykit scaffold
    an incident that you can describe    a session       replaykit replay FILE.yaml
    a good run that must stay as it is   a golden trace  replaykit golden

    \b
    replaykit scaffold examples/traces/search-loop.json --out cases/search-loop
    replaykit scaffold exported.jsonl.gz --select 0199a1b2 --out cases/refund
    replaykit scaffold 20260215-143200 --out cases/checkout --agent my_agent:answer
    """
    load_plugins()
    program = candidate_options.named_program()
    is_named = any(name is not None for name in (runner_cmd, agent, endpoint, program))
    if no_check and is_named:
        raise UsageError("--no-check runs no candidate, but one is named")
    candidate = None
    if is_named:
        candidate = candidate_options.chosen_candidate(runner_cmd, agent, endpoint, program=program)
    allowed = candidate_options.consent_of(live, allow_connect, allow_write)
    promoted = promote(
        source,
        out,
        format=format_,
        run_id=run_id,
        case_id=case_id,
        title=title,
        allow_incomplete=allow_incomplete,
        force=force,
        store=store_path,
    )
    options.note(*promoted.notes)
    if not is_named and not no_check:
        candidate = _recorded_program(promoted)
    if candidate is not None:
        candidate_options.stopped_at_the_end(candidate)
    with progress("checking the case"):
        check = check_case(promoted.case, promoted.run, candidate, evidence=default_evidence_path(), consent=allowed)
    detail(*map(result_details, check.results))
    if as_json:
        options.print_json(case_json(promoted.case, check))
    else:
        as_text = partial(case_text, command=promoted.command, is_ready=check.is_ready)
        options.show(False, promoted.case, as_text, brief=lambda case: str(case.directory))
        hint(fit(check_text(check)))
    return check.exit_code


def _recorded_program(promoted: Promoted) -> Any:
    """Return the recorded program as a candidate; None if there is none, or it cannot run again."""
    if not promoted.command:
        return None
    facts = promoted.run.metadata.get("program")
    why = ""
    if any(HIDDEN in word for word in promoted.command):
        why = "its command held a secret, which was not recorded"
    elif isinstance(facts, dict) and facts.get("upstreams"):
        why = "it was recorded with --upstream"
    if why:
        options.note(f"the recorded program is not replayed: {why}")
        return None
    return candidate_options.chosen_candidate(None, None, None, program=promoted.command)
