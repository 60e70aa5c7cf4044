"""The launcher: the environment that the processes of a program find."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

import pytest

from replaykit.handlers.replay.world import World
from replaykit.model.events import Exchange, LlmCall, WireInfo
from replaykit.model.matching import MatchRules, OnMiss, ToolMode
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import INJECT_DIRECTORY, is_closed, launch_environment
from replaykit.programs.plan import Mode, ProgramPlan, read_plan
from replaykit.programs.proxy_addresses import UPSTREAM


def plan(mode: Mode, place: Path) -> ProgramPlan:
    return ProgramPlan(mode=mode, run_id="r1", store=str(place / "parts.db"))


def variables(
    place: Path, world: World | None = None, launch_options: LaunchOptions | None = None, **environment: str
) -> dict[str, str]:
    mode = Mode.RECORD if world is None else Mode.REPLAY
    with launch_environment(plan(mode, place), world, place, launch_options or LaunchOptions(), environment) as launch:
        return launch.environment


def proxy_of(variables: dict[str, str]) -> tuple[str, str]:
    """The place of the proxy, and the token that it asks for."""
    credentials, _, place = variables["REPLAYKIT_PROXY"].removeprefix("http://").partition("@")
    return place, credentials.removeprefix("replaykit:")


def wired(path: str, upstream: str = "openai") -> LlmCall:
    wire = WireInfo(method="POST", url="https://api.openai.com/v1/chat/completions", headers=((UPSTREAM, upstream),))
    return LlmCall(seq=0, name="m", path=path, wire=wire)


def test_a_recorded_program_is_led_to_the_proxy_and_to_the_start_up_file(tmp_path: Path) -> None:
    found = variables(tmp_path, PYTHONPATH="mine", MY_OWN="kept")

    place, token = proxy_of(found)
    assert found["OPENAI_BASE_URL"] == f"http://{place}/{token}/openai"
    assert found["PYTHONPATH"] == f"{INJECT_DIRECTORY}{os.pathsep}mine"
    assert (found["REPLAYKIT_SESSION"], found["REPLAYKIT_RECORDING"]) == (str(tmp_path), "r1")
    assert found["MY_OWN"] == "kept"
    assert not {"HTTPS_PROXY", "OPENAI_API_KEY"} & found.keys(), "what is not its own affair is left alone"


def test_the_plan_says_what_the_proxy_stands_in_front_of(tmp_path: Path) -> None:
    found = variables(tmp_path, launch_options=LaunchOptions(upstreams={"crm": "http://10.0.0.5"}))

    told, world = read_plan(tmp_path)
    place, token = proxy_of(found)
    assert (told.proxy, told.token) == (f"http://{place}", token)
    assert told.upstreams["crm"] == "http://10.0.0.5"
    assert world is None


def test_without_a_proxy_no_variable_leads_anywhere(tmp_path: Path) -> None:
    found = variables(tmp_path, launch_options=LaunchOptions(proxy=False))

    assert set(found) == {"PYTHONPATH", "REPLAYKIT_SESSION", "REPLAYKIT_RECORDING"}


def test_a_proxy_of_the_users_own_is_not_asked_for_this_machine(tmp_path: Path) -> None:
    found = variables(tmp_path, HTTPS_PROXY="http://corporate:3128", NO_PROXY="intranet")

    assert found["HTTPS_PROXY"] == "http://corporate:3128"
    assert found["NO_PROXY"] == "intranet,127.0.0.1,localhost,::1"


def test_in_a_replay_every_way_out_leads_to_the_proxy(tmp_path: Path) -> None:
    found = variables(tmp_path, World(case_id="c1"), HTTPS_PROXY="http://corporate:3128")

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        assert found[name] == found["REPLAYKIT_PROXY"]
    assert "127.0.0.1" in found["no_proxy"]
    assert "REPLAYKIT_RECORDING" not in found
    assert found["NODE_OPTIONS"] == f'--require "{INJECT_DIRECTORY / "guard.cjs"}"'


def test_what_the_user_has_node_load_is_loaded_after_the_guard(tmp_path: Path) -> None:
    found = variables(tmp_path, World(case_id="c1"), NODE_OPTIONS="--max-old-space-size=512")

    assert found["NODE_OPTIONS"].endswith('guard.cjs" --max-old-space-size=512')
    assert "NODE_OPTIONS" not in variables(tmp_path / "recorded")


@pytest.mark.parametrize(
    "world",
    [
        World(case_id="c1", models=ToolMode.LIVE),
        World(case_id="c1", tools={"pay": ToolMode.LIVE}),
        World(case_id="c1", rules=MatchRules(on_miss=OnMiss.LIVE, live=("pay",))),
        World(case_id="c1", rules=MatchRules(network=("db.example",))),
    ],
)
def test_a_replay_in_which_something_is_live_leaves_the_ways_open(tmp_path: Path, world: World) -> None:
    assert not is_closed(world)
    found = variables(tmp_path, world)
    assert "HTTPS_PROXY" not in found
    assert ("NODE_OPTIONS" in found) == bool(world.rules.network), "Node is told which hosts they are"
    assert found.get("REPLAYKIT_NETWORK", "db.example") == "db.example"


def test_a_replay_leads_to_what_the_recording_used_and_makes_up_its_keys(tmp_path: Path) -> None:
    world = World(case_id="c1", calls=(wired("/!proxy", "azure_openai"),))

    found = variables(tmp_path, world)

    place, token = proxy_of(found)
    assert found["AZURE_OPENAI_ENDPOINT"] == f"http://{place}/{token}/azure_openai"
    assert found["AZURE_OPENAI_API_KEY"]


def test_python_processes_that_did_not_record_themselves_are_not_served_in_themselves(tmp_path: Path) -> None:
    at_proxy, inside = wired("/!proxy"), Exchange(seq=1, name="x", path="/~job#0")

    told = []
    for number, calls in enumerate([(at_proxy,), (at_proxy, inside), ()]):
        (tmp_path / str(number)).mkdir()
        assert "PYTHONPATH" in variables(tmp_path / str(number), World(case_id="c1", calls=calls))
        told.append(read_plan(tmp_path / str(number))[0].in_process)

    assert told == [False, True, True]


def test_the_server_of_a_replay_is_made_when_somebody_comes(tmp_path: Path) -> None:
    with launch_environment(plan(Mode.REPLAY, tmp_path), World(case_id="c1"), tmp_path, LaunchOptions(), {}) as launch:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{launch.environment['OPENAI_BASE_URL']}/models", timeout=20)

    assert caught.value.code == 409
    caught.value.close()
