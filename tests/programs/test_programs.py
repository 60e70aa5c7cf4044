"""Whole programs, recorded and replayed with nothing changed in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.closed_port import connections_to
from tests.matrix import sampled
from tests.programs.agents import HTTP, LOOP, STRANGER, write
from tests.programs.conftest import DONE, END, STREAM, Asked, Upstream, chunk, completion, event, wait_for, whole

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.cases.scaffold import scaffold
from replaykit.model.run import RunStatus, TraceRun
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.recording import Recorded, record_program
from replaykit.programs.recovery import interrupted_recordings, recover
from replaykit.store.sqlite import SQLiteStore


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, upstream: Upstream) -> None:
    """The SDKs of every program here are told of the fake upstream, and of no other."""
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_BASE", "_API_KEY")) or name.startswith("REPLAYKIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")


def tool_calling(asked: Asked) -> list[bytes]:
    """A model that asks for two tools at once, in pieces, and then tells what they said."""
    results = [message["content"] for message in json.loads(asked.body)["messages"] if message["role"] == "tool"]
    if results:
        return [STREAM, chunk(event("It is ")), chunk(event(" and ".join(results))), chunk(DONE), END]
    deltas = [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city": "Par'}},
        {"index": 0, "function": {"arguments": 'is"}'}},
        {"index": 1, "id": "call_b", "type": "function", "function": {"name": "get_time", "arguments": "{"}},
        {"index": 1, "function": {"arguments": '"zone": "CET"}'}},
    ]
    told = [{"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]} for delta in deltas]
    return [STREAM, *(chunk(b"data: " + json.dumps(one).encode() + b"\n\n") for one in told), chunk(DONE), END]


def recorded(*command: str, printed: str = "printed.txt", **options: Any) -> Recorded:
    """Record a program; what it prints is in a file."""
    with SQLiteStore.open("store.db") as store, open(printed, "wb") as out:
        return record_program(command, store, out=out.fileno(), **options)


def replayed(run: TraceRun, *command: str, timeout_s: float = 60, **options: Any) -> rk.ReplayResult:
    """Make a case of a run, and replay a program against it."""
    case = scaffold(run, f"cases/{run.id}", force=True)
    return rk.replay(case, CommandCandidate(command, **options), timeout_s=timeout_s, evidence="evidence")


def with_models_at_proxy(run: TraceRun) -> TraceRun:
    """The run as it is recorded where the proxy alone sees the calls of models."""
    models = {call.seq for call in run.llm_calls}
    events = [msgspec.structs.replace(e, path="/!proxy") if e.seq in models else e for e in run.events]
    return TraceRun.of(run.header, tuple(events))


def test_a_program_in_another_language_is_recorded_and_replayed_without_a_connection(upstream: Upstream) -> None:
    upstream.script = tool_calling
    agent = [*STRANGER, write(LOOP)]
    live = recorded(*agent)
    upstream.close()

    with connections_to(upstream.port) as seen:
        result = replayed(live.run, *agent)

    assert Path("printed.txt").read_text() == (Path(str(result.directory)) / "stdout.log").read_text()
    assert live.run.output.splitlines() == [
        'tool get_weather {"city": "Paris"}',
        'tool get_time {"zone": "CET"}',
        "It is sunny in Paris and noon CET",
    ]
    assert result.run is not None
    assert result.run.output == live.run.output
    assert [call.result for call in result.run.llm_calls] == [call.result for call in live.run.llm_calls]
    assert result.verdict is rk.Verdict.INCONCLUSIVE  # nothing failed in the recording
    assert (seen, result.deviations) == ([], ())


def test_keys_are_nowhere_in_a_recording_and_a_replay_needs_none(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = [*STRANGER, write(HTTP + "\n    print(os.environ['OPENAI_API_KEY'][:9], chat([])[0])")]
    live = recorded(*agent, "--token", "sk-in-the-command")
    assert upstream.asked[0].headers["authorization"] == "Bearer sk-of-the-user"
    monkeypatch.delenv("OPENAI_API_KEY")

    result = replayed(live.run, *agent)

    assert result.run is not None
    assert result.run.output == "replaykit 200"
    kept = b"".join(file.read_bytes() for file in Path().rglob("*.json"))
    assert b"sk-of-the-user" not in kept
    assert b"sk-in-the-command" not in kept
    assert live.run.metadata["program"]["command"][-2:] == ["--token", "hidden"]


def test_a_program_that_fails_is_a_run_that_failed_and_fails_again(upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b'{"error": {"message": "overloaded"}}', "503 Service Unavailable")]
    agent = [*STRANGER, write(HTTP + "\n    status, text = chat([])\n    sys.exit(0 if status == 200 else 4)")]
    live = recorded(*agent)

    result = replayed(live.run, *agent)

    assert live.exit_code == 4
    assert (live.run.status, str(live.run.error)) == (RunStatus.ERROR, "ExitCode: the program ended with exit code 4")
    assert result.verdict is rk.Verdict.REPRODUCED


def test_a_program_that_was_mended_is_told_from_one_that_was_not(upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("42"))]
    broken = write(HTTP + "\n    chat([])\n    sys.exit(4)", "broken.py")
    mended = write(HTTP + "\n    print(chat([])[1])", "mended.py")
    live = recorded(*STRANGER, broken)

    assert replayed(live.run, *STRANGER, broken).verdict is rk.Verdict.REPRODUCED
    assert replayed(live.run, *STRANGER, mended).verdict is rk.Verdict.FIXED


def test_a_program_that_asks_something_else_has_left_the_tape(upstream: Upstream) -> None:
    code = HTTP + "\n    print(chat([{'role': 'user', 'content': 'QUESTION'}]))"
    live = recorded(*STRANGER, write(code))
    write(code.replace("QUESTION", "another one"))

    result = replayed(live.run, *STRANGER, "agent.py")

    assert result.verdict is rk.Verdict.DIVERGED
    assert "- QUESTION\n    + another one" in result.reason
    assert [deviation.kind for deviation in result.deviations] == ["missing", "unused"]
    assert result.run is not None
    assert "409" in result.run.output
    assert len(upstream.asked) == 1


def test_what_a_program_asks_of_others_over_tls_is_stopped_and_named(upstream: Upstream) -> None:
    live = recorded(*STRANGER, write(HTTP + "\n    print(chat([])[0])"))
    bypass = write(
        """
        import urllib.request
        try:
            urllib.request.urlopen("https://stripe.example/charges", timeout=20)
        except OSError as error:
            print(error)
        """,
        "bypass.py",
    )

    result = replayed(live.run, *STRANGER, bypass)

    assert result.run is not None
    assert "403" in result.run.output
    assert result.verdict is rk.Verdict.DIVERGED
    (stopped,) = [deviation for deviation in result.deviations if deviation.kind == "network"]
    assert "stripe.example:443" in stopped.text
    assert "Python-urllib" in stopped.text or "process" in stopped.text


PYTHON = """
    import json, multiprocessing, os, subprocess, sys
    from concurrent.futures import ThreadPoolExecutor
    import replaykit as rk

    @rk.tool
    def charge(order):
        with open("charged.txt", "a") as file:
            file.write(f"{order}\\n")
        return {"order": order, "ok": True}

    def in_child(order):
        print(charge(order), flush=True)

    if __name__ == "__main__":
        if "child" in sys.argv:
            in_child(9)
            sys.exit(0)
        with ThreadPoolExecutor() as pool:
            print(list(pool.map(charge, [1, 2, 3])), flush=True)
        for how in ("fork", "spawn"):
            process = multiprocessing.get_context(how).Process(target=in_child, args=(4,))
            process.start()
            process.join()
        subprocess.run([sys.executable, __file__, "child"], check=True)
