"""Candidates in their sandboxes: what they may do, what is stopped and named, and what becomes of what they write."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.candidates.consent import consent_of
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worker_protocol import WorkerJob
from replaykit.candidates.workers import WorkerCandidate
from replaykit.cases.case import ReplayCase, load_case
from replaykit.cli import run
from replaykit.errors import UsageError
from replaykit.isolation import Level, support
from replaykit.isolation.copies import MAX_BYTES
from replaykit.model.isolation import Consent, IsolationLevel
from replaykit.model.result import ReplayResult, Verdict
from replaykit.programs.isolation_level import ISOLATION

KINDS = ("agent", "runner", "program", "worker")
"""The kinds of candidates that run in processes of their own."""

PREFIX = """\
import os, socket, sys
from pathlib import Path
import replaykit as rk

@rk.tool
def lookup(user: str) -> dict:
    raise RuntimeError("never for real")

def agent(question):
    lookup(user="u1")
"""
"""The beginning of every agent here: its tool is on the tape, and fails there."""


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
    monkeypatch.delenv(ISOLATION, raising=False)


class Tried:
    """An agent with a case, to be replayed as any kind of candidate."""

    def __init__(self, case: ReplayCase) -> None:
        self._case = case

    def replay(self, kind: str, **consent: Any) -> ReplayResult:
        scenario = msgspec.structs.replace(self._case.scenario, consent=Consent(**consent))
        case = msgspec.structs.replace(self._case, scenario=scenario)
        with contextlib.ExitStack() as stack:
            return rk.replay(case, _candidate(kind, stack))


def _candidate(kind: str, stack: contextlib.ExitStack) -> Any:
    program = [sys.executable, "agent_here.py"]
    if kind == "agent":
        return PythonCandidate("agent_here:agent")
    if kind == "runner":
        return CommandCandidate(shlex.join(program))
    if kind == "program":
        return CommandCandidate(program)
    return stack.enter_context(
        WorkerCandidate(WorkerJob(spec="agent_here:agent", sort="python", directories=(os.getcwd(),)))
    )


@pytest.fixture
def tried(make_case: Callable[..., Path], frozen: Callable[..., Any]) -> Callable[[str], Tried]:
    """Write an agent that calls its tool and then does this; its case wants an answer."""

    def write(code: str) -> Tried:
        body = "".join(f"    {line}\n" for line in code.strip().splitlines())
        main = '\nif __name__ == "__main__":\n    print(agent("q"))\n'
        Path("agent_here.py").write_text(PREFIX + body + main)
        directory = make_case(
            calls=[frozen(1, "lookup", {"plan": "free"}, user="u1")],
            observed=[{"status_is": "error"}],
            desired=[{"status_is": "success"}],
        )
        return Tried(load_case(directory))

    return write


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """A server of somebody else on this machine, and who came to it."""
    visits: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    visits.append("came")
                    connection.sendall(b"hello")
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], visits
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


@sampled("kind", KINDS, count=1, start=0)
def test_what_a_candidate_writes_is_listed_and_the_real_files_stay_as_they_are(
    kind: str, tried: Callable[[str], Tried]
) -> None:
    Path("data.txt").write_text("real")

    result = tried('Path("data.txt").write_text("mine")\nPath("new.txt").write_text("x")\nreturn "done"').replay(kind)

    assert (result.verdict, result.isolation.level) == (Verdict.FIXED, IsolationLevel.FULL)
    changes = {Path(file.path).name: file.change for file in result.isolation.written}
    assert changes == {"data.txt": "changed", "new.txt": "created"}
    assert result.isolation.written_count == 2
    assert Path("data.txt").read_text() == "real"
    assert not Path("new.txt").exists()


@sampled("kind", KINDS, count=1, start=1)
def test_a_program_that_passes_every_guard_inside_python_is_stopped_and_named(
    kind: str, tried: Callable[[str], Tried], server: tuple[int, list[str]]
) -> None:
    port, visits = server
    reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).recv(5)"
    code = f'os.system("{sys.executable} -E -S -c \\"{reach}\\" 2>/dev/null")\nreturn "done"'

    result = tried(code).replay(kind)

    assert result.verdict is Verdict.DIVERGED
    assert visits == []
    assert [(access.channel, access.target) for access in result.isolation.stopped] == [("tcp", f"127.0.0.1:{port}")]
    assert f"127.0.0.1:{port}" in result.reason
    assert "-E -S" in result.reason


@sampled("kind", KINDS, count=1, start=2)
def test_an_address_that_the_person_allows_is_reached(
    kind: str, tried: Callable[[str], Tried], server: tuple[int, list[str]]
) -> None:
    port, visits = server
    reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).recv(5)"
    code = f'assert os.system("{sys.executable} -E -S -c \\"{reach}\\"") == 0\nreturn "done"'

    result = tried(code).replay(kind, connect=(f"127.0.0.1:{port}",))

    assert result.verdict is Verdict.FIXED, result.reason
    assert visits == ["came"]


@sampled("kind", KINDS, count=1, start=3)
def test_a_directory_that_the_person_allows_is_really_written(kind: str, tried: Callable[[str], Tried]) -> None:
    Path("kept").mkdir()

    result = tried('Path("kept", "file").write_text("x")\nreturn "done"').replay(kind, write=(os.path.abspath("kept"),))

    assert result.verdict is Verdict.FIXED
    assert Path("kept", "file").read_text() == "x"
    assert result.isolation.written == ()


@sampled("kind", KINDS, count=1, start=0)
def test_servers_of_the_candidate_itself_work(kind: str, tried: Callable[[str], Tried]) -> None:
    code = f"""
