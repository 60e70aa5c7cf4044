"""`replaykit chaos`: an agent in broken worlds, and asked in other words."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from replaykit.candidates.worlds import WorldOptions, with_consent
from replaykit.cli import candidate_options, judge_options, options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, reports
from replaykit.contracts.contract import ChaosScenario
from replaykit.errors import ExitCode, NothingSelected, UsageError
from replaykit.handlers.chaos.mutations import Mutation, Seeded
from replaykit.handlers.chaos.profiles import PROFILES, merged
from replaykit.judges.shape import JudgeSpec
from replaykit.model.faults import ChaosPlan
from replaykit.programs.launch_options import LaunchOptions
from replaykit.project.case_selection import select_cases
from replaykit.project.chaos_config import matrix_of, named_plan
from replaykit.project.project import Mutations, Project
from replaykit.report.chaos import (
    chaos_json,
    chaos_text,
    mutated_inputs,
    mutation_json,
    mutation_text,
    mutations_json,
    mutations_text,
    profiles_json,
    profiles_text,
)
from replaykit.trials.chaos import ChaosTrial, count_of, run_chaos, save_broken
from replaykit.trials.contract import chaos_contract
from replaykit.trials.model_mutations import mutator_of

if TYPE_CHECKING:
    from replaykit.contracts.contract import Contract


_trial_options = options.combined(
    candidate_options.jobs,
    candidate_options.trial_evidence,
    judge_options.asking_judge,
    options.timeout,
    click.option(
        "--contract",
        metavar="NAME",
        help="The contract the agent must keep.  [default: the project's contracts, or that it ends without an error]",
    ),
    candidate_options.candidate,
    options.config,
)
"""Whom `run` and `mutate` ask, and what for."""


@click.group(name="chaos")
def command() -> None:
    """Test an agent under faults in its tools, models and context.

    The same seed gives the same faults at the same calls, whatever runs in parallel.

    \b
    replaykit chaos run --profile api_outage --agent my_agent:answer --input "Where is my order?"
    replaykit chaos run -c replaykit.yaml --repeat 20 --scaffold cases/chaos
    replaykit chaos profiles
    replaykit chaos mutate "Where is my order?"
    """


@command.command(name="run", cls=candidate_options.BeforeProgram)
@click.option("--profile", metavar="NAME", help="A profile (`replaykit chaos profiles`), or a file with faults.")
@click.option("--seed", type=options.WholeNumber(0), help="The seed of the faults.  [default: the project's, or 0]")
@click.option(
    "--repeat",
    type=options.WholeNumber(1),
    default=1,
    show_default=True,
    help="Run each scenario N times, each with the next seed.",
)
@options.repeated("--input", "inputs", metavar="TEXT", help="The agent's input: JSON, or else text. Repeatable.")
@options.repeated(
    "--case",
    "cases",
    type=options.PATH,
    metavar="CASE",
    help="Run the agent in the world of this case instead of a live one. Repeatable.",
)
@candidate_options.consent
@_trial_options
@candidate_options.mcp_config
@candidate_options.on
@click.option(
    "--scaffold",
    type=options.DIRECTORY,
    metavar="DIR",
    help="Save each run that broke as a case.",
)
@options.as_json
@reports
def run(
    profile: str | None,
    seed: int | None,
    repeat: int,
    inputs: tuple[str, ...],
    cases: tuple[Path, ...],
    contract: str | None,
    jobs: int | None,
    timeout_s: float | None,
    on: str | None,
    scaffold: Path | None,
    as_json: bool,
    **named: Any,
) -> int:
    """Run the agent under chaos: does it hold?

    The faults come from the project's `chaos:`, followed by those of --profile. If you give neither, a --contract
    brings the faults of its `chaos_matrix`. The agent must keep that contract, or else the project's contracts, as in
    `replaykit ci`; without a contract it must end without an error.

    Tools and models are live unless --case names a recorded world. There, --live and --allow-connect say what may
    happen for real. Without --input and --case, the project's inputs are used, or else its cases. Exit 1 if a run
    broke, 3 if the agent could not be run, 5 if no fault of a scenario was triggered.

    \b
    replaykit chaos run --profile api_outage --agent my_agent:answer --input "Where is my order?"
    """
    allowed = candidate_options.taken_from(named)
    project = options.project_of(named["config"])
    settings = project or Project(file=Path())
    named_contract = _contract(settings, contract)
    scenarios = _scenarios(settings, named_contract, profile, seed)
    named_jobs = jobs
    candidate, jobs = _candidate(project, scenarios, jobs, named)
    questions = tuple(map(options.json_or_text, inputs))
    if not questions and not cases:
        questions = settings.inputs
    worlds = []
    if cases or not questions:
        worlds = [with_consent(case, allowed) for case in _cases(project, cases)]
    if questions and not timeout_s:
        timeout_s = _usual_timeout(settings)
    candidate_options.refuse_in_live_world(allowed, is_recorded=bool(worlds))
    if on is not None:
        world = WorldOptions(consent=allowed)
        cluster = candidate_options.cluster_of(on, candidate, project=project, world=world, jobs=named_jobs)
        candidate, jobs = cluster.candidate, cluster.jobs
    promised = named_contract or chaos_contract(settings, in_cases=bool(worlds))
    trial = ChaosTrial(
        scenarios=scenarios,
        inputs=questions,
        cases=tuple(worlds),
        contract=promised,
        runs=repeat,
        timeout_s=timeout_s,
        answers=_answers(project, named_contract, "chaos run", named),
    )
    with progress("running", count_of(trial)) as running:
        evidence_files = candidate_options.evidence_of(named["evidence"])
        result = run_chaos(trial, candidate, jobs=jobs, on_done=running.advance, evidence=evidence_files)
    for run in result.runs:
        detail(f"{run.scenario} seed {run.seed} {run.verdict}: {run.evidence or 'no evidence kept'}")
    saved = [] if scaffold is None else save_broken(result, scaffold, promised)
    options.show(as_json, result, partial(chaos_text, saved=saved), partial(chaos_json, saved=saved), redact=True)
    return result.exit_code


@command.command(name="profiles")
@options.as_json
def profiles(as_json: bool) -> None:
    """List the fault profiles.

    \b
    replaykit chaos profiles
    """
    options.show(as_json, tuple(PROFILES), profiles_text, profiles_json)


@command.command(name="mutate", cls=candidate_options.BeforeProgram)
@click.argument("text", required=False)
@options.repeated("--input", "inputs", metavar="TEXT", help="The input to vary: JSON, or else text.")
@options.repeated("--kind", "kinds", metavar="KIND", help="Only this kind of mutation. Repeatable.")
@click.option(
    "--count", type=options.WholeNumber(1, 1000), help="Variants per input.  [default: the configuration's, or 9]"
)
@click.option(
    "--seed", type=options.WholeNumber(0), default=0, show_default=True, help="The seed of variants made by rules."
)
@click.option(
    "--by",
    metavar="MODEL",
    help="Who writes the variants: openai:MODEL, anthropic:MODEL or rules.  [default: the configuration's, or rules]",
)
@options.flag("--ask-model", "record", help="Ask the model for missing variants, and store them.")
@options.flag("--run", "runs", help="Send every variant to the agent, and score its answers.")
@click.option(
    "--min-score",
    type=options.NumberRange(0, 100),
    default=100.0,
    show_default=True,
    help="With --run: the weighted share that passes.",
)
@_trial_options
@options.as_json
@reports
def mutate(
    text: str | None,
    inputs: tuple[str, ...],
    kinds: tuple[str, ...],
    count: int | None,
    seed: int,
    by: str | None,
    record: bool,
    runs: bool,
    min_score: float,
    contract: str | None,
    jobs: int | None,
    timeout_s: float | None,
    as_json: bool,
    **named: Any,
) -> int:
    """Generate variants of inputs, and test the agent with them.

    Variants have typos, letters of other alphabets, another wording, or injected instructions. Rules generate them, or
    a model that you name. A model's variants are stored in mutations.json beside the configuration. Only --ask-model
    calls the model; without it, a missing variant is an error. Without TEXT, the configuration's inputs are used.

    The variants are printed. With --run, the agent gets each of them in a live world and must keep the contract. Exit 1
    if the score is below --min-score, 3 if the model's variants are missing or it cannot be reached.

    \b
    replaykit chaos mutate "Where is my order?" --kind typos
    replaykit chaos mutate --by openai:gpt-4o-mini --ask-model
    """
    project = options.project_of(named["config"])
    settings = project or Project(file=Path())
    texts = inputs if text is None else (*inputs, text)
    questions = tuple(map(options.json_or_text, texts)) or settings.inputs
    if not questions:
        raise UsageError("no input to vary", hint='replaykit chaos mutate "Where is my order?"')
    mutator = _mutator(settings, by, kinds, seed=seed, record=record)
    count = count or (settings.mutations or Mutations()).count
    if not runs:
        found: list[Mutation] = []
        for question in questions:
            found += mutator.mutate(question, count)
        options.show(as_json, found, mutations_text, mutations_json, redact=True, brief=mutated_inputs)
        return ExitCode.PASSED
    from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
    from replaykit.trials.contract import mutation_contract
    from replaykit.trials.mutation import MutationTrial, run_mutations

    named_contract = _contract(settings, contract)
    trial = MutationTrial(
        mutator=mutator,
        count=count,
        inputs=questions,
        contract=named_contract or mutation_contract(settings),
        answers=_answers(project, named_contract, "chaos mutate --run", named),
        timeout_s=timeout_s or _usual_timeout(settings) or DEFAULT_TIMEOUT_S,
    )
    candidate, jobs = _candidate(project, (), jobs, named)
    with progress("asking", len(questions) * count) as asking:
        evidence_files = candidate_options.evidence_of(named["evidence"])
        result = run_mutations(trial, candidate, jobs=jobs, on_done=asking.advance, evidence=evidence_files)
    code = result.exit_code(min_score)
    options.show(as_json, result, mutation_text, partial(mutation_json, passed=not code), redact=True)
    return code


def _mutator(settings: Project, by: str | None, kinds: tuple[str, ...], *, seed: int, record: bool) -> Any:
    """Return what writes the mutations: rules, the model that is named, or that of the configuration."""
    usual = (settings.mutations or Mutations()).by
    if record and (by == "rules" or (by is None and usual is None)):
        hint = "Name one: --by openai:MODEL, or `by:` under `mutations:`"
        raise UsageError("--ask-model asks a model, and none is named", hint=hint)
    if by == "rules" or (kinds and by is None and usual is None):
        return Seeded(kinds, seed=seed)
    named = usual
    if by is not None and (usual is None or usual.use != by):
        named = JudgeSpec(use=by)
    return mutator_of(settings, named, kinds, seed=seed, ask=record)


def _usual_timeout(settings: Project) -> float | None:
    """Return the time limit of the project's agent."""
    return None if settings.agent is None else settings.agent.timeout_s


