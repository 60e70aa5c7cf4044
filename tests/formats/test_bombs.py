"""Traces that are small on the disk and large in memory: refused early, and with little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import zstandard
from tests.matrix import sampled

from replaykit.errors import InvalidFile
from replaykit.formats.files import import_trace

MEASURED = """
import resource, sys
from replaykit.errors import InvalidFile
from replaykit.formats.files import import_trace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    import_trace(sys.argv[1])
except InvalidFile as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error.message)
"""
MIB = 1024 * 1024


def repeated(piece: bytes, size: int) -> Iterator[bytes]:
    block = piece * (MIB // len(piece))
    for _ in range(size // len(block)):
        yield block


def write(file: str, pieces: Iterable[bytes]) -> None:
    packed = gzip.GzipFile if file.endswith(".gz") else zstandard.open
    with packed(file, "wb") as stream:
        stream.write(b"[")
        for piece in pieces:
            stream.write(piece)
        stream.write(b"0]")


@sampled(
    ("file", "piece"),
    [("bomb.json.zst", b'{"spans":[]},'), ("bomb.json.zst", b"{},"), ("bomb.json.gz", b" ")],
    count=2,
)
def test_a_file_that_unpacks_to_much_more_than_it_is_is_refused_early(file: str, piece: bytes) -> None:
    write(file, repeated(piece, 600 * MIB if file.endswith("zst") else 64 * MIB))
    assert Path(file).stat().st_size < 400_000

    done = subprocess.run([sys.executable, "-c", MEASURED, file], capture_output=True, text=True, timeout=60)

    assert done.stdout, done.stderr[-500:]
    peak_kib, message = done.stdout.split(" ", 1)
    assert "unpacks to more than" in message
    assert int(peak_kib) < 150_000


def test_a_plain_file_of_nothing_but_brackets_is_refused() -> None:
    Path("dense.json").write_bytes(b"[" + b"{}," * 5_000_000 + b"{}]")

    done = subprocess.run([sys.executable, "-c", MEASURED, "dense.json"], capture_output=True, text=True, timeout=60)

    assert done.stdout, done.stderr[-500:]
    peak_kib, message = done.stdout.split(" ", 1)
    assert "more values than" in message
    assert int(peak_kib) < 100_000


def test_the_refusal_says_how_to_read_it_all_the_same() -> None:
    write("bomb.json.zst", repeated(b" ", 32 * MIB))

    with pytest.raises(InvalidFile, match="unpack it first") as caught:
        import_trace("bomb.json.zst")

    assert caught.value.hint is not None


def test_many_lines_that_repeat_themselves_are_a_trace(tmp_path: Path) -> None:
    line = b'{"run_id": "r%07d", "status": "error", "input": "why?", "events": [], "metadata": {"x": "%s"}}\n'
    with zstandard.open(tmp_path / "many.jsonl.zst", "wb") as stream:
        for number in range(300):
            stream.write(line % (number, b"x" * 100_000))

    assert len(import_trace(tmp_path / "many.jsonl.zst").runs) == 300
