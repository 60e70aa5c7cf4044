"""The unchanged law with redaction on: an agent that looks at the form of its input fails again as it failed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.matrix import sampled
from tests.redaction.made_up_secrets import jwt

import replaykit as rk
from replaykit.cases.scaffold import scaffold
from replaykit.model.result import Verdict

AGENTS = Path(__file__).with_name("formal_agents.py")
INPUTS: dict[str, Any] = {
    "finds_an_address": "I am alice.smith@acme.com, please help",
    "splits_an_address": "write to Alice@Acme.com today",
    "names_a_person": "from alice@acme.com",
    "compares_companies": "alice@acme.com wrote to bob@other.org",
    "takes_digits": "call +1 (415) 555-0132",
    "checks_luhn": "my card is 4111 1111 1111 1111",
    "checks_an_iban": "IBAN: DE89 3704 0044 0532 0130 00",
    "reads_a_social_security_number": "my number is 123-45-6789",
    "parses_an_address_of_a_machine": "the server is at 93.184.216.34",
    "decodes_a_token": f"the header was {jwt()}",
    "parses_a_uuid": {"api_key": "550e8400-e29b-41d4-a716-446655440000"},
    "counts_a_number": {"phone": 14155550132},
    "reads_a_key": "my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
}
SIX = "the server is at 2a00:1450:4001:81b::200e"


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    shutil.copy(AGENTS, "formal_agents.py")
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.delitem(sys.modules, "formal_agents", raising=False)
    import formal_agents

    return formal_agents


def made_case(agents: ModuleType, name: str, given: Any) -> Path:
    """The case of an agent that was recorded here and failed."""
    with pytest.raises(RuntimeError, match="no such customer"), rk.record(name, input=given):
        getattr(agents, name)(given)
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        scaffold(store.load(name), f"cases/{name}")
    return Path("cases", name)


def secret_of(given: Any) -> str:
    return str(next(iter(given.values())) if isinstance(given, dict) else given)


@sampled(("name", "given"), [*INPUTS.items(), ("parses_an_address_of_a_machine", SIX)], count=7)
def test_it_fails_again_as_it_failed(agents: ModuleType, name: str, given: Any) -> None:
    case = made_case(agents, name, given)

    result = rk.replay(case, getattr(agents, name))

    assert secret_of(given) not in (case / "case.yaml").read_text()
    assert result.verdict is Verdict.REPRODUCED
    assert {deviation.kind for deviation in result.deviations} <= ({"rekeyed"} if name == "names_a_person" else set())


@sampled("name", ["finds_an_address", "splits_an_address", "takes_digits"], count=1, start=1)
def test_it_fails_again_on_a_machine_without_the_key_and_that_is_shown(agents: ModuleType, name: str) -> None:
    case = made_case(agents, name, INPUTS[name])
    shutil.rmtree(".replaykit")

    done = subprocess.run(
        [sys.executable, "-m", "replaykit", "replay", str(case), "--agent", f"formal_agents:{name}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )

    assert done.returncode == 1, done.stderr
    assert "FAILURE REPRODUCED" in done.stdout
    assert ("another key" in done.stdout) is (name != "finds_an_address")


def test_a_domain_that_was_not_recorded_is_given_no_answer(agents: ModuleType) -> None:
    case = made_case(agents, "splits_an_address", INPUTS["splits_an_address"])

    def edited(text: str) -> None:
        agents.policy("00000000.redacted.invalid")

    result = rk.replay(case, edited)

    assert [deviation.kind for deviation in result.deviations if deviation.kind != "unused"] == ["missing"]
