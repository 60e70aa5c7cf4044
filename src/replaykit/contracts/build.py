"""Build contracts from what a file says, once its shape has no flaw."""

from __future__ import annotations

import msgspec

from replaykit.contracts.conditions import When
from replaykit.contracts.contract import Contract, Invariant, Severity
from replaykit.contracts.types import asked, probes_of
from replaykit.model.values import Json


def contract_of(value: dict[str, Json]) -> Contract:
    """The contract that a value without flaws describes."""
    return Contract(
        name=value["name"],
        description=value.get("description", ""),
        invariants=tuple(map(_invariant, value["invariants"])),
        matrix=tuple(value.get("chaos_matrix") or ()),
    )


def _invariant(value: dict[str, Json]) -> Invariant:
    severity = Severity(value.get("severity", Severity.MEDIUM))
    return Invariant(
        id=value["id"],
        type=value["type"],
        assertion=msgspec.structs.replace(asked(value), id=value["id"], severity=severity.value),
        description=value.get("description", ""),
        severity=severity,
        when=When(value.get("when", When.ALWAYS)),
        negate=value.get("negate", False),
        probes=probes_of(value),
    )
