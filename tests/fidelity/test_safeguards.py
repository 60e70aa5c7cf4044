"""Each safeguard is missed when it is gone; `make fidelity` asks everybody who has to notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fidelity.false_fixes import misjudged
from tests.fidelity.harness import Agent, collection, tried
from tests.fidelity.safeguards import FALSE_FIXES, HELD_UP, RANDOM, SAFEGUARDS


def test_the_product_has_every_safeguard() -> None:
    assert [name for name, safeguard in SAFEGUARDS.items() if not safeguard.exists] == []


def test_everybody_who_has_to_notice_is_there() -> None:
    agents = {str(agent) for agent in collection()} | {RANDOM, HELD_UP, FALSE_FIXES}

    for safeguard in SAFEGUARDS.values():
        assert set(safeguard.noticed_by) <= agents
        assert safeguard.noticed_by


@pytest.mark.parametrize(("name", "agent"), [("changed arguments", "values:mutated_argument")])
def test_an_agent_breaks_the_law_without_the_safeguard(name: str, agent: str, tmp_path: Path) -> None:
    assert tried(Agent(*agent.split(":")), "in_process", tmp_path, without=name).breaches


def test_an_unrecorded_connection_would_pass_without_the_guard() -> None:
    assert misjudged(without="guard") == {"asks_a_server_beside_the_tape": "fixed"}


def test_a_candidate_that_fixed_nothing_is_not_called_fixed() -> None:
    assert misjudged() == {}
