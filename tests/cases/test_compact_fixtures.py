"""Fixtures whose size follows what was said: shared parts, large values in files, calls of another take."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replaykit.cases.fixtures import read_fixtures, write_fixtures
from replaykit.errors import InvalidFile
from replaykit.model.events import Call, CallSpan, ErrorInfo, Exchange, LlmCall, ToolCall, WireInfo
from replaykit.model.shared_parts import MAX_EXPANDED_BYTES
from replaykit.model.values import Raw, canonical, raw
from replaykit.redaction.events import Door
from replaykit.redaction.redactor import Redactor

LONG = "word " * 60
LARGE = "0123456789abcdef" * 5000


def message(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"{number}: {LONG}"}


def asks(count: int) -> list[Call]:
    """Model calls over a conversation that grows, the last with all of its messages."""
    messages = [message(number) for number in range(count)]
    arguments = [{"messages": messages[: number + 1], "model": "gpt-5"} for number in range(count)]
    return [
        LlmCall(seq=seq, name="gpt-5", arguments_json=Raw(canonical(value)), result_json=raw(f"answer {seq}"))
        for seq, value in enumerate(arguments)
    ]


def content_of(case: Path) -> Any:
    (file,) = (case / "fixtures").glob("*.json")
    return json.loads(file.read_text())


def changed(case: Path, **changes: Any) -> Path:
    """Give the first call of the case's fixture file other members; the file, one member a line."""
    (file,) = (case / "fixtures").glob("*.json")
    content = json.loads(file.read_text())
    content["calls"][0] |= changes
    file.write_text(json.dumps(content, indent=1))
    return file


def refused(case: Path) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_fixtures(case)
    return caught.value


def test_messages_that_calls_repeat_are_written_once_and_in_order(tmp_path: Path) -> None:
    calls = asks(8)

    write_fixtures(tmp_path, calls)

    content = content_of(tmp_path)
    assert content["parts"] == {"messages": [message(number) for number in range(8)]}
    assert [call["parts"]["messages"] for call in content["calls"]] == ["0", *(f"0-{n}" for n in range(1, 8))]
    assert content["calls"][7]["arguments"] == {"model": "gpt-5"}
    assert read_fixtures(tmp_path) == calls


def test_one_more_message_only_adds_lines(tmp_path: Path) -> None:
    (before,) = write_fixtures(tmp_path / "before", asks(5))
    (after,) = write_fixtures(tmp_path / "after", asks(6))
    old, new = before.read_text().splitlines(), after.read_text().splitlines()

    kept = iter(new)
    assert all(any(line.rstrip(",") == other.rstrip(",") for other in kept) for line in old)
    assert len(new) - len(old) <= 12


def test_members_inside_of_other_members_are_shared_too(tmp_path: Path) -> None:
    messages = [message(number) for number in range(6)]
    bodies = [{"body": {"model": "x", "input": {"messages": messages[: n + 1]}}, "query": []} for n in range(6)]
    texts = [Raw(canonical(body)) for body in bodies]
    calls = [Exchange(seq=n, name="POST x/y", arguments_json=text, result_json=raw(1)) for n, text in enumerate(texts)]

    write_fixtures(tmp_path, calls)

    last = content_of(tmp_path)["calls"][5]
    assert last["arguments"] == {"body": {"input": {}, "model": "x"}, "query": []}
    assert last["parts"] == {"body.input.messages": "0-5"}
    assert read_fixtures(tmp_path) == calls


def test_a_long_text_that_repeats_is_shared_as_a_whole(tmp_path: Path) -> None:
    system = "You are careful. " * 40
    calls = [ToolCall(seq=n, name="ask", arguments_json=raw({"n": n, "system": system})) for n in range(3)]

    write_fixtures(tmp_path, calls)

    content = content_of(tmp_path)
    assert content["parts"] == {"system": [system]}
    assert [call["parts"] for call in content["calls"]] == [{"system": 0}] * 3
    assert read_fixtures(tmp_path) == calls


@pytest.mark.parametrize(
    "arguments",
    [
        {"a.b": [message(1)] * 5, "": LONG * 10},
        {"messages": {"$tuple": [message(1), message(1)]}},
        {"messages": [[message(1)], "0-1", 0, None]},
        {"parts": {"messages": "0-1"}, "values": {"result": "values/" + "0" * 32 + ".json"}, "text": LONG},
        {"rows": list(range(400))},
        [message(1), message(2)],
        "0-1" * 100,
    ],
)
def test_whatever_repeats_comes_back_as_it_was(arguments: Any, tmp_path: Path) -> None:
    calls = [ToolCall(seq=n, name="t", arguments_json=Raw(canonical(arguments)), result_json=raw(n)) for n in range(4)]

    write_fixtures(tmp_path, calls)

    assert read_fixtures(tmp_path) == calls


