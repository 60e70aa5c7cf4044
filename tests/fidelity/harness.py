"""Record a failing agent, scaffold the run, replay the very same file: does the unchanged law hold?

An agent is recorded and replayed in four ways:

    agent        `rk.record` in a process that imports it, then `replaykit replay CASE --agent module:function`
    script       the same, but recorded as a script, where its classes belong to `__main__`
    program      `replaykit record -- python file` and `replaykit replay CASE -- python file`
    in_process   `rk.record`, `rk.replaying` and `rk.replay` in one process
"""

from __future__ import annotations

import ast
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fidelity.server import World, world

import replaykit as rk
from replaykit.model.result import Effect, effect_of

AGENTS = Path(__file__).parent / "agents"
ROOT = Path(__file__).parents[2]
WORKER = (sys.executable, "-m", "tests.fidelity.worker")
PYTHONPATH = os.pathsep.join([str(AGENTS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
WAYS = ("agent", "program", "in_process", "script")
NEED_A_SERVER = ("over_http",)
TIME_LIMIT_S = 120.0
MARKS = "marks"
"""The directory of the marks that agents leave, and the only one that a replay may really write to."""
LONGEST_REPLAY_S = 8.0
"""Waiting costs nothing in a replay; this is for a busy machine."""


@dataclass(frozen=True)
class Agent:
    """A failing agent of the collection, by its module and its function."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def file(self) -> Path:
        """The file it is in."""
        return AGENTS / f"{self.module}.py"


@dataclass
class Replay:
    """One replay of a recorded agent, as seen from outside."""

    verdict: str
    reason: str = ""
    branches: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    error: list[str] | None = None
    duration_s: float = 0.0


@dataclass
class Trial:
    """An agent in one way: its recording, its replays, and each breach of the law."""

    agent: Agent
    way: str
    declared: dict[str, Any] = field(default_factory=dict)
    branches: list[str] = field(default_factory=list)
    error: list[str] | None = None
    replays: list[Replay] = field(default_factory=list)
    problem: str = ""
    """Why there is nothing to judge: the recording did not fail, or a command did not work."""

    @property
    def breaches(self) -> list[str]:
        """Each breach of the law, in words; empty when it holds."""
        if self.problem:
            return [self.problem]
        found = [breach for replay in self.replays for breach in self._breaches_of(replay)]
        return list(dict.fromkeys(found))

    def _breaches_of(self, replay: Replay) -> Iterator[str]:
        if replay.live:
            yield f"ran for real: {', '.join(sorted(set(replay.live)))}"
        if replay.duration_s > LONGEST_REPLAY_S:
            yield f"took {replay.duration_s:.1f} s"
        word = _word_of(self.declared, self.way)
        if replay.verdict == "inconclusive" and word:
            if word.lower() not in replay.reason.lower():
                yield f"inconclusive, but the reason does not say {word!r}: {_short(replay.reason)}"
            return
        expected = "inconclusive" if self.way in self.declared["inconclusive"] else "reproduced"
        if replay.verdict != expected:
            yield f"{replay.verdict}, not {expected}: {_short(replay.reason)}"
        if replay.branches != self.branches:
            yield f"took {replay.branches}, recorded {self.branches}"
        elif replay.verdict == "reproduced" and replay.error != self.error:
            yield f"ended with {replay.error}, recorded {self.error}"

    @property
    def is_kept(self) -> bool:
        """True when the law holds."""
        return not self.breaches


def _word_of(declared: dict[str, Any], way: str) -> str:
    """The word of the reason for `inconclusive` in this way; empty where a replay has to tell."""
    return declared["inconclusive"].get(way) or declared["may_be_inconclusive"].get(way, "")


def collection(modules: Sequence[str] = ()) -> list[Agent]:
    """All agents of the collection, found without importing any."""
    agents = []
    for file in sorted(AGENTS.glob("*.py")):
        if modules and file.stem not in modules:
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_declared(node):
                agents.append(Agent(file.stem, node.name))
    return agents


@functools.cache
def declarations(module: str) -> dict[str, dict[str, Any]]:
    """The declarations of all agents of a module, by their names."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONDONTWRITEBYTECODE": "1"}
    printed = subprocess.run([*WORKER, "declared", module], env=env, capture_output=True, text=True, check=True)
    return dict(json.loads(printed.stdout))


def _is_declared(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = (decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "failing" for called in calls)


def tried(agent: Agent, way: str, directory: Path, times: int = 1, *, without: str = "") -> Trial:
    """Record the agent in one way, and replay it so many times; `without` patches out a safeguard."""
    if way == "in_process":
        return tried_in_process([agent], directory, times, without=without)[0]
    trial = Trial(agent, way)
    with _work(agent.module, directory) as work:
        try:
            _try_commands(trial, work, times)
        except _Failed as error:
            trial.problem = str(error)
    return _looked_at(trial)


def tried_in_process(agents: Sequence[Agent], directory: Path, times: int = 1, *, without: str = "") -> list[Trial]:
    """Record and replay agents of one module in one process, one after the other."""
    module, names = agents[0].module, [agent.name for agent in agents]
    trials = [Trial(agent, "in_process") for agent in agents]
    with _work(module, directory) as work:
        try:
            command = [*WORKER, "replay", module, ",".join(names), str(times), *([without] if without else [])]
            found = _json_of(work.run(command, "unused.marks"))
            for trial in trials:
                _read_in_process(trial, work, found[trial.agent.name])
        except _Failed as error:
            for trial in trials:
                trial.problem = str(error)
    return [_looked_at(trial) for trial in trials]


def _looked_at(trial: Trial) -> Trial:
    if not trial.problem and not trial.error:
        trial.problem = "the recording did not fail"
    return trial


@contextmanager
def _work(module: str, directory: Path) -> Iterator[_Work]:
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = directory / "server.marks"
        server = stack.enter_context(world(log)) if module in NEED_A_SERVER else None
        yield _Work(directory, server)


class _Failed(Exception):
    """A command that had to work did not."""


class _Work:
    """Runs commands in the directory of one trial."""

    def __init__(self, directory: Path, server: World | None) -> None:
        self.directory = directory
        self.server = server
        (directory / MARKS).mkdir(exist_ok=True)

    def run(self, command: Sequence[str], marks: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its whole process group is killed when it takes too long."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("REPLAYKIT_")}
        env["PYTHONPATH"] = PYTHONPATH
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env["FIDELITY_MARKS"] = str(self.directory / MARKS / marks)
        if self.server is not None:
            env["FIDELITY_SERVER"] = self.server.url
        process = subprocess.Popen(
            list(command),
            cwd=self.directory,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise _Failed(f"hung: {_short(' '.join(command[1:]))}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def marked(self, marks: str, kind: str) -> list[str]:
        """The marks of one kind that were left in a file."""
        file = self.directory / MARKS / marks
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]

    def live(self, marks: str, requests: int) -> list[str]:
        """Tools that left a mark, and so many requests that reached the server."""
        return [*self.marked(marks, "ran"), *(["a request"] * requests)]

    @property
    def requests(self) -> int:
        """The requests that have reached the server so far."""
        return 0 if self.server is None else self.server.count


REPLAYKIT = (sys.executable, "-m", "replaykit")


def _read_in_process(trial: Trial, work: _Work, found: dict[str, Any]) -> None:
    trial.declared = found["declared"]
    trial.error = found["recorded"]["error"]
    trial.branches = work.marked(f"{trial.agent.name}.recorded.marks", "took")
    for number, seen in enumerate(found["replays"]):
        replaying = _replaying_of(work, number, seen["ended"], trial)
        # Only a verdict can say that it cannot tell; what ran for real counts all the same.
        if replaying.live or not _word_of(trial.declared, trial.way):
            trial.replays.append(replaying)
        marks = f"{trial.agent.name}.replay.{number}.marks"
        trial.replays.append(_judged_of(work, marks, seen["judged"]))


def _replaying_of(work: _Work, number: int, ended: dict[str, Any], trial: Trial) -> Replay:
    """One run inside of `rk.replaying`, which gives no verdict: the recorded end is as good as `reproduced`."""
    marks = f"{trial.agent.name}.replaying.{number}.marks"
    live = work.live(marks, ended["requests"])
    return Replay(_word_for(ended, trial), str(ended), work.marked(marks, "took"), live, ended["error"])


def _word_for(ended: dict[str, Any], trial: Trial) -> str:
    is_doubtful = any(effect_of(kind) in (Effect.UNCERTAIN, Effect.INCONCLUSIVE) for kind in ended["deviations"])
    if is_doubtful and ended["error"] != trial.error:
        return "inconclusive"  # as a verdict would be
    if ended["error"] is None:
        return "fixed"
    if {"missing", "blocked", "network"} & set(ended["deviations"]):
        return "diverged"
    return "reproduced" if ended["error"] == trial.error else "broken"


def _judged_of(work: _Work, marks: str, judged: dict[str, Any]) -> Replay:
    reason = " ".join([judged["reason"], *judged["deviations"]])
    live = work.live(marks, judged["requests"])
    branches = work.marked(marks, "took")
    return Replay(judged["verdict"], reason, branches, live, judged["error"], judged["duration_s"])


def _try_commands(trial: Trial, work: _Work, times: int) -> None:
    _record(trial, work)
    trial.branches = work.marked("recorded.marks", "took")
    before = work.requests
    scaffolded = work.run([*REPLAYKIT, "scaffold", trial.agent.name, "--out", "case", "--json"], "scaffold.marks")
    if not (work.directory / "case" / "case.yaml").exists():
        raise _Failed(f"scaffold: {_short(scaffolded.stderr)}")
    if live := work.live("scaffold.marks", work.requests - before):
        raise _Failed(f"scaffold ran for real: {live}")
    for number in range(times):
        marks = f"replay.{number}.marks"
        before = work.requests
        ended = work.run([*REPLAYKIT, "replay", "case", "--json", "--allow-write", MARKS, *_candidate(trial)], marks)
        result = _result_of(ended) | {"requests": work.requests - before}
        trial.replays.append(_judged_of(work, marks, result))


def _candidate(trial: Trial) -> list[str]:
    if trial.way == "program":
        return ["--", sys.executable, str(trial.agent.file), trial.agent.name]
    return ["--agent", str(trial.agent)]


def _record(trial: Trial, work: _Work) -> None:
    agent = trial.agent
    trial.declared = declarations(agent.module)[agent.name]
    script = [sys.executable, str(agent.file), agent.name]
    if trial.way == "agent":
        work.run([*WORKER, "record", agent.module, agent.name], "recorded.marks")
    elif trial.way == "script":
        work.run([*script, "--record"], "recorded.marks", stdin=trial.declared["input"])
    else:
        command = [*REPLAYKIT, "record", "--name", agent.name, "--input", "-", "--", *script]
        work.run(command, "recorded.marks", stdin=trial.declared["input"])
    try:
        with rk.Store.open(work.directory / ".replaykit" / "store.db", read_only=True) as store:
            error = store.load(agent.name).error
    except rk.ReplayKitError as missing:
        raise _Failed(f"nothing was recorded: {missing}") from None
    trial.error = [error.type, error.message] if error else None


def _result_of(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    try:
        result = json.loads(ended.stdout)
    except ValueError:
        raise _Failed(f"replay: {_short(ended.stderr or ended.stdout)}") from None
    result = result["results"][0] if "results" in result else result
    error = (result.get("run") or {}).get("error")
    return {
        "verdict": result["verdict"],
        "duration_s": result["duration_s"],
        "reason": result.get("reason", ""),
        "deviations": [deviation["text"] for deviation in result.get("deviations", ())],
        "error": [error["type"], error["message"]] if error else None,
    }


def _json_of(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    try:
        return dict(json.loads(ended.stdout))
    except ValueError:
        raise _Failed(_short(ended.stderr or ended.stdout) or "no output") from None


def _short(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"
