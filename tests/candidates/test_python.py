"""`module:function` as a candidate: a fresh process, the tape behind the seam, and every way it can end."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.python import PythonCandidate
from replaykit.cli import run as cli
from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, ToolCall

MakeCase = Callable[..., Path]
Agent = Callable[[str], None]

LOOKUP = """
@rk.tool
def lookup(user: str) -> str:
    Path("touched").write_text("the tool was called live")
    return "live"
"""


@pytest.fixture
def billing(make_case: MakeCase, frozen: Callable[..., ToolCall]) -> Path:
    """A case with two recorded lookups of one user."""
    return make_case(calls=[frozen(n, "lookup", f"answer {n}", user="u1") for n in range(2)])


def replayed(case: Path, **options: Any) -> rk.ReplayResult:
    return rk.replay(case, PythonCandidate("agent:run"), **{"timeout_s": 20, **options})


def deviations(result: rk.ReplayResult) -> list[str]:
    return [deviation.kind for deviation in result.deviations]


def output_of(result: rk.ReplayResult) -> Any:
    assert result.run is not None, result.reason
    assert result.run.error is None, result.run.error
    return result.run.output


def test_tools_are_served_from_the_tape_and_not_touched(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question): return [question, lookup('u1'), lookup(user='u1')]")

    result = replayed(billing)

    assert output_of(result) == ["Why was I charged $49.99?", "answer 0", "answer 1"]
    assert result.verdict is rk.Verdict.FIXED
    assert deviations(result) == []
    assert not Path("touched").exists()


def test_the_tool_of_this_test_would_leave_a_mark(agent: Agent, make_case: MakeCase) -> None:
    agent(LOOKUP + "def run(question): return lookup('u1')")

    result = replayed(make_case(tools="live"), live=["*"])

    assert output_of(result) == "live"
    assert Path("touched").exists()


def test_the_run_log_is_the_output(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question): return lookup('u1')")

    result = replayed(billing, evidence="evidence")

    log = json.loads((Path(str(result.directory)) / "runner-output.json").read_text())
    assert log["replaykit"] == 1
    assert log["run"]["origin"]["kind"] == "replayed"
    assert result.run is not None
    assert [(call.name, call.arguments, call.result) for call in result.run.tool_calls] == [
        ("lookup", {"user": "u1"}, "answer 0")
    ]


def test_a_recorded_call_that_is_not_made_is_told_and_no_failure(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question): return lookup('u1')")

    result = replayed(billing)

    assert deviations(result) == ["unused"]
    assert result.verdict is rk.Verdict.FIXED


def test_a_recorded_error_is_raised_as_its_own_class(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    error = ErrorInfo(type="GatewayError", module="agent", message="504")
    agent("""
class GatewayError(Exception): pass

@rk.tool
def lookup(user): ...

def run(question):
    try: lookup("u1")
    except GatewayError as error: return f"caught {error}"
