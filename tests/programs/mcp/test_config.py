"""Configuration files: every server led through the shim or the proxy, everything else as it was."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import InvalidFile
from replaykit.programs.mcp.config import HttpServer, RewrittenConfig, read_config, rewrite_config
from replaykit.programs.plan import Mode

PROXY = "http://127.0.0.1:40123"
SERVER = Path(__file__).with_name("scripted_server.py")


def rewritten(config: Any, mode: Mode = Mode.RECORD, name: str = ".mcp.json") -> tuple[RewrittenConfig, Any]:
    """What becomes of a configuration, and what the new file says."""
    file = Path("project") / name
    file.parent.mkdir(exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    file.write_text(text, encoding="utf-8")
    Path("session").mkdir(exist_ok=True)
    done = rewrite_config(file, Path("session"), mode=mode, proxy=PROXY)
    assert file.read_text(encoding="utf-8") == text
    return done, json.loads(done.file.read_text(encoding="utf-8"))


def shim_of(name: str, *words: str) -> list[str]:
    session = str(Path("session").absolute())
    return ["-P", "-m", "replaykit", "mcp", f"--name={name}", f"--session={session}", "--", *words]


@pytest.mark.parametrize(
    ("outer", "file"),
    [(("mcpServers",), ".mcp.json"), (("servers",), "mcp.json"), (("mcp", "servers"), "settings.json")],
)
def test_a_server_with_a_command_gets_the_shim_in_front_of_it(outer: tuple[str, ...], file: str) -> None:
    entry = {"type": "stdio", "command": "npx", "args": ["-y", "it"], "env": {"KEY": "${KEY}"}, "autoApprove": ["x"]}
    config: Any = {"weather": entry}
    for key in reversed(outer):
        config = {key: config, "other": 1}

    done, config = rewritten(config, name=file)

    for key in outer:
        config = config[key]
    assert config["weather"] == {
        **entry,
        "command": sys.executable,
        "args": shim_of("weather", "npx", "-y", "it"),
        "env": {"KEY": "${KEY}", "REPLAYKIT_ALONE": "1"},
    }
    assert done.stdio == ("weather",)
    assert done.file.name == file


def test_a_command_may_be_a_list() -> None:
    entry = {"type": "local", "command": ["uvx", "it"], "environment": {"A": "b"}}

    _, config = rewritten({"mcpServers": {"w": entry}})

    assert config["mcpServers"]["w"]["command"] == [sys.executable, *shim_of("w", "uvx", "it")]
    assert config["mcpServers"]["w"]["environment"] == {"A": "b", "REPLAYKIT_ALONE": "1"}


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_server_with_a_url_is_led_through_the_proxy(key: str) -> None:
    entry = {"type": "http", key: "https://mcp.example:8443/v1/mcp?team=a", "headers": {"Authorization": "Bearer x"}}

    done, config = rewritten({"mcpServers": {"my server": entry}})

    assert config["mcpServers"]["my server"] == {**entry, key: f"{PROXY}/mcp-my_server/v1/mcp?team=a"}
    assert done.http == (
        HttpServer(upstream="mcp-my_server", name="my server", address="https://mcp.example:8443", path="/v1/mcp"),
    )


def test_servers_of_projects_and_of_one_name_are_led_too() -> None:
    config = {
        "mcpServers": {"a": {"url": "http://one/mcp"}},
        "projects": {"/p": {"mcpServers": {"a": {"url": "http://two/mcp"}, "b": {"command": "x"}}}, "/q": {}},
    }

    done, config = rewritten(config)

    assert [(server.upstream, server.address) for server in done.http] == [
        ("mcp-a", "http://one"),
        ("mcp-a-2", "http://two"),
    ]
    assert config["projects"]["/p"]["mcpServers"]["a"]["url"] == f"{PROXY}/mcp-a-2/mcp"
    assert done.stdio == ("b",)


def test_in_a_replay_nothing_is_needed_to_start_a_server_or_to_be_trusted_by_it() -> None:
    command = {"command": "npx", "env": {"KEY": "${KEY}"}, "envFile": ".env", "cwd": "/gone", "timeout": 5}
    url = {"url": "${UNSET_URL}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}, "type": "http"}

    done, config = rewritten({"mcpServers": {"a": command, "b": url}}, Mode.REPLAY)

    servers = config["mcpServers"]
    assert servers["a"] == {
        "command": sys.executable,
        "args": shim_of("a", "npx"),
        "env": {"REPLAYKIT_ALONE": "1"},
        "timeout": 5,
    }
    assert servers["b"] == {"url": f"{PROXY}/mcp-b/mcp", "type": "http"}
    assert done.unrewritten == ()


def test_what_a_url_holds_of_secrets_stays_with_the_client_and_is_left_out_of_a_replay() -> None:
    config = {
        "mcpServers": {"a": {"url": "https://me:pass@a.example/mcp?key=k"}, "b": {"command": "x", "args": ["-k"]}}
    }

    done, live = rewritten(config)
    _, replayed = rewritten(config, Mode.REPLAY)

    assert live["mcpServers"]["a"]["url"] == "http://me:pass@127.0.0.1:40123/mcp-a/mcp?key=k"
    assert done.http == (HttpServer(upstream="mcp-a", name="a", address="https://a.example", path="/mcp"),)
    assert replayed["mcpServers"]["a"]["url"] == f"{PROXY}/mcp-a/mcp"
    assert replayed["mcpServers"]["b"]["args"] == shim_of("b", "x")


def test_names_in_the_paths_of_the_proxy_are_plain_and_differ() -> None:
    servers = {"größe": {"url": "http://a"}, "gr__e": {"url": "http://b"}, "gr??e": {"url": "http://c/x"}}

    done, config = rewritten({"mcpServers": servers})

    assert [server.upstream for server in done.http] == ["mcp-gr__e", "mcp-gr__e-2", "mcp-gr_e"]
    assert config["mcpServers"]["größe"]["url"] == f"{PROXY}/mcp-gr__e"


def test_a_server_that_is_known_already_is_the_same_and_others_get_other_names() -> None:
    file = Path("some.json")
    file.write_text(json.dumps({"mcpServers": {"a": {"url": "http://one/mcp"}, "b": {"url": "http://two/mcp"}}}))
    first = HttpServer(upstream="mcp-a", name="a", address="http://one", path="/mcp")
    taken = HttpServer(upstream="mcp-b", name="", address="")

    done = rewrite_config(file, Path("session"), mode=Mode.RECORD, proxy=PROXY, known=[first, taken])

    assert [server.upstream for server in done.http] == ["mcp-a", "mcp-b-2"]


@pytest.mark.parametrize(
    "url", ["ws://a/mcp", "http://[a/mcp", "http://a:port/mcp", "https://${input:host}/mcp", "http:///mcp"]
)
def test_a_url_that_leads_nowhere_is_left_as_it_is(url: str) -> None:
    done, config = rewritten({"mcpServers": {"a": {"url": url, "headers": {}}}})

    assert done.unrewritten == ("a",)
    assert config["mcpServers"]["a"] == {"url": url, "headers": {}}


def test_variables_in_a_url_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "here.example")
    urls = {"a": "https://${HOST}/mcp", "b": "https://${env:HOST}/b", "c": "${NONE:-http://c}/c", "d": "${NONE}/d"}

    done, config = rewritten({"mcpServers": {name: {"url": url} for name, url in urls.items()}})

    assert [server.address for server in done.http] == ["https://here.example", "https://here.example", "http://c"]
    assert done.unrewritten == ("d",)
    assert config["mcpServers"]["d"] == {"url": "${NONE}/d"}


def test_comments_trailing_commas_and_a_mark_at_the_beginning_are_read_over() -> None:
    text = """\ufeff{
      // what we use
      "servers": {
        "a": {"command": "x", "args": ["http://y // no comment", "/* nor this */", ",]",],}, /* the
        last */
      },
    }"""

    _, config = rewritten(text)

    assert config["servers"]["a"]["args"] == shim_of("a", "x", "http://y // no comment", "/* nor this */", ",]")


def test_the_new_file_is_for_its_owner_alone() -> None:
    done, _ = rewritten({"mcpServers": {"a": {"command": "x", "env": {"KEY": "secret"}}}})

    assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    again, _ = rewritten({"mcpServers": {"a": {"command": "y"}}})
    assert again.file == done.file


def test_files_of_one_name_do_not_meet() -> None:
    first, _ = rewritten({"mcpServers": {"a": {"command": "x"}}})
    other = Path("other.json")
    other.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))

    second = rewrite_config(other, Path("session"), mode=Mode.RECORD, proxy=PROXY)

    assert first.file.parent != second.file.parent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n\n  // x\n  oops}", ".mcp.json:4: not JSON"),
        ("[]", "expected a JSON object"),
        ('{"mcpServers": {}}', "no MCP server is in it, under 'mcpServers', 'servers'"),
        ('{"mcpServers": {"a": 1, "b": {"command": ""}, "c": {"url": 5}}}', "no MCP server is in it"),
    ],
)
def test_what_is_no_configuration_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        rewritten(text)

    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidFile, match=r"nowhere\.json: cannot be read: No such file"):
        read_config(Path("nowhere.json"))
    Path("binary.json").write_bytes(b"\xff")
    with pytest.raises(InvalidFile, match="it is not UTF-8"):
        read_config(Path("binary.json"))


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text())))
def test_every_json_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    file = Path("some.json")
    file.write_text(json.dumps(value, indent=2), encoding="utf-8")

    assert read_config(file) == value


def test_a_client_that_is_given_the_new_file_is_recorded_and_then_played_to(weather: Any) -> None:
    with weather.recording():
        done = rewrite_as(weather, "session-1", Mode.RECORD)
        first = answer_of(done)
    with weather.replaying():
        done = rewrite_as(weather, "session-2", Mode.REPLAY)
        second = answer_of(done)

    assert first["result"] == second["result"]
    assert "weather.echo" in weather.calls


def rewrite_as(weather: Any, session: str, mode: Mode) -> Any:
    command = [sys.executable, "-I", str(SERVER)] if mode is Mode.RECORD else ["no-such-server"]
    config = {"mcpServers": {"weather": {"command": command[0], "args": command[1:]}}}
    Path(".mcp.json").write_text(json.dumps(config))
    done = rewrite_config(Path(".mcp.json"), weather.directory / session, mode=mode, proxy=PROXY)
    return json.loads(done.file.read_text())["mcpServers"]["weather"]


def answer_of(entry: Any) -> Any:
    """What a client gets that starts the server as a client of its configuration would: with a small environment."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        env={"PATH": "/usr/bin:/bin", **entry["env"]},
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
