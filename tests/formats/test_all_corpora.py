"""Real runs of every corpus: each file comes in whole, and counts what a plain reading of its JSON counts."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from typing import Any, NamedTuple

import pytest
from tests.formats.samples import DATA, corpora_below, corpus, unpacked

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import read_source
from replaykit.formats.files import import_trace
from replaykit.intake.job import read_files
from replaykit.model.run import RunStatus, TraceRun


class Counted(NamedTuple):
    runs: int = 0
    failures: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


NO_TRACES = {
    "inspect_ai/test_skeleton__empty.json": "the events of a log, of which there are none: they could be of any format",
    "openhands/examples__config.json": "settings of an evaluation",
    "openhands/examples__patch.jsonl": "patches that agents made, without what they did",
}
"""Files of no format, and what they are."""
NO_RUNS = {
    "tau2/a692e29.json": "no simulation was run",
    "langfuse/*.chatml.json": "it is what Langfuse shows of a trace's messages, and no trace",
    "trail/annotations/*": "it is what people found wrong in ",
}
"""Files of a format that hold no run, and what is said of them."""


def tau_bench(content: bytes) -> Iterator[Counted]:
    for one in json.loads(content):
        calls = [call for message in one["traj"] for call in message.get("tool_calls") or ()]
        results = [message["content"] for message in one["traj"] if message["role"] == "tool"]
        errors = sum(result.startswith("Error") for result in results)
        yield Counted(1, one["reward"] < 1, len(calls), errors)


def tau2(content: bytes) -> Iterator[Counted]:
    for one in json.loads(content)["simulations"]:
        said = [message for message in one["messages"] if message["role"] == "assistant"]
        results = [m for m in one["messages"] if m["role"] == "tool" and m["requestor"] == "assistant"]
        used = [message["usage"] for message in said if message["usage"]]
        yield Counted(
            1,
            one["reward_info"]["reward"] < 1,
            sum(len(message["tool_calls"] or ()) for message in said),
            sum(result["error"] for result in results),
            sum(usage["prompt_tokens"] for usage in used),
            sum(usage["completion_tokens"] for usage in used),
        )


def swe_agent(content: bytes) -> Iterator[Counted]:
    told = json.loads(content)
    own = [one for one in told["history"] if one["role"] == "assistant" and not one.get("is_demo")]
    steps = told.get("trajectory") or own
    timeouts = [step for step in steps if step.get("observation", "").strip() == "EXECUTION TIMED OUT"]
    yield Counted(1, 0, sum(bool(step["action"].strip()) for step in steps), len(timeouts))


def openhands(content: bytes) -> Iterator[Counted]:
    told = [json.loads(content)] if content.startswith(b"[") else list(map(json.loads, content.splitlines()))
    for one in told:
        events = one if isinstance(one, list) else one["history"]
        actions = [event for event in events if event.get("action") and event.get("source", "agent") == "agent"]
        calls = [event for event in actions if event["action"] not in ("message", "finish")]
        metadata = [event["tool_call_metadata"] for event in actions if "tool_call_metadata" in event]
        used = [one["model_response"]["usage"] for one in metadata]
        tokens = (sum(usage[f"{name}_tokens"] for usage in used) for name in ("prompt", "completion"))
        yield Counted(1, 0, len(calls), 0, *tokens)


def who_and_when(content: bytes) -> Iterator[Counted]:
    ran = [one["content"] for one in json.loads(content)["history"] if one.get("name") == "Computer_terminal"]
    failed = [output for output in ran if output.startswith("exitcode: ") and not output.startswith("exitcode: 0")]
    yield Counted(1, 1, len(ran), len(failed))


def claude_code(content: bytes) -> Iterator[Counted]:
    lines = [line for line in map(json.loads, content.splitlines()) if isinstance(line, dict)]
    talk = [line for line in lines if isinstance(line.get("message"), dict)]
    blocks = [block for line in talk for block in line["message"].get("content", ()) if isinstance(block, dict)]
    answers = {line["message"]["id"]: line["message"]["usage"] for line in talk if line["type"] == "assistant"}
    read = [count for usage in answers.values() for name, count in usage.items() if "input_tokens" in name]
    sessions = len({line["sessionId"] for line in talk})  # all end with what a user says, or in the midst of a call
    yield Counted(
        sessions,
        sessions,
        sum(block["type"] == "tool_use" for block in blocks),
        sum(bool(block.get("is_error")) for block in blocks),
        sum(read),
        sum(usage["output_tokens"] for usage in answers.values()),
    )


def langfuse(content: bytes) -> Iterator[Counted]:
    told = json.loads(content)
    calls = [o for o in told["observations"] if o["type"] == "GENERATION" and o["name"] != "ai.generateText"]
    tools = [o for o in told["observations"] if o["type"] == "TOOL" or o["name"] == "Web-Search"]
    scores = {score["name"]: score["value"] for score in told["trace"].get("scores") or []}
    bad = scores.pop("correctness", 1) == 0 or any(value >= 0.5 for value in scores.values())
    tokens = (sum(call["usageDetails"][name] for call in calls) for name in ("input", "output"))
    yield Counted(1, bad, len(tools), sum(tool["level"] == "ERROR" for tool in tools), *tokens)


def trail(content: bytes) -> Iterator[Counted]:
    def below(spans: list[Any]) -> Iterator[Any]:
        for span in spans:
            yield span
            yield from below(span["child_spans"])

    spans = list(below(json.loads(content)["spans"]))
    about = [span["span_attributes"] | {"failed": span["status_code"] == "Error"} for span in spans]
    tools = [one for one in about if one.get("openinference.span.kind") == "TOOL"]
    models = [one for one in about if one.get("openinference.span.kind") == "LLM"]
    tokens = (sum(int(one[f"llm.token_count.{name}"]) for one in models) for name in ("prompt", "completion"))
    yield Counted(1, any(one["failed"] for one in about), len(tools), sum(one["failed"] for one in tools), *tokens)


def inspect(content: bytes) -> Iterator[Counted]:
    for sample in _samples(content):
        events = list(_of_the_agent(sample.get("events", [])))
        models = [event for event in events if event["event"] == "model"]
        told = [message for message in sample.get("messages", []) if message["role"] == "tool"]
        calls = [event for event in events if event["event"] == "tool"] or ([] if models else told)
        used = [event["output"].get("usage") or {} for event in models]
        scores = [event["score"] for event in sample.get("events", []) if event["event"] == "score"]
        values = [score["value"] for score in (sample.get("scores") or dict(enumerate(scores))).values()]
        yield Counted(
            1,
            bool(sample.get("error")) or any(value in ("I", "N", 0) for value in values),
            len(calls),
            sum(bool(call.get("error")) for call in calls),
            *(sum(usage.get(f"{name}_tokens", 0) for usage in used) for name in ("input", "output")),
        )


def _samples(content: bytes) -> list[Any]:
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            return [json.loads(archive.read(name)) for name in names]
    told = json.loads(content)
    return list(told.get("samples") or [told])


def _of_the_agent(events: list[Any]) -> Iterator[Any]:
    """All but what scorers did: their spans, and in older logs their steps, are not the agent's."""
    scorers: set[str] = set()
    steps: list[bool] = []
    for event in events:
        kind, scores = event["event"], event.get("type") in ("scorer", "scorers")
        if kind == "span_begin" and (scores or event.get("parent_id") in scorers):
            scorers.add(event["id"])
        elif kind == "step" and event["action"] == "begin":
            steps.append(scores)
        elif kind == "step":
            steps = steps[:-1]
        elif event.get("span_id") not in scorers and not any(steps):
            yield event


