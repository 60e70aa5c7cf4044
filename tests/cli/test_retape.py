"""`replaykit retape`: new takes of cases, sessions and golden traces, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.candidates.retaping_many import Budget, parse_budget
from replaykit.cases.golden import golden_of, write_golden
from replaykit.errors import UsageError

Command = Callable[..., Any]

AGENTS = """
from pathlib import Path
import replaykit as rk

@rk.tool
def look(item):
    raise AssertionError("done for real")

@rk.tool
def ask(prompt):
    with Path("asked").open("a") as log:
        print(prompt, file=log)
    return "three are left"

def bad(item):
    look(item)
    raise LookupError("sold out")

def good(item):
    return ask(f"How many {item}s? Stock: {look(item)['stock']}")
"""


@rk.tool
def look(item: str) -> dict[str, Any]:
    return {"item": item, "stock": 3}


def failing(item: str) -> None:
    look(item)
    raise LookupError("sold out")


@pytest.fixture
def shop(store: rk.Store, own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A case whose agent looked once and then failed, and agents that may run against it."""
    (own_directory / "agents.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(own_directory)
    with pytest.raises(LookupError), rk.record("shop", input="lamp", store=store):
        failing("lamp")
    rk.scaffold(store.load("shop"), own_directory / "cases" / "shop")
    return own_directory / "cases" / "shop"


def test_a_retaped_case_is_green_offline_and_still_red_for_the_old_agent(replaykit: Command, shop: Path) -> None:
    before = replaykit("replay", "cases", "--agent", "agents:good")
    retaped = replaykit("retape", "cases/shop", "--agent", "agents:good", "--live", "ask", "--yes")
    Path("asked").unlink()
    after = replaykit("replay", "cases", "--agent", "agents:good", "--json")
    old = replaykit("replay", "cases", "--agent", "agents:bad", "--json")

    assert before.code == 1
    assert retaped.code == 0, retaped.err
    assert "wrote the take `take-2`" in retaped.out
    assert after.code == 0
    assert json.loads(after.out)["results"][0]["take"] == "take-2"
    assert json.loads(old.out)["results"][0]["verdict"] == "reproduced"
    assert not Path("asked").exists()


def test_a_live_tool_is_not_called_before_somebody_agrees(replaykit: Command, shop: Path) -> None:
    refused = replaykit("retape", "cases/shop", "--agent", "agents:good", "--live", "ask")

    assert refused.code == 2
    assert "`ask` will be called for real" in refused.err
    assert not Path("asked").exists()


def test_a_live_call_that_fails_is_shown_beside_the_verdict(replaykit: Command, shop: Path) -> None:
    agents = Path("agents.py")
    agents.write_text(agents.read_text().replace('return "three are left"', 'raise PermissionError("401: wrong key")'))

    retaped = replaykit("retape", "cases/shop", "--agent", "agents:good", "--live", "ask", "--yes")

    assert retaped.code == 1
    assert "no take was written: the candidate is broken" in retaped.out
    assert "✗ status_is: expected status success, got status error (PermissionError: 401: wrong key)" in retaped.out


def test_a_take_can_be_answered_from_a_file(replaykit: Command, shop: Path) -> None:
    Path("answers.yaml").write_text("- {tool: ask, result: three}\n- {tool: nobody, result: 1}\n")

    retaped = replaykit("retape", "cases/shop", "--agent", "agents:good", "--answers", "answers.yaml", "--json")

    assert retaped.code == 0, retaped.err
    document = json.loads(retaped.out)
    assert document["retapes"][0]["asked"][0]["answered_by"] == "answers.yaml"
    assert "1 of the answers were not asked for: `nobody`" in retaped.err
    assert replaykit("replay", "cases", "--agent", "agents:good").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {tool: ask}", "a tool needs one of `result` and `error`"),
        ("- {tool: ask, model: m, result: 1}", "name either a tool or a model"),
        ("- {tool: ask, reslt: 1}", "did you mean 'result'?"),
        ("tool: ask", "expected a list"),
    ],
)
def test_a_wrong_answer_file_is_refused_with_its_line(replaykit: Command, shop: Path, text: str, message: str) -> None:
    Path("answers.yaml").write_text(f"\n{text}\n")

    refused = replaykit("retape", "cases/shop", "--agent", "agents:good", "--answers", "answers.yaml")

    assert refused.code == 2
    assert "answers.yaml:2" in refused.err
    assert message in refused.err


