"""`replaykit record` and `replaykit replay CASE -- CMD`: what is said where, and which exit code is given."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller
from tests.matrix import sampled

from replaykit.model.run import TraceRun
from replaykit.report.recordings import recorded_text
from replaykit.store.sqlite import SQLiteStore

Command = Callable[..., Any]

ASK = """
import json, os, sys, urllib.request
def ask(question):
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": question}]}).encode()
    url, headers = os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"content-type": "application/json"}
    asked = urllib.request.Request(url, body, headers)
    try:
        return json.load(urllib.request.urlopen(asked))["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        return f"{error.code} {json.load(error)['error']['type']}"
"""


class Model(BaseHTTPRequestHandler):
    """Says what it was asked, in capitals."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
        message = {"role": "assistant", "content": question.upper()}
        text = json.dumps({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def replaykit(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process, and have what the programs that it starts write as well."""
    return caller(capfd, Ran)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Model]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Model", (Model,), {"asked": 0}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield server.RequestHandlerClass  # type: ignore[misc]
    server.shutdown()
    server.server_close()


@pytest.fixture
def agent(own_directory: Path) -> Callable[..., list[str]]:
    """A program that asks the model, in a Python that takes no part itself."""

    def write(code: str, name: str = "agent.py") -> list[str]:
        (own_directory / name).write_text(f"{ASK}\n{code}\n", encoding="utf-8")
        return [sys.executable, "-S", "-E", name]

    return write


def the_run() -> Any:
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        (header,) = store.headers()
        return store.load(header.id)


def test_the_program_has_standard_output_and_what_to_do_next_is_on_standard_error(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    program = agent("print(ask('hello')); print('on stderr', file=sys.stderr)")

    ran = replaykit("record", "--name", "greeter", "--input", '{"who": "world"}', "--", *program)

    run = the_run()
    assert (ran.code, ran.out) == (0, "HELLO\n")
    assert "on stderr" in ran.err
    assert f"recorded {run.id}: success, 1 call" in ran.err
    assert f"replaykit show {run.id}" in ran.err
    assert f"replaykit scaffold {run.id} --out cases/greeter" in ran.err
    assert f"replaykit replay cases/greeter -- {shlex.join(program)}" in ran.err
    assert (run.name, run.input, run.output) == ("greeter", {"who": "world"}, "HELLO")


def test_a_run_becomes_a_case_and_the_case_is_replayed_when_the_model_is_gone(
    replaykit: Command, model: type[Model], agent: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = agent("print(ask('hello')); sys.exit(3)")

    recorded = replaykit("record", "--", *program)
    made = replaykit("scaffold", "agent", "--out", "cases/agent")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/dead")
    again = replaykit("replay", "cases/agent", "--expect", "reproduced", "--", *program)
    mended = replaykit("replay", "cases/agent", "--", *agent("print(ask('hello'))", "mended.py"))

    assert (recorded.code, made.code) == (3, 0)
    assert f"Next: replaykit replay cases/agent -- {shlex.join(program)}\n" in made.out
    assert again.code == 0, again.out
    assert "FAILURE REPRODUCED" in again.out
    assert mended.code == 0, mended.out
    assert "FIXED" in mended.out
    assert model.asked == 1


@sampled(("options", "clock"), [([], ""), (["--no-pins"], ""), ([], "tick")], count=1, start=2)
def test_a_program_that_waits_for_the_clock_comes_to_its_end(
    replaykit: Command, own_directory: Path, options: list[str], clock: str
) -> None:
    Path("agent.py").write_text(
        "import time, replaykit as rk\n"
        "began = time.time()\n"
        "while time.time() < began + 0.1: time.sleep(0.01)\n"
        "print(rk.tool(lambda: 'waited')())",
        encoding="utf-8",
    )
    replaykit("record", "--", sys.executable, "agent.py")
    replaykit("scaffold", "agent", "--out", "cases/agent")
    case = Path("cases/agent/case.yaml")
    if clock:
        case.write_text(re.sub(r"clock: .*", f"clock: {clock}", case.read_text()))

    ran = replaykit("replay", *options, "--timeout", "3", "cases/agent", "--", sys.executable, "agent.py")

    assert ran.code == 3, ran.out
    assert "TimeoutError" not in ran.out
    assert "Used: 1 of 1 recorded answer" in ran.err


def test_how_to_let_a_connection_through_is_said_where_one_was_stopped(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    replaykit("record", "--", *agent("print(ask('hello'))"))
    replaykit("scaffold", "agent", "--out", "cases/agent")
    tries = "try: urllib.request.urlopen('https://bank.example')\nexcept OSError: pass"

    quiet = replaykit("replay", "cases/agent", "--", *agent("print(ask('hello'))"))
    stopped = replaykit("replay", "cases/agent", "--", *agent(f"print(ask('hello'))\n{tries}"))

    assert (quiet.code, stopped.code) == (3, 1), "nothing failed in the recording, so nothing can be fixed"
    assert "--allow-connect" not in quiet.err
    assert "--allow-connect HOST:PORT" in stopped.err


def test_with_json_the_header_is_alone_on_standard_output(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    ran = replaykit("record", "--json", "--", *agent("print(ask('hello'))"))

    (header,) = ran.json["runs"]
    assert ran.json["replaykit"] == 1
    assert (header["id"], header["output"], header["metadata"]["program"]["exit_code"]) == (the_run().id, "HELLO", 0)
    assert "HELLO" in ran.err


def test_two_dashes_may_be_left_out(replaykit: Command, own_directory: Path) -> None:
    ran = replaykit(
        "record", "--name", "x", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--name", "y", "--"
    )

    assert (ran.code, ran.out) == (0, "['--name', 'y', '--']\n")
    assert the_run().name == "x"


def test_input_that_is_no_json_is_text_and_is_passed_through_to_the_program(own_directory: Path) -> None:
    command = [sys.executable, "-m", "replaykit", "record", "--input", "why?", "--"]
    reads = [sys.executable, "-c", "print(input().upper())"]

    ran = subprocess.run([*command, *reads], input="typed\n", capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "TYPED\n")
    assert the_run().input == "why?"


def test_a_program_in_which_nothing_is_seen_is_said_to_be_so(replaykit: Command) -> None:
    ran = replaykit("record", "--", "true")

    assert ran.code == 0
    assert "Nothing was recorded" in ran.err
    assert "--upstream NAME=URL" in ran.err


def test_a_command_that_a_trace_from_elsewhere_names_is_not_proposed(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    replaykit("record", "--", *agent("ask('hello'); raise SystemExit('out of luck')"))
    replaykit("scaffold", "agent", "--out", "cases/agent")

    made = replaykit("scaffold", "cases/agent/source-trace.json", "--out", "cases/other")

    assert "Next: replaykit replay cases/other --agent MODULE:FUNCTION" in made.out


def test_a_recording_that_failed_does_not_say_that_nothing_was_there() -> None:
    run = TraceRun(id="r1", name="agent")

    told = recorded_text(run, ["agent"], None, whole=False)

    assert told.startswith("replaykit: recorded r1")
    assert "Nothing was recorded" not in told


def test_a_program_that_is_not_there_cannot_be_recorded(replaykit: Command) -> None:
    ran = replaykit("record", "--", "no-such-program")

    assert ran.code == 3
    assert "'no-such-program' cannot be started" in ran.err
    assert "no runs" in replaykit("runs").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no program to record"),
        (["--"], "no program to record"),
        (["--recover", "--", "true"], "--recover runs no program"),
        (["--upstream", "stripe", "--", "true"], "expected NAME=URL"),
        (["--upstream", "Stripe=https://x", "--", "true"], "a name is"),
        (["--upstream", "stripe=x", "--", "true"], "expected an address"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(replaykit: Command, arguments: list[str], words: str) -> None:
    ran = replaykit("record", *arguments)

    assert ran.code == 2
    assert words in ran.err


def test_a_recording_inside_of_a_recording_is_a_part_of_it(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    inner = [sys.executable, "-m", "replaykit", "record", "--", *agent("print(ask('hello')); sys.exit(5)")]

    ran = replaykit("record", "--name", "outer", "--", *inner)

    run = the_run()
    assert (ran.code, ran.out, run.name) == (5, "HELLO\n", "outer")
    assert f"run {run.id} is recorded already; the command joins it" in ran.err
    assert [call.name for call in run.llm_calls] == ["small"]


def test_recordings_that_were_killed_are_named_and_put_together(replaykit: Command) -> None:
    from replaykit.model.run import RunHeader
    from replaykit.model.values import raw
    from replaykit.programs.plan import Mode, ProgramPlan
    from replaykit.programs.process_log import ProcessLog

    file = Path(".replaykit/store.db")
    lost = {"program": {"recorder": {"host": os.uname().nodename, "directory": "/nowhere/at/all"}}}
    with SQLiteStore.open(file) as store:
        store.begin(RunHeader(id="r1", name="lost", started_at=1.0, metadata_json=raw(lost)))
        part = ProcessLog.open(ProgramPlan(mode=Mode.RECORD, run_id="r1", store=str(file)), None, iter(["main"]))

    listed = replaykit("runs")
    mended = replaykit("record", "--recover")
    after = replaykit("runs", "--json")

    part.end()
    assert "r1 was interrupted; recover it: replaykit record --recover" in listed.err
    assert "part/" not in listed.out
    assert (mended.code, mended.out) == (0, "1 put together\n")
    assert [(run["id"], run["status"]) for run in after.json["runs"]] == [("r1", "cancelled")]
    assert after.err == ""


def test_the_next_recording_puts_together_what_was_killed_before(replaykit: Command) -> None:
    from replaykit.model.run import RunHeader
    from replaykit.model.values import raw

    lost = {"program": {"recorder": {"host": os.uname().nodename, "directory": "/nowhere/at/all"}}}
    with SQLiteStore.open(Path(".replaykit/store.db")) as store:
        store.begin(RunHeader(id="r1", metadata_json=raw(lost)))

    ran = replaykit("record", "--", "true")

    assert "r1 was interrupted while recording: recovered, 0 events" in ran.err
    with SQLiteStore.open(Path(".replaykit/store.db")) as store:
        assert store.header("r1").status == "cancelled"


def test_the_limit_of_runs_does_not_count_parts(replaykit: Command) -> None:
    from replaykit.model.run import Origin, RunHeader

    with SQLiteStore.open(Path(".replaykit/store.db")) as store:
        for number in range(3):
            store.begin(RunHeader(id=f"r{number}", started_at=float(number)))
            store.begin(
                RunHeader(
                    id=f"part/r{number}/main", started_at=number + 9.0, origin=Origin(kind="part", run=f"r{number}")
                )
            )

    ran = replaykit("runs", "--limit", "2", "--json")

    assert [run["id"] for run in ran.json["runs"]] == ["r2", "r1"]


def test_a_replay_takes_one_candidate(replaykit: Command, case: Path) -> None:
    both = replaykit("replay", case, "--agent", "a:b", "--", "true")
    none = replaykit("replay", case, "--")

    assert (both.code, none.code) == (2, 2)
    assert "exactly one candidate" in both.err
    assert "empty" in none.err


def test_what_is_named_live_is_asked_for_real_where_the_case_does_not_hold_it(
    replaykit: Command, model: type[Model], agent: Command
) -> None:
    replaykit("record", "--", *agent("print(ask('hello'))"))
    replaykit("scaffold", "agent", "--out", "cases/agent")
    changed = agent("print(ask('hello'), ask('good bye'))")

    refused = replaykit("replay", "cases/agent", "--json", "--", *changed)
    allowed = replaykit("replay", "cases/agent", "--json", "--live", "small", "--", *changed)

    assert refused.json["results"][0]["run"]["output"] == "HELLO 409 replay_miss"
    assert refused.json["results"][0]["verdict"] == "diverged"
    assert allowed.json["results"][0]["run"]["output"] == "HELLO GOOD BYE"
    assert model.asked == 2


def test_recorded_pauses_are_kept_when_a_speed_is_given(replaykit: Command, model: type[Model], agent: Command) -> None:
    replaykit("record", "--", *agent("print(ask('hello'))"))
    replaykit("scaffold", "agent", "--out", "cases/agent")
    (fixture,) = Path("cases/agent/fixtures").glob("*.json")
    document = json.loads(fixture.read_text())
    document["calls"][0]["duration_s"] = 0.8
    document["calls"][0]["wire"]["pauses_ms"] = [100.0]
    fixture.write_text(json.dumps(document))
    timed = agent("import time; t = time.monotonic(); ask('hello'); print(time.monotonic() - t)")

    (slow,) = replaykit("replay", "cases/agent", "--json", "--speed", "2", "--", *timed).json["results"]

    assert 0.4 <= float(slow["run"]["output"]) < 10


def test_a_program_that_prints_an_answer_needs_no_calls_but_a_runner_does(replaykit: Command, case: Path) -> None:
    says = [sys.executable, "-S", "-E", "-c", "print('You paid for a year.')"]

    program = replaykit("replay", case, "--json", "--", *says)
    runner = replaykit("replay", case, "--json", "--runner-cmd", shlex.join(says))

    assert program.json["results"][0]["verdict"] == "fixed"
    assert runner.json["results"][0]["verdict"] == "inconclusive"
    assert "$REPLAYKIT_OUTPUT_PATH" in runner.json["results"][0]["reason"]


def test_the_run_of_a_program_is_in_the_evidence(replaykit: Command, model: type[Model], agent: Command) -> None:
    program = agent("print(ask('hello')); print('noted', file=sys.stderr)")
    replaykit("record", "--", *program)
    replaykit("scaffold", "agent", "--out", "cases/agent")

    (result,) = replaykit("replay", "cases/agent", "--json", "--", *program).json["results"]

    evidence = Path(result["directory"])
    assert {file.name for file in evidence.iterdir()} == {
        "result.json",
        "summary.md",
        "runner-output.json",
        "stdout.log",
        "stderr.log",
    }
    log = json.loads((evidence / "runner-output.json").read_text())
    assert [event["name"] for event in log["run"]["events"]] == ["small"]
    assert (evidence / "stderr.log").read_text() == "noted\n"
