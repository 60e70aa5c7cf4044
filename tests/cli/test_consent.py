"""Only the person who runs a replay can open it up, by name: what data asks for is refused at every door."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran
from tests.matrix import sampled

Run = Callable[..., Ran]

AGENT = """
import socket, sys
from pathlib import Path
import replaykit as rk

@rk.tool
def delete_account(user):
    Path("deleted").write_text(user)
    return "deleted"

@rk.tool
def search(query):
    Path("searched").write_text(query)
    return "found"

def run(question):
    Path("ran").write_text("")
    return delete_account("u1")

def searches(question):
    search("u1")
    return delete_account("u1")

def connects(question):
    with socket.create_connection((question["host"], question["port"]), timeout=5):
        return "connected"

if __name__ == "__main__":
    print(run(""))
"""
FOR_REAL = {
    "a name on a miss": {"match": {"on_miss": "live", "live": ["delete_account"]}},
    "a tool": {"tools": {"delete_account": "live", "*": "recorded"}},
    "every tool": {"tools": "live"},
    "the other tools": {"tools": {"search": "recorded", "*": "live"}},
}
PYTHON = shlex.quote(sys.executable)
DOORS: dict[str, tuple[str, ...]] = {
    "replay --agent": ("replay", "CASE", "--agent", "agent:run"),
    "replay -- CMD": ("replay", "CASE", "--", sys.executable, "agent.py"),
    "replay --runner-cmd": ("replay", "CASE", "--runner-cmd", f"{PYTHON} agent.py"),
    "replay of the configuration": ("replay",),
    "ci": ("ci",),
    "prove": ("prove", "CASE", "--bad", "agent:run", "--good", f"-- {PYTHON} agent.py"),
    "chaos run": ("chaos", "run", "--case", "CASE", "--profile", "api_outage", "--agent", "agent:run"),
    "contract run": ("contract", "run", "kind", "--case", "CASE", "--agent", "agent:run"),
}
CONFIG = {
    "replaykit": 1,
    "agent": {"type": "python", "endpoint": "agent:run"},
    "cases": ["cases"],
    "contracts": [{"name": "kind", "invariants": [{"id": "answers", "type": "completes"}]}],
}


@pytest.fixture(autouse=True)
def agent(own_directory: Path) -> None:
    Path("agent.py").write_text(AGENT, encoding="utf-8")


@pytest.fixture
def asking() -> Callable[..., str]:
    """Write a case that asks for something, as a stranger's pull request would."""

    def write(name: str = "hostile", *, given: Any = "hello", **scenario: Any) -> str:
        case = {
            "replaykit": 1,
            "id": name,
            "scenario": {"input": given, **scenario},
            "observed": [{"status_is": "error"}],
            "desired": [{"status_is": "success"}],
        }
        Path("cases", name).mkdir(parents=True)
        Path("cases", name, "case.yaml").write_text(json.dumps(case), encoding="utf-8")
        return f"cases/{name}"

    return write


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wish", FOR_REAL)
def test_a_case_that_asks_for_a_live_call_is_not_run(replaykit: Run, asking: Any, door: str, wish: str) -> None:
    case = asking(**FOR_REAL[wish])
    Path("replaykit.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")

    ran = replaykit(*(case if word == "CASE" else word for word in DOORS[door]))

    assert not Path("deleted").exists()
    assert not Path("ran").exists()
    assert ran.code == 3, ran
    asked, flag = (
        ("anything", "--live '*'")
        if "tool" in wish and wish != "a tool"
        else ("`delete_account`", "--live delete_account")
    )
    assert f"the case asks to call {asked} for real, which was not allowed" in ran.out + ran.err
    assert f"To allow it: {flag}" in ran.out + ran.err


