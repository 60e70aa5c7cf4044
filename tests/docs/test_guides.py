"""The how-to pages: each is followed word by word in an empty directory, and has the parts that a reader looks for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.guide_pages import GUIDES, ROOT, blocks, follow
from tests.langfuse_server import PUBLIC, SECRET, incident, langfuse_server

NEEDS_MORE = {"fastapi-agent.md", "langgraph-thread.md"}
"""Pages that need a framework: tests/integrations follows them."""
PLAIN = [page for page in GUIDES if page.name not in NEEDS_MORE]
LINES_BESIDE_FILES = 125
FROM_A_CLONE = re.compile(r"""pip install '?\.(\[[\w,-]+\]'?)?[`\s]""")


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_the_page_works_as_written(page: Path, own_directory: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with langfuse_server() as langfuse:
        for written, replaced in (
            ("https://cloud.langfuse.com", langfuse.url),
            ("pk-lf-…", PUBLIC),
            ("sk-lf-…", SECRET),
        ):
            text = text.replace(written, replaced)
        langfuse.traces = [incident(**trace) for trace in langfuse_traces(text)]
        follow(text, own_directory)


def langfuse_traces(page: str) -> list[dict[str, Any]]:
    """Return the traces that a page saves in a file, as Langfuse keeps them."""
    found = []
    for block in blocks(page):
        if block.file == "trace.json":
            trace = json.loads(block.text)
            found.append({**trace, "trace_id": trace.pop("id")})
    return found


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_page_has_its_parts_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    lines_of_files = sum(len(block.text.splitlines()) for block in blocks(text) if block.file)
    steps = [title for title in titles if re.match(r"\d+\. ", title)]

    assert FROM_A_CLONE.search(text)
    assert [int(step.partition(".")[0]) for step in steps] == list(range(1, len(steps) + 1))
    assert titles == [*steps, "What can go wrong", "Next"]
    assert len(text.splitlines()) - lines_of_files <= LINES_BESIDE_FILES


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
@pytest.mark.parametrize("index", ["README.md", "docs/README.md"])
def test_the_page_is_linked(page: Path, index: str) -> None:
    link = page.relative_to((ROOT / index).parent)

    assert f"]({link})" in (ROOT / index).read_text(encoding="utf-8")
