"""`replaykit review`: a person answers what no assertion can."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cli import options

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.model.run import TraceRun


@click.command(name="review")
@click.argument("case", type=click.Path(path_type=Path), metavar="CASE")
@options.judged_result
@click.option("--pass", "passed", type=int, multiple=True, metavar="N", help="Sentence N is true. Repeatable.")
@click.option("--fail", "failed", type=int, multiple=True, metavar="N", help="Sentence N is not true. Repeatable.")
@click.option("--note", default="", help="Why: stored with the answers of this call.")
@options.as_json
def command(
    case: Path,
    result: Path | None,
    evidence: Path | None,
    passed: tuple[int, ...],
    failed: tuple[int, ...],
    note: str,
    as_json: bool,
) -> None:
    """Answer a case's sentences yourself, about its newest replay.

    On a terminal each sentence is asked that no person has answered. Without one, --pass and --fail take the numbers
    that `replaykit judge CASE` shows. A person's answer counts before a judge's. Exit 1 when a sentence fails, 5 when
    there is none.

    \b
    replaykit review cases/billing
    replaykit review cases/billing --pass 1 --fail 2 --note "It blames the customer"
    """
    from replaykit.cases.case import load_case
    from replaykit.config import default_evidence_path
    from replaykit.errors import ExitCode, UsageError
    from replaykit.judges.judge import Answer
    from replaykit.report.judging import checks_json, checks_text
    from replaykit.trials.judging import checks_of, judged_run, review

    found = load_case(case)
    run = judged_run(found, result, evidence or default_evidence_path())
    checks_of(found, run)
    if set(passed) & set(failed):
        raise UsageError(f"sentence {min(set(passed) & set(failed))} cannot both pass and fail")
    answers = dict.fromkeys(passed, Answer.PASS) | dict.fromkeys(failed, Answer.FAIL)
    if not answers and not sys.stdin.isatty():
        hint = "Answer with --pass N and --fail N; `replaykit judge CASE` lists them."
        raise UsageError("there is no terminal to ask on", hint=hint)
    if answers:
        review(found, run, answers, note)
    else:
        _ask(found, run)
    checks = checks_of(found, run)
    click.echo(checks_json(found.id, checks) if as_json else checks_text(checks))
    click.get_current_context().exit(ExitCode.FAILED if any(c.status == "fail" for c in checks) else ExitCode.PASSED)


def _ask(case: ReplayCase, run: TraceRun) -> None:
    """Each sentence that no person has answered of this run."""
    from replaykit.judges.judge import Answer
    from replaykit.report.judging import asked_text
    from replaykit.trials.judging import checks_of, review

    words = {"p": Answer.PASS, "f": Answer.FAIL}
    click.echo(asked_text(run), err=True)
    for number, check in enumerate(checks_of(case, run), 1):
        if check.by == "person":
            continue
        click.echo(f"\n{number}. {check.text}", err=True)
        choice = click.prompt("[p]ass, [f]ail, [s]kip or [q]uit", type=click.Choice(["p", "f", "s", "q"]), err=True)
        if choice == "q":
            return
        if choice in words:
            note = click.prompt("why (may be empty)", default="", show_default=False, err=True)
            review(case, run, {number: words[choice]}, note)
