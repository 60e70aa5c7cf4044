"""The public API as a user writes it; type-checked in the lint step, never run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import replaykit as rk


@rk.tool
def search_docs(query: str) -> dict[str, Any]:
    return {"docs": [query]}


@rk.record_tool(name="billing.lookup")
async def lookup(user_id: str) -> list[int]:
    return [len(user_id)]


def agent(question: str) -> str:
    return str(search_docs(question)["docs"])


def is_short(run: rk.TraceRun, most: int = 280) -> bool:
    return len(str(run.output)) <= most


@rk.record
def bare_agent(question: str) -> str:
    return agent(question)


@rk.record("support", tags=["demo"])
async def async_agent(question: str) -> int:
    return len(await lookup(question))


async def decorated() -> None:
    assert_type(bare_agent("why?"), str)
    assert_type(await async_agent("why?"), int)
    with rk.record("by hand", input="why?") as run:
        assert_type(run, rk.Run)


def record_and_replay() -> None:
    with rk.record("billing", input="why?", tags=["demo"], sample=0.1) as run:
        run.output = agent("why?")
        with run.step("plan") as step:
            step.decide("search_docs")
            step.done({"messages": []})
    with rk.Store.open("store.db", read_only=True) as store:
        trace = store.load(run.id)
    assert_type(trace, rk.TraceRun)
    assert_type(rk.replay(trace, agent), rk.ReplayResult)
    assert_type(rk.replay("cases/search-loop", "python runner.py", timeout_s=5).verdict, rk.Verdict)
    case = rk.load_case("cases/search-loop")
    assert_type(case, rk.ReplayCase)
    with rk.Pool(agent, workers=2) as pool:
        for result in pool.replay([case, "cases/billing", Path("cases/refund")], timeout_s=5, evidence="runs"):
            assert_type(result, rk.ReplayResult)
    plan = rk.chaos_plan({"tool_faults": [{"tool": "search_docs", "mode": "timeout"}]}, seed=7)
    assert_type(plan, rk.ChaosPlan)
    rk.replay(case, agent, chaos=plan)
    rk.replay(case, agent, live=["search_docs"], allow_connect=("db.internal:5432",), allow_write=[Path("out")])
    assert_type(rk.detect(trace), list[rk.FailureSignature])
    rk.register_check("short", is_short)
    with rk.replaying(rk.Tape.of(trace), rk.MatchRules()) as replayer:
        agent("why?")
    assert replayer.deviations == []
    rk.ToolReplayer(run.id).replay("search_docs", {"query": "why?"})
    try:
        agent("how?")
    except rk.Divergence as divergence:
        assert_type(divergence.index, int)


def travel(run_id: str) -> None:
    fork_id, result = rk.fork_run(run_id, "step_5", {"max_retries": 3}, agent=agent)
    assert_type(fork_id, str)
    assert_type(result.error, str | None)
    rk.fork(run_id, "step_1", rk.Edits(result={"docs": []}), agent=agent, live=["search_docs"], dry_run=True)
    rk.resume_from_checkpoint(run_id, "step_5")
    rk.fork(run_id, "step_1", rk.Edits(answer="call the user"), agent=agent)
    rk.state_at(run_id, "step_7", agent=agent)
    with rk.record("sampled", checkpoint_every=10, checkpoint_on_change=True) as run:
        run.checkpoint({"n": 1})
    rk.CheckpointStore(every=10, on_change=True).close()
    checkpoint_store = rk.CheckpointStore()
    checkpoint = checkpoint_store.load_checkpoint(run_id, "step_5")
    checkpoint_store.save_checkpoint(checkpoint)
    divergence = rk.compare_runs(run_id, fork_id)
    assert_type(divergence.identical, bool)


def project() -> None:
    found = rk.load_project("replaykit.yaml")
    assert_type(found, rk.Project)
    assert_type(found.file.exists(), bool)


async def web_app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


served = rk.middleware.asgi(web_app, enabled=True, token="secret")


def telemetry() -> None:
    rk.telemetry.enable(content=True)
    rk.telemetry.disable()


def frameworks() -> None:
    assert_type(rk.call_tool("add", {"a": 1}, lambda given: len(given)), int)
    with rk.integrations.langgraph.ReplayKitSaver() as saver:
        saver.delete_thread("alice")


def regression() -> None:
    result = rk.check_golden("fixtures/golden_traces/billing.golden.json", agent)
    assert_type(result, rk.GoldenResult)
    assert result.passed, result.text
    assert_type(result.run, rk.TraceRun)


assert_type(search_docs("x"), dict[str, Any])
