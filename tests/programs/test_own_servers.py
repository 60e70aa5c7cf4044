"""Servers that a program starts itself, and asks: what is said there stays within it, recorded or replayed."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import pytest
from tests.closed_port import connections_to
from tests.matrix import sampled
from tests.programs.agents import HTTP, write
from tests.programs.conftest import Upstream, completion, whole
from tests.programs.test_programs import own_environment, recorded, replayed

import replaykit as rk
from replaykit.seam.sockets import can_tell

__all__ = ["own_environment"]  # in effect here too

pytestmark = pytest.mark.skipif(not can_tell(), reason="this system does not say who listens")

SERVER = (
    HTTP
    + """
    import http.server, threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_): pass

        def do_GET(self):
            told = json.loads(chat([{"role": "user", "content": "hello"}])[1])["choices"][0]["message"]["content"]
            self.answer(told.encode())

        def answer(self, body):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
"""
)
IN_A_THREAD = (
    SERVER
    + """
    import httpx
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(httpx.get(f"http://localhost:{server.server_port}/", timeout=20).text)
"""
)
IN_A_CHILD = (
    SERVER
    + """
    import socket, subprocess, time

    if sys.argv[2:]:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
        sys.stdin.readline()  # until it has been asked in vain
        server.serve_forever()

    def asked(port):
        if sys.argv[1] == "httpx":
            import httpx
            return httpx.get(f"http://127.0.0.1:{port}/", timeout=20).text
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return connection.makefile().read().partition("\\n\\n")[2]

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    child = None
    while True:
        try:
            print(asked(port))
            break
        except Exception as error:
            assert "refused" in str(error), error
            if child is None:
                words = [sys.executable, __file__, sys.argv[1], str(port)]
                child = subprocess.Popen(words, stdin=subprocess.PIPE)
                child.stdin.write(b"\\n")
                child.stdin.close()
            time.sleep(0.02)
    child.terminate()
    child.wait()
"""
)


@sampled("words", [["thread"], ["child", "httpx"], ["child", "socket"]], count=1, start=2)
def test_a_server_of_the_program_is_asked_again_and_served_what_it_asks(words: list[str], upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(completion("hi"))]
    agent = [sys.executable, write(IN_A_THREAD if words == ["thread"] else IN_A_CHILD), *words[1:]]
    live = recorded(*agent)
    upstream.close()

    with connections_to(upstream.port) as seen:
        result = replayed(live.run, *agent)

    assert [call.name for call in live.run.calls] == ["small"], "what the program says to itself is no call"
    assert result.run is not None
    assert (live.run.output, result.run.output, result.deviations) == ("hi", "hi", ())
    assert seen == []


def test_a_gateway_of_the_program_to_which_a_variable_leads_is_asked_again(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.script = lambda _: [whole(completion("hi"))]
    monkeypatch.setenv("REPLAYKIT_UPSTREAM_WORLD", f"{upstream.url}/v1")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    gateway = """
    class Gateway(Handler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.answer(post("WORLD_BASE_URL", "/chat/completions", body)[1].encode())

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(chat([{"role": "user", "content": "hello"}])[1])
    """
    agent = [sys.executable, write(SERVER + gateway), str(port)]
    live = recorded(*agent)
    upstream.close()

    result = replayed(live.run, *agent)

    assert [call.wire.url for call in live.run.calls] == [f"{upstream.url}/v1/chat/completions"]
    assert result.run is not None
    assert (result.run.output, result.deviations) == (live.run.output, ())


def test_who_finds_nobody_is_named_at_the_end() -> None:
    code = """
    import socket
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    try:
        socket.create_connection(("127.0.0.1", port))
    except ConnectionRefusedError:
        print("nobody")
    """
    agent = [sys.executable, write(code)]
    live = recorded(*agent)

    result = replayed(live.run, *agent)

    (told,) = result.deviations
    assert told.text.endswith(" found nobody there: main tried")
    assert result.verdict is rk.Verdict.DIVERGED


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_a_server_of_somebody_else_on_this_machine_is_not_reached_from_node(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAYKIT_ISOLATION", "process")  # in a sandbox, no other server is there
    upstream.script = lambda _: [whole(b"live")]
    code = f"fetch('{upstream.url}/x').then(r => r.text(), e => e.cause.message).then(console.log)"
    Path("agent.mjs").write_text(code)
    live = recorded("node", "agent.mjs")
    asked = len(upstream.asked)

    result = replayed(live.run, "node", "agent.mjs")

    assert result.run is not None
    assert "was stopped: this is a replay" in result.run.output
    assert (live.run.output, result.verdict, len(upstream.asked)) == ("live", rk.Verdict.DIVERGED, asked)
