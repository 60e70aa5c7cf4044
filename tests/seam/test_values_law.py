"""The unchanged law for values: record a failing agent, scaffold the run, replay the very same code.

Each agent takes a branch by what its tools answered, and fails with a text that names the branch.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import attrs
import httpx
import numpy as np
import pydantic
import pytest
import requests
from tests.commands import run_here as replaykit

import replaykit as rk
from replaykit.cases.lint import lint_case
from replaykit.errors import RecordingWarning


class Status(Enum):
    OK = "ok"
    FAILED = "failed"


@dataclass
class Order:
    id: int
    paid: bool


class Stock(NamedTuple):
    sku: str
    count: int


class Reply(pydantic.BaseModel):
    ok: bool
    items: list[Stock] = []


@attrs.define
class Ticket:
    state: Status


class Refused(Exception):
    def __init__(self, *, code: int) -> None:
        self.code = code


class Handle:
    def __init__(self, ready: bool) -> None:
        self.ready = ready


class Wrong(Exception):
    """How the agents fail."""


@rk.tool
def enum():  # type: ignore[no-untyped-def]
    return Status.FAILED


@rk.tool
def dataclass_():  # type: ignore[no-untyped-def]
    return Order(1, paid=False)


@rk.tool
def named_tuple():  # type: ignore[no-untyped-def]
    return Stock("a", 0)


@rk.tool
def model():  # type: ignore[no-untyped-def]
    return Reply(ok=False, items=[Stock("a", 1)])


@rk.tool
def ticket():  # type: ignore[no-untyped-def]
    return [Ticket(Status.FAILED)]


@rk.tool
def falsy():  # type: ignore[no-untyped-def]
    return {"ok": np.bool_(False), "score": np.float32(0.25), "vector": np.arange(3)}


@rk.tool
def raising(how):  # type: ignore[no-untyped-def]
    if how == "own":
        raise Refused(code=402)
    if how == "group":
        raise ExceptionGroup("both", [Refused(code=1), ValueError("x")])
    if how == "validation":
        Reply(ok="maybe")
    if how == "requests":
        response = requests.Response()
        response.status_code, response._content = 429, b'{"retry": 3}'
        response.raise_for_status()
    if how == "httpx":
        request = httpx.Request("GET", "http://shop.test")
        httpx.Response(503, json={"retry": 4}, request=request).raise_for_status()
    if how == "file":
        Path("/nowhere/at/all").read_bytes()
    try:
        {}["cause"]
    except KeyError as error:
        raise Refused(code=7) from error


@rk.tool
def talk():  # type: ignore[no-untyped-def]
    heard = yield "hello"
    try:
        yield f"you said {heard}"
    except ValueError:
        yield "sorry"
    return Status.FAILED


@rk.tool
async def atalk():  # type: ignore[no-untyped-def]
    heard = yield "hello"
    yield f"you said {heard}"


def by_enum() -> None:
    raise Wrong("failed" if enum() is Status.FAILED else "other")


def by_dataclass() -> None:
    order = dataclass_()
    raise Wrong("unpaid" if isinstance(order, Order) and not order.paid else "other")


def by_named_tuple() -> None:
    raise Wrong("out" if named_tuple().count == 0 else "other")


def by_model() -> None:
    reply = model()
    raise Wrong(f"{reply.ok} {reply.items[0].sku}")


def by_attrs() -> None:
    raise Wrong("failed" if ticket()[0].state is Status.FAILED else "other")


def by_numpy() -> None:
    answer = falsy()
    if answer["ok"]:
        return
    raise Wrong(f"not ok {answer['score'].dtype} {answer['vector'].sum()}")


def by_own_exception() -> None:
    try:
        raising("own")
    except Refused as error:
        raise Wrong(f"refused {error.code}") from None


def by_group() -> None:
    codes = []
    try:
        raising("group")
    except* Refused as group:
        codes = [str(error.code) for error in group.exceptions if isinstance(error, Refused)]
    except* ValueError:
        pass
    raise Wrong(",".join(codes))


def by_validation_error() -> None:
    try:
        raising("validation")
    except ValueError as error:
        raise Wrong(error.errors()[0]["type"]) from None  # type: ignore[attr-defined]


def by_http_error() -> None:
    found = []
    for how in ("requests", "httpx"):
        try:
            raising(how)
        except (requests.HTTPError, httpx.HTTPStatusError) as error:
            found.append(f"{error.response.status_code} {error.response.json()['retry']}")
    raise Wrong("; ".join(found))


def by_file() -> None:
    try:
        raising("file")
    except FileNotFoundError as error:
        raise Wrong(f"{error.filename} {error.errno}") from None


def by_cause() -> None:
    try:
        raising("cause")
    except Refused as error:
        raise Wrong("key" if isinstance(error.__cause__, KeyError) else "other") from None


def by_generator() -> None:
    conversation = talk()
    heard = [next(conversation), conversation.send("hi"), conversation.throw(ValueError("x"))]
    try:
        next(conversation)
    except StopIteration as stop:
        raise Wrong(f"{heard} {stop.value is Status.FAILED}") from None


def by_async_generator() -> None:
    async def main() -> list[str]:
        conversation = atalk()
        return [await anext(conversation), await conversation.asend("hi")]

    raise Wrong(str(asyncio.run(main())))


AGENTS: list[Callable[[], None]] = [
    by_enum,
    by_dataclass,
    by_named_tuple,
    by_model,
    by_attrs,
    by_numpy,
    by_own_exception,
    by_group,
    by_validation_error,
    by_http_error,
    by_file,
    by_cause,
    by_generator,
    by_async_generator,
]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_an_unchanged_agent_takes_the_same_branch(store: rk.Store, agent: Callable[[], None]) -> None:
    with pytest.raises(Wrong) as failed, rk.record("agent", store=store) as run:
        agent()
    rk.scaffold(store.load(run.id), "cases/made")

    result = rk.replay("cases/made", agent)

    assert result.verdict is rk.Verdict.REPRODUCED
    assert result.run is not None
    assert result.run.error is not None
    assert (result.run.error.type, result.run.error.message) == ("Wrong", str(failed.value))
    assert result.deviations == ()


@rk.tool
def handle():  # type: ignore[no-untyped-def]
    return {"handle": Handle(ready=False)}


@rk.tool
def ready(handle):  # type: ignore[no-untyped-def]
    return handle.ready


@rk.tool
def lock():  # type: ignore[no-untyped-def]
    return threading.Lock()


def by_opaque() -> None:
    if not handle()["handle"]:
        return
    raise Wrong("truthy")


def by_opaque_quietly() -> None:
    try:
        if handle()["handle"].ready:
            return
    except Exception:
        return
    raise Wrong("not ready")


def by_opaque_argument() -> None:
    if not ready(Handle(ready=False)):
        raise Wrong("not ready")


def by_opaque_result() -> None:
    if not lock().locked():
        raise Wrong("not locked")


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
@pytest.mark.parametrize("agent", [by_opaque, by_opaque_quietly, by_opaque_argument, by_opaque_result])
def test_a_replay_that_cannot_rebuild_a_value_says_so(store: rk.Store, agent: Callable[[], None]) -> None:
    with pytest.raises(Wrong), rk.record("agent", store=store) as run:
        agent()
    rk.scaffold(store.load(run.id), "cases/made")

    result = rk.replay("cases/made", agent)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "Handle" in result.reason or "lock" in result.reason
    assert {"unbuilt", "unanswerable"} & {deviation.kind for deviation in result.deviations}
    assert "unbuilt-value" in [problem.code for problem in lint_case("cases/made")]
    notes = Path("cases/made/notes.md").read_text()
    assert "## What a replay cannot repeat" in notes


def test_a_tool_that_changes_its_arguments_is_named_in_the_case(store: rk.Store) -> None:
    @rk.tool
    def add(items):  # type: ignore[no-untyped-def]
        items.append(1)

    def agent() -> None:
        items: list[int] = []
        add(items)
        raise Wrong(str(len(items)))

    with pytest.warns(RecordingWarning, match="changed"), pytest.raises(Wrong):
        with rk.record("agent", store=store) as run:
            agent()
    rk.scaffold(store.load(run.id), "cases/made")

    assert "changed-arguments" in [problem.code for problem in lint_case("cases/made")]
    assert "changed what it was given" in Path("cases/made/notes.md").read_text()

    def agent_that_reads(_: object) -> str:
        items: list[int] = []
        add(items)
        if items:
            raise Wrong(str(len(items)))
        return "nothing was added"

    result = rk.replay("cases/made", agent_that_reads)
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert result.reason == "`add` changed what it was given as `items`; a replay cannot repeat that"


def by_input(order: Order) -> None:
    raise Wrong("unpaid" if not order.paid else "other")


def test_an_agent_is_given_its_input_as_it_was(store: rk.Store) -> None:
    order = Order(3, paid=False)
    with pytest.raises(Wrong), rk.record("agent", store=store, input=order) as run:
        by_input(order)
    rk.scaffold(store.load(run.id), "cases/made")

    result = rk.replay("cases/made", by_input)

    assert result.verdict is rk.Verdict.REPRODUCED


AGENT = """
    import replaykit as rk
    from dataclasses import dataclass
    from enum import Enum

    @dataclass
    class Query:
        text: str

    class Status(Enum):
        OK = "ok"
        FAILED = "failed"

    class Refused(Exception):
        def __init__(self, *, code):
            self.code = code

    class Thing:
        pass

    @rk.tool
    def status():
        return Status.FAILED

    @rk.tool
    def refuse():
        raise Refused(code=7)

    @rk.tool
    def thing():
        return [Thing()]

    def main(query):
        try:
            refuse()
        except Refused as error:
            raise RuntimeError(f"{status() is Status.FAILED} {error.code} {query.text}")

    def unsure(query):
        thing()
        raise RuntimeError("unsure")

    if __name__ == "__main__":
        import sys
        query = Query("why")
        with rk.record(sys.argv[1], input=query):
            globals()[sys.argv[1]](query)
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)


