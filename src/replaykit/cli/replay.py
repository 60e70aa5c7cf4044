"""`replaykit replay`: run a candidate against cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from replaykit.candidates.pool import replay_many
from replaykit.candidates.replay import exit_code
from replaykit.candidates.worlds import WorldOptions, left_unset, with_options
from replaykit.cases.case import ReplayCase
from replaykit.cases.requests import refusal_text, refused_in
from replaykit.checks.verdict import settled
from replaykit.cli import candidate_options, import_runs, options, trusted_config
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, is_quiet, reports
from replaykit.config import default_evidence_path
from replaykit.errors import ExitCode, UsageError, gravest
from replaykit.intake.source_subjects import subjects_of
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Verdict
from replaykit.programs.launch_options import LaunchOptions
from replaykit.report.layout import fit
from replaykit.report.replays import (
    evidence_text,
    injected_text,
    isolation_of_many,
    isolation_text,
    result_details,
    result_text,
    results_json,
    results_text,
)

if TYPE_CHECKING:
    from replaykit.model.isolation import Consent
    from replaykit.model.result import ReplayResult
    from replaykit.project.case_selection import SelectedCase, SelectedCases


_SHOWN_PLACES = 5


class ReplayOptions(NamedTuple):
    """The options of one call."""

    cases: tuple[Path, ...]
    config: Path | None
    config_from: str | None
    untrusted: bool
    runner_cmd: str | None
    agent: str | None
    endpoint: str | None
    expect: str
    repeat: int
    take: str | None
    timeout_s: float | None
    consent: Consent
    speed: float
    upstream: tuple[str, ...]
    mcp_configs: tuple[Path, ...]
    in_place: bool
    pin_env: tuple[str, ...]
    no_pins: bool
    chaos: str | None
    seed: int | None
    jobs: int | None
    on: str | None
    evidence: Path | None
    as_json: bool


@click.command(name="replay", cls=candidate_options.BeforeProgram)
@click.argument("cases", nargs=-1, type=options.PATH, metavar="[CASE]...")
@options.config
@trusted_config.config_from
@candidate_options.candidate
@click.option(
    "--expect",
    type=options.OneOf(["fixed", "reproduced", "broken", "diverged"]),
    default="fixed",
    show_default=True,
    help="The verdict that passes; `reproduced` proves that a case is red.",
)
@click.option("--repeat", type=options.WholeNumber(1), default=1, show_default=True, help="Run each case N times.")
@click.option("--take", metavar="NAME", help="Serve this take and no other.  [default: the first that fits]")
@options.timeout
@candidate_options.consent
@candidate_options.isolation
@candidate_options.keep_writes
@click.option(
    "--speed",
    type=options.Speed(),
    default="0",
    show_default=True,
    help="Pace of every recorded response: 1x as recorded, 2x twice as fast, 0 only where the order depends on it.",
)
@candidate_options.upstream
@candidate_options.mcp_config
@options.repeated("--pin-env", metavar="NAME", help="Set this variable to the case's value. Repeatable.")
@options.flag("--no-pins", help="Do not freeze clock, randomness and environment.")
@candidate_options.chaos
@candidate_options.jobs
@candidate_options.on
@options.evidence
@import_runs.replays_langsmith
@options.no_redact
@options.otel
@options.as_json
@reports
def command(**parameters: Any) -> ExitCode:
    """Run an agent against cases: does the failure still happen?

    CASE is a case.yaml, a session file, or a directory of them. Without one, everything that the configuration names is
    replayed. Everything after two dashes is a program that runs unchanged, with its calls answered from the case.
    Nothing happens for real unless --live or --allow-connect names it, whatever a case asks for.

    The verdict is reproduced, fixed, broken (another failure), diverged (the agent asked for something that was not
    recorded), flaky (repeated runs disagree) or inconclusive (with the reason). Exit 0 if every verdict is the expected
    one, 1 if not, 2 if a file is wrong (the others still run), 3 if nothing failed but a verdict is inconclusive.

    \b
    replaykit replay cases/search-loop --agent my_agent:answer
    replaykit replay replays/incident_001.yaml -c replaykit.yaml
    replaykit replay cases/billing -- node agent.mjs
    replaykit replay cases --runner-cmd "python runner.py" -j 4
    """
    allowed = candidate_options.taken_from(parameters) | candidate_options.sandbox_from(parameters)
    options_ = ReplayOptions(**parameters, consent=allowed)
    files = trusted_config.config_files(options_.config_from, untrusted=options_.untrusted)
    project = _project(options_, files)
    candidate, jobs = _candidate(options_, project)
    with progress("fetching", is_logged=True) as fetched:
        subjects = subjects_of(project, options_.cases, on_fetched=fetched.advance)
    options.tell_notices(subjects)
    world = _world_options(options_, files)
    found = _worlds(world, subjects)
    options.note(*files.notices)
    root, wrong = options_.evidence or default_evidence_path(), [subject.error for subject in subjects.unusable]
    repeated = [case for case in found for _ in range(options_.repeat)]
    with progress("replaying", len(repeated)) as replaying:
        on_wrong = wrong.append if len(found) > 1 else None
        if options_.on is None:
            results = replay_many(
                repeated,
                candidate,
                timeout_s=options_.timeout_s,
                evidence=root,
                jobs=min(jobs, len(repeated)),
                on_done=replaying.advance,
                on_wrong=on_wrong,
            )
        else:
            cluster = _cluster(options_, project, candidate, world)
            results = cluster.replay_many(repeated, root, on_done=replaying.advance, on_wrong=on_wrong)
    if options_.repeat > 1:
        results = settled(results)
    code = gravest([*(error.exit_code for error in wrong), exit_code(results, Verdict(options_.expect))])
    _report(options_, results, root, passed=code == 0)
    for line in _advice(found, results):
        hint(line)
    return code


def _project(options_: ReplayOptions, files: Any) -> Any:
    """The configuration; where a revision has none, one that says nothing, since contracts are read from there too."""
    if options_.mcp_configs and files.revision_text:
        hint = "It names programs to start, and is read from the working tree."
        raise UsageError("--mcp-config cannot be combined with --config-from or --untrusted", hint=hint)
    project = options.project_of(options_.config, files, untrusted=options_.untrusted)
    if project is None and files.revision_text and options_.cases:
        from replaykit.project.project import Project

        return Project(file=Path("replaykit.yaml"), files=files, variables=())
    return project


def _candidate(options_: ReplayOptions, project: Any) -> tuple[Any, int]:
    """The candidate and how many of its runs go side by side; a UsageError for options that do not go together."""
    servers = candidate_options.mcp_props(options_.mcp_configs, in_place=options_.in_place)
    candidate, jobs = candidate_options.candidate_and_jobs(
        options_.runner_cmd,
        options_.agent,
        options_.endpoint,
        jobs=options_.jobs,
        launch_options=LaunchOptions(
            speed=options_.speed, upstreams=candidate_options.upstreams_of(options_.upstream), extension=servers
        ),
        project=project,
    )
    candidate_options.check_servers(servers, candidate, jobs)
    if options_.seed is not None and options_.chaos is None:
        raise UsageError("--seed has no effect without faults", hint="Name a profile: --chaos PROFILE")
    if options_.pin_env and options_.no_pins:
        raise UsageError("--pin-env and --no-pins cannot be combined")
    return candidate, jobs


def _cluster(options_: ReplayOptions, project: Any, candidate: Any, world: WorldOptions) -> Any:
    """Return the engine that was named."""
    from replaykit.cluster.protocol import KeepRule

    return candidate_options.cluster_of(
        options_.on or "",
        candidate,
        project=project,
        world=world,
        timeout_s=options_.timeout_s,
        keep=KeepRule(passed=True),
        jobs=options_.jobs,
    )


def _world_options(options_: ReplayOptions, files: Any) -> WorldOptions:
    """Return what the options say about all worlds."""
    plan = ChaosPlan()
    if options_.chaos is not None:
        from replaykit.project.chaos_config import named_plan

        plan = named_plan(options_.chaos, seed=options_.seed, files=files)
        candidate_options.refuse_out_of_reach(options_.endpoint, [plan])
    return WorldOptions(
        consent=options_.consent,
        take=options_.take,
        is_pinned=not options_.no_pins,
        trusted=options_.pin_env,
        chaos=plan,
    )


def _worlds(world: WorldOptions, subjects: SelectedCases) -> list[SelectedCase]:
    """The subjects, each in the world that the options ask for."""
    found: list[SelectedCase] = []
    for subject in subjects.all:
        found.append(with_options(subject, world) if isinstance(subject, ReplayCase) else subject)
    for name in left_unset(subject for subject in found if isinstance(subject, ReplayCase)):
        hint(fit(f"{name} has a value in the case that is not set here; --pin-env {name} sets it"))
    return found


def _advice(found: Sequence[SelectedCase], results: Sequence[ReplayResult]) -> list[str]:
    """Return advice on problems that lie with the case, not the candidate."""
    lines = []
    for case_id in _out_of_time(found, results):
        lines.append(
            f"{case_id}: Python's clock stood still all the time. Where the candidate waits for it to move on, say"
            " `clock: tick` in the case, or --no-pins"
        )
    lines += _connections(results)
    if len(results) > 1:  # of one, its own text says so
        lines += _refusals(found)
    return lines


def _connections(results: Sequence[ReplayResult]) -> list[str]:
    """Name the option that would let connections through which were stopped."""
    stopped = [access for result in results for access in result.isolation.stopped if access.channel in ("tcp", "unix")]
    kinds = {deviation.kind for result in results for deviation in result.deviations}
    if stopped:
        places = list(dict.fromkeys(access.target for access in stopped if not access.target.startswith("@")))
        return [f"To let it through: --allow-connect {place}" for place in places[:_SHOWN_PLACES]]
    if "network" in kinds:
        return ["To let such a connection through, allow its address: --allow-connect HOST:PORT"]
    return []


def _refusals(found: Sequence[SelectedCase]) -> list[str]:
    """Name the options for each case that was not run, since it asks for something live."""
    asking = {case.id: refused_in(case) for case in found if isinstance(case, ReplayCase)}
    return [f"{case_id}: {refusal_text(refused)}" for case_id, refused in asking.items() if refused]


def _out_of_time(found: Sequence[SelectedCase], results: Sequence[ReplayResult]) -> list[str]:
    """The cases without an answer in time in which the clock stands still. One that is reproduced is as it was."""
    late = {
        result.case_id
        for result in results
        if result.run is not None and result.run.status == "timeout" and not result.reproduced
    }
    if not late:
        return []
    from replaykit.cases.case_shape import parse_clock
    from replaykit.model.pins import Clock

    frozen = []
    for case in found:
        if isinstance(case, ReplayCase) and case.id in late:
            clock = case.scenario.clock
            if clock and parse_clock(clock)[1] is Clock.FROZEN:
                frozen.append(case.id)
    return frozen


def _report(options_: ReplayOptions, results: Sequence[ReplayResult], root: Path, *, passed: bool) -> None:
    detail(*map(result_details, results))
    if options_.as_json:
        options.print_json(results_json(results, passed=passed))
    elif is_quiet():
        for result in results:
            click.echo(f"{result.verdict.value}  {result.case_id}")
            if result.verdict is Verdict.INCONCLUSIVE:
                click.echo(fit(f"{result.case_id}: {result.reason}"), err=True)
    elif len(results) == 1:
        [result] = results
        click.echo(fit(result_text(result)))
        hint(fit(f"\n  Evidence: {result.directory}"))
        if result.evidence.recorded:
            hint(fit(f"  Used: {evidence_text(result.evidence)}"))
        if result.take:
            hint(fit(f"  Take: {result.take}"))
        hint(fit(f"  Isolation: {isolation_text(result.isolation)}"))
    else:
        click.echo(fit(results_text(results)))
        hint(fit(f"Evidence: {root}"))
        hint(fit(f"Isolation: {isolation_of_many(results)}"))
    if options_.chaos is not None:
        hint(fit(f"Injected: {injected_text(results)}"))
