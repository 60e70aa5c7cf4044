"""A call with a wrong argument is answered with the right call, and not with an error from the inside."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import replaykit as rk

WRONG = cast(Any, 3)
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "rk.tool": (lambda: rk.tool(WRONG), "@rk.tool"),
    "rk.record": (lambda: rk.record(WRONG), "rk.record"),
    "rk.replay": (lambda: rk.replay(WRONG, str), "rk.replay(store.load(run_id), agent)"),
    "rk.Store.open": (lambda: rk.Store(WRONG), 'rk.Store.open(".replaykit/store.db")'),
    "rk.Tape": (lambda: rk.Tape(WRONG), "rk.Tape(store.load(run_id).calls)"),
    "rk.Tape.of": (lambda: rk.Tape.of(WRONG), "rk.Tape.of(store.load(run_id))"),
    "rk.step_events": (lambda: rk.step_events(WRONG), "rk.step_events(store.load(run_id))"),
    "save_checkpoint": (lambda: rk.CheckpointStore().save_checkpoint(WRONG), "rk.Checkpoint(run_id="),
    "rk.fork": (lambda: rk.fork(WRONG, "step_1", agent=str), 'rk.fork(run_id, "step_3"'),
    "rk.compare": (lambda: rk.compare(WRONG, "x"), "rk.compare(run_id, fork_id)"),
}


class Odd:
    """A value of a type that no parameter takes."""


ODD = Odd()


@rk.tool
def search(query: str) -> str:
    return f"about {query}"


def agent(question: str) -> str:
    return search(question)


async def asearch(arguments: dict[str, Any]) -> str:
    return "about it"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run, a case, a golden trace and a configuration."""
    root = tmp_path_factory.mktemp("project")
    with rk.Store.open(root / "store.db") as store:
        with rk.record("good", input="why?", store=store) as run, run.step("plan", state={"n": 1}):
            agent("why?")
        with pytest.raises(ValueError, match="no"), rk.record("bad", input="why?", store=store):
            agent("why?")
            raise ValueError("no")
        rk.scaffold(store.load("bad"), root / "case")
    (root / "replaykit.yaml").write_text("replaykit: 1\n")
    return root


class Calls:
    """Every public function and method with right arguments, which are changed one by one."""

    def __init__(self, root: Path, store: rk.Store, run: rk.Run) -> None:
        good, bad = store.load("good"), store.load("bad")
        place: dict[str, Any] = {"store": root / "store.db"}
        tools = rk.ToolReplayer("good", store=store)
        checkpoints = rk.CheckpointStore(store)
        self.right: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
            "acall_tool": (rk.acall_tool, ("search", {"query": "x"}, asearch), {}),
            "call_tool": (rk.call_tool, ("search", {"query": "x"}, dict), {}),
            "chaos_plan": (rk.chaos_plan, ("api_outage",), {"seed": 1}),
            "check_golden": (rk.check_golden, (root / "no.golden.json", agent), {}),
            "compare": (rk.compare, ("good", "bad"), place),
            "detect": (rk.detect, (bad,), {}),
            "fork": (rk.fork, ("good", "plan", {"n": 2}), {**place, "agent": agent, "dry_run": True}),
            "load_case": (rk.load_case, (root / "case",), {}),
            "load_project": (rk.load_project, (root / "replaykit.yaml",), {}),
            "record": (rk.record, ("again",), {**place, "tags": ["a"], "durability": "process"}),
            "register_check": (rk.register_check, ("wrong_arguments", agent), {}),
            "replay": (rk.replay, (root / "case", agent), {"timeout_s": 5, "live": ["search"]}),
            "replaying": (rk.replaying, (good, rk.MatchRules()), {"tools": {}}),
            "resume": (rk.resume, ("good", "plan"), {**place, "agent": agent, "dry_run": True}),
            "retape": (rk.retape, (root / "case", agent), {"live": ["search"], "dry_run": True}),
            "scaffold": (rk.scaffold, (bad, root / "second"), {"force": True}),
            "state_at": (rk.state_at, ("good", "plan"), place),
            "step_events": (rk.step_events, (good,), {}),
            "tool": (rk.tool, (agent,), {"name": "agent", "effects": "none"}),
            "CheckpointStore.list_checkpoints": (checkpoints.list_checkpoints, ("good",), {}),
            "CheckpointStore.load_checkpoint": (checkpoints.load_checkpoint, ("good", "plan"), {}),
            "CheckpointStore.save_checkpoint": (
                checkpoints.save_checkpoint,
                (rk.Checkpoint(run_id="mine", step_id="s", state={}),),
                {},
            ),
            "Pool.replay": (rk.Pool(agent).replay, ([],), {"timeout_s": 5, "live": ["search"]}),
            "Run.error": (run.error, (ValueError("no"),), {}),
            "Run.message": (run.message, ("user", "hi"), {}),
            "Run.note": (run.note, ("cache", {"hit": True}), {}),
            "Run.step": (run.step, ("plan",), {}),
            "Store.add": (store.add, (good,), {}),
            "Store.delete": (store.delete, (["nobody"],), {}),
            "Store.events": (events_of(store), ("good",), {}),
            "Store.header": (store.header, ("good",), {}),
            "Store.headers": (store.headers, (), {"limit": 1, "status": "error", "name": "bad"}),
            "Store.load": (store.load, ("good",), {}),
            "Store.open": (rk.Store.open, (root / "other.db",), {"durability": "power"}),
            "Store.state_at": (store.state_at, ("good",), {"seq": 1}),
            "Store.tag": (store.tag, ("good",), {"add": ["keep"]}),
            "Tape.of": (rk.Tape.of, (good,), {}),
            "ToolReplayer": (rk.ToolReplayer, ("good",), place),
            "ToolReplayer.replay": (tools.replay, ("search", {"query": "why?"}), {}),
        }


