"""Hand a tape to an agent behind HTTP: the other side of `replaykit.middleware`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

import msgspec

from replaykit.errors import ReplayKitError
from replaykit.middleware.messages import (
    TAPE_FORMAT,
    TAPE_HEADER,
    TAPE_PATH,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    Offer,
    Taken,
    TapeLog,
)
from replaykit.model.values import sayable
from replaykit.replayer.world import World
from replaykit.runners.asking import Answer, Ask, ask

Headers: TypeAlias = tuple[tuple[str, str], ...]
UNWATCHED = "unwatched"
"""The deviation of a run whose tools nobody answered or watched."""


class TapeRefused(ReplayKitError):
    """The agent has the middleware, and does not take the tape."""


class _Told(msgspec.Struct):
    """What the middleware says that has nothing else to say."""

    replaykit: int
    error: str = ""


class TapeClient:
    """Speaks with the middleware of the agent at an address, where it has one."""

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        parts = urlsplit(url)
        self._root = urlunsplit((parts.scheme, parts.netloc, TAPE_PATH, "", ""))
        token = environment.get(TOKEN_VARIABLE)
        self._headers = (("content-type", "application/json"), *(((TOKEN_HEADER, token),) if token else ()))

    def is_there(self, timeout_s: float) -> bool:
        """True when the agent answers for tapes. Only looks: an agent without the middleware is asked nothing."""
        return _told(self._ask("GET", "", timeout_s)) is not None

    def offer(self, world: World, timeout_s: float) -> Headers:
        """Hand the world over; gives the headers of the request that shall be served in it."""
        answer = self._ask("POST", "", timeout_s, msgspec.json.encode(Offer(world=world)))
        if answer.status == 200:
            try:
                name = msgspec.json.decode(answer.body, type=Taken).tape
            except msgspec.MsgspecError as error:
                raise TapeRefused(f"its answer is none: {sayable(str(error))}") from None
            return ((TAPE_HEADER, name), *self._headers[1:])
        said = _told(answer)
        raise TapeRefused((said.error if said else "") or answer.why or f"it answered {answer.status}")

    def log(self, headers: Headers, timeout_s: float) -> TapeLog:
        """What the agent did in the tape; it forgets it then."""
        answer = self._ask("DELETE", f"/{dict(headers)[TAPE_HEADER]}", timeout_s)
        said = _told(answer)
        if answer.status != 200:
            raise TapeRefused((said.error if said else "") or answer.why or f"it answered {answer.status}")
        try:
            return msgspec.json.decode(answer.body, type=TapeLog)
        except msgspec.MsgspecError as error:
            raise TapeRefused(f"its log cannot be read: {sayable(str(error))}") from None

    def _ask(self, method: str, path: str, timeout_s: float, body: bytes | None = None) -> Answer:
        return ask(Ask(method=method, url=self._root + path, body=body, headers=self._headers), timeout_s)


def refusal_of(answer: Answer) -> str:
    """What the middleware says against a request that should be served in a tape; nothing when it says nothing."""
    said = _told(answer) if answer.status is not None and answer.status >= 400 else None
    return said.error if said is not None else ""


def _told(answer: Answer) -> _Told | None:
    try:
        said = msgspec.json.decode(answer.body, type=_Told)
    except msgspec.MsgspecError:
        return None
    return said if said.replaykit == TAPE_FORMAT else None
