"""Sampling: keep a share of the successful runs, chosen by id. All other runs are always kept."""

from __future__ import annotations

import os
from hashlib import blake2b

from replaykit.errors import UsageError
from replaykit.model.run import RunHeader, RunStatus

VARIABLE = "REPLAYKIT_SAMPLE"
"""The environment variable with the default share."""
KEEP = "keep"
"""A run with this tag is always kept."""


def share_of(sample: float | None) -> float:
    """Return the share from the argument or the environment, or raise `UsageError` for an invalid one."""
    name, value = ("sample", sample) if sample is not None else (VARIABLE, os.environ.get(VARIABLE) or 1.0)
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:  # also true for NaN
        raise UsageError(f"{name}={value!r}: a share of successful runs is a number from 0 (none) to 1 (all)")
    return share


def is_kept(run: RunHeader, share: float) -> bool:
    """Return whether to keep a finished run. The same id gives the same answer everywhere."""
    if run.status is not RunStatus.SUCCESS or KEEP in run.tags:
        return True
    # A hash of the id instead of a random number, so that all processes of a run agree.
    drawn = int.from_bytes(blake2b(run.id.encode(), digest_size=8).digest(), "big")
    return drawn < share * 2**64