CORPORA: dict[str, tuple[str, Callable[[bytes], Iterable[Counted]], Counted]] = {
    "claude-code": ("claude_code", claude_code, Counted(3, 3, 3, 1, 508, 470)),
    "inspect_ai": ("inspect", inspect, Counted(26, 8, 20, 11, 16_760, 425)),
    "langfuse": ("langfuse", langfuse, Counted(8, 3, 6, 0, 733, 699)),
    "openhands": ("openhands", openhands, Counted(4, 0, 25, 0, 10_605, 1322)),
    "swe-agent": ("swe_agent", swe_agent, Counted(11, 0, 113, 2, 0, 0)),
    "tau-bench": ("tau_bench", tau_bench, Counted(100, 57, 572, 33, 0, 0)),
    "tau2": ("tau2", tau2, Counted(75, 6, 194, 20, 1_569_790, 0)),
    "trail": ("trail", trail, Counted(20, 0, 20, 0, 137_712, 116_517)),
    "who-and-when": ("who_and_when", who_and_when, Counted(23, 23, 43, 11, 0, 0)),
}
"""Each corpus with its format, how it is counted, and what it counts in all."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def files_of(directory: str) -> list[str]:
    return [name for name in corpora_below(directory) if not matches(name, (*NO_TRACES, *NO_RUNS))]


def counted(runs: Iterable[TraceRun]) -> Iterator[Counted]:
    for run in runs:
        used = [call.usage for call in run.llm_calls if call.usage is not None]
        yield Counted(
            1,
            run.status is not RunStatus.SUCCESS,
            len(run.tool_calls),
            sum(call.error is not None for call in run.tool_calls),
            sum(usage.input_tokens or 0 for usage in used),
            sum(usage.output_tokens or 0 for usage in used),
        )


def total(found: Iterable[Counted]) -> Counted:
    return Counted(*map(sum, zip(Counted(), *found, strict=True)))


@pytest.mark.parametrize("directory", CORPORA)
def test_every_file_comes_in_whole_and_counts_as_its_json_does(directory: str) -> None:
    format, count, expected = CORPORA[directory]
    sums = []
    for name in files_of(directory):
        found = import_trace(corpus(name))
        assert (found.format, found.left_out) == (format, ()), name
        assert len({run.id for run in found.runs}) == len(found.runs), name
        sums.append(total(counted(found.runs)))
        assert sums[-1] == total(count(unpacked(corpus(name)))), name
    assert total(sums) == expected


def test_every_corpus_is_counted() -> None:
    assert sorted(CORPORA) == sorted(path.name for path in (DATA / "corpora").iterdir() if path.is_dir())


def test_no_two_files_give_runs_of_one_id() -> None:
    names = [name for directory in CORPORA for name in files_of(directory)]
    ids = [run.id for name in names for run in import_trace(corpus(name)).runs]

    assert len(set(ids)) == len(ids) == sum(row[2].runs for row in CORPORA.values())


@pytest.mark.parametrize("name", NO_TRACES)
def test_a_file_of_no_format_is_refused(name: str) -> None:
    assert [importer.name for importer in IMPORTERS.values() if importer.recognises(read_source(corpus(name)))] == []
    with pytest.raises(InvalidFile, match="not a trace of a known format"):
        import_trace(corpus(name))


@pytest.mark.parametrize("pattern", NO_RUNS)
def test_a_file_of_a_format_without_a_run_says_so_and_is_no_error(pattern: str) -> None:
    names = [name for name in corpora_below(pattern.partition("/")[0]) if fnmatch(name, pattern)]
    assert names
    for name in names:
        (record,) = read_files([corpus(name)])
        assert (record.run, record.problem) == (None, "")
        (said,) = record.notes
        assert said.startswith(f"{corpus(name)}: holds no run: {NO_RUNS[pattern]}")
        with pytest.raises(InvalidFile, match="the file holds no run"):
            import_trace(corpus(name))


def test_all_corpora_come_in_at_once() -> None:
    records = list(read_files([DATA / "corpora"]))

    problems = [record.problem for record in records if record.problem]
    assert len(problems) == len(NO_TRACES)
    assert all("not a trace of a known format" in problem for problem in problems)
    assert sum(record.run is not None for record in records) == sum(row[2].runs for row in CORPORA.values())
    notes = [note for record in records for note in record.notes]
    assert sum(": holds no run: " in note for note in notes) == 8 + 1 + 20
