"""Logs of Inspect AI, in both of their forms."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpora_below, corpus, sample, samples_below, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.formats.inspect.messages import usage_in
from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

HEADER = {"version": 2, "status": "success", "eval": {"task": "refund", "eval_id": "e1", "model": "m"}}
ZSTD = 93
EMPTY = "inspect_ai/test_skeleton__empty.json"
LOGS = [name for name in corpora_below("inspect_ai") if name != EMPTY]


def event(kind: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"event": kind, "timestamp": f"2026-01-01T00:00:{second:02}+00:00", **more}


def model(content: Any = "Done.", *uses: dict[str, Any], asked: Any = None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": list(uses)}
    output = {"model": "m-1", "choices": [{"message": message, "stop_reason": "stop"}]}
    messages = [{"role": "user", "content": "Go"}] if asked is None else asked
    return event("model", **{"model": "m", "input": messages, "tools": [], "output": output} | more)


def use(call_id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "function": name, "arguments": arguments, "type": "function"}


def tool(call_id: str, result: Any = "ok", name: str = "bash", **more: Any) -> dict[str, Any]:
    return event("tool", **{"id": call_id, "function": name, "arguments": {}, "result": result} | more)


def a_sample(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    output = {"choices": [{"message": {"role": "assistant", "content": "Done."}}], "completion": "Done."}
    found = {"id": 1, "epoch": 1, "input": "Go", "target": "", "messages": [], "output": output, "events": list(events)}
    return found | more


def log(*samples: Any, **more: Any) -> dict[str, Any]:
    return {**HEADER, "samples": list(samples), **more}


def read(document: Any) -> Imported:
    return import_source(Source(json.dumps(document).encode(), "log.json"))


def only(*events: dict[str, Any], **more: Any) -> TraceRun:
    (run,) = read(log(a_sample(*events, **more))).runs
    return run


def packed(documents: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of JSON documents; with 93 as Inspect packs them, which `zipfile` cannot write."""
    buffer = io.BytesIO()
    texts = {name: d if isinstance(d, bytes) else json.dumps(d).encode() for name, d in documents.items()}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED if method == ZSTD else method) as archive:
        for name, text in texts.items():
            archive.writestr(name, zstandard.compress(text) if method == ZSTD else text)
    data = bytearray(buffer.getvalue())
    at = archive.start_dir
    for entry in archive.infolist() if method == ZSTD else ():
        for start, shift in ((entry.header_offset, 0), (at, 2)):
            text = texts[entry.filename]
            struct.pack_into("<H", data, start + 8 + shift, ZSTD)
            struct.pack_into("<I", data, start + 14 + shift, zlib.crc32(text))
            struct.pack_into("<I", data, start + 22 + shift, len(text))
        at += 46 + len(entry.filename)
    return bytes(data)


def documents_in(path: Any) -> list[dict[str, Any]]:
    """The samples of a log, taken out without any of what is tested here."""
    if not str(path).endswith(".eval"):
        value = json.loads(unpacked(path))
        found: list[dict[str, Any]] = value.get("samples", [value])
        return found
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return [json.loads(archive.read(name)) for name in names]


@pytest.mark.parametrize("name", samples_below("inspect_ai"))
def test_both_forms_of_a_log_tell_the_story_which_its_score_calls_a_failure(name):
    runs = {run.name: run for run in import_trace(sample(name)).runs}

    run = runs["refund/1"]
    check_story(run, {"status", "type of the error"})
    assert run.error == ErrorInfo(type="Judged", message=f'includes is "I": {run.output}')
    (label,) = labels_of(run)
    assert (label.name, label.value, label.failed, label.expected_output) == ("includes", "I", True, ("refunded",))
    assert run.tool_calls[2].error == ErrorInfo(type="ToolError", message="payment gateway timed out after 30s")
    assert {event.step for event in run.events} == {"generate"}
    broken = runs["refund/2"]
    assert broken.status is RunStatus.ERROR
    assert broken.error is not None
    assert (broken.error.type, broken.error.message) == ("RuntimeError", "sandbox died")
    assert "Traceback" in (broken.error.traceback or "")


def scored(sample: dict[str, Any]) -> list[Any]:
    """The values of the scores, wherever the log has them."""
    if sample.get("scores"):
        return [score["value"] for score in sample["scores"].values()]
    return [event["score"]["value"] for event in sample.get("events", []) if event["event"] == "score"]