import subprocess
served = subprocess.Popen([{sys.executable!r}, "-E", "-c",
    "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
    "s.accept()[0].sendall(b'hello')"], stdout=subprocess.PIPE)
port = int(served.stdout.readline())
asked = subprocess.run([{sys.executable!r}, "-E", "-c",
    f"import socket; print(socket.create_connection(('127.0.0.1', {{port}})).recv(5))"], capture_output=True)
served.wait()
return asked.stdout.decode().strip()
"""

    result = tried(code).replay(kind)

    assert result.verdict is Verdict.FIXED, result.reason
    assert result.run is not None
    assert "hello" in str(result.run.output)
    assert result.isolation.stopped == ()


def test_a_case_does_not_see_what_another_one_wrote_in_the_same_worker(tried: Callable[[str], Tried]) -> None:
    one = tried('seen = Path("cache").exists()\nPath("cache").write_text("x")\nreturn f"seen: {seen}"')

    with contextlib.ExitStack() as stack:
        worker = _candidate("worker", stack)
        outputs = [rk.replay(one._case, worker).run for _ in range(3)]

    assert [run.output for run in outputs if run is not None] == ["seen: False"] * 3


def test_what_is_stopped_in_one_case_of_a_worker_is_not_held_against_the_next(
    tried: Callable[[str], Tried], server: tuple[int, list[str]]
) -> None:
    port, _ = server
    reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).recv(5)"
    shell = f'os.system("{sys.executable} -E -S -c \\"{reach}\\" 2>/dev/null")'
    one = tried(f'if question == "out":\n    {shell}\nreturn "done"')
    cases = [
        msgspec.structs.replace(
            one._case, scenario=msgspec.structs.replace(one._case.scenario, input_json=msgspec.Raw(text))
        )
        for text in (b'"out"', b'"in"')
    ]

    with contextlib.ExitStack() as stack:
        worker = _candidate("worker", stack)
        verdicts = [rk.replay(case, worker).verdict for case in (*cases, *cases)]

    assert verdicts == [Verdict.DIVERGED, Verdict.FIXED] * 2


@sampled("kind", KINDS, count=1, start=1)
def test_a_write_that_this_machine_has_to_refuse_decides_nothing(
    kind: str, tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv(ISOLATION, "landlock")
    outside = tmp_path_factory.mktemp("outside")
    code = f"""
