"""Trace files come in, whatever their format, as often as one likes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.langsmith_server import incident

import replaykit as rk
from replaykit.cases.session import load_session
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.model.run import encode_run

Run = Callable[..., Any]


def native(run_id: str = "native-1", **more: Any) -> dict[str, Any]:
    events = [
        {"type": "tool_call", "tool_name": "search", "tool_args": {"q": 1}, "output": {"hits": [1, 2]}},
        {"type": "final_output", "content": "two"},
    ]
    return {"run_id": run_id, "status": "success", "input": "how many?", "events": events, **more}


def written(name: str, value: Any) -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return file


def ids() -> set[str]:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return {header.id for header in store.headers()}


def test_every_known_format_comes_in_and_is_there_once(replaykit: Run) -> None:
    written("traces/native.json", native())
    written("traces/deeper/runs.jsonl", b"\n".join(json.dumps(run).encode() for run in incident()))
    written("traces/log.json", encode_run(rk.TraceRun(id="log-1", name="mine")))
    written("traces/.hidden.json", b"nonsense")

    first = replaykit("import", "traces", "--json")
    again = replaykit("import", "traces", "--json")

    found = {"native-1", "abc123def456", "log-1"}
    assert (first.code, first.results) == (0, dict.fromkeys(found, "imported"))
    assert (again.code, again.results) == (0, dict.fromkeys(found, "unchanged"))
    assert ids() == found


def test_one_bad_record_of_a_file_is_told_and_the_others_come_in(replaykit: Run) -> None:
    bad = native("bad", status="sucess")
    file = written("many.json", [native("a"), bad, native("b"), 3])

    ran = replaykit("import", file, "--json")

    assert (ran.code, ran.results) == (1, {"a": "imported", "b": "imported", "": "failed"})
    problems = [entry["problem"] for entry in ran.entries if entry["result"] == "failed"]
    assert "many.json:1: status: unknown status 'sucess'; did you mean 'success'?" in problems[0]
    assert len(problems) == 2


def test_one_bad_file_is_told_and_the_others_come_in(replaykit: Run) -> None:
    files = [
        written("good.json", native()),
        written("empty.json", b""),
        written("cut.json", json.dumps(native("cut")).encode()[:-20]),
        written("else.json", {"hello": 1}),
        Path("missing.json"),
    ]

    ran = replaykit("import", *files)

    assert ran.code == 1
    assert "1 imported" in ran.out
    for name in ("empty.json", "cut.json", "else.json", "missing.json"):
        assert name in ran.err
    assert ids() == {"native-1"}


def test_nothing_to_bring_in_is_told_and_makes_no_store(replaykit: Run) -> None:
    Path("empty").mkdir()

    assert replaykit("import", "empty").code == 5
    assert not Path(".replaykit").exists()


def test_the_format_can_be_named(replaykit: Run) -> None:
    file = written("one.json", native())

    assert replaykit("import", "--format", "replaykit", file).code == 0
    assert replaykit("import", "files", file, "--format", "langsmith").code == 1
    wrong = replaykit("import", file, "--format", "langsmit")
    assert (wrong.code, "did you mean 'langsmith'?" in wrong.err) == (2, True)


def test_a_dry_run_shows_what_would_come_in_and_writes_nothing(replaykit: Run) -> None:
    file = written("many.json", [native("a"), native("b")])
    replaykit("import", written("one.json", native("a")))
    before = Path(".replaykit/store.db").read_bytes()

    ran = replaykit("import", file, "--dry-run")

    assert "a    unchanged  success" in ran.out
    assert "b    imported   success" in ran.out
    assert "nothing was written" in ran.out
    assert (ids(), Path(".replaykit/store.db").read_bytes()) == ({"a"}, before)


def test_a_run_of_another_format_is_not_replaced(replaykit: Run) -> None:
    replaykit("import", written("one.json", native("same")))
    other = {**incident()[0], "id": "same", "trace_id": "same"}

    ran = replaykit("import", written("two.json", [other]), "--json")

    assert (ran.code, ran.results) == (0, {"same": "there"})
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert store.header("same").origin.format == "replaykit"


@pytest.mark.parametrize("run_id", ["", " ", "a\nb", "\x1b[31m"])
def test_an_id_that_is_none_is_refused(replaykit: Run, run_id: str) -> None:
    ran = replaykit("import", written("one.json", native(run_id)))

    assert ran.code == 1
    assert "is not an id of a run" in ran.err
    assert "\x1b[31m" not in ran.out + ran.err.replace("\x1b[31m\x1b[1merror", "")


def test_sessions_are_made_of_files_too(replaykit: Run) -> None:
    ran = replaykit("import", written("one.json", native()), "-o", "replays", "--contract", "C")

    assert ran.code == 0
    session = load_session(Path("replays/native-1.yaml"))
    assert (session.contract, session.calls[0].result, session.source) == ("C", {"hits": [1, 2]}, "replaykit")


def test_a_file_called_as_a_part_of_the_verb_is_named_by_its_path(replaykit: Run) -> None:
    written("langsmith", native())

    assert replaykit("import", "./langsmith").code == 0


class _Lines:
    name = "lines"
    title = "Lines"

    def recognises(self, source: Source) -> bool:
        return source.text.startswith(b"run ")

    def read(self, source: Source) -> Iterator[Found]:
        yield rk.TraceRun(id=source.text.decode().split()[1])


@pytest.fixture
def another_format() -> Iterator[None]:
    IMPORTERS.register("lines")(_Lines())
    yield
    del IMPORTERS._entries["lines"]


@pytest.mark.usefixtures("another_format")
def test_a_format_that_somebody_registers_comes_in_as_well(replaykit: Run) -> None:
    ran = replaykit("import", written("my.log", b"run 7f"), "--json")

    assert (ran.code, ran.results) == (0, {"7f": "imported"})
