"""`replaykit prove`: red with the bad candidate, green with the good one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.candidates.prove import prove
from replaykit.candidates.worlds import with_consent
from replaykit.cli import candidate_options, options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, reports
from replaykit.config import default_evidence_path
from replaykit.errors import StoreError, UsageError
from replaykit.project.case_selection import select_cases
from replaykit.report.replays import proof_json, proof_text, result_details

if TYPE_CHECKING:
    from replaykit.candidates.prove import Proving
    from replaykit.cases.case import ReplayCase


@click.command(name="prove", cls=candidate_options.BeforeProgram)
@click.argument("case", type=options.PATH, metavar="CASE")
@candidate_options.candidate
@options.config
@click.option("--bad", metavar="CANDIDATE", required=True, help="The candidate that still has the failure.")
@click.option(
    "--good",
    metavar="CANDIDATE",
    help="The candidate with the fix, written like --bad. The options of `replay` work as well.",
)
@click.option(
    "--repeat", type=options.WholeNumber(1), default=1, show_default=True, help="Run each N times; they must agree."
)
@options.flag("--dry-run", help="Do not write the proof into the case.")
@options.timeout
@candidate_options.consent
@options.as_json
@reports
def command(
    case: Path,
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    config: Path | None,
    bad: str,
    good: str | None,
    repeat: int,
    dry_run: bool,
    timeout_s: float | None,
    live: tuple[str, ...],
    allow_connect: tuple[str, ...],
    allow_write: tuple[str, ...],
    as_json: bool,
) -> int:
    """Prove that a case fails a broken agent and passes a fixed one.

    A case that cannot fail guards nothing. Exit 0 if the bad candidate reproduces the failure as the case describes it,
    and the good one is fixed. For a session, the bad one must break its contract on the tape. The proof is written to
    proof.json beside the case. Exit 1 if it is not proven, 3 if a verdict is inconclusive.

    A CANDIDATE is a runner command, MODULE:FUNCTION, a URL, or a whole program behind two dashes: "-- node agent.mjs".
    Name the one with the fix with --good, or as you name it for `replay`. Without either, it is the configuration's.

    \b
    replaykit prove cases/search-loop --bad "python bad.py" --good "python good.py"
    replaykit prove cases/billing --bad "-- python old.py" --good "-- python agent.py" --repeat 3
    replaykit prove cases/search-loop --bad old_agent:answer --agent my_agent:answer
    replaykit prove replays/incident_001.yaml -c replaykit.yaml --bad old_agent:answer
    """
    project = options.project_of(config)
    subject = with_consent(_subject(project, case), candidate_options.consent_of(live, allow_connect, allow_write))
    bad_candidate, good_candidate = _candidate(bad), _good(good, (runner_cmd, agent, endpoint), project)
    with progress("proving", 2 * repeat) as replaying:
        proving = prove(
            subject,
            bad_candidate,
            good_candidate,
            repeat=repeat,
            timeout_s=timeout_s,
            evidence=default_evidence_path(),
            on_done=replaying.advance,
        )
    detail(*map(result_details, (*proving.bad, *proving.good)))
    options.show(as_json, proving, proof_text, proof_json)
    if not dry_run:
        _write(proving)
    return proving.exit_code


def _subject(project: Any, path: Path) -> ReplayCase:
    subjects = select_cases(project, [path])
    options.tell_notices(subjects)
    if len(subjects.all) != 1:
        raise UsageError(f"{path} holds {len(subjects.all)} cases", hint="Prove them one by one.")
    return subjects.cases[0]


def _good(good: str | None, names: tuple[str | None, ...], project: Any) -> Any:
    """Return the candidate with the fix: the one that is named, else the configuration's agent."""
    is_named = any(name is not None for name in (*names, candidate_options.named_program()))
    if good is not None and is_named:
        raise UsageError("the candidate with the fix is named twice", hint="Leave out --good, or the other one.")
    if good is not None:
        return _candidate(good)
    if not is_named and (project is None or project.agent is None):
        hint = "Name it: --good CANDIDATE, or --agent MODULE:FUNCTION; or add an `agent:` to replaykit.yaml"
        raise UsageError("no candidate with the fix", hint=hint)
    return candidate_options.candidate_and_jobs(*names, jobs=1, project=project)[0]


def _candidate(text: str) -> Any:
    return candidate_options.stopped_at_the_end(candidate_options.candidate_of(text))


def _write(proving: Proving) -> None:
    """Write the proof; a case that cannot be written is proven all the same."""
    try:
        file = proving.write()
    except StoreError as error:
        options.note(f"the proof is not written: {error.message}")
        return
    if file is not None:
        hint(f"wrote {file}")
