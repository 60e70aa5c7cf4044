"""`rk.Pool`: replays side by side, whoever dies, hangs, prints or stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.candidates.test_agents import case_of, output
from tests.matrix import sampled

import replaykit as rk
from replaykit.cases.case import ReplayCase
from replaykit.errors import UsageError
from replaykit.programs.isolation_level import ISOLATION

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each replay gets a fresh process")
AGENT = """
import os, signal, subprocess, sys, time
from pathlib import Path

seen = []

def answer(question):
    seen.append(question)
    if question == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if question == "hang":
        time.sleep(600)
    if question == "leave":
        # It has a session of its own, and no parent that would wait for it.
        subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
    if question == "look":
        names = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                names.append((entry / "comm").read_text().strip())
        return names.count("sleep")
    if question == "write":
        Path("written").write_text("x")
    return [len(seen), os.getpid(), Path("written").exists()]
"""


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolation as a person has it."""
    if sys.platform != "linux":
        pytest.skip("only Linux offers sandboxes")
    from replaykit.isolation import Level, support

    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
    monkeypatch.delenv(ISOLATION, raising=False)


@pytest.fixture
def module(own_directory: Path) -> Path:
    file = own_directory / "pool_agent.py"
    file.write_text(AGENT)
    return file


def replayed(pool: rk.Pool, *questions: str, **settings: Any) -> list[rk.ReplayResult]:
    cases = [case_of(question, name=f"{number}-{question}") for number, question in enumerate(questions)]
    return list(pool.replay(cases, **settings))


@sampled("workers", [1, 3], count=1, start=1)
def test_results_come_in_the_order_of_the_cases(module: Path, workers: int) -> None:
    with rk.Pool("pool_agent:answer", workers=workers) as pool:
        results = replayed(pool, *"abcdefgh")

    assert [result.case_id for result in results] == [f"{number}-{name}" for number, name in enumerate("abcdefgh")]
    assert {result.verdict for result in results} == {rk.Verdict.FIXED}


@pytest.mark.usefixtures("full")
def test_each_replay_has_a_process_of_its_own_and_meets_nothing_of_another(module: Path) -> None:
    with rk.Pool("pool_agent:answer", workers=1) as pool:
        first, second, third = map(output, replayed(pool, "write", "b", "c"))

    assert [first[0], second[0], third[0]] == [1, 1, 1]
    assert [first[2], second[2], third[2]] == [True, False, False]
    assert not Path("written").exists()


@pytest.mark.usefixtures("full")
def test_a_worker_that_is_reused_makes_one_replay_after_the_other(module: Path) -> None:
    with rk.Pool("pool_agent:answer", workers=1, reuse=True) as pool:
        results = replayed(pool, "write", "b", "c")

    first, second, third = map(output, results)
    assert [first[0], second[0], third[0]] == [1, 2, 3]
    assert first[1] == second[1] == third[1]
    assert not Path("written").exists()  # the sandbox is shut all the same
    assert [first[2], second[2], third[2]] == [True, True, True]
    assert {result.isolation.level.value for result in results} == {"full"}
    written = [[Path(file.path).name for file in result.isolation.written] for result in results]
    assert [names.count("written") for names in written] == [1, 0, 0]


@LINUX
@sampled("reuse", [False, True], count=1)
def test_a_worker_that_dies_costs_its_case_the_verdict_and_no_other(module: Path, reuse: bool) -> None:
    with rk.Pool("pool_agent:answer", workers=2, reuse=reuse) as pool:
        results = replayed(pool, "a", "die", "b", "die", "c", "d")

    assert [result.verdict.value for result in results] == [
        "fixed",
        "inconclusive",
        "fixed",
        "inconclusive",
        "fixed",
        "fixed",
    ]
    assert "the agent's process died while it ran this case: signal 9" in results[1].reason


