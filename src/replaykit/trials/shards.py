"""Shards: divide a suite among several jobs. Each case belongs to exactly one."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from replaykit.errors import InvalidFile, UsageError
from replaykit.trials.ci_records import case_name, read_header, read_records
from replaykit.trials.ci_result import CiItem, CiPartName, CiResult


class Shard(Struct, frozen=True):
    """One of several jobs."""

    number: int
    """From 1 to `count`."""
    count: int

    @property
    def file_name(self) -> str:
        """The name of the results file."""
        return f"shard-{self.number}-of-{self.count}.jsonl"


SHARD_FILES = "shard-*-of-*.jsonl"


def parse_shard(text: str) -> Shard:
    """Parse a shard such as `2/4`."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text!r}: expected K/N, K from 1 to N", hint="The second of four jobs: --shard 2/4")
    return Shard(int(found[1]), int(found[2]))


def assigned(names: Iterable[str], count: int, seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the shard number for each name.

    A name without a measurement is assigned by its hash, so that adding one moves no other. Measured ones (`seconds`)
    are distributed so that all shards take about the same time.
    """
    shards: dict[str, int] = {}
    loads = [0.0] * count
    usual_s = median(seconds.values()) if seconds else 0.0
    measured: list[tuple[float, str]] = []
    for name in sorted(set(names)):
        if name in seconds:
            measured.append((-seconds[name], name))
            continue
        # Not `hash`, which differs in every process.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        shards[name] = int.from_bytes(digest[:8], "big") % count + 1
        loads[shards[name] - 1] += usual_s
    waiting = [(load, number) for number, load in enumerate(loads, start=1)]
    heapq.heapify(waiting)
    # Longest first, each to the shard with the least load: a good approximation of an even split.
    for negative_s, name in sorted(measured):
        load, number = waiting[0]
        shards[name] = number
        heapq.heapreplace(waiting, (load - negative_s, number))
    return shards


def read_timings(path: Path) -> dict[str, float]:
    """Return the duration of each case in earlier results: `ci.json`, a results file, or a directory of shards."""
    seconds: dict[str, float] = {}
    for file in result_files([path]) if path.is_dir() else [path]:
        for item in _items_in(file):
            name = _unit_of(item)
            seconds[name] = seconds.get(name, 0.0) + item.duration_s
    return seconds


def _unit_of(item: CiItem) -> str:
    if item.part is CiPartName.REPLAY:
        return case_name(item.id)
    if item.part is CiPartName.CONTRACT:
        return f"{item.part.value} {item.contract or item.id}"
    return item.part.value


def _items_in(file: Path) -> Iterable[CiItem]:
    if file.suffix == ".json":
        try:
            return msgspec.json.decode(file.read_bytes(), type=CiResult).items
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InvalidFile("not a result of `replaykit ci`", file=str(file)) from None
    read_header(file)
    return (record.item for record in read_records(file))


def result_files(paths: Sequence[Path]) -> list[Path]:
    """Return the results files of shards: the named files, and those below named directories."""
    found: dict[Path, Path] = {}
    for path in paths:
        files = sorted(path.rglob(SHARD_FILES)) if path.is_dir() else [path]
        if not files:
            raise UsageError(f"{path} holds no results of shards", hint=f"They are named {SHARD_FILES}.")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())
