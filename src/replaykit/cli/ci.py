"""`replaykit ci`: everything that is configured, one result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cli import candidate_options, options, trusted_config
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import detail, hint, reports
from replaykit.errors import UsageError, nearest
from replaykit.model.isolation import IsolationLevel
from replaykit.redaction.files import clean_struct, file_redactor
from replaykit.report.ci import ci_json, ci_text, item_details
from replaykit.report.ci_files import planned, write_reports
from replaykit.report.ci_markdown import harmless, is_github, tell_github
from replaykit.trials.ci import ADD_AGENT, CiPlan, prepare_ci
from replaykit.trials.ci_items import CiWorkers
from replaykit.trials.ci_result import CiPartName

if TYPE_CHECKING:
    from replaykit.project.project import Project
    from replaykit.report.ci_files import Form
    from replaykit.trials.ci_result import CiResult


@click.command(name="ci", cls=candidate_options.BeforeProgram)
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
    "--seed", type=click.IntRange(0), help="The seed of mutations and faults.  [default: the project's, or 0]"
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    help="Run N at once.  [default: 1; for a Python agent a core each]",
)
@options.destination(
    "output",
    "Write all reports into a directory; or one, told by .json, .xml, .md or .html.",
    type=options.PATH,
    metavar="DIR|FILE",
)
@click.option("--junit", type=options.FILE, help="Write a JUnit XML report.")
@click.option("--markdown", type=options.FILE, help="Write a Markdown report.")
@click.option("--html", type=options.FILE, help="Write an HTML report.")
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
    files = planned(output, junit=junit, markdown=markdown, html=html)
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
        )
        ci = prepare_ci(plan)
    options.note(*ci.notices)
    ci.refuse_nothing()
    if lacks_agent:
        raise _no_agent(project)
    candidate, jobs = candidate_options.candidate_and_jobs(*candidate_names, jobs=jobs, project=project)
    with _telling_of_a_stop(files), progress("running", ci.count) as running:
        workers = CiWorkers(candidate=candidate, jobs=jobs, on_done=running.advance)
        result = clean_struct(ci.run(workers), file_redactor())
    _tell(result, files, as_json=as_json)
    return result.exit_code


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


def _tell(result: CiResult, files: Mapping[Path, Form], *, as_json: bool) -> None:
    """Print the result, annotate it, and write its reports."""
    if is_github():
        options.show(as_json, result, lambda result: harmless(ci_text(result)), ci_json)
    else:
        options.show(as_json, result, ci_text, ci_json)
    detail(*map(item_details, result.items))
    tell_github(result, lambda line: click.echo(line, err=True))
    for file in write_reports(result, files):
        hint(f"wrote {file}")


@contextmanager
def _telling_of_a_stop(files: Collection[Path]) -> Iterator[None]:
    """Say that there is nothing when somebody stops it: a report of some of the runs would look like one of all."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        click.echo("stopped before everything was run: there is no verdict, and no report", err=True)
        for file in files:
            if file.exists():
                click.echo(f"{file} is from before", err=True)
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