"""


def test_tools_of_all_python_processes_are_recorded_and_never_done_again(upstream: Upstream) -> None:
    agent = [sys.executable, write(PYTHON)]
    live = recorded(*agent)
    done = Path("charged.txt").read_text()

    result = replayed(live.run, *agent)

    assert sorted(call.arguments["order"] for call in live.run.tool_calls) == [1, 2, 3, 4, 4, 9]
    assert len({call.path.split("/")[1] for call in live.run.calls if call.path.startswith("/!")}) == 3
    assert result.run is not None
    assert result.run.output == live.run.output
    assert result.verdict is rk.Verdict.INCONCLUSIVE  # nothing failed in the recording
    assert Path("charged.txt").read_text() == done, "nothing was charged again"
    assert [d for d in result.deviations if d.kind != "moved"] == []


@pytest.mark.exhaustive
def test_it_does_not_matter_which_process_does_which_work(upstream: Upstream) -> None:
    write(
        """
        import sys
        import replaykit as rk
        @rk.tool
        def ask(question): return f"answer to {question}"
        print(ask(sys.argv[1]), flush=True)
        """,
        "worker.py",
    )
    starts = f"""
        import os, subprocess
        for question in reversed("ab") if os.path.exists("again") else "ab":
            subprocess.run([{sys.executable!r}, "worker.py", question])
    """
    agent = [sys.executable, write(starts)]
    live = recorded(*agent)
    Path("again").touch()

    result = replayed(live.run, *agent)

    assert live.run.output == "answer to a\nanswer to b"
    assert result.run is not None
    assert result.run.output == "answer to b\nanswer to a"
    assert (result.verdict, result.deviations) == (rk.Verdict.INCONCLUSIVE, ())  # nothing failed in the recording


def test_calls_at_another_moment_and_calls_without_an_answer_count_as_made(upstream: Upstream) -> None:
    code = """
        import datetime, time
        import replaykit as rk
        @rk.tool
        def search(since, expires): return []
        @rk.tool
        def connect(): return object()
        time.sleep(0.5)
        now = datetime.datetime.now()
        print(search((now - datetime.timedelta(hours=24)).isoformat(), (now + datetime.timedelta(hours=1)).isoformat()))
        connect()
        raise LookupError("nothing was found")
    """
    agent = [sys.executable, write(code)]

    result = replayed(recorded(*agent).run, *agent)

    assert [(d.kind, d.name) for d in result.deviations] == [("now", "search"), ("unanswerable", "connect")]


def test_an_exception_that_ends_a_python_program_is_the_error_of_its_run(upstream: Upstream) -> None:
    agent = [sys.executable, write("raise RuntimeError('Max tool call limit exceeded')")]
    live = recorded(*agent)

    result = replayed(live.run, *agent)

    assert live.exit_code == 1
    assert str(live.run.error) == "RuntimeError: Max tool call limit exceeded"
    assert result.verdict is rk.Verdict.REPRODUCED


def test_the_program_has_the_users_directory_input_and_variables(upstream: Upstream, tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['MY_OWN'], sys.argv[1:], file=open('seen.txt', 'w'))"
    os.environ["MY_OWN"] = "kept"
    try:
        recorded(sys.executable, write(code), "two words", "$HOME")
    finally:
        del os.environ["MY_OWN"]

    assert Path("seen.txt").read_text() == f"{tmp_path} kept ['two words', '$HOME']\n"


def test_what_is_known_of_a_program_stands_in_its_run(upstream: Upstream) -> None:
    live = recorded(sys.executable, "-c", "print('hi')", name="greeter", program_input={"who": "world"})

    program = live.run.metadata["program"]
    assert (live.run.name, live.run.input, live.run.output) == ("greeter", {"who": "world"}, "hi")
    assert program["command"] == [sys.executable, "-c", "print('hi')"]
    assert (program["exit_code"], program["python"]) == (0, ".".join(map(str, sys.version_info[:3])))
    assert program["started_at"] == live.run.started_at
    assert isinstance(program["seed"], int)
    assert live.run.origin.kind == "recorded"


def test_nothing_is_left_beside_the_run(upstream: Upstream) -> None:
    live = recorded(*STRANGER, write(HTTP + "\n    chat([])"))

    with SQLiteStore.open("store.db") as store:
        assert [header.id for header in store.headers()] == [live.run.id]
        assert store.load(live.run.id) == live.run
        assert list(store.verify()) == []
        assert interrupted_recordings(store) == []


def test_a_program_that_cannot_be_started_leaves_no_run(upstream: Upstream) -> None:
    with pytest.raises(rk.ReplayKitError, match="'no-such-program' cannot be started"):
        recorded("no-such-program")

    with SQLiteStore.open("store.db") as store:
        assert store.headers() == []


@pytest.mark.parametrize(
    ("launch_options", "seen"),
    [
        (LaunchOptions(proxy=False), {"charge": "", "small": ""}),
        (LaunchOptions(inject=False), {"small": "/!proxy"}),
        (None, {"charge": "", "small": ""}),
    ],
)
def test_each_of_the_two_ways_can_be_left_out(
    upstream: Upstream, launch_options: LaunchOptions | None, seen: dict[str, str]
) -> None:
    code = (
        HTTP
        + """
    import replaykit as rk
    @rk.tool
    def charge(order): return order
    charge(1)
    chat([])
    """
    )

    live = recorded(sys.executable, write(code), launch_options=launch_options)

    assert {call.name: call.path for call in live.run.calls} == seen
    assert len(upstream.asked) == 1


def test_an_upstream_of_the_users_own_is_recorded_and_needs_no_name_in_the_replay(upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(b'{"charged": true}')]
    agent = [*STRANGER, write(HTTP + "\n    print(post('STRIPE_BASE_URL', '/charges', {'amount': 5}))")]
    live = recorded(*agent, launch_options=LaunchOptions(upstreams={"stripe": upstream.url}))
    upstream.close()

    result = replayed(live.run, *agent)

    assert [call.name for call in live.run.calls] == ["POST stripe/charges"]
    assert result.run is not None
    assert result.run.output == live.run.output == "(200, '{\"charged\": true}')"


@pytest.mark.exhaustive
def test_two_programs_may_be_recorded_into_one_store_at_once(upstream: Upstream) -> None:
    agent = write(HTTP + "\n    [chat([{'role': 'user', 'content': str(n)}]) for n in range(20)]")
    runs: list[Recorded] = []
    threads = [
        threading.Thread(target=lambda n=n: runs.append(recorded(*STRANGER, agent, printed=f"{n}.txt")))  # type: ignore[misc]
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with SQLiteStore.open("store.db") as store:
        assert {len(store.load(header.id).llm_calls) for header in store.headers()} == {20}
        assert len(store.headers()) == len(runs) == 3


def test_a_process_that_goes_on_is_cut_off_and_not_disturbed(upstream: Upstream) -> None:
    write(
        """
        import time
        import replaykit as rk
        @rk.tool
        def ask(n): return n
        open("daemon.pid", "w").write(str(__import__("os").getpid()))
        ask(1)
        while not __import__("os").path.exists("go-on"): time.sleep(0.01)
        ask(2)
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "print('a child of it')"], check=True)
        open("daemon.done", "w").write("well")
        """,
        "daemon.py",
    )
    starts = f"""
        import subprocess, sys, os, time
        with open(os.devnull, "w") as null:
            subprocess.Popen([{sys.executable!r}, "daemon.py"], stdout=null, start_new_session=True)
        while not os.path.exists("daemon.pid"): time.sleep(0.01)
    """

    live = recorded(sys.executable, write(starts))
    Path("go-on").touch()
    wait_for(Path("daemon.done").exists)

    assert [call.arguments for call in live.run.tool_calls] in ([{"n": 1}], [])
    with SQLiteStore.open("store.db") as store:
        assert [header.id for header in store.headers()] == [live.run.id]


WAITING = """
    import signal, sys, time
    HANDLER
    print("ready", flush=True)
    open("ready", "w").close()
    while True: time.sleep(0.01)
