"""What the tests of contracts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.contracts.values import contract_of

from replaykit.contracts.contract import Contract
from replaykit.contracts.find import contract_flaws
from replaykit.documents.document import parse_document
from replaykit.documents.shape import Flaw
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import ABSENT, raw


@pytest.fixture
def flaws() -> Callable[[str], list[Flaw]]:
    """What is wrong with a contract's text."""
    return lambda text: contract_flaws(parse_document(text, "contract.yaml"))


@pytest.fixture
def make_contract() -> Callable[..., Contract]:
    """A contract of these invariants; a missing id or type is filled in."""

    def make(*invariants: dict[str, Any], **rest: Any) -> Contract:
        filled = [{"id": f"i{n}", "type": "completes", **one} for n, one in enumerate(invariants)]
        return contract_of({"name": "test", "invariants": filled, **rest})

    return make


@pytest.fixture
def answered() -> Callable[..., TraceRun]:
    """A run that ended with this output; without one it failed."""

    def make(output: Any = None, **fields: Any) -> TraceRun:
        if output is None:
            error = ErrorInfo(type="RuntimeError", message="out of luck")
            return TraceRun(id="r", status=RunStatus.ERROR, error=error, output_json=ABSENT, **fields)
        return TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw(output), **fields)

    return make
