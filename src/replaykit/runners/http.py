"""An HTTP endpoint as a candidate: the case goes in as JSON, the runner output comes back as JSON.

The tools of such an agent live in its own process. The request carries the recorded answers, for an agent that
can use them; one that does not is judged by what it answers, with its tools as live as they are.
"""

from __future__ import annotations

import http.client
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.fixtures import read_fixtures
from replaykit.errors import UsageError
from replaykit.model.events import ToolCall
from replaykit.model.values import Json
from replaykit.runners.attempt import Attempt
from replaykit.runners.command import OUTPUT_NAME, timed_out_run
from replaykit.runners.output import MAX_OUTPUT_BYTES, parse_output


class HttpCandidate:
    """An agent behind a URL."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"{url!r} is not an address of an agent", hint="Write http://host:port/path")
        self.label = url

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Post the case once."""
        calls = [call for call in read_fixtures(case.directory) if isinstance(call, ToolCall)]
        body = {
            "case": case.id,
            "input": case.scenario.input_json,
            "tool_responses": [_response(call) for call in calls],
        }
        answer = _within(timeout_s, partial(_post, self.label, msgspec.json.encode(body), timeout_s))
        if answer is None:
            return Attempt(run=timed_out_run(timeout_s))
        if isinstance(answer, str):
            return Attempt(reason=f"{self.label} {answer}")
        (workspace / OUTPUT_NAME).write_bytes(answer)
        return parse_output(answer)


def _post(url: str, body: bytes, timeout_s: float) -> bytes | str | None:
    """What the endpoint answered; in words why there is no answer; None when it took too long."""
    try:
        request = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text: bytes = answer.read(MAX_OUTPUT_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            return f"answered {error.code} {error.reason}"
    except TimeoutError:
        return None
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"cannot be reached: {getattr(error, 'reason', None) or repr(error)}"
    return text if len(text) <= MAX_OUTPUT_BYTES else f"answered with more than {MAX_OUTPUT_BYTES:,} bytes"


def _within(timeout_s: float, action: Callable[[], bytes | str | None]) -> bytes | str | None:
    """The action's result, or None when it is not there in time: a socket's own timeout is for each read."""
    results: queue.SimpleQueue[bytes | str | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(action())
        except Exception as error:  # noqa: BLE001 (whatever the endpoint did to the client)
            results.put(f"cannot be read: {error!r}")

    threading.Thread(target=work, daemon=True).start()
    try:
        return results.get(timeout=timeout_s)
    except queue.Empty:
        return None


def _response(call: ToolCall) -> dict[str, Json]:
    if call.error is not None:
        answer: dict[str, Json] = {"error": str(call.error)}
    elif call.items_json is not None:
        answer = {"response": call.items_json}
    else:
        answer = {"response": call.result_json or None}
    return {"tool": call.name, "arguments": call.arguments_json, **answer}