@LINUX
@sampled("reuse", [False, True], count=1, start=1)
def test_a_replay_that_hangs_ends_at_its_time_limit_and_the_next_one_runs(module: Path, reuse: bool) -> None:
    hanging = case_of("hang", name="hang", timeout_s=1)
    with rk.Pool("pool_agent:answer", workers=1, reuse=reuse) as pool:
        late, fine = pool.replay([hanging, case_of("a", name="a")])

    assert late.run is not None
    assert late.run.status == "timeout"
    assert fine.verdict is rk.Verdict.FIXED
    assert output(fine)[0] == 1


@pytest.mark.usefixtures("full")
def test_what_a_replay_leaves_behind_is_gone_when_the_next_one_begins(module: Path) -> None:
    with rk.Pool("pool_agent:answer", workers=1) as pool:
        _, count = replayed(pool, "leave", "look")

    assert output(count) == 0


@LINUX
def test_an_agent_whose_import_starts_a_process_is_imported_for_each_case(module: Path) -> None:
    # As a library in C starts one: nothing of Python hears of it.
    text = (
        'import ctypes, os\nchild = ctypes.CDLL(None).fork()\nif not child:\n    os.execvp("sleep", ["sleep", "600"])\n'
    )
    module.write_text(text + AGENT.replace("return [len(seen)", "return [os.kill(child, 0), len(seen)"))

    with rk.Pool("pool_agent:answer", workers=1) as pool:
        results = replayed(pool, "a", "b")

    assert [result.verdict.value for result in results] == ["fixed", "fixed"]
    assert [output(result)[:2] for result in results] == [[None, 1], [None, 1]]  # it is there each time


def test_cases_are_taken_as_they_are_needed(module: Path) -> None:
    taken = []

    def cases() -> Iterator[ReplayCase]:
        for number in range(10_000):
            taken.append(number)
            yield case_of("a", name=f"case-{number}")

    with rk.Pool("pool_agent:answer", workers=2) as pool:
        results = pool.replay(cases())
        first = next(results)
        results.close()  # type: ignore[attr-defined]

    assert first.case_id == "case-0"
    assert len(taken) < 200


def test_an_exception_in_the_block_ends_all_processes(module: Path) -> None:
    with pytest.raises(KeyboardInterrupt), rk.Pool("pool_agent:answer", workers=2) as pool:
        for result in pool.replay([case_of(name, name=name) for name in "abcdef"]):
            pid = output(result)[1]
            raise KeyboardInterrupt

    assert pid > 0
    assert not children()


INTERRUPTED = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
import replaykit as rk
from tests.candidates.test_agents import case_of

with rk.Pool("pool_agent:answer", workers=2) as pool:
    for result in pool.replay([case_of(name, name=name) for name in ("a", "hang", "hang2", "hang")]):
        print(result.case_id, flush=True)
