"""`replaykit contract`: does the agent keep its promises?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from replaykit.candidates.worlds import with_consent
from replaykit.cli import candidate_options, consent_options, judge_options, options, program_options
from replaykit.contracts.find import lint_contracts
from replaykit.documents.shape import FlawSeverity
from replaykit.errors import ExitCode, UsageError
from replaykit.project.case_selection import select_cases
from replaykit.project.chaos_config import matrix_of
from replaykit.project.find import find_project
from replaykit.project.project import chosen_contract
from replaykit.report.cases import problems_json, problems_text
from replaykit.report.contract import contract_json, contract_text
from replaykit.trials.contract import ContractTrial, cells_of, run_contract

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.contracts.score import ContractResult


def _trial(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `run` and `score` share."""
    for option in (
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(1),
            default=None,
            help="Run N at once.  [default: 1; for the Python agent of a configuration a core each]",
        ),
        candidate_options.trial_evidence,
        consent_options.options,
        judge_options.asking_judge,
        options.timeout,
        click.option(
            "--min-score",
            type=options.NumberRange(0, 100),
            default=100.0,
            show_default=True,
            help="The score that passes, where nothing critical failed.",
        ),
        click.option(
            "--case",
            type=click.Path(path_type=Path),
            help="Put the agent into the world of this case, instead of a live one.",
        ),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="TEXT",
            help="What to ask: JSON, or else text. Repeatable.  [default: the project's, or all probes]",
        ),
        candidate_options.candidate,
        options.config,
        click.argument("name", required=False, metavar="[CONTRACT]"),
    ):
        command = option(command)
    return command


@click.group(name="contract", cls=options.SubcommandGroup)
def command() -> None:
    """Try an agent against a contract: named promises, in good worlds and broken ones.

    CONTRACT is the name of a contract in the project's file, or a file that holds one; it may be left out where the
    project has one contract.

    \b
    replaykit contract lint
    replaykit contract run -c replaykit.yaml
    replaykit contract score contracts/safety.yaml --agent my_agent:answer --input "Where is my order?"
    """


@command.command(name="run", cls=program_options.BeforeProgram)
@_trial
@options.as_json
def run(as_json: bool, **options_given: Any) -> None:
    """Run the agent in every scenario, and check every invariant.

    The agent is asked each invariant's probes; one without probes is checked on --input, or the project's inputs, or
    all probes. Tools and models are live, with the faults of the scenario, unless --case names a recorded world,
    in which --live and --allow-connect say what may be done for real.
    What follows two dashes is a program that is run as the agent. Exit 1 when a critical invariant fails or the score
    is below --min-score, 2 for wrong files, 3 when neither is so and the agent cannot be run or nobody can tell
    whether an invariant holds, 5 when nothing was checked or the faults of a scenario struck nothing.
    """
    result = _result(**options_given)
    click.echo(options.redacted(contract_json(result)) if as_json else contract_text(result))
    _end(result)


@command.command(name="score", cls=program_options.BeforeProgram)
@_trial
def score(**options_given: Any) -> None:
    """Like `run`, but print only the score, from 0 to 100."""
    result = _result(**options_given)
    click.echo(f"{result.score:g}")
    for invariant, why in {check.invariant: check.unjudged for check in result.unjudged}.items():
        click.echo(f"unjudged: {invariant}: {why}", err=True)
    _end(result)


@command.command(name="lint")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE...]")
@options.config
@options.as_json
def lint(files: tuple[Path, ...], config: Path | None, as_json: bool) -> None:
    """Check contracts: every problem with its line and what to do.

    FILE holds a contract, or is a project's file; the project's own unless said. Exit 1 when there is an error.
    """
    named_files = [*files, *([] if config is None else [config])]
    named = named_files or [file for file in (find_project(),) if file is not None]
    if not named:
        raise UsageError("which file?", hint="Name one, or work where a replaykit.yaml is.")
    problems = [problem for file in named for problem in lint_contracts(file)]
    click.echo(problems_json(problems) if as_json else problems_text(problems, len(named), "file"))
    is_wrong = any(problem.severity is FlawSeverity.ERROR for problem in problems)
    click.get_current_context().exit(ExitCode.FAILED if is_wrong else ExitCode.PASSED)


def _result(
    name: str | None,
    config: Path | None,
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    inputs: tuple[str, ...],
    case: Path | None,
    min_score: float,
    timeout_s: float | None,
    jobs: int | None,
    evidence: Path | None,
    ask_judge: bool,
    judge_spec: str | None,
    **allowing: Any,
) -> ContractResult:
    """Run the trial that the options describe."""
    allowed = consent_options.taken_from(allowing)
    consent_options.refuse_in_live_world(allowed, is_recorded=case is not None)
    project = options.project_of(config)
    contract = chosen_contract(project, name)
    seed = project.seed if project is not None and project.seed is not None else 0
    if project is not None and project.agent is not None:
        own_limit = project.agent.timeout_s
    else:
        own_limit = None
    trial = ContractTrial(
        contract=contract,
        scenarios=matrix_of(contract.matrix, seed=seed),
        inputs=tuple(map(options.json_or_text, inputs)) or (project.inputs if project is not None else ()),
        case=None if case is None else with_consent(_case(project, case), allowed),
        timeout_s=timeout_s if case is not None else timeout_s or own_limit,
        min_score=min_score,
        answers=judge_options.answers_of(project, f"contract run {contract.name}", ask=ask_judge, spec=judge_spec),
    )
    count = len(cells_of(trial))
    program = click.get_current_context().meta.get("program")
    candidate, jobs = candidate_options.candidate_and_jobs(
        runner_cmd, agent, endpoint, program=program, jobs=jobs, project=project
    )
    with options.progress(count, "asking") as advance:
        evidence_files = candidate_options.evidence_of(evidence)
        return run_contract(trial, candidate, jobs=min(jobs, count), on_done=advance, evidence=evidence_files)


def _end(result: ContractResult) -> NoReturn:
    """With the exit code that the result has."""
    if result.reason:
        click.echo(f"the agent could not be run: {result.reason}", err=True)
    click.get_current_context().exit(result.exit_code)


def _case(project: Any, path: Path) -> ReplayCase:
    """The one case or session at a path."""
    subjects = select_cases(project, (path,))
    if subjects.unusable:
        raise subjects.unusable[0].error
    if len(subjects.cases) != 1:
        raise UsageError(f"{path} holds {len(subjects.cases)} cases", hint="Name one of them.")
    return subjects.cases[0]
