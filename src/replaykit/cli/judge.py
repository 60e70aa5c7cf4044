"""`replaykit judge`: what judges say about a case's sentences."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="judge")
@click.argument("case", type=click.Path(path_type=Path), metavar="CASE")
@options.judged_result
@click.option("--record", is_flag=True, help="Ask the judge what is not answered yet, and store its answers.")
@click.option("--again", is_flag=True, help="With --record: ask what the judge has answered as well.")
@click.option("--judge", "spec", metavar="JUDGE", help="openai:MODEL, anthropic:MODEL or python:MODULE:FUNCTION.")
@options.config
@options.as_json
def command(
    case: Path,
    result: Path | None,
    evidence: Path | None,
    record: bool,
    again: bool,
    spec: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show what judges say about a case's sentences, or ask them.

    The sentences are those under `semantic:`; the run is that of the newest replay of the case. Answers are stored in
    judgements.json beside the case, and every replay looks them up there; only --record asks. Exit 1 when a sentence
    fails, 3 when one is unjudged or the judge cannot be asked, 5 when there is nothing to judge.

    \b
    replaykit replay cases/billing --agent my_agent:answer
    replaykit judge cases/billing --record --judge openai:gpt-4o-mini
    replaykit judge cases/billing
    """
    from replaykit.cases.case import load_case
    from replaykit.config import default_evidence_path
    from replaykit.errors import ExitCode, UsageError
    from replaykit.report.judging import checks_json, checks_text
    from replaykit.trials.judging import checks_of, judged_run, record_judgements

    if not record and (again or spec or config):
        raise UsageError("--judge, --again and --config go with --record", hint="Without it nobody is asked.")
    found = load_case(case)
    run = judged_run(found, result, evidence or default_evidence_path())
    asked = 0
    if record and found.semantic:
        judge = options.chosen_judge(spec, config)
        with options.progress(len(found.semantic), "judging") as advance:
            asked = record_judgements(found, run, judge, again=again, on_done=advance)
        click.echo(f"asked {judge.about} {asked} of {len(found.semantic)}", err=True)
    checks = checks_of(found, run)
    click.echo(checks_json(found.id, checks, asked=asked) if as_json else checks_text(checks))
    states = {check.status for check in checks}
    code = ExitCode.FAILED if "fail" in states else ExitCode.CANNOT if "unjudged" in states else ExitCode.PASSED
    click.get_current_context().exit(code)
