"""MCP over standard input and output: newline-delimited JSON-RPC, a client before and a server behind."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

from replaykit.errors import ReplayKitError
from replaykit.mcp.backstage import Backstage
from replaykit.mcp.calls import gone, http_error_of, response_of
from replaykit.mcp.conversation import Conversation, in_a_thread
from replaykit.mcp.items import CLIENT, SERVER
from replaykit.mcp.messages import (
    PARSE_ERROR,
    Message,
    dump,
    failure,
    id_key,
    is_request,
    is_response,
    is_unchanged,
    messages_in,
    parse,
)
from replaykit.mcp.script import Outlet
from replaykit.model.values import Json
from replaykit.seam.scope import Answer, Session

GRACE_S = 10.0
"""How long a server may take to end by itself after its client has gone."""
QUIET_S = 0.5
"""In a replay: how long the client must be silent before a server that ended in the middle ends again."""
_READ = 1 << 18
_LAST_S = 1.0  # between being told to end and being ended
_AT_ONCE = 0.0


def lines_of(fd: int) -> Iterator[bytes]:
    """The lines of a stream with their ends, each as soon as it is there; at last what has no end."""
    waiting: list[bytes] = []
    while chunk := os.read(fd, _READ):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*waiting, line, b"\n"))
            waiting.clear()
        if rest:
            waiting.append(rest)
    if waiting:
        yield b"".join(waiting)


class Pipe:
    """The writing end of a stream, for whole messages from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self.broken = False
        """True when nobody reads any more."""

    def write(self, data: bytes) -> None:
        """All of it, or nothing once nobody reads."""
        rest = memoryview(data)
        with self._lock:
            try:
                while rest and not self.broken:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:
                self.broken = True

    def send(self, message: Message) -> None:
        self.send_value(message)

    def send_value(self, value: Json) -> None:
        """A message, or a batch of them."""
        self.write(dump(value) + b"\n")

    def left(self, request: Message, answer: Answer | None) -> None:
        if answer is not None and http_error_of(answer) is not None:
            self.send(response_of(answer, request["id"]))


class Batch:
    """The answers to a batch, which are given as one."""

    def __init__(self, pipe: Pipe, requests: Sequence[Message]) -> None:
        self._pipe = pipe
        self._waiting = [id_key(request["id"]) for request in requests]
        self._answers: list[Message] = []

    def send(self, message: Message) -> None:
        if not is_response(message) or id_key(message["id"]) not in self._waiting:
            self._pipe.send(message)
            return
        self._answers.append(message)
        self._ended(message["id"])

    def left(self, request: Message, answer: Answer | None) -> None:
        if answer is not None and http_error_of(answer) is not None:
            self.send(response_of(answer, request["id"]))
        elif id_key(request["id"]) in self._waiting:  # it may be given up after the others were answered
            self._ended(request["id"])

    def _ended(self, request_id: Json) -> None:
        self._waiting.remove(id_key(request_id))
        if not self._waiting and self._answers:
            self._pipe.send_value(self._answers)


