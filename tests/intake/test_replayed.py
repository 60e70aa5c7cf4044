"""An imported failure guards a change, whatever format it comes in: the old agent reproduces it, a fixed one does not.

The agents here call their tools as the recorded ones did. No tool is ever run: what it answers comes from the case.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.formats.samples import DATA, sample, samples_below, unpacked
from tests.formats.story import ANSWER, PROBLEM
from tests.intake.traces import failed, lines, native, written
from tests.matrix import sampled

import replaykit as rk
from replaykit.cases.detect_outcome import mask
from replaykit.cases.promote import Promoted, promote
from replaykit.cases.timeline import FILL_IN
from replaykit.errors import UsageError
from replaykit.formats.core.source import read_source
from replaykit.formats.files import find_runs
from replaykit.model.matching import ToolErrors
from replaykit.model.run import TraceRun

Run = Callable[..., Any]
ESCALATED = "Order W123 could not be refunded: I escalated it to a person."

LIVE: list[str] = []
"""The tools whose own code ran."""
CAUGHT: list[BaseException] = []
"""What agents caught of tools."""


@pytest.fixture(autouse=True)
def no_tool_runs() -> Iterator[None]:
    LIVE.clear()
    CAUGHT.clear()
    yield
    assert LIVE == []


@rk.tool
def get_order(order_id: str) -> Any:
    LIVE.append("get_order")


@rk.tool
def get_user(user_id: str) -> Any:
    LIVE.append("get_user")


@rk.tool
def refund_order(order_id: str, amount: float) -> Any:
    LIVE.append("refund_order")


@rk.tool
def exec_tool(n: str, a: dict[str, Any], i: str) -> Any:
    LIVE.append("exec_tool")


@rk.tool
def send_message(message: dict[str, Any]) -> Any:
    LIVE.append("send_message")


@rk.tool(name="Read")
def read(file_path: str) -> Any:
    LIVE.append("Read")


@rk.tool(name="Bash")
def bash(command: str, description: str) -> Any:
    LIVE.append("Bash")


TOOLS: dict[str, Callable[..., Any]] = {
    "get_order": get_order,
    "get_user": get_user,
    "refund_order": refund_order,
    "exec_tool": exec_tool,
    "send_message": send_message,
    "Read": read,
    "Bash": bash,
}
Call = tuple[str, dict[str, Any]]

ORDER: Call = ("get_order", {"order_id": "W123"})
USER: Call = ("get_user", {"user_id": "u9"})
REFUND: Call = ("refund_order", {"order_id": "W123", "amount": 59.9})


def traced(name: str, arguments: dict[str, Any], call_id: str) -> Call:
    """A call as the agent's own function `exec_tool` saw it, where only that was traced."""
    return ("exec_tool", {"n": name, "a": arguments, "i": call_id})


class Telling(NamedTuple):
    """How the recorded agent went wrong: what it called, and how it ended."""

    calls: tuple[Call, ...] = (ORDER, USER, REFUND)
    crash: str | None = None
    """The words of the error that it ended with; none where it answered, `*` where it let the tool's error pass."""

    def agent(self, _question: Any = None) -> str:
        """The agent as it was."""
        for name, arguments in self.calls:
            try:
                TOOLS[name](**arguments)
            except Exception as error:
                CAUGHT.append(error)
                if self.crash == "*":
                    raise
        if self.crash is not None:
            raise RuntimeError(self.crash)
        return ANSWER

    def fixed(self, _question: Any = None) -> str:
        """The agent that tries again once, and says what became of it."""
        for name, arguments in self.calls:
            for _attempt in range(2):
                try:
                    TOOLS[name](**arguments)
                    break
                except Exception as error:
                    CAUGHT.append(error)
        return ESCALATED


ADMITTED = Telling()
CRASHED = Telling(crash="*")
TRACED = Telling(
    (traced(*ORDER, "call_A1"), traced(*USER, "call_B2"), traced(*REFUND, "call_C3")),
)
CODING = Telling(
    (
        ("Read", {"file_path": "/home/dev/agentapp/ccproj/missing.txt"}),
        ("Bash", {"command": "ls; cat notes.txt", "description": "list"}),
        ("Bash", {"command": "exit 3", "description": "fail"}),
    )
)
ASKED: Call = ("send_message", {"message": {"role": "user", "parts": [{"text": "Refund my order W123, I'm user u9."}]}})

