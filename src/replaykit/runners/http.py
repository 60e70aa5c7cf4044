"""An HTTP endpoint as a candidate: the case goes in as JSON, the runner output comes back as JSON.

The tools of such an agent live in its own process. The request carries the recorded answers, for an agent that
can use them; one that does not is judged by what it answers, with its tools as live as they are.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from replaykit.cases.case import ReplayCase
from replaykit.cases.fixtures import read_fixtures
from replaykit.errors import UsageError
from replaykit.model.events import Call
from replaykit.model.values import Json
from replaykit.runners.attempt import Attempt
from replaykit.runners.command import OUTPUT_NAME, timed_out_run
from replaykit.runners.output import MAX_OUTPUT_BYTES, parse_output


class HttpCandidate:
    """An agent behind a URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"{url!r} is not an address of an agent", hint="Write http://host:port/path")
        self.label = url

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Post the case once."""
        calls = read_fixtures(case.directory)
        body = {"case": case.id, "input": case.scenario.input, "tool_responses": [_response(c) for c in calls]}
        request = urllib.request.Request(
            self.label, data=orjson.dumps(body, default=str), headers={"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                text = answer.read(MAX_OUTPUT_BYTES + 1)
        except urllib.error.HTTPError as error:
            return Attempt(reason=f"{self.label} answered {error.code} {error.reason}")
        except TimeoutError:
            return Attempt(run=timed_out_run(timeout_s))
        except OSError as error:
            return Attempt(reason=f"{self.label} cannot be reached: {getattr(error, 'reason', error)}")
        if len(text) > MAX_OUTPUT_BYTES:
            return Attempt(reason=f"{self.label} answered with more than {MAX_OUTPUT_BYTES:,} bytes")
        (workspace / OUTPUT_NAME).write_bytes(text)
        return parse_output(text)


def _response(call: Call) -> Json:
    answer = {"error": str(call.error)} if call.error is not None else {"response": call.items or call.result}
    return {"tool": call.name, "arguments": call.arguments, **answer}
