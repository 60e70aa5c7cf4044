"""`replaykit contract`: does the agent keep its promises?"""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.candidates.worlds import with_consent
from replaykit.cases.config_files import find_project
from replaykit.cli import candidate_options, judge_options, options, plugins
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, reports
from replaykit.contracts.find import lint_contracts
from replaykit.documents.shape import FlawSeverity
from replaykit.errors import UsageError, failed_if
from replaykit.project.case_selection import select_cases
from replaykit.project.chaos_config import matrix_of
from replaykit.project.project import Project, chosen_contract
from replaykit.report.cases import problems_json, problems_text
from replaykit.report.contract import check_details, contract_text, score_json, score_text, unjudged_reasons
from replaykit.trials.contract import ContractTrial, cells_of, run_contract

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.contracts.score import ContractResult


_trial = options.combined(
    candidate_options.jobs,
    candidate_options.trial_evidence,
    candidate_options.consent,
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
        type=options.PATH,
        help="Run the agent in the world of this case instead of a live one.",
    ),
    options.repeated(
        "--input",
        "inputs",
        metavar="TEXT",
        help="The agent's input: JSON, or else text. Repeatable.  [default: the project's, or all probes]",
    ),
    candidate_options.candidate,
    options.config,
    click.argument("name", required=False, metavar="[CONTRACT]"),
)
"""The options that `run` and `score` share."""


@click.group(name="contract", cls=options.SubcommandGroup)
def command() -> None:
    """Test an agent against a contract, with and without faults.

    CONTRACT is the name of a contract in the project's file, or a file that holds one. You can leave it out if the
    project has only one.

    \b
    replaykit contract lint
    replaykit contract run -c replaykit.yaml
    replaykit contract score contracts/safety.yaml --agent my_agent:answer --input "Where is my order?"
    """


@command.command(name="run", cls=candidate_options.BeforeProgram)
@_trial
@options.as_json
@reports
def run(as_json: bool, **options_given: Any) -> int:
    """Run the agent in every scenario, and check every invariant.

    The agent gets each invariant's probes. An invariant without probes is checked on --input, the project's inputs, or
    all probes. Tools and models are live, with the faults of the scenario, unless --case names a recorded world. There,
    --live and --allow-connect say what may happen for real. Everything after two dashes is a program to run as the
    agent.

    Exit 1 if a critical invariant fails or the score is below --min-score, 2 for wrong files, 3 if the agent could not
    be run or an invariant is inconclusive, 5 if nothing was checked or no fault of a scenario was triggered.

    \b
    replaykit contract run -c replaykit.yaml
    """
    result = _result(**options_given)
    detail(*map(check_details, result.checks))
    options.show(as_json, result, contract_text, redact=True)
    return _exit_code(result)


@command.command(name="score", cls=candidate_options.BeforeProgram)
@_trial
@options.as_json
@reports
def score(as_json: bool, **options_given: Any) -> int:
    """Like `run`, but print only the score, from 0 to 100.

    \b
    replaykit contract score -c replaykit.yaml --min-score 90
    """
    result = _result(**options_given)
    options.show(as_json, result, score_text, score_json, redact=True)
    for invariant, why in unjudged_reasons(result).items():
        hint(f"unjudged: {invariant}: {why}")
    return _exit_code(result)


@command.command(name="lint")
@click.argument("files", nargs=-1, type=options.PATH, metavar="[FILE...]")
@options.config
@plugins.with_plugins
@options.as_json
@reports
def lint(files: tuple[Path, ...], config: Path | None, with_plugins: bool, as_json: bool) -> int:
    """Check contracts, and show every problem with its line and fix.

    FILE holds a contract or a project. Default: the project's own file. Exit 1 if there is an error.

    \b
    replaykit contract lint contracts/*.yaml
    """
    named = [file for file in (*files, config) if file] or list(filter(None, [find_project()]))
    if not named:
        raise UsageError("which file?", hint="Name one, or work where a replaykit.yaml is.")
    if with_plugins:
        plugins.load_plugins(config)
    problems = list(chain.from_iterable(map(lint_contracts, named)))
    detail(*(f"looked at {file}" for file in named))
    options.show(as_json, problems, partial(problems_text, count=len(named), what="file"), problems_json)
    return failed_if(any(problem.severity is FlawSeverity.ERROR for problem in problems))


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
    allowed = candidate_options.taken_from(allowing)
    candidate_options.refuse_in_live_world(allowed, is_recorded=case is not None)
    project = options.project_of(config)
    settings = project or Project(file=Path())
    contract = chosen_contract(project, name)
    if case is None and not timeout_s and settings.agent is not None:
        timeout_s = settings.agent.timeout_s
    trial = ContractTrial(
        contract=contract,
        scenarios=matrix_of(contract.matrix, seed=settings.seed or 0),
        inputs=tuple(map(options.json_or_text, inputs)) or settings.inputs,
        case=None if case is None else with_consent(_case(project, case), allowed),
        timeout_s=timeout_s,
        min_score=min_score,
        answers=judge_options.answers_of(project, f"contract run {contract.name}", ask=ask_judge, spec=judge_spec),
    )
    count = len(cells_of(trial))
    candidate, jobs = candidate_options.candidate_and_jobs(runner_cmd, agent, endpoint, jobs=jobs, project=project)
    with progress("asking", count) as asking:
        evidence_files = candidate_options.evidence_of(evidence)
        return run_contract(trial, candidate, jobs=min(jobs, count), on_done=asking.advance, evidence=evidence_files)


def _exit_code(result: ContractResult) -> int:
    """Say why the agent could not be run, if it could not; return the exit code."""
    if result.reason:
        click.echo(f"the agent could not be run: {result.reason}", err=True)
    return result.exit_code


def _case(project: Any, path: Path) -> ReplayCase:
    """The one case or session at a path."""
    subjects = select_cases(project, (path,))
    if subjects.unusable:
        raise subjects.unusable[0].error
    if len(subjects.cases) != 1:
        raise UsageError(f"{path} holds {len(subjects.cases)} cases", hint="Name one of them.")
    return subjects.cases[0]