""")

    assert output_of(replayed(make_case(calls=[frozen(0, "lookup", error=error, user="u1")]))) == "caught 504"


def test_a_recorded_group_of_exceptions_is_not_raised_as_something_else(store: rk.Store) -> None:
    @rk.tool
    def fan_out() -> None:
        raise ExceptionGroup("two of three failed", [OSError("a"), OSError("b")])

    with rk.record("agent", store=store) as run, pytest.raises(ExceptionGroup):
        fan_out()

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Exception, match="two of three failed"):
        fan_out()


def test_modules_beside_the_agent_can_be_imported(billing: Path, agent: Agent) -> None:
    Path("helpers").mkdir()
    Path("helpers/words.py").write_text("GREETING = 'hello'")
    agent("from helpers.words import GREETING\ndef run(question): return GREETING")

    assert output_of(replayed(billing)) == "hello"


def test_an_agent_may_live_in_a_package_and_a_class(billing: Path) -> None:
    Path("shop/agents").mkdir(parents=True)
    Path("shop/agents/billing.py").write_text(
        "class Agent:\n    @staticmethod\n    def answer(question):\n        return 'from the class'"
    )

    result = rk.replay(billing, PythonCandidate("shop.agents.billing:Agent.answer"))

    assert output_of(result) == "from the class"


@sampled("code", ["0", "3", "'no more'", ""], count=2, start=1)
def test_sys_exit_is_the_agents_own_failure(billing: Path, agent: Agent, code: str) -> None:
    agent(LOOKUP + f"def run(question):\n    lookup('u1')\n    sys.exit({code})")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.REPRODUCED
    assert result.run is not None
    assert result.run.status == "error"
    assert result.run.error is not None
    assert result.run.error.type == "SystemExit"
    assert len(result.run.tool_calls) == 1, "what it did before is there"


@pytest.mark.parametrize(("code", "words"), [(0, "before it answered"), (3, "exit code 3")])
def test_an_agent_that_leaves_without_a_word_gives_no_answer(
    billing: Path, agent: Agent, code: int, words: str
) -> None:
    agent(f"def run(question): os._exit({code})")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert words in result.reason


def test_an_agent_that_leaves_with_the_code_of_the_loader_has_a_reason_too(billing: Path, agent: Agent) -> None:
    agent("def run(question): os._exit(70)")

    assert "exit code 70" in replayed(billing).reason


def test_a_crash_of_the_interpreter_is_named(billing: Path, agent: Agent) -> None:
    agent("import signal\ndef run(question): os.kill(os.getpid(), signal.SIGSEGV)")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "signal 11" in result.reason


def test_an_exception_of_the_agent_is_how_its_run_ended(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question):\n    lookup('u1')\n    raise LookupError('no such charge')")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.REPRODUCED
    assert result.run is not None
    assert (result.run.status, str(result.run.error)) == ("error", "LookupError: no such charge")
    assert result.run.error is not None
    assert "agent.py" in str(result.run.error.traceback)
    assert len(result.run.tool_calls) == 1


def test_an_exception_with_text_that_is_no_unicode_is_an_exception_like_any_other(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question):\n    lookup('u1')\n    raise ValueError('bad name \\udcff')")

    result = replayed(billing)

    assert result.run is not None, result.reason
    assert result.verdict is rk.Verdict.REPRODUCED


def test_the_agents_own_timeout_is_a_timeout(billing: Path, agent: Agent) -> None:
    agent("def run(question): raise TimeoutError('the model did not answer')")

    result = replayed(billing)

    assert result.run is not None
    assert result.run.status == "timeout"


def test_a_hang_leaves_what_was_done_so_far(billing: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent(LOOKUP + "def run(question):\n    lookup('u1')\n    time.sleep(600)")

    monkeypatch.setattr("replaykit.candidates.python._GRACE_S", 60)
    began = time.monotonic()
    result = replayed(billing, timeout_s=4, evidence="evidence")

    assert time.monotonic() - began < 60, "the process ends by itself, not by the grace that follows"
    assert result.verdict is rk.Verdict.BROKEN
    assert result.run is not None
    assert result.run.status == "timeout"
    assert "no answer within 4 s" in str(result.run.error)
    assert [call.result for call in result.run.tool_calls] == ["answer 0"]


def test_a_hang_of_an_async_agent_leaves_what_was_done_so_far(billing: Path, agent: Agent) -> None:
    agent("""
import asyncio

@rk.tool
async def lookup(user): ...

async def run(question):
    await asyncio.gather(lookup("u1"), lookup("u1"))
    await asyncio.Event().wait()
""")

    result = replayed(billing, timeout_s=4)

    assert result.run is not None
    assert (result.run.status, len(result.run.tool_calls)) == ("timeout", 2)


def test_a_hang_while_the_agent_is_imported_is_a_timeout(billing: Path, agent: Agent) -> None:
    agent("time.sleep(600)\ndef run(question): return 1")

    result = replayed(billing, timeout_s=0.5)

    assert result.run is not None
    assert result.run.status == "timeout"


def test_a_process_that_cannot_stop_itself_is_stopped(
    billing: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.candidates.python._GRACE_S", 0.3)
    agent("import signal\ndef run(question): os.kill(os.getpid(), signal.SIGSTOP)")

    result = replayed(billing, timeout_s=0.5)

    assert result.run is not None
    assert result.run.status == "timeout"


def test_an_async_agent_is_awaited(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    case = make_case(calls=[frozen(n, "lookup", n, n=n) for n in range(3)])
    agent("""
import asyncio

@rk.tool
async def lookup(n): raise AssertionError("live")

async def run(question):
    return await asyncio.gather(*(lookup(n) for n in range(3)))
