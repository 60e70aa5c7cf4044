"""Agents of a configuration: how each sort is asked, what keeps two cases apart, and what is never shown."""

from __future__ import annotations

import gc
import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.agents import candidate_of, default_jobs
from replaykit.candidates.pool import replay_many
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.workers import WorkerCandidate
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.errors import InvalidFile, UsageError
from replaykit.model.values import ABSENT, raw
from replaykit.project.project import Project

Write = Callable[[str], None]


def project(endpoint: Any = "agent:answer", **agent: Any) -> Project:
    value = {"replaykit": 1, "agent": {"endpoint": endpoint, "type": "python", **agent}}
    Path("replaykit.yaml").write_text(json.dumps(value), encoding="utf-8")
    return rk.load_project("replaykit.yaml")


def case_of(given: Any = "hello", *, context: Any = None, name: str = "case", timeout_s: float = 20) -> ReplayCase:
    scenario = Scenario(
        input_json=raw(given), context_json=ABSENT if context is None else raw(context), timeout_s=timeout_s
    )
    observed, desired = (parse_assertion("status_is", status) for status in ("error", "success"))
    return ReplayCase(id=name, scenario=scenario, observed=(observed,), desired=(desired,), tape=())


def output_of(endpoint: str = "agent:answer", given: Any = "hello", *, context: Any = None, **agent: Any) -> Any:
    candidate = candidate_of(project(endpoint, **agent))
    assert isinstance(candidate, WorkerCandidate)
    with candidate:
        result = rk.replay(case_of(given, context=context), candidate)
    assert result.run is not None, result.reason
    assert result.run.error is None, result.run.error
    return result.run.output


@sampled(
    "code",
    [
        "def answer(question):\n    return question.upper()",
        "async def answer(question):\n    return question.upper()",
        "answer = lambda question: question.upper()",
        "class A:\n    def __call__(self, question):\n        return question.upper()\nanswer = A()",
        "class A:\n    def invoke(self, question):\n        return question.upper()\nanswer = A()",
        "class A:\n    async def ainvoke(self, question):\n        return question.upper()\nanswer = A()",
        "def answer(question):\n    yield question.upper()",
    ],
    count=3,
)
def test_an_agent_in_python_is_anything_that_can_be_asked(agent: Write, code: str) -> None:
    agent(code)

    assert output_of() in ("HELLO", ["HELLO"])


