"""Run an HTTP agent as a configuration describes it.

Its tools run in its own process. With `replaykit.middleware` around the application, they are answered from the
session's tape there, and the run log is returned. Without it, a replay of a session with tool answers is refused,
unless the configuration says `tools: live` and the user allows all live calls (`--live '*'`). The result then says that
nothing was frozen.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt, reported_on, served_from
from replaykit.candidates.http_client import (
    Ask,
    Handed,
    HttpAnswer,
    Looked,
    TapeClient,
    TapeRefused,
    ask,
    check_url,
    refusal_of,
)
from replaykit.candidates.output import write_log_output
from replaykit.candidates.process import OUTPUT_NAME
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import EVERY_TOOL, ReplayCase
from replaykit.cases.requests import REFUSED
from replaykit.middleware.messages import RequestLog
from replaykit.model.events import ErrorInfo
from replaykit.model.isolation import ANYTHING
from replaykit.model.jsonpath import members, parse_path
from replaykit.model.matching import ToolMode
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, decode, raw, sayable
from replaykit.project.agent import AgentConfig, AgentToolMode, Method
from replaykit.project.template import Expanded, NoSuchField, fill_template, fill_text

_LIVE_TEXT = "the agent takes no tape: its tools were live, so another run may end differently"
_PROBE_S = 10.0


class AgentAddress(Struct, frozen=True, kw_only=True):
    """The address of an agent, with environment variables expanded."""

    endpoint: Expanded
    headers: tuple[tuple[str, Expanded], ...] = ()
    reset: Expanded | None = None


class HttpAgent:
    """An agent behind a URL, called as its configuration says."""

    def __init__(self, agent: AgentConfig, address: AgentAddress) -> None:
        self.label = agent.endpoint  # unexpanded, because variables may hold secrets
        self._agent = agent
        self._address = address
        self._url = _checked(address.endpoint)
        self._headers = tuple((name, value.text) for name, value in address.headers)
        self._tapes = TapeClient(self._url, self._headers)
        self._lock = threading.Lock()
        self._looked = Looked(takes_tapes=False)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Call the agent once, inside the case's tape if it accepts one."""
        try:
            request = self._request(case)
        except NoSuchField as error:
            return Attempt(reason=str(error))
        if why := self._reset(timeout_s):
            return Attempt(reason=why)
        world = world_of(case)
        looked = self._look(timeout_s)
        if not looked.takes_tapes:
            # In a world that is live anyway, call the agent; the caller that configured the faults sees that none
            # occurred.
            held = world.tools.get(EVERY_TOOL) is not ToolMode.LIVE
            if held and world.chaos is not None and world.chaos.of_calls:
                return Attempt(reason=f"{self.label} takes no tape: faults cannot reach its tools and models\n{_WRAP}")
            asks_live = self._agent.tools is AgentToolMode.LIVE
            if world.calls and asks_live and not case.scenario.consent.covers(ANYTHING):
                refused = Deviation(kind=REFUSED, text=f"{self.label} {_NOT_ALLOWED}")
                return Attempt(reason=refused.text, deviations=(refused,))
            if world.calls and not asks_live:
                reason = f"{looked.nobody}\n{_LOOK}" if looked.nobody else _NO_TAPE
                return Attempt(reason=self._shown(f"{self.label} {reason}"))
            return self._live(case, request, workspace, timeout_s)
        try:
            handed = self._tapes.offer(world, timeout_s)
            attempt = self._taped(case, request, handed, workspace, timeout_s)
        except TapeRefused as error:
            return Attempt(reason=self._shown(f"{self.label} does not take the tape: {error}"))
        evidence = served_from(world, attempt.run, attempt.deviations)
        return replace(attempt, evidence=evidence)

    def _taped(self, case: ReplayCase, request: Ask, handed: Handed, workspace: Path, timeout_s: float) -> Attempt:
        began, ends = time.time(), time.monotonic() + timeout_s
        answer = self._tapes.ask_within(handed, request, timeout_s, retries=self._agent.retries)
        try:
            log = self._tapes.log(handed, _PROBE_S, work_s=0.0 if answer.timed_out else ends - time.monotonic())
        except TapeRefused as error:
            if answer.timed_out:
                return Attempt(reason=self._shown(f"{self.label} {answer.why}, {_BUSY}"))
            why = refusal_of(answer) or answer.why or str(error)
            return Attempt(reason=self._shown(f"{self.label} lost the tape: {why}"))
        if not log.runs:
            why = refusal_of(answer) or answer.why or f"the request did not get to the middleware\n{_WRAP}"
            return Attempt(reason=self._shown(f"{self.label} did not use the tape: {why}"))
        if log.runs[0].running and not answer.timed_out:
            answer = HttpAnswer(timed_out=True, why=f"answered, and was still at work after {timeout_s:g} s")
        return self._attempt(case, answer, log.runs[0], began, workspace)

    def _live(self, case: ReplayCase, request: Ask, workspace: Path, timeout_s: float) -> Attempt:
        began = time.time()
        answer = self._send(request, timeout_s)
        taped = RequestLog(deviations=(Deviation(kind="live", text=_LIVE_TEXT),))
        attempt = self._attempt(case, answer, taped, began, workspace)
        return replace(attempt, evidence=reported_on(world_of(case), attempt.run))

    def _attempt(
        self, case: ReplayCase, answer: HttpAnswer, taped: RequestLog, began: float, workspace: Path
    ) -> Attempt:
        reply = AgentReply()
        if answer.status is not None:
            reply = read_agent_reply(replace(answer, body=self._hidden(answer.body)), self._agent.response_path)
        elif not answer.timed_out:
            reply = AgentReply(reason=f"{answer.why}\n{_LOOK}")
        if reply.reason:
            return Attempt(reason=self._shown(f"{self.label} {reply.reason}"), deviations=taped.deviations)
        error = reply.error
        if answer.timed_out:
            error = ErrorInfo(type="TimeoutError", module="builtins", message=answer.why)
        run = _run_of(case, reply.output, error, taped, began)
        write_log_output(workspace / OUTPUT_NAME, run, taped.deviations)
        return Attempt(run=run, deviations=taped.deviations, keeps_hashes=True)

    def _request(self, case: ReplayCase) -> Ask:
        scenario_input, context = case.scenario.input, None
        if case.scenario.context_json:
            context = decode(case.scenario.context_json)
        agent = self._agent
        parameters = {name: fill_text(text, scenario_input, context) for name, text in agent.query_params}
        body = None
        if agent.request_template is not None:
            body = fill_template(agent.request_template, scenario_input, context)
        elif agent.method is not Method.GET:
            document = {"input": scenario_input}
            if context is not None:
                document["context"] = context
            body = orjson.dumps(document)
        elif not parameters:
            text = scenario_input if isinstance(scenario_input, str) else orjson.dumps(scenario_input).decode()
            parameters = {"input": text}
        headers = list(self._headers)
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("content-type", "application/json"))
        return Ask(method=agent.method, url=_with(self._url, parameters), body=body, headers=tuple(headers))

    def _send(self, request: Ask, timeout_s: float) -> HttpAnswer:
        return ask(request, timeout_s, retries=self._agent.retries)

    def _look(self, timeout_s: float) -> Looked:
        with self._lock:
            if not self._looked.takes_tapes:  # cache only a positive answer, because the agent may still be starting
                self._looked = self._tapes.look(min(timeout_s, _PROBE_S), retries=self._agent.retries)
            return self._looked

    def _reset(self, timeout_s: float) -> str:
        """Reset the agent; return the reason if that fails."""
        reset = self._address.reset
        if reset is None:
            return ""
        answer = self._send(Ask(method="POST", url=_checked(reset), body=b"", headers=self._headers), timeout_s)
        if answer.status is not None and 200 <= answer.status < 300:
            return ""
        why = answer.why or f"answered {answer.status}"
        hint = "Check agent.reset_endpoint: it gets a POST request before each case, and must answer 2xx."
        return self._shown(f"the agent could not be reset: {self._agent.reset_endpoint} {why}\n{hint}")

    def _shown(self, text: str) -> str:
        """Return a text for people, without expanded values."""
        for part in (self._address.endpoint, self._address.reset, *(value for _, value in self._address.headers)):
            text = part.hide(text) if part is not None else text
        return text

    def _hidden(self, body: bytes) -> bytes:
        """Return a response without the secrets of the request's headers, in case the agent echoes them."""
        text = body.decode("utf-8", "surrogateescape")
        for _, value in self._address.headers:
            text = value.hide(text)
        return text.encode("utf-8", "surrogateescape")