def by_the_agent(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """The events outside of scorers."""
    spans: dict[str, bool] = {}
    steps: list[bool] = []
    found = []
    for event in sample.get("events", []):
        judging = spans.get(event.get("span_id"), bool(steps) and steps[-1])
        if event["event"] == "span_begin":
            spans[event["id"]] = spans.get(event.get("parent_id"), False) or event.get("type") in ("scorer", "scorers")
        elif event["event"] == "step" and event["action"] == "begin":
            steps.append(judging or event.get("type") == "scorer")
        elif event["event"] == "step" and steps:
            steps.pop()
        elif not judging:
            found.append(event)
    return found


@pytest.mark.parametrize("name", LOGS)
def test_every_log_of_the_corpus_is_read_and_nothing_lost(name):
    imported = import_trace(corpus(name))
    samples = documents_in(corpus(name))

    assert imported.format == "inspect"
    assert imported.left_out == ()
    assert len(imported.runs) == len(samples)
    for run, raw in zip(imported.runs, samples, strict=True):
        mine = by_the_agent(raw)
        asked = [event for event in mine if event["event"] == "model"]
        called = [event for event in mine if event["event"] == "tool"]
        told = [message for message in raw.get("messages", []) if message["role"] == "tool" and not asked]
        assert len(run.llm_calls) == len(asked)
        assert len(run.tool_calls) == len(called) + len(told)
        errors = [one for one in (*called, *told) if one.get("error")]
        assert len([call for call in run.tool_calls if call.error]) == len(errors)
        usages = [event["output"].get("usage") or {} for event in asked]
        # All of these are of versions that count cached tokens as part of the input.
        tokens = sum(usage.get("input_tokens", 0) for usage in usages)
        assert sum(call.usage.input_tokens for call in run.llm_calls if call.usage) == tokens
        bad = any(value in ("I", "N") or value == 0 for value in scored(raw))
        assert (run.status is RunStatus.ERROR) is (bad or bool(raw.get("error")))


def test_events_alone_that_are_none_are_no_run():
    with pytest.raises(InvalidFile, match="not a trace of a known format"):
        import_trace(corpus(EMPTY))
    with pytest.raises(InvalidFile, match="the file holds no run\nno event was logged"):
        import_trace(corpus(EMPTY), "inspect")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD])
def test_a_zip_is_read_however_it_is_packed(method):
    samples = {f"samples/{number}_epoch_1.json": a_sample(model(), id=number) for number in (1, 2)}
    content = packed({"header.json": HEADER, **samples, "summaries.json": []}, method)
    whole = read(log(*samples.values()))

    imported = import_source(Source(content, "log.eval"))

    assert imported.runs == whole.runs
    assert [run.id for run in imported.runs] == ["e1-1-1", "e1-2-1"]


def test_a_log_of_an_evaluation_that_never_ended_has_its_header_in_the_journal():
    start = {"version": 2, "eval": HEADER["eval"]}
    content = packed({"_journal/start.json": start, "samples/1_epoch_1.json": a_sample()})

    (run,) = import_source(Source(content, "log.eval")).runs

    assert run.name == "refund/1"


def test_each_epoch_is_a_run_of_its_own():
    first, second = read(log(a_sample(model()), a_sample(model(), epoch=2))).runs

    assert (first.id, second.id) == ("e1-1-1", "e1-1-2")
    assert (first.name, second.name) == ("refund/1", "refund/1 (epoch 2)")


def test_a_bad_sample_in_a_zip_is_told_by_its_name_and_the_others_read():
    names = ("samples/1_epoch_1.json", "samples/2_epoch_1.json", "samples/3_epoch_1.json")
    content = packed({"header.json": HEADER, names[0]: b"{", names[1]: [1], names[2]: a_sample(id=3)})

    imported = import_source(Source(content, "log.eval"))

    assert [run.name for run in imported.runs] == ["refund/3"]
    assert imported.left_out == (
        "log.eval!samples/1_epoch_1.json:1: not JSON: unexpected end of data",
        "log.eval!samples/2_epoch_1.json:1: expected a sample, got a list",
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTD])
def test_a_zip_is_never_unpacked_beyond_a_limit(monkeypatch, method):
    monkeypatch.setattr("replaykit.formats.inspect.MAX_ENTRY_BYTES", 10_000)
    bomb = json.dumps(a_sample(padding="x" * 1_000_000)).encode()
    samples = {"samples/1_epoch_1.json": bomb, "samples/2_epoch_1.json": a_sample()}
    content = packed({"header.json": HEADER, **samples}, method)

    imported = import_source(Source(content, "log.eval"))

    assert imported.left_out == ("log.eval!samples/1_epoch_1.json: larger than 10,000 bytes",)
    assert len(imported.runs) == 1