def _answers(project: Project | None, contract: Contract | None, verb: str, named: dict[str, Any]) -> Any:
    command = verb if contract is None else f"{verb} --contract {contract.name}"
    return judge_options.answers_of(project, command, ask=named["ask_judge"], spec=named["judge_spec"])


def _contract(settings: Project, name: str | None) -> Contract | None:
    if name is None:
        return None
    from replaykit.contracts.find import find_contract

    return find_contract(name, settings.contracts, settings.directory)


def _scenarios(
    settings: Project, contract: Contract | None, profile: str | None, seed: int | None
) -> tuple[ChaosScenario, ...]:
    """Return the worlds to try: the project's faults with the profile's, or those of the contract's matrix."""
    usual = seed
    if usual is None:
        usual = settings.seed or 0
    plan = settings.chaos or ChaosPlan(seed=usual)
    if seed is not None:
        plan = replace(plan, seed=seed)
    if profile is not None:
        return (ChaosScenario(name=profile, plan=merged(plan, named_plan(profile, seed=plan.seed))),)
    if plan.is_calm and contract is not None and contract.matrix:
        return matrix_of(contract.matrix, seed=usual)
    return (ChaosScenario(name="chaos", plan=plan),)


def _cases(project: Project | None, paths: tuple[Path, ...]) -> list[Any]:
    """The cases at the paths, or all of the project; one that cannot be used is an error."""
    if project is None and not paths:
        raise NothingSelected("no input for the agent", hint="Give --input TEXT, or --case CASE.")
    found = select_cases(project, paths)
    for wrong in found.unusable:
        raise wrong.error
    return found.cases


def _candidate(
    project: Project | None, scenarios: tuple[ChaosScenario, ...], jobs: int | None, named: dict[str, Any]
) -> tuple[Any, int]:
    """The candidate of the options, or else the project's agent; an error where the faults would not reach it."""
    names = (named["runner_cmd"], named["agent"], named["endpoint"])
    candidate_options.refuse_out_of_reach(named["endpoint"], [scenario.plan for scenario in scenarios])
    servers = candidate_options.mcp_props(named.get("mcp_configs", ()), in_place=named.get("in_place", False))
    launch_options = LaunchOptions(extension=servers)
    candidate, jobs = candidate_options.candidate_and_jobs(
        *names, jobs=jobs, project=project, launch_options=launch_options
    )
    candidate_options.check_servers(servers, candidate, jobs)
    return candidate, jobs
