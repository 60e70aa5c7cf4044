"""Requests to a service: within a total time limit, and with retries."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from replaykit.candidates.http_client import Ask, HttpAnswer, ask
from replaykit.errors import FetchFailed
from replaykit.intake.services.client import ServiceAccount, ServiceReply, ServiceRequest

DEFAULT_TIMEOUT_S = 300.0
"""The limit on everything that one command fetches."""
REQUEST_S = 60.0
ATTEMPTS = 5
MAX_PAUSE_S = 30.0
FIRST_PAUSE_S = 0.5
_AGAIN = (429, 500, 502, 503, 504)  # too many requests, and temporary errors of a server or its proxy


class Transport:
    """Sends the requests of one import. The key goes to the account's own address, and to no redirect."""

    def __init__(
        self,
        account: ServiceAccount,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._account = account
        self._timeout_s = timeout_s
        self._pause = pause
        self._clock = clock
        self._ends = clock() + timeout_s

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return self._clock() >= self._ends

    def __call__(self, request: ServiceRequest) -> ServiceReply:
        """Send a request, with retries; raise `FetchFailed` if every attempt fails."""
        answer = HttpAnswer()
        for attempt in range(ATTEMPTS):
            left = self._ends - self._clock()
            if left <= 0:
                raise self._failed(f"did not give everything within {self._timeout_s:g} s")
            answer = ask(self._authorized(request), min(REQUEST_S, left))
            if answer.status is not None and answer.status not in _AGAIN:
                return ServiceReply(answer.status, answer.body)
            wait = _wait(answer, attempt)
            # A timeout used up its time, and a server that refused two connections is down.
            hopeless = answer.timed_out or (answer.never_connected and attempt > 0)
            if hopeless or attempt == ATTEMPTS - 1 or wait > min(MAX_PAUSE_S, self._ends - self._clock()):
                break
            self._pause(wait)
        raise self._failed(_why(answer))

    def _authorized(self, request: ServiceRequest) -> Ask:
        headers = [("accept", "application/json")]
        if request.body is not None:
            headers.append(("content-type", "application/json"))
        if request.with_key:
            headers += self._account.headers
        return Ask(method=request.method, url=request.url, body=request.body, headers=tuple(headers))

    def _failed(self, why: str) -> FetchFailed:
        problem = self._account.hide(f"{self._account.service} at {self._account.root} {why}")
        return FetchFailed(problem, hint=f"Is {self._account.variable} the right address, and is it up?")


def _wait(answer: HttpAnswer, attempt: int) -> float:
    """Return the seconds to wait: as the server asks, or longer after each attempt."""
    retry_after = answer.retry_after.strip()
    if retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        then = parsedate_to_datetime(retry_after)
        return max(0.0, (then - dt.datetime.now(then.tzinfo)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return float(FIRST_PAUSE_S * 2**attempt)


def _why(answer: HttpAnswer) -> str:
    if answer.status is None:
        return answer.why or "gave no answer"
    later = f", and asks to wait {answer.retry_after[:40]!r}" if answer.retry_after else ""
    return f"answered {answer.status} each time{later}"
