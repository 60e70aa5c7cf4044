"""What is held still around a whole program: its clock, chance and variables; and the network, which is closed."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.commands import run_here

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.candidates.worlds import left_unset, with_consent, with_pins, world_of
from replaykit.cases.scaffold import scaffold
from replaykit.errors import UsageError
from replaykit.model.isolation import Consent
from replaykit.model.run import TraceRun
from replaykit.programs.plan import new_pins, variables_of_pins
from replaykit.programs.recording import Recorded, record_program
from replaykit.store.sqlite import SQLiteStore

PROGRAM = """
import json, os, random, secrets, sys, time, uuid
import replaykit as rk

told = {
    "random": random.random(),
    "uuid": str(uuid.uuid4()),
    "key": secrets.token_hex(8),
    "again": str(uuid.uuid4()),
    "set": list({"one", "two", "three", "four", "five"}),
    "time": time.time(),
    "zone": time.strftime("%Z", time.localtime(0)),
    "flag": os.environ.get("FEATURE", ""),
}

@rk.tool
def tell():
    return told

tell()
print(json.dumps(told))
"""

FORKS = """
import json, os, random, sys, uuid
import replaykit as rk

@rk.tool
def draw(who):
    return {"who": who, "uuid": str(uuid.uuid4()), "random": random.random()}

read, write = os.pipe()
child = os.fork()
if not child:
    os.write(write, json.dumps(draw("child")).encode())
    sys.exit(0)
os.waitpid(child, 0)
print(json.dumps([draw("parent"), json.loads(os.read(read, 10_000))]))
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONHASHSEED", "TZ", "FEATURE"):
        monkeypatch.delenv(name, raising=False)


def recorded(text: str, **options: Any) -> Recorded:
    Path("agent.py").write_text(text)
    with SQLiteStore.open("store.db") as store, open("printed.txt", "wb") as out:
        return record_program([sys.executable, "agent.py"], store, out=out.fileno(), **options)


def replayed(case: rk.ReplayCase) -> rk.ReplayResult:
    return rk.replay(case, CommandCandidate([sys.executable, "agent.py"]), timeout_s=60, evidence="evidence")


def output(run: TraceRun | None) -> Any:
    assert run is not None
    return json.loads(run.output)


def test_chance_and_the_order_of_sets_are_drawn_again_and_the_clock_stands_where_it_began() -> None:
    run = recorded(PROGRAM).run
    case = scaffold(run, "cases/agent")
    first, again = output(run), output(replayed(case).run)

    assert [again[name] for name in ("random", "uuid", "again", "set")] == [
        first[name] for name in ("random", "uuid", "again", "set")
    ]
    assert first["uuid"] != first["again"]
    assert again["time"] == pytest.approx(run.started_at, abs=0.001)
    assert first["time"] > run.started_at


def test_a_key_that_is_made_in_a_recording_is_none_that_the_seed_gives_away() -> None:
    case = scaffold(recorded(PROGRAM).run, "cases/agent")
    first, second = output(replayed(case).run), output(replayed(case).run)
    recorded_key = json.loads(Path("printed.txt").read_text())["key"]

    assert first["key"] == second["key"] != recorded_key


def test_a_call_with_a_key_of_the_programs_own_making_cannot_be_compared() -> None:
    run = recorded(
        """
import secrets
import replaykit as rk

@rk.tool
def log_in(token):
    return "no"

log_in(secrets.token_hex(16))
raise SystemExit("not logged in")
"""
    ).run
    result = replayed(scaffold(run, "cases/agent"))

    assert run.chance.not_held == ("secrets",)
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "another random key" in result.reason


def test_another_recording_draws_something_else() -> None:
    assert output(recorded(PROGRAM).run)["uuid"] != output(recorded(PROGRAM).run)["uuid"]


def test_a_forked_child_draws_its_own_and_the_same_again() -> None:
    run = recorded(FORKS).run
    parent, child = output(run)

    assert parent["uuid"] != child["uuid"]
    assert parent["random"] != child["random"]
    again = replayed(with_tools_done(scaffold(run, "cases/agent")))
    assert output(again.run) == [parent, child]


def with_tools_done(case: rk.ReplayCase) -> rk.ReplayCase:
    """The case with its tools done for real, so that what they draw is drawn."""
    file = case.directory / "case.yaml"
    file.write_text(file.read_text().replace("tools: recorded", "tools: live"))
    return with_consent(rk.load_case(case.directory), Consent(live=("*",)))


def test_a_replay_elsewhere_has_the_recordings_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    run = recorded(PROGRAM).run
    monkeypatch.setenv("TZ", "UTC")

    assert output(run)["zone"] == "JST"
    assert output(replayed(scaffold(run, "cases/agent")).run)["zone"] == "JST"


