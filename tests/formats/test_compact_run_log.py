"""The source trace of a case: a run log whose calls share parts and name the case's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_trace
from replaykit.formats.run_log import read_run_log
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.model.values import Raw, canonical, raw

LARGE = "0123456789abcdef" * 5000
MESSAGES = [{"role": "user", "content": f"{number} " + "word " * 60} for number in range(6)]
ASKS = [
    LlmCall(seq=n, name="gpt", arguments_json=Raw(canonical({"messages": MESSAGES[: n + 1]})), result_json=raw("a"))
    for n in range(6)
]
RUN = TraceRun(
    id="run-1",
    status=RunStatus.ERROR,
    events=(*ASKS, ToolCall(seq=6, name="fetch", arguments_json=raw({}), result_json=raw(LARGE))),
    event_count=7,
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The source trace of a case of the run."""
    rk.scaffold(RUN, tmp_path / "case", redact=False)
    return tmp_path / "case" / "source-trace.json"


def changed(trace: Path, change: Any) -> InvalidFile:
    """Change the document, and give what is said of it."""
    document = json.loads(trace.read_text())
    change(document)
    trace.write_text(json.dumps(document, indent=1))
    with pytest.raises(InvalidFile) as caught:
        import_trace(trace)
    return caught.value


def test_the_source_trace_holds_each_message_once_and_no_large_value(trace: Path) -> None:
    document = json.loads(trace.read_text())

    assert document["replaykit"] == 2
    assert document["parts"] == {"messages": MESSAGES}
    assert document["run"]["events"][5]["parts"] == {"messages": "0-5"}
    (file,) = (trace.parent / "fixtures" / "values").iterdir()
    assert document["run"]["events"][6]["values"] == {"result": f"fixtures/values/{file.name}"}
    assert import_trace(trace).runs == (RUN,)


def test_an_exported_run_log_stands_by_itself() -> None:
    text = encode_run(RUN)

    assert json.loads(text)["replaykit"] == 1
    assert read_run_log(Source(text, "-")) == RUN


def test_a_value_file_that_is_gone_is_told_with_who_refers_to_it(trace: Path) -> None:
    (file,) = (trace.parent / "fixtures" / "values").iterdir()
    file.unlink()

    error = changed(trace, lambda document: None)

    assert error.file == str(file)
    assert "source-trace.json:" in str(error)


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "fixtures/values/../../case.yaml", "values/x.json"])
def test_a_trace_names_no_files_but_the_values_of_its_case(trace: Path, name: str) -> None:
    error = changed(trace, lambda document: document["run"]["events"][6].update(values={"result": name}))

    assert "expected the name of a file in fixtures/values/" in str(error)
    assert error.line is not None


def test_values_are_not_read_from_a_linked_folder(trace: Path) -> None:
    fixtures = trace.parent / "fixtures"
    fixtures.rename(trace.parent.parent / "elsewhere")
    fixtures.symlink_to(trace.parent.parent / "elsewhere")

    assert "fixtures is a link" in str(changed(trace, lambda document: None))


def test_a_part_that_is_not_there_is_told_with_its_line(trace: Path) -> None:
    error = changed(trace, lambda document: document["run"]["events"][5].update(parts={"messages": "0-6"}))

    assert "there is no part 0-6 of 'messages', which has 6" in str(error)
    assert error.line is not None
