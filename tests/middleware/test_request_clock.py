"""The clock and chance of a request: held still inside of it, and as they are for everybody else."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.candidates.agents import candidate_of
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.middleware.served_tape import unpinned
from replaykit.model.events import Exchange
from replaykit.model.matching import MatchMode, MatchRules
from replaykit.model.pins import Clock, Pins
from replaykit.model.values import raw
from replaykit.report.replays import result_text

Serve = Callable[[Any], str]
ERROR, SUCCESS = (parse_assertion("status_is", status) for status in ("error", "success"))
SEQUENCE = MatchRules(mode=MatchMode.SEQUENCE)
MOMENT = "2024-03-12T14:32:00+00:00"


async def ask_machine(scope: Any, receive: Any, send: Any) -> None:
    """Says what the machine says, asked here and in two tasks side by side."""

    async def drawn() -> str:
        await asyncio.sleep(0)
        return str(rk.uuid4())

    said = [str(rk.now()), str(rk.uuid4()), rk.random(), rk.random(), *await asyncio.gather(drawn(), drawn())]
    body = json.dumps({"output": said, "clock": time.time()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def replayed(url: str, tape: tuple[Any, ...] = (), *, desired: Any = SUCCESS, **scenario: Any) -> Any:
    value = {"replaykit": 1, "agent": {"type": "http", "endpoint": url, "response_path": "$.output"}}
    Path("replaykit.yaml").write_text(json.dumps(value))
    case = ReplayCase(
        id="c",
        scenario=Scenario(input_json=raw("x"), match=SEQUENCE, timeout_s=20, **scenario),
        tape=tape,
        observed=(ERROR,),
        desired=(desired,),
    )
    return rk.replay(case, candidate_of(rk.load_project("replaykit.yaml")))


def test_a_request_gets_the_time_and_the_chance_of_its_case(served: Serve) -> None:
    url = served(rk.middleware.asgi(ask_machine, enabled=True))

    results = [replayed(url, clock=MOMENT, seed=seed) for seed in (7, 7, 8)]

    first, again, other = (result.run.output for result in results)
    assert first == again
    assert first[0] == "2024-03-12 14:32:00+00:00"
    assert len({str(value) for value in first}) == 6, "every draw is another one"
    assert not set(map(str, first[1:])) & set(map(str, other[1:]))
    assert all(uuid.UUID(first[place]).version == 4 for place in (1, 4, 5))
    assert all(result.passed for result in results)


def test_a_clock_that_ticks_goes_on_from_its_moment(served: Serve) -> None:
    url = served(rk.middleware.asgi(ask_machine, enabled=True))

    at = dt.datetime.fromisoformat(replayed(url, clock=f"tick {MOMENT}").run.output[0])

    assert dt.timedelta(0) < at - dt.datetime.fromisoformat(MOMENT) < dt.timedelta(seconds=20)


def test_the_clock_and_chance_of_everybody_else_stay_as_they_are(served: Serve) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        random.seed(1)
        seen.append((time.time(), random.random()))
        await ask_machine(scope, receive, send)

    began = time.time()
    replayed(served(rk.middleware.asgi(app, enabled=True)), clock=MOMENT, seed=7)

    assert seen[0][0] >= began
    random.seed(1)
    assert seen[0][1] == random.random()


def test_what_is_held_still_for_some_only_is_told_in_the_result(served: Serve) -> None:
    url = served(rk.middleware.asgi(ask_machine, enabled=True))

    held = replayed(url, clock=MOMENT, seed=7, environment=(("TZ", "Asia/Tokyo"),))

    assert [told.kind for told in held.deviations] == ["unpinned", "unpinned"]
    assert "the case's clock and seed are frozen only for rk.now()" in held.deviations[0].text
    assert "TZ" in held.deviations[1].text
    assert replayed(url).deviations == ()


def test_a_clock_that_goes_on_is_no_divergence_and_is_in_the_report(served: Serve) -> None:
    url = served(rk.middleware.asgi(ask_machine, enabled=True))

    result = replayed(url, clock=MOMENT, desired=parse_assertion("replay.no_divergence", True))

    assert result.passed, result.reason
    assert "frozen only for rk.now()" in result_text(result)


@pytest.mark.parametrize(
    ("pins", "told"),
    [
        (Pins(), []),
        (Pins(clock=Clock.LIVE, started_at=1.0), []),
        (Pins(started_at=1.0), ["clock is frozen"]),
        (Pins(seed=0), ["seed is frozen"]),
        (Pins(environment={"TZ": "UTC", "LANG": "C"}), ["LANG, TZ"]),
    ],
)
def test_only_what_a_case_holds_is_told(pins: Pins, told: list[str]) -> None:
    texts = [deviation.text for deviation in unpinned(pins)]

    assert len(texts) == len(told)
    assert all(part in text for part, text in zip(told, texts, strict=True))


def test_the_recorded_moment_goes_before_the_clock(served: Serve) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = json.dumps({"output": str(rk.now())}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    recorded = Exchange(seq=0, name="rk.now", arguments_json=raw(None), result_json=raw(moment))
    result = replayed(served(rk.middleware.asgi(app, enabled=True)), (recorded,), clock=MOMENT)

    assert result.run.output == str(moment)


@pytest.mark.parametrize(("mode", "verdict"), [(MatchMode.SEQUENCE, "fixed"), (MatchMode.STRICT, "diverged")])
def test_an_agent_in_python_may_ask_the_machine_in_a_session_too(mode: MatchMode, verdict: str) -> None:
    """Nobody wrote the time of an incident down; where the exact calls are wanted, it is one too many."""
    case = ReplayCase(
        id="c",
        scenario=Scenario(input_json=raw("x"), match=MatchRules(mode=mode), clock=MOMENT, seed=7),
        tape=(),
        observed=(ERROR,),
        desired=(SUCCESS,),
    )
    result = rk.replay(case, CallableCandidate(lambda given: [str(rk.now()), str(rk.uuid4()), rk.random()]))

    assert result.verdict == verdict, result.reason
    assert verdict == "diverged" or result.run.output[0] == "2024-03-12 14:32:00+00:00"  # type: ignore[union-attr]