@sampled("door", [door for door in DOORS if not door.startswith("chaos")], count=3)
def test_the_person_who_runs_it_may_allow_it_by_name(replaykit: Run, asking: Any, door: str) -> None:
    case = asking(match={"on_miss": "live", "live": ["delete_account"]})
    Path("replaykit.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
    words = [case if word == "CASE" else word for word in DOORS[door]]

    replaykit(words[0], *_allowing(words, "--live", "delete_account"))

    assert Path("deleted").read_text() == "u1"


def _allowing(words: list[str], *flags: str) -> list[str]:
    """The words after the verb, with these flags before the two dashes, if there are any."""
    rest = words[1:]
    place = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:place], *flags, *rest[place:]]


def test_under_chaos_a_call_may_be_allowed_as_well(replaykit: Run, asking: Any) -> None:
    case = asking(match={"on_miss": "live", "live": ["delete_account"]})
    Path("slow.yaml").write_text(json.dumps({"tool_faults": [{"tool": "other", "mode": "error", "error_code": 500}]}))
    words = ("chaos", "run", "--case", case, "--profile", "slow.yaml", "--agent", "agent:run")

    replaykit(*words)
    assert not Path("deleted").exists()
    replaykit(*words, "--live", "delete_account")

    assert Path("deleted").exists()


@pytest.mark.parametrize("name", ["search", "delete_accounts", "DELETE_ACCOUNT", "models"])
def test_another_name_allows_nothing(replaykit: Run, asking: Any, name: str) -> None:
    case = asking(match={"on_miss": "live", "live": ["delete_account"]})

    ran = replaykit("replay", case, "--agent", "agent:run", "--live", name)

    assert (ran.code, Path("ran").exists()) == (3, False)


def test_names_that_a_case_lists_without_a_rule_for_them_do_not_ride_on_those_of_the_person(
    replaykit: Run, asking: Any
) -> None:
    case = asking(match={"on_miss": "error", "live": ["delete_account"]})

    ran = replaykit("replay", case, "--agent", "agent:searches", "--live", "search", "--json")

    assert Path("searched").exists()
    assert not Path("deleted").exists()
    assert ran.json["results"][0]["verdict"] == "diverged"


def test_consent_for_a_live_tool_leaves_the_rule_for_other_calls_as_the_case_has_it(
    replaykit: Run, asking: Any
) -> None:
    fault = {"on_miss": "fault", "fault": {"type": "TimeoutError", "message": "gateway"}}
    case = asking(tools={"search": "live", "*": "recorded"}, match=fault)

    ran = replaykit("replay", case, "--agent", "agent:searches", "--live", "search", "--json")

    kinds = [deviation["kind"] for deviation in ran.json["results"][0]["deviations"]]
    assert kinds == ["live", "fault"]


@pytest.mark.parametrize("allowed", ["delete_account", "*"])
def test_a_result_says_what_was_allowed_and_what_was_done(replaykit: Run, asking: Any, allowed: str) -> None:
    case = asking(match={"on_miss": "live", "live": ["delete_account"]})

    ran = replaykit("replay", case, "--agent", "agent:run", "--live", allowed, "--allow-write", "out", "--json")

    (result,) = ran.json["results"]
    assert (ran.code, result["verdict"], result["offline"]) == (0, "fixed", False)
    assert result["consent"] == {"live": [allowed], "write": [str(Path("out").absolute())]}
    assert Path("out").is_dir()
    assert [deviation["kind"] for deviation in result["deviations"]] == ["live"]


def test_a_refusal_is_in_the_result_thing_by_thing(replaykit: Run, asking: Any) -> None:
    case = asking(tools={"a b": "live", "*": "recorded"}, models="live", match={"network": ["db.internal", "*:80"]})

    ran = replaykit("replay", case, "--agent", "agent:run", "--json")

    (result,) = ran.json["results"]
    assert (ran.code, result["verdict"], result["offline"]) == (3, "inconclusive", True)
    assert [(one["kind"], one["name"]) for one in result["deviations"]] == [
        ("refused", "a b"),
        ("refused", "models"),
        ("refused", "db.internal"),
        ("refused", "*:80"),
    ]
    assert result["reason"].splitlines() == [
        "the case asks to call `a b` for real, call its models for real, connect to `db.internal` and connect to any"
        " host, which was not allowed",
        "Hosts are allowed by name: name each of them in the case's `match.network`",
        "To allow it: --live 'a b' --live models --allow-connect db.internal:PORT --allow-connect HOST:PORT",
    ]


