"""Serve the Flask agent with a socket that is open already: waitress, or the standard library's server with threads."""

from __future__ import annotations

import socket
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import waitress
from flask_agent import app


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def main(server: str, fd: int) -> None:
    listener = socket.socket(fileno=fd)
    if server == "waitress":
        waitress.serve(app, sockets=[listener], threads=8)
        return
    plain = Threads(listener.getsockname(), WSGIRequestHandler, bind_and_activate=False)
    plain.socket.close()
    plain.socket = listener
    plain.server_name, plain.server_port = listener.getsockname()
    plain.setup_environ()
    plain.set_app(app)
    plain.serve_forever()


main(sys.argv[1], int(sys.argv[2]))
