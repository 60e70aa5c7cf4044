"""An agent behind HTTP, served by Python's own server: it looks up a figure, and says so when it cannot be had.

Its tools live in this process. One line hands them the recorded answers of an incident when a request asks for that:

    app = rk.middleware.wsgi(app)

README.md has the commands. `VERSION=first` is the agent as it was on the day of the incident.
"""

import contextlib
import json
import os
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import replaykit as rk


def for_real(what: str) -> str:
    print(f"{what} was called for real", file=sys.stderr, flush=True)
    os._exit(9)  # so that nobody can overlook it


@rk.tool(effects="none")
def market_data_api(company: str) -> str:
    return for_real("market_data_api")


@rk.tool(effects="none")
def web_search(query: str) -> str:
    return for_real("web_search")


def answer(question: str) -> str:
    for look in (lambda: market_data_api("ACME Corp"), lambda: web_search(question)):
        try:
            return f"{look()} (as of {rk.now():%d %B %Y})"
        except rk.ToolError:
            continue
    return "The figure is unavailable right now: neither source answered."


def first_version(question: str) -> str:
    try:
        return market_data_api("ACME Corp")
    except rk.ToolError:
        return "ACME Corp's Q3 revenue was $12.7 bn."


def app(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", "/ask"):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"POST /ask"]
    agent = first_version if os.environ.get("VERSION") == "first" else answer
    said = json.dumps({"output": agent(json.loads(body)["input"])}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(said)))])
    return [said]


app = rk.middleware.wsgi(app)


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = make_server("127.0.0.1", int(os.environ.get("PORT", "8765")), app, Server, Quiet)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