"""


@LINUX
def test_ctrl_c_ends_everything(module: Path) -> None:
    module.write_text(AGENT.replace('== "hang"', "!= 'a'"))
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    workers = descendants(process.pid)

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert workers
    assert process.returncode != 0
    assert not [pid for pid in workers if is_running(pid)]


def children() -> list[int]:
    """The child processes of this one that have not ended, without the one that other tests fork commands from."""
    lines = {pid: command_line(pid) for pid in descendants(os.getpid())}
    return [pid for pid, line in lines.items() if "replaykit" in line and "forkserver" not in line]


def descendants(parent: int) -> list[int]:
    found: list[int] = []
    waiting = [parent]
    while waiting and sys.platform == "linux":
        pid = waiting.pop()
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
                waiting += map(int, (thread / "children").read_text().split())
        found.append(pid)
    return found[1:]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    return bool(command_line(pid))


def test_the_pool_takes_a_function_of_a_module(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(module.parent))
    monkeypatch.chdir("/")
    import pool_agent  # type: ignore[import-not-found]

    with rk.Pool(pool_agent.answer, workers=1) as pool:
        (result,) = replayed(pool, "a")

    assert result.candidate == "pool_agent:answer"
    assert result.verdict is rk.Verdict.FIXED
    monkeypatch.delitem(sys.modules, "pool_agent")


def test_the_pool_takes_a_function_of_a_package(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = own_directory / "elsewhere" / "pool_package" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("def answer(question):\n    return question\n")
    monkeypatch.syspath_prepend(str(package.parents[1]))
    from pool_package import inner  # type: ignore[import-not-found]

    with rk.Pool(inner.answer, workers=1) as pool:
        (result,) = replayed(pool, "a")

    assert output(result) == "a"
    for name in ("pool_package", "pool_package.inner"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("agent", [lambda question: question, case_of("x").__class__.__init__, threading.Lock().locked])
def test_a_function_that_no_other_process_can_import_is_refused(agent: Any) -> None:
    with pytest.raises(UsageError, match="no other process can import"):
        rk.Pool(agent)


def test_workers_are_at_least_one() -> None:
    with pytest.raises(UsageError, match="workers is 0"):
        rk.Pool("pool_agent:answer", workers=0)


def test_a_candidate_that_is_no_python_agent_cannot_be_reused() -> None:
    class Other:
        label = "other"

        def run(self, case: Any, workspace: Any, timeout_s: Any) -> Any:
            raise AssertionError("it is never run")

    with pytest.raises(UsageError, match="reuse is for agents in Python"):
        rk.Pool(Other(), reuse=True)


def test_evidence_is_left_where_it_is_named(module: Path) -> None:
    with rk.Pool("pool_agent:answer", workers=2) as pool:
        results = replayed(pool, "a", "b", evidence="kept")

    assert sorted(str(result.directory) for result in results) == sorted(map(str, Path("kept").iterdir()))
    assert all(Path(str(result.directory), "result.json").is_file() for result in results)


def test_a_pool_takes_files_of_cases_as_well(make_case: Any, frozen: Any) -> None:
    Path("tool_agent.py").write_text(
        textwrap.dedent("""
            import replaykit as rk
            @rk.tool
            def lookup(order):
                raise RuntimeError("a replay must serve this call")
            def answer(question):
                return lookup(order=7)
        """)
    )
    directories = [make_case(name, calls=[frozen(0, "lookup", "shipped", order=7)]) for name in ("a", "b")]

    with rk.Pool("tool_agent:answer", workers=2) as pool:
        results = list(pool.replay(directories))

    assert [result.case_id for result in results] == ["a", "b"]
    assert [output(result) for result in results] == ["shipped", "shipped"]


VALUES = ["from __future__ import annotations", "import msgspec", "class Part0(msgspec.Struct): pass"]
for _number in range(1, 60):
    VALUES.append(f"class Part{_number}(msgspec.Struct):")
    VALUES.append(f"    below: list[Part{_number - 1}] = []")
    VALUES.append(f"    more: dict[str, Part{_number - 1}] = {{}}")
READ_AT_ONCE = """
import sys, threading
import msgspec
import replaykit as rk
import values

class Nothing:
    label = "nothing"
    def run(self, case, workspace, timeout_s):
        raise AssertionError

barrier = threading.Barrier(4)

def read(_):
    barrier.wait()
    text = b'{"below": [{"below": [{"more": {}}]}], "more": {"x": {}}}'
    return len(msgspec.json.decode(text, type=values.Part59).below)

sys.setswitchinterval(1e-6)
with rk.Pool(Nothing(), workers=4) as pool:
    assert list(pool.run(range(4), read)) == [1] * 4
"""


@pytest.mark.parametrize("attempt", range(3))
def test_threads_of_a_pool_read_values_of_one_class_at_once(own_directory: Path, attempt: int) -> None:
    source = Path(__file__).parents[2] / "src"
    Path("values.py").write_text("\n".join(VALUES))

    done = subprocess.run(
        [sys.executable, "-c", READ_AT_ONCE], env={**os.environ, "PYTHONPATH": str(source)}, check=False
    )

    assert done.returncode == 0
