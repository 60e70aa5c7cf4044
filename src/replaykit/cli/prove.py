"""`replaykit prove`: red with the bad candidate, green with the good one."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="prove")
@click.argument("case", type=click.Path(path_type=Path), metavar="CASE")
@click.option("--bad", metavar="CMD", required=True, help="The runner command that still has the failure.")
@click.option("--good", metavar="CMD", required=True, help="The runner command with the fix.")
@options.timeout
@options.as_json
def command(case: Path, bad: str, good: str, timeout_s: float | None, as_json: bool) -> None:
    """Prove that a case can tell a broken agent from a fixed one.

    Exit 0 when the bad candidate reproduces the failure and the good one is fixed; a case that cannot fail
    guards nothing. A candidate of the form MODULE:FUNCTION is called as a Python function.

    \b
    replaykit prove cases/search-loop --bad "python bad.py" --good "python good.py"
    """
    from replaykit.cases.case import load_case
    from replaykit.config import default_evidence_path
    from replaykit.errors import ExitCode
    from replaykit.model.result import Verdict
    from replaykit.report.replays import proof_text, results_json
    from replaykit.runners.replay import replay

    subject = load_case(case)
    results = [
        replay(subject, options.candidate_of(text), timeout_s=timeout_s, evidence=default_evidence_path())
        for text in (bad, good)
    ]
    proven = results[0].verdict is Verdict.REPRODUCED and results[1].verdict is Verdict.FIXED
    click.echo(results_json(results, passed=proven) if as_json else proof_text(*results, proven=proven))
    failed = ExitCode.CANNOT if any(r.verdict is Verdict.ERROR for r in results) else ExitCode.FAILED
    click.get_current_context().exit(ExitCode.PASSED if proven else failed)
