"""The agent in a configuration: its type, its requests, and how it is reset between cases."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from replaykit.documents.shape import (
    FLAG,
    SOME_TEXT,
    Choice,
    Either,
    Flaw,
    Flaws,
    ListOf,
    MapOf,
    Number,
    Record,
    Text,
    optional,
)
from replaykit.model.jsonpath import parse_path
from replaykit.model.values import JsonObject
from replaykit.project.template import check_template, check_variables

MAX_TIMEOUT_MS = 86_400_000
MAX_RETRIES = 10


class AgentType(StrEnum):
    """How an agent is run."""

    HTTP = "http"  # a request to a URL
    PYTHON = "python"  # a function or an object of a Python module
    LANGCHAIN = "langchain"  # a LangChain runnable of a Python module
    COMMAND = "command"  # a program


class Method(StrEnum):
    """The HTTP method of a request to an agent."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class AgentToolMode(StrEnum):
    """Where the tools of an agent get their answers in a replay."""

    RECORDED = "recorded"  # from the session, or the replay is refused
    LIVE = "live"  # an agent that cannot be given recorded answers runs anyway, and the result says so


class AgentConfig(Struct, frozen=True, kw_only=True):
    """The agent of a configuration; its texts may contain environment variables."""

    type: AgentType
    endpoint: str
    """A URL, `module:attribute` or a command, depending on the type."""
    words: tuple[str, ...] | None = None
    """The words of a command written as a list."""
    method: Method = Method.POST
    request_template: str | None = None
    response_path: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    query_params: tuple[tuple[str, str], ...] = ()
    timeout_s: float | None = None
    retries: int = 0
    reset_endpoint: str | None = None
    reset_function: str | None = None
    tools: AgentToolMode = AgentToolMode.RECORDED


_SPEC = re.compile(r"[\w.]+:[\w.]+")
_ADDRESS = Text("an address", pattern=r"\S", check=check_variables)
_HTTP_ONLY = ("method", "request_template", "response_path", "headers", "query_params", "retries", "reset_endpoint")


def as_json_path(text: str) -> str:
    """Return a response path as a JSON path: `data.items.0.text` is `$.data.items[0].text`."""
    if text.startswith("$"):
        return text
    return "$" + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in text.split("."))


def _agent_flaws(value: JsonObject) -> Flaws:
    agent_type = AgentType(value.get("type", AgentType.HTTP))
    endpoint = value["endpoint"]
    if isinstance(endpoint, list) and agent_type is not AgentType.COMMAND:
        message = f"endpoint: a list is for type command, not {agent_type}"
        yield Flaw(("endpoint",), "wrong-type", message, "Write a text.")
    elif agent_type in (AgentType.PYTHON, AgentType.LANGCHAIN) and not _SPEC.fullmatch(endpoint):
        message = f"endpoint: {endpoint[:80]!r} does not name an agent"
        yield Flaw(("endpoint",), "bad-value", message, "Write module:attribute, such as my_agent:answer.")
    elif agent_type is AgentType.HTTP and not endpoint.startswith(("http://", "https://", "${")):
        message = f"endpoint: {endpoint[:80]!r} is not an address of an HTTP agent"
        yield Flaw(("endpoint",), "bad-value", message, "Write http://host:port/path, or another type.")
    if agent_type is not AgentType.HTTP:
        for key in _HTTP_ONLY:
            if key in value:
                yield Flaw((key,), "does-not-apply", f"{key} is for type http, not {agent_type}", "Remove it.")
    if agent_type not in (AgentType.PYTHON, AgentType.LANGCHAIN) and value.get("reset_function") is not None:
        message = f"reset_function is for agents in Python, not for type {agent_type}"
        yield Flaw(("reset_function",), "does-not-apply", message, "Use reset_endpoint, or remove it.")


AGENT = Record(
    {
        "endpoint": Either((_ADDRESS, ListOf(SOME_TEXT))),
        "type": Choice(AgentType),
        "method": Choice(Method),
        "request_template": optional(Text("a template", check=check_template)),
        "response_path": optional(Text("a JSON path", check=lambda text: parse_path(as_json_path(text)))),
        "headers": MapOf(Text("text", check=check_variables)),
        "query_params": MapOf(Text()),
        "parse_structured_input": FLAG,
        "timeout": Number(above=0, at_most=MAX_TIMEOUT_MS, whole=True),
        "retries": Number(at_least=0, at_most=MAX_RETRIES, whole=True),
        "reset_endpoint": optional(_ADDRESS),
        "reset_function": optional(Text("module:function", pattern=rf"^{_SPEC.pattern}$")),
        "tools": Choice(AgentToolMode),
    },
    required=("endpoint",),
    notes={
        "endpoint": "A URL; module:attribute for type python and langchain; a command for type command.",
        "type": "How the agent is run; default: http.",
        "method": "How an HTTP agent is asked; default: POST.",
        "request_template": "The body as JSON, with {prompt}, {input}, {context} or {field} where the input goes.",
        "response_path": "Where in the answer the output is, as a JSON path.",
        "headers": "Headers of the request; ${NAME} is a variable of the environment.",
        "query_params": "Parameters behind the address; {prompt} and the like are filled in.",
        "timeout": "Milliseconds until a run is stopped.",
        "retries": "How often a connection that failed is tried again; default: never.",
        "reset_endpoint": "Gets a POST request before each case.",
        "reset_function": "module:function, called before each case.",
        "tools": "live: run an agent that cannot be given recorded answers anyway, with live tools.",
    },
    cross=_agent_flaws,
)


def agent_of(value: JsonObject, *, retries: int = 0) -> AgentConfig:
    """Build the agent from a valid value; `retries` is the default."""
    agent_type = AgentType(value.get("type", AgentType.HTTP))
    endpoint, words = value["endpoint"], None
    if isinstance(endpoint, list):
        endpoint, words = " ".join(endpoint), tuple(endpoint)
    response_path = value.get("response_path")
    if response_path is not None:
        response_path = as_json_path(response_path)
    timeout_s = value["timeout"] / 1000 if "timeout" in value else None
    if agent_type is not AgentType.HTTP:
        retries = 0
    return AgentConfig(
        type=agent_type,
        endpoint=endpoint,
        words=words,
        method=Method(value.get("method", Method.POST)),
        request_template=value.get("request_template"),
        response_path=response_path,
        headers=tuple(value.get("headers", {}).items()),
        query_params=tuple(value.get("query_params", {}).items()),
        timeout_s=timeout_s,
        retries=value.get("retries", retries),
        reset_endpoint=value.get("reset_endpoint"),
        reset_function=value.get("reset_function"),
        tools=AgentToolMode(value.get("tools", AgentToolMode.RECORDED)),
    )
