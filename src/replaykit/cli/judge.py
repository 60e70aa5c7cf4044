"""`replaykit judge`: what judges say about what a case wants judged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from replaykit.cli import judge_options, options, review
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import hint, reports
from replaykit.config import default_evidence_path
from replaykit.errors import ExitCode, UsageError
from replaykit.report.judgements import checks_json, checks_text
from replaykit.trials.case_judgements import checks_of, load_judged_runs, record_judgements, required_questions


@click.command(name="judge", cls=options.CommandWithParts)
@click.argument("case", type=options.PATH, metavar="CASE")
@judge_options.judged_result
@options.flag("--ask-judge", "record", help="Ask the judge the open questions, and store its answers.")
@options.flag("--again", help="With --ask-judge: ask again what the judge has already answered.")
@click.option("--judge", "spec", metavar="JUDGE", help="openai:MODEL, anthropic:MODEL or python:MODULE:FUNCTION.")
@options.config
@options.as_json
@reports
def command(
    case: Path,
    result: Path | None,
    evidence: Path | None,
    record: bool,
    again: bool,
    spec: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Show or collect the judges' answers about a case.

    Judges answer the sentences under `semantic:` and the `judge.…` assertions, about the newest replay of the case.
    Their answers are stored in judgements.json beside the case, where every replay looks them up. Only --ask-judge
    calls a judge; `review` asks you.

    Exit 1 if a sentence fails, 3 if one is not judged or the judge cannot be reached, 5 if there is nothing to judge.

    \b
    replaykit replay cases/billing --agent my_agent:answer
    replaykit judge cases/billing --ask-judge --judge openai:gpt-4o-mini
    replaykit judge cases/billing
    replaykit judge review cases/billing
    """
    if not record and (again or spec or config):
        raise UsageError("--judge, --again and --config need --ask-judge", hint="Without it no judge is asked.")
    found = judge_options.judged_case(case)
    runs = load_judged_runs(found, result, evidence or default_evidence_path())
    questions = required_questions(found, runs)
    answered_count = 0
    if record:
        judge = judge_options.chosen_judge(spec, config)
        with progress("judging", len(questions)) as judging:
            answered_count = record_judgements(found, runs, judge, again=again, on_done=judging.advance)
        hint(f"asked {judge.identity} {answered_count} of {len(questions)}")
    checks = checks_of(found, runs)
    options.show(as_json, checks, checks_text, partial(checks_json, found.id, answered_count=answered_count))
    # What an answer means for an assertion, the assertion says: one of a failure signature should not be a pass.
    if any(check.status == "fail" and not check.kind for check in checks):
        return ExitCode.FAILED
    if any(check.status == "unjudged" for check in checks):
        return ExitCode.CANNOT
    return ExitCode.PASSED


command.add_command(review.command)