@sampled(
    ("code", "told"),
    [
        ("answer = 7", "is of type int, which is not callable and has no method `invoke`"),
        ("class answer:\n    def invoke(self, question): ...", "is a class"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("raise SystemExit(4)", "cannot be loaded: SystemExit: 4"),
        ("os._exit(9)", "cannot be loaded: exit code 9"),
        ("def answer(question, db): ...", "cannot be called with the input: missing a required argument: 'db'"),
        (
            "@rk.tool\ndef t():\n    return 1\nt()\ndef answer(q): ...",
            "the tool `t` was called while agent was imported",
        ),
    ],
    count=4,
)
def test_an_agent_that_cannot_be_loaded_says_why_for_every_case(agent: Write, code: str, told: str) -> None:
    agent(code)
    candidate = candidate_of(project())

    results = replay_many([case_of(name="a"), case_of(name="b")], candidate)

    assert all(told in result.reason for result in results), results[0].reason
    assert {result.verdict.value for result in results} == {"inconclusive"}


@pytest.mark.parametrize(
    ("spec", "suggestion"),
    [
        ("agent:answr", "has no attribute 'answr'; did you mean 'answer'?"),
        ("agnt:answer", "No module named 'agnt'; did you mean 'agent'?"),
        ("agent:nothing_alike", "has no attribute 'nothing_alike'"),
    ],
)
def test_a_misspelled_agent_is_answered_with_the_nearest_name(agent: Write, spec: str, suggestion: str) -> None:
    agent("def answer(question): ...")
    (result,) = replay_many([case_of()], candidate_of(project(endpoint=spec)))

    assert result.reason.endswith(suggestion)


def test_an_agent_that_cannot_be_loaded_is_tried_once(agent: Write) -> None:
    agent("Path('loads').open('a').write('x')\nraise ImportError('no')")

    replay_many([case_of(name=name) for name in "abcd"], candidate_of(project()))

    assert Path("loads").read_text() == "x"


def test_workers_end_with_a_candidate_that_nobody_stopped(agent: Write) -> None:
    agent("def answer(question):\n    return os.getpid()")
    candidate = candidate_of(project())
    result = rk.replay(case_of(), candidate)

    del candidate
    gc.collect()

    assert result.run is not None
    assert _ends(result.run.output)


def test_context_goes_to_an_agent_that_has_a_parameter_for_it(agent: Write) -> None:
    agent("def answer(question, context=None):\n    return [question, context]")

    assert output_of(context=[{"role": "system"}]) == ["hello", [{"role": "system"}]]
    assert output_of() == ["hello", None]


def test_context_that_an_agent_cannot_take_is_told(agent: Write) -> None:
    agent("def answer(question):\n    return question")
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        result = rk.replay(case_of(context=["x"]), candidate)

    assert [deviation.kind for deviation in result.deviations] == ["context"]
    assert result.passed


def test_context_goes_to_agents_in_this_process_and_on_the_command_line_too(agent: Write) -> None:
    agent("def answer(question, context=None):\n    return [question, context]")

    for candidate in (lambda question, context: [question, context], PythonCandidate("agent:answer")):
        result = rk.replay(case_of(context=["x"]), candidate)
        assert result.run is not None, result.reason
        assert result.run.output == ["hello", ["x"]]

    result = rk.replay(case_of(context=["x"]), lambda question: question)
    assert [deviation.kind for deviation in result.deviations] == ["context"]


CHAIN = """
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
outputs = RunnableLambda(lambda given: {"output": given["input"].upper(), "context": given.get("context")})
texts = RunnableLambda(lambda given: {"text": given["input"].upper()})
messages = RunnableLambda(lambda given: {"messages": ["x", AIMessage(content=given["input"].upper())]})
message = RunnableLambda(lambda given: AIMessage(content=given["input"].upper()))
plain = RunnableLambda(lambda given: given["input"].upper())
class Later:
    async def ainvoke(self, given):
        return {"output": given["input"].upper()}
later = Later()
"""


@sampled("name", ["outputs", "texts", "messages", "message", "plain", "later"], count=1, start=1)
def test_a_langchain_runnable_is_invoked_with_its_input_and_says_its_output(agent: Write, name: str) -> None:
    agent(CHAIN)

    assert output_of(f"agent:{name}", type="langchain") == "HELLO"


def test_a_langchain_runnable_is_given_a_mapping_as_it_is_and_the_context_beside_it(agent: Write) -> None:
    agent("from langchain_core.runnables import RunnableLambda\nanswer = RunnableLambda(lambda given: given)")

    assert output_of(given={"input": "x", "k": 1}, context=[1], type="langchain") == {
        "input": "x",
        "k": 1,
        "context": [1],
    }


STATE = """
import contextvars, itertools
seen = contextvars.ContextVar("seen", default="nothing")
count = itertools.count()
def answer(question):
    before = seen.get()
    seen.set(question)
    return [before, next(count), os.getpid()]
"""


def test_each_case_has_a_process_of_its_own_and_meets_nothing_that_another_left(agent: Write) -> None:
    agent(STATE)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        results = [rk.replay(case_of(name), candidate) for name in "abc"]

    outputs = [result.run.output for result in results if result.run is not None]
    assert [before for before, _, _ in outputs] == ["nothing"] * 3
    assert [number for _, number, _ in outputs] == [0, 0, 0]
    assert len({pid for _, _, pid in outputs}) == 3


COUNTING = """
Path("loads").open("a").write("x")
count = 0
def answer(question):
    global count
    count += 1
    return count
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is forked")
def test_an_agent_is_imported_once_for_many_cases(agent: Write) -> None:
    agent(COUNTING)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        outputs = [output(rk.replay(case_of(name), candidate)) for name in "abc"]

    assert outputs == [1, 1, 1]
    assert Path("loads").read_text() == "x"


@sampled(
    "unsafe",
    [
        "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "import socket\nconnection = socket.socket()",
        "source = open(__file__)",
        "import asyncio\nloop = asyncio.new_event_loop()",
    ],
    count=2,
)
def test_an_agent_whose_import_leaves_what_a_fork_would_share_is_imported_for_each_case(
    agent: Write, unsafe: str
) -> None:
    agent(unsafe + COUNTING)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        outputs = [output(rk.replay(case_of(name), candidate)) for name in "ab"]

    assert outputs == [1, 1]
    assert Path("loads").read_text() == "xx"


def test_a_case_whose_process_dies_says_how_and_the_next_one_runs(agent: Write) -> None:
    agent("""
        Path("loads").open("a").write("x")
        def answer(question):
            if question == "die":
                print("last words", file=sys.stderr)
                sys.stderr.flush()
                os.kill(os.getpid(), 9)
            return question
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        died, lived = [rk.replay(case_of(name), candidate) for name in ("die", "live")]

    assert died.reason == "the agent's process died while it ran this case: signal 9\nlast words"
    assert output(lived) == "live"
    assert Path("loads").read_text() == ("x" if sys.platform == "linux" else "xx")


@sampled("jobs", [1, 2, 3], count=1, start=2)
def test_verdicts_do_not_depend_on_the_number_of_workers(agent: Write, jobs: int) -> None:
    agent("""
        from functools import lru_cache
        @lru_cache
        def answer(question):
            return [question, hash("set order"), len(sys.modules)]
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        results = replay_many([case_of("same", name=name) for name in "abcdef"], candidate, jobs=jobs)

    assert len({str(output(result)) for result in results}) == 1


def output(result: rk.ReplayResult) -> Any:
    assert result.run is not None, result.reason
    return result.run.output


def test_an_agent_that_forks_answers_once(agent: Write) -> None:
    agent("""
        def answer(question):
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            return question
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        results = [rk.replay(case_of(name), candidate) for name in "abc"]

    assert [result.run.output for result in results if result.run is not None] == ["a", "b", "c"]


def test_what_an_agent_prints_goes_into_the_case_it_ran_and_never_into_the_answer(agent: Write) -> None:
    agent("""
        print("while it is imported")
        def answer(question):
            print("out", question)
            os.write(1, b"raw\\n")
            print("err", question, file=sys.stderr)
            return sys.stdin.read()
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        results = [rk.replay(case_of(name, name=name), candidate, evidence="runs") for name in "ab"]

    for name, result in zip("ab", results, strict=True):
        assert result.run is not None
        assert result.run.output == ""
        assert sorted(Path(str(result.directory), "stdout.log").read_text().splitlines()) == [f"out {name}", "raw"]
        assert Path(str(result.directory), "stderr.log").read_text() == f"err {name}\n"


def test_an_agent_that_cannot_be_stopped_from_inside_is_killed(agent: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.candidates.workers._GRACE_S", 0.2)
    agent("""
        import threading
        threading.Timer.run = lambda self: None  # its clock never strikes
        def answer(question):
            time.sleep(60)
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        result = rk.replay(case_of(timeout_s=0.2), candidate)

    assert result.run is not None
    assert result.run.status == "timeout"


def test_workers_end_with_their_candidate_and_what_they_started(agent: Write) -> None:
    agent("""
        import subprocess
        def answer(question):
            global child
            child = subprocess.Popen(["sleep", "60"])
            return [os.getpid(), child.pid]
    """)
    with candidate_of(project()) as candidate:  # type: ignore[attr-defined]
        result = rk.replay(case_of(), candidate)

    assert result.run is not None
    worker, child = result.run.output
    assert _ends(worker)
    assert _ends(child)


def _ends(pid: int) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 20)[0])
    finally:
        os.close(process)


def test_how_many_run_at_once_is_what_the_configuration_says_or_what_the_agent_bears() -> None:
    assert default_jobs(project()) == len(os.sched_getaffinity(0))
    assert default_jobs(project("echo", type="command")) == 1
    reset = project("http://a", type="http", reset_endpoint="http://a/reset")
    assert default_jobs(reset) == 1


def test_a_command_is_a_candidate_too(runner: Callable[..., str]) -> None:
    command = runner("tell(final_output='from a command')")

    result = rk.replay(case_of(), candidate_of(project(command, type="command")))

    assert result.run is not None
    assert result.run.output == "from a command"


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"output": f"you said {self.headers['authorization']}"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_the_environment_gave_is_in_no_result_and_no_evidence(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", "s3cr3t-value")
    monkeypatch.setenv("AGENT_URL", f"{echo}/s3cr3t-path")
    candidate = candidate_of(project("${AGENT_URL}", type="http", headers={"Authorization": "Bearer ${AGENT_KEY}"}))

    result = rk.replay(case_of(), candidate, evidence="runs")

    assert result.run is not None
    assert result.run.output == "you said Bearer ${AGENT_KEY}"
    assert result.candidate == "${AGENT_URL}"
    kept = b"".join(file.read_bytes() for file in Path("runs").rglob("*") if file.is_file())
    assert b"s3cr3t" not in kept


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/s3cr3t", "http://127.0.0.1:1/s3cr3t value", "http://[s3cr3t"])
def test_what_the_environment_gave_is_in_no_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_URL", url)
    try:
        result = rk.replay(case_of(), candidate_of(project("${AGENT_URL}", type="http")))
        told = result.reason
    except UsageError as error:
        told = str(error)

    assert told
    assert "s3cr3t" not in told


def test_a_variable_that_is_not_set_is_an_error_with_its_line() -> None:
    Path("replaykit.yaml").write_text(
        'replaykit: 1\nagent:\n  endpoint: http://a\n  headers:\n    X-Key: "${UNSET_KEY}"\n'
    )

    with pytest.raises(InvalidFile, match=r"replaykit\.yaml:5: agent\.headers\.X-Key: .*UNSET_KEY is not set"):
        candidate_of(rk.load_project("replaykit.yaml"))
