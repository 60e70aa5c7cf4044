"""The agent behind FastAPI."""

from __future__ import annotations

import asyncio
from typing import Any

import tools
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import StreamingResponse

import replaykit as rk

app: Any = FastAPI()


@app.post("/sync")
def sync(body: dict[str, Any]) -> dict[str, str]:
    """In the thread pool."""
    return {"output": tools.answer(body["input"])}


@app.post("/async")
async def later(body: dict[str, Any]) -> dict[str, str]:
    return {"output": await asyncio.to_thread(tools.answer, body["input"])}


@app.post("/stream")
async def stream(body: dict[str, Any]) -> StreamingResponse:
    return StreamingResponse(tools.parts_later(body["input"]), media_type="text/plain")


@app.post("/stream-sync")
def stream_sync(body: dict[str, Any]) -> StreamingResponse:
    """A plain generator, each part of it in the thread pool."""
    return StreamingResponse(tools.parts(body["input"]), media_type="text/plain")


@app.post("/background")
def background(body: dict[str, Any], tasks: BackgroundTasks) -> dict[str, str]:
    """Looks up after it has answered."""
    tasks.add_task(tools.looked_up_later, body["input"])
    return {"output": "unavailable, and looked up later"}


@app.post("/stuck")
def stuck(body: dict[str, Any]) -> dict[str, str]:
    return {"output": tools.stuck(body["input"])}


app = rk.middleware.asgi(app)
