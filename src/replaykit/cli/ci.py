"""`replaykit ci`: everything that is configured, one result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from replaykit.cli import candidate_options, options, trusted_config
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, reports
from replaykit.config import HOME, default_evidence_path, default_history_path, default_results_path, make_home
from replaykit.errors import ReplayKitError, UsageError, nearest
from replaykit.model.isolation import IsolationLevel
from replaykit.report.ci import ci_json, ci_text, item_details, verdict_text
from replaykit.report.ci_files import planned, refuse_links, write_reports
from replaykit.report.ci_markdown import harmless, is_github, tell_github
from replaykit.revisions import checked_out_commit
from replaykit.trials.ci import ADD_AGENT, ALL, CiPlan, prepare_ci
from replaykit.trials.ci_history import add_run
from replaykit.trials.ci_items import CiWorkers
from replaykit.trials.ci_merge import merged
from replaykit.trials.ci_records import new_results_file
from replaykit.trials.ci_result import CiPartName
from replaykit.trials.shards import Shard, parse_shard, read_timings, result_files

if TYPE_CHECKING:
    from replaykit.candidates.attempt import Candidate
    from replaykit.project.project import Project
    from replaykit.report.ci_files import ReportForm
    from replaykit.trials.ci import Ci
    from replaykit.trials.ci_result import CiResult

SHARD_DIRECTORY = Path(HOME) / "shards"


class CiCommand(candidate_options.BeforeProgram, options.CommandWithParts):
    """`ci`, which may end with a program, and `ci merge`."""


_reports = options.combined(
    click.option("--html", type=options.FILE, help="Write an HTML report."),
    click.option("--markdown", type=options.FILE, help="Write a Markdown report."),
    click.option("--junit", type=options.FILE, help="Write a JUnit XML report."),
    options.destination(
        "output",
        "Write all reports into a directory, or one to a .json, .xml, .md or .html file.",
        type=options.PATH,
        metavar="DIR|FILE",
    ),
)


@click.group(name="ci", cls=CiCommand)
@options.config
@trusted_config.config_from
@click.option(
    "--min-score",
    type=options.NumberRange(0, 100),
    help="The overall score that passes, as a percentage.  [default: `ci.min_score`; without it nothing may fail]",
)
@click.option("--only", metavar="PART,...", help="Only these of: mutation, contract, chaos, replay.")
@options.flag("--require-proof", help="Fail a fixed replay whose case was never seen red (`prove`).")
@click.option(
    "--require-isolation",
    type=options.OneOf(["full", "landlock", "process"]),
    help="Fail a fixed replay that was less isolated than this (`replaykit doctor`).",
)
@click.option(
    "--seed", type=options.WholeNumber(0), help="The seed of mutations and faults.  [default: the project's, or 0]"
)
@click.option(
    "-j",
    "--jobs",
    type=options.WholeNumber(1),
    help="Run N at once.  [default: 1; one per core for a Python agent]",
)
@click.option(
    "--shard",
    metavar="K/N",
    help="Run the K-th of N shares of the suite, and write its results for `ci merge` into the directory of -o."
    f"  [default: the whole suite; -o: {SHARD_DIRECTORY}]",
)
@click.option(
    "--timings",
    type=options.PATH,
    metavar="FILE|DIR",
    help="With --shard: earlier results, to balance the shards by time. Use the same for all shards.",
)
@candidate_options.on
@options.flag(
    "--reuse-workers",
    help="Run all cases in one process of the agent: faster, if the agent keeps no state between runs.",
)
@_reports
@candidate_options.candidate
@candidate_options.consent
@candidate_options.trial_evidence
@options.no_redact
@options.otel
@options.as_json
@reports
def command(
    config: Path | None,
    config_from: str | None,
    untrusted: bool,
    min_score: float | None,
    only: str | None,
    require_proof: bool,
    require_isolation: str | None,
    seed: int | None,
    jobs: int | None,
    shard: str | None,
    timings: Path | None,
    on: str | None,
    reuse_workers: bool,
    output: Path | None,
    junit: Path | None,
    markdown: Path | None,
    html: Path | None,
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    live: tuple[str, ...],
    allow_connect: tuple[str, ...],
    allow_write: tuple[str, ...],
    evidence: Path | None,
    as_json: bool,
) -> int:
    """Run everything the configuration names, and give a pipeline one result.

    `ci merge` combines the results of several shards.

    Replays the project's cases and sessions, checks its contracts, injects its faults, and tries variants of its
    inputs. No model is needed except the agent's own. A case that asks for live calls or connections is not replayed
    unless --live and --allow-connect name them.

    Exit 1 if a replay is not fixed, a critical invariant fails, or the score is below --min-score (without one: if
    anything fails). With --require-proof, a replay whose case was never seen red fails too. Exit 2 if a file is wrong
    (the others still run), 3 if the result is inconclusive, 5 if nothing was run.

    \b
    replaykit ci
    replaykit ci --only replay -j 4 --junit junit.xml
    replaykit ci -c replaykit.yaml --min-score 90 -o reports
    replaykit ci --untrusted
    """
    candidate_names = (runner_cmd, agent, endpoint)
    is_named = any(name is not None for name in (*candidate_names, candidate_options.named_program()))
    project = _project(config, config_from, untrusted=untrusted)
    lacks_agent = project.agent is None and not is_named
    if lacks_agent and project.sources:  # nothing is fetched in vain
        raise _no_agent(project)
    share = _share(shard, timings)
    if share is ALL:
        files = planned(output, junit=junit, markdown=markdown, html=html)
    else:
        files = _no_reports(output, junit, markdown, html)
    with progress("fetching", is_logged=True) as fetched:
        plan = CiPlan(
            project=project,
            only=_parts(only),
            requires_proof=require_proof,
            required_isolation=IsolationLevel(require_isolation or IsolationLevel.NONE),
            seed=seed,
            min_score=_percentage(project, min_score),
            evidence=candidate_options.evidence_of(evidence),
            consent=candidate_options.consent_of(live, allow_connect, allow_write),
            on_fetched=fetched.advance,
            shard=share,
            timings={} if timings is None else read_timings(timings),
            revision=checked_out_commit(Path(), compares_files=config_from is None and not untrusted),
        )
        ci = prepare_ci(plan)
    options.note(*ci.notices)
    ci.refuse_nothing()
    if lacks_agent:
        raise _no_agent(project)
    named_jobs = jobs
    candidate, jobs = candidate_options.candidate_and_jobs(
        *candidate_names, jobs=jobs, project=project, reuses_workers=reuse_workers
    )
    workers = _workers(plan, candidate, jobs if on is None else named_jobs, on)
    results = _results_file(ci, output)
    with _telling_of_a_stop(files), progress("running", ci.count) as running:
        result = ci.run(replace(workers, on_done=running.advance), results)
    if share is ALL:
        _remember(result)
    _tell(result, files, as_json=as_json, evidence=evidence)
    if share is not ALL:
        hint(f"wrote {results}")
    return result.exit_code


@command.command(name="merge")
@click.argument("paths", nargs=-1, required=True, type=options.PATH, metavar="DIR|FILE...")
@_reports
@options.as_json
@reports
def merge(
    paths: tuple[Path, ...],
    output: Path | None,
    junit: Path | None,
    markdown: Path | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Combine the results of all shards into one.

    Takes the files that `ci --shard` wrote, or directories that hold them. Results of other versions, configurations or
    cases cannot be merged; a missing or duplicate shard is an error. The exit code is that of `ci`.

    \b
    replaykit ci merge .replaykit/shards
    replaykit ci merge downloaded -o reports
    """
    result = merged(result_files(paths))
    _remember(result)
    _tell(result, planned(output, junit=junit, markdown=markdown, html=html), as_json=as_json)
    return result.exit_code