def test_all_of_a_zip_together_is_limited_too(monkeypatch):
    monkeypatch.setattr("replaykit.formats.inspect.MAX_TOTAL_BYTES", 1_000)
    samples = {f"samples/{number}_epoch_1.json": a_sample(id=number) for number in range(9)}

    imported = import_source(Source(packed({"header.json": HEADER, **samples}), "log.eval"))

    assert 0 < len(imported.runs) < 9
    assert len(imported.runs) + len(imported.left_out) == 9


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTD])
def test_a_zip_with_a_wrong_checksum_or_in_another_packing_is_told(method):
    content = bytearray(packed({"header.json": HEADER, "samples/1_epoch_1.json": a_sample()}, method))
    at = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, at + 16, 7)
    with pytest.raises(InvalidFile, match=r"cannot be unpacked: (its|Bad CRC)"):
        import_source(Source(bytes(content), "log.eval"))
    struct.pack_into("<H", content, at + 10, 77)
    with pytest.raises(InvalidFile, match="cannot be unpacked"):
        import_source(Source(bytes(content), "log.eval"))


def test_a_zip_of_something_else_is_not_taken_and_refused_where_the_format_is_named():
    content = packed({"word/document.xml": b"<x/>"})

    assert not importer_takes(content)
    with pytest.raises(InvalidFile, match=r"expected a zip with header\.json"):
        import_source(Source(content, "a.docx"), "inspect")
    with pytest.raises(InvalidFile, match="not a zip that can be read"):
        import_source(Source(b"PK\x03\x04 header.json", "a.eval"), "inspect")


def importer_takes(content: bytes) -> bool:
    try:
        return importer_of(Source(content, "x")).name == "inspect"
    except InvalidFile:
        return False


@pytest.mark.parametrize("document", [log(), {**HEADER, "samples": None}])
def test_a_log_without_samples_says_how_to_keep_them(document):
    with pytest.raises(InvalidFile) as caught:
        read(document)

    assert caught.value.reason == "the file holds no run"
    assert "the log holds no samples" in (caught.value.hint or "")
    assert "--no-log-samples" in (caught.value.hint or "")


def test_messages_in_a_pool_and_texts_kept_apart_are_put_back():
    hash = "ab" * 16
    pool = [{"role": "user", "content": f"attachment://{hash}"}, {"role": "assistant", "content": "Yes?"}]
    pool += [{"role": "user", "content": "Go on"}]
    kept = {"attachments": {hash: "a long question"}, "events_data": {"messages": pool}}

    run = only(model(asked=[], input_refs=[[0, 1], [1, 3]]), input=f"attachment://{hash}", **kept)

    assert run.input == "a long question"
    said = [(message["role"], message["content"]) for message in run.llm_calls[0].arguments["messages"]]
    assert said == [("user", "a long question"), ("assistant", "Yes?"), ("user", "Go on")]


def test_a_reference_to_what_is_not_there_stays_as_it_is():
    ref = "attachment://" + "0" * 32

    run = only(model(asked=[{"role": "user", "content": ref}], input_refs=[[0, 9], [3], "x", [-1, 2]]))

    assert [message["content"] for message in run.llm_calls[0].arguments["messages"]] == [ref]


def test_a_tool_event_is_the_result_of_the_call_and_what_is_in_its_span_is_inside_of_it():
    events = [
        event("span_begin", id="S", type="solver", name="react"),
        model("", use("c1", "researcher", q="x"), span_id="S"),
        event("span_begin", id="T", parent_id="S", type="tool", name="researcher"),
        tool("c1", "found", "researcher", span_id="S", completed="2026-01-01T00:00:09+00:00"),
        event("span_begin", id="A", parent_id="T", type="agent", name="helper"),
        model("", use("c2"), span_id="A", asked=[{"role": "user", "content": "x"}]),
        tool("c2", "ls", span_id="A"),
        event("sandbox", span_id="A", action="exec", cmd="ls"),
        event("span_end", id="A"),
        event("span_end", id="T"),
        model("Done.", span_id="S"),
    ]

    run = only(*events)

    (call,) = run.tool_calls
    assert (call.name, call.arguments, call.result, call.duration_s) == ("researcher", {"q": "x"}, "found", 9.0)
    inner = [event for event in run.events if event.parent == call.seq]
    assert [type(event) for event in inner] == [LlmCall, ToolCall, Note]
    assert {event.step for event in inner} == {"helper"}
    assert [event.step for event in run.events if event.parent is None] == ["react", "react", "react"]


