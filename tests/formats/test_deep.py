"""Values that are nested more deeply than anybody nests them: a line that holds one is refused, and only that line."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.formats.examples import examples
from tests.formats.mixed_files import documents
from tests.formats.test_mixed_up import ONE_DOCUMENT, guessed, read
from tests.matrix import sampled

from replaykit.formats.core.source import Source
from replaykit.intake.job import read_files

FORMATS = sorted(examples())
UNREADABLE = (5_000, 100_000)
"""Deeper than the parser goes; what is less deep is read, and may then be too deep to be kept."""
PLACES = 2
"""In each example, of the hundreds it has."""
HERE = json.dumps("here the value is nested")


def nested(depth: int) -> tuple[str, str]:
    return "[" * depth + "]" * depth, '{"a":' * depth + "0" + "}" * depth


def deepened(format: str, *deep: str) -> Iterator[tuple[bytes, bytes]]:
    """A document of the format, and the same with a deep value in the place of one of its own."""
    document, random = documents(examples()[format])[0], Random(f"{format} {len(deep[0])}")
    places = list(_places(document))
    for path in random.sample(places, min(PLACES, len(places))):
        told = copy.deepcopy(document)
        _put(told, path, json.loads(HERE))
        for value in deep:
            yield json.dumps(document).encode(), json.dumps(told).replace(HERE, value).encode()


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _put(value: Any, path: tuple[Any, ...], item: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = item


@pytest.mark.parametrize("depth", UNREADABLE)
@sampled("format", FORMATS, count=10, start=1)
def test_a_line_that_is_nested_too_deeply_is_told_with_its_place(format: str, depth: int) -> None:
    for good, deep in deepened(format, *nested(depth)):
        alone = read(format, Source(deep, "deep.json"))
        among = read(format, Source(b"\n".join([good, deep, good]), "deep.jsonl"))

        assert alone.runs == []
        assert alone.said[0].startswith("deep.json:1: not JSON: ")
        assert any("deep.jsonl:2: " in said for said in among.said), among.said
        assert bool(among.runs) is (format not in ONE_DOCUMENT)
        assert guessed(Source(deep, "deep.json")) is None


@sampled("format", FORMATS, count=5)
def test_a_deep_value_that_can_be_read_breaks_no_importer(format: str) -> None:
    texts = [json.dumps(value) for depth in UNREADABLE for value in nested(depth)]
    for good, deep in deepened(format, *nested(300), *nested(500), *nested(950), *texts):
        read(format, Source(deep, "deep.json"))
        read(format, Source(b"\n".join([good, deep, good]), "deep.jsonl"))
        guessed(Source(deep, "deep.json"))


def test_the_other_lines_of_the_file_come_in(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    run = {"run_type": "chain", "name": "a", "inputs": {"input": "x"}, "outputs": {}, "session_id": "s"}
    lines = [json.dumps({**run, "id": name, "trace_id": name}) for name in ("a", "b", "c")]
    lines[1] = lines[1].replace('"x"', nested(100_000)[0])
    file.write_text("\n".join(lines))

    records = list(read_files([file]))

    assert [record.id for record in records if record.run] == ["a", "c"]
    (problem,) = [record.problem for record in records if record.problem]
    assert problem.startswith(f"{file}:2: not JSON: ")
