"""Programs with MCP servers: recorded by their configuration files, and replayed with the servers dead."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from tests.commands import Ran, caller
from tests.commands import run_here as replaykit
from tests.matrix import sampled
from tests.programs.conftest import RESET, Asked, Upstream, completion, wait_for, whole

import replaykit as rk
from replaykit.cases.scaffold import scaffold
from replaykit.cli import cli
from replaykit.errors import UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.run import RunHeader
from replaykit.programs import process_startup
from replaykit.programs.file_swap import restore_swapped_file, swapped_file
from replaykit.programs.launch_options import ORIGINAL, LaunchOptions, replace_in_command, replace_in_environment
from replaykit.programs.launcher import launch_environment
from replaykit.programs.mcp.config import McpConfigs
from replaykit.programs.merge import load_process_logs, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.store.sqlite import SQLiteStore

AGENT = Path(__file__).with_name("mcp_agent.py")
SERVER = Path(__file__).parent / "mcp" / "scripted_server.py"
STDIO = {"command": sys.executable, "args": ["-I", str(SERVER)]}
DEAD = {"command": "no-such-server"}
LIBRARIES = ["httpx2", "urllib3", "aiohttp", "plain"]


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, upstream: Upstream) -> None:
    """A model and an MCP server that speaks HTTP, at one place; their answers hold what nobody can guess."""
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_BASE", "_API_KEY")) or name.startswith("REPLAYKIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    upstream.script = answers


def answers(asked: Asked) -> list[Any]:
    if asked.path.startswith("/v1/"):
        word = "".join(chr(ord("a") + byte % 26) for byte in os.urandom(8))  # no figure, which would need a source
        return [whole(completion(f"said {word}"))]
    message = json.loads(asked.body)
    if message["params"]["name"] == "die":
        return [RESET]
    result = {"content": [{"type": "text", "text": f"{message['params']['arguments']} {os.urandom(4).hex()}"}]}
    return [whole(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())]


def config(file: str = ".mcp.json", **servers: Any) -> str:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(json.dumps({"mcpServers": servers}, indent=2))
    return file


def agent(config: str, *words: str, library: str = "plain") -> list[str]:
    return [sys.executable, str(AGENT), config, library, *words]


def recorded(*command: str, options: tuple[str, ...] = ("--mcp-config", ".mcp.json")) -> Any:
    """What a recorded program was told."""
    done = replaykit("record", "--name", "trip", *options, "--", *command)
    assert done.returncode == 0, done.stderr
    scaffold(last_run(), "case")
    return json.loads(done.stdout)


def replayed(*command: str, options: tuple[str, ...] = (), code: int = 3) -> Any:
    """The result of a replay; nothing failed in the recordings here, so that one that goes well is inconclusive."""
    done = CliRunner().invoke(cli, ["replay", "case", "--json", *options, *(("--", *command) if command else ())])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)["results"][0]


@pytest.fixture(scope="module")
def asked_the_weather(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Where a program that asks the server `weather` was recorded and made a case, and what it was told."""
    directory = tmp_path_factory.mktemp("weather")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.delenv("REPLAYKIT_ISOLATION", raising=False)
        config(weather=STDIO)
        return directory, recorded(*agent(".mcp.json", "weather:Bern"))


@pytest.fixture
def weather(asked_the_weather: tuple[Path, Any], own_directory: Path) -> Any:
    """What such a program was told; its configuration, its store and its case are in the test's own directory."""
    directory, told = asked_the_weather
    shutil.copytree(directory, own_directory, dirs_exist_ok=True)
    return told


def last_run() -> rk.TraceRun:
    with SQLiteStore.open(".replaykit/store.db") as store:
        return store.load("trip")