"""


@sampled(
    ("handler", "number", "code", "status"),
    [
        ("", signal.SIGINT, 130, "cancelled"),
        ("", signal.SIGTERM, 143, "cancelled"),
        ("signal.signal(signal.SIGINT, lambda *_: sys.exit(7))", signal.SIGINT, 7, "cancelled"),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))", signal.SIGTERM, 0, "success"),
    ],
    count=2,
    start=1,
)
def test_signals_go_to_the_program(upstream: Upstream, handler: str, number: int, code: int, status: str) -> None:
    agent = write(WAITING.replace("HANDLER", handler))
    command = [sys.executable, "-m", "replaykit", "record", "--store", "store.db", "--", *STRANGER, agent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_for(Path("ready").exists)
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)

    assert (process.returncode, out) == (code, b"ready\n")
    with SQLiteStore.open("store.db") as store:
        (header,) = store.headers()
    assert (header.status, header.output) == (status, "ready")


def test_a_recording_that_was_killed_is_put_together_from_what_is_left(upstream: Upstream) -> None:
    agent = write(HTTP + "\n    chat([])\n    open('ready', 'w').close()\n    import time\n    time.sleep(60)")
    command = [sys.executable, "-m", "replaykit", "record", "--store", "store.db", "--", *STRANGER, agent]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        wait_for(Path("ready").exists)
        with SQLiteStore.open("store.db") as store:
            assert interrupted_recordings(store) == [], "it is being recorded"
        os.killpg(process.pid, signal.SIGKILL)

    with SQLiteStore.open("store.db") as store:
        (header,) = interrupted_recordings(store)
        place = Path(header.metadata["program"]["recorder"]["directory"])
        assert place.exists()
        (run,) = recover(store)

        assert (run.id, run.status, [call.name for call in run.calls]) == (header.id, "cancelled", ["small"])
        assert run.error is not None
        assert "killed" in run.error.message
        assert [left.id for left in store.headers()] == [run.id]
        assert recover(store) == []
    assert not place.exists()


def test_recordings_of_other_machines_are_left_alone(upstream: Upstream) -> None:
    from replaykit.model.run import RunHeader
    from replaykit.model.values import raw

    elsewhere = {"program": {"recorder": {"host": "another-machine", "directory": "/nowhere"}}}
    with SQLiteStore.open("store.db") as store:
        store.begin(RunHeader(id="r1", metadata_json=raw(elsewhere)))
        store.begin(RunHeader(id="r2"))

        assert interrupted_recordings(store) == []


def test_a_hang_is_ended_and_what_was_done_before_is_its_run(upstream: Upstream) -> None:
    code = (
        HTTP
        + """
    print(chat([])[0], flush=True)
    import subprocess, time
    child = subprocess.Popen(["sleep", "300"])
    open("child.pid", "w").write(str(child.pid))
    HANG
    """
    )
    live = recorded(*STRANGER, write(code.replace("HANG", "child.kill()")))
    write(code.replace("HANG", "time.sleep(300)"))

    result = replayed(live.run, *STRANGER, "agent.py", timeout_s=3)

    assert result.run is not None
    assert result.run.status is RunStatus.TIMEOUT
    assert [call.name for call in result.run.calls] == ["small"]
    wait_for(lambda: not _is_running(int(Path("child.pid").read_text())))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_what_the_program_writes_as_its_output_wins(upstream: Upstream) -> None:
    code = (
        HTTP
        + """
    print(chat([])[0])
    if "REPLAYKIT_OUTPUT_PATH" in os.environ:
        open(os.environ["REPLAYKIT_OUTPUT_PATH"], "w").write('{"status": "success", "final_output": "as I say"}')
    """
    )
    live = recorded(*STRANGER, write(code))

    result = replayed(live.run, *STRANGER, "agent.py")

    assert result.run is not None
    assert result.run.output == "as I say"


def test_a_terminal_stays_a_terminal_for_the_program(upstream: Upstream) -> None:
    import pty

    agent = write("import sys; print(sys.stdout.isatty(), '\\x1b[1mbold\\x1b[0m')")
    source, sink = pty.openpty()
    with SQLiteStore.open("store.db") as store:
        live = record_program([*STRANGER, agent], store, out=sink)
    os.close(sink)
    shown = os.read(source, 1000)
    os.close(source)

    assert shown == b"True \x1b[1mbold\x1b[0m\r\n"
    assert live.run.output == "True bold"


def test_plain_http_that_was_led_through_the_proxy_is_served_though_it_is_for_this_machine(upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(b"recorded")]
    code = f"""
    import os, urllib.request
    os.environ["http_proxy"] = os.environ["REPLAYKIT_PROXY"]
    print(urllib.request.urlopen("{upstream.url}/local", timeout=20).read().decode())
    """
    agent = [*STRANGER, write(code)]
    live = recorded(*agent)
    before = upstream.connections

    result = replayed(live.run, *agent)

    assert result.run is not None
    assert (live.run.output, result.run.output, result.deviations) == ("recorded", "recorded", ())
    assert upstream.connections == before


@pytest.mark.exhaustive
def test_requests_of_http_client_that_an_older_recording_has_at_the_proxy_are_served_there(upstream: Upstream) -> None:
    upstream.script = lambda asked: [whole(completion("42"))]
    code = (
        HTTP + "\n    import replaykit as rk\n    add = rk.tool(lambda: 1, name='add')\n    print(add(), chat([])[0])"
    )
    agent = [sys.executable, write(code + "\n    sys.exit(4)")]
    live = recorded(*agent)
    assert [call.path for call in live.run.llm_calls] == [""]
    upstream.close()

    result = replayed(with_models_at_proxy(live.run), *agent)

    assert result.run is not None
    assert (result.run.output, result.deviations) == ("1 200", ())
    assert [call.path for call in result.run.llm_calls] == ["/!proxy"]
