"""Nothing runs outside of the tape: other processes, foreign threads, tasks without the scope, and chance.

The agents stand in `outside_agents/strays.py`, which records all of them once. Each leaves a line in a file when one of
its tools is really called.
"""

from __future__ import annotations

import contextvars
import os
import random
import secrets
import shutil
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worker_protocol import WorkerJob
from replaykit.candidates.workers import WorkerCandidate
from replaykit.model.result import ReplayResult
from replaykit.model.run import TraceRun
from replaykit.report.runs import run_text

PLACE = Path(__file__).parent / "outside_agents"
EFFECTS = "REPLAYKIT_TEST_EFFECTS"

sys.path.insert(0, str(PLACE))
import strays  # noqa: E402 (found by its name alone, as the processes it starts find it)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


IN_WORKERS = ("forked_executor", "spawned_processes", "forkserver_executor", "ids")
ELSEWHERE = "function_in_a_context_of_its_own"


@pytest.fixture(scope="module")
def recordings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store with a run of each agent that the tests of this file ask for, recorded in one process."""
    tests = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    params = [test.callspec.params for test in tests]
    asked_for = {getattr(agent, "__name__", agent) for each in params if (agent := each.get("agent"))}
    names = [agent.__name__ for agent in (*strays.AGENTS, *strays.INCONCLUSIVE)]
    wanted = [name for name in names if name in {*asked_for, *IN_WORKERS, ELSEWHERE}]
    directory = tmp_path_factory.mktemp("recorded")
    environment = {**os.environ, EFFECTS: str(directory / "effects")}
    environment.pop("PYTHONHASHSEED", None)
    command = [sys.executable, str(PLACE / "strays.py"), *wanted]
    subprocess.run(command, cwd=directory, env=environment, check=True, timeout=600)
    return directory / ".replaykit" / "store.db"


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that gets a line when a tool is really called, in a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PLACE))
    monkeypatch.setenv(EFFECTS, str(tmp_path / "effects"))
    return tmp_path / "effects"


def recorded(store: Path, name: str) -> TraceRun:
    with rk.Store.open(store, read_only=True) as runs:
        return runs.load(name)


def replayed(run: TraceRun, candidate: object) -> ReplayResult:
    rk.scaffold(run, "case", redact=False)
    return rk.replay("case", candidate)  # type: ignore[arg-type]


def names_of_calls(run: TraceRun | None) -> list[str]:
    assert run is not None
    return sorted(call.name for call in run.calls)


@sampled("agent", [agent.__name__ for agent in strays.AGENTS], count=1)
def test_the_unchanged_agent_fails_again_and_nothing_is_really_done(
    agent: str, recordings: Path, effects: Path
) -> None:
    run = recorded(recordings, agent)

    result = replayed(run, PythonCandidate(f"strays:{agent}"))

    assert result.verdict is rk.Verdict.REPRODUCED, result.reason
    assert names_of_calls(result.run) == names_of_calls(run)
    assert names_of_calls(run), "the recording has lost the agent's calls"
    doubts = ("undecided", "unordered")
    assert [deviation.text for deviation in result.deviations if deviation.kind not in doubts] == []
    assert not effects.exists()


@sampled(
    "agent",
    ["spawned_executor", "forks", "python_children", "worker_thread", "ids", "numpy_generators"],
    count=2,
    start=1,
)
@pytest.mark.exhaustive
def test_the_program_around_the_agent_fails_again_as_well(agent: str, recordings: Path, effects: Path) -> None:
    command = f"{sys.executable} {PLACE / 'strays.py'} {agent}"

    result = replayed(recorded(recordings, agent), CommandCandidate(command))

    assert result.verdict is rk.Verdict.REPRODUCED, result.reason
    assert not effects.exists()


@sampled(
    "agent",
    [strays.forked_executor, strays.spawned_executor, strays.tasks_with_a_context_of_their_own, strays.ids],
    count=2,
    start=1,
)
def test_rk_replaying_serves_them_too(agent: Callable[[str], None], recordings: Path, effects: Path) -> None:
    run = recorded(recordings, agent.__name__)
    assert run.error is not None

    with rk.replaying(rk.Tape.of(run)) as replayer, pytest.raises(strays.Wrong) as failure:
        agent("x")

    assert str(failure.value) == run.error.message
    assert names_of_calls(run) == sorted(event.name for event in replayer.events())  # type: ignore[union-attr]
    assert replayer.all_deviations() == []
    assert not effects.exists()


@pytest.mark.exhaustive
def test_workers_that_run_case_after_case_serve_them_too(recordings: Path, effects: Path) -> None:
    for agent in IN_WORKERS:
        run = recorded(recordings, agent)
        rk.scaffold(run, agent, redact=False)
        with WorkerCandidate(WorkerJob(spec=f"strays:{agent}", sort="python")) as candidate:
            results = [rk.replay(agent, candidate) for _ in range(2)]

        assert [result.reproduced for result in results] == [True, True], results[-1].reason
        assert all(names_of_calls(result.run) == names_of_calls(run) for result in results)
    assert not effects.exists()


@pytest.mark.parametrize("agent", [agent.__name__ for agent in strays.INCONCLUSIVE])
def test_what_cannot_be_held_is_no_verdict_about_the_agent(agent: str, recordings: Path, effects: Path) -> None:
    result = replayed(recorded(recordings, agent), PythonCandidate(f"strays:{agent}"))

    assert [deviation.kind for deviation in result.deviations if deviation.kind != "unused"] == ["chance"]
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert not effects.exists()


def test_the_order_of_sets_is_held_where_it_was_set(effects: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7", EFFECTS: "recorded"}
    command = [sys.executable, str(PLACE / "strays.py"), "order_of_a_set"]
    subprocess.run(command, env=environment, capture_output=True)

    run = recorded(tmp_path / ".replaykit" / "store.db", "order_of_a_set")
    result = replayed(run, PythonCandidate("strays:order_of_a_set"))

    assert result.verdict is rk.Verdict.REPRODUCED, result.reason
    assert not effects.exists()


@sampled("agent", [agent.__name__ for agent in strays.EDITED], count=2)
def test_an_unrecorded_call_elsewhere_is_stopped_counted_and_never_green(
    agent: str, recordings: Path, effects: Path
) -> None:
    result = replayed(recorded(recordings, ELSEWHERE), PythonCandidate(f"strays:{agent}"))

    assert result.verdict is rk.Verdict.DIVERGED
    assert "missing" in {deviation.kind for deviation in result.deviations}
    assert names_of_calls(result.run) == ["draw", "send"]
    assert not effects.exists()


def test_a_connection_of_a_child_process_is_stopped_and_named(recordings: Path, effects: Path) -> None:
    run = recorded(recordings, ELSEWHERE)

    result = replayed(run, PythonCandidate("strays:edited_connection"))

    assert result.verdict is rk.Verdict.DIVERGED
    stopped = [deviation.text for deviation in result.deviations if deviation.kind == "network"]
    assert len(stopped) == 1
    assert "127.0.0.1:9" in stopped[0]
    assert "python" in stopped[0]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_program_in_another_language_reaches_nobody_and_is_named(recordings: Path, effects: Path) -> None:
    run = recorded(recordings, ELSEWHERE)

    result = replayed(run, PythonCandidate("strays:edited_program"))

    stopped = [deviation.text for deviation in result.deviations if deviation.kind == "network"]
    assert stopped == ["a live connection to shop.example was stopped: the program 'curl#0' tried"]
    assert result.verdict is rk.Verdict.DIVERGED


def test_a_process_that_is_started_while_the_agent_is_imported_is_part_of_the_replay(
    recordings: Path, effects: Path, tmp_path: Path
) -> None:
    (tmp_path / "early.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.run([sys.executable, '-c', 'import strays; strays.write_quietly(1)'])\n"
        "def run(question): return 'all is well'\n"
    )
    run = recorded(recordings, ELSEWHERE)

    result = replayed(run, PythonCandidate("early:run"))

    assert names_of_calls(result.run) == ["draw", "send"]
    assert "missing" in {deviation.kind for deviation in result.deviations}
    assert result.verdict is rk.Verdict.DIVERGED
    assert not effects.exists()


def test_a_run_of_several_processes_says_which_of_them_made_a_call(recordings: Path) -> None:
    paths = {call.path for call in recorded(recordings, "forked_executor").calls}

    assert len(paths) == 4
    assert all(path.startswith("/!~") for path in paths)


def test_a_program_that_seeds_random_itself_draws_the_same_in_every_recording(tmp_path: Path) -> None:
    drawn = []
    for _ in range(2):
        random.seed(42)
        before = random.getstate()
        with rk.record("seeded", store=tmp_path / "store.db"):
            drawn.append(random.random())
        assert random.getstate() == before

    assert drawn[0] != drawn[1], "each run of a process draws for itself"
    code = "import random, replaykit as rk\nrandom.seed(42)\nwith rk.record('r'): print(random.random())"
    runs = [subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != b""


def test_runs_that_draw_nothing_have_no_seed_and_no_two_runs_draw_the_same_ids(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with rk.record("plain", store=store):
        pass
    drawn = set()
    for _ in range(2):
        with rk.record("ids", store=store):
            drawn.add(uuid.uuid4())

    assert recorded(store, "plain").chance.seed == ""
    assert recorded(store, "ids").chance.seed.startswith(recorded(store, "ids").id)
    assert len(drawn) == 2


def test_a_number_that_came_from_the_hash_of_a_text_is_known_to_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    before = hash
    with rk.Store.open(tmp_path / "store.db") as store:
        with rk.record("agent", store=store) as run:
            hash(3.5)
        with rk.record("agent", store=store) as sharded:
            hash("customer 4711")
        runs = [store.load(run.id), store.load(sharded.id)]

    assert [run.chance.not_held for run in runs] == [(), ("hashes",)]
    assert "what `hash` gave is not held" in run_text(runs[1])
    assert hash is before


def test_secrets_stay_secret_in_a_recording(tmp_path: Path) -> None:
    with rk.record("keys", store=tmp_path / "store.db"):
        state = random.getstate()
        key = secrets.token_hex(16)
        random.setstate(state)
        assert secrets.token_hex(16) != key

    run = recorded(tmp_path / "store.db", "keys")
    assert run.chance.not_held == ("secrets",)
    assert "what `secrets` and `os.urandom` gave is not held" in run_text(run)
    assert key not in str(run)


def test_of_two_runs_at_once_the_second_says_that_chance_is_not_held(tmp_path: Path) -> None:
    store = tmp_path / "store.db"

    def second() -> None:
        with rk.record("second", store=store):
            random.random()

    thread = threading.Thread(target=lambda: contextvars.Context().run(second))
    begun = threading.Event()

    def first() -> None:
        with rk.record("first", store=store):
            random.random()
            begun.set()
            gate.wait(5)

    gate = threading.Event()
    holder = threading.Thread(target=first)
    holder.start()
    begun.wait(5)
    thread.start()
    thread.join(5)
    gate.set()
    holder.join(5)

    assert recorded(store, "first").chance.seed
    assert recorded(store, "second").chance.seed == ""
    assert recorded(store, "second").chance.not_held == ("random",)


def test_where_several_replays_are_under_way_a_foreign_call_is_stopped_and_named() -> None:
    done: list[object] = []

    @rk.tool
    def charge() -> None:
        done.append("charged")

    with rk.replaying(rk.Tape([])) as first:
        foreign = threading.Event()
        entered = threading.Event()

        def second() -> None:
            with rk.replaying(rk.Tape([])):
                entered.set()
                foreign.wait(5)

        def call() -> None:
            try:
                charge()
            except rk.Divergence as error:
                done.append(error.message)

        thread = threading.Thread(target=second)
        contextvars.Context().run(thread.start)
        entered.wait(5)
        contextvars.Context().run(call)
        foreign.set()
        thread.join(5)

    assert [deviation.kind for deviation in first.deviations] == ["outside"]
    assert "`charge` was called outside of the run" in first.deviations[0].text
    assert done == [first.deviations[0].text]


def test_a_recording_warns_of_arguments_in_the_order_of_a_set(tmp_path: Path) -> None:
    code = """
        import os, replaykit as rk
        @rk.tool
        def send(what): pass
        with rk.record("sets"):
            for number in range(20):
                send(what=list({f"{number} {word}" for word in "abcdefgh"}))
            send(what=list("abcdefgh"))
    """
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-c", textwrap.dedent(code)]

    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert ended.stderr.count("`send` was called with `what` in the order of a set") == 1
    assert recorded(tmp_path / ".replaykit" / "store.db", "sets").chance.not_held == ("sets",)
    held = subprocess.run(command, cwd=tmp_path, env={**environment, "PYTHONHASHSEED": "3"}, capture_output=True)
    assert held.stderr == b""