@sampled("library", LIBRARIES, count=1)
def test_model_and_servers_are_one_run_and_are_replayed_dead_in_another_order(library: str, upstream: Upstream) -> None:
    config(weather=STDIO, maps={"url": f"{upstream.url}/mcp"})
    words = ["model:hello", "weather:Bern", "maps:Rome", "weather:Oslo", "maps:Paris", "model:bye"]

    told = recorded(*agent(".mcp.json", *words, library=library))
    run = last_run()
    upstream.close()
    config(weather=DEAD, maps={"url": f"{upstream.url}/mcp"})
    result = replayed(*agent(".mcp.json", *reversed(words), library=library))

    assert sorted(call.name for call in run.tool_calls) == ["maps.echo"] * 2 + ["weather.echo"] * 2
    assert len(run.llm_calls) == 2
    assert len(list(run.calls)) == len(words)  # nothing is written down twice
    assert result["deviations"] == []
    assert json.loads(result["run"]["output"]) == told


@pytest.mark.exhaustive
def test_a_program_of_another_language_is_served_as_well(upstream: Upstream) -> None:
    config(weather=STDIO, maps={"url": f"{upstream.url}/mcp"})
    command = [sys.executable, "-S", "-E", str(AGENT), ".mcp.json", "plain", "model:hello", "weather:Bern", "maps:Rome"]

    told = recorded(*command)
    upstream.close()
    result = replayed(*command)

    assert json.loads(result["run"]["output"]) == told
    assert {call.path.split("/")[1] for call in last_run().calls} == {"!proxy", "!mcp-weather#0"}
    shown = CliRunner().invoke(cli, ["show", "trip"]).stdout
    for name in ("weather.echo", "maps.echo", "small"):
        assert name in shown


@pytest.mark.exhaustive
def test_a_program_recorded_at_the_proxy_alone_is_served_there_too(upstream: Upstream) -> None:
    config(weather=STDIO)

    told = recorded(
        *agent(".mcp.json", "model:hello", "weather:Bern", library="httpx2"),
        options=("--no-inject", "--mcp-config", ".mcp.json"),
    )
    upstream.close()
    result = replayed(*agent(".mcp.json", "model:hello", "weather:Bern", library="httpx2"))

    assert json.loads(result["run"]["output"]) == told
    assert result["deviations"] == []


@pytest.mark.exhaustive
def test_a_model_recorded_in_process_is_served_to_another_language_beside_servers(upstream: Upstream) -> None:
    config(maps={"url": f"{upstream.url}/mcp"})

    told = recorded(*agent(".mcp.json", "model:hello", "maps:Bern", library="httpx2"))
    upstream.close()
    stranger = [sys.executable, "-S", "-E", str(AGENT), ".mcp.json", "plain", "model:hello", "maps:Bern"]

    assert json.loads(replayed(*stranger)["run"]["output"]) == told


def test_a_file_is_known_by_any_of_its_paths(tmp_path: Path) -> None:
    file = Path(config("conf/servers.json", weather=STDIO))
    Path("link").symlink_to("conf")
    files = {file: Path("other")}
    words = ["./conf/servers.json", str(file.absolute()), "link/servers.json", "-c=conf/../conf/servers.json"]
    others = ["servers.json", "conf", "", "=", "elsewhere/servers.json", "x\0servers.json", "servers.json=1"]

    assert replace_in_command(words, files) == ["other", "other", "other", "-c=other"]
    assert replace_in_command(others, files) == others
    assert replace_in_environment({"A": str(file), "B": "servers.json", "C": "a=conf/servers.json"}, files) == {
        "A": "other"
    }


