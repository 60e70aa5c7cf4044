"""Sessions of Claude Code: their branches, their sub-agents, and whatever else their lines say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.errand import check_errand
from tests.formats.samples import corpora_below, corpus, sample, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.model.events import ErrorEvent, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun


class Chat:
    """Writes the lines of a session, each after the one before it unless told otherwise."""

    def __init__(self, session: str = "s1") -> None:
        self.session = session
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None

    def line(self, kind: str, **more: Any) -> str:
        number = len(self.lines)
        uuid = more.pop("uuid", f"{self.session}-{number}")
        common = {"type": kind, "uuid": uuid, "parentUuid": self.last, "sessionId": self.session, "isSidechain": False}
        stamp = {"timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z", "version": "2.0.0"}
        self.lines.append(common | stamp | more)
        self.last = uuid
        return uuid

    def asks(self, text: str, **more: Any) -> str:
        return self.line("user", message={"role": "user", "content": text}, **more)

    def answers(self, *blocks: Any, id: str = "", **more: Any) -> str:
        """One line, of an answer of its own unless told which."""
        told = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        message = {
            "id": id or f"msg_{self.session}_{len(self.lines)}",
            "role": "assistant",
            "model": "claude-x",
            "content": told,
        }
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1, "output_tokens": 3}
        return self.line("assistant", message={**message, "usage": usage, "stop_reason": None}, **more)

    def returns(self, call: str, content: Any, **more: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        block |= {key: more.pop(key) for key in ("is_error",) if key in more}
        return self.line("user", message={"role": "user", "content": [block]}, **more)


def use(call: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def read(*chats: Chat) -> Imported:
    return import_source(Source(as_lines([line for chat in chats for line in chat.lines]), "s.jsonl"))


def only(*chats: Chat) -> TraceRun:
    (run,) = read(*chats).runs
    return run


def said(call: LlmCall) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in call.arguments["messages"]]


def test_a_real_session_is_the_errand_it_was_run_for():
    (run,) = import_trace(sample("claude_code/session.jsonl")).runs

    check_errand(run)
    first = run.llm_calls[0].arguments
    assert first["system"][0]["text"] == "You are a Claude agent, built on Anthropic's Claude Agent SDK."
    assert "Bash" in [tool["name"] for tool in first["tools"]]
    assert first["parameters"]["max_tokens"] == 32000
    assert run.tool_calls[1].result["stdout"] == "notes.txt\nhello"
    assert run.metadata["cost_usd"] == 0.0060552
    assert run.metadata["cwd"] == "/home/dev/agentapp/ccproj"


@pytest.mark.parametrize("name", corpora_below("claude-code"))
def test_every_session_of_the_corpus_is_read_and_nothing_lost(name):
    imported = import_trace(corpus(name))
    lines = [json.loads(line) for line in unpacked(corpus(name)).splitlines()]
    talk = [line for line in lines if isinstance(line, dict) and "message" in line]
    answers = {line["message"]["id"]: line["message"] for line in talk if line["type"] == "assistant"}
    blocks = [
        block
        for line in talk
        if isinstance(line["message"], dict)
        for block in line["message"].get("content", ())
        if isinstance(block, dict)
    ]

    assert imported.left_out == ()
    runs = imported.runs
    assert {run.id for run in runs} == {line["sessionId"] for line in talk}
    assert len([call for run in runs for call in run.llm_calls]) == len(answers)
    calls = [call for run in runs for call in run.tool_calls]
    assert len(calls) == len([block for block in blocks if block["type"] == "tool_use"])
    assert len([call for call in calls if call.error]) == len([block for block in blocks if block.get("is_error")])
    tokens = sum(call.usage.input_tokens for run in runs for call in run.llm_calls)
    assert tokens == sum(
        count for message in answers.values() for key, count in message["usage"].items() if "input_tokens" in key
    )
    # All of them end with what a user says, or with a call that did not return.
    assert {run.status for run in runs} == {RunStatus.ERROR}


def test_what_is_no_line_of_a_session_is_counted():
    assert import_trace(corpus("claude-code/test_data__edge_cases.jsonl")).notes == (
        "lines that do not belong to a session: 4",
        "messages that are empty, or of an unknown form: 2",
    )


def test_an_answer_of_several_lines_is_one_call_and_its_tokens_count_once():
    chat = Chat()
    chat.asks("Go")
    chat.answers({"type": "thinking", "thinking": "hm"}, id="m")
    chat.answers("Both.", id="m")
    chat.answers(use("c1", cmd="a"), id="m")
    chat.answers(use("c2", cmd="b"), id="m")
    chat.answers(use("c2", cmd="b"), id="m")
    chat.returns("c1", "A")
    chat.returns("c2", "B")
    chat.answers("Done.")

    run = only(chat)

    first, last = run.llm_calls
    assert first.result["content"] == "Both."
    assert first.result["thinking"] == "hm"
    assert [call["id"] for call in first.result["tool_calls"]] == ["c1", "c2"]
    assert first.usage == Usage(input_tokens=16, output_tokens=3)
    assert [call.result for call in run.tool_calls] == ["A", "B"]
    assert run.output == "Done."
    assert run.status is RunStatus.SUCCESS
    assert [role for role, _text in said(last)] == ["user", "assistant", "tool", "tool"]


def test_results_that_follow_their_own_calls_are_all_part_of_the_branch():
    chat = Chat()
    chat.asks("Go")
    one = chat.answers(use("c1"), id="m")
    chat.answers(use("c2"), id="m")
    chat.returns("c2", "B")
    after = chat.last
    chat.last = one
    chat.returns("c1", "A")
    chat.last = after
    chat.answers("Done.")

    imported = read(chat)

    (run,) = imported.runs
    assert [call.result for call in run.tool_calls] == ["A", "B"]
    assert imported.notes == ()


def test_a_session_that_was_rewound_is_its_newest_branch_and_the_one_that_was_left_a_run_of_its_own():
    chat = Chat()
    start = chat.asks("Go")
    chat.answers(use("c1"))
    chat.returns("c1", "A")
    chat.answers("Wrong.")
    chat.last = start
    chat.asks("No, like this.")
    chat.answers("Right.")
    chat.last = start
    chat.asks("Never mind.", timestamp="2025-01-01T00:00:00Z")

    imported = read(chat)

    run, left = imported.runs
    assert (run.id, run.output, run.tool_calls) == ("s1", "Right.", [])
    assert said(run.llm_calls[0])[-1] == ("user", "No, like this.")
    assert (left.id, left.output, left.tags) == ("s1-rewound-s1-3", "Wrong.", ("rewound",))
    assert imported.notes == ("session s1 was rewound, branches left: 2; those with calls are runs of their own",)


def test_a_rewind_to_the_very_start_makes_a_second_beginning():
    chat = Chat()
    chat.asks("Go")
    chat.answers("Wrong.")
    chat.last = None
    chat.asks("Go, but well.")
    chat.answers("Right.")

    run, left = read(chat).runs

    assert (run.input, run.output) == ("Go, but well.", "Right.")
    assert (left.input, left.output) == ("Go", "Wrong.")


def test_the_chain_goes_on_through_lines_of_other_types():
    chat = Chat()
    chat.asks("Go")
    chat.line("attachment", attachment={"type": "x"}, rendered=[{"content": "Today is Monday."}], renderedRole="system")
    chat.line("of-a-later-version", content={"a": 1})
    chat.line("progress", data={"type": "hook_progress"})
    chat.answers("Done.")
    chat.line("system", subtype="turn_duration", durationMs=7)

    run = only(chat)

    assert said(run.llm_calls[0]) == [("user", "Go"), ("system", "Today is Monday.")]
    assert [(e.name, e.content) for e in run.events if isinstance(e, Note)] == [("turn_duration", {"durationMs": 7})]


def test_the_system_prompt_is_what_was_sent_or_else_what_a_line_keeps_of_it():
    chat = Chat()
    chat.asks("Go")
    chat.line("attachment", attachment={"type": "prompt_snapshot", "systemPrompt": ["Be kind.", "Be brief."]})
    kept = only_after(chat, {})
    shape = {
        "type": "api-request-shape",
        "sessionId": "s1",
        "shapeHash": "h",
        "shape": {"system": "Sent.", "tools": [1]},
    }
    request = {"type": "api-request", "sessionId": "s1", "id": "r1", "shapeHash": "h", "params": {"max_tokens": 9}}
    chat.lines += [shape, request]
    sent = only_after(chat, {"requestRef": "r1"})

    assert kept.llm_calls[0].arguments["system"] == "Be kind.\n\nBe brief."
    asked = sent.llm_calls[0].arguments
    assert (asked["system"], asked["tools"], asked["parameters"]) == ("Sent.", [1], {"max_tokens": 9})


def only_after(chat: Chat, more: dict[str, Any]) -> TraceRun:
    whole = Chat()
    whole.lines, whole.last = list(chat.lines), chat.last
    whole.answers("Done.", **more)
    return only(whole)


def test_several_sessions_in_a_file_are_several_runs_and_one_that_was_resumed_is_one():
    first, second = Chat("a"), Chat("b")
    first.asks("One")
    first.answers("1")
    second.asks("Two")
    resumed = Chat("c")
    resumed.last = first.last
    resumed.asks("And?")
    resumed.answers("3")

    one, two = read(first, second, resumed).runs

    assert (one.id, one.output, len(one.llm_calls)) == ("c", "3", 2)
    assert (two.id, two.status) == ("b", RunStatus.ERROR)


def test_lines_that_are_repeated_count_once():
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c1"))
    chat.returns("c1", "A")
    chat.answers("Done.")
    once = only(chat)
    chat.lines += chat.lines[1:3]

    assert only(chat) == once


def test_a_bad_line_is_told_with_its_number_and_the_rest_is_one_conversation():
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c1"))
    chat.returns("c1", "A")
    chat.answers("Done.")
    text = as_lines(chat.lines).splitlines(keepends=True)
    text[2] = text[2][:40] + b"\n"

    imported = import_source(Source(b"".join(text), "s.jsonl"))

    assert imported.left_out == ("s.jsonl:3: not JSON: unexpected end of data",)
    (run,) = imported.runs
    assert run.output == "Done."
    assert [lacking.lacks for lacking in replayability(run).lacking] == [(Lack.RESULT,)]


def agent_lines(prompt: str, agent: str = "", session: str = "s1") -> list[dict[str, Any]]:
    side = Chat(session)
    more: dict[str, Any] = {"isSidechain": True} | ({"agentId": agent} if agent else {})
    side.asks(prompt, uuid=f"{agent}-{prompt}-0", **more)
    side.answers(use(f"in {prompt}", "Grep", q="x"), uuid=f"{agent}-{prompt}-1", id=f"{prompt} 1", **more)
    side.returns(f"in {prompt}", "found", uuid=f"{agent}-{prompt}-2", **more)
    side.answers("Here.", uuid=f"{agent}-{prompt}-3", id=f"{prompt} 2", **more)
    return side.lines


def delegating(agent: str = "") -> Chat:
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c1", "Task", prompt="Look here"), use("c2", "Task", prompt="Look there"))
    more = {"toolUseResult": {"agentId": agent, "content": "Here."}} if agent else {}
    chat.returns("c1", [{"type": "text", "text": "Here."}], **more)
    chat.returns("c2", "There.")
    chat.answers("Done.")
    return chat


def inside(run: TraceRun, name: str, number: int = 0) -> list[Any]:
    outer = [event for event in run.events if isinstance(event, ToolCall) and event.name == name][number]
    return [event for event in run.events if event.parent == outer.seq]


def test_a_sub_agent_in_the_same_file_is_inside_of_the_call_that_asked_it():
    chat = delegating()
    chat.lines[2:2] = agent_lines("Look there") + agent_lines("Look here")

    run = only(chat)

    assert [call.name for call in run.tool_calls] == ["Task", "Task"]
    for number, prompt in enumerate(("Look here", "Look there")):
        first, grep, last = inside(run, "Task", number)
        assert said(first) == [("user", prompt)]
        assert (grep.name, grep.result) == ("Grep", "found")
        assert last.result["content"] == "Here."
    assert len(said(run.llm_calls[-1])) == 4, "the agent itself hears nothing of it"


@pytest.mark.parametrize("place", ["s1/subagents/agent-7.jsonl", "agent-7.jsonl", "s1/subagents/agent-7.jsonl.zst"])
def test_a_sub_agent_beside_the_session_is_inside_of_the_call_whose_result_names_it(tmp_path, place):
    (tmp_path / "s1.jsonl").write_bytes(as_lines(delegating("7").lines))
    beside = tmp_path / place
    beside.parent.mkdir(parents=True, exist_ok=True)
    text = as_lines(agent_lines("said otherwise", "7"))
    beside.write_bytes(zstandard.compress(text) if beside.suffix == ".zst" else text)

    (run,) = import_trace(tmp_path / "s1.jsonl").runs

    assert len(inside(run, "Task", 0)) == 3
    assert inside(run, "Task", 1) == []
    assert run.tool_calls[0].result == {"agentId": "7", "content": "Here."}


def test_a_bad_line_beside_the_session_is_told_with_its_own_file(tmp_path):
    (tmp_path / "s1.jsonl").write_bytes(as_lines(delegating("7").lines))
    beside = tmp_path / "agent-7.jsonl"
    beside.write_bytes(as_lines(agent_lines("x", "7")) + b"{\n")

    imported = import_trace(tmp_path / "s1.jsonl")

    assert len(imported.left_out) == 1
    assert f"{beside}:5" in imported.left_out[0]
    assert len(inside(imported.runs[0], "Task", 0)) == 3


def test_a_name_of_an_agent_never_leads_out_of_the_directory(tmp_path):
    room = tmp_path / "room"
    (room / "agent-x").mkdir(parents=True)
    (tmp_path / "agent-7.jsonl").write_bytes(as_lines(agent_lines("x", "7")))
    for agent in ("/../../agent-7", "../agent-7", "x/../../agent-7"):
        (room / "s1.jsonl").write_bytes(as_lines(delegating(agent).lines))

        (run,) = import_trace(room / "s1.jsonl").runs

        assert inside(run, "Task", 0) == []


def test_a_sub_agent_that_no_call_started_is_a_run_of_its_own():
    chat = delegating()
    chat.lines += agent_lines("Something else", "7")

    run, alone = read(chat).runs

    assert inside(run, "Task", 0) == []
    assert (alone.id, alone.input, alone.output, alone.tags) == (
        "s1-agent-7",
        "Something else",
        "Here.",
        ("sub-agent",),
    )


def test_the_file_of_a_sub_agent_is_a_run_that_is_not_the_session(tmp_path):
    file = tmp_path / "agent-7.jsonl"
    file.write_bytes(as_lines(agent_lines("Look", "7")))

    (run,) = import_trace(file).runs

    assert run.id == "s1-agent-7"


def test_sub_agents_of_sub_agents_are_inside_of_them_and_a_circle_ends():
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c0", "Task", prompt="p0"))
    chat.returns("c0", "ok", toolUseResult={"agentId": "a0"})
    chat.answers("Done.")
    for number in range(40):
        side = Chat()
        more = {"isSidechain": True, "agentId": f"a{number}"}
        side.asks(f"p{number}", uuid=f"a{number}-0", **more)
        side.answers(use(f"c{(number + 1) % 40}", "Task", prompt="x"), id=f"a{number}", uuid=f"a{number}-1", **more)
        result = {"agentId": f"a{(number + 1) % 40}"}
        side.returns(f"c{(number + 1) % 40}", "ok", uuid=f"a{number}-2", toolUseResult=result, **more)
        chat.lines += side.lines

    run = only(chat)

    deepest = [event for event in run.events if isinstance(event, ToolCall)]
    assert [call.parent for call in deepest[:3]] == [None, deepest[0].seq, deepest[1].seq]


def test_an_error_of_the_api_is_what_the_session_failed_with_unless_it_went_on():
    chat = Chat()
    chat.asks("Go")
    chat.answers("API Error: 529 overloaded", isApiErrorMessage=True)
    chat.lines[-1]["message"]["model"] = "<synthetic>"
    failed = only(chat)
    chat.asks("Again")
    chat.answers("Done.")
    recovered = only(chat)

    assert failed.status is RunStatus.ERROR
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ApiError", "API Error: 529 overloaded")
    assert failed.llm_calls[0].error == failed.error
    assert (recovered.status, recovered.output) == (RunStatus.SUCCESS, "Done.")
    assert recovered.llm_calls[0].error == failed.error


def test_what_claude_code_says_itself_is_no_call_of_a_model():
    chat = Chat()
    chat.asks("Go")
    chat.answers("No response requested.")
    chat.lines[-1]["message"]["model"] = "<synthetic>"
    chat.line("system", subtype="api_error", error={"message": "overloaded", "type": "overloaded_error"})

    run = only(chat)

    assert run.llm_calls == []
    note, error = run.events
    assert isinstance(note, Note)
    assert note.content == "No response requested."
    assert isinstance(error, ErrorEvent)
    assert error.error.type == "overloaded_error"


def test_a_session_that_the_user_interrupted_was_cancelled():
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c1", cmd="sleep 9"))
    chat.returns("c1", "", toolUseResult={"stdout": "", "stderr": "", "interrupted": True})
    chat.answers(use("c2", cmd="sleep 10"))
    chat.asks("[Request interrupted by user for tool use]")

    run = only(chat)

    assert run.status is RunStatus.CANCELLED
    assert run.error is not None
    assert run.error.type == "Interrupted"
    first, second = run.tool_calls
    assert first.error is not None
    assert first.error.type == "Interrupted"
    assert not second.answered
    assert [lacking.lacks for lacking in replayability(run).lacking] == [(Lack.RESULT,)]


def test_only_a_result_that_says_so_is_an_error():
    chat = Chat()
    chat.asks("Go")
    chat.answers(use("c1"), use("c2"))
    chat.returns("c1", "ValueError: this is what the file says", is_error=False)
    chat.returns("c2", "<tool_use_error>TypeError: bad input</tool_use_error>", is_error=True)
    chat.answers("Done.")

    fine, bad = only(chat).tool_calls

    assert fine.result == "ValueError: this is what the file says"
    assert bad.error is not None
    assert (bad.error.type, bad.error.message) == ("TypeError", "bad input")


def test_after_a_compaction_the_model_knows_only_the_summary():
    chat = Chat()
    chat.asks("Go")
    chat.answers("Halfway.")
    before = chat.last
    chat.last = None
    chat.line("system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=before)
    chat.asks("You were halfway.", isCompactSummary=True)
    chat.answers("Done.")

    run = only(chat)

    assert run.input == "Go"
    first, last = run.llm_calls
    assert said(first) == [("user", "Go")]
    assert said(last) == [("user", "You were halfway.")]
    assert [event.name for event in run.events if isinstance(event, Note)] == ["compact_boundary"]


def test_a_session_has_the_name_its_user_gave_it_before_any_other():
    chat = Chat()
    chat.asks("Go")
    chat.answers("Done.")
    names = [
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s1"},
        {"type": "summary", "summary": "What it was about", "leafUuid": chat.last},
        {"type": "ai-title", "aiTitle": "Theirs", "sessionId": "s1"},
    ]

    assert only(chat).name == ""
    for titles, name in [(names[1:2], "What it was about"), (names[1:], "Theirs"), (names, "Mine")]:
        imported = import_source(Source(as_lines([*chat.lines, *titles]), "s.jsonl"))
        assert imported.runs[0].name == name


def test_commands_and_caveats_are_not_what_the_user_asked():
    chat = Chat()
    chat.asks("Caveat: the messages below…", isMeta=True)
    chat.asks("Go")
    chat.answers("Done.")

    assert only(chat).input == "Go"


def test_a_long_file_is_read_line_by_line(tmp_path):
    chat = delegating()
    (tmp_path / "s.jsonl").write_bytes(as_lines(chat.lines))
    source = read_source(tmp_path / "s.jsonl")

    assert len(import_source(source).runs) == 1
    assert source._text is None, "the whole text was never asked for"


def test_the_same_session_twice_is_the_same_run():
    chat = delegating("7")
    chat.lines += agent_lines("x", "7")

    assert read(chat) == read(chat)


def test_lines_of_something_else_are_refused_where_the_format_is_named():
    with pytest.raises(InvalidFile, match="expected lines of a Claude Code session"):
        import_source(Source(b'{"role": "user"}\n{"role": "assistant"}\n', "s.jsonl"), "claude_code")


def test_events_of_others_with_types_and_ids_are_no_session():
    other = [{"type": "TEXT_MESSAGE_START", "messageId": "m1"}, {"type": "summary", "messageId": "m1"}]

    assert not IMPORTERS.get("claude_code").recognises(Source(as_lines(other), "e.jsonl"))


def test_a_session_is_recognised_by_any_of_its_first_lines():
    chat = Chat()
    first = [{"type": "summary", "summary": "Earlier", "leafUuid": "gone"}, {"a": 1}]
    chat.asks("Go")
    source = Source(as_lines([*first, *chat.lines]), "s.jsonl")

    assert importer_of(source).name == "claude_code"
    assert importer_of(read_source(Path(sample("claude_code/session.jsonl")))).name == "claude_code"


def test_in_a_file_that_is_mixed_up_the_session_is_read_and_the_rest_counted():
    chat = delegating()
    others = [{"type": "assistant", "session_id": "s1", "message": {}}, {"schema_version": "ATIF-v1.7"}, [1], 7]

    imported = import_source(Source(as_lines([*chat.lines[:3], *others, *chat.lines[3:]]), "s.jsonl"))

    assert imported.runs == read(chat).runs
    assert imported.notes == ("lines that do not belong to a session: 4",)


REWOUND = Chat()
REWOUND.asks("Go")
REWOUND.answers(use("c1", "Task", prompt="Look here"), use("c2"))
REWOUND.returns("c1", "Here.", toolUseResult={"agentId": "7"})
REWOUND.returns("c2", "ok", is_error=True)
REWOUND.answers("Done.")
REWOUND.last = "s1-1"
REWOUND.asks("Again")
REWOUND.line("attachment", attachment={"systemPrompt": ["Be kind."]}, rendered=[{"content": "x"}])
REWOUND.lines += agent_lines("Look here", "7")


@settings(max_examples=examples(60), deadline=None)
@given(damaged(REWOUND.lines), st.data())
def test_damaged_sessions_give_runs_or_words(lines, data):
    read_without_a_traceback("claude_code", as_lines(lines))
    read_without_a_traceback("claude_code", data.draw(truncated(as_lines(lines))) if lines else b"")


@settings(max_examples=examples(30), deadline=None)
@given(st.permutations(REWOUND.lines))
def test_in_whatever_order_lines_come_each_answer_and_call_is_there_once(lines):
    runs = read_without_a_traceback("claude_code", as_lines(lines))

    for run in runs:
        asked = [call["id"] for event in run.llm_calls if event.result for call in event.result["tool_calls"]]
        assert len(asked) == len(set(asked))


CAVEAT = "<local-command-caveat>Caveat: do not respond to these messages.</local-command-caveat>"
EXIT = "<command-name>/exit</command-name>\n<command-message>exit</command-message>\n<command-args></command-args>"
BYE = "<local-command-stdout>See ya!</local-command-stdout>"


def leaving(chat: Chat) -> TraceRun:
    chat.asks(CAVEAT, isMeta=True)
    chat.asks(EXIT)
    chat.asks(BYE)
    return only(chat)


def test_exit_is_an_ordinary_way_to_end_a_session():
    chat = Chat()
    chat.asks("/model is slow", isMeta=True)
    chat.asks("Say hi")
    chat.answers("Hi.")

    run = leaving(chat)

    assert (run.status, run.error, run.input, run.output) == (RunStatus.SUCCESS, None, "Say hi", "Hi.")


def test_a_command_before_the_question_is_not_what_was_asked():
    chat = Chat()
    chat.asks("<command-name>/model</command-name>")
    chat.asks("<local-command-stdout>Set model</local-command-stdout>")
    chat.asks("Say hi")
    chat.answers("Hi.")

    assert only(chat).input == "Say hi"


def test_who_quits_before_the_answer_has_cancelled_the_run():
    chat = Chat()
    chat.asks("Say hi")
    assert leaving(chat).status is RunStatus.CANCELLED

    chat = Chat()
    chat.asks("Say hi")
    chat.answers(use("a"))
    run = leaving(chat)
    assert run.status is RunStatus.CANCELLED
    assert run.error is not None
    assert run.error.message == "the user quit before the answer"


def test_a_session_that_ends_with_a_question_is_still_unfinished():
    chat = Chat()
    chat.asks(EXIT)
    chat.asks(BYE)
    chat.asks("Say hi")

    assert only(chat).status is RunStatus.ERROR


def test_lines_that_name_no_session_belong_to_the_one_before_them():
    chat = Chat()
    chat.asks("List files")
    chat.answers(use("a"))
    chat.returns("a", "one two")
    chat.answers("one two")
    for line in chat.lines[1:]:
        del line["sessionId"], line["uuid"], line["parentUuid"]

    found = read(chat)

    (run,) = found.runs
    assert found.remarks == ()
    assert (len(run.llm_calls), len(run.tool_calls), run.output) == (2, 1, "one two")
