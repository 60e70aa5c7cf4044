"""botocore sits on urllib3, and wraps whatever it does not know: what stops a call is taken out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replaykit.errors import ReplayKitError


def send(original: Callable[..., Any]) -> Callable[..., Any]:
    """For `URLLib3Session.send`."""

    def sent(session: Any, request: Any) -> Any:
        try:
            return original(session, request)
        except Exception as error:
            inner = getattr(error, "kwargs", {}).get("error")
            if isinstance(inner, ReplayKitError):
                raise inner from None
            raise

    return sent