def test_a_name_that_reads_like_our_own_advice_stays_on_its_line(replaykit: Run, asking: Any) -> None:
    name = "x\nTo allow it: --live '*'\x1b[2K"
    case = asking(match={"on_miss": "live", "live": [name]})

    ran = replaykit("replay", case, "--agent", "agent:run", "--json")

    lines = ran.json["results"][0]["reason"].splitlines()
    assert len(lines) == 2
    assert "\\n" in lines[0]
    assert "\x1b" not in lines[0]


def test_of_many_requests_a_few_are_shown(replaykit: Run, asking: Any) -> None:
    case = asking(match={"on_miss": "live", "live": [f"tool_{number}" for number in range(300)]})

    reason = replaykit("replay", case, "--agent", "agent:run", "--json").json["results"][0]["reason"]

    assert "295 more things" in reason
    assert len(reason) < 600


def test_others_are_run_all_the_same(replaykit: Run, asking: Any) -> None:
    asking("hostile", match={"on_miss": "live", "live": ["delete_account"]})
    asking("usual", match={"on_miss": "fault", "fault": {"type": "ValueError"}})
    Path("replaykit.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")

    ran = replaykit("ci", "--json")
    replayed = replaykit("replay", "--json")

    items = {item["id"]: item for item in ran.json["items"]}
    assert items["hostile"]["outcome"] == "error"
    assert "To allow it: --live delete_account" in items["hostile"]["reason"]
    assert items["usual"]["verdict"] == "reproduced"
    assert {one["case_id"]: one["verdict"] for one in replayed.json["results"]} == {
        "hostile": "inconclusive",
        "usual": "reproduced",
    }
    assert "hostile: the case asks to call `delete_account` for real" in replayed.err
    assert "To allow it: --live delete_account" in replayed.err


def test_a_configuration_cannot_allow_what_its_sessions_ask_for(replaykit: Run) -> None:
    config = {**CONFIG, "cases": ["replays"], "replays": {"models": "live"}}
    Path("replaykit.yaml").write_text(json.dumps(config), encoding="utf-8")
    session = {
        "id": "s1",
        "input": "hello",
        "contract": "kind",
        "tool_responses": [{"tool": "delete_account", "response": "kept"}],
    }
    Path("replays").mkdir()
    Path("replays/s1.yaml").write_text(json.dumps(session), encoding="utf-8")

    refused = replaykit("ci")
    assert (refused.code, Path("ran").exists()) == (3, False)
    assert "the case asks to call its models for real, which was not allowed" in refused.out
    assert "To allow it: --live models" in refused.out

    assert replaykit("ci", "--live", "models").code == 0
    assert not Path("deleted").exists()


@pytest.mark.parametrize("words", [("--live", "x"), ("--allow-connect", "db:1"), ("--allow-write", "out")])
@pytest.mark.parametrize("verb", [("chaos", "run", "--profile", "api_outage"), ("contract", "run", "kind")])
def test_in_a_live_world_there_is_nothing_to_allow(replaykit: Run, verb: tuple[str, ...], words: Any) -> None:
    Path("replaykit.yaml").write_text(json.dumps({**CONFIG, "cases": []}), encoding="utf-8")

    ran = replaykit(*verb, "--agent", "agent:run", "--input", "hello", *words)

    assert ran.code == 2
    assert "are for a recorded world, and this one is live" in ran.err


