"""`replaykit import`: pipes, packs and directories; what is told while it goes on; many runs, held by nobody."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.commands import Ran, caller
from tests.formats.samples import DATA
from tests.intake.traces import failed, lines, native, written
from tests.matrix import sampled

import replaykit as rk
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source

COMMAND = [sys.executable, "-m", "replaykit", "import"]
RUNS = [native("a"), failed("b"), native("c")]


def ids() -> list[str]:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return sorted(header.id for header in store.headers())


@pytest.fixture
def bring(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `replaykit import`: its exit code, and what it said."""
    return caller(capsys, Ran, "import")


@sampled("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], count=2, start=1)
def test_standard_input_is_a_file_like_any_other(pack: Callable[[bytes], bytes]) -> None:
    done = subprocess.run([*COMMAND, "-", "--json"], input=pack(lines(RUNS)), capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, b"")
    assert [(entry["run"], entry["origin"]) for entry in json.loads(done.stdout)["entries"]] == [
        ("a", "-"),
        ("b", "-"),
        ("c", "-"),
    ]
    assert ids() == ["a", "b", "c"]


def test_what_comes_through_a_pipe_may_be_of_a_named_format() -> None:
    command = [*COMMAND, "--format", "langsmith", "-"]

    done = subprocess.run(command, input=lines(RUNS), capture_output=True, timeout=60)

    assert done.returncode == 1
    assert b"error: -" in done.stderr


def test_packed_files_come_in_from_a_directory(bring: Callable[..., Any]) -> None:
    written("traces/one.json.gz", gzip.compress(json.dumps(native("a")).encode()))
    written("traces/two.jsonl.zst", zstandard.ZstdCompressor().compress(lines([native("b"), native("c")])))

    code, out, _ = bring("traces")

    assert (code, ids()) == (0, ["a", "b", "c"])
    assert "3 imported" in out


def test_what_is_no_trace_in_a_directory_is_passed_over_with_one_remark(bring: Callable[..., Any]) -> None:
    written("traces/one.json", native("a"))
    written("traces/README.md", b"# Traces\n\nOf last week.\n")
    written("traces/LICENSE", b"Permission is hereby granted")
    written("traces/deep/logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    written("traces/deep/empty", b"")

    code, _, err = bring("traces")

    assert (code, ids()) == (0, ["a"])
    assert (
        err == "note: traces: passed over 4 files that are not traces: LICENSE, README.md, deep/empty, deep/logo.png\n"
    )


def test_nothing_but_such_files_is_nothing_at_all(bring: Callable[..., Any]) -> None:
    written("traces/README.md", b"# Traces")

    code, _, err = bring("traces")

    assert code == 5
    assert "passed over 1 file that is not a trace: README.md" in err


STRANGE = {
    "a trace that was cut": ("one.json", json.dumps(native("a")).encode()[:-9], "not JSON"),
    "JSON of no known format": ("package", b'{"name": "x"}', "not a trace of a known format"),
    "an empty trace": ("one.jsonl", b"", "the file is empty"),
    "a damaged pack": ("one.json.gz", gzip.compress(b'{"a": 1}')[:-6], "cannot be unpacked"),
    "a damaged pack of anything": ("one.gz", gzip.compress(b"words" * 99)[:20], "cannot be unpacked"),
}


@pytest.mark.parametrize(("name", "data", "told"), STRANGE.values(), ids=STRANGE.keys())
def test_what_may_have_been_a_trace_is_an_error_in_a_directory_too(
    bring: Callable[..., Any], name: str, data: bytes, told: str
) -> None:
    written("traces/good.json", native("good"))
    written(f"traces/{name}", data)

    code, _, err = bring("traces")

    assert (code, ids()) == (1, ["good"])
    assert f"traces/{name}" in err
    assert told in err


def test_a_binary_file_of_no_format_is_not_called_bad_json(bring: Callable[..., Any]) -> None:
    code, _, err = bring(written("trace.pb", b"\x0a\x05\xff\xfe\0\0\0"))

    assert code == 1
    assert "trace.pb: not a trace of a known format" in err
    assert "JSON" not in err


def test_lines_of_no_format_are_not_called_bad_json(bring: Callable[..., Any]) -> None:
    code, _, err = bring(written("patches.jsonl", lines([{"patch": 1}, {"patch": 2}])))

    assert code == 1
    assert "patches.jsonl: not a trace of a known format" in err
    assert "not JSON" not in err


@pytest.mark.parametrize("options", [["notes.md"], [".", "--format", "replaykit"]])
def test_a_file_that_is_named_or_whose_format_is_must_be_a_trace(bring: Callable[..., Any], options: list[str]) -> None:
    written("notes.md", b"# Notes")

    code, _, err = bring(*options)

    assert code == 1
    assert "notes.md" in err


def test_a_bad_record_is_told_with_its_line_and_the_others_come_in(bring: Callable[..., Any]) -> None:
    text = lines([native("a")]) + b'{"run_id": \n' + lines([native("b", status="sucess"), native("c")])

    code, out, err = bring(written("runs.jsonl", text))

    assert (code, ids()) == (1, ["a", "c"])
    assert "runs.jsonl:2: not JSON" in err
    assert "runs.jsonl:3: status: unknown status 'sucess'; did you mean 'success'?" in err
    assert "2 failed, 2 imported" in out


class _Breaks:
    """Somebody's importer, with a mistake in it."""

    name = "breaks"
    title = "Breaks"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(b"BREAKS")

    def read(self, source: Source) -> Iterator[Found]:
        yield rk.TraceRun(id="before")
        raise KeyError("spans")


@pytest.fixture
def breaks() -> Iterator[None]:
    IMPORTERS.register("breaks")(_Breaks())
    yield
    del IMPORTERS._entries["breaks"]


@pytest.mark.usefixtures("breaks")
def test_an_importer_that_breaks_is_named_and_stops_no_other_file(bring: Callable[..., Any]) -> None:
    code, _, err = bring(written("a.txt", b"BREAKS"), written("b.json", native("b")))

    assert (code, ids()) == (1, ["b", "before"])
    assert "a.txt: the importer 'breaks' failed: KeyError('spans')" in err


def test_the_formats_are_listed(bring: Callable[..., Any]) -> None:
    code, out, _ = bring("formats")
    as_json = json.loads(bring("formats", "--json")[1])

    assert code == 0
    assert out.splitlines()[1].startswith("replaykit")
    assert [one["name"] for one in as_json["formats"]] == [importer.name for importer in IMPORTERS.values()]
    assert all(one["title"] for one in as_json["formats"])


def test_many_runs_are_told_in_part_and_told_all_as_json(
    bring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.report.imports.MAX_ROWS", 2)
    monkeypatch.setattr("replaykit.report.imports.MAX_PROBLEMS", 1)
    file = written("runs.jsonl", lines([*RUNS, native("x", status="?"), native("y", status="?")]))

    _, out, err = bring(file)

    assert "and 1 more; --json has them all" in out
    assert "and 1 more; --json has them all" in err
    assert "3 imported" in out
    assert len(json.loads(bring(file, "--json")[1])["entries"]) == 5


def test_an_end_of_the_pipe_in_the_middle_of_a_pack_is_told() -> None:
    packed = gzip.compress(lines(RUNS * 100))[:-20]

    done = subprocess.run([*COMMAND, "-"], input=packed, capture_output=True, timeout=60)

    assert done.returncode == 1
    assert b"cannot be unpacked" in done.stderr
    assert b"Traceback" not in done.stderr


MANY = """
import resource, sys
from pathlib import Path
from replaykit.intake.job import read_files
from replaykit.intake.job import ImportTarget, import_records

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

import_records(read_files([Path("few.jsonl")]), ImportTarget())
before = peak()
result = import_records(read_files([Path("many.jsonl")]), ImportTarget())
print(len(result.entries), (peak() - before) // 1024)
"""


def test_a_file_of_many_runs_is_never_held(own_directory: Path) -> None:
    """5 MB of runs: what stays of each is an entry."""
    text = "a long answer " * 1000

    def runs(count: int) -> bytes:
        return lines(native(f"run-{count}-{n}", input=f"{n}", output=text) for n in range(count))

    written("few.jsonl", runs(20))
    written("many.jsonl", runs(350))
    assert (own_directory / "many.jsonl").stat().st_size > 4_500_000

    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=120)

    count, grown_mb = map(int, done.stdout.split())
    assert count == 350
    assert grown_mb < 3


def test_every_file_of_a_corpus_and_the_licence_beside_it(bring: Callable[..., Any]) -> None:
    code, out, err = bring(DATA / "corpora" / "tau-bench", "--dry-run")

    assert code == 0
    assert "passed over 1 file that is not a trace: LICENSE" in err
    assert "failed" not in out.splitlines()[-1]
    assert not Path(".replaykit").exists()
