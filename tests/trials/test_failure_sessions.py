"""Failures of `ci` as sessions: whatever the tools gave is given again, as the same values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller

from replaykit.cases.session import load_session

AGENT = """\
import dataclasses, datetime as dt, decimal
import replaykit as rk

@dataclasses.dataclass
class Order:
    id: int
    placed: dt.datetime
    total: decimal.Decimal

@rk.tool
def order(id) -> Order:
    return Order(id, dt.datetime(2026, 2, 15, 12, tzinfo=dt.UTC), decimal.Decimal("19.90"))

@rk.tool
def label(id):
    return b"%PDF", ("a", 1), {7: "seven"}

@rk.tool
def pages(since):
    return {since}

@rk.tool
def refund(id):
    raise rk.ToolError("too late", status=409, response={"until": dt.date(2026, 2, 14)})

@rk.tool
def stock(id):
    return {"$date": id, "left": [{"$tuple": [1]}]}

def answer(question):
    found = order(7)
    said = [found.placed.isoformat(), str(found.total), repr(label(7)), repr(pages(dt.date(2026, 1, 2)))]
    try:
        refund(7)
    except rk.ToolError as error:
        said.append(error.response["until"].isoformat())
    return " ".join([*said, repr(stock(7))])

def plain(question):
    return repr(stock(7))
"""


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return caller(capsys, Ran)


def exported(replaykit: Callable[..., Ran], agent: str) -> tuple[Path, str]:
    """The session of an agent that breaks its contract, and what the agent said then."""
    Path("shop.py").write_text(AGENT)
    never = {"id": "never", "type": "contains", "value": "never"}
    config = {
        "replaykit": 1,
        "agent": {"type": "python", "endpoint": f"shop:{agent}"},
        "inputs": ["Where is it?"],
        "contract": {"name": "default", "invariants": [never]},
    }
    Path("replaykit.yaml").write_text(json.dumps(config))
    assert replaykit("ci", "-o", "report.json").code == 1
    assert replaykit("export", "--from-report", "report.json", "-o", "out").code == 0
    (file,) = Path("out").glob("*.yaml")
    (item,) = json.loads(Path("report.json").read_text())["items"]
    return file, item["output"]


def test_dates_bytes_and_objects_are_the_same_when_they_are_read_and_replayed(replaykit: Callable[..., Ran]) -> None:
    file, said = exported(replaykit, "answer")

    session = load_session(file)
    order, label, pages, refund, stock = session.calls
    placed = dt.datetime(2026, 2, 15, 12, tzinfo=dt.UTC)
    assert order.result == {"id": 7, "placed": placed, "total": Decimal("19.90")}
    assert label.result == (b"%PDF", ("a", 1), {7: "seven"})
    assert (pages.arguments, pages.result) == ({"since": dt.date(2026, 1, 2)}, {dt.date(2026, 1, 2)})
    assert refund.error is not None
    assert stock.result == {"$date": 7, "left": [{"$tuple": [1]}]}

    ran = replaykit("replay", file, "--json")
    (result,) = ran.json["results"]
    assert (ran.code, result["verdict"], result["deviations"]) == (1, "broken", [])
    assert result["run"]["output"] == said, "an Order, a tuple and dates again: the agent says the same of them"
    assert "2026-02-15T12:00:00+00:00 19.90 (b'%PDF', ('a', 1), {7: 'seven'})" in said
    assert replaykit("lint", file).code == 0


def test_a_session_of_plain_json_has_no_tags(replaykit: Callable[..., Ran]) -> None:
    file, said = exported(replaykit, "plain")

    assert "tagged" not in file.read_text()
    assert load_session(file).calls[0].result == {"$date": 7, "left": [{"$tuple": [1]}]}
    assert replaykit("replay", file, "--json").json["results"][0]["run"]["output"] == said


@pytest.mark.parametrize(
    ("status", "told"), [(503, 503), (0, 0), (200, 500), (12345, 500), (-1, 500), (None, None)], ids=str
)
def test_a_status_that_no_session_can_have_is_that_of_a_failure(
    replaykit: Callable[..., Ran], status: Any, told: Any
) -> None:
    call = {"name": "t", "arguments": None, "response": {"$bytes": "no base64"}, "status": status}
    item = {"part": "chaos", "id": "x", "outcome": "failed", "input": "q", "context": None, "calls": [call]}
    report = {"passed": False, "exit_code": 1, "score": None, "verdict": "failed", "items": [item]}
    Path("report.json").write_text(json.dumps(report))

    assert replaykit("export", "--from-report", "report.json", "--contract", "c").code == 0

    (file,) = Path("replays").iterdir()
    (call_read,) = load_session(file).calls
    assert f"status: {told}" in file.read_text() or told is None
    assert (call_read.error is None) == (told is None)
    assert "context" not in file.read_text()


@pytest.mark.parametrize(("text", "said"), [(b"", "report: the file is empty"), (b"\xff", "report:1: not UTF-8 text")])
def test_a_report_that_cannot_be_read_is_named_as_it_is_called(
    replaykit: Callable[..., Ran], text: bytes, said: str
) -> None:
    Path("report").write_bytes(text)

    ran = replaykit("export", "--from-report", "report", "-o", "replays")

    assert (ran.code, said in ran.err, ".json" in ran.err) == (2, True, False)
