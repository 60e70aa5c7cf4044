"""Routes: the paths of documents, spelled as the page spells them."""

from __future__ import annotations

from urllib.parse import quote


def document_path(*names: str) -> str:
    """Return a path of names, each escaped as `encodeURIComponent` does."""
    return "/".join(quote(name, safe="!~*'()") for name in names)
