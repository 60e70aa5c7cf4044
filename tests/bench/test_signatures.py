"""The measure of signatures: what it counts as found, and what as a false alarm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.signatures import HALVES, good_runs, half_of, measure, table, trail, who_and_when
from tests.formats.samples import corpora_below, corpus, unpacked

from bench import signatures

QUESTION = "How many acres does Jane Miller own?"


def span(id: str, kind: str, second: int, *inner: Any, **attributes: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2025-03-19T16:37:{second:02}.000000Z",
        "trace_id": "t1",
        "span_id": id,
        "span_name": id,
        "span_attributes": {"openinference.span.kind": kind, **attributes},
        "duration": "PT1S",
        "status_code": "Ok",
        "child_spans": list(inner),
    }


def guessing_agent() -> dict[str, Any]:
    """A trace in which the second model call makes the answer up."""
    prompt = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You have a tool:\n- find_deed: Finds a deed.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
    }
    plan = span("plan", "LLM", 2, **prompt, **{"llm.output_messages.0.message.content": "Let me see."})
    said = {"llm.output_messages.0.message.content": "She owns 4711 acres."}
    deed = {"tool.name": "find_deed", "input.value": '{"owner": "Jane Miller"}', "output.value": "A deed, sealed."}
    plan["child_spans"].append(span("lookup", "TOOL", 2, **deed))
    step = span("step", "CHAIN", 3, span("guess", "LLM", 4, **prompt, **said))
    about = {"input.value": QUESTION, "output.value": "She owns 4711 acres."}
    return {"trace_id": "t1", "spans": [span("agent", "AGENT", 1, plan, step, **about)]}


def written(directory: Path, name: str, value: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("location", "at_span", "at_step"), [("guess", 1, 1), ("step", 0, 1), ("plan", 0, 0), ("agent", 0, 0)]
)
def test_a_signature_counts_at_the_annotated_span_or_in_its_step(tmp_path, location, at_span, at_step):
    written(tmp_path / "traces", "t1.json", guessing_agent())
    written(tmp_path / "annotations", "t1.json", {"errors": [{"category": "Language-only", "location": location}]})

    tally = trail(tmp_path)[half_of("t1")]

    assert (tally.runs, tally.counts["any"]) == (1, 1)
    assert (tally.counts["span"], tally.counts["step"]) == (at_span, at_step)
    assert len(tally.misses) == 1 - at_step


def test_a_trace_without_an_annotation_is_not_counted(tmp_path):
    written(tmp_path / "traces", "t1.json", guessing_agent())

    assert [tally.runs for tally in trail(tmp_path).values()] == [0, 0]


@pytest.mark.parametrize(("terminal", "beyond"), [("exitcode: 1 (execution failed)\nKeyError: 'x'", 1), ("12", 0)])
def test_a_wrong_answer_alone_is_no_signature_beyond_the_answer(tmp_path, terminal, beyond):
    talk = {
        "question": "What is 2 + 2?",
        "ground_truth": "4",
        "is_correct": False,
        "mistake_agent": "Expert",
        "mistake_step": "0",
        "mistake_reason": "It multiplied.",
        "history": [
            {"role": "assistant", "name": "Expert", "content": "Let us see.\n```python\nprint(2+)\n```"},
            {"role": "user", "name": "Computer_terminal", "content": terminal},
            {"role": "assistant", "name": "Expert", "content": "It is 5."},
        ],
    }
    written(tmp_path, "1.json", talk)

    counts = sum((tally.counts for tally in who_and_when(tmp_path).values()), start=signatures.Counter())

    assert (counts["any"], counts["beyond"]) == (1, beyond)


@pytest.mark.parametrize(("answer", "false_alarms"), [("Your bill is 40 euros.", 0), ("Your bill is 47.31 euros.", 1)])
def test_a_good_run_is_looked_at_without_its_label(tmp_path, answer, false_alarms):
    call = {"id": "c1", "type": "function", "function": {"name": "get_bill", "arguments": "{}"}}
    result = {
        "task_id": 1,
        "reward": 1.0,
        "trial": 0,
        "info": {"task": {"actions": [], "outputs": []}, "reward_info": {"reward": 1.0, "info": {}}},
        "traj": [
            {"role": "user", "content": "What do I owe?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "get_bill", "content": '{"euros": 40}'},
            {"role": "assistant", "content": answer},
        ],
    }
    written(tmp_path / "tau-bench", "results.json", [result, {**result, "reward": 0.0}])

    tallies = good_runs(tmp_path).values()

    assert sum(tally.runs for tally in tallies) == 1
    assert sum(tally.counts["false"] for tally in tallies) == false_alarms


def test_corpora_that_are_not_there_are_left_out_of_the_table(tmp_path):
    text = table(measure(tmp_path))

    assert "trail" not in text
    assert text.count("good runs") == len(HALVES)


def test_most_annotated_excerpts_have_a_signature_where_people_found_an_error(tmp_path):
    for name in corpora_below("trail"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(unpacked(corpus(name)))

    halves = trail(tmp_path / "trail").values()

    assert sum(tally.counts["step"] for tally in halves) > sum(tally.runs for tally in halves) / 2