OTHERWISE = {
    "a2a/task_v1.json": Telling((ASKED,), crash="*"),
    "ag_ui/events.jsonl": Telling((ORDER, USER), crash="payment gateway timed out"),
    "ag_ui/events.sse": Telling((ORDER, USER), crash="payment gateway timed out"),
    "atif/claude_code_converted.json": CODING,
    "claude_code/session.jsonl": CODING,
    "claude_code/stream_json_output.jsonl": CODING,
    "langsmith/merged_runs_0_LangGraph.json": CRASHED,
    "langsmith/merged_runs_1_support_agent.json": TRACED,
    "langsmith/merged_runs_2_support_agent_stream.json": TRACED,
    "langsmith/runs_batch_bodies.json": CRASHED,
    "mlflow/trace_error.json": Telling((traced("refund_order", {"order_id": "W1", "amount": 1.0}, "c"),), crash="*"),
    "openai_agents/max_turns_trace.json": Telling((ORDER, USER), crash="Max turns (1) exceeded"),
    "openai_agents/tool_exception_trace.json": Telling(crash=f"Error running tool refund_order: {PROBLEM}"),
    "openinference/langgraph_agent_tool_error": CRASHED,
    "pydantic_ai/errors_v2": CRASHED,
}
"""Samples in which it went otherwise than in the story, by how their names begin."""

TOO_LITTLE = {
    "a2a/stream_responses_v1.json": "historyLength",
    "anthropic_messages/stream_events.json": "Log each request beside its response.",
    "openai_responses/stream_events.json": "Log each request beside its response.",
}
"""Samples that say too little for a case, and what would help."""

NO_FAILURE_OF_TOOLS = (
    "anthropic_messages/error.json",
    "langsmith/run_v1_real_abridged.json",
    "langsmith/sdk_test_data/",
    "langsmith/webhook_payload_docs.json",
    "mlflow/trace_stream.json",
    "openai_agents/model_error_trace.json",
    "openai_chat/error.json",
    "openinference/openai_responses_and_error",
    "openllmetry/stream_error_anthropic_responses",
    "otel_genai/openai_v2_legacy_events.otlp_logs",
    "otel_genai/openai_v2_semconv_latest",  # holds the story twice; see below
    "vercel_ai_sdk/error",
    "vercel_ai_sdk_v7/error",
    "vercel_ai_sdk_v7/generateText_response_messages.json",
)
"""Samples that tell of something else: a model that refuses, one call alone, an end without its beginning."""

SILENT = ("openai_agents/", "vercel_ai_sdk_v7/streamText_fullStream_parts.json")
"""Where the SDK keeps the words of a tool's error to itself, or what a tool raised is told in the run's error."""

REPLAYED = [
    name
    for name in samples_below("")
    if name not in TOO_LITTLE and not name.startswith(NO_FAILURE_OF_TOOLS) and not name.endswith("LICENSE")
]


def telling(name: str) -> Telling:
    return next((told for start, told in OTHERWISE.items() if name.startswith(start)), ADMITTED)


def run_id(name: str, told: Telling) -> str:
    """The run of the sample that made these calls."""
    wanted = sorted(tool for tool, _arguments in told.calls)
    runs = [run for run in find_runs(read_source(sample(name))) if isinstance(run, TraceRun)]
    return next(run.id for run in runs if sorted(call.name for call in run.tool_calls) == wanted)


def made(name: str) -> Promoted:
    return promote(str(sample(name)), "cases/x", run_id=run_id(name, telling(name)))


def with_raising_tools(case: rk.ReplayCase) -> rk.ReplayCase:
    """The case as somebody sets it up whose tools raise, where the trace does not say whether they did."""
    if not case.scenario.tool_errors:
        return case
    scenario = msgspec.structs.replace(case.scenario, tool_errors=(("*", ToolErrors.RAISED),))
    return msgspec.structs.replace(case, scenario=scenario)


def kinds(case: rk.ReplayCase) -> list[str]:
    return [one.kind for one in case.observed]


