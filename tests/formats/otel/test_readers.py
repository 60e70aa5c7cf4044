"""OTLP as JSON and as protobuf: one form comes out of all that writers write."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import TRACE, agent, document, logs, read, record, span, story
from tests.formats.samples import sample, samples_below, unpacked
from tests.memory import traced_memory

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.formats.otel import protobuf
from replaykit.formats.otel.otlp_json import read_document
from replaykit.formats.spans.span import BadPayload

DIRECTORIES = (
    *("otel_genai", "openinference", "openllmetry", "langfuse", "pydantic_ai"),
    *("vercel_ai_sdk", "vercel_ai_sdk_v7"),
)
BOTH = [name for room in DIRECTORIES for name in samples_below(room) if ".otlp" in name and name.endswith(".json")]


@pytest.mark.parametrize("name", BOTH)
def test_protobuf_and_json_of_one_trace_read_alike(name: str) -> None:
    given, data = json.loads(unpacked(sample(name))), unpacked(sample(name.removesuffix("json") + "pb"))
    as_logs = "resourceLogs" in given
    found = protobuf.read_logs(data) if as_logs else protobuf.read_traces(data)

    assert found.spans
    assert found == read_document(given)
    assert protobuf.is_logs(data) is as_logs
    assert protobuf.is_traces(data) is not as_logs


def test_log_records_without_their_spans_are_told() -> None:
    for ending in ("json", "pb"):
        with pytest.raises(InvalidFile, match="only log records") as caught:
            import_trace(sample(f"otel_genai/openai_v2_legacy_events.otlp_logs.{ending}"))
        assert "one file with its spans" in str(caught.value.hint)


def test_ids_are_read_in_hex_in_base64_and_as_sdks_print_them() -> None:
    plain = span(7, 6)
    in_base64 = {
        name: base64.b64encode(bytes.fromhex(plain[name])).decode() for name in ("traceId", "spanId", "parentSpanId")
    }
    printed = {name: f"0x{plain[name]}" for name in in_base64}
    shouted = {name: plain[name].upper() for name in in_base64}

    assert read(plain) == read(plain | in_base64) == read(plain | printed) == read(plain | shouted)


def test_names_numbers_and_enums_are_read_as_any_writer_writes_them() -> None:
    usual = span(1, attributes={"n": 5}, error="no")
    other = {
        "trace_id": usual["traceId"],
        "span_id": usual["spanId"],
        "name": usual["name"],
        "start_time_unix_nano": int(usual["startTimeUnixNano"]),
        "end_time_unix_nano": int(usual["endTimeUnixNano"]),
        "attributes": [{"key": "n", "value": {"int_value": 5}}],
        "status": {"code": "STATUS_CODE_ERROR", "message": "no"},
    }
    held = {"resource_spans": [{"scope_spans": [{"scope": {"name": "tests"}, "spans": [other]}]}]}

    assert read_document(held).spans == read(usual)


def test_values_of_all_kinds_come_through() -> None:
    given = {"s": "x", "i": -3, "f": 0.5, "b": False, "l": [1, "two", [3]], "o": {"in": {"deep": [None]}}, "e": None}

    (found,) = read(span(1, attributes=given))

    assert found.attributes == given
    assert protobuf.read_traces(as_protobuf(document(span(1, attributes=given)))).spans[0].attributes == given


def test_numbers_that_json_cannot_say_are_texts() -> None:
    request = ExportTraceServiceRequest()
    made = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"1" * 16, span_id=b"2" * 8)
    for name, number in (("a", float("nan")), ("b", float("-inf"))):
        made.attributes.add(key=name).value.double_value = number
    made.attributes.add(key="c").value.bytes_value = b"\xff\x00"

    (found,) = protobuf.read_traces(request.SerializeToString()).spans

    assert found.attributes == {"a": "NaN", "b": "-Infinity", "c": "/wA="}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"traceId": ""}, "without a trace id"),
        ({"traceId": "0" * 32}, "without a trace id"),
        ({"traceId": "xyz!"}, "not a trace id"),
        ({"traceId": 5}, "not text"),
        ({"spanId": "abcd"}, "span id"),
        ({"spanId": None}, "without a span id"),
        ({"parentSpanId": "zz"}, "not a link to a span"),
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano"),
        ({"endTimeUnixNano": -1}, "endTimeUnixNano"),
        ({"name": 5}, "name: expected a text"),
        ({"attributes": 5}, "attributes: expected a list"),
        ({"attributes": [5]}, "expected an object"),
        ({"events": {}}, "events: expected a list"),
        ({"status": []}, "expected an object"),
    ],
)
def test_a_bad_span_is_told_and_stops_no_other(changed: dict[str, Any], said: str) -> None:
    reading = read_document(document(span(1), span(2) | changed, span(3)))

    assert [found.name for found in reading.spans] == ["span 1", "span 3"]
    assert reading.rejected == 1
    assert said in reading.problem


def test_a_bad_span_in_protobuf_stops_no_other() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"1" * 16, span_id=b"2" * 8, name="good")
    spans.add(trace_id=b"short", span_id=b"2" * 8)
    spans.add(trace_id=b"1" * 16, span_id=b"3" * 8, name="broken")
    data = request.SerializeToString()
    broken = data[: data.index(b"broken")] + b"\xff\xfe\xfd\xfc\xfb\xfa" + data[data.index(b"broken") + 6 :]

    reading = protobuf.read_traces(broken)

    assert [found.name for found in reading.spans] == ["good"]
    assert reading.rejected == 2


def test_log_records_that_speak_of_no_span_are_passed_over() -> None:
    held = logs(
        record(1, "gen_ai.user.message", {"content": "hi"}),
        record(1, "", None, attributes={"event.name": "gen_ai.choice"}),
        record(1, "app.started"),
        record(1, "gen_ai.user.message", traceId="", spanId=""),
    )

    found = read_document(held)

    assert [(item.happenings[0].name, item.is_aside) for item in found.spans] == [
        ("gen_ai.user.message", True),
        ("gen_ai.choice", True),
    ]
    assert found.rejected == 0


@pytest.mark.parametrize("given", [[], 5, "x", None, {"resourceSpans": 5}, {"resourceSpans": [5]}])
def test_what_is_no_export_is_refused(given: Any) -> None:
    with pytest.raises(BadPayload):
        read_document(given)


@pytest.mark.parametrize(
    "text", [b"\x0a", b"\x0a\x05ab", b"\x08\x01", b"\xff" * 12, b"\x0a\x02\x12", b"hello", b"\x07"]
)
def test_bytes_that_are_no_protobuf_are_refused(text: bytes) -> None:
    with pytest.raises(BadPayload, match="not OTLP"):
        protobuf.read_traces(text)


def test_files_are_one_document_a_list_or_one_a_line(tmp_path: Path) -> None:
    halves = [document(*story()[:3]), document(*story()[3:])]
    texts = {
        "whole": json.dumps(document(*story()), indent=2).encode(),
        "list": json.dumps(halves).encode(),
        "lines": b"\n\n".join(json.dumps(half).encode() for half in halves) + b"\n",
        "protobuf": as_protobuf(document(*story())),
        "sized": b"".join(len(one).to_bytes(4, "big") + one for one in map(as_protobuf, halves)),
    }
    runs = []
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        found = import_trace(tmp_path / name)
        assert found.format == "otlp", name
        runs += found.runs

    assert len(runs) == 5
    assert all(run == runs[0] for run in runs)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b'{"a": 1}', "expected an object with `resourceSpans`"),
        (b"[5]", "expected an object with `resourceSpans`"),
        (b'{"resourceSpans": [{"scopeSpans": 5}]}', "scopeSpans: expected a list"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "\\q"}]}]}]}', "not JSON"),
        (b'{"resourceSpans": [{"resource": 5, "scopeSpans": [{"spans": [{}, {}]}]}]}', "2 spans are not OTLP"),
    ],
)
def test_a_bad_line_is_named_and_stops_no_other(line: bytes, said: str) -> None:
    text = json.dumps(document(*story())).encode()

    found = import_source(Source(text + b"\n" + line + b"\n\n", "traces.jsonl"))

    assert len(found.runs) == 1
    (problem,) = found.left_out
    assert problem.startswith("traces.jsonl:2: ")
    assert said in problem


def test_metrics_between_traces_are_passed_over() -> None:
    text = json.dumps(document(*story())).encode()

    found = import_source(Source(text + b'\n{"resourceMetrics": []}\n{"resourceSpans": []}\n', "traces.jsonl"))

    assert len(found.runs) == 1
    assert found.remarks == ()


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_a_trace_is_one_run_however_its_spans_are_spread_over_lines(at_once: int) -> None:
    spans = story()
    other = [item | {"traceId": "f" * 32} for item in spans]
    mixed = [item for pair in zip(spans, other, strict=True) for item in pair]
    lines = [document(*mixed[first : first + at_once]) for first in range(0, len(mixed), at_once)]
    text = b"\n".join(json.dumps(line).encode() for line in lines)

    first, second = import_source(Source(text, "t.jsonl")).runs

    (whole,) = import_source(Source(json.dumps(document(*spans)).encode(), "t.json")).runs
    assert first == whole
    assert second.id == "f" * 32
    assert second.events == whole.events


def test_lines_are_read_as_any_writer_writes_them() -> None:
    """The quick way of lines, and the way of whole documents, say the same of odd spellings."""
    usual = span(1, attributes={"gen_ai.operation.name": "invoke_agent"})
    odd = [
        usual | {"traceId": f"0x{TRACE}"},
        usual | {"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode()},
        {"links": [{"traceId": "a" * 32}], **usual},
        usual | {"startTimeUnixNano": int(usual["startTimeUnixNano"])},
        usual | {"attributes": usual["attributes"] + [{"key": "n", "value": {"int_value": "7"}}]},
        usual | {"attributes": usual["attributes"] + [{"key": "n", "value": {}}, {"key": "d", "value": None}]},
        usual | {"attributes": {"gen_ai.operation.name": "invoke_agent", "n": 1}},
        usual | {"attributes": [*usual["attributes"], *(pair("i", kind, given) for kind, given in KINDS)]},
        usual | {"events": [{"name": "exception", "timeUnixNano": "5", "attributes": []}], "status": {"code": "2"}},
        {name.replace("Id", "_id") if name in ("traceId", "spanId") else name: item for name, item in usual.items()},
    ]
    for item in odd:
        line = json.dumps(document(item)).encode()
        in_lines = import_source(Source(line + b"\n" + line, "t.jsonl"))
        whole = import_source(Source(line, "t.json"))
        assert in_lines.runs == whole.runs, item


KINDS = [
    ("intValue", "-5"),
    ("intValue", 12),
    ("doubleValue", 1),
    ("doubleValue", 0.5),
    ("doubleValue", "NaN"),
    ("boolValue", False),
    ("bytesValue", "/wA="),
    ("arrayValue", {"values": [{"stringValue": "a"}, {"intValue": "1"}]}),
    ("kvlistValue", {"values": [{"key": "k", "value": {"boolValue": True}}]}),
]


def pair(name: str, kind: str, given: Any) -> dict[str, Any]:
    return {"key": f"{name}.{kind}.{given}"[:30], "value": {kind: given}}


def test_a_file_without_agents_says_so() -> None:
    text = json.dumps(document(span(1, name="GET /"))).encode()

    with pytest.raises(InvalidFile, match="no span belongs to an agent"):
        import_source(Source(text, "web.json"))


def test_bad_spans_of_a_file_are_left_out_and_told() -> None:
    text = json.dumps(document(*story(), agent(9, traceId="oops!"))).encode()

    found = import_source(Source(text, "t.json"))

    assert len(found.runs) == 1
    assert found.left_out == ("t.json: 1 spans are not OTLP: not a trace id: 'oops!'",)


def test_without_the_extra_json_is_read_and_protobuf_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(document(*story())))
    (tmp_path / "t.pb").write_bytes(as_protobuf(document(*story())))
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from replaykit.formats.files import import_trace\n"
        "from replaykit.errors import UsageError\n"
        "print(len(import_trace('t.json').runs))\n"
        "try: import_trace('t.pb')\n"
        "except UsageError as error: print(error)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.splitlines()[0] == "1"
    assert "pip install '.[otel]'" in done.stdout


def _nested(depth: int) -> dict[str, Any]:
    held: dict[str, Any] = {"stringValue": "x"}
    for _ in range(depth):
        held = {"arrayValue": {"values": [held]}}
    return held


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    deep = span(1) | {"attributes": [{"key": "a", "value": _nested(500)}]}

    reading = read_document(document(deep, span(2)))

    assert (len(reading.spans), reading.problem) == (1, "nested too deeply")


def test_memory_stays_within_bounds_for_a_document_of_nothing_but_empty_spans() -> None:
    scope = b"\x12\x00" * 2_000_000
    inner = b"\x12" + _varint(len(scope)) + scope
    data = b"\x0a" + _varint(len(inner)) + inner

    with traced_memory() as peak, pytest.raises(BadPayload, match="more than 100,000 spans"):
        protobuf.read_traces(data)

    assert peak() < 64 * 1024 * 1024


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


PROTOBUF = as_protobuf(document(*story()))
TEXT = json.dumps(document(*story())).encode()


@given(st.data())
def test_mutated_protobuf_is_read_or_refused(data: st.DataObject) -> None:
    mutated = bytearray(PROTOBUF)
    for _ in range(data.draw(st.integers(1, 12))):
        place = data.draw(st.integers(0, len(mutated) - 1))
        mutated[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    _read_or_refused(protobuf.read_traces, bytes(mutated))
    _read_or_refused(protobuf.read_logs, bytes(mutated))


@given(st.binary(max_size=400))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    _read_or_refused(protobuf.read_traces, data)
    _read_or_refused(protobuf.read_logs, data)
    assert protobuf.messages_in(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_mutated_json_is_read_or_refused(data: st.DataObject) -> None:
    held = json.loads(TEXT)
    place = held
    while isinstance(place, dict | list) and place and data.draw(st.integers(0, 9)):
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or not place[key] or not data.draw(st.integers(0, 5)):
            place[key] = data.draw(_JSON)
            break
        place = place[key]
    _read_or_refused(read_document, held)


@given(_JSON)
def test_any_json_is_read_or_refused(held: Any) -> None:
    _read_or_refused(read_document, held)
    _read_or_refused(read_document, {"resourceSpans": [{"scopeSpans": [{"spans": [held]}]}]})


def _read_or_refused(reader: Any, given_: Any) -> None:
    from replaykit.formats.otel import by_trace
    from replaykit.formats.spans.runs import run_of

    try:
        reading = reader(given_)
    except BadPayload:
        return
    for spans in by_trace(reading.spans).values():
        run_of(spans)  # whatever could be read can be made a run of, or is nobody's


def test_a_trace_id_is_the_runs_id() -> None:
    assert import_source(Source(TEXT, "t.json")).runs[0].id == TRACE


def test_a_line_that_was_cut_within_a_character_comes_in_beside_the_others() -> None:
    lines = [
        json.dumps(document(agent(1, attributes={"said": text}) | {"traceId": f"{number:032x}"})).encode()
        for number, text in enumerate(("whole", "half \ud83d", "whole"), 1)
    ]
    Path("traces.jsonl").write_bytes(b"\n".join(lines))

    found = import_trace("traces.jsonl")

    assert (len(found.runs), found.left_out) == (3, ())
    assert found.runs[1].metadata["attributes"]["said"] == "half \ufffd"
