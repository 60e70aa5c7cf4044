"""A redactor under a fixed key."""

from __future__ import annotations

import pytest

from replaykit.redaction import Redactor


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"a key for tests, thirty-two long")