class Relay:
    """Stands between a client and a server process, and passes every line on as it is."""

    def __init__(self, server: str, session: Session, *, source: int, sink: int, grace_s: float = GRACE_S) -> None:
        self._client = Pipe(sink)
        self._talk = Conversation(server, session, self._client, has_server=True)
        self._source = source
        self._patience = grace_s
        self._client_gone = False
        self._problem: BaseException | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Until either side has gone; gives the exit code of a server that went first, and 0 otherwise."""
        try:
            process = _started(command, environment)
        except ReplayKitError as error:
            self._talk.end(gone(error.exit_code), server_first=True)
            raise
        try:
            threading.Thread(target=self._to_server, args=(process,), name="mcp-client", daemon=True).start()
            self._to_client(process)
            code = self._ended(process)
        except BaseException:
            self._talk.end()  # first of all: whoever stops us does not wait for long
            _stop(process, _AT_ONCE)
            raise
        if self._problem is not None:
            raise self._problem
        return code

    def _to_server(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        server = Pipe(process.stdin.fileno())
        try:
            for line in lines_of(self._source):
                self._pass_on(line, server)
        except BaseException as error:  # noqa: BLE001 (told in the main thread)
            self._problem = error
        self._client_gone = True
        process.stdin.close()
        _stop(process, self._patience)

    def _pass_on(self, line: bytes, server: Pipe) -> None:
        """Hand a line on to the server, without what is answered here."""
        messages = _messages(line, self._talk, CLIENT)
        left = [message for message in messages if self._talk.from_client(message, self._client)]
        if messages and not left:
            return
        if len(left) < len(messages):
            line = dump(left) + b"\n"
        if wait_s := self._talk.pause_s(left):
            in_a_thread(wait_s, lambda: server.write(line))
        else:
            server.write(line)

    def _to_client(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in lines_of(process.stdout.fileno()):
            messages = _messages(line, self._talk, SERVER)
            told = [self._talk.from_server(message) for message in messages]
            # After it was written down: what the client has seen is never lost.
            self._client.write(line if is_unchanged(told, messages) else dump(_like(line, told)) + b"\n")
            if self._client.broken:
                self._client_gone = True
                return

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        """The server has closed its output, or nobody reads it."""
        assert process.stdout is not None
        process.stdout.close()
        _stop(process, _AT_ONCE if self._client.broken else self._patience)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        if not self._client_gone:
            self._talk.end(gone(code), server_first=True)
            return code
        failed = process.returncode > 0  # by itself, while its client was leaving
        self._talk.end(gone(code) if failed else None)
        return code if failed else 0


class Stage:
    """Plays a server that is not there."""

    def __init__(self, server: str, session: Session, backstage: Backstage, *, source: int, sink: int) -> None:
        self._client = Pipe(sink)
        self._talk = Conversation(server, session, self._client, has_server=False, backstage=backstage)
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=64)
        self._source = source

    def run(self) -> int:
        """Until the client has gone, or the server ends as it did; gives the exit code."""
        threading.Thread(target=self._read, name="mcp-client", daemon=True).start()
        self._talk.begin()
        while not self._client.broken:
            try:
                line = self._lines.get(timeout=self._patience())
            except queue.Empty:
                break
            if line is None:
                break
            self._answer(line)
        return self._talk.gone or 0

    def _patience(self) -> float | None:
        """How long the next line is waited for: a server that ended has answered everything that came before."""
        if self._talk.gone is None:
            return None
        return 1e-6 if self._talk.is_drained() else QUIET_S

    def _read(self) -> None:
        for line in lines_of(self._source):
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, line: bytes) -> None:
        messages, outlet = _heard(line, self._talk, self._client)
        if not messages and line.strip():
            self._client.send(failure(None, PARSE_ERROR, "not a JSON-RPC message"))
        for message in messages:
            self._talk.from_client(message, outlet)


def _started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ReplayKitError(
            f"the MCP server cannot be started: {command[0]!r}: {reason}",
            hint="Everything after `--` is the command of the server, as its client would start it.",
        ) from None


def _like(line: bytes, messages: list[Message]) -> Json:
    return messages if line.lstrip().startswith(b"[") else messages[0]


def _stop(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process to end by itself, then end it."""
    for end, wait_s in ((None, patience_s), (process.terminate, _LAST_S), (process.kill, None)):
        if end is not None:
            end()
        try:
            process.wait(wait_s)
            return
        except subprocess.TimeoutExpired:
            continue


def _heard(line: bytes, talk: Conversation, client: Pipe) -> tuple[list[Message], Outlet]:
    """The messages of a line, and where the answers to them go."""
    messages = _messages(line, talk, CLIENT)
    requests = [message for message in messages if is_request(message)]
    return messages, Batch(client, requests) if requests and line.lstrip().startswith(b"[") else client


def _messages(line: bytes, talk: Conversation, who: str) -> list[Message]:
    if not line.strip():
        return []
    try:
        found = messages_in(parse(line))
    except ValueError:
        found = []
    if not found:
        talk.garbage(who, line)
    return found