def test_large_values_are_files_and_equal_ones_are_one(tmp_path: Path) -> None:
    rows = [{"id": n, "name": "a" * 50} for n in range(2000)]
    error = ErrorInfo(type="E", message="m", traceback=LARGE)
    wire = WireInfo(method="GET", url="http://x/", status=200)
    calls: list[Call] = [
        ToolCall(seq=0, name="fetch", arguments_json=raw({"body": {"file": LARGE}}), result_json=raw(LARGE)),
        ToolCall(seq=1, name="fetch", arguments_json=raw({"body": 1}), result_json=raw(rows)),
        ToolCall(seq=2, name="fetch", arguments_json=raw({}), error=error),
        Exchange(seq=3, name="GET x/", items_json=(raw("a"), raw(LARGE), raw(None)), wire=wire),
    ]

    write_fixtures(tmp_path, calls)

    files = sorted((tmp_path / "fixtures" / "values").iterdir())
    assert len(files) == 3
    assert max(file.stat().st_size for file in (tmp_path / "fixtures").glob("*.json")) < 2000
    assert read_fixtures(tmp_path) == calls
    first = json.loads((tmp_path / "fixtures" / "fetch.json").read_text())["calls"][0]
    assert first["values"]["result"] == first["values"]["arguments.body.file"]


def test_a_value_in_memory_is_not_read_a_second_time(tmp_path: Path) -> None:
    call = ToolCall(seq=0, name="fetch", result_json=raw(LARGE))
    write_fixtures(tmp_path, [call])

    (read,) = read_fixtures(tmp_path, held=[call.result_json])

    assert read.result_json is call.result_json


@pytest.mark.parametrize("name", ["password", "authorization", "card_number"])
def test_redaction_never_takes_a_reference_for_a_secret(name: str, tmp_path: Path) -> None:
    page = "word " * 20_000
    arguments = {name: [message(number) for number in range(30)], "body": {name: page, "text": page}}
    calls = [
        ToolCall(seq=seq, name="t", arguments_json=Raw(canonical(arguments)), result_json=raw(1)) for seq in range(3)
    ]
    redactor = Redactor(b"key")
    clean = [Door(redactor).event(call) for call in calls]

    (file,) = write_fixtures(tmp_path, clean, redactor)  # type: ignore[arg-type]

    assert read_fixtures(tmp_path) == clean
    assert not redactor.scan(file.read_bytes())


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """The file of a large value in a case."""
    write_fixtures(tmp_path, [ToolCall(seq=0, name="fetch", result_json=raw(LARGE))])
    (file,) = (tmp_path / "fixtures" / "values").iterdir()
    return file


def test_a_missing_value_is_told_with_its_file_and_who_refers_to_it(large: Path, tmp_path: Path) -> None:
    large.unlink()

    error = refused(tmp_path)

    assert error.file == str(large)
    assert "no such file" in str(error)
    assert "fetch.json:10 refers to it" in str(error)


def test_a_changed_value_is_told_with_its_file(large: Path, tmp_path: Path) -> None:
    large.write_text(large.read_text().replace("0123", "3210", 1))

    error = refused(tmp_path)

    assert (error.file, error.line) == (str(large), None)
    assert "its content does not match its name" in str(error)


def test_a_value_with_the_line_ends_of_windows_is_the_same(tmp_path: Path) -> None:
    call = ToolCall(seq=0, name="fetch", result_json=raw([{"id": n, "text": "a\r\nb" * 10} for n in range(2000)]))
    write_fixtures(tmp_path, [call])
    (file,) = (tmp_path / "fixtures" / "values").iterdir()
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    assert read_fixtures(tmp_path) == [call]


