"""What an HTTP agent's answer says: the output it gave, or how it failed."""

from __future__ import annotations

import re

import orjson
from msgspec import Struct

from replaykit.candidates.http_client import HttpAnswer
from replaykit.model.events import ErrorInfo
from replaykit.model.jsonpath import members, parse_path
from replaykit.model.values import Json, sayable

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
"""Where an output is looked for when no `response_path` says it, in this order."""
_SHOWN_CHARS = 500


class AgentReply(Struct, frozen=True, kw_only=True):
    """An output, an error, or the reason why neither can be told."""

    output: Json = None
    error: ErrorInfo | None = None
    reason: str = ""


def read_agent_reply(answer: HttpAnswer, path: str | None) -> AgentReply:
    """What an answer says. 5xx is the agent's own failure; any other status but 2xx is a request that went wrong."""
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
    return _at(value, path)


def _went_wrong(status: int, text: str, location: str) -> AgentReply:
    what = f"answered {status}: {text[:_SHOWN_CHARS]}".rstrip(": \n")
    if 300 <= status < 400:
        return AgentReply(
            reason=f"answered {status}: it sends to {location or 'nowhere'}, and redirects are not followed\n{_ADDRESS}"
        )
    return AgentReply(reason=f"{what}\n{_NEXT.get(status, _ADDRESS)}")


_ADDRESS = "Write the address that answers itself: agent.endpoint"
_NEXT = {
    400: "Look at what is sent: agent.request_template",
    401: "Write who asks: agent.headers: {Authorization: 'Bearer ${AGENT_TOKEN}'}",
    403: "Write who asks: agent.headers: {Authorization: 'Bearer ${AGENT_TOKEN}'}",
    405: "Write how it wants to be asked: agent.method",
    415: "Write what is sent: agent.headers: {Content-Type: ...}",
    422: "Look at what is sent: agent.request_template",
    429: "It is asked too often: -j 1",
}


def _no_json(text: str, why: str, content_type: str, path: str | None) -> AgentReply:
    """A plain text is an output, whatever it is called. A page for browsers is no answer, nor is broken JSON."""
    if text.lstrip()[:15].lower().startswith(_PAGE):
        return AgentReply(reason=f"answered with a page of HTML: {text.lstrip()[:80]}\n{_ADDRESS}")
    if path is not None:
        return AgentReply(
            reason=f"did not answer with JSON, and response_path is {path}: {text[:_SHOWN_CHARS]}\n{_PLAIN}"
        )
    if "json" in content_type and text.lstrip().startswith(("{", "[", '"')):
        return AgentReply(reason=f"answered with {content_type} that is none ({why}): {text[:_SHOWN_CHARS]}\n{_REPAIR}")
    return AgentReply(output=text or None)


_PAGE = ("<!doctype html", "<html")
_PLAIN = "Leave agent.response_path out where the answer is a plain text."
_REPAIR = "Look at what the agent writes; a plain text goes as text/plain."


def _at(value: Json, path: str) -> AgentReply:
    found = list(members(value, parse_path(path)))
    if not found:
        return AgentReply(reason=f"answered without {path}: {_shown(value)}\nWrite where it is: agent.response_path")
    if len(found) > 1:
        return AgentReply(
            reason=f"answered with {len(found)} values at {path}\nWrite one of them: agent.response_path: {found[0][0]}"
        )
    return AgentReply(output=found[0][1])


def _failure(value: Json, path: str) -> ErrorInfo | None:
    """How the agent says that it failed, in a member that is not itself the output."""
    if not isinstance(value, dict):
        return None
    fields = {
        "error": value.get("error"),
        "success": "success: false" if value.get("success") is False else None,
        "status": (value.get("message") or "status: error") if value.get("status") == "error" else None,
    }
    for key, failed in fields.items():
        if failed and not re.match(rf"[$.\['\"]*{key}\b", path):
            message = failed if isinstance(failed, str) else _shown(failed)
            return ErrorInfo(type="AgentError", message=sayable(message[:_SHOWN_CHARS]))
    return None


def _guessed(value: Json) -> AgentReply:
    if not isinstance(value, dict):
        return AgentReply(output=value)
    for key in OUTPUT_KEYS:
        if key in value:
            return AgentReply(output=value[key])
    return AgentReply(output=next(iter(value.values())) if len(value) == 1 else value)


def _shown(value: Json) -> str:
    return orjson.dumps(value).decode()[:_SHOWN_CHARS]
