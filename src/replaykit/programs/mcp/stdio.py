"""MCP over standard input and output: newline-delimited JSON-RPC between a client and a server."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

from replaykit.errors import ReplayKitError
from replaykit.model.values import Json
from replaykit.programs.command import shell_code
from replaykit.programs.mcp.conversation import McpConversation, run_later
from replaykit.programs.mcp.messages import (
    CLIENT,
    PARSE_ERROR,
    SERVER,
    Message,
    dump,
    failure,
    http_error_of,
    id_key,
    is_request,
    is_response,
    is_unchanged,
    messages_in,
    response_of,
    server_gone_error,
)
from replaykit.programs.mcp.playback import MessageSink, RecordedServer
from replaykit.seam.scope import CallAnswer, RunSession

GRACE_S = 10.0
"""Seconds for a server to exit by itself after its client has gone."""
QUIET_S = 0.5
"""In a replay: how long the client must be silent before a server that crashed does so again."""
_READ = 1 << 18
_LAST_S = 1.0  # between SIGTERM and SIGKILL
_AT_ONCE = 0.0


def lines_of(fd: int) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends, as soon as they come, and an unfinished rest at the end."""
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


class MessagePipe:
    """The writing end of a stream, for whole messages from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self.broken = False
        """True if nobody reads any more."""

    def write(self, data: bytes) -> None:
        """Write all of the data; do nothing if nobody reads any more."""
        rest = memoryview(data)
        with self._lock:
            try:
                while rest and not self.broken:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:
                self.broken = True

    def send(self, message: Message | list[Message]) -> None:
        """Write a message or a batch."""
        self.write(dump(message) + b"\n")

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        if answer is not None and http_error_of(answer) is not None:
            self.send(response_of(answer, request["id"]))


class BatchReply:
    """The answers to a batch, sent together."""

    def __init__(self, pipe: MessagePipe, requests: Sequence[Message]) -> None:
        self._pipe = pipe
        self._waiting = [id_key(request["id"]) for request in requests]
        self._answers: list[Message] = []

    def send(self, message: Message) -> None:
        if not is_response(message) or id_key(message["id"]) not in self._waiting:
            self._pipe.send(message)
            return
        self._answers.append(message)
        self._ended(message["id"])

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        if answer is not None and http_error_of(answer) is not None:
            self.send(response_of(answer, request["id"]))
        elif id_key(request["id"]) in self._waiting:  # it may be cancelled after the others were answered
            self._ended(request["id"])

    def _ended(self, request_id: Json) -> None:
        self._waiting.remove(id_key(request_id))
        if not self._waiting and self._answers:
            self._pipe.send(self._answers)


class StdioRelay:
    """Relays between a client and a server process, line by line and unchanged."""

    def __init__(self, server: str, session: RunSession, *, source: int, sink: int, grace_s: float = GRACE_S) -> None:
        self._client = MessagePipe(sink)
        self._conversation = McpConversation(server, session, self._client, has_server=True)
        self._source = source
        self._patience = grace_s
        self._client_gone = False
        self._problem: BaseException | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Relay until either side is gone; return the exit code of a server that went first, and 0 otherwise."""
        try:
            process = _start_server(command, environment)
        except ReplayKitError as error:
            self._conversation.end(server_gone_error(error.exit_code), server_first=True)
            raise
        try:
            threading.Thread(target=self._to_server, args=(process,), name="mcp-client", daemon=True).start()
            self._to_client(process)
            code = self._ended(process)
        except BaseException:
            self._conversation.end()  # recorded first: whoever stops this process does not wait long
            _stop(process, _AT_ONCE)
            raise
        if self._problem is not None:
            raise self._problem
        return code

    def _to_server(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        server = MessagePipe(process.stdin.fileno())
        try:
            for line in lines_of(self._source):
                self._pass_on(line, server)
        except BaseException as error:  # noqa: BLE001 (raised in the main thread)
            self._problem = error
        self._client_gone = True
        process.stdin.close()
        _stop(process, self._patience)

    def _pass_on(self, line: bytes, server: MessagePipe) -> None:
        """Forward a line to the server, without the messages that are answered here."""
        messages = _messages(line, self._conversation, CLIENT)
        forwarded = [message for message in messages if self._conversation.from_client(message, self._client)]
        if messages and not forwarded:
            return
        if len(forwarded) < len(messages):
            line = dump(forwarded) + b"\n"
        if wait_s := self._conversation.pause_s(forwarded):
            run_later(wait_s, lambda: server.write(line))
        else:
            server.write(line)

    def _to_client(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in lines_of(process.stdout.fileno()):
            messages = _messages(line, self._conversation, SERVER)
            passed_messages = [self._conversation.from_server(message) for message in messages]
            if not is_unchanged(passed_messages, messages):
                is_batch = line.lstrip().startswith(b"[")
                line = dump(passed_messages if is_batch else passed_messages[0]) + b"\n"
            self._client.write(line)  # after it was recorded: what the client has seen is never lost
            if self._client.broken:
                self._client_gone = True
                return

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the server's end after its output was closed, or nobody reads it."""
        assert process.stdout is not None
        process.stdout.close()
        _stop(process, _AT_ONCE if self._client.broken else self._patience)
        code = shell_code(process.returncode)
        if not self._client_gone:
            self._conversation.end(server_gone_error(code), server_first=True)
            return code
        if process.returncode > 0:  # it failed by itself while its client was leaving
            self._conversation.end(server_gone_error(code))
            return code
        self._conversation.end()
        return 0


class RecordedStdioServer:
    """Plays a server from a recording."""

    def __init__(
        self, server: str, session: RunSession, recorded_server: RecordedServer, *, source: int, sink: int
    ) -> None:
        self._client = MessagePipe(sink)
        self._conversation = McpConversation(
            server, session, self._client, has_server=False, recorded_server=recorded_server
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=64)
        self._source = source

    def run(self) -> int:
        """Answer until the client has gone, or the server ends as recorded; return the exit code."""
        threading.Thread(target=self._read, name="mcp-client", daemon=True).start()
        self._conversation.begin()
        while not self._client.broken:
            try:
                line = self._lines.get(timeout=self._patience())
            except queue.Empty:
                break
            if line is None:
                break
            self._answer(line)
        return self._conversation.gone or 0

    def _patience(self) -> float | None:
        """Return how long to wait for the next line: a server that ended had answered everything before that."""
        if self._conversation.gone is None:
            return None
        if self._conversation.is_drained():
            return 1e-6
        return QUIET_S

    def _read(self) -> None:
        for line in lines_of(self._source):
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, line: bytes) -> None:
        messages, sink = _client_messages(line, self._conversation, self._client)
        if not messages and line.strip():
            self._client.send(failure(None, PARSE_ERROR, "not a JSON-RPC message"))
        for message in messages:
            self._conversation.from_client(message, sink)


def _start_server(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ReplayKitError(
            f"the MCP server cannot be started: {command[0]!r}: {reason}",
            hint="Everything after `--` is the command of the server, as its client would start it.",
        ) from None


def _stop(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process to end by itself, then end it."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _client_messages(
    line: bytes, conversation: McpConversation, client: MessagePipe
) -> tuple[list[Message], MessageSink]:
    """Return the messages of a line, and the destination of their answers."""
    messages = _messages(line, conversation, CLIENT)
    requests = list(filter(is_request, messages))
    if requests and line.lstrip().startswith(b"["):
        return messages, BatchReply(client, requests)
    return messages, client


def _messages(line: bytes, conversation: McpConversation, sender: str) -> list[Message]:
    if not line.strip():
        return []
    messages = messages_in(line)
    if not messages:
        conversation.garbage(sender, line)
    return messages
