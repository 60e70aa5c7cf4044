"""Contracts that tests write as values."""

from __future__ import annotations

import json
from typing import Any

from replaykit.contracts.contract import Contract
from replaykit.contracts.find import contract_of as contract_in
from replaykit.documents.document import parse_document


def contract_of(value: dict[str, Any]) -> Contract:
    """Return the contract that this value describes, as if it stood alone in `contract.json`."""
    return contract_in(value, parse_document(json.dumps(value), "contract.json"), ())