""")

    assert output_of(replayed(case)) == [0, 1, 2]


def test_an_agent_with_several_parameters_gets_the_input_by_name(make_case: MakeCase, agent: Agent) -> None:
    agent("def run(question, user, limit=3): return [question, user, limit]")

    result = replayed(make_case(input={"user": "u1", "question": "why?"}))

    assert output_of(result) == ["why?", "u1", 3]


def test_an_agent_with_one_parameter_gets_the_input_as_it_is(make_case: MakeCase, agent: Agent) -> None:
    agent("def run(request): return sorted(request)")

    assert output_of(replayed(make_case(input={"user": "u1", "request": "why?"}))) == ["request", "user"]


def test_an_agent_without_parameters_gets_nothing(billing: Path, agent: Agent) -> None:
    agent("def run(): return 'alone'")

    assert output_of(replayed(billing)) == "alone"


@pytest.mark.parametrize("signature", ["*, question", "**given"])
def test_an_agent_that_takes_its_input_by_name_only_is_called_by_name(
    make_case: MakeCase, agent: Agent, signature: str
) -> None:
    agent(f"def run({signature}): return 'called'")

    assert output_of(replayed(make_case(input={"question": "why?"}))) == "called"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_agent_that_streams_is_run_to_its_end(billing: Path, agent: Agent, kind: str) -> None:
    agent(LOOKUP + f"{kind} run(question):\n    yield lookup('u1')\n    raise RuntimeError('it is still here')")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.REPRODUCED


@sampled("code", ["def run(a, b): ...", "async def run(a, *, b): ...", "def run(*, b): ..."], count=1, start=1)
def test_an_agent_that_cannot_be_called_with_the_input_reproduces_nothing(
    make_case: MakeCase, agent: Agent, code: str
) -> None:
    agent(code)
    case = make_case(observed=[{"status_is": "error"}])

    for result in (replayed(case), rk.replay(case, _defined(code))):
        assert result.verdict is rk.Verdict.INCONCLUSIVE
        assert "cannot be called with the input: " in result.reason
        assert "as its only argument" in result.reason


def _defined(code: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["run"]  # type: ignore[no-any-return]


def test_what_a_wrapper_adds_is_not_asked_of_the_input(make_case: MakeCase, agent: Agent) -> None:
    agent("""
        from functools import wraps
        def with_db(function):
            @wraps(function)
            def wrapped(question):
                return function(question, "db")
            return wrapped
        @with_db
        def run(question, db):
            return f"{question} {db}"
    """)

    assert "db" in output_of(replayed(make_case()))


@sampled(
    ("code", "spec", "words"),
    [
        ("", "no_such_module:run", "No module named 'no_such_module'"),
        ("", "agent:run", "has no attribute 'run'"),
        ("run = 42", "agent:run", "is of type int, which is not callable"),
        ("raise ImportError('no key')", "agent:run", "ImportError: no key"),
        ("1 / 0", "agent:run", "ZeroDivisionError"),
        ("sys.exit('wrong machine')", "agent:run", "SystemExit: wrong machine"),
        ("def run(:", "agent:run", "SyntaxError"),
        ("class A: pass", "agent:A.run", "has no attribute 'run'"),
    ],
    count=4,
)
def test_an_agent_that_cannot_be_loaded_is_an_error_with_its_reason(
    billing: Path, agent: Agent, code: str, spec: str, words: str
) -> None:
    agent(code)

    result = rk.replay(billing, PythonCandidate(spec))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert result.run is None
    assert words in result.reason
    assert repr(spec) in result.reason


def test_a_module_that_calls_its_tools_while_it_is_imported_is_not_let(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "ANSWER = lookup('u1')\ndef run(question): return ANSWER")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "the tool `lookup` was called while agent was imported" in result.reason
    assert not Path("touched").exists()


@pytest.mark.parametrize("spec", ["agent", "agent:", ":run", "agent.py run", "a-b:run", "agent:run()", ""])
def test_what_names_no_agent_is_wrong_usage(spec: str) -> None:
    with pytest.raises(UsageError, match="does not name an agent"):
        PythonCandidate(spec)


def test_threads_of_the_agent_are_served_and_stray_ones_do_not_hold_it(
    make_case: MakeCase, frozen: Any, agent: Agent
) -> None:
    case = make_case(calls=[frozen(n, "lookup", n * 10, n=n) for n in range(4)])
    agent("""
import threading
from concurrent.futures import ThreadPoolExecutor

@rk.tool
def lookup(n): raise AssertionError("live")

def run(question):
    threading.Thread(target=time.sleep, args=(600,)).start()
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lookup, range(4)))
""")

    began = time.monotonic()
    result = replayed(case)

    assert output_of(result) == [0, 10, 20, 30]
    assert time.monotonic() - began < 15


WORKER = """
import queue, socket, threading
asked, answered = queue.Queue(), queue.Queue()

