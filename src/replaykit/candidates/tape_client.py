"""Hand a tape to an agent behind HTTP: the other side of `replaykit.middleware`.

An agent may run in several processes behind one address, and a tape is held by the one that took it. Another one
refuses before its application has seen the request, so that it can be sent again: until it gets to the right one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

import msgspec

from replaykit.candidates.http_client import Ask, HttpAnswer, ask, in_time
from replaykit.errors import ReplayKitError
from replaykit.handlers.replay.world import World
from replaykit.middleware.messages import (
    TAPE_FORMAT,
    TAPE_HEADER,
    TAPE_PATH,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    TapeAccepted,
    TapeError,
    TapeLog,
    TapeOffer,
)
from replaykit.model.values import sayable

Headers: TypeAlias = tuple[tuple[str, str], ...]
UNWATCHED = "unwatched"
"""The deviation of a run whose tools nobody answered or watched."""
MOST_TRIES = 1000  # to meet one process among several, as long as there is time
_PAUSE_S = 0.02  # between two looks at an agent that has answered, and is still at work


class TapeRefused(ReplayKitError):
    """The agent has the middleware, and does not take the tape."""


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """A tape that was handed over."""

    tape: str
    process: str
    """Who has it."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of an agent."""

    takes_tapes: bool
    nobody: str = ""
    """Why there was no answer at all."""


class TapeClient:
    """Speaks with the middleware of the agent at an address, where it has one."""

    def __init__(self, url: str, headers: Headers = (), environment: Mapping[str, str] = os.environ) -> None:
        """`headers` go with every request, since whoever guards the agent guards its tapes."""
        parts = urlsplit(url)
        self._root = urlunsplit((parts.scheme, parts.netloc, TAPE_PATH, "", ""))
        token = environment.get(TOKEN_VARIABLE)
        self._token: Headers = ((TOKEN_HEADER, token),) if token else ()
        self._headers = tuple(pair for pair in headers if pair[0].lower() != "content-type")

    def look(self, timeout_s: float, *, retries: int = 0) -> Looked:
        """Whether the agent answers for tapes. Only looks: one without the middleware is asked, and told, nothing."""
        answer = ask(Ask(method="GET", url=self._root, headers=self._headers), timeout_s, retries=retries)
        return Looked(takes_tapes=_tape_error(answer) is not None, nobody=answer.why if answer.status is None else "")

    def offer(self, world: World, timeout_s: float) -> Handed:
        """Hand the world over."""
        answer = self._ask("POST", "", timeout_s, msgspec.json.encode(TapeOffer(world=world)))
        if answer.status != 200:
            raise TapeRefused(_why(answer))
        try:
            taken = msgspec.json.decode(answer.body, type=TapeAccepted)
        except msgspec.MsgspecError as error:
            raise TapeRefused(f"its answer is none: {sayable(str(error))}") from None
        return Handed(tape=taken.tape, process=taken.process)

    def ask_within(self, handed: Handed, request: Ask, timeout_s: float, *, retries: int = 0) -> HttpAnswer:
        """The answer to a request that is served inside of the tape."""
        headers = (*request.headers, (TAPE_HEADER, handed.tape), *self._token)
        inside = msgspec.structs.replace(request, headers=headers)
        return _met(handed, timeout_s, lambda left: ask(inside, left, retries=retries))

    def log(self, handed: Handed, timeout_s: float, *, work_s: float = 0.0) -> TapeLog:
        """What the agent did in the tape; it forgets it then. Waits as long as that for an agent that is at work."""
        ends = time.monotonic() + work_s
        while True:
            log = self._log(handed, timeout_s)
            if not any(run.running for run in log.runs) or time.monotonic() >= ends:
                return log
            time.sleep(_PAUSE_S)

    def _log(self, handed: Handed, timeout_s: float) -> TapeLog:
        answer = _met(handed, timeout_s, lambda left: self._ask("DELETE", f"/{handed.tape}", left))
        if answer.status != 200:
            raise TapeRefused(_why(answer))
        try:
            return msgspec.json.decode(answer.body, type=TapeLog)
        except msgspec.MsgspecError as error:
            raise TapeRefused(f"its log cannot be read: {sayable(str(error))}") from None

    def _ask(self, method: str, path: str, timeout_s: float, body: bytes | None = None) -> HttpAnswer:
        headers = (*self._headers, ("content-type", "application/json"), *self._token)
        return ask(Ask(method=method, url=self._root + path, body=body, headers=headers), timeout_s)


def _met(handed: Handed, timeout_s: float, once: Callable[[float], HttpAnswer]) -> HttpAnswer:
    """The answer of the process that has the tape; `TapeRefused` when only others answer."""
    others: set[str] = set()
    ends, tries = time.monotonic() + timeout_s, 0
    while tries < MOST_TRIES and (not others or time.monotonic() < ends):
        tries += 1
        answer = once(max(0.0, ends - time.monotonic()))
        error = _tape_error(answer) if answer.status == 404 else None
        if error is None or error.process in ("", handed.process):
            if answer.timed_out:
                return msgspec.structs.replace(answer, why=in_time(timeout_s))
            return answer
        others.add(error.process)
    problem = f"process {handed.process} has it, and {tries} requests got to {len(others)} others"
    raise TapeRefused(f"{problem}\n{_ONE_PROCESS}")


_ONE_PROCESS = "Run it as one process: uvicorn --workers 1, gunicorn --workers 1 --threads 8"


def refusal_of(answer: HttpAnswer) -> str:
    """What the middleware says against a request that should be served in a tape; nothing when it says nothing."""
    if answer.status is not None and answer.status >= 400:
        error = _tape_error(answer)
    else:
        error = None
    if error is not None:
        return error.error
    return ""


def _why(answer: HttpAnswer) -> str:
    error = _tape_error(answer)
    return (error.error if error else "") or answer.why or f"it answered {answer.status}"


def _tape_error(answer: HttpAnswer) -> TapeError | None:
    try:
        error = msgspec.json.decode(answer.body, type=TapeError)
    except msgspec.MsgspecError:
        return None
    if error.replaykit == TAPE_FORMAT:
        return error
    return None
