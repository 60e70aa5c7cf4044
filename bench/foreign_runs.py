"""Import every failed run of tau-bench and tau2, make a case of it, and replay the recorded calls against that case.

    python bench/foreign_runs.py CORPORA

CORPORA is a directory with `tau-bench/*.json` and `tau2/*.json`, or the same packed as `.zst`. Each case has to end as
`reproduced` for two agents: one whose tools return errors as text, and one whose tools raise them. Both make the
recorded calls through `@rk.tool` functions with defaults that the trace does not mention. A call that gets another
answer than the fixture holds, or that the manifest counts as replayable and a replay does not serve, is a failure
too. The exit code is 1 for any of these.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import replaykit as rk
from replaykit.candidates.inprocess import RecordedCandidate
from replaykit.cases.fixtures import read_fixtures
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.files import import_trace
from replaykit.model.events import Call
from replaykit.model.matching import ToolErrors
from replaykit.model.result import Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.tool_errors import EVERY_TOOL

CORPORA = ("tau-bench", "tau2")
UNSERVED = ("missing", "unanswerable", "blocked", "ambiguous", "unused")


class ScriptedAgent:
    """Makes the tool calls of a run again, through functions that never run, and gives the recorded answer."""

    def __init__(self, run: TraceRun, fixtures: dict[int, Call], style: ToolErrors) -> None:
        self._run = run
        self._fixtures = fixtures
        self._style = style
        self._tools = {name: tool_function(name, run) for name in {call.name for call in run.tool_calls}}
        self.problems: list[str] = []

    def __call__(self, _question: Any) -> Any:
        for call in self._run.tool_calls:
            told = self._told(call.name, call.arguments)
            expected = self._expected(call.seq)
            if told != expected:
                self.problems.append(f"{call.name}: expected {str(expected)[:80]!r}, got {str(told)[:80]!r}")
        return self._run.output

    def _expected(self, seq: int) -> Any:
        """What the case's fixture holds; that differs from the trace in what was redacted."""
        call = self._fixtures[seq]
        if call.error is not None and self._style is ToolErrors.RAISED:
            return call.error.message
        return call.result

    def _told(self, name: str, arguments: dict[str, Any]) -> Any:
        if self._style is ToolErrors.RETURNED:
            return self._tools[name](**arguments)
        try:
            return self._tools[name](**arguments)
        except rk.ToolError as error:
            return str(error)


def tool_function(name: str, run: TraceRun) -> Callable[..., Any]:
    """A tool whose optional parameters are those that some recorded call leaves out, and one that none mentions."""

    def body(**_arguments: Any) -> Any:
        raise AssertionError(f"{name} was done for real")

    calls = [call.arguments for call in run.tool_calls if call.name == name]
    names = dict.fromkeys(key for arguments in calls for key in arguments)
    required = [key for key in names if all(key in arguments for arguments in calls)]
    optional = [*(key for key in names if key not in required), "replaykit_verbose"]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(key, kind) for key in required]
    parameters += [inspect.Parameter(key, kind, default=None) for key in optional]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return rk.tool(name=name)(body)


def check(run: TraceRun, directory: Path) -> Iterator[tuple[str, str]]:
    """Each thing that was tried with the case of a run, and what is wrong with it; nothing where it went well."""
    case = rk.scaffold(run, directory)
    if not run.tool_calls:
        # Agents here ask no model, so they use nothing of a tape that holds only model calls.
        case = msgspec.structs.replace(case, rests_on_output=True)
    yield "manifest", manifest_problem(run, case, directory)
    fixtures = {call.seq: call for call in read_fixtures(directory)}
    for style in ToolErrors:
        agent = ScriptedAgent(run, fixtures, style)
        result = rk.replay(with_style(case, style), agent)
        wrong = "" if result.verdict is Verdict.REPRODUCED else f"{result.verdict}: {result.reason}"
        yield style, "; ".join(filter(None, (wrong, *agent.problems[:3])))


def with_style(case: rk.ReplayCase, style: ToolErrors) -> rk.ReplayCase:
    """The case with `tool_errors: STYLE`."""
    scenario = msgspec.structs.replace(case.scenario, tool_errors=((EVERY_TOOL, style),))
    return msgspec.structs.replace(case, scenario=scenario)


def manifest_problem(run: TraceRun, case: rk.ReplayCase, directory: Path) -> str:
    """How the manifest differs from what a replay of the recorded calls serves."""
    manifest = replayability(run)
    unanswered = sum(Lack.RESULT in one.lacks for one in manifest.lacking)
    attempt = RecordedCandidate(run).run(case, directory, timeout_s=60)
    unserved = [one for one in attempt.deviations if one.kind in UNSERVED]
    if len(unserved) == unanswered:
        return ""
    return f"the manifest lacks {unanswered} answers, a replay {len(unserved)}: {unserved[:2]}"


def failed_runs(corpora: Path) -> Iterator[tuple[str, TraceRun]]:
    for corpus in CORPORA:
        for file in sorted((corpora / corpus).glob("*.json*")):
            try:
                runs = import_trace(file).runs
            except rk.ReplayKitError as error:
                print(f"  {file.name}: {error.message}")
                continue
            yield from ((corpus, run) for run in runs if run.status is not RunStatus.SUCCESS)


def main(arguments: list[str]) -> int:
    corpora = Path(arguments[0]) if arguments else Path()
    if not arguments or not any((corpora / name).is_dir() for name in CORPORA):
        print(f"skipped: give a directory that holds {' or '.join(CORPORA)}")
        return 0
    counts: Counter[tuple[str, str]] = Counter()
    failures = 0
    for corpus, run in failed_runs(corpora):
        counts[corpus, "runs"] += 1
        counts[corpus, "tool calls"] += len(run.tool_calls)
        counts[corpus, "failed tool calls"] += sum(call.error is not None for call in run.tool_calls)
        with tempfile.TemporaryDirectory() as directory:
            for name, problem in check(run, Path(directory) / "case"):
                counts[corpus, name] += not problem
                failures += bool(problem)
                if problem:
                    print(f"  {corpus} {run.name}, {name}: {problem}")
    for corpus in CORPORA:
        row = {name: count for (of, name), count in counts.items() if of == corpus}
        print(f"{corpus}: " + ", ".join(f"{name} {count}" for name, count in row.items()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