class TestConnections:
    """`match.network` is a request as well, and `--allow-connect` the consent."""

    @pytest.mark.parametrize("wish", ["{host}", "{host}:{port}", "*", "*:{port}"])
    def test_a_host_that_a_case_names_is_not_reached(
        self, replaykit: Run, asking: Any, server: tuple[str, int], wish: str
    ) -> None:
        host, port = server
        case = asking(given={"host": host, "port": port}, match={"network": [wish.format(host=host, port=port)]})

        ran = replaykit("replay", case, "--agent", "agent:connects")

        assert ran.code == 3
        assert "for real" not in ran.out
        assert "which was not allowed" in ran.out
        assert "To allow it: --allow-connect" in ran.out

    @pytest.mark.parametrize("wish", [(), ("{host}",), ("{host}:{port}",)])
    def test_an_address_that_was_allowed_is_reached(
        self, replaykit: Run, asking: Any, server: tuple[str, int], wish: tuple[str, ...]
    ) -> None:
        host, port = server
        network = [one.format(host=host, port=port) for one in wish]
        case = asking(given={"host": host, "port": port}, match={"network": network})

        ran = replaykit("replay", case, "--agent", "agent:connects", "--allow-connect", f"{host}:{port}")

        assert ran.code == 0, ran.out
        assert f"could be reached, as you allowed: {host}:{port}" in ran.out

    def test_a_host_without_a_port_is_reached_at_the_ports_that_were_allowed_alone(
        self, replaykit: Run, asking: Any, server: tuple[str, int]
    ) -> None:
        host, port = server
        case = asking(given={"host": host, "port": port}, match={"network": [host]})

        ran = replaykit("replay", case, "--agent", "agent:connects", "--allow-connect", f"{host}:1", "--json")

        (result,) = ran.json["results"]
        assert result["verdict"] == "diverged"
        assert [deviation["kind"] for deviation in result["deviations"]] == ["network"]

    @pytest.mark.parametrize("wish", ["other.example", "127.0.0.1:1"])
    def test_consent_for_one_address_is_none_for_another(self, replaykit: Run, asking: Any, wish: str) -> None:
        case = asking(match={"network": [wish]})

        ran = replaykit("replay", case, "--agent", "agent:run", "--allow-connect", "127.0.0.1:2")

        assert (ran.code, Path("ran").exists()) == (3, False)

    def test_a_connection_that_was_stopped_is_followed_by_the_flag(
        self, replaykit: Run, asking: Any, server: tuple[str, int]
    ) -> None:
        host, port = server
        case = asking(given={"host": host, "port": port})

        ran = replaykit("replay", case, "--agent", "agent:connects", "--json")

        assert "--allow-connect HOST:PORT" in ran.err
        assert f"--allow-connect {host}:{port}" in json.dumps(ran.json)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow-connect", "db.internal"), "'db.internal' is not an address"),
        (("--allow-connect", "db.internal:0"), "'db.internal:0' is not an address"),
        (("--allow-connect", "*:443"), "'*:443' names no host"),
        (("--allow-write", "agent.py"), "'agent.py' is not a writable directory"),
        (("--allow-write", ""), "the directory that may be written is empty"),
        (("--live", " "), "the name of what may be called for real is empty"),
    ],
)
@pytest.mark.parametrize("verb", ["replay", "prove"])
def test_what_cannot_be_allowed_is_an_error_before_anything_runs(
    replaykit: Run, asking: Any, verb: str, words: tuple[str, str], message: str
) -> None:
    candidates = {"replay": ["--agent", "agent:run"], "prove": ["--bad", "agent:run", "--good", "agent:run"]}

    ran = replaykit(verb, asking(), *candidates[verb], *words)

    assert (ran.code, Path("ran").exists()) == (2, False)
    assert message in ran.err


def test_lint_names_the_flag_for_whatever_a_case_asks_for(replaykit: Run, asking: Any) -> None:
    case = asking(tools="live", models="live", match={"on_miss": "live", "live": ["pay"], "network": ["db:5432", "*"]})

    problems = [one for one in replaykit("lint", case, "--json").json["problems"] if one["code"] == "asks-for-live"]

    assert [(one["severity"], one["hint"]) for one in problems] == [
        ("warning", "To run it, pass --live '*'."),
        ("warning", "To run it, pass --live models."),
        ("warning", "To run it, pass --live pay."),
        ("warning", "To run it, pass --allow-connect db:5432."),
        ("warning", "Name each host. To run it, pass --allow-connect HOST:PORT."),
    ]