Path("own.txt").write_text("x")
try:
    Path({str(outside)!r}, "file").write_text("x")
except OSError:
    pass
return "done"
"""

    result = tried(code).replay(kind)

    assert (result.verdict, result.isolation.level) == (Verdict.INCONCLUSIVE, IsolationLevel.LANDLOCK)
    assert f"{outside}/file" in result.reason
    assert f"--allow-write {outside}" in result.reason
    assert not Path("own.txt").exists()
    assert not (outside / "file").exists()


@sampled("kind", KINDS, count=1, start=2)
def test_a_directory_of_the_project_is_renamed(kind: str, tried: Callable[[str], Tried]) -> None:
    Path("build").mkdir()
    Path("build/file").write_text("real")

    result = tried('os.rename("build", "build.old")\nreturn Path("build.old/file").read_text()').replay(kind)

    assert result.verdict is Verdict.FIXED, result.reason
    changes = {Path(file.path).name: file.change for file in result.isolation.written}
    assert changes == {"build": "removed", "build.old": "created", "file": "created"}
    assert Path("build/file").read_text() == "real"


@sampled("kind", KINDS, count=1, start=3)
def test_a_rename_that_the_layers_cannot_do_decides_nothing(kind: str, tried: Callable[[str], Tried]) -> None:
    Path("build").mkdir()

    result = tried('os.chdir("build")\nos.rename("../build", "../build.old")\nreturn "done"').replay(kind)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert f"{Path.cwd()}/build could not be written here: a process works in it, or has it open" in result.reason


@sampled("kind", KINDS, count=1, start=0)
def test_the_lesser_level_gives_the_same_verdict_where_nothing_is_refused(
    kind: str, tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ISOLATION, "landlock")

    code = """
import tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x")
Path("own.txt").write_text("x")
return Path("own.txt").read_text()
"""

    result = tried(code).replay(kind)

    assert (result.verdict, result.isolation.level) == (Verdict.FIXED, IsolationLevel.LANDLOCK), result.reason
    assert not Path("own.txt").exists()


def test_the_command_names_the_option_that_would_let_a_connection_through(
    tried: Callable[[str], Tried], server: tuple[int, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    port, _ = server
    tried(f'os.system("bash -c \'exec 3<>/dev/tcp/127.0.0.1/{port}\' 2>/dev/null")\nreturn "done"')

    code = run(["replay", "cases", "--agent", "agent_here:agent"])

    assert code == 1
    assert f"To let it through: --allow-connect 127.0.0.1:{port}\n" in capsys.readouterr().err


def test_who_lets_a_tool_be_called_for_real_lets_it_reach_the_world(tried: Callable[[str], Tried]) -> None:
    result = tried('Path("real.txt").write_text("x")\nreturn "done"').replay("agent", live=("pay",))

    assert result.isolation.level is IsolationLevel.PROCESS
    assert Path("real.txt").exists()
    assert "pay" in result.isolation.notes[0]


def test_a_level_that_nobody_knows_is_an_error(tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISOLATION, "ful")

    with pytest.raises(UsageError, match="full, landlock, process, none"):
        tried('return "done"').replay("agent")


def test_a_function_in_this_process_has_only_the_guards_of_this_process(tried: Callable[[str], Tried]) -> None:
    result = rk.replay(tried('return "done"')._case, lambda _: "done")

    assert result.isolation.level is IsolationLevel.PROCESS


@sampled("kind", KINDS, count=1, start=1)
def test_what_was_written_can_be_kept(kind: str, tried: Callable[[str], Tried]) -> None:
    kept = Path("kept").absolute()

    result = tried('Path("new.txt").write_text("x")\nreturn "done"').replay(kind, keep_writes=str(kept))

    assert result.verdict is Verdict.FIXED
    assert [file.read_text() for file in kept.rglob("new.txt")] == ["x"]
    assert not Path("new.txt").exists()


def test_a_project_that_is_too_large_to_be_copied_is_replayed_where_it_is(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ISOLATION, "landlock")
    with open("large", "wb") as file:
        file.truncate(MAX_BYTES + 1)  # which takes no room on the disk

    result = tried('return "done"').replay("agent")

    assert (result.verdict, result.isolation.level) == (Verdict.FIXED, IsolationLevel.LANDLOCK), result.reason
    assert "too large to be copied" in result.isolation.notes[0]


@sampled("kind", KINDS, count=1, start=2)
@pytest.mark.parametrize("place", ["kept", "."])
def test_a_directory_of_the_project_that_is_allowed_is_really_written_where_the_project_is_copied(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    monkeypatch.setenv(ISOLATION, "landlock")
    Path("kept").mkdir()
    Path("kept", "before").write_text("old")
    agent = tried('Path("kept", "file").write_text(Path("kept", "before").read_text())\nreturn "done"')

    result = agent.replay(kind, write=(os.path.abspath(place),))

    assert (result.verdict, result.isolation.level) == (Verdict.FIXED, IsolationLevel.LANDLOCK), result.reason
    assert Path("kept", "file").read_text() == "old"


def test_large_directories_of_a_project_are_not_copied(
    tried: Callable[[str], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ISOLATION, "landlock")
    Path("node_modules").mkdir()
    Path("node_modules", "module.js").write_text("real")

    result = tried("return f\"{os.path.islink('node_modules')} {open('node_modules/module.js').read()}\"").replay(
        "agent"
    )

    assert result.run is not None
    assert result.run.output == "True real"


HIDDEN = """
import socket
for protocol in range(600):
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocol)
    except OSError:
        pass