def work():
    while True:
        question = asked.get()
        try:
            answered.put(question())
        except Exception as error:
            answered.put(str(error))

threading.Thread(target=work, daemon=True).start()
"""


def test_threads_that_were_there_before_the_run_do_not_reach_the_network(billing: Path, agent: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        agent(
            f"{WORKER}\ndef run(question):\n"
            f"    asked.put(lambda: socket.create_connection({place!r}, timeout=5) and 'connected')\n"
            "    return answered.get()"
        )

        result = replayed(billing)

    assert "a thread that was there before the run" in output_of(result)
    assert "network" in deviations(result)
    assert result.verdict is rk.Verdict.DIVERGED


def test_tools_of_threads_that_were_there_before_the_run_are_part_of_it(billing: Path, agent: Agent) -> None:
    agent(WORKER + LOOKUP + "def run(question):\n    asked.put(lambda: lookup('u1'))\n    return answered.get()")

    result = replayed(billing)

    assert result.run is not None
    assert [call.name for call in result.run.calls] == ["lookup"]
    assert {deviation.kind for deviation in result.deviations} == {"moved", "unused"}
    assert not Path("touched").exists()


def test_what_it_prints_does_not_disturb_its_output(
    billing: Path, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    agent("""def run(question):
        print('{"status": "error"}')
        print('oh', file=sys.stderr)
        return 'fine'
