"""Files of `ci` that somebody else put there: pipes, devices, endless lines, and lines nested without end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trials.test_ci_history import all_runs, item, result
from tests.trials.test_shards import header

from replaykit.documents import line_files
from replaykit.errors import InvalidFile
from replaykit.trials.ci_history import add_run, read_items, read_run_header
from replaykit.trials.ci_records import CiRecord, RecordFile, read_footer, read_header, read_records

Reader = Callable[[Path], object]
HISTORY_READERS: tuple[Reader, ...] = (read_run_header, lambda file: list(read_items(file)))
RESULT_READERS: tuple[Reader, ...] = (read_header, lambda file: list(read_records(file)))
READERS = (*HISTORY_READERS, *RESULT_READERS, read_footer)
DEEP = b"[" * 100_000


def refused(read: Reader, file: Path) -> str:
    """Return why a file is refused; empty if reading it does not end."""
    reasons: list[str] = []

    def reading() -> None:
        with pytest.raises(InvalidFile) as error:
            read(file)
        reasons.append(error.value.reason)

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(20)
    return "".join(reasons)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices have names on POSIX only")
@pytest.mark.parametrize("read", READERS)
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, read: Reader) -> None:
    pipe, link = tmp_path / "pipe.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")

    assert refused(read, pipe) == "not a regular file"
    assert refused(read, link) == "not a regular file"


@pytest.mark.parametrize("read", READERS[:-1])
def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Reader) -> None:
    monkeypatch.setattr(line_files, "MAX_BYTES", 1000)
    file = tmp_path / "long.jsonl"
    file.write_bytes(b" " * 1001)

    assert refused(read, file) == "the line is longer than 1,000 bytes"


def results_file(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    records = RecordFile(directory / "results.jsonl", header())
    records.add(CiRecord(place=(0, 0, 0), item=item("a")))
    records.finish()
    records.close()
    return records.file


def test_a_damaged_line_is_named_however_it_is_damaged(tmp_path: Path) -> None:
    files = ((add_run(tmp_path, result(1.0, item("a"))), HISTORY_READERS), (results_file(tmp_path), RESULT_READERS))
    for file, (read_first, read_others) in files:
        first, second, *others = file.read_bytes().splitlines(keepends=True)
        for nonsense in (b'{"x":' + DEEP, DEEP, b'["\xff"]', b'{"kind":"\xff"}'):
            file.write_bytes(nonsense + b"\n" + second)
            assert "not " in refused(read_first, file)
            file.write_bytes(first + nonsense + b"\n" + b"".join(others))
            assert "damaged" in refused(read_others, file)


def test_a_deep_history_is_named_beside_the_others(tmp_path: Path) -> None:
    add_run(tmp_path, result(1.0, item("a")))
    (tmp_path / "20260101-000000-x.jsonl").write_bytes(b'{"x":' + DEEP + b"\n")

    history = all_runs(tmp_path)

    assert len(history.runs) == len(history.problems) == 1
