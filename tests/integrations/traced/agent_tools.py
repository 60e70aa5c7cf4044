"""The tools of all traced agents. They run for real while a trace is made, and are served in every replay."""

from __future__ import annotations

import os

LOOKUPS = 3


def lookup_charge(account: str) -> dict[str, object]:
    """Look up the last charge of an account."""
    if "MODEL_URL" not in os.environ:
        raise RuntimeError("the real tool was called in a replay")
    return {"account": account, "error": "billing timed out", "retry": True}
