"""A run of 100,000 events: the first rows at once, a jump within a moment, and flat memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.viewer.serving import Client

import replaykit as rk
from replaykit.model.events import LlmCall, State, ToolCall
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.values import raw

EVENTS = 100_000
MB = 1024

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scale") / "store.db"
    messages: list[dict[str, str]] = []
    with rk.Store.open(path, redact=False) as store:
        writer = store.begin(RunHeader(id="long", started_at=1.0), lazily=True)
        for seq in range(EVENTS):
            place = {"seq": seq, "at": 1.0 + seq / 100, "step": f"step_{seq // 10}"}
            if seq % 10 == 0:
                messages = [*messages[-19:], {"role": "user", "content": f"question {seq} {'x' * 100}"}]
                request = raw({"messages": messages})
                writer.append(LlmCall(name="m", arguments_json=request, result_json=raw(f"answer {seq}"), **place))
            elif seq % 10 == 1:
                writer.append(State(state_json=raw({"n": seq}), **place))
            else:
                result = raw({"id": seq, "text": "y" * 500})
                writer.append(ToolCall(name="look_up", arguments_json=raw({"id": seq}), result_json=result, **place))
        writer.finish(RunHeader(id="long", started_at=1.0, status=RunStatus.SUCCESS, event_count=EVENTS))
    return path


@pytest.fixture
def process(store_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "replaykit", "view", f"--store={store_path}", "--json", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield server
    server.terminate()
    assert server.wait(30) == 0, "it ends in good order"
    assert server.stdout is not None
    server.stdout.close()


def memory_kb(process: subprocess.Popen[str]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is in /proc")
def test_a_long_run_is_on_screen_at_once_and_takes_no_memory(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    client = Client(json.loads(process.stdout.readline())["url"])
    client.get("api/home")
    before = memory_kb(process)
    connection = client.connection()

    begun = time.monotonic()
    connection.request("GET", f"{urlsplit(client.url).path}api/run/long/rows")
    response = connection.getresponse()
    count = len(json.loads(response.readline())["rows"])
    first_s = time.monotonic() - begun
    while line := response.readline():
        count += len(json.loads(line).get("rows", ()))
    connection.close()
    begun = time.monotonic()
    page = client.get("api/run/long/event/77777").json
    jump_s = time.monotonic() - begun

    assert count == EVENTS
    assert page["arguments"] == {"id": 77777}
    assert first_s <= 1
    assert jump_s <= 0.1
    assert memory_kb(process) - before < 40 * MB, "its pages are 90 MB"