def test_a_script_that_was_run_is_replayed_as_a_module() -> None:
    Path("shop.py").write_text(textwrap.dedent(AGENT))
    run("shop.py", "main")

    assert replaykit("scaffold", "main", "--out", "cases/main").returncode == 0
    replayed = replaykit("replay", "cases/main", "--agent", "shop:main")

    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    assert "FAILURE REPRODUCED" in replayed.stdout
    assert "True 7 why" in replayed.stdout


def test_a_user_is_told_of_what_cannot_be_rebuilt_everywhere() -> None:
    Path("shop.py").write_text(textwrap.dedent(AGENT))

    recorded = run("shop.py", "unsure")
    shown = replaykit("show", "unsure")
    replaykit("scaffold", "unsure", "--out", "cases/unsure")
    linted = replaykit("lint", "cases/unsure")
    replayed = replaykit("replay", "cases/unsure", "--agent", "shop:unsure")

    assert "`thing` returned a __main__.Thing, which a replay cannot rebuild" in recorded.stderr
    assert "`thing` returned a __main__.Thing, which a replay cannot rebuild" in shown.stdout
    assert "unbuilt-value" in linted.stdout
    assert replayed.returncode == 3, replayed.stdout + replayed.stderr
    assert "cannot be rebuilt" in replayed.stdout


@pytest.mark.parametrize("how", ["main", "unsure"])
def test_a_program_that_is_replayed_whole_gets_its_values_back(how: str) -> None:
    Path("shop.py").write_text(textwrap.dedent(AGENT).replace("with rk.record(sys.argv[1], input=query):", "if True:"))
    recorded = replaykit("record", "--name", how, "--", sys.executable, "shop.py", how)
    made = replaykit("scaffold", how, "--out", "cases/made")
    assert made.returncode == (0 if how == "main" else 3), recorded.stderr

    replayed = replaykit("replay", "cases/made", "--", sys.executable, "shop.py", how)

    assert replayed.returncode == (1 if how == "main" else 3), replayed.stdout + replayed.stderr