""")

    result = replayed(billing, evidence="evidence")

    assert output_of(result) == "fine"
    assert (Path(str(result.directory)) / "stdout.log").read_text() == '{"status": "error"}\n'
    assert (Path(str(result.directory)) / "stderr.log").read_text() == "oh\n"
    assert capfd.readouterr() == ("", "")


def test_an_agent_that_closes_stdout_still_gives_its_answer(billing: Path, agent: Agent) -> None:
    agent("def run(question):\n    sys.stdout.close()\n    return 'fine'")

    assert output_of(replayed(billing)) == "fine"


def test_an_agent_that_changes_its_directory_still_gives_its_answer(billing: Path, agent: Agent) -> None:
    agent("def run(question):\n    os.chdir('/')\n    os.environ.clear()\n    return 'fine'")

    assert output_of(replayed(billing)) == "fine"


def test_a_call_that_was_not_recorded_stops_the_agent_and_is_explained(
    billing: Path, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent(LOOKUP + "def run(question): return lookup('u2')")

    result = replayed(billing)
    code = cli(["replay", str(billing), "--agent", "agent:run"])

    assert result.verdict is rk.Verdict.DIVERGED
    assert deviations(result)[0] == "missing"
    assert "left its recording at call 1 of 2, tool `lookup`" in result.reason
    assert "recorded  lookup(user='u1')" in result.reason
    assert "now       lookup(user='u2')" in result.reason
    assert "$.user" in result.reason
    assert result.run is not None
    assert result.run.error is not None
    assert result.run.error.type == "Divergence"
    assert not Path("touched").exists()
    assert code == 1
    assert "left its recording" in capsys.readouterr().out


def test_an_agent_that_swallows_the_divergence_has_still_left_the_tape(billing: Path, agent: Agent) -> None:
    agent(
        LOOKUP
        + "def run(question):\n    try: lookup('u2')\n    except Exception: pass\n    return 'all is well, they say'"
    )

    result = replayed(billing)

    assert result.verdict is rk.Verdict.DIVERGED
    assert "left the tape" in result.reason
    assert result.reproduced is False


def test_a_call_made_more_often_than_recorded_is_a_miss(billing: Path, agent: Agent) -> None:
    agent(LOOKUP + "def run(question): return [lookup('u1') for _ in range(3)]")

    result = replayed(billing)

    assert result.verdict is rk.Verdict.DIVERGED
    assert "every recording of it has been served" in result.reason


def test_on_miss_repeat_serves_the_last_outcome_again(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    calls = [frozen(n, "lookup", f"answer {n}", user="u1") for n in range(2)]
    agent(LOOKUP + "def run(question): return [lookup('u1') for _ in range(4)]")

    result = replayed(make_case(calls=calls, match={"on_miss": "repeat"}))

    assert output_of(result) == ["answer 0", "answer 1", "answer 1", "answer 1"]
    assert deviations(result) == ["repeated", "repeated"]


def test_on_miss_repeat_does_not_invent_an_answer(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    agent(LOOKUP + "def run(question): return lookup('u2')")

    result = replayed(make_case(calls=[frozen(0, "lookup", "x", user="u1")], match={"on_miss": "repeat"}))

    assert result.verdict is rk.Verdict.DIVERGED
    assert deviations(result)[0] == "missing"


def test_on_miss_fault_raises_what_the_case_says(make_case: MakeCase, agent: Agent) -> None:
    case = make_case(match={"on_miss": "fault", "fault": {"type": "TimeoutError", "message": "gateway"}})
    agent(LOOKUP + "def run(question):\n    try: lookup('u2')\n    except TimeoutError as e: return f'caught {e}'")

    result = replayed(case)

    assert output_of(result) == "caught gateway"
    assert deviations(result) == ["fault"]
    assert not Path("touched").exists()


def test_on_miss_fault_raises_the_tools_own_exception(make_case: MakeCase, agent: Agent) -> None:
    case = make_case(match={"on_miss": "fault", "fault": {"type": "BillingTimeout", "message": "gateway"}})
    agent(
        "class BillingTimeout(Exception): pass\n"
        + LOOKUP
        + "def run(question):\n    try: lookup('u2')\n    except BillingTimeout as e: return f'caught {e}'"
    )

    assert output_of(replayed(case)) == "caught gateway"


def test_on_miss_live_calls_the_allowed_tool_and_no_other(make_case: MakeCase, agent: Agent) -> None:
    case = make_case(match={"on_miss": "live", "live": ["lookup"]})
    agent(
        LOOKUP + "@rk.tool\ndef refund(user):\n    Path('refunded').write_text('')\n\n"
        "def run(question):\n    found = lookup('u1')\n    refund('u1')\n    return found"
    )

    result = replayed(case, live=["lookup"])

    assert Path("touched").exists()
    assert not Path("refunded").exists()
    assert deviations(result) == ["live", "missing"]
    assert result.verdict is rk.Verdict.DIVERGED
    assert result.run is not None
    assert result.run.tool_calls[0].result == "live", "what came of the live call is in the run"


@pytest.mark.parametrize("tools", ["blocked", {"lookup": "blocked", "*": "recorded"}])
def test_a_blocked_tool_is_refused_even_when_it_was_recorded(
    make_case: MakeCase, frozen: Any, agent: Agent, tools: Any
) -> None:
    agent(LOOKUP + "def run(question): return lookup('u1')")

    result = replayed(make_case(calls=[frozen(0, "lookup", "x", user="u1")], tools=tools))

    assert result.verdict is rk.Verdict.DIVERGED
    assert deviations(result)[0] == "blocked"
    assert "the case blocks the tool `lookup`" in result.reason
    assert not Path("touched").exists()


def test_tools_may_be_live_one_by_one(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    calls = [frozen(0, "lookup", "taped", user="u1"), frozen(1, "other", "taped")]
    agent(LOOKUP + "@rk.tool\ndef other(): ...\ndef run(question): return [lookup('u1'), other()]")

    result = replayed(make_case(calls=calls, tools={"lookup": "live"}), live=["lookup"])

    assert output_of(result) == ["live", "taped"]
    assert "live" in deviations(result)


def test_ignored_paths_do_not_keep_a_call_from_its_answer(make_case: MakeCase, frozen: Any, agent: Agent) -> None:
    agent("@rk.tool\ndef lookup(user, request_id): ...\ndef run(question): return lookup('u1', 'now')")

    result = replayed(
        make_case(calls=[frozen(0, "lookup", "x", user="u1", request_id="then")], match={"ignore": ["$.request_id"]})
    )

    assert output_of(result) == "x"


@pytest.mark.parametrize(
    ("code", "output"),
    [
        pytest.param("def run(question): return 1", True, id="an answer"),
        pytest.param("def run(question): os._exit(3)", False, id="an agent that leaves"),
        pytest.param("raise ImportError('no key')", False, id="an agent that cannot be loaded"),
    ],
)
def test_only_the_files_of_the_evidence_are_left(billing: Path, agent: Agent, code: str, output: bool) -> None:
    agent(code)

    result = replayed(billing, evidence="evidence")

    names = {"result.json", "summary.md", "stdout.log", "stderr.log"} | ({"runner-output.json"} if output else set())
    assert {file.name for file in Path(str(result.directory)).iterdir()} == names