@sampled("name", REPLAYED, count=12)
def test_the_agent_as_it_was_reproduces_the_failure_and_one_that_tries_again_does_not(name: str) -> None:
    told = telling(name)
    case = with_raising_tools(made(name).case)

    before = rk.replay(case, told.agent)
    caught = [str(error) for error in CAUGHT]
    after = rk.replay(case, told.fixed)

    assert before.verdict == "reproduced", before.reason
    # Some scripted sessions end with an answer about an order that nothing in them mentions: trying again mends no lie.
    assert after.verdict == ("broken" if "output.grounded" in kinds(case) else "fixed"), after.reason
    assert [one.kind for one in (*before.deviations, *after.deviations) if one.kind not in ("unused", "repeated")] == []
    if told in (ADMITTED, CRASHED, TRACED) and not name.startswith(SILENT):
        assert len(caught) == 1
        assert PROBLEM in caught[0]


@sampled("name", REPLAYED, count=12, start=1)
def test_the_case_names_the_failure_as_a_person_would(name: str) -> None:
    told = telling(name)
    case = made(name).case

    assert ("status_is" in kinds(case)) is (told.crash is not None)
    assert ("final_output_exists" in kinds(case)) is (told.crash is not None), "what a trace leaves out is no failure"
    if told in (ADMITTED, CRASHED):
        assert "tool.unretried_error" in kinds(case)
        assert "run.error" not in kinds(case), "the tool's failure says it all"
        assert "refund_order failed and was not retried" in case.title
    notes = Path("cases/x/notes.md").read_text()
    assert "imported (" in notes
    assert ("The trace does not say what the run was given" in notes) is (case.scenario.input is None)


@pytest.mark.parametrize(("name", "lack"), TOO_LITTLE.items())
def test_a_trace_that_tells_too_little_is_refused_with_what_would_help(name: str, lack: str) -> None:
    with pytest.raises(UsageError, match="too incomplete for a case") as caught:
        promote(str(sample(name)), "cases/x")

    assert lack in str(caught.value)
    assert not Path("cases").exists()


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "openai_agents/responses_model_trace.json",
            [
                "The trace does not say what the run was given: write it into \\`scenario.input\\`.",
                "The trace does not say what the run answered: \\`observed\\` says nothing of it.",
                "2 of 6 calls can be replayed exactly (messages, result missing, values hidden).",
                "or keep \\`result.to_input_list()\\` and import that.",
            ],
        ),
        ("langchain/langgraph_stream_updates.json", ["gpt-4o-mini-2024-07-18 (event 0): no messages"]),
        ("vercel_ai_sdk_v7/streamText_fullStream_parts.json", ["refund_order (event 4): a value is hidden"]),
        ("otel_genai/openai_v2_legacy_events.otlp.json", ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"]),
    ],
)
def test_the_notes_say_what_the_format_lacks(name: str, lines: list[str]) -> None:
    made(name)

    told = Path("cases/x/notes.md").read_text().partition("## About the import")[2].partition("## Timeline")[0]
    assert [line for line in lines if line not in told] == []


def test_the_notes_tell_what_a_model_said_and_asked_for() -> None:
    made("anthropic_messages/messages.json")

    notes = Path("cases/x/notes.md").read_text()
    asked = '> Let me look that up.  \n> → get_order({"order_id":"W123"})  \n> → get_user({"user_id":"u9"})  \n'
    assert asked in notes
    assert f"> {ANSWER}  \n" in notes


def test_the_notes_tell_who_judged_a_run() -> None:
    (name,) = (name for name in samples_below("inspect_ai") if name.endswith(".eval"))

    case = made(name).case

    assert case.title == "The answer does not say refunded; refund_order failed and was not retried"
    assert 'status error: Judged: includes is "I"' in Path("cases/x/notes.md").read_text()


def test_a_tool_that_was_tried_again_and_failed_again_is_nothing_a_detector_knows() -> None:
    """This trace holds the story twice, so the agent did try again; it is for a person to say what was wrong."""
    file = sample("otel_genai/openai_v2_semconv_latest.otlp.json")
    run = next(run for run in find_runs(read_source(file)) if isinstance(run, TraceRun) and run.tool_calls)

    found = promote(str(file), "cases/x", run_id=run.id)

    assert found.case.observed == ()
    assert FILL_IN in Path("cases/x/notes.md").read_text()


