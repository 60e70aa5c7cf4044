"""A production incident, from the loop to the test that guards against it, in seven moves.

python examples/incident_response.py
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import replaykit as rk

CASE = Path("cases/search-loop-incident")


@rk.tool(effects="none")
def search_docs(query: str) -> dict[str, Any]:
    """The documents that fit; none since the index was rebuilt."""
    return {"docs": []}


@rk.record("support")
def agent(question: str) -> str:
    """Searches until it finds something, or until its budget is gone."""
    for _ in range(5):
        docs = search_docs(question)["docs"]
        if docs:
            return f"See: {docs[0]}"
    raise RuntimeError("Max tool call limit exceeded. Agent terminated.")


def fixed_agent(question: str) -> str:
    """The fix: an empty result is an answer too."""
    docs = search_docs(question)["docs"]
    if not docs:
        return "I found nothing about that in our documents; a colleague will get back to you."
    return f"See: {docs[0]}"


def main() -> None:
    print("1. The agent gets stuck calling search_docs again and again.")
    try:
        agent("How do I reset my password?")
    except RuntimeError as error:
        print(f"   {error}")
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        run = store.load("support")

    print("2. Replay the run to see the loop: the recorded answers are served, nothing is executed.")
    again = rk.replay(run, agent)
    print(f"   {again.verdict.value}: {'; '.join(finding.text for finding in again.observed)}")

    print("3. Inspect the tool's results.")
    for step in rk.step_events(run):
        print(f"   {step.step_id}: {step.tool_name}({step.tool_args}) → {step.tool_result}")

    print("4. Fork at step_1 with the fixed agent.")
    fork_id, result = rk.fork(run.id, "step_1", agent=fixed_agent)
    print(f"   {result.status.value}: {result.output}")

    print("5. Compare the original with the fork.")
    divergence = rk.compare_runs(run.id, fork_id)
    print(f"   {divergence.first.text if divergence.first else 'identical'}")

    print("6. Keep it as a case: the test that was missing.")
    shutil.rmtree(CASE, ignore_errors=True)
    case = rk.scaffold(run, CASE)
    print(f"   {case.directory}: {', '.join(assertion.kind for assertion in case.observed)}")

    print("7. The fix may be deployed: the case is red with the bug, and green without.")
    for candidate in (agent, fixed_agent):
        print(f"   {candidate.__name__}: {rk.replay(case, candidate).verdict.value}")


if __name__ == "__main__":
    main()
