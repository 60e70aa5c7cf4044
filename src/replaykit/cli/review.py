"""`replaykit judge review`: a person answers what no assertion can."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.checks.questions import Asks
from replaykit.cli import judge_options, options
from replaykit.cli.verbosity import reports
from replaykit.config import default_evidence_path
from replaykit.errors import UsageError, failed_if
from replaykit.report.judgements import asked_text, checks_json, checks_text
from replaykit.trials.case_judgements import checks_of, load_judged_runs, required_questions, review

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.judges.semantic import JudgedItem
    from replaykit.model.run import TraceRun

_SKIP, _QUIT = "\0skip", "\0quit"  # no label is spelled so


@click.command(name="review")
@click.argument("case", type=options.PATH, metavar="CASE")
@judge_options.judged_result
@options.repeated("--pass", "passed", type=int, metavar="N", help="Sentence N is true. Repeatable.")
@options.repeated("--fail", "failed", type=int, metavar="N", help="Sentence N is not true. Repeatable.")
@options.repeated(
    "--answer",
    "answer_texts",
    metavar="N=VALUE",
    help="The answer to N: a score from 0 to 1, a label, pass or fail. Repeatable.",
)
@click.option("--note", default="", help="Why: stored with the answers of this call.")
@options.as_json
@reports
def command(
    case: Path,
    result: Path | None,
    evidence: Path | None,
    passed: tuple[int, ...],
    failed: tuple[int, ...],
    answer_texts: tuple[str, ...],
    note: str,
    as_json: bool,
) -> int:
    """Answer a case's open questions about its latest replay yourself.

    On a terminal, you are asked every question that no person has answered. Elsewhere, use --pass, --fail and --answer
    with the numbers that `replaykit judge CASE` shows. A person's answer counts before a judge's. Exit 1 if a sentence
    fails, 5 if there is nothing to judge.

    \b
    replaykit judge review cases/billing
    replaykit judge review cases/billing --pass 1 --fail 2 --note "It blames the customer"
    replaykit judge review cases/billing --answer 3=0.8 --answer 4=billing
    """
    found = judge_options.judged_case(case)
    runs = load_judged_runs(found, result, evidence or default_evidence_path())
    checks_of(found, runs)
    if set(passed) & set(failed):
        raise UsageError(f"sentence {min(set(passed) & set(failed))} cannot both pass and fail")
    answers = dict.fromkeys(passed, "pass") | dict.fromkeys(failed, "fail") | dict(map(_parse_answer, answer_texts))
    if not answers and not sys.stdin.isatty():
        hint = "Answer with --pass N, --fail N and --answer N=VALUE; `replaykit judge CASE` lists them."
        raise UsageError("there is no terminal to ask on", hint=hint)
    if answers:
        review(found, runs, answers, note)
    else:
        _ask(found, runs)
    checks = checks_of(found, runs)
    options.show(as_json, checks, checks_text, partial(checks_json, found.id))
    return failed_if(any(check.status == "fail" and not check.kind for check in checks))


def _parse_answer(text: str) -> tuple[int, str]:
    number, equals, value = text.partition("=")
    if not equals or not number.isdecimal():
        raise click.UsageError(f"--answer {text!r}: expected N=VALUE, as in 3=0.8")
    return int(number), value


def _ask(case: ReplayCase, runs: tuple[TraceRun, ...]) -> None:
    """Each question that no person has answered, about the run it is about."""
    shown = 0
    checked = zip(required_questions(case, runs), checks_of(case, runs), strict=True)
    for number, (item, check) in enumerate(checked, 1):
        if check.by == "person":
            continue
        if item.run != shown:
            shown = item.run
            click.echo(asked_text(runs[shown - 1]), err=True)
        click.echo(f"\n{number}. {check.text}", err=True)
        answer = _ask_person(item)
        if answer == _QUIT:
            return
        if answer != _SKIP:
            note = click.prompt("why (may be empty)", default="", show_default=False, err=True)
            review(case, runs, {number: answer}, note)


def _ask_person(item: JudgedItem) -> str:
    """A person's answer to one question, or that there is none."""
    question = item.question
    if question.asks is Asks.SCORE:
        answer = click.prompt("a score from 0 to 1, or -1 to skip", type=options.NumberRange(-1, 1), err=True)
        if answer < 0:
            return _SKIP
        return str(answer)
    if question.asks is Asks.LABEL:
        labels = dict(enumerate(question.labels, 1))
        listed = ", ".join(f"{number} {label}" for number, label in labels.items())
        answer = click.prompt(f"{listed}, or 0 to skip", type=options.WholeNumber(0, len(labels)), err=True)
        return labels.get(answer, _SKIP)
    choice = click.prompt("[p]ass, [f]ail, [s]kip or [q]uit", type=options.OneOf(["p", "f", "s", "q"]), err=True)
    return {"p": "pass", "f": "fail", "s": _SKIP}.get(choice, _QUIT)
