"""`replaykit prove`: red with the bad candidate, green with the good one."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import candidates, options


@click.command(name="prove")
@click.argument("case", type=click.Path(path_type=Path), metavar="CASE")
@options.config
@click.option("--bad", metavar="CMD", required=True, help="The runner command that still has the failure.")
@click.option("--good", metavar="CMD", help="The runner command with the fix.  [default: the configuration's agent]")
@options.timeout
@options.as_json
def command(
    case: Path, config: Path | None, bad: str, good: str | None, timeout_s: float | None, as_json: bool
) -> None:
    """Prove that a case can tell a broken agent from a fixed one.

    Exit 0 when the bad candidate reproduces the failure and the good one is fixed; a case that cannot fail
    guards nothing. Of a session, the bad one must break its contract on the tape. A candidate of the form
    MODULE:FUNCTION is called as a Python function.

    \b
    replaykit prove cases/search-loop --bad "python bad.py" --good "python good.py"
    replaykit prove replays/incident_001.yaml -c replaykit.yaml --bad old_agent:answer
    """
    from replaykit.checks.verdict import is_red
    from replaykit.config import default_evidence_path
    from replaykit.errors import ExitCode, UsageError, gravest
    from replaykit.model.result import Verdict
    from replaykit.project.subjects import find_subjects
    from replaykit.report.replays import proof_text, results_json
    from replaykit.runners.replay import replay

    project = options.project_of(config)
    subjects = find_subjects(project, [case])
    options.tell_notices(subjects)
    if len(subjects.all) != 1:
        raise UsageError(f"{case} holds {len(subjects.all)} cases", hint="Prove them one by one.")
    if good is None and (project is None or project.agent is None):
        raise UsageError("no candidate with the fix", hint="Name it: --good CMD; or an `agent:` in replaykit.yaml")
    fixed, _ = (
        (candidates.candidate_of(good), 1)
        if good is not None
        else candidates.candidate_and_jobs(None, None, None, jobs=1, project=project)
    )
    results = [
        replay(subjects.cases[0], candidate, timeout_s=timeout_s, evidence=default_evidence_path())
        for candidate in (candidates.candidate_of(bad), fixed)
    ]
    wanted = is_red(results[0]), results[1].verdict is Verdict.FIXED
    proven = all(wanted)
    signed = bool(subjects.cases[0].observed)
    told = results_json(results, passed=proven) if as_json else proof_text(*results, proven=proven, signed=signed)
    click.echo(told)
    unknown = {Verdict.ERROR: ExitCode.CANNOT}
    amiss = (result for result, is_so in zip(results, wanted, strict=True) if not is_so)
    click.get_current_context().exit(gravest(unknown.get(result.verdict, ExitCode.FAILED) for result in amiss))
