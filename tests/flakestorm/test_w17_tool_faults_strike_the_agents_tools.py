"""Faults of tools strike the tools of the agent: by name, by pattern and by URL; never the agent itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.matrix import sampled

import replaykit as rk

CODE = """
    import urllib3

    @rk.tool
    def quote(symbol):
        return {"price": 3}

    def trader(question):
        try:
            return f"price {quote('ACME')['price']}"
        except rk.ToolError as error:
            return f"status {error.status}"

    def caller(question):
        answer = urllib3.PoolManager().request("GET", "URL/market", retries=False)
        return f"status {answer.status}"
"""


def outputs(ran: Any) -> list[Any]:
    return [(run["verdict"], [(one["fault"], one["call"]) for one in run.get("faults", [])]) for run in ran]


@sampled("tool", ["quote", "q*", "*"], count=1, start=2)
def test_a_named_tool_fails_and_the_agent_is_asked(files: Any, replaykit: Callable[..., Any], tool: str) -> None:
    files.agents(CODE)
    files.config(
        "agents:trader", contract=None, chaos={"tool_faults": [{"tool": tool, "mode": "error", "error_code": 503}]}
    )

    ran = replaykit("chaos", "run", "--input", "x", "--json")

    assert outputs(json.loads(ran.out)["runs"]) == [("held", [("tool.error", "quote")])]


def test_a_url_is_that_of_the_tool(files: Any, replaykit: Callable[..., Any], served: Callable[[Any], str]) -> None:
    asked: list[str] = []

    def market(environ: Any, start: Any) -> list[bytes]:
        asked.append(environ["PATH_INFO"])
        start("200 OK", [("content-type", "application/json")])
        return [b"{}"]

    url = served(market)
    files.agents(CODE.replace("URL", url))
    fault = {"tool": "*", "match_url": f"{url}/market*", "mode": "error", "error_code": 503}
    files.config("agents:caller", contract=None, chaos={"tool_faults": [fault]})

    ran = replaykit("chaos", "run", "--input", "x", "--json")

    ((verdict, ((fault_name, _),)),) = outputs(json.loads(ran.out)["runs"])
    assert (verdict, fault_name, asked) == ("held", "tool.error", [])


def test_a_fault_that_means_no_tool_of_the_agent_is_said(files: Any, replaykit: Callable[..., Any]) -> None:
    files.agents(CODE)
    files.config("agents:trader", contract=None, chaos={"tool_faults": [{"tool": "quotes", "mode": "error"}]})

    ran = replaykit("chaos", "run", "--input", "x")

    assert (ran.code, "untested" in ran.out) == (5, True)


def test_an_http_agent_is_reached_through_the_middleware_and_untested_without(
    files: Any, replaykit: Callable[..., Any], served: Callable[[Any], str]
) -> None:
    @rk.tool
    def quote(symbol: str) -> dict[str, int]:
        return {"price": 3}

    def app(environ: Any, start: Any) -> list[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            said = f"price {quote('ACME')['price']}"
        except rk.ToolError as error:
            said = f"status {error.status}"
        start("200 OK", [("content-type", "application/json")])
        return [json.dumps({"output": said}).encode()]

    chaos = {"tool_faults": [{"tool": "quote", "mode": "error"}]}
    ran = []
    for application in (app, rk.middleware.wsgi(app, enabled=True)):
        files.config(f"{served(application)}/agent", agent={"type": "http"}, contract=None, chaos=chaos)
        ran.append(replaykit("chaos", "run", "--input", "x", "--json"))

    assert [one.code for one in ran] == [5, 0]
    assert outputs(json.loads(ran[0].out)["runs"]) == [("held", [])]
    assert outputs(json.loads(ran[1].out)["runs"]) == [("held", [("tool.error", "quote")])]
