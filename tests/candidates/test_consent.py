"""Consent in Python: `rk.replay` does nothing for real that its caller has not named, whatever the case asks for."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.case_check import check_case
from replaykit.candidates.golden import check_golden
from replaykit.candidates.worlds import live_case, with_consent, world_of
from replaykit.cases.case import Scenario, dump_case
from replaykit.cases.golden import golden_of, write_golden
from replaykit.cases.requests import refusal_text, refused_in, requests_of
from replaykit.errors import InvalidFile, UsageError
from replaykit.model.isolation import EVERYTHING, NO_CONSENT, Consent
from replaykit.model.matching import MatchRules, OnMiss
from replaykit.model.run import RunStatus, TraceRun

MakeCase = Callable[..., Path]
HOSTILE = {"on_miss": "live", "live": ["delete_account"]}


@rk.tool
def delete_account(user: str) -> str:
    Path("deleted").write_text(user)
    return "deleted"


def agent(question: str) -> str:
    Path("ran").write_text("")
    return delete_account("u1")


class Reckless:
    """A candidate that minds nobody's rules."""

    label = "reckless"

    def run(self, case: rk.ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        Path("ran").write_text("")
        return Attempt(reason="ran")


@pytest.mark.parametrize("candidate", [agent, "python agent.py", Reckless()], ids=["callable", "command", "candidate"])
@pytest.mark.parametrize("load", [str, rk.load_case])
def test_a_case_that_asks_for_a_live_call_is_not_run(make_case: MakeCase, candidate: Any, load: Any) -> None:
    result = rk.replay(load(make_case(match=HOSTILE)), candidate)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert result.reason == (
        "the case asks to call `delete_account` for real, which was not allowed\nTo allow it: --live delete_account"
    )
    assert not Path("ran").exists()
    assert not Path("deleted").exists()


def test_the_caller_allows_it_by_name(make_case: MakeCase) -> None:
    result = rk.replay(make_case(match=HOSTILE), agent, live=["delete_account"])

    assert (result.verdict, result.offline) == (rk.Verdict.FIXED, False)
    assert result.consent == Consent(live=("delete_account",))
    assert Path("deleted").exists()


def test_a_name_that_no_case_asks_for_is_called_where_the_case_has_no_answer(make_case: MakeCase) -> None:
    rk.replay(make_case(), agent, live=["delete_account"])

    assert Path("deleted").exists()


def test_consent_is_for_one_replay(make_case: MakeCase) -> None:
    case = rk.load_case(make_case(match=HOSTILE))
    rk.replay(case, agent, live=["delete_account"])
    Path("deleted").unlink()

    assert rk.replay(case, agent).verdict is rk.Verdict.INCONCLUSIVE
    assert not Path("deleted").exists()


def test_an_address_is_reached_where_the_caller_allows_it(make_case: MakeCase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        def connect(question: str) -> str:
            with socket.create_connection((host, port), timeout=5):
                return "connected"

        case = make_case(match={"network": [host]})
        refused = rk.replay(case, connect)
        allowed = rk.replay(case, connect, allow_connect=[f"{host}:{port}"])
        elsewhere = rk.replay(case, connect, allow_connect=[f"{host}:1"])

    assert refused.verdict is rk.Verdict.INCONCLUSIVE
    assert refused.reason.endswith(f"To allow it: --allow-connect {host}:PORT")
    assert allowed.verdict is rk.Verdict.FIXED
    assert [deviation.kind for deviation in elsewhere.deviations] == ["network"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"live": "delete_account"}, r"`live` is a list\nWrite: live=\['delete_account'\]"),
        ({"allow_connect": ["db.internal"]}, "'db.internal' is not an address"),
        ({"allow_connect": ["*:80"]}, "'\\*:80' names no host"),
        ({"allow_write": Path("out")}, "`allow_write` is a list"),
    ],
)
def test_what_cannot_be_allowed_is_a_usage_error(make_case: MakeCase, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rk.replay(make_case(), agent, **given)


def test_a_world_cannot_be_made_of_a_case_that_asks_for_more_than_is_allowed(make_case: MakeCase) -> None:
    case = rk.load_case(make_case(match=HOSTILE))

    with pytest.raises(UsageError, match="To allow it: --live delete_account"):
        world_of(case)
    assert world_of(with_consent(case, Consent(live=("delete_account",)))).rules.live == ("delete_account",)


def test_what_a_case_names_beyond_the_consent_is_not_in_its_world(make_case: MakeCase) -> None:
    case = rk.load_case(make_case(match={"live": ["delete_account"], "network": ["db.internal"]}))

    rules = world_of(with_consent(case, Consent(live=("search",), connect=("db.internal:5432",)))).rules

    assert rules.live == ("search",)
    assert rules.network == ("db.internal:5432",)


def test_no_file_can_hold_consent(make_case: MakeCase) -> None:
    case = rk.load_case(make_case(match=HOSTILE))
    text = dump_case(with_consent(case, Consent(live=("delete_account",), connect=("db:1",), write=("/tmp",))))
    assert "consent" not in text
    assert text == dump_case(case)

    forged = make_case("forged", match=HOSTILE, consent={"live": ["delete_account"], "everything": True})
    with pytest.raises(InvalidFile, match="consent"):
        rk.load_case(forged)


@pytest.mark.parametrize("key", ["match", "tools", "models", "live", "consent"])
def test_a_golden_trace_cannot_ask_for_anything_live(own_directory: Path, key: str) -> None:
    file = own_directory / "shop.golden.json"
    with rk.record("shop", input="hello", store=own_directory / "store.db") as run:
        run.output = "kept"
    with rk.Store.open(own_directory / "store.db", read_only=True) as store:
        write_golden(file, golden_of(store.load(run.id)))
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "golden": {**document["golden"], key: "live"}}), encoding="utf-8")

    with pytest.raises(InvalidFile, match=f"unknown key '{key}'"):
        check_golden(file, agent)