_LOOK = "Check that the agent is running, and that agent.endpoint is right."
_BUSY = """and does not report what it did in the meantime
Run it so that it serves several requests at once: gunicorn --threads 8, waitress, uvicorn"""
_WRAP = """Wrap the application: app = replaykit.middleware.asgi(app), or app = replaykit.middleware.wsgi(app),
and run it with REPLAYKIT_TAPE=1."""
_NO_TAPE = f"""takes no tape: recorded answers of its tools cannot be given to it, and they would be called for real
{_WRAP}
Or run it with live tools: agent.tools: live, and --live '*'"""

_NOT_ALLOWED = """takes no tape, and agent.tools: live asks to call its tools for real, which was not allowed
To allow it: --live '*'"""


def _checked(address: Expanded) -> str:
    check_url(address.text, address.hide(address.text))
    return address.text


def _with(url: str, parameters: Mapping[str, str]) -> str:
    if not parameters:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(parameters)}"


def _run_of(case: ReplayCase, output: Json, error: ErrorInfo | None, taped: RequestLog, began: float) -> TraceRun:
    status = RunStatus.SUCCESS
    if error is not None and error.type == "TimeoutError":
        status = RunStatus.TIMEOUT
    elif error is not None:
        status = RunStatus.ERROR
        error = taped.error or error
    return TraceRun(
        id=f"replay-{case.id}",
        name=case.id,
        input_json=case.scenario.input_json,
        output_json=ABSENT if output is None or error is not None else raw(output),
        status=status,
        error=error,
        started_at=began,
        ended_at=time.time(),
        origin=Origin(kind="replayed", run=case.source.run),
        events=taped.events,
        event_count=len(taped.events),
    )