def test_the_users_own_hash_seed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")

    assert new_pins(os.environ).environment["PYTHONHASHSEED"] == "7"
    assert variables_of_pins(new_pins(os.environ))["PYTHONHASHSEED"] == "7"


def test_a_variable_of_a_case_is_set_only_where_whoever_runs_it_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEATURE", "on")
    run = recorded(PROGRAM, pin_env=["FEATURE"]).run
    monkeypatch.delenv("FEATURE")
    case = scaffold(run, "cases/agent")

    assert left_unset([case]) == ["FEATURE"]
    assert output(replayed(case).run)["flag"] == ""
    assert output(replayed(with_pins(case, trusted=["FEATURE"])).run)["flag"] == "on"


def test_a_case_cannot_make_a_program_load_code() -> None:
    Path("case.yaml").write_text("replaykit: 1\nid: x\nscenario: {environment: {LD_PRELOAD: /x.so, TZ: UTC}}\n")

    assert world_of(rk.load_case("case.yaml")).pins.environment == {"TZ": "UTC"}


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "DB_PASSWORD", "SENTRY_DSN", "AUTHOR_TOKEN", "AWS_SESSION"])
def test_a_value_that_looks_like_a_secret_is_not_written_down(name: str) -> None:
    with pytest.raises(UsageError, match="looks like a secret"):
        new_pins({name: "x"}, [name])


def test_a_variable_that_is_not_set_cannot_be_pinned() -> None:
    with pytest.raises(UsageError, match="NOWHERE is not set"):
        new_pins({}, ["NOWHERE"])


def test_nothing_is_held_where_nothing_is_to_be() -> None:
    run = recorded(PROGRAM, pin=False).run
    case = scaffold(run, "cases/agent")

    assert (case.scenario.seed, case.scenario.environment) == (None, ())
    loose = with_pins(scaffold(recorded(PROGRAM).run, "cases/held"), pin=False)
    before = dt.datetime.now(dt.UTC).timestamp()
    first, again = output(replayed(loose).run), output(replayed(loose).run)
    assert first["uuid"] != again["uuid"]
    assert first["time"] >= before


def replaykit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, "--", sys.executable, "agent.py")


@pytest.mark.exhaustive
def test_the_options_say_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEATURE", "on")
    Path("agent.py").write_text(PROGRAM)
    run = json.loads(replaykit("record", "--json", "--pin-env", "FEATURE").stdout)["runs"][0]
    monkeypatch.delenv("FEATURE")
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        scaffold(store.load(run["id"]), "cases/agent")

    assert run["metadata"]["program"]["environment"]["FEATURE"] == "on"
    assert "--pin-env FEATURE sets it" in replaykit("replay", "cases/agent").stderr
    assert "--pin-env" not in replaykit("replay", "cases/agent", "--pin-env", "FEATURE").stderr
    assert "--pin-env" not in replaykit("replay", "cases/agent", "--no-pins").stderr


@pytest.mark.parametrize("verb", [("record",), ("replay", "case.yaml")])
def test_pinning_something_and_nothing_do_not_go_together(verb: tuple[str, ...]) -> None:
    Path("case.yaml").write_text("replaykit: 1\nid: x\n")
    both = replaykit(*verb, "--no-pins", "--pin-env", "A")

    assert both.returncode == 2
    assert "cannot be combined" in both.stderr


STRAY = """
import socket, sys
import replaykit as rk

@rk.tool
def ask(port):
    with socket.create_connection(("127.0.0.1", port)) as there:
        return there.recv(100).decode()

def phone_home(port):
    with socket.create_connection(("127.0.0.1", port)) as there:
        there.recv(100)

port = int(sys.argv[1])
print(ask(port))
try:
    phone_home(port)
except Exception as error:
    print(type(error).__name__)
"""


def serve(server: socket.socket, seen: list[object]) -> None:
    while True:
        try:
            connection, address = server.accept()
        except OSError:
            return
        seen.append(address)
        with connection:
            connection.sendall(b"hello")


def test_a_connection_that_no_call_accounts_for_is_stopped_and_named() -> None:
    Path("agent.py").write_text(STRAY)
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, seen), daemon=True).start()
        command = [sys.executable, "agent.py", str(server.getsockname()[1])]
        with SQLiteStore.open("store.db") as store, open("printed.txt", "wb") as out:
            run = record_program(command, store, out=out.fileno()).run
        assert run.output == "hello"
        asked = len(seen)
        result = rk.replay(scaffold(run, "cases/agent"), CommandCandidate(command), timeout_s=60, evidence="evidence")

        assert result.run is not None
        assert result.run.output == "hello\nLiveConnection"
        assert len(seen) == asked
    (stopped,) = [deviation for deviation in result.deviations if deviation.kind == "network"]
    assert "agent.py" in stopped.text
    assert "phone_home" in stopped.text