@sampled("word", ["--servers={}", "AGENT_CONFIG", "REPLAYKIT_MCP_CONFIG"], count=1, start=1)
def test_the_file_is_found_in_the_command_and_in_variables(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config("conf/servers.json", weather=STDIO)
    monkeypatch.setenv("AGENT_CONFIG", file if word == "AGENT_CONFIG" else "elsewhere")
    given = word.format(file)

    told = recorded(*agent(given, "weather:Bern"), options=("--mcp-config", file))
    config(file, weather=DEAD)
    result = replayed(*agent(given, "weather:Bern"))

    assert [call.name for call in last_run().tool_calls] == ["weather.echo"]
    assert json.loads(result["run"]["output"]) == told
    assert last_run().metadata["program"]["mcp"] == {"configs": [file], "in_place": False}


def test_a_replay_takes_another_file(weather: Any) -> None:
    Path(".mcp.json").unlink()
    other = config("elsewhere/mcp.json", weather=DEAD)

    result = replayed(*agent(other, "weather:Bern"), options=("--mcp-config", other))
    runner = replayed(options=("--mcp-config", other, "--runner-cmd", " ".join(agent(other, "weather:Bern"))))

    assert json.loads(result["run"]["output"]) == weather
    assert json.loads(runner["run"]["output"]) == weather


def test_a_case_names_no_file_outside_of_the_working_directory(weather: Any, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}.json"
    trace = Path("case/source-trace.json")
    trace.write_text(trace.read_text().replace('".mcp.json"', json.dumps(f"../{outside.name}")))
    config(str(outside), weather={"command": "touch", "args": ["started"]})

    done = replaykit("replay", "case", "--", *agent("REPLAYKIT_MCP_CONFIG", "weather:Bern"))

    assert done.returncode == 2
    assert "from a file outside of the directory it ran in, which is not found from here" in done.stderr
    assert not Path("started").exists()


@sampled("server", ["weather", "maps"], count=1)
def test_a_miss_is_a_deviation_and_an_error_that_the_client_can_read(server: str, upstream: Upstream) -> None:
    config(weather=STDIO, maps={"url": f"{upstream.url}/mcp"})
    recorded(*agent(".mcp.json", f"{server}:Bern"))

    result = replayed(*agent(".mcp.json", f"{server}:Bern", f"{server}:Rome"), code=1)

    (error,) = [answer for answer in json.loads(result["run"]["output"]).values() if "code" in answer]
    assert error["code"] == -32050
    assert "Rome" in error["message"]
    assert [(told["kind"], told["name"]) for told in result["deviations"]] == [("missing", f"{server}.echo")]


def test_secrets_go_to_the_server_and_nowhere_else(upstream: Upstream) -> None:
    port = upstream.url.rpartition(":")[2]
    config(
        weather={**STDIO, "env": {"WEATHER_KEY": "s3cret-env"}},
        maps={"url": f"http://user:s3cret-pass@127.0.0.1:{port}/mcp?key=s3cret-query", "headers": {"x-own": "s3cret"}},
    )
    Path("spy.py").write_text(
        "import os, shutil, stat, runpy, sys\n"
        "place, file = os.environ['REPLAYKIT_SESSION'], os.environ['REPLAYKIT_MCP_CONFIG']\n"
        "shutil.copy(place + '/plan.json', sys.argv.pop(1))\n"
        "modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (file, os.path.dirname(file))]\n"
        "print(oct(modes[0]), oct(modes[1]), place, file=sys.stderr)\n"
        f"sys.argv.pop(0); runpy.run_path({str(AGENT)!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "spy.py", "{}", str(AGENT), ".mcp.json", "plain", "weather:Bern", "maps:Rome"]

    first = replaykit(
        "record", "--name", "trip", "--mcp-config", ".mcp.json", "--", *(w.format("plan-1") for w in command)
    )
    assert first.returncode == 0, first.stderr
    replaykit("scaffold", "trip", "--out", "case")
    second = replaykit("replay", "case", "--allow-write", "plans", "--", *(w.format("plans/2") for w in command))

    assert second.returncode == 3, second.stdout
    assert upstream.asked[0].headers["x-own"] == "s3cret"
    assert upstream.asked[0].headers["authorization"].startswith("Basic ")
    assert upstream.asked[0].path == "/mcp?key=s3cret-query"
    written = [path for path in Path().rglob("*") if path.is_file() and path.name != ".mcp.json"]
    assert Path("plans/2") in written
    for path in written:
        assert b"s3cret" not in path.read_bytes(), path
    assert "s3cret" not in first.stdout + first.stderr + second.stdout + second.stderr
    modes, _, place = first.stderr.partition(" /")
    assert modes.endswith("0o600 0o700")
    place = "/" + place.splitlines()[0]
    assert not Path(place).exists()


@sampled("server", ["weather", "maps"], count=1, start=1)
def test_a_server_that_dies_in_a_call_dies_there_again(server: str, upstream: Upstream) -> None:
    config(weather=STDIO, maps={"url": f"{upstream.url}/mcp"})
    told = recorded(*agent(".mcp.json", f"{server}:Bern", f"{server}:die/now", library="plain"))
    upstream.close()
    config(weather=DEAD, maps={"url": f"{upstream.url}/mcp"})

    again = agent(".mcp.json", f"{server}:Bern", f"{server}:die/now", library="plain")
    result = replayed(*again, options=("--expect", "reproduced"), code=0)

    assert json.loads(result["run"]["output"]) == told
    (call,) = [call for call in last_run().tool_calls if call.name == f"{server}.die"]
    assert call.error is not None
    assert call.error.type == "ServerGone"
    assert result["deviations"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, ".mcp.json: cannot be read: No such file"),
        ('{\n  "mcpServers": oops\n}', ".mcp.json:2: not JSON"),
        ('{"mcpServers": {}}', ".mcp.json: no MCP server is in it"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_before_the_program_starts(
    weather: Any, text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replaykit = caller(capsys, Ran)
    Path(".mcp.json").unlink()
    if text is not None:
        Path(".mcp.json").write_text(text)
    touch = [sys.executable, "-c", "open('started', 'w')"]

    first = replaykit("record", "--mcp-config", ".mcp.json", "--", *touch)
    second = replaykit("replay", "case", "--mcp-config", ".mcp.json", "--", *touch)

    for done in (first, second):
        assert done.code == 2
        assert said in done.err
    assert not Path("started").exists()
    assert [run["name"] for run in replaykit("runs", "--json").json["runs"]] == ["trip"]


def test_a_server_that_leads_nowhere_is_named_and_left_alone() -> None:
    config(weather=STDIO, lost={"url": "${NO_SUCH_VARIABLE}/mcp"}, asked={"url": "https://${input:host}/mcp"})

    done = replaykit("record", "--mcp-config", ".mcp.json", "--", *agent(".mcp.json", "weather:Bern"))

    assert done.returncode == 0
    assert ".mcp.json: where 'lost' is cannot be told from its URL; it is not recorded" in done.stderr
    assert "'asked'" in done.stderr


@pytest.mark.exhaustive
def test_two_files_may_name_one_server(upstream: Upstream) -> None:
    config("a.json", maps={"url": f"{upstream.url}/mcp"}, weather=STDIO)
    config("b.json", maps={"url": f"http://localhost:{upstream.port}/mcp"}, weather=STDIO)
    Path("both.py").write_text(
        "import subprocess, sys\n"
        "for file in sys.argv[2:]:\n"
        f"    subprocess.run([sys.executable, {str(AGENT)!r}, file, 'plain', 'maps:' + file[0], 'weather:' + file[0]],"
        " check=True)\n"
    )
    options = ("--mcp-config", "a.json", "--mcp-config", "b.json")

    first = replaykit("record", "--name", "trip", *options, "--", sys.executable, "both.py", "-", "a.json", "b.json")
    replaykit("scaffold", "trip", "--out", "case")
    places = [asked.headers["host"] for asked in upstream.asked]
    upstream.close()
    result = replayed(sys.executable, "both.py", "-", "b.json", "a.json")

    assert first.returncode == 0, first.stderr
    assert places == [f"127.0.0.1:{upstream.port}", f"localhost:{upstream.port}"]
    assert sorted(result["run"]["output"].splitlines()) == sorted(first.stdout.splitlines())
    assert result["deviations"] == []


def test_without_a_proxy_servers_that_speak_http_are_refused(upstream: Upstream) -> None:
    config(maps={"url": f"{upstream.url}/mcp"})

    done = replaykit("record", "--no-proxy", "--mcp-config", ".mcp.json", "--", *agent(".mcp.json", "maps:Bern"))

    assert done.returncode == 2
    assert "only the proxy can record them: 'maps'" in done.stderr
    assert not upstream.asked


def test_without_a_proxy_other_servers_are_recorded() -> None:
    config(weather=STDIO)

    recorded(*agent(".mcp.json", "weather:Bern"), options=("--no-proxy", "--mcp-config", ".mcp.json"))

    assert [call.name for call in last_run().tool_calls] == ["weather.echo"]


def test_servers_that_nobody_records_are_told_of() -> None:
    config(weather=STDIO)

    forgotten = replaykit("record", "--", *agent(".mcp.json", "weather:Bern"))
    unused = replaykit("record", "--mcp-config", ".mcp.json", "--", sys.executable, "-c", "print(1)")

    assert "the MCP servers in .mcp.json are not recorded; to record them: --mcp-config .mcp.json" in forgotten.stderr
    assert "no MCP server of .mcp.json was used" in unused.stderr
    assert "--mcp-config-in-place" in unused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "--mcp-config-in-place", "--", "true"], "which file should be replaced?"),
        (["replay", "case", "--mcp-config", ".mcp.json", "--agent", "a:b"], "--mcp-config is for programs"),
        (
            ["replay", "case", "--mcp-config", ".mcp.json", "--mcp-config-in-place", "-j", "2", "--", "true"],
            "runs cannot share it",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    config(weather=STDIO)
    Path("case").mkdir()

    done = caller(capsys, Ran)(*words)

    assert done.code == 2
    assert said in done.err


@contextmanager
def at_proxy(mode: Mode, world: World | None = None) -> Iterator[Callable[..., tuple[int, bytes]]]:
    """Asks the proxy, in this process, for what is below the address of the server `maps`."""
    place = Path(mode.value)
    place.mkdir()
    plan = ProgramPlan(mode=mode, run_id="r1", store=str(place / "parts.db"))
    with launch_environment(
        plan, world, place, LaunchOptions(extension=McpConfigs(files=(Path(".mcp.json"),)))
    ) as launch:
        given = json.loads(Path(launch.environment["REPLAYKIT_MCP_CONFIG"]).read_text())
        url = urlsplit(given["mcpServers"]["maps"]["url"])

        def ask(method: str, body: bytes = b"", *, beside: str = "/mcp", **headers: str) -> tuple[int, bytes]:
            path = url.path.removesuffix("/mcp") + beside
            connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            try:
                return answer.status, answer.read()
            finally:
                connection.close()

        yield ask


def call(city: str, number: int = 1) -> bytes:
    params = {"name": "echo", "arguments": {"city": city}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def test_the_proxy_answers_for_a_server_and_leaves_its_other_pages_alone(upstream: Upstream) -> None:
    config(maps={"url": f"{upstream.url}/mcp"})
    upstream.script = lambda asked: answers(asked) if asked.path == "/mcp" else [whole(b"a page", set_cookie="s3cret")]
    large = "x" * 3_000_000

    with at_proxy(Mode.RECORD) as ask:
        first = ask("POST", call(large))
        page = ask("POST", b"code=s3cret", beside="/token")
        foreign = ask("POST", call("Bern"), origin="https://elsewhere.example")
    with SQLiteStore.open("record/parts.db") as store:
        run = merge_runs(RunHeader(id="r1"), load_process_logs(store, "r1"))
    upstream.close()
    with at_proxy(Mode.REPLAY, World(case_id="c1", calls=run.events)) as ask:
        again = ask("POST", call(large, 7))
        gone = ask("POST", b"code=s3cret", beside="/token")

    assert first[0] == again[0] == 200
    assert json.loads(again[1]) == {**json.loads(first[1]), "id": 7}
    assert page == (200, b"a page")
    assert foreign[0] == 403
    assert gone[0] == 404
    assert [event.kind for event in run.events] == ["tool_call"]
    assert b"s3cret" not in Path("record/parts.db").read_bytes()


IN_PLACE = ("--mcp-config", ".mcp.json", "--mcp-config-in-place")


def at_its_place(*words: str) -> list[str]:
    """An agent that reads `.mcp.json` and is not told so by any word."""
    code = (
        f"import runpy, sys; sys.argv.insert(1, '.mcp' + '.json'); runpy.run_path({str(AGENT)!r}, run_name='__main__')"
    )
    return [sys.executable, "-c", code, "plain", *words]


def test_a_file_can_be_swapped_at_its_place_and_is_put_back(upstream: Upstream) -> None:
    config(weather=STDIO, maps={"url": f"{upstream.url}/mcp"})
    before = Path(".mcp.json").read_bytes()

    told = recorded(*at_its_place("weather:Bern", "maps:Rome"), options=IN_PLACE)
    after = Path(".mcp.json").read_bytes()
    upstream.close()
    result = replayed(*at_its_place("weather:Bern", "maps:Rome"), options=IN_PLACE)

    assert len(list(last_run().tool_calls)) == 2
    assert json.loads(result["run"]["output"]) == told
    assert after == before == Path(".mcp.json").read_bytes()
    assert not Path(".mcp.json").is_symlink()
    assert sorted(path.name for path in Path().iterdir()) == [".mcp.json", ".replaykit", "case"]


def test_what_to_type_next_names_what_has_to_be_said_again() -> None:
    here, there = Path(".mcp.json"), Path("..", "mcp.json")

    assert McpConfigs(files=(here,)).options == ()
    assert McpConfigs(files=(here,), in_place=True).options == (*IN_PLACE,)
    assert McpConfigs(files=(there,)).options == ("--mcp-config", str(there))


def test_a_replay_that_forgets_to_swap_the_file_is_stopped_before_a_server_starts() -> None:
    config(weather=STDIO)
    recorded(*at_its_place("weather:Bern"), options=IN_PLACE)
    config(weather={"command": "touch", "args": ["started"]})

    done = replaykit("replay", "case", "--", *at_its_place("weather:Bern"))

    assert done.returncode == 2
    assert "Repeat the option: --mcp-config FILE --mcp-config-in-place" in done.stderr
    assert not Path("started").exists()


def test_a_replay_that_does_not_find_the_file_is_stopped_before_a_server_starts(weather: Any) -> None:
    config(weather={"command": "touch", "args": ["started"]})
    Path(".mcp.json").rename("moved.json")

    done = replaykit("replay", "case", "--", *agent("moved.json", "weather:Bern"))
    named = replaykit("replay", "case", "--mcp-config", "moved.json", "--", *agent("moved.json", "weather:Bern"))

    assert done.returncode == 2
    assert "read its MCP servers from .mcp.json, which is not found from here" in done.stderr
    assert "--mcp-config FILE" in done.stderr
    assert named.returncode == 3, named.stderr
    assert not Path("started").exists()


def test_a_program_that_has_given_up_its_servers_is_replayed_with_a_file_that_names_none(weather: Any) -> None:
    config()

    done = replaykit("replay", "case", "--", sys.executable, "-c", "print('by heart')")

    assert done.returncode == 3, done.stderr
    assert "recorded and not called: " in done.stdout


@pytest.mark.exhaustive
def test_a_replay_of_servers_in_a_file_elsewhere_is_stopped_before_a_server_starts() -> None:
    config(weather=STDIO)
    other = Path("..", f"{Path.cwd().name}.json")
    Path(".mcp.json").rename(other)
    config(maps=STDIO)
    options = ("--mcp-config", ".mcp.json", "--mcp-config", str(other))
    recorded(*agent(str(other), "weather:Bern"), options=options)
    other.write_text(json.dumps({"mcpServers": {"weather": {"command": "touch", "args": ["started"]}}}))

    done = replaykit("replay", "case", "--", *agent(str(other), "weather:Bern"))
    named = replaykit("replay", "case", *options, "--", *agent(str(other), "weather:Bern"))

    assert done.returncode == 2
    assert "from a file outside of the directory it ran in, which is not found from here" in done.stderr
    assert named.returncode == 3, named.stderr
    assert not Path("started").exists()


@sampled("command", [["no-such-program"], [sys.executable, "-c", "raise SystemExit(3)"]], count=1, start=1)
def test_a_program_that_fails_leaves_the_file_as_it_was(command: list[str]) -> None:
    config(weather=STDIO)
    before = Path(".mcp.json").read_bytes()

    done = replaykit("record", *IN_PLACE, "--", *command)

    assert done.returncode == 3
    assert Path(".mcp.json").read_bytes() == before
    assert not Path(f".mcp.json{ORIGINAL}").exists()


SLOW = """
import os, pathlib, time
parent = os.getppid()
pathlib.Path("up").touch()
while os.getppid() == parent:  # until whoever started it has ended
    time.sleep(0.02)
"""


def slow(*verb: str, file: str = ".mcp.json") -> subprocess.Popen[str]:
    """A run that has swapped the file, and goes on."""
    options = ("--mcp-config", file, "--mcp-config-in-place")
    command = [sys.executable, "-m", "replaykit", *verb, *options, "--", sys.executable, "-c", SLOW]
    shown = {**os.environ, "REPLAYKIT_ISOLATION": "process"}  # the file by which it says that it is up is a real one
    running = subprocess.Popen(command, env=shown, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait_for(Path("up").exists)
    assert Path(file).is_symlink()
    return running


@sampled(
    ("verb", "number"),
    [("record", signal.SIGTERM), ("replay", signal.SIGTERM), ("replay", signal.SIGINT)],
    count=1,
    start=2,
)
def test_a_signal_puts_the_file_back(weather: Any, verb: str, number: signal.Signals) -> None:
    before = Path(".mcp.json").read_bytes()

    with slow("record") if verb == "record" else slow("replay", "case") as running:
        running.send_signal(number)
        running.communicate(timeout=60)

    assert running.returncode != 0
    assert Path(".mcp.json").read_bytes() == before
    assert not Path(f".mcp.json{ORIGINAL}").exists()


def test_a_kill_leaves_the_original_and_the_next_run_puts_it_back() -> None:
    config(weather=STDIO)
    before = Path(".mcp.json").read_bytes()
    with slow("record") as running:
        refused = replaykit("record", *IN_PLACE, "--", "true")
        other = replaykit("record", "--", "true")
        running.kill()
    assert Path(f".mcp.json{ORIGINAL}").read_bytes() == before

    done = replaykit("record", "--", sys.executable, "-c", "print(open('.mcp.json').read())")

    assert refused.returncode == 2
    assert other.returncode == 0, "a run that needs no servers is not in the way"
    assert ".mcp.json is swapped by another run that is under way" in refused.stderr
    assert ".mcp.json: put back as it was before a run that was killed" in done.stderr
    assert Path(".mcp.json").read_bytes() == before
    assert done.stdout.strip().encode() == before.strip()
    assert not Path(f".mcp.json{ORIGINAL}").exists()


def test_recovering_a_recording_puts_the_file_back_and_leaves_no_link() -> None:
    file = Path(config("servers/mine.json", weather=STDIO))
    before = file.read_bytes()
    with slow("record", file=str(file)) as running:
        running.kill()
    assert file.is_symlink()

    done = replaykit("record", "--recover")

    assert done.returncode == 0, done.stderr
    assert "mine.json: put back as it was before a run that was killed" in done.stderr
    assert not file.is_symlink()
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["mine.json"]


def test_a_file_that_was_changed_after_a_kill_is_not_overwritten() -> None:
    Path("file").write_text("mine")
    Path(f"file{ORIGINAL}").write_text("before")

    with pytest.raises(UsageError, match="was changed since"):
        restore_swapped_file(Path("file"))

    assert Path("file").read_text() == "mine"


def test_a_kill_between_the_two_steps_is_undone() -> None:
    Path("file").write_text("mine")
    os.link("file", f"file{ORIGINAL}")
    told: list[str] = []

    restore_swapped_file(Path("file"), told.append)

    assert Path("file").read_text() == "mine"
    assert not Path(f"file{ORIGINAL}").exists()
    assert told


def test_a_link_is_swapped_and_not_what_it_leads_to() -> None:
    Path("real").write_text("mine")
    Path("file").symlink_to("real")
    Path("other").write_text("other")

    with swapped_file(Path("file"), Path("other")):
        inside = Path("file").read_text(), Path("real").read_text()

    assert inside == ("other", "mine")
    assert os.readlink("file") == "real"
    assert stat.S_ISREG(Path("real").stat().st_mode)


@pytest.mark.parametrize(
    ("words", "is_shim"),
    [
        (["python", "-P", "-m", "replaykit", "mcp", "--name=x"], True),
        (["python", "-X", "utf8", "-m", "replaykit", "--debug", "mcp"], True),
        (["python", "/usr/bin/replaykit", "mcp", "--", "npx"], True),
        (["python", "-m", "replaykit", "runs"], False),
        (["python", "agent.py", "replaykit", "mcp"], False),
        (["python", "-m", "agent", "replaykit", "mcp"], False),
        (["python", "agent.py"], False),
    ],
)
def test_a_shim_takes_no_part_but_its_own(
    words: list[str], is_shim: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "orig_argv", words)
    monkeypatch.setenv("REPLAYKIT_SESSION", str(tmp_path))
    taken: list[object] = []
    monkeypatch.setattr(process_startup, "_participations", [])
    monkeypatch.setattr(process_startup, "read_plan", lambda directory: (None, None))
    monkeypatch.setattr(process_startup, "_Participation", lambda plan, world, directory: taken.append(plan))

    process_startup.start()

    assert bool(taken) is not is_shim


def test_a_shim_that_somebody_wrote_by_hand_is_one_part() -> None:
    shim = ["-m", "replaykit", "mcp", "--name", "weather", "--", sys.executable, "-I", str(SERVER)]
    config(weather={"command": sys.executable, "args": shim})
    Path("parts.py").write_text(
        "import json, os, runpy, sys\n"
        f"runpy.run_path({str(AGENT)!r}, run_name='__main__')\n"
        "from replaykit.programs.plan import read_plan\n"
        "from replaykit.store.sqlite import SQLiteStore\n"
        "plan, _ = read_plan(None)\n"
        "with SQLiteStore.open(plan.store, read_only=True) as store:\n"
        "    print(sorted(part.name for part in store.headers(below=f'part/{plan.run_id}')), file=sys.stderr)\n"
    )

    done = replaykit("record", "--", sys.executable, "parts.py", ".mcp.json", "plain", "weather:Bern")

    assert "['main', 'mcp-weather#0', 'proxy']" in done.stderr


@pytest.mark.exhaustive
def test_the_example_is_replayed_with_its_server_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(Path(__file__).parents[2] / "examples" / "mcp", "examples/mcp")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    file = "examples/mcp/mcp.json"
    command = ["python", "examples/mcp/agent.py", file]

    done = replaykit("record", "--name", "trip", "--mcp-config", file, "--", *command, "Bern", "Oslo")
    scaffold(last_run(), "case")
    Path("examples/mcp/server.py").unlink()
    result = replayed(*command, "Oslo", "Bern")

    assert " °C in Bern" in done.stdout
    assert sorted(result["run"]["output"].splitlines()) == sorted(done.stdout.splitlines())