def _workers(plan: CiPlan, candidate: Candidate, jobs: int | None, on: str | None) -> CiWorkers:
    """Return what runs the agent: this process, or the engine that was named."""
    if on is None:
        return CiWorkers(candidate=candidate, jobs=jobs or 1)
    if plan.project.sources:
        hint = "Bring the runs in first: replaykit import, then replaykit scaffold"
        raise UsageError("--on replays cases in files, and the configuration fetches some from sources", hint=hint)
    from replaykit.candidates.worlds import WorldOptions
    from replaykit.cluster.protocol import KeepRule

    of_passed = plan.evidence is not None and plan.evidence.of_passed
    keep = KeepRule(passed=of_passed, unproven=plan.requires_proof, isolation=plan.required_isolation)
    world = WorldOptions(consent=plan.consent)
    cluster = candidate_options.cluster_of(on, candidate, project=plan.project, world=world, keep=keep, jobs=jobs)
    return CiWorkers(candidate=cluster.candidate, jobs=cluster.jobs, cluster=cluster)


def _share(text: str | None, timings: Path | None) -> Shard:
    """Return the share of the suite to run."""
    if text is None:
        if timings is not None:
            raise UsageError("--timings balances shards, and there is no --shard", hint="Add --shard K/N.")
        return ALL
    return parse_shard(text)


