"""Drafts: a directory is written beside its place and moved there when it is whole."""

from __future__ import annotations

from pathlib import Path


def move_into_place(draft: Path, target: Path) -> None:
    """Move a draft to its place; a directory that was there stays whole until then."""
    if not target.exists():
        draft.rename(target)
        return
    old = draft.with_name(f"{draft.name}.old")
    target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    remove(old)


def remove(draft: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    from shutil import rmtree  # noqa: PLC0415 (slow to import, and cases are mostly read)

    rmtree(draft, ignore_errors=True)