def events_of(store: rk.Store) -> Callable[[str], Any]:
    """Return a function that reads the events of a run to their end."""

    def events(run_id: str) -> None:
        list(store.events(run_id))

    return events


FREE = {
    "acall_tool": {"effects", "fn", "give", "keep"},
    "call_tool": {"effects", "fn", "give", "keep"},
    "record": {"input"},
    "Run.message": {"content"},
    "Run.note": {"content"},
    "Run.step": {"state"},
}
"""Parameters that take any value, or that only adapters of frameworks use."""
OTHERS = {
    "Comparison": "a result",
    "CorruptStore": "raised by the store",
    "Divergence": "raised by a replay",
    "Edits": "checked where it is used: tests/travel/test_fork.py",
    "ForkResult": "a result",
    "GoldenResult": "a result",
    "Project": "loaded from a file",
    "RecordingWarning": "a warning",
    "ReplayCase": "loaded from a file",
    "ReplayKitError": "raised by every function",
    "ReplayResult": "a result",
    "Retaping": "a result",
    "ToolError": "raised by tools: its arguments are theirs",
    "TraceRun": "loaded from a store",
    "UsageError": "raised by every function",
    "Verdict": "a result",
}
"""Classes that users do not call."""
INTERNAL = {
    "Pool": ("run", "replay_one"),  # what `ci` and trials use
    "Run": ("decide", "checkpoint"),  # they take any value
    "Store": [
        "batches",
        "begin",
        "check_owner",
        "after_commit",
        "cleaned",
        "events_of",
        "exclusive",
        "find",
        "number_of",
        "query",
        "read_pack",
        "read_tail",
        "readers",
        "replace",
        "rows_of",
        "share",
        "snapshot",
        "state_json",
        "transaction",
        "verify",
    ],
}
"""Methods that other packages call, and users do not, or that take any value."""