def _no_reports(output: Path | None, *reports: Path | None) -> dict[Path, ReportForm]:
    """Refuse reports of one shard: they would look like those of the suite."""
    hint = "Write reports once all shards are done: replaykit ci merge DIR -o reports"
    if any(report is not None for report in reports):
        raise UsageError("a shard has no reports", hint=hint)
    if output is not None and (output.suffix or output.is_file()):
        raise UsageError(f"-o {output}: with --shard this is the directory for its results", hint=hint)
    return {}


def _results_file(ci: Ci, output: Path | None) -> Path:
    """Return the file that the results of this run go to; each whole run has one of its own."""
    shard = ci.plan.shard
    if shard is ALL:
        return new_results_file(default_results_path())
    if output is None:
        make_home(SHARD_DIRECTORY)
    file = (output or SHARD_DIRECTORY) / shard.file_name
    refuse_links([file])
    return file


def _no_agent(project: Project) -> UsageError:
    return UsageError(f"{project.file} names no agent", hint=ADD_AGENT)


def _project(config: Path | None, revision: str | None, *, untrusted: bool) -> Project:
    """Return the configuration that was named, or that lies here."""
    files = trusted_config.config_files(revision, untrusted=untrusted)
    project: Project | None = options.project_of(config, files, untrusted=untrusted)
    if project is None:
        message = f"there is no replaykit.yaml here{files.where}"
        raise UsageError(message, hint="Make one: replaykit init; or name one: -c FILE")
    return project


def _remember(result: CiResult) -> None:
    """Add the run to the history. Without one, the verdict still stands."""
    try:
        add_run(default_history_path(), result)
    except ReplayKitError as error:
        options.note(f"this run is not in the history: {error.message}")


def _tell(result: CiResult, files: Mapping[Path, ReportForm], *, as_json: bool, evidence: Path | None = None) -> None:
    """Print the result, annotate it, and write its reports."""
    if is_github():
        options.show(as_json, result, lambda result: harmless(ci_text(result)), ci_json)
    else:
        options.show(as_json, result, ci_text, ci_json, brief=verdict_text)
    detail(*map(item_details, result.items))
    tell_github(result, lambda line: click.echo(line, err=True))

    def write_page(file: Path, result: CiResult) -> None:
        from replaykit.viewer.suite_file import write_suite_file

        write_suite_file(file, result, evidence or default_evidence_path())

    for file in write_reports(result, files, write_page):
        hint(f"wrote {file}")


@contextmanager
def _telling_of_a_stop(files: Collection[Path]) -> Iterator[None]:
    """Say that there is nothing when somebody stops it: a report of some of the runs would look like one of all."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        click.echo("stopped before everything was run: no verdict, no report", err=True)
        for file in files:
            if file.exists():
                click.echo(f"{file} is from an earlier run", err=True)
        raise


def _parts(only: str | None) -> tuple[CiPartName, ...]:
    if only is None:
        return tuple(CiPartName)
    names = list(filter(None, map(str.strip, only.split(","))))
    known = list(map(str, CiPartName))
    for name in names:
        if name not in known:
            raise UsageError(f"--only: no part {name!r}; {nearest(name, known)}")
    if not names:
        raise UsageError("--only names no part", hint=f"Some of: {', '.join(known)}")
    return tuple(part for part in CiPartName if part in names)


def _percentage(project: Project, min_score: float | None) -> float | None:
    """The score that passes; 0.9 is refused, since whoever writes that means 90."""
    if min_score is not None and 0 < min_score <= 1:
        raise UsageError(f"--min-score {min_score:g} is a percentage", hint=f"Write --min-score {min_score * 100:g}")
    if min_score is not None:
        return min_score
    own = project.min_score
    if own is not None and 0 < own <= 1:
        message = f"ci.min_score: {own:g} is a percentage"
        raise project.error(message, ("ci", "min_score"), hint=f"Write {own * 100:g}.")
    return own
