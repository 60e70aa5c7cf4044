"""LangGraph's own suite for savers, capability by capability: it says FULL of a saver that merely lacks some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from replaykit.integrations.langgraph import ReplayKitSaver

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


class Sync(ReplayKitSaver):
    """The methods for plain code, for a suite that only calls the others."""

    async def aget_tuple(self, *args: Any, **options: Any) -> Any:
        return self.get_tuple(*args, **options)

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        for item in self.list(*args, **options):
            yield item

    async def aput(self, *args: Any, **options: Any) -> Any:
        return self.put(*args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        self.put_writes(*args, **options)

    async def adelete_thread(self, *args: Any, **options: Any) -> None:
        self.delete_thread(*args, **options)

    async def adelete_for_runs(self, *args: Any, **options: Any) -> None:
        self.delete_for_runs(*args, **options)

    async def acopy_thread(self, *args: Any, **options: Any) -> None:
        self.copy_thread(*args, **options)

    async def aprune(self, *args: Any, **options: Any) -> None:
        self.prune(*args, **options)


class Broken(Sync):
    """A saver that loses what was written on top of checkpoints."""

    def put_writes(self, *args: Any, **options: Any) -> None:
        pass


def report_on(kind: type[ReplayKitSaver], directory: Path) -> dict[str, Any]:
    stores = (directory / f"{number}.db" for number in range(1000))

    @checkpointer_test(name=kind.__name__)
    async def factory() -> AsyncIterator[ReplayKitSaver]:
        async with kind(next(stores)) as saver:
            yield saver

    return dict(asyncio.run(validate(factory)).results)


@pytest.mark.parametrize("kind", [ReplayKitSaver, Sync])
def test_the_saver_has_every_capability_and_passes_all_its_tests(kind: type[ReplayKitSaver], tmp_path: Path) -> None:
    results = report_on(kind, tmp_path)

    assert {name: result.failures for name, result in results.items() if result.failures} == {}
    found = {name: (result.detected, result.tests_passed) for name, result in results.items()}
    assert found == {name: (True, count) for name, count in TESTS.items()}


def test_the_suite_finds_a_saver_that_loses_writes(tmp_path: Path) -> None:
    results = report_on(Broken, tmp_path)

    assert results["put_writes"].tests_failed > 0
    assert results["put"].tests_failed == 0
