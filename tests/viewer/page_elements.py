"""The elements of a page, to see that nothing but the page's own markup is in it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

_OWN = frozenset({"html", "head", "meta", "title", "link", "style", "script", "body"})


class PageElements(HTMLParser):
    """The tags and attributes of a shared file, and its documents by path."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.documents: dict[str, Any] = {}
        self._path: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self._path = attributes.get("data-path")

    def handle_data(self, data: str) -> None:
        if self._path is not None and data.strip():
            self.documents[self._path] = json.loads(data)

    def handle_endtag(self, tag: str) -> None:
        self._path = None

    def check(self) -> None:
        """See that only the viewer's own elements are there, and that they load nothing."""
        assert {tag for tag, _ in self.tags} <= _OWN
        for tag, attributes in self.tags:
            assert not {name for name in attributes if name.startswith("on")}
            assert attributes.get("src") is None
            assert attributes.get("href") in (None, "data:,")
            assert tag != "script" or attributes.get("type") in (None, "application/json")
        assert sum(tag == "script" and not attributes for tag, attributes in self.tags) == 1
