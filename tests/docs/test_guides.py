"""The how-to pages: each is followed word by word in an empty directory, and has the parts that a reader looks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.guide_pages import GUIDES, ROOT, follow

NEEDS_MORE = {"fastapi-agent.md", "langgraph-thread.md"}
"""Pages that need a framework: tests/integrations follows them."""
PLAIN = [page for page in GUIDES if page.name not in NEEDS_MORE]
FROM_A_CLONE = re.compile(r"""pip install '?\.(\[[\w,-]+\]'?)?[`\s]""")


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_the_page_works_as_written(page: Path, own_directory: Path) -> None:
    follow(page.read_text(encoding="utf-8"), own_directory)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_page_has_its_parts_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    steps = [title for title in titles if re.match(r"\d+\. ", title)]

    assert FROM_A_CLONE.search(text)
    assert [int(step.partition(".")[0]) for step in steps] == list(range(1, len(steps) + 1))
    assert titles == [*steps, "What can go wrong", "Next"]
    assert len(text.splitlines()) <= 150


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
@pytest.mark.parametrize("index", ["README.md", "docs/README.md"])
def test_the_page_is_linked(page: Path, index: str) -> None:
    link = page.relative_to((ROOT / index).parent)

    assert f"]({link})" in (ROOT / index).read_text(encoding="utf-8")
