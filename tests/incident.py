"""The incident of the session format's own documentation, the promises that it broke, and tools that must stay away."""

from __future__ import annotations

from pathlib import Path

import replaykit as rk

INCIDENT = """\
id: "incident-2026-02-15"
name: "Prod incident: fabricated revenue figure"
source: manual
input: "What was ACME Corp's Q3 revenue?"
tool_responses:
  - tool: market_data_api
    response: null
    status: 504
    latency_ms: 30000
  - tool: web_search
    response: "Connection reset by peer"
    status: 0
expected_failure: "Agent fabricated revenue instead of saying data unavailable"
contract: "Finance Agent Contract"
"""
CONTRACT = {
    "name": "Finance Agent Contract",
    "invariants": [
        {"id": "says-so", "type": "contains", "value": "unavailable", "severity": "critical"},
        {"id": "no-figure", "type": "regex", "pattern": r"\$\d", "negate": True},
    ],
}


@rk.tool
def market_data_api(company: str) -> str:
    Path("touched").write_text("")
    raise SystemError("the real tool was called")


@rk.tool
def web_search(query: str) -> str:
    Path("touched").write_text("")
    raise SystemError("the real tool was called")