def test_a_suite_retapes_what_diverged_and_says_what_it_left(replaykit: Command, shop: Path) -> None:
    live = ("--live", "ask", "--yes")
    first = replaykit("retape", "cases", "--diverged", "--agent", "agents:good", *live, "--json")
    again = replaykit("retape", "cases", "--diverged", "--agent", "agents:good", *live, "--json")

    assert [one["take"] is not None for one in json.loads(first.out)["retapes"]] == [True]
    assert [one["reason"] for one in json.loads(again.out)["retapes"]] == ["fixed as it is"]
    assert (first.code, again.code) == (0, 0)


def test_no_case_begins_when_the_budget_is_spent(replaykit: Command, shop: Path) -> None:
    left = replaykit("retape", "cases", "--agent", "agents:good", "--live", "ask", "--yes", "--budget", "0tokens")

    assert left.code == 1
    assert "the budget is spent" in left.out
    assert not Path("asked").exists()


def test_budgets_are_dollars_or_tokens() -> None:
    assert parse_budget("$2.50") == parse_budget("2.50usd") == Budget(cost_usd=2.5)
    assert (
        parse_budget("200000tokens") == parse_budget("200_000 tokens") == parse_budget("200k") == Budget(tokens=200000)
    )
    for text in ("", "2.50", "much", "-1usd", "2,50usd", "1.2.3usd", "$2k"):
        with pytest.raises(UsageError):
            parse_budget(text)


def test_a_session_gets_takes_beside_its_file(replaykit: Command, own_directory: Path, shop: Path) -> None:
    session = own_directory / "replays" / "lamp.yaml"
    session.parent.mkdir()
    session.write_text(
        "id: lamp\ninput: lamp\ncontract: polite\ntool_responses: [{tool: look, response: {stock: 3}}]\n"
    )
    (own_directory / "replaykit.yaml").write_text(
        "replaykit: 1\nagent: {type: python, endpoint: 'agents:good'}\n"
        "contracts: {polite: {invariants: [{id: answers, type: output_not_empty}]}}\n"
    )
    diverged = replaykit("replay", "replays/lamp.yaml", "--json")
    assert diverged.out, diverged.err
    retaped = replaykit("retape", "replays/lamp.yaml", "--live", "ask", "--yes")
    fixed = replaykit("replay", "replays", "--json")

    assert json.loads(diverged.out)["results"][0]["verdict"] == "diverged", diverged.err
    assert retaped.code == 0, retaped.err
    assert (own_directory / "replays" / "lamp.takes" / "take-2" / "take.json").is_file()
    assert [one["verdict"] for one in json.loads(fixed.out)["results"]] == ["fixed"]


def test_a_golden_trace_is_updated_in_place(replaykit: Command, store: rk.Store, shop: Path) -> None:
    with rk.record("counting", input="lamp", store=store) as run:
        run.output = look("lamp")["stock"]
    file = Path("counting.golden.json")
    write_golden(file, golden_of(store.load("counting")))

    refused = replaykit("retape", str(file), "--agent", "agents:good")
    updated = replaykit("retape", str(file), "--agent", "agents:good", "--live", "ask")
    unchanged = replaykit("retape", str(file), "--agent", "agents:good")

    assert refused.code == 1
    assert "not updated" in refused.out
    assert updated.code == 0, updated.err
    assert updated.out.strip() == "updated counting.golden.json"
    assert unchanged.out.startswith("unchanged counting.golden.json")


def test_lint_names_takes_that_nothing_uses_and_takes_that_are_wrong(replaykit: Command, shop: Path) -> None:
    replaykit("retape", "cases/shop", "--agent", "agents:good", "--live", "ask", "--yes")
    unused = replaykit("lint", "cases")
    replaykit("prove", "cases/shop", "--bad", "agents:bad", "--good", "agents:good")
    proven = replaykit("lint", "cases")
    (shop / "takes" / "take-2" / "fixtures" / "ask.json").write_text("[]")
    wrong = replaykit("lint", "cases")

    assert "the take 'take-2' is not the one that the last proof was green on" in unused.out
    assert "unused-take" not in proven.out
    assert wrong.code == 1
    assert "ask.json" in wrong.out


def test_a_run_that_is_there_already_becomes_a_take(replaykit: Command, store: rk.Store, shop: Path) -> None:
    with rk.record("by hand", input="lamp", store=store) as run:
        run.output = look("lamp")["stock"]
    arguments = ("--from-run", "by hand", "--name", "by-hand", "--store", store.path)

    kept = replaykit("retape", "cases/shop", *arguments)
    again = replaykit("retape", "cases/shop", *arguments)

    assert kept.code == 0, kept.err
    assert (shop / "takes" / "by-hand" / "take.json").is_file()
    assert again.code == 2
    assert "has a take 'by-hand'" in again.err
