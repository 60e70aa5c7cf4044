"""The agent behind Flask."""

from __future__ import annotations

from typing import Any

import tools
from flask import Flask, Response, request, stream_with_context

import replaykit as rk

app = Flask(__name__)


@app.post("/sync")
def sync() -> dict[str, str]:
    return {"output": tools.answer(_asked())}


@app.post("/stream")
def stream() -> Response:
    return Response(stream_with_context(tools.parts(_asked())), mimetype="text/plain")


@app.post("/stuck")
def stuck() -> dict[str, str]:
    return {"output": tools.stuck(_asked())}


def _asked() -> str:
    body: dict[str, Any] = request.get_json()
    return str(body["input"])


app.wsgi_app = rk.middleware.wsgi(app.wsgi_app)  # type: ignore[method-assign]
