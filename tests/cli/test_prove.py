"""`replaykit prove`: what is a red and what is a green, every kind of candidate, and what is written down."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk

Command = Callable[..., Any]

AGENTS = """
import json, sys
from pathlib import Path
import replaykit as rk

@rk.tool
def look(item):
    raise AssertionError("done for real")

def bad(item):
    look(item)
    raise LookupError("sold out")

def good(item):
    return f"there are {look(item)['stock']}"

def typo(item):
    lok(item)

def late_typo(item):
    look(item)
    retrun(item)

def silent(item):
    return "there are plenty"

def fickle(item):
    count = Path("count")
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    return good(item) if len(count.read_text()) % 2 else bad(item)

if __name__ == "__main__":
    print(globals()[sys.argv[1]]("lamp"))
"""


@rk.tool
def look(item: str) -> dict[str, Any]:
    return {"item": item, "stock": 3}


@pytest.fixture
def shop(store: rk.Store, own_directory: Path) -> Path:
    """A case whose agent looked once and then failed, without the proof of its making."""
    (own_directory / "agents.py").write_text(AGENTS)
    with pytest.raises(LookupError), rk.record("shop", input="lamp", store=store) as run:
        look("lamp")
        raise LookupError("sold out")
    case = rk.scaffold(store.load(run.id), "cases/shop").directory
    (case / "proof.json").unlink()
    return case


def proof(case: Path) -> Any:
    return json.loads((case / "proof.json").read_text())


def test_a_proof_is_written_beside_the_case(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:good")

    assert ran.code == 0
    assert f"wrote {shop}/proof.json" in ran.err
    assert (proof(shop)["red"]["candidate"], proof(shop)["green"]["candidate"]) == ("agents:bad", "agents:good")
    assert replaykit("lint", shop).out == "1 case: ok\n"


@sampled(
    ("bad", "code", "said"),
    [
        ("agents:typo", 3, "it failed first, with NameError"),  # before any call
        ("agents:late_typo", 1, "✗ bad   broken"),  # in the recorded world, but otherwise than the case says
        ("agents:nobody", 3, "cannot be loaded"),
        ("agents:good", 1, "✗ bad   fixed"),
    ],
    count=2,
)
def test_a_candidate_that_fails_in_another_way_than_the_case_describes_proves_nothing(
    replaykit: Command, shop: Path, bad: str, code: int, said: str
) -> None:
    ran = replaykit("prove", shop, "--bad", bad, "--good", "agents:good")

    assert ran.code == code, ran.out
    assert said in ran.out
    assert "shop: not proven" in ran.out
    assert not (shop / "proof.json").exists()


def test_a_fix_that_uses_none_of_the_recorded_answers_proves_nothing(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:silent")

    assert ran.code == 3
    assert "✗ good  inconclusive" in ran.out


def test_a_person_can_accept_a_fix_that_calls_nothing(replaykit: Command, shop: Path) -> None:
    file = shop / "case.yaml"
    file.write_text(file.read_text() + "evidence: output\n")

    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:silent")

    assert ran.code == 0, ran.out


def test_a_red_is_written_though_there_is_no_green_yet(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:bad")

    assert ran.code == 1
    assert proof(shop).keys() == {"replaykit", "red"}


def test_whole_programs_are_candidates(replaykit: Command, shop: Path) -> None:
    bad, good = (f"-- {sys.executable} agents.py {name}" for name in ("bad", "good"))

    ran = replaykit("prove", shop, "--bad", bad, "--good", good)

    assert ran.code == 0, ran.out + ran.err
    assert proof(shop)["red"]["candidate"].endswith("agents.py bad")


@pytest.mark.parametrize(
    "fixed",
    [("--agent", "agents:good"), ("--", sys.executable, "agents.py", "good")],
    ids=["agent", "program"],
)
def test_the_candidate_with_the_fix_is_named_as_for_a_replay(
    replaykit: Command, shop: Path, fixed: tuple[str, ...]
) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", *fixed)

    assert ran.code == 0, ran.out + ran.err
    assert "good" in proof(shop)["green"]["candidate"]


def test_a_candidate_with_the_fix_that_is_named_twice_is_refused(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:good", "--agent", "agents:good")

    assert ran.code == 2
    assert "named twice" in ran.err


def test_repetitions_that_disagree_prove_nothing(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:fickle", "--repeat", 2)

    assert ran.code == 1
    assert "✓ bad   reproduced × 2" in ran.out
    assert "✗ good  flaky × 2" in ran.out


def test_repetitions_that_agree_are_counted_in_the_proof(replaykit: Command, shop: Path) -> None:
    assert replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:good", "--repeat", 3).code == 0
    assert proof(shop)["green"]["repeats"] == 3


def test_a_dry_run_writes_nothing(replaykit: Command, shop: Path) -> None:
    ran = replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:good", "--dry-run")

    assert ran.code == 0
    assert not (shop / "proof.json").exists()


def test_a_green_without_a_red_is_said_and_replay_writes_nothing(replaykit: Command, shop: Path) -> None:
    before = sorted(shop.rglob("*"))

    ran = replaykit("replay", shop, "--agent", "agents:good")
    red = replaykit("replay", shop, "--agent", "agents:bad")

    assert ran.code == 0
    assert "never seen red: nothing shows that this case can fail" in ran.out
    assert "never seen red" not in red.out
    assert sorted(shop.rglob("*")) == before


def test_a_green_that_rests_on_a_red_says_nothing_until_the_tape_changes(replaykit: Command, shop: Path) -> None:
    replaykit("prove", shop, "--bad", "agents:bad", "--good", "agents:good")

    assert "seen red" not in replaykit("replay", shop, "--agent", "agents:good").out
    fixture = shop / "fixtures" / "look.json"
    fixture.write_text(fixture.read_text().replace('"stock": 3', '"stock": 4'))
    ran = replaykit("replay", shop, "--agent", "agents:good", "--json")

    (result,) = ran.json["results"]
    assert (result["verdict"], result["unproven"]) == ("fixed", "not seen red since its tape changed")


def test_a_session_is_proven_beside_its_file(replaykit: Command, shop: Path) -> None:
    contract = {"name": "kind", "invariants": [{"id": "answers", "type": "contains", "value": "there are"}]}
    config = {"replaykit": 1, "agent": {"type": "python", "endpoint": "agents:good"}, "contract": contract}
    Path("replaykit.yaml").write_text(json.dumps({**config, "cases": ["replays"]}))
    Path("replays").mkdir()
    answers = [{"tool": "look", "response": {"stock": 3}}]
    session = {"id": "incident-1", "input": "lamp", "contract": "kind", "tool_responses": answers}
    Path("replays/incident.yaml").write_text(json.dumps(session))

    assert "never-red" in replaykit("lint", "replays").out
    assert "never seen red" in replaykit("replay", "replays").out
    assert replaykit("prove", "replays/incident.yaml", "--bad", "agents:bad").code == 0
    assert Path("replays/incident-1.proof.json").is_file()
    ran = replaykit("replay", "replays")
    assert (ran.code, "seen red" in ran.out, "passed over" in ran.err) == (0, False, False)
    assert replaykit("lint", "replays").out == "1 case: ok\n"