os.system("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>/dev/null")
return "done"
"""


def test_a_connection_behind_many_harmless_attempts_is_not_overlooked(tried: Callable[[str], Tried]) -> None:
    result = tried(HIDDEN).replay("agent")

    assert result.verdict is Verdict.DIVERGED


@pytest.mark.exhaustive
def test_a_connection_after_many_others_in_the_same_worker_is_not_overlooked(tried: Callable[[str], Tried]) -> None:
    code = """
count = int(question)
reach = "import socket\\nfor port in range(1, 1 + %d): socket.socket().connect_ex(('10.9.8.7', port))" % count
subprocess.run([sys.executable, "-E", "-S", "-c", reach])
return "done"
"""
    one = tried("import subprocess\n" + code)
    scenarios = [
        msgspec.structs.replace(one._case.scenario, input_json=msgspec.Raw(b"%d" % count)) for count in (600, 1, 0)
    ]

    with contextlib.ExitStack() as stack:
        worker = _candidate("worker", stack)
        cases = [msgspec.structs.replace(one._case, scenario=scenario) for scenario in scenarios]
        verdicts = [rk.replay(case, worker).verdict for case in cases]

    assert verdicts == [Verdict.DIVERGED, Verdict.DIVERGED, Verdict.FIXED]


@sampled("kind", KINDS, count=1, start=3)
def test_a_file_whose_name_is_no_text_is_listed(kind: str, tried: Callable[[str], Tried]) -> None:
    result = tried('open(b"\\xff", "w").close()\nreturn "done"').replay(kind)

    assert result.verdict is Verdict.FIXED, result.reason
    assert result.isolation.written_count == 1


def test_what_is_kept_of_a_candidate_lets_nobody_become_somebody_else(tried: Callable[[str], Tried]) -> None:
    kept = Path("kept").absolute()

    tried('Path("tool").touch()\nos.chmod("tool", 0o4755)\nreturn "done"').replay("agent", keep_writes=str(kept))

    assert [file.stat().st_mode & 0o7777 for file in kept.rglob("tool")] == [0o755]


@pytest.mark.parametrize("place", ["/", "/proc", "/dev/shm", "/sys/kernel"])
def test_places_of_the_system_cannot_be_allowed(place: str) -> None:
    with pytest.raises(UsageError, match="cannot be allowed"):
        consent_of(write=[place])
