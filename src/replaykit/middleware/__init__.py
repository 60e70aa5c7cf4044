"""Middleware: a web application whose requests can be served inside of a replay, its tools answered from a tape.

    app = rk.middleware.asgi(app)            # Starlette, FastAPI, Django, Quart, …
    app = rk.middleware.wsgi(app)            # Flask, Django, Bottle, …

Without `REPLAYKIT_TAPE=1` in the environment (or `enabled=True`) both give the application back as it is. Knows the
replayer and the seam; knows nothing of cases, and needs no web framework.
"""

from __future__ import annotations

from replaykit.middleware.asgi import asgi
from replaykit.middleware.wsgi import wsgi

__all__ = ["asgi", "wsgi"]