def test_two_calls_of_one_tool_at_once_have_their_own_insides():
    events = [
        model("", use("c1"), use("c2"), span_id="S"),
        event("span_begin", id="T1", parent_id="S", type="tool", name="bash"),
        tool("c1", "one", span_id="S"),
        event("span_begin", id="T2", parent_id="S", type="tool", name="bash"),
        tool("c2", "two", span_id="S"),
        event("sandbox", span_id="T2", cmd="two"),
        event("sandbox", span_id="T1", cmd="one"),
        model("Done."),
    ]

    run = only(*events)

    notes = {event.content["cmd"]: event.parent for event in run.events if isinstance(event, Note)}
    assert notes == {call.result: call.seq for call in run.tool_calls}


def test_older_logs_keep_what_a_tool_did_inside_of_its_event():
    inner = [model("Here.", asked=[{"role": "user", "content": "x"}]), event("info", data="hi")]

    run = only(model("", use("c1")), tool("c1", "ok", events=inner), model("Done."))

    (call,) = run.tool_calls
    assert [type(event) for event in run.events if event.parent == call.seq] == [LlmCall, Note]
    assert call.result == "ok"


def test_a_tool_that_the_agent_calls_itself_is_a_call_too():
    run = only(tool("x1", "ok", arguments={"cmd": "ls"}), model("Done."))

    assert [(call.name, call.arguments, call.result) for call in run.tool_calls] == [("bash", {"cmd": "ls"}, "ok")]


def test_what_a_scorer_asks_is_no_call_of_the_agent():
    spans = [event("span_begin", id="X", type="scorers", name="scorers")]
    spans += [event("span_begin", id="Y", parent_id="X", type="agent", name="judge")]
    steps = [event("step", action="begin", type="scorer", name="graded"), model("GRADE: C")]

    by_span = only(model(), *spans, model("GRADE: C", span_id="Y"))
    by_step = only(model(), *steps, event("step", action="end"), event("info", data=1))

    for run in (by_span, by_step):
        assert len(run.llm_calls) == 1
        note = next(event for event in run.events if isinstance(event, Note))
        assert note.name == "scorer model"
        assert note.content["output"]["choices"][0]["message"]["content"] == "GRADE: C"
    assert by_step.events[-1].name == "info"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("timeout", "TimeoutError"),
        ("permission", "PermissionError"),
        ("file_not_found", "FileNotFoundError"),
        ("unknown", "ToolError"),
        ("of a later version", "ToolError"),
    ],
)
def test_an_error_of_a_tool_is_the_exception_it_names(kind, name):
    error = {"type": kind, "message": "no"}

    events = only(model("", use("c1")), tool("c1", "", error=error), model())
    message = {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": "", "error": error}
    messages = only(messages=[{"role": "user", "content": "Go"}, message])

    for run in (events, messages):
        assert run.tool_calls[0].error == ErrorInfo(type=name, message="no")
        assert not run.tool_calls[0].result_json


def test_a_result_that_only_looks_like_an_error_is_none():
    run = only(model("", use("c1")), tool("c1", "ValueError: in a file"), model())

    assert run.tool_calls[0].error is None


def test_a_sample_without_events_is_told_by_its_messages():
    thought = {"type": "reasoning", "reasoning": "hm"}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [thought], "tool_calls": [use("c1", cmd="ls")]},
        {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": "notes"},
        {"role": "assistant", "content": "Done.", "model": "m-2"},
    ]

    run = only(event("logger", message={"message": "hi"}), messages=messages)

    first, last = run.llm_calls
    assert (first.result["thinking"], first.result["tool_calls"][0]["arguments"]) == ("hm", {"cmd": "ls"})
    assert last.name == "m-2"
    assert [call.result for call in run.tool_calls] == ["notes"]
    assert [event.name for event in run.events if isinstance(event, Note)] == ["logger"]
    assert replayability(run).score == 1.0


