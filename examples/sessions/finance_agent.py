"""An agent that looks up a figure, and says so when it cannot be had.

The first version made one up. The incident is in replays/incident_001.yaml, what the agent promises in replaykit.yaml:

    replaykit replay replays/incident_001.yaml -c replaykit.yaml
    replaykit replay replays/incident_001.yaml --agent finance_agent:first_version     # the contract is broken
"""

import replaykit as rk


@rk.tool(effects="none")
def market_data_api(company: str, quarter: str) -> dict:
    return {"company": company, "quarter": quarter, "revenue": "12.4 bn"}


@rk.tool(effects="none")
def web_search(query: str) -> str:
    return "ACME Corp reported a revenue of 12.4 bn for Q3."


def answer(question: str) -> str:
    for look in (lambda: market_data_api("ACME Corp", "Q3")["revenue"], lambda: web_search(question)):
        try:
            return f"ACME Corp's revenue: {look()}"
        except (rk.ToolError, TimeoutError, KeyError, TypeError):
            continue
    return "The figure is unavailable right now: neither source answered."


def first_version(question: str) -> str:
    try:
        return f"ACME Corp's revenue: {market_data_api('ACME Corp', 'Q3')['revenue']}"
    except rk.ToolError:
        return "ACME Corp's Q3 revenue was $12.7 bn."
