"""`replaykit view` as a command: its address, its end, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

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


class OpeningServer:
    """Stands for the server: is ready at once, and looks at what the browser was opened with before it ends."""

    opened: ClassVar[list[str]] = []
    files: ClassVar[list[tuple[Path, int, str]]] = []

    def __init__(self, *_: object) -> None:
        self.opened.clear()
        self.files.clear()

    async def serve(self, _port: int, on_ready: Callable[[str], None]) -> None:
        on_ready("http://127.0.0.1:1/TOKEN/")
        for address in self.opened:
            file = Path(address.removeprefix("file://"))
            self.files.append((file, stat.S_IMODE(file.stat().st_mode), file.read_text()))


@pytest.mark.parametrize(("is_terminal", "no_browser", "count"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_the_browser_opens_on_a_terminal_with_a_private_file(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, no_browser: bool, count: int
) -> None:
    monkeypatch.setattr("webbrowser.open", OpeningServer.opened.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(view, "ViewerServer", OpeningServer)

    arguments = ["one", *(["--no-browser"] if no_browser else [])]
    view.command.main(arguments, standalone_mode=False)

    assert len(OpeningServer.opened) == count
    for address in OpeningServer.opened:
        assert "TOKEN" not in address, "other users see the arguments of programs"
    for file, mode, text in OpeningServer.files:
        assert mode == 0o600
        assert 'content="0; url=http://127.0.0.1:1/TOKEN/#/run/one"' in text
        assert not file.exists(), "the file ends with the server"