@pytest.fixture
def calls(project: Path) -> Iterator[Calls]:
    with rk.Store.open(project / "store.db") as store, rk.record("now", store=store) as run:
        yield Calls(project, store, run)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a function, and let it do what it does later."""
    result = function(*args, **kwargs)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    elif isinstance(result, rk.Store):
        result.close()
    elif hasattr(result, "__enter__") and hasattr(result, "__exit__"):
        with result:
            pass


def changed(calls: Calls, name: str, value: object) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the call with each of its arguments in turn replaced by this value."""
    function, args, kwargs = calls.right[name]
    for place, parameter in enumerate(inspect.signature(function).parameters):
        if parameter in FREE.get(name, ()):
            continue
        if place < len(args):
            wrong = (*args[:place], value, *args[place + 1 :])
            yield parameter, partial(call, function, *wrong, **kwargs)
        else:
            yield parameter, partial(call, function, *args, **{**kwargs, parameter: value})


def answer(do: Callable[[], None]) -> str:
    """Return how a call ends: with the error of its arguments, with another of ours, well, or from the inside."""
    try:
        do()
    except rk.UsageError as error:
        return f"usage {error}"
    except rk.ReplayKitError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "fine"


@pytest.mark.filterwarnings("ignore")
def test_a_value_of_another_type_is_answered_with_the_right_call(calls: Calls) -> None:
    inside = []
    for name in calls.right:
        for value in (ODD, [ODD]):
            for parameter, do in changed(calls, name, value):
                told = answer(do)
                if not told.startswith("usage ") or ("Odd object" not in told and parameter not in told):
                    inside.append(f"{name}({parameter}={value}): {told}")

    assert inside == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", [None, "", "nobody", 3, -1.5, b"x"])
def test_no_value_gets_far_enough_to_fail_inside(calls: Calls, value: object) -> None:
    inside = []
    for name in calls.right:
        for parameter, do in changed(calls, name, value):
            told = answer(do)
            if told != "fine" and not told.startswith(("usage ", "refused")):
                inside.append(f"{name}({parameter}={value!r}): {told}")

    assert inside == []


def test_a_call_without_its_arguments_shows_the_right_one() -> None:
    with pytest.raises(rk.UsageError, match="missing a required argument: 'step'") as caught:
        cast(Any, rk.fork)("run")
    assert "rk.fork(run_id" in str(caught.value.hint)

    with pytest.raises(rk.UsageError, match="unexpected keyword argument 'stepp'"):
        cast(Any, rk.fork)("run", "plan", stepp="x")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda: cast(Any, rk.tool)(nam="search"), '@rk.tool(name="search_docs", effects="none")'),
        (lambda: cast(Any, rk.tool)(agent, "search"), '@rk.tool(name="search_docs", effects="none")'),
        (lambda: cast(Any, rk.Pool)(), 'rk.Pool("my_agent:answer"'),
        (lambda: rk.Pool(agent, workers=cast(Any, "2")), 'rk.Pool("my_agent:answer"'),
        (lambda: cast(Any, rk.CheckpointStore)(path="x"), "rk.CheckpointStore("),
        (lambda: rk.CheckpointStore(cast(Any, 3)), "rk.CheckpointStore("),
    ],
)
def test_a_constructor_or_decorator_with_wrong_arguments_shows_the_right_call(
    wrong: Callable[[], object], hint: str
) -> None:
    with pytest.raises(rk.UsageError) as caught:
        wrong()

    assert hint in str(caught.value.hint)


def test_a_text_is_no_list_of_names(project: Path) -> None:
    with pytest.raises(rk.UsageError, match="`live` is a list"):
        rk.replay(project / "case", agent, live="search")


def test_every_public_function_and_method_is_tried(calls: Calls) -> None:
    missing = []
    for name in set(rk.__all__) - OTHERS.keys():
        value = getattr(rk, name)
        if isinstance(value, type):
            missing += [f"{name}.{method}" for method in methods(name, value)]
        elif inspect.isfunction(value) and inspect.signature(value).parameters:
            missing.append(value.__name__)

    assert sorted(set(missing) - calls.right.keys()) == []


def methods(name: str, cls: type) -> Iterator[str]:
    """Yield the public methods of a class that take arguments."""
    for method, value in vars(cls).items():
        function = getattr(value, "__func__", value)
        if method.startswith("_") or method in INTERNAL.get(name, ()) or not inspect.isfunction(function):
            continue
        if len(inspect.signature(function).parameters) > 1:
            yield method
