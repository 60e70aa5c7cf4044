"""An agent of two tools, as the applications beside this file serve it. Its real tools leave a mark, and fail."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import replaykit as rk

FOREVER = threading.Event()


def _touched(name: str) -> str:
    with Path(os.environ["TOUCHED"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}\n")
    raise SystemError(f"the real {name} was called")


@rk.tool
def market_data_api(company: str) -> str:
    return _touched("market_data_api")


@rk.tool
def web_search(query: str) -> str:
    return _touched("web_search")


def looked_up(question: str) -> str | None:
    for tool in (market_data_api, web_search):
        try:
            return tool(question)
        except rk.ToolError:
            continue
    return None


def answer(question: str) -> str:
    return looked_up(question) or "The figure is unavailable."


def parts(question: str) -> Iterator[str]:
    """The answer word by word; nothing is looked up before the first word is out."""
    yield "It "
    yield looked_up(question) or "is unavailable."


async def parts_later(question: str) -> AsyncIterator[str]:
    for part in parts(question):
        yield part


def looked_up_later(question: str) -> None:
    """Well after the answer has arrived."""
    FOREVER.wait(0.5)
    looked_up(question)


def stuck(question: str) -> str:
    """Looks something up, and never answers."""
    looked_up(question)
    FOREVER.wait(60)
    return "too late"
