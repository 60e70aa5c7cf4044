"""The how-to pages about frameworks, followed word by word in an empty directory."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.guide_pages import ROOT, follow

HAS_FASTAPI = bool(find_spec("fastapi") and find_spec("uvicorn") and shutil.which("curl"))
PAGES = [
    pytest.param(
        "fastapi-agent.md", marks=pytest.mark.skipif(not HAS_FASTAPI, reason="needs FastAPI, uvicorn and curl")
    ),
    # LangGraph is there for `make test` as well; FastAPI is only there for `make test-integrations`.
    pytest.param("langgraph-thread.md", marks=() if HAS_FASTAPI else pytest.mark.exhaustive),
]


@pytest.mark.skipif(not find_spec("langgraph"), reason="needs LangGraph")
@pytest.mark.parametrize("name", PAGES)
def test_the_page_works_as_written(name: str, own_directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    page = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8")

    follow(page.replace(":8000", f":{port}").replace("--port 8000", f"--port {port}"), own_directory)