@pytest.mark.parametrize(
    ("counts", "tokens"),
    [
        ({"input_tokens": 56, "output_tokens": 31, "total_tokens": 151, "input_tokens_cache_read": 64}, 120),
        ({"input_tokens": 15235, "output_tokens": 281, "total_tokens": 15516, "input_tokens_cache_read": 9088}, 15235),
        ({"input_tokens": 5, "output_tokens": 1, "input_tokens_cache_read": 2, "input_tokens_cache_write": 3}, 10),
        ({"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}, 5),
    ],
)
def test_input_tokens_include_the_cached_ones_whatever_the_version(counts, tokens):
    usage = usage_in(counts)

    assert usage is not None
    assert usage.input_tokens == tokens


def test_the_cost_of_a_call_is_kept():
    assert usage_in({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "total_cost": 0.5}) == Usage(
        input_tokens=1, output_tokens=2, cost_usd=0.5
    )
    assert usage_in({}) is None
    assert usage_in({"input_tokens": "many"}) is None


@pytest.mark.parametrize(
    ("value", "failed"),
    [
        ("C", False),
        ("I", True),
        ("P", False),
        ("N", True),
        (1, False),
        (0, True),
        (0.0, True),
        (0.3, False),
        (False, True),
        (True, False),
        ("an answer", False),
        ({"a": 0, "b": "I"}, True),
        ({"a": 0, "b": 1}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_score_is_a_label_and_nothing_is_a_failure(value, failed):
    run = only(model(), scores={"graded": {"value": value, "explanation": "because"}})

    (label,) = labels_of(run)
    assert (label.value, label.failed, label.why) == (value, failed, "because")
    assert run.status is (RunStatus.ERROR if failed else RunStatus.SUCCESS)


def test_what_was_expected_is_known_only_where_the_scorer_looks_for_it_word_for_word():
    scores = {"match": {"value": "I"}, "graded": {"value": "I"}}

    match, graded = labels_of(only(model(), scores=scores, target=" Yes"))
    said, _graded = labels_of(only(model(), scores=scores, target="done"))

    assert match.expected_output == ("Yes",)
    assert graded.expected_output == ()
    assert said.expected_output == (), "it is in the answer, and something else was wrong"


def test_scores_of_older_logs_are_labels_too():
    (old,) = labels_of(only(model(), score={"value": "I"}))
    events = [event("score", score={"value": 1}, intermediate=True), event("score", score={"value": 0}, scorer="s")]
    told = only(model(), *events)

    assert (old.name, old.failed) == ("score", True)
    assert [(label.name, label.failed) for label in labels_of(told)] == [("s", True)]
    assert [event.name for event in told.events if isinstance(event, Note)] == ["score"]


@pytest.mark.parametrize(
    ("limit", "status"),
    [("time", RunStatus.TIMEOUT), ("operator", RunStatus.CANCELLED), ("message", RunStatus.ERROR)],
)
def test_a_sample_that_reached_a_limit_did_not_end_by_itself(limit, status):
    run = only(model(), limit={"type": limit, "limit": 9}, scores={"s": {"value": "C"}})

    assert run.status is status
    assert run.error == ErrorInfo(type="LimitExceededError", message=f"the {limit} limit of 9 was reached")


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("cancelled", RunStatus.CANCELLED),
        ("error", RunStatus.ERROR),
        ("started", RunStatus.RUNNING),
        ("success", RunStatus.SUCCESS),
    ],
)
def test_how_the_evaluation_ended_matters_to_samples_that_did_not(word, status):
    whole, cut = a_sample(model()), a_sample(id=2, output={"choices": []})
    document = log(whole, cut, status=word, error={"message": "ValueError('no sandbox')"})

    first, second = read(document).runs

    assert first.status is RunStatus.SUCCESS
    assert second.status is status
    if word == "error":
        assert second.error == ErrorInfo(type="ValueError", message="no sandbox")


def test_an_evaluation_that_failed_is_remarked():
    document = log(a_sample(), status="error", error={"message": "no sandbox"})

    assert read(document).notes == ("the evaluation of refund ended with error: no sandbox",)


def test_a_model_that_failed_or_is_still_asked_has_no_answer():
    failed = model(output={"choices": [], "error": "RateLimitError: slow down"})
    pending = model("", output={"choices": []}, pending=True)
    waiting = tool("c1", None, pending=True)

    run = only(failed, model("", use("c1")), waiting, pending)

    assert run.llm_calls[0].error == ErrorInfo(type="RateLimitError", message="slow down")
    assert not run.llm_calls[2].answered
    assert not run.tool_calls[0].answered


def test_an_error_inside_of_a_sample_that_went_on_is_an_event():
    run = only(model(), event("error", error={"message": "OSError('disk')"}), error=None)

    (error,) = (event for event in run.events if isinstance(event, ErrorEvent))
    assert error.error == ErrorInfo(type="OSError", message="disk")
    assert run.status is RunStatus.SUCCESS


def test_images_that_inspect_took_out_are_said_to_be_hidden():
    image = {"type": "image", "image": "<base64-data-removed>"}

    run = only(model(asked=[{"role": "user", "content": [image]}]))

    manifest = replayability(run)
    assert [lacking.lacks for lacking in manifest.lacking] == [(Lack.HIDDEN,)]
    assert manifest.advice == ("Inspect keeps the images of its messages only with --log-images.",)


def test_an_input_of_several_messages_is_kept_as_them():
    several = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Go"}]

    assert only(model(), input=several).input == several
    assert only(model(), input=several[1:]).input == "Go"


def test_one_bad_sample_of_a_document_stops_no_other():
    text = json.dumps(log(a_sample(id={}), 7, a_sample(id=3)), indent=1).encode()

    imported = import_source(Source(text, "log.json"))

    assert [run.name for run in imported.runs] == ["refund/3"]
    assert len(imported.left_out) == 2
    assert "id: expected a text, got an object" in imported.left_out[0]
    assert "expected a sample, got a number" in imported.left_out[1]


def test_the_same_log_twice_is_the_same_runs():
    path = corpus("inspect_ai/test_skeleton__gap_models.json")

    assert import_trace(path).runs == import_trace(path).runs
    assert import_trace(path).runs[0].id.startswith("inspect-")


FULL = log(
    a_sample(
        event("step", action="begin", type="solver", name="x"),
        event("span_begin", id="S", type="tool", name="bash"),
        model("", use("c1", cmd="ls"), input_refs=[[0, 1]], span_id="S"),
        tool("c1", "ok", events=[model("x")], error={"type": "timeout", "message": "no"}),
        event("score", score={"value": 1}),
        scores={"s": {"value": "I"}},
        attachments={"ab" * 16: "x"},
        events_data={"messages": [{"role": "user", "content": [{"type": "text", "text": "Go"}]}]},
        limit={"type": "time", "limit": 9},
    ),
    a_sample(messages=[{"role": "assistant", "content": "x", "tool_calls": [use("c2")]}]),
)


@settings(max_examples=examples(60), deadline=None)
@given(damaged(FULL), st.data())
def test_damaged_logs_give_runs_or_words(document, data):
    text = json.dumps(document).encode()
    read_without_a_traceback("inspect", text)
    read_without_a_traceback("inspect", data.draw(truncated(text)))


EVAL = sample(next(name for name in samples_below("inspect_ai") if name.endswith(".eval"))).read_bytes()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(EVAL) - 1), st.integers(0, 255)), max_size=8), st.integers(0, len(EVAL)))
def test_damaged_zips_give_runs_or_words(changes, size):
    content = bytearray(EVAL)
    for at, byte in changes:
        content[at] = byte
    read_without_a_traceback("inspect", bytes(content))
    read_without_a_traceback("inspect", bytes(content[:size]))


def test_nothing_of_a_zip_is_written_to_disk(tmp_path):
    file = tmp_path / "log.eval"
    escaping = {"header.json": HEADER, "samples/../../../x.json": a_sample()}
    file.write_bytes(packed(escaping))

    assert len(import_source(read_source(file)).runs) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["log.eval"]


def test_the_target_of_a_choice_is_the_answer_that_was_expected():
    scores = {"choice": {"value": "I"}, "model_graded_qa": {"value": "I"}}

    choice, graded = labels_of(only(model(), scores=scores, target="A"))
    right, _graded = labels_of(only(model(), scores={"choice": {"value": "C"}, "other": {"value": 1}}, target="A"))

    assert (choice.expected_answer, choice.expected_output) == ("A", ())
    assert graded.criteria == ("The response agrees with the reference answer: A",)
    assert right.expected_answer == ""
