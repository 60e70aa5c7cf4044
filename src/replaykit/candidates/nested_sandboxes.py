"""The nested sandboxes of workers. Workers import this: it is small."""

from __future__ import annotations

from pathlib import Path

from replaykit.isolation import Level, Policy, Sandbox, support


def nested_sandbox() -> Sandbox:
    """Return a sandbox for one task of a worker that is in a sandbox itself."""
    return Sandbox(Policy(project=Path.cwd()), nested=True)


def can_nest() -> bool:
    """Return True in a sandbox in which each task can have one of its own."""
    return support().nested_level is Level.FULL
