"""A tape that is to be served over HTTP, looked through before anything starts.

Fixtures are files that people edit and others send. What cannot be served is said here, with the call it is in, and not
in the middle of a replay; and nothing that would end a header early reaches a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from replaykit.errors import Unreplayable
from replaykit.model.events import Call, WireInfo
from replaykit.model.values import decode

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_STATUSES = range(200, 600)


def check_tape(calls: Iterable[Call]) -> None:
    """Raise `Unreplayable` for the first recorded response that cannot be given out."""
    for call in calls:
        if call.wire is None:
            continue
        wrong = _wrong_head(call.wire) or _wrong_chunks(call)
        if wrong:
            raise Unreplayable(
                f"the recorded call {call.seq}, `{call.name}`, cannot be served: {wrong}",
                hint="Mend its fixture, or record it again.",
            )


def _wrong_head(wire: WireInfo) -> str:
    if wire.status and wire.status not in _STATUSES:
        return f"{wire.status} is no status of a response"
    if _CONTROL.search(wire.reason):
        return "a control character is in its reason"
    for name, value in wire.headers:
        if not _TOKEN.fullmatch(name):
            return f"{name!r} is no name of a header"
        if _CONTROL.search(value):
            return f"a control character is in its header {name!r}"
    return ""


def _wrong_chunks(call: Call) -> str:
    for number, item in enumerate(call.items_json or ()):
        try:
            chunk = decode(item)
        except ValueError as error:
            return f"chunk {number} cannot be read ({error})"
        if isinstance(chunk, dict) and any(name.startswith("$") for name in chunk):
            return f"chunk {number} is damaged: {str(chunk)[:40]}"
    return ""
