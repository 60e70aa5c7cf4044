"""Every store passes the same suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.testing import StoreConformance


class TestSQLite(StoreConformance):
    @pytest.fixture(params=["process", "power"])
    def store(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[rk.Store]:
        with rk.Store.open(tmp_path / "conformance.db", durability=request.param) as store:
            yield store

    def reopen(self, store: rk.Store) -> rk.Store:
        return rk.Store.open(store.path)