@pytest.mark.parametrize("what", ["file", "folder", "pipe"])
def test_values_are_not_read_through_links(what: str, large: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    if what == "folder":
        large.parent.rename(outside)
        large.parent.symlink_to(outside)
    else:
        large.rename(outside)
        os.mkfifo(large) if what == "pipe" else large.symlink_to(outside)

    assert refused(tmp_path).file == str(large)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../../secret.json", "expected the name of a file in values/"),
        ("/etc/passwd", "expected the name of a file in values/"),
        ("values/../../x.json", "expected the name of a file in values/"),
        ("values/" + "0" * 31 + "/.json", "expected the name of a file in values/"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_with_its_line(
    name: str, words: str, large: Path, tmp_path: Path
) -> None:
    changed(tmp_path, values={"result": name})

    error = refused(tmp_path)

    assert words in str(error)
    assert (Path(error.file).name, error.line) == ("fetch.json", 11)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"result": 1}, "the call has a result as well"),
        ({"values": {"items.0": "values/x"}}, "there is no 'items.0'"),
        ({"values": {"wire": "values/x"}}, "expected result, error, items.NUMBER or arguments.NAME"),
        ({"values": {"arguments.a.b.c.d": None}}, "calls.0.values"),
    ],
)
def test_a_value_that_fits_nowhere_is_refused(changes: dict[str, Any], words: str, large: Path, tmp_path: Path) -> None:
    changed(tmp_path, **changes)

    assert words in str(refused(tmp_path))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"messages": "0-999999999999"}, "expected positions such as '0-3,7'"),
        ({"messages": "0-999999999"}, "there is no part 0-999999999 of 'messages', which has 4"),
        ({"messages": "3-0"}, "there is no part 3-0"),
        ({"messages": 4}, "there is no part 4"),
        ({"messages": -1}, "there is no part -1"),
        ({"messages": ""}, "expected positions"),
        ({"messages": "0-1,"}, "expected positions"),
        ({"messages": "٠"}, "expected positions"),
        ({"tools": "0"}, "there are no parts 'tools'"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_with_its_line(parts: Any, words: str, tmp_path: Path) -> None:
    write_fixtures(tmp_path, asks(4))
    file = changed(tmp_path, parts=parts)
    (name,) = parts
    lines = [number for number, text in enumerate(file.read_text().splitlines(), 1) if f'"{name}":' in text]

    error = refused(tmp_path)

    assert words in str(error)
    assert error.line == lines[0 if name == "tools" else 1]


def test_a_member_that_stands_in_the_arguments_as_well_is_refused(tmp_path: Path) -> None:
    write_fixtures(tmp_path, asks(4))
    changed(tmp_path, arguments={"messages": []})

    assert "'messages' is in the arguments as well" in str(refused(tmp_path))


def test_a_small_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    write_fixtures(tmp_path, asks(4))
    times = MAX_EXPANDED_BYTES // len(LONG) + 1
    file = changed(tmp_path, parts={"messages": ",".join(["0-3"] * (times // 4))})
    assert file.stat().st_size < MAX_EXPANDED_BYTES / 50

    assert f"more than {MAX_EXPANDED_BYTES:,} bytes" in str(refused(tmp_path))


def test_a_call_of_another_take_repeats_nothing_of_the_recorded_one(tmp_path: Path) -> None:
    recorded = asks(3)
    span = CallSpan(begin=4, begin_s=0.5, end=5, end_s=0.75)
    again = msgspec.structs.replace(recorded[1], seq=7, path="/~task#0", parent=6, span=span)
    new = ToolCall(seq=8, name="ask", result_json=raw("new"))
    take = tmp_path / "takes" / "shorter"

    write_fixtures(take, [again, new], None, {7: 1})

    entry = json.loads((take / "fixtures" / "model.gpt-5.json").read_text())["calls"][0]
    assert entry == {"call": 7, "same_as": 1, "path": "/~task#0", "parent": 6, "span": msgspec.to_builtins(span)}
    assert read_fixtures(take, recorded) == [again, new]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"same_as": 9}, "there is no recorded call 9"),
        ({"same_as": 5}, "the recorded call 5 is of another kind or name: tool_call 'lookup'"),
        ({"same_as": 0, "result": 1}, "no arguments and no outcome of its own"),
    ],
)
def test_a_call_that_is_the_same_as_none_is_refused_with_its_line(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    recorded = [*asks(1), ToolCall(seq=5, name="lookup")]
    write_fixtures(tmp_path, [msgspec.structs.replace(recorded[0], seq=1)], None, {1: 0})
    changed(tmp_path, **changes)

    with pytest.raises(InvalidFile) as caught:
        read_fixtures(tmp_path, recorded)

    assert words in str(caught.value)
    assert caught.value.line in (6, 8)