OUTPUT_KEYS = (
    "output",
    "response",
    "result",
    "answer",
    "reply",
    "text",
    "content",
    "message",
    "final_output",
)
"""The keys that may hold the output if no `response_path` is set, in order of preference."""
_SHOWN_CHARS = 500


class AgentReply(Struct, frozen=True, kw_only=True):
    """An output, an error, or the reason why there is neither."""

    output: Json = None
    error: ErrorInfo | None = None
    reason: str = ""


def read_agent_reply(answer: HttpAnswer, path: str | None) -> AgentReply:
    """Read an agent's response.

    A 5xx status is the agent's failure; any other status outside 2xx is a failed request.
    """
    status = answer.status or 0
    text = sayable(answer.body.decode("utf-8", "replace"))
    if status >= 500:
        return AgentReply(error=ErrorInfo(type="HTTPError", message=f"answered {status}: {text[:_SHOWN_CHARS]}"))
    if not 200 <= status < 300:
        return _went_wrong(status, text, sayable(answer.location))
    try:
        value = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        return _no_json(text, error.msg, answer.content_type.lower(), path)
    failure = _failure(value, path or "")
    if failure is not None:
        return AgentReply(error=failure)
    if path is None:
        return _guessed(value)
    return _output_at(value, path)


def _went_wrong(status: int, text: str, location: str) -> AgentReply:
    what = f"answered {status}: {text[:_SHOWN_CHARS]}".rstrip(": \n")
    if 300 <= status < 400:
        return AgentReply(
            reason=f"answered {status}: it sends to {location or 'nowhere'}, and redirects are not followed\n{_ADDRESS}"
        )
    return AgentReply(reason=f"{what}\n{_NEXT.get(status, _ADDRESS)}")


_ADDRESS = "Write the final address: agent.endpoint"
_NEXT = {
    400: "Check the request body: agent.request_template",
    401: "Send credentials: agent.headers: {Authorization: 'Bearer ${AGENT_TOKEN}'}",
    403: "Send credentials: agent.headers: {Authorization: 'Bearer ${AGENT_TOKEN}'}",
    405: "Set the HTTP method: agent.method",
    415: "Set the content type: agent.headers: {Content-Type: ...}",
    422: "Check the request body: agent.request_template",
    429: "Too many requests at once: use -j 1",
}


def _no_json(text: str, why: str, content_type: str, path: str | None) -> AgentReply:
    """Treat plain text as output, whatever its content type; reject HTML pages and broken JSON."""
    if text.lstrip()[:15].lower().startswith(_PAGE):
        return AgentReply(reason=f"answered with a page of HTML: {text.lstrip()[:80]}\n{_ADDRESS}")
    if path is not None:
        return AgentReply(
            reason=f"did not answer with JSON, and response_path is {path}: {text[:_SHOWN_CHARS]}\n{_PLAIN}"
        )
    if "json" in content_type and text.lstrip().startswith(("{", "[", '"')):
        return AgentReply(
            reason=f"answered with {content_type} that cannot be read ({why}): {text[:_SHOWN_CHARS]}\n{_REPAIR}"
        )
    return AgentReply(output=text or None)


_PAGE = ("<!doctype html", "<html")
_PLAIN = "Leave agent.response_path out where the answer is a plain text."
_REPAIR = "Check what the agent writes; send plain text as text/plain."


def _output_at(value: Json, path: str) -> AgentReply:
    found = list(members(value, parse_path(path)))
    if not found:
        return AgentReply(
            reason=f"answered without {path}: {_json_excerpt(value)}\nWrite where it is: agent.response_path"
        )
    if len(found) > 1:
        return AgentReply(
            reason=f"answered with {len(found)} values at {path}\nWrite one of them: agent.response_path: {found[0][0]}"
        )
    return AgentReply(output=found[0][1])


def _failure(value: Json, path: str) -> ErrorInfo | None:
    """Return the failure that the agent reports in a member that is not itself the output."""
    if not isinstance(value, dict):
        return None
    fields = {
        "error": value.get("error"),
        "success": "success: false" if value.get("success") is False else None,
        "status": (value.get("message") or "status: error") if value.get("status") == "error" else None,
    }
    for key, failed in fields.items():
        if failed and not re.match(rf"[$.\['\"]*{key}\b", path):
            message = failed if isinstance(failed, str) else _json_excerpt(failed)
            return ErrorInfo(type="AgentError", message=sayable(message[:_SHOWN_CHARS]))
    return None


def _guessed(value: Json) -> AgentReply:
    if not isinstance(value, dict):
        return AgentReply(output=value)
    for key in OUTPUT_KEYS:
        if key in value:
            return AgentReply(output=value[key])
    return AgentReply(output=next(iter(value.values())) if len(value) == 1 else value)


def _json_excerpt(value: Json) -> str:
    return orjson.dumps(value).decode()[:_SHOWN_CHARS]
