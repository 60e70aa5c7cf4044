"""The how-to pages about frameworks, followed word by word in an empty directory."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.guide_pages import ROOT, follow

GUIDES = ROOT / "docs" / "guides"


@pytest.mark.skipif(not (find_spec("fastapi") and find_spec("uvicorn")), reason="needs FastAPI and uvicorn")
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_page_about_fastapi_works_as_written(own_directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    page = (GUIDES / "fastapi-agent.md").read_text(encoding="utf-8")

    follow(page.replace("8000", str(port)), own_directory)
