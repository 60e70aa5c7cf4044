"""The replaying handler: modes, misses and what they say."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import InvalidFile, LiveConnection, UsageError
from replaykit.handlers.replay.handler import Replayer
from replaykit.model.events import ToolCall
from replaykit.model.matching import ErrorSpec, MatchMode, OnMiss, ToolMode
from replaykit.model.values import Raw, canonical, raw
from replaykit.seam.scope import RunSession, Scope, pending_call


def call(seq: int, name: str, /, result: Any = None, **arguments: Any) -> ToolCall:
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw(result))


@rk.tool
def search(query: str, **more: Any) -> Any:
    return f"live {query}"


@rk.tool
def refund(order: int, amount: float, currency: str | None = None) -> str:
    return "live refund"


TAPE = rk.Tape(
    [
        call(0, "search", "first", query="a"),
        call(1, "search", "second", query="a"),
        call(2, "refund", "refunded", order=7, amount=19.9, currency=None),
    ],
    name="checkout",
)


def test_each_recorded_call_is_served_once_in_its_order() -> None:
    with rk.replaying(TAPE) as replayer:
        assert [search("a"), search("a")] == ["first", "second"]

    assert [(d.kind, d.name) for d in replayer.all_deviations()] == [("unused", "refund")]


def test_a_miss_names_the_nearest_recorded_call_and_what_differs() -> None:
    with rk.replaying(TAPE), pytest.raises(rk.Divergence) as caught:
        search("a")
        refund(7, 19.9, "EUR")

    assert caught.value.index == 1
    assert caught.value.nearest is not None
    assert caught.value.nearest.name == "refund"
    text = str(caught.value)
    assert "run 'checkout' left its recording at call 2 of 3, tool `refund`" in text
    assert "changed   $.currency: None → 'EUR'" in text


def test_a_miss_says_how_it_can_be_let_pass() -> None:
    with rk.replaying(TAPE), pytest.raises(rk.Divergence) as changed:
        refund(7, 19.9, "EUR")
    with rk.replaying(TAPE), pytest.raises(rk.Divergence) as again:
        for _ in range(3):
            search("a")

    assert "`match.ignore`" in (changed.value.hint or "")
    assert "`match.ignore`" not in (again.value.hint or "")  # nothing differs
    assert "`match.on_miss`" in (again.value.hint or "")


def test_what_is_not_compared_is_not_told_as_a_difference() -> None:
    rules = rk.MatchRules(ignore=("refund:$.currency",))
    with rk.replaying(TAPE, rules), pytest.raises(rk.Divergence) as caught:
        refund(8, 19.9, "EUR")

    assert "changed   $.order: 7 → 8" in str(caught.value)
    assert "$.currency" not in str(caught.value)


def test_a_miss_reaches_whoever_waits_for_another_process() -> None:
    with rk.replaying(TAPE), pytest.raises(rk.Divergence) as caught:
        refund(7, 19.9, "EUR")

    for error in (caught.value, LiveConnection("::1", 80, "agent.py:3 in ask"), InvalidFile("bad", file="f", line=3)):
        sent: Any = pickle.loads(pickle.dumps(error))
        assert (type(sent), str(sent), sent.hint) == (type(error), str(error), error.hint)
        assert vars(sent) == vars(error)


def test_a_tool_that_was_never_recorded_is_named_with_those_that_were() -> None:
    @rk.tool
    def cancel() -> None: ...

    with rk.replaying(TAPE), pytest.raises(rk.Divergence, match="recorded  refund, search"):
        cancel()


def test_one_call_too_many_says_that_all_recordings_are_used() -> None:
    with rk.replaying(TAPE), pytest.raises(rk.Divergence, match="every recording of it has been served"):
        for _ in range(3):
            search("a")


def test_repeat_gives_the_last_outcome_of_that_call_again() -> None:
    with rk.replaying(TAPE, rk.MatchRules(on_miss=OnMiss.REPEAT)) as replayer:
        assert [search("a") for _ in range(4)] == ["first", "second", "second", "second"]
        with pytest.raises(rk.Divergence):
            search("never asked before")

    assert [d.kind for d in replayer.deviations] == ["repeated", "repeated", "missing"]


def test_live_is_for_names_on_the_list_only() -> None:
    with rk.replaying(TAPE, rk.MatchRules(on_miss=OnMiss.LIVE, live=("search",))) as replayer:
        assert search("new") == "live new"
        with pytest.raises(rk.Divergence):
            refund(1, 1.0)

    assert [d.kind for d in replayer.deviations] == ["live", "missing"]


@pytest.mark.parametrize(
    ("names", "model", "tool"),
    [(("*",), True, True), (("models",), True, False), (("search",), False, True), (("gpt",), True, False)],
)
def test_a_list_may_have_words_for_every_model_and_for_anything(
    names: tuple[str, ...], model: bool, tool: bool
) -> None:
    replayer = Replayer(rk.Tape([]), rk.MatchRules(on_miss=OnMiss.LIVE, live=names))

    def is_live(kind: str, name: str) -> bool:
        call = pending_call(kind, name, b"{}", Scope(RunSession(replayer), ""), 0.0)
        call.key = b"{}"
        try:
            return replayer.serve(call) is None
        except rk.Divergence:
            return False

    assert (is_live("llm_call", "gpt"), is_live("tool_call", "search")) == (model, tool)


def test_fault_raises_what_the_case_says() -> None:
    rules = rk.MatchRules(on_miss=OnMiss.FAULT, fault=ErrorSpec(type="ConnectionError", message="down"))
    with rk.replaying(TAPE, rules), pytest.raises(ConnectionError, match="down"):
        search("new")


def test_strict_mode_wants_the_recorded_order() -> None:
    with (
        rk.replaying(TAPE, rk.MatchRules(mode=MatchMode.STRICT)),
        pytest.raises(rk.Divergence, match="recorded  search"),
    ):
        refund(7, 19.9)


def test_volatile_members_can_be_ignored_for_all_tools_or_for_one() -> None:
    tape = rk.Tape([call(0, "search", "found", query="a", request_id="r-1")])

    for ignore in ("$.request_id", "$..request_id", "search:$.request_id"):
        with rk.replaying(tape, rk.MatchRules(ignore=(ignore,))):
            assert search("a", request_id="r-2") == "found"
    with rk.replaying(tape, rk.MatchRules(ignore=("refund:$.request_id",))), pytest.raises(rk.Divergence):
        search("a", request_id="r-2")


def test_a_tool_can_be_live_or_blocked_by_the_scenario() -> None:
    modes = {"search": ToolMode.LIVE, "refund": ToolMode.BLOCKED}
    with rk.replaying(TAPE, tools=modes) as replayer:
        assert search("a") == "live a"
        with pytest.raises(rk.Divergence, match="blocks the tool `refund`"):
            refund(7, 19.9)

    assert [d.kind for d in replayer.deviations] == ["live", "blocked"]


def test_a_divergence_that_the_agent_swallows_is_still_reported() -> None:
    with rk.replaying(TAPE) as replayer:
        try:
            search("other")
        except Exception:
            pass

    assert replayer.deviations[0].kind == "missing"


def test_what_the_candidate_did_is_a_log_of_its_own() -> None:
    with rk.replaying(TAPE) as replayer:
        search("a")
        refund(7, 19.9)

    assert [(e.seq, e.name, e.result) for e in replayer.events()] == [(0, "search", "first"), (1, "refund", "refunded")]


def test_tool_replayer_answers_from_a_run(store: rk.Store) -> None:
    @rk.tool
    def search_docs(query: str) -> dict[str, list[str]]:
        if query == "boom":
            raise LookupError("no such doc")
        return {"docs": [query]}

    with rk.record("docs", store=store) as run:
        search_docs("a")
        with pytest.raises(LookupError):
            search_docs("boom")

    replayer = rk.ToolReplayer(run.id, store=store)
    assert replayer.replay("search_docs", {"query": "a"}) == {"docs": ["a"]}
    with pytest.raises(LookupError, match="no such doc"):
        replayer.replay("search_docs", {"query": "boom"})
    with pytest.raises(rk.Divergence):
        replayer.replay("search_docs", {"query": "b"})


def test_of_calls_that_are_alike_but_for_ignored_members_the_very_same_one_goes_first() -> None:
    tape = rk.Tape([call(i, "search", f"found {i}", query="a", request_id=f"r-{i}") for i in range(3)])

    with rk.replaying(tape, rk.MatchRules(ignore=("$..request_id",))):
        assert search("a", request_id="r-2") == "found 2"
        assert search("a", request_id="r-9") == "found 0"
        assert search("a", request_id="r-0") == "found 1"


def test_a_rule_may_be_said_in_a_word_and_no_other_word_is_taken_for_one() -> None:
    rules = rk.MatchRules(mode="args", on_miss="repeat")  # type: ignore[arg-type]

    assert (rules.mode, rules.on_miss) == (MatchMode.ARGS, OnMiss.REPEAT)
    assert type(rules.mode) is MatchMode
    with pytest.raises(rk.ReplayKitError, match="did you mean 'args'"):
        rk.MatchRules(mode="arg")  # type: ignore[arg-type]


def test_calls_after_one_that_was_taken_elsewhere_are_moved_as_well(store: rk.Store) -> None:
    async def agent(first: str) -> None:
        async def one() -> None:
            search(first)

        async def two() -> None:
            for _ in range(3):
                search("a")

        await asyncio.gather(one(), two(), return_exceptions=True)

    with rk.record("shifted", store=store) as run:
        asyncio.run(agent("c"))

    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        asyncio.run(agent("a"))
    kinds = [
        deviation.kind for deviation in replayer.all_deviations() if deviation.kind not in ("undecided", "unordered")
    ]
    assert kinds == ["moved", "moved", "moved", "missing", "unused"]


def test_a_run_is_taken_for_its_tape_and_anything_else_is_named(store: rk.Store) -> None:
    @rk.tool
    def ask(text: str) -> str:
        return text.upper()

    with rk.record("agent", store=store) as run:
        ask("a")

    with rk.replaying(store.load(run.id)):
        assert ask("a") == "A"
    with pytest.raises(UsageError, match=r"\(Run\) as `tape`"), rk.replaying(run):  # type: ignore[arg-type]
        pass
