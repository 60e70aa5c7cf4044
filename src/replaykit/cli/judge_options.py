"""Who judges, and what: the options of the verbs that ask judges or people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replaykit.cases.case import CASE_FILE, load_case
from replaykit.cli import options
from replaykit.cli.options import project_of
from replaykit.cli.plugins import load_plugins
from replaykit.errors import UsageError
from replaykit.judges.judgement_store import ProjectAnswers
from replaykit.trials.case_judgements import judge_of

judged_result = options.combined(
    options.evidence,
    click.option(
        "--result-file",
        "result",
        type=options.PATH,
        metavar="PATH",
        help="A replay's result.json, or its directory.  [default: the newest replay of the case]",
    ),
)
"""Which replay of a case is judged."""


asking_judge = options.combined(
    click.option(
        "--judge",
        "judge_spec",
        metavar="JUDGE",
        help="With --ask-judge: openai:MODEL, anthropic:MODEL or python:MODULE:FUNCTION.  [default: the project's]",
    ),
    options.flag("--ask-judge", help="Ask the judge the open questions, and store its answers."),
)
"""Who answers the `judge.…` assertions of a contract, where nobody has."""


def answers_of(project: Any, command: str, *, ask: bool, spec: str | None) -> Any:
    """Return the stored judgements of runs without a case; with `ask` judges are asked as well."""
    if spec is not None and not ask:
        raise UsageError("--judge needs --ask-judge", hint="Without it no judge is asked.")
    judge = _judge(spec, project) if ask else None
    return ProjectAnswers(Path() if project is None else project.directory, command, judge)


def judged_case(path: Path) -> Any:
    """The case or the session that is judged."""
    load_plugins()
    if path.is_dir() or path.name == CASE_FILE or not path.is_file():
        return load_case(path)
    from replaykit.project.case_selection import load_case_or_session

    return load_case_or_session(path)


def chosen_judge(spec: str | None, config: Path | None) -> Any:
    """The judge that is named, or else the project's own. No case ever names one."""
    return _judge(spec, None if spec is not None else project_of(config))


def _judge(spec: str | None, project: Any) -> Any:
    if spec is not None:
        return judge_of(spec)
    if project is None or project.judge is None:
        where = "no judge to ask" if project is None else f"{project.file} names no judge"
        raise UsageError(where, hint="Name one: --judge openai:MODEL, or `judge:` in replaykit.yaml")
    return judge_of(project.judge.use, project.judge.parameters)
