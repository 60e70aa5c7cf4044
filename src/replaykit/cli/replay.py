"""`replaykit replay`: run a candidate against cases."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="replay", cls=options.BeforeProgram)
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CASE...")
@options.candidate
@click.option(
    "--expect",
    type=click.Choice(["fixed", "reproduced", "changed"]),
    default="fixed",
    show_default=True,
    help="The verdict that passes; `reproduced` proves that a case is red.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Run each case N times.")
@options.timeout
@click.option(
    "--live",
    multiple=True,
    metavar="NAME",
    help="Do this tool, model or request for real where the case does not hold it. Repeatable.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, 1000),
    default=0.0,
    show_default=True,
    help="Pace of recorded responses: 1 as recorded, 2 twice as fast, 0 at once.",
)
@options.upstream
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Run N at once.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where replays leave their files.  [default: .replaykit/runs]",
)
@options.as_json
def command(
    cases: tuple[Path, ...],
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    expect: str,
    repeat: int,
    timeout_s: float | None,
    live: tuple[str, ...],
    speed: float,
    upstream: tuple[str, ...],
    jobs: int,
    evidence: Path | None,
    as_json: bool,
) -> None:
    """Run a candidate against cases: does the failure still happen?

    CASE is a case.yaml, its directory, or a directory of cases. What follows two dashes is a program that is run
    unchanged, its calls answered from the case. Exit 0 when every verdict is the expected one, 1 when not, 3 when a
    candidate gave no usable answer.

    \b
    replaykit replay cases/search-loop --agent my_agent:answer
    replaykit replay cases/billing -- node agent.mjs
    replaykit replay cases --runner-cmd "python runner.py" -j 4
    """
    from replaykit.cases.find import find_cases
    from replaykit.config import default_evidence_path
    from replaykit.model.result import Verdict
    from replaykit.programs.staging import Staging
    from replaykit.report.replays import result_text, results_json, results_text
    from replaykit.runners.many import exit_code, replay_many
    from replaykit.runners.worlds import let_live

    candidate = options.chosen_candidate(
        runner_cmd,
        agent,
        endpoint,
        program=click.get_current_context().meta.get("program"),
        staging=Staging(speed=speed, upstreams=options.upstreams_of(upstream)),
    )
    found = [let_live(case, live) for case in find_cases(cases)]
    root = evidence or default_evidence_path()
    with options.progress(len(found) * repeat, "replaying") as advance:
        results = replay_many(
            [case for case in found for _ in range(repeat)],
            candidate,
            timeout_s=timeout_s,
            evidence=root,
            jobs=jobs,
            on_done=advance,
        )
    code = exit_code(results, Verdict(expect))
    if as_json:
        click.echo(results_json(results, passed=code == 0))
    elif len(results) == 1:
        click.echo(result_text(results[0]))
        click.echo(f"\n  Evidence: {results[0].evidence}", err=True)
    else:
        click.echo(results_text(results))
        click.echo(f"Evidence: {root}", err=True)
    click.get_current_context().exit(code)
