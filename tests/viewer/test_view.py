"""`replaykit view` as a command: its address, its end, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.commands import Ran, caller
from tests.viewer.serving import Client

import replaykit as rk
from replaykit.cli import view
from replaykit.model.run import RunStatus, TraceRun

STORE = Path(".replaykit/store.db")


@pytest.fixture(autouse=True)
def stored() -> None:
    with rk.Store.open(STORE) as store:
        store.add(TraceRun(id="one", name="shop", status=RunStatus.SUCCESS))
        store.add(TraceRun(id="two", name="shop", status=RunStatus.ERROR))


@contextmanager
def viewing(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command, and give its process and its first line; Ctrl-C ends it."""
    command = [sys.executable, "-m", "replaykit", "view", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, ""), err


def test_the_address_is_printed_and_ctrl_c_ends_it_well() -> None:
    with viewing("last-failed") as (_, url):
        start, _, route = url.partition("#")
        home = Client(start).get("api/home").json

    assert route == "/run/two"
    assert home["opens"] == "#/run/two"


def test_programs_get_the_address_as_json() -> None:
    with viewing("one", "two", "--json") as (_, line):
        assert json.loads(line)["url"].endswith("#/compare/one/two")


def test_a_second_viewer_finds_the_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "replaykit", "view", f"--port={port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_a_file_is_written_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    run = caller(capsys, Ran)

    shared = run("view", "one", "--share", "one.html")
    as_json = run("view", "one", "--share", "one.html", "--json").json

    assert (shared.code, shared.err) == (0, "wrote one.html\n")
    assert as_json == {"replaykit": 1, "file": "one.html", "size_bytes": Path("one.html").stat().st_size}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("nobody", 3, "no run 'nobody'"),
        ("no/where", 2, "no/where does not exist"),
        ("one two three", 2, "got unexpected extra argument"),
        ("--share home.html", 2, "--share needs a TARGET"),
        ("one --share missing/one.html", 3, "cannot be written"),
        ("one --runner-cmd true", 2, "needs a Python agent"),
    ],
)
def test_a_wrong_call_ends_at_once(capsys: pytest.CaptureFixture[str], arguments: str, code: int, message: str) -> None:
    ran = caller(capsys, Ran)("view", *arguments.split())

    assert ran.code == code
    assert message in ran.err


def test_a_broken_configuration_only_costs_the_list_of_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\nnonsense: 1\n")
    notes: list[str] = []
    monkeypatch.setattr(view.options, "note", notes.append)

    assert view._case_paths() == [Path("cases")]
    assert "are not listed" in notes[0]
    Path("replaykit.yaml").write_text("replaykit: 1\ncases: [tests]\nplugins: [missing_plugin]\n")
    Path("tests").mkdir()
    assert [path.name for path in view._case_paths()] == ["tests"], "no plugin is imported"


@pytest.mark.parametrize(("is_terminal", "opened"), [(True, ["http://x/"]), (False, [])])
def test_the_browser_opens_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, opened: list[str]
) -> None:
    urls: list[str] = []
    monkeypatch.setattr("webbrowser.open", urls.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)

    view._report("http://x/", as_json=False, opens_browser=True)
    view._report("http://x/", as_json=False, opens_browser=False)

    assert urls == opened
