"""Middleware: let a web application serve requests inside a replay, with its tools answered from a tape.

    app = rk.middleware.asgi(app)            # Starlette, FastAPI, Django, Quart, …
    app = rk.middleware.wsgi(app)            # Flask, Django, Bottle, …

Without `REPLAYKIT_TAPE=1` in the environment (or `enabled=True`) both return the application unchanged. The package
knows the replayer and the seam; it knows nothing of cases and needs no web framework.
"""

from __future__ import annotations

from replaykit.middleware.asgi import asgi
from replaykit.middleware.wsgi import wsgi

__all__ = ["asgi", "wsgi"]
