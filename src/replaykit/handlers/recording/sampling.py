"""Sampling: a share of the successful runs is kept, chosen by their ids. All other runs are always kept."""

from __future__ import annotations

import os
from hashlib import blake2b

from replaykit.errors import UsageError
from replaykit.model.run import RunHeader, RunStatus

VARIABLE = "REPLAYKIT_SAMPLE"
"""The environment variable that says the share where the call does not."""
KEEP = "keep"
"""A run with this tag is kept in any case."""


def share_of(sample: float | None) -> float:
    """The share that is asked for, here or in the environment; a UsageError when there is no such share."""
    name, value = ("sample", sample) if sample is not None else (VARIABLE, os.environ.get(VARIABLE) or 1.0)
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:  # true for NaN as well
        raise UsageError(f"{name}={value!r}: a share of successful runs is a number from 0 (none) to 1 (all)")
    return share


def is_kept(run: RunHeader, share: float) -> bool:
    """Return whether a run that has ended stays. The same id gives the same answer everywhere."""
    if run.status is not RunStatus.SUCCESS or KEEP in run.tags:
        return True
    drawn = int.from_bytes(blake2b(run.id.encode(), digest_size=8).digest(), "big")
    return drawn < share * 2**64