AGENT = """
import replaykit as rk

@rk.tool
def get_order(order_id): raise SystemExit("a tool ran")

@rk.tool
def get_user(user_id): raise SystemExit("a tool ran")

@rk.tool
def refund_order(order_id, amount): raise SystemExit("a tool ran")

def answer(question, tries=1):
    get_order(order_id="W123")
    get_user(user_id="u9")
    for _attempt in range(tries):
        try:
            refund_order(order_id="W123", amount=59.9)
        except Exception:
            continue
    return "I could not refund order W123: the payment gateway timed out."

def fixed(question):
    return answer(question, tries=2)
"""


@sampled(
    ("name", "format"),
    [
        ("openai_chat/messages.json", "openai_chat"),
        ("langfuse/sdk_otel_spans.otlp.json", "otlp"),
        ("pydantic_ai/all_messages.json", "pydantic_ai"),
    ],
    count=1,
    start=1,
)
def test_a_trace_goes_all_the_way_through_the_commands(replaykit: Run, name: str, format: str) -> None:
    file = written("trace.json", unpacked(sample(name)))
    written("support.py", AGENT.encode())
    chosen = run_id(name, ADMITTED)

    imported = replaykit("import", file, "--json")
    shown = replaykit("scaffold", file, "--select", chosen[:12], "--out", "cases/refund")
    kept = replaykit("scaffold", chosen, "--out", "cases/again")  # the same run, out of the store
    linted = replaykit("lint", "cases")
    old = replaykit("replay", "cases/refund", "--agent", "support:answer", "--json")
    new = replaykit("replay", "cases/refund", "cases/again", "--agent", "support:fixed")

    assert (imported.code, imported.results[chosen]) == (0, "imported")
    assert {entry["format"] for entry in imported.entries} == {format}
    assert (shown.code, kept.code, linted.code) == (0, 0, 0), (shown.err, kept.err, linted.out)
    assert old.code == 1
    assert '"verdict": "reproduced"' in old.out
    assert new.code == 0, new.out
    assert rk.load_case("cases/refund").observed == rk.load_case("cases/again").observed


def test_files_that_come_in_twice_are_the_same_runs(replaykit: Run) -> None:
    first = replaykit("import", DATA / "samples", "--json")
    again = replaykit("import", DATA / "samples", "--json")

    came = [entry for entry in first.entries if not entry["problem"]]
    told = [entry for entry in again.entries if not entry["problem"]]
    assert [entry["run"] for entry in came] == [entry["run"] for entry in told]
    assert {entry["result"] for entry in told} <= {"unchanged", "updated", "there"}
    # Two of the files tell of one task, and differ in how much they say.
    assert {entry["run"] for entry in told if entry["result"] == "updated"} == {"task-1"}
    assert [entry["problem"] for entry in first.entries] == [entry["problem"] for entry in again.entries]


@pytest.mark.exhaustive
def test_a_directory_of_all_formats_becomes_one_case_for_each_failure(replaykit: Run) -> None:
    ran = replaykit("import", DATA / "samples", "--scaffold", "cases", "--json")

    cases = {case.name: rk.load_case(case) for case in Path("cases").iterdir()}
    agents = {entry["run"]: entry["agent"] or entry["name"] for entry in ran.entries}
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        runs = [store.load(case.source.run or "") for case in cases.values()]
    failures = [(agents[run.id], tuple(mask(found.text) for found in rk.detect(run))) for run in runs]
    assert len(failures) == len(set(failures)), "no failure of an agent twice"
    found = [entry for entry in ran.entries if entry["case"]]
    assert len(found) > 2 * len(cases), "most of the files tell of a failure that another one has told"
    assert {Path(entry["case"]["directory"]).name for entry in found} == cases.keys()
    assert replaykit("lint", "cases").code == 0

    before = {file: file.read_bytes() for file in Path("cases").rglob("*") if file.is_file()}
    again = replaykit("import", DATA / "samples", "--scaffold", "cases", "--json")
    assert {entry["case"]["result"] for entry in again.entries if entry["case"]} == {"there", "same"}
    assert {file: file.read_bytes() for file in Path("cases").rglob("*") if file.is_file()} == before


