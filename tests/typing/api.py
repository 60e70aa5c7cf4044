"""The public API as a user writes it; type-checked in the lint step, never run."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
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


def results(result: rk.ReplayResult) -> None:
    assert_type(result.desired, tuple[rk.Finding, ...])
    assert_type(result.semantic, tuple[rk.SemanticCheck, ...])
    assert_type(result.deviations, tuple[rk.Deviation, ...])
    assert_type(result.evidence, rk.Evidence)
    assert_type(result.evidence.how, rk.EvidenceSource)
    assert_type(result.isolation, rk.Isolation)
    assert_type(result.isolation.level, rk.IsolationLevel)
    assert_type(result.isolation.stopped, tuple[rk.StoppedAccess, ...])
    assert_type(result.isolation.written, tuple[rk.WrittenFile, ...])
    assert_type(result.consent, rk.Consent)
    assert_type(result.run, rk.TraceRun | None)


def events(run: rk.TraceRun) -> list[str]:
    assert_type(run.header, rk.RunHeader)
    assert_type(run.status, rk.RunStatus)
    assert_type(run.origin, rk.Origin)
    assert_type(run.sampling, rk.Sampling)
    assert_type(run.chance, rk.Chance)
    assert_type(run.error, rk.ErrorInfo | None)
    assert_type(run.tool_calls, list[rk.ToolCall])
    assert_type([call.usage for call in run.llm_calls], list[rk.Usage | None])
    assert_type([call.wire for call in run.calls], list[rk.WireInfo | None])
    assert_type([call.span for call in run.calls], list[rk.CallSpan | None])
    lines: list[str] = []
    for event in run.events:
        match event:
            case rk.ToolCall() | rk.LlmCall() | rk.Exchange():
                lines.append(name_of(event))
            case rk.Message():
                lines.append(event.role)
            case rk.Note():
                lines.append(event.name)
            case rk.State():
                assert_type(event.change, rk.Change | None)
            case rk.ErrorEvent():
                lines.append(event.error.type)
            case rk.Decision():
                lines.append(str(event.content))
    return lines


def name_of(call: rk.Call) -> str:
    return call.name


def comparison(a: rk.TraceRun, b: rk.TraceRun) -> None:
    found = rk.compare(a, b)
    assert_type(found, rk.Comparison)
    assert_type(found.entries, tuple[rk.EventEntry, ...])
    assert_type(found.counts, dict[rk.EntryKind, int])
    assert_type(found.states, tuple[rk.StateEntry, ...])
    assert_type(found.tools, rk.ToolComparison)
    assert_type(found.tools.counts, tuple[rk.ToolCount, ...])
    assert_type(found.tools.unified, tuple[rk.ToolStretch, ...])
    assert_type(found.outcome, rk.OutcomeComparison)
    assert_type(found.outcome.a, rk.RunEnding)
    assert_type(found.usage, rk.UsageComparison)
    assert_type(found.usage.difference, rk.UsageTotals)
    assert_type(found.first, rk.FirstDivergence | None)
    if found.first is not None:
        assert_type(found.first.kind, rk.DivergenceKind)
        assert_type(found.first.differences, tuple[rk.Difference, ...])


def steps(run: rk.TraceRun, store: rk.StoreProtocol) -> None:
    assert_type(rk.step_events(run), list[rk.StepEvent])
    assert_type(rk.CheckpointStore(store).list_checkpoints(run.id), list[rk.CheckpointInfo])
    rk.CheckpointStore().save_checkpoint(rk.Checkpoint(run_id="mine", step_id="step_1", state={"n": 1}))
    assert_type(rk.resume(run.id, "step_1", agent=agent, store=store), rk.ForkResult)
    rk.fork(run.id, "step_1", rk.Edits(error=rk.ErrorSpec(type="TimeoutError")), agent=agent)


def step_by_hand(run: rk.Run) -> rk.Step:
    return run.step("plan")


def new_takes(question: rk.RetapeQuestion) -> rk.WrittenAnswer | None:
    return None if question.text else rk.WrittenAnswer(name="search_docs", is_model=False)


def cases(run: rk.TraceRun, candidate: rk.Candidate) -> None:
    case = rk.scaffold(run, "cases/billing")
    assert_type(case.scenario, rk.Scenario)
    assert_type(case.source, rk.CaseSource)
    assert_type(case.observed, tuple[rk.Assertion, ...])
    retaping = rk.retape(case, candidate, ask=new_takes)
    assert_type(retaping, rk.Retaping)
    assert_type(retaping.new_calls, tuple[rk.NewCall, ...])
    assert_type(retaping.take, rk.Take | None)
    if retaping.take is not None:
        assert_type(retaping.take.new_answers, tuple[rk.NewAnswer, ...])


def golden(trace: rk.Golden) -> None:
    assert_type(rk.check_golden(trace, agent).failed, tuple[rk.Aspect, ...])


def looks_good(run: rk.TraceRun) -> rk.Seen:
    return rk.Seen(run.status is rk.RunStatus.SUCCESS, "it looks good", "success", run.status.value)


def matching(run: rk.TraceRun) -> None:
    rules = rk.MatchRules(mode=rk.MatchMode.STRICT, model=rk.ModelMatch.IGNORE, on_miss=rk.OnMiss.ERROR)
    with rk.replaying(run, rules, tools={"search_docs": rk.ToolMode.RECORDED}) as replayer:
        assert_type(replayer, rk.Replayer)


def faults() -> rk.ChaosPlan:
    return rk.ChaosPlan(
        tool_faults=(rk.ToolFault(mode=rk.ToolTrouble.TIMEOUT),),
        llm_faults=(
            rk.ModelFault(
                mode=rk.ModelTrouble.DRIFT,
                drift_type=rk.Drift.TONE,
                severity=rk.Grade.LOW,
                direction=rk.Direction.FORMAL,
            ),
        ),
        context_attacks=(rk.ContextAttack(type=rk.Attack.OVERFLOW, strategy=rk.Strategy.APPEND),),
    )


def configuration(project: rk.Project, files: rk.ConfigFiles) -> None:
    assert_type(rk.load_project("replaykit.yaml", files), rk.Project)
    assert_type(project.agent, rk.AgentConfig | None)
    assert_type(project.contracts, dict[str, rk.Contract])
    assert_type(project.judge, rk.JudgeSpec | None)
    assert_type(project.mutations, rk.Mutations | None)
    assert_type(project.retention, rk.RetentionPolicy)
    assert_type(project.scoring, rk.Scoring)
    assert_type(project.sessions, tuple[rk.Session | rk.InvalidFile, ...])
    assert_type(project.sources, tuple[rk.SessionSource, ...])
    assert_type(project.models, rk.ModelMode)
    assert_type(project.document(), rk.Document)


def upkeep(store: rk.Store) -> list[rk.Damage]:
    rk.Store.open("other.db", durability=rk.Durability.POWER).close()
    return list(store.verify())


@rk.tool(effects="idempotent")
def refund(order: int) -> str:
    return rk.idempotency_key()


def clock_and_chance() -> tuple[dt.datetime, float, uuid.UUID]:
    return rk.now(), rk.random(), rk.uuid4()


async def hosted(arguments: dict[str, Any]) -> int:
    return len(arguments)


async def hosted_tool() -> None:
    assert_type(await rk.acall_tool("add", {"a": 1}, hosted), int)


def errors() -> str:
    warnings.simplefilter("error", rk.RecordingWarning)
    try:
        return agent("why?")
    except rk.ToolError as error:
        return str(error.status)
    except (rk.RunNotFound, rk.CorruptStore, rk.StoreError, rk.FormatTooNew, rk.NothingSelected) as error:
        return str(error.hint)
    except rk.InvalidFile as error:
        return f"{error.file}:{error.line}"
    except (rk.UsageError, rk.ReplayKitError) as error:
        return str(error.hint)
