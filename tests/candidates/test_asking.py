"""Asking over HTTP: a limit that holds, retries where nothing was sent, and no step aside."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from replaykit.candidates import http_client
from replaykit.candidates.http_client import Ask, HttpAnswer, ask

Talk = Callable[[bytes], str]


@pytest.fixture
def talking() -> Iterator[Talk]:
    """A server that answers every connection with these bytes, and then says nothing more until the test ends."""
    over, listeners = threading.Event(), []

    def talk(said: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(said)
                    if said.endswith(b"..."):
                        over.wait(20)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield talk
    over.set()
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("said", [b"...", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\na..."])
def test_an_answer_that_does_not_end_is_given_up(talking: Talk, said: bytes) -> None:
    answer = ask(Ask(method="GET", url=talking(said)), 0.3, retries=3)

    assert answer.timed_out
    assert answer.why == "gave no answer within 0.3 s"


def test_a_redirect_is_an_answer_and_nobody_goes_there(talking: Talk) -> None:
    elsewhere = talking(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlost")
    head = f"HTTP/1.1 307 X\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n"

    assert ask(Ask(method="GET", url=talking(head.encode())), 10) == HttpAnswer(status=307, location=elsewhere)


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n"])
def test_what_is_no_answer_is_said_in_words_and_not_asked_again(
    talking: Talk, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _counted(monkeypatch)

    answer = ask(Ask(method="POST", url=talking(said), body=b"x"), 10, retries=3)

    assert answer.status is None
    assert answer.why.startswith("broke off")
    assert len(tried) == 1


@pytest.mark.parametrize("retries", [0, 2])
def test_a_connection_that_was_never_made_is_tried_as_often_as_is_said(
    retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _counted(monkeypatch)
    monkeypatch.setattr(http_client, "_PAUSE_S", 0.0)

    answer = ask(Ask(method="GET", url="http://127.0.0.1:1/"), 10, retries=retries)

    assert "cannot be reached" in answer.why
    assert len(tried) == retries + 1


def test_the_pauses_between_retries_grow_for_an_agent_that_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    ask(Ask(method="GET", url="http://127.0.0.1:1/"), 60, retries=8)

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[Ask]:
    tried: list[Ask] = []
    once = http_client._once

    def counting(request: Ask, timeout_s: float) -> HttpAnswer:
        tried.append(request)
        return once(request, timeout_s)

    monkeypatch.setattr(http_client, "_once", counting)
    return tried


def test_a_header_that_cannot_be_sent_is_not_shown() -> None:
    answer = ask(Ask(method="GET", url="http://127.0.0.1:1/", headers=(("x-key", "s3cr3t\nvalue"),)), 10)

    assert answer.why
    assert "s3cr3t" not in answer.why


def test_this_machine_is_not_asked_through_a_proxy(talking: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    url = talking(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")

    assert ask(Ask(method="GET", url=url), 10) == HttpAnswer(status=200, body=b"hi")