def refused(run_id: str, said: str) -> dict[str, Any]:
    """A run that ended with what its only tool said."""
    events = [
        {"type": "tool_call", "tool_name": "pay", "tool_args": {"id": run_id}, "error": said},
        {"type": "error", "message": said},
    ]
    return native(run_id, status="error", agent="shop", events=events)


def test_one_tool_that_fails_in_two_ways_makes_two_cases(replaykit: Run) -> None:
    late = [
        refused(day, f"the gateway gave no answer within {seconds} s") for day, seconds in (("mon", 30), ("tue", 31))
    ]
    written("runs.jsonl", lines([*late, refused("wed", "the card was declined by its bank")]))

    replaykit("import", "runs.jsonl", "--scaffold", "cases")
    assert sorted(case.name for case in Path("cases").iterdir()) == ["mon", "wed"]

    later = [refused("thu", "the card was declined by its bank"), refused("fri", "the vault is locked for the night")]
    ran = replaykit("import", written("later.jsonl", lines(later)), "--scaffold", "cases", "--json")
    assert [entry["case"]["result"] for entry in ran.entries] == ["same", "made"], "told from what the cases hold"


def test_a_problem_says_which_file_it_is_in(replaykit: Run) -> None:
    spans, printed = (unpacked(sample(f"langfuse/sdk_otel_spans.{kind}.json")) for kind in ("otlp", "sdk_to_json"))

    files = written("spans.json", spans), written("printed.json", printed), written("cut.json", spans[:99])

    ran = replaykit("import", *files, "--json")

    assert [entry["result"] for entry in ran.entries] == ["imported"] * 2 + ["there"] * 2 + ["failed"]
    assert (ran.code, "error: cut.json" in ran.err) == (1, True)


def test_where_a_case_is_can_be_read_in_a_narrow_window(replaykit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "a-run-with-a-name-that-is-longer-than-the-window"
    written("runs.jsonl", lines([failed(name), failed("second")]))

    ran = replaykit("import", "runs.jsonl", "--scaffold", "cases")

    assert f"cases/{name} (it failed as {name} did)" in " ".join(ran.out.split())


def test_the_whole_table_of_samples_is_told() -> None:
    """A sample that nobody looks at would guard nothing."""
    formats = {Path(name).parts[0] for name in samples_below("")}

    assert formats - {Path(name).parts[0] for name in REPLAYED} == set()
    assert not [start for start in (*OTHERWISE, *TOO_LITTLE) if not any(n.startswith(start) for n in samples_below(""))]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nowhere.json"], 1, "nowhere.json: no such file or directory"),
        (["langsmit"], 2, "langsmit: no such file or directory; did you mean 'langsmith'?"),
        (["paper.pdf"], 1, "paper.pdf: not a trace of a known format\nIf it is one, name its format with --format;"),
        (["good.json", "--format", "replay-kit"], 2, "unknown format 'replay-kit'; did you mean 'replaykit'?"),
        (["good.json", "--filter", "error"], 2, "expected KEY=VALUE\nSuch as --filter status=error"),
        (["good.json", "--filter", "agent"], 2, "expected KEY=VALUE\nSuch as --filter agent=NAME"),
        (["good.json", "--since", "yesterday"], 2, "Write --since 7d, --since 24h or --since 2026-02-15"),
        (["good.json", "--scaffold", "cases"], 0, "no run failed, so no case was made"),
    ],
)
def test_who_types_something_wrong_is_told_what_to_type(
    replaykit: Run, arguments: list[str], code: int, told: str
) -> None:
    written("paper.pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n")
    written("good.json", native("good"))

    ran = replaykit("import", *arguments)

    assert ran.code == code
    assert told in ran.err


def test_an_empty_pipe_is_called_one(replaykit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    ran = replaykit("import", "-")

    assert (ran.code, ran.out) == (1, "1 failed\n")
    assert "-: the pipe was empty" in ran.err


def test_a_note_about_cases_is_not_made_where_a_run_failed(replaykit: Run) -> None:
    written("runs.jsonl", lines([native("good"), failed("bad")]))

    assert "no run failed" not in replaykit("import", "runs.jsonl", "--scaffold", "cases").err
