"""`replaykit retape`: record new answers for a candidate that asks something new, as another take of the case."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.candidates.agent_loader import load_agent
from replaykit.candidates.golden import update_golden
from replaykit.candidates.retaping import Retaping, retape, take_from_run
from replaykit.candidates.retaping_many import NO_BUDGET, parse_budget, retape_many
from replaykit.candidates.worlds import with_take
from replaykit.cases.golden import SUFFIX
from replaykit.cases.takes import check_take, take_calls
from replaykit.cases.written_answers import WrittenAnswer, message_json, read_answers, unused_text
from replaykit.checks.verdict import EXIT_CODES
from replaykit.cli import candidate_options, options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, reports
from replaykit.config import default_evidence_path
from replaykit.errors import ExitCode, UsageError, failed_if, gravest
from replaykit.model.events import LlmCall
from replaykit.model.isolation import MODELS
from replaykit.model.result import Verdict
from replaykit.model.values import raw
from replaykit.project.case_selection import select_cases
from replaykit.report.golden import updates_json, updates_text
from replaykit.report.replays import result_details
from replaykit.report.retapes import outcomes_json, outcomes_text
from replaykit.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replaykit.candidates.retaping import RetapeQuestion
    from replaykit.candidates.retaping_many import Left
    from replaykit.cases.case import ReplayCase


@click.command(name="retape", cls=candidate_options.BeforeProgram)
@click.argument("cases", nargs=-1, type=options.PATH, metavar="[CASE]...")
@options.config
@candidate_options.candidate
@candidate_options.live
@candidate_options.allow_connect
@options.repeated(
    "--answers",
    "answer_files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Answer new calls from this file, in order. Repeatable.",
)
@options.flag("--ask", help="Ask for the answer to each new call on this terminal.")
@click.option("--from-run", metavar="RUN", help="Write this recorded run or fork as the take; no candidate is run.")
@click.option("--name", help="The name of the take.  [default: take-2, take-3, …]")
@click.option("--take", metavar="NAME", help="Serve recorded answers from this take.  [default: the case's own]")
@options.flag("--force", help="Replace a take of that name.")
@options.flag("--keep", help="Write the take even if the candidate is not fixed.")
@options.flag("--diverged", help="Retape only the cases that the candidate diverges from.")
@click.option(
    "--budget", metavar="AMOUNT", help="Start no more cases once this much is spent: 2.50usd, or 200000tokens."
)
@options.flag("--dry-run", help="Run the candidate, and write nothing.")
@options.flag("-y", "--yes", help="Call live tools without asking first.")
@options.timeout
@options.store
@options.no_redact
@options.as_json
@reports
def command(
    cases: tuple[Path, ...],
    config: Path | None,
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    live: tuple[str, ...],
    allow_connect: tuple[str, ...],
    answer_files: tuple[Path, ...],
    ask: bool,
    from_run: str | None,
    name: str | None,
    take: str | None,
    force: bool,
    keep: bool,
    diverged: bool,
    budget: str | None,
    dry_run: bool,
    yes: bool,
    timeout_s: float | None,
    store_path: Path | None,
    as_json: bool,
) -> int:
    """Record new answers for an agent that makes new calls.

    A changed prompt leaves the recording, and the verdict is `diverged`. retape runs the candidate once. Calls that
    match get their recorded answers; new calls go to the models and tools that --live names, or get answers from
    --answers and --ask. The new answers are redacted and stored as another take beside the recorded one. From then on,
    `replay` and `ci` are green without a model. A candidate with the failure is still judged on the recorded take.

    CASE is a case, a session, a directory of them, or a golden trace (updated in place, like `pytest
    --replaykit-update`). Exit 0 if every take was written and its candidate is fixed, 1 if not, 3 if a verdict is
    inconclusive.

    \b
    replaykit retape cases/billing --agent my_agent:answer --live gpt-5
    replaykit retape cases/billing --agent my_agent:answer --answers answers.yaml
    replaykit retape cases --diverged --live models --budget 2.50usd -- python agent.py
    replaykit retape cases/billing --from-run 20260215-143200
    """
    goldens = [path for path in cases if path.name.endswith(SUFFIX)]
    if goldens and len(goldens) < len(cases):
        raise UsageError("golden traces and cases cannot be retaped together", hint="Retape one kind at a time.")
    if goldens:
        return _update_goldens(goldens, agent, live, allow_connect, dry_run=dry_run, as_json=as_json)
    if from_run is not None:
        settings = {"name": name, "replace": force, "keep": keep, "dry_run": dry_run}
        return _print(_keep_run(cases, from_run, store_path, settings), as_json=as_json)
    if ask and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("--ask needs a terminal", hint="Write the answers into a file: --answers FILE")
    answers = [answer for file in answer_files for answer in read_answers(file)]
    project = options.project_of(config)
    candidate, _ = candidate_options.candidate_and_jobs(runner_cmd, agent, endpoint, jobs=1, project=project)
    subjects = _subjects(project, cases, take)
    if name is not None and len(subjects) > 1 and not diverged:
        raise UsageError("--name is for one case, and there are several", hint="Leave it out: takes are numbered.")
    if not dry_run or live:
        _confirm(live, subjects, yes=yes)
    outcomes = _retape(
        subjects,
        candidate,
        {
            "live": live,
            "allow_connect": allow_connect,
            "ask": _ask_person if ask else None,
            "name": name,
            "replace": force,
            "keep": keep,
            "dry_run": dry_run,
            "timeout_s": timeout_s,
        },
        answers,
        diverged=diverged,
        budget=budget,
    )
    code = _print(outcomes, as_json=as_json)
    if answers:
        options.note(unused_text(answers))
    return code


def _retape(
    subjects: list[ReplayCase],
    candidate: Any,
    settings: dict[str, Any],
    answers: list[WrittenAnswer],
    *,
    diverged: bool,
    budget: str | None,
) -> list[Retaping | Left]:
    evidence = default_evidence_path()

    def retape_case(case: ReplayCase) -> Retaping:
        retaping = retape(case, candidate, answers=answers, evidence=evidence, **settings)
        answers[:] = retaping.unused_answers  # each answers one call, whichever case makes it
        return retaping

    with progress("retaping", len(subjects)) as retaping:
        return retape_many(
            subjects,
            candidate,
            retape_case,
            only_diverged=diverged,
            budget=NO_BUDGET if budget is None else parse_budget(budget),
            evidence=evidence,
            on_done=retaping.advance,
        )


def _subjects(project: Any, paths: tuple[Path, ...], take: str | None) -> list[ReplayCase]:
    subjects = select_cases(project, paths)
    options.tell_notices(subjects)
    if take is None:
        return subjects.cases
    for case in subjects.cases:
        check_take(case, take)
    return [with_take(case, take) for case in subjects.cases]


def _confirm(live: Sequence[str], subjects: Sequence[ReplayCase], *, yes: bool) -> None:
    """Ask before anything is called for real that is not known to be a model: it may have effects."""
    models = {call.name for case in subjects for call in take_calls(case, "recorded") if isinstance(call, LlmCall)}
    tools = [name for name in live if name != MODELS and name not in models]
    if not tools or yes:
        return
    listed = ", ".join(f"`{name}`" for name in tools)
    if not sys.stdin.isatty():
        raise UsageError(f"{listed} will be called for real, with all its effects", hint="Allow it with --yes.")
    click.confirm(f"{listed} will be called for real, with all its effects. Continue?", abort=True, err=True)


def _ask_person(question: RetapeQuestion) -> WrittenAnswer | None:
    """Show the call, and read its answer from the terminal; None where the person has none."""
    click.echo(f"\n{question.text}\n", err=True)
    hint = "text, or JSON; an empty line stops here"
    text = click.prompt(f"Answer of `{question.call.name}` ({hint})", default="", show_default=False, err=True)
    if not text.strip():
        return None
    value = options.json_or_text(text)
    is_model = isinstance(question.call, LlmCall)
    result = message_json(value) if is_model else raw(value)
    return WrittenAnswer(name=question.call.name, is_model=is_model, result_json=result)


def _exit_code(outcomes: Sequence[Retaping | Left]) -> ExitCode:
    codes = [ExitCode.PASSED]
    for outcome in outcomes:
        if outcome.result is None:
            codes.append(ExitCode.FAILED)
        elif outcome.result.verdict is not Verdict.FIXED:
            codes.append(EXIT_CODES[outcome.result.verdict])
        elif isinstance(outcome, Retaping) and outcome.problem:
            codes.append(ExitCode.FAILED)
    return gravest(codes)


def _print(outcomes: Sequence[Retaping | Left], *, as_json: bool) -> ExitCode:
    code = _exit_code(outcomes)
    as_document = partial(outcomes_json, passed=code is ExitCode.PASSED)
    for outcome in outcomes:
        if outcome.result is not None:
            detail(result_details(outcome.result))
    options.show(as_json, outcomes, outcomes_text, as_document, redact=True)
    return code


def _keep_run(
    cases: Sequence[Path], run_id: str, store_path: Path | None, settings: dict[str, Any]
) -> list[Retaping | Left]:
    """Write a run of the store as a take of one case."""
    if len(cases) != 1:
        raise UsageError("--from-run needs exactly one CASE")
    with open_store(store_path, read_only=True) as store:
        run = store.load(run_id)
    [case] = _subjects(options.project_of(None), tuple(cases), None)
    return [take_from_run(case, run, **settings)]


def _update_goldens(
    goldens: Sequence[Path],
    agent: str | None,
    live: tuple[str, ...],
    allow_connect: tuple[str, ...],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Let the agent do again what golden traces hold, and write what it does now in their place."""
    if agent is None:
        raise UsageError("a golden trace needs a Python agent", hint="Name it: --agent MODULE:FUNCTION")
    function = load_agent(agent)
    update = partial(update_golden, agent=function, live=live, allow_connect=allow_connect, dry_run=dry_run)
    with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the answer
        updates = list(map(update, goldens))
    options.show(as_json, updates, updates_text, updates_json)
    return failed_if(not all(update.passed for update in updates))
