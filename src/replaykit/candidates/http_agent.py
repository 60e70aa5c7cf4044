"""An agent behind HTTP, as a configuration describes it.

Its tools live in its own process. With `replaykit.middleware` around the application they are answered from the
session's tape there, and its run log comes back. Without it the replay is refused where the session holds answers of
tools, unless the configuration says `tools: live` and the person who runs it allows anything live (`--live '*'`); then
the result says that nothing was held still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec
import orjson
from msgspec import Struct

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.http_answers import AgentReply, read_agent_reply
from replaykit.candidates.http_client import Ask, HttpAnswer, ask
from replaykit.candidates.output import write_log_output
from replaykit.candidates.runner import OUTPUT_NAME
from replaykit.candidates.tape_client import Handed, Looked, TapeClient, TapeRefused, refusal_of
from replaykit.candidates.tape_use import reported_on, served_from
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import EVERY_TOOL, ReplayCase
from replaykit.cases.requests import REFUSED
from replaykit.errors import UsageError
from replaykit.middleware.messages import RequestLog
from replaykit.model.events import ErrorInfo
from replaykit.model.isolation import ANYTHING
from replaykit.model.matching import ToolMode
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, decode, raw
from replaykit.project.agent import AgentConfig, AgentToolMode, Method
from replaykit.project.environment import Expanded
from replaykit.project.template import NoSuchField, fill_template, fill_text

_LIVE_TEXT = "the agent takes no tape: its tools were as live as they are, and this run need not come out again"
_PROBE_S = 10.0


class AgentAddress(Struct, frozen=True, kw_only=True):
    """Where an agent is, with the variables of the environment filled in."""

    endpoint: Expanded
    headers: tuple[tuple[str, Expanded], ...] = ()
    reset: Expanded | None = None


class HttpAgent:
    """An agent behind a URL, asked as its configuration says."""

    def __init__(self, agent: AgentConfig, address: AgentAddress) -> None:
        self.label = agent.endpoint  # as it is written: variables may hold secrets
        self._agent = agent
        self._address = address
        self._url = _checked(address.endpoint)
        self._headers = tuple((name, value.text) for name, value in address.headers)
        self._tapes = TapeClient(self._url, self._headers)
        self._lock = threading.Lock()
        self._looked = Looked(takes_tapes=False)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Ask the agent once, inside of the case's tape where it takes one."""
        try:
            request = self._request(case)
        except NoSuchField as error:
            return Attempt(reason=str(error))
        if why := self._reset(timeout_s):
            return Attempt(reason=why)
        world = world_of(case)
        looked = self._look(timeout_s)
        if not looked.takes_tapes:
            # In a world that is live anyway it is asked; whoever put the faults there sees that none has struck.
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
        return msgspec.structs.replace(attempt, evidence=evidence)

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
        return msgspec.structs.replace(attempt, evidence=reported_on(world_of(case), attempt.run))

    def _attempt(
        self, case: ReplayCase, answer: HttpAnswer, taped: RequestLog, began: float, workspace: Path
    ) -> Attempt:
        reply = AgentReply()
        if answer.status is not None:
            reply = read_agent_reply(
                msgspec.structs.replace(answer, body=self._hidden(answer.body)), self._agent.response_path
            )
        elif not answer.timed_out:
            reply = AgentReply(reason=f"{answer.why}\n{_LOOK}")
        if reply.reason:
            return Attempt(reason=self._shown(f"{self.label} {reply.reason}"), deviations=taped.deviations)
        if answer.timed_out:
            late = ErrorInfo(type="TimeoutError", module="builtins", message=answer.why)
        else:
            late = None
        run = _run_of(case, reply.output, late or reply.error, taped, began)
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
            body = orjson.dumps(
                {"input": scenario_input} if context is None else {"input": scenario_input, "context": context}
            )
        elif not parameters:
            parameters = {
                "input": scenario_input if isinstance(scenario_input, str) else orjson.dumps(scenario_input).decode()
            }
        headers = list(self._headers)
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("content-type", "application/json"))
        return Ask(method=agent.method, url=_with(self._url, parameters), body=body, headers=tuple(headers))

    def _send(self, request: Ask, timeout_s: float) -> HttpAnswer:
        return ask(request, timeout_s, retries=self._agent.retries)

    def _look(self, timeout_s: float) -> Looked:
        with self._lock:
            if not self._looked.takes_tapes:  # an agent may still be starting: only a yes is remembered
                self._looked = self._tapes.look(min(timeout_s, _PROBE_S), retries=self._agent.retries)
            return self._looked

    def _reset(self, timeout_s: float) -> str:
        """Set the agent back; gives why that could not be done."""
        reset = self._address.reset
        if reset is None:
            return ""
        answer = self._send(Ask(method="POST", url=_checked(reset), body=b"", headers=self._headers), timeout_s)
        if answer.status is not None and 200 <= answer.status < 300:
            return ""
        why = answer.why or f"answered {answer.status}"
        hint = "Look at agent.reset_endpoint: it is posted to before each case, and answers 2xx."
        return self._shown(f"the agent could not be reset: {self._agent.reset_endpoint} {why}\n{hint}")

    def _shown(self, text: str) -> str:
        """A text for people, without what the environment gave."""
        for part in (self._address.endpoint, self._address.reset, *(value for _, value in self._address.headers)):
            text = part.hide(text) if part is not None else text
        return text

    def _hidden(self, body: bytes) -> bytes:
        """An answer without the secrets of the request's headers, if the agent says them back."""
        text = body.decode("utf-8", "surrogateescape")
        for _, value in self._address.headers:
            text = value.hide(text)
        return text.encode("utf-8", "surrogateescape")


_LOOK = "Look whether the agent runs, and at agent.endpoint."
_BUSY = """and does not tell what it did meanwhile
Run it so that it serves several requests at once: gunicorn --threads 8, waitress, uvicorn"""
_WRAP = """Wrap the application: app = replaykit.middleware.asgi(app), or app = replaykit.middleware.wsgi(app),
and run it with REPLAYKIT_TAPE=1."""
_NO_TAPE = f"""takes no tape: recorded answers of its tools cannot be given to it, and they would be called for real
{_WRAP}
Or ask it all the same, its tools live: agent.tools: live, and --live '*'"""

_NOT_ALLOWED = """takes no tape, and agent.tools: live asks to call its tools for real, which was not allowed
To allow it: --live '*'"""


def _checked(address: Expanded) -> str:
    try:
        parts = urlsplit(address.text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        shown = address.hide(address.text)
        raise UsageError(f"{shown!r} is not an address of an agent", hint="Write http://host:port/path")
    return address.text


def _with(url: str, parameters: Mapping[str, str]) -> str:
    if not parameters:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(parameters)}"


def _run_of(case: ReplayCase, output: Json, error: ErrorInfo | None, taped: RequestLog, began: float) -> TraceRun:
    status = RunStatus.SUCCESS
    if error is not None:
        if error.type == "TimeoutError":
            status = RunStatus.TIMEOUT
        else:
            status = RunStatus.ERROR
        if taped.error is not None and status is RunStatus.ERROR:
            error = taped.error
        else:
            error = error
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