def test_a_golden_trace_is_checked_with_the_addresses_that_the_caller_allows(own_directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def connect(question: str) -> str:
            with socket.create_connection(address, timeout=5):
                return "connected"

        with rk.record("shop", input="hello", store=own_directory / "store.db") as run:
            run.output = connect("hello")
        with rk.Store.open(own_directory / "store.db", read_only=True) as store:
            golden = golden_of(store.load(run.id))

        assert not check_golden(golden, connect).passed
        assert check_golden(golden, connect, allow_connect=[f"{address[0]}:{address[1]}"]).passed


def test_a_recorded_run_is_judged_whatever_its_case_asks_for(make_case: MakeCase) -> None:
    """It does nothing for real: `upgrade` proves older cases with it."""
    case = rk.load_case(make_case(match=HOSTILE, observed=[{"status_is": "success"}]))

    (result,) = check_case(case, TraceRun(id="r1", name="agent", status=RunStatus.SUCCESS), dry_run=True).results

    assert "refused" not in [deviation.kind for deviation in result.deviations]
    assert result.consent == NO_CONSENT


def test_a_live_world_is_nobodys_request() -> None:
    case = live_case("hello")

    assert refused_in(case) == ()
    assert world_of(case).rules.network == ("*",)


@pytest.mark.parametrize(
    ("request_", "allowed", "covered"),
    [
        ("db.internal", "db.internal:5432", True),
        ("DB.internal", "db.INTERNAL:5432", True),
        ("db.internal:5432", "db.internal:5432", True),
        ("db.internal:5433", "db.internal:5432", False),
        ("internal", "db.internal:5432", False),
        ("[::1]:80", "[::1]:80", True),
        ("::1", "[::1]:80", True),
        ("*", "db.internal:5432", False),
        ("/run/db.sock", "/run/db.sock", True),
        ("/run/db.sock", "/run/other.sock", False),
    ],
)
def test_an_address_covers_a_host_of_the_same_name(request_: str, allowed: str, covered: bool) -> None:
    (request,) = requests_of(Scenario(match=MatchRules(network=(request_,))))

    assert request.is_covered_by(Consent(connect=(allowed,))) is covered
    assert request.is_covered_by(EVERYTHING)
    assert not request.is_covered_by(NO_CONSENT)


@pytest.mark.parametrize(
    ("name", "allowed", "covered"),
    [
        ("pay", "pay", True),
        ("pay", "*", True),
        ("pay", "models", False),
        ("*", "*", True),
        ("*", "pay", False),
        ("models", "models", True),
    ],
)
def test_a_name_covers_itself_and_a_star_everything(name: str, allowed: str, covered: bool) -> None:
    (request,) = requests_of(Scenario(match=MatchRules(on_miss=OnMiss.LIVE, live=(name,))))

    assert request.is_covered_by(Consent(live=(allowed,))) is covered


def test_flags_can_be_pasted_into_a_shell() -> None:
    scenario = Scenario(match=MatchRules(on_miss=OnMiss.LIVE, live=("$(rm -rf ~)",), network=("a; b",)))

    text = refusal_text(requests_of(scenario))

    assert text.splitlines()[-1] == "To allow it: --live '$(rm -rf ~)' --allow-connect 'a; b:PORT'"


def test_either_of_two_consents_counts() -> None:
    first, second = Consent(live=("a", "b"), write=("/x",)), Consent(live=("b", "c"), connect=("db:1",))

    assert first | second == Consent(live=("a", "b", "c"), connect=("db:1",), write=("/x",))
    assert msgspec.json.encode(NO_CONSENT) == b"{}"
