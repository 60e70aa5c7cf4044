"""Record a program against fake models, stop them, replay it, and count who still tries to reach them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from replaykit.model.run import TraceRun
from replaykit.store.sqlite import SQLiteStore

from .fake_models import FakeModels


class Told(NamedTuple):
    """What came of it."""

    run: TraceRun
    recorded: str
    replayed: str
    stderr: str
    verdict: str
    deviations: list[str]
    connections: int
    """How often the port was knocked at where the models had been."""
    seconds: float


def recorded_and_replayed(
    command: list[str],
    *,
    record: tuple[str, ...] = (),
    before_replay: Callable[[], None] = lambda: None,
    same_addresses: bool = False,
) -> Told:
    """`same_addresses`: the user has set in the replay where the models are, as in the recording."""
    with FakeModels() as models:
        known = {
            "OPENAI_BASE_URL": f"{models.url}/v1",
            "ANTHROPIC_BASE_URL": models.url,
            "GOOGLE_GEMINI_BASE_URL": models.url,
            "OLLAMA_HOST": models.url,
        }
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "sk-of-the-user")
        recorded = _replaykit("record", "--input", "hi", *record, "--", *command, env={**known, **keys})
        assert recorded.returncode == 0, recorded.stderr
        assert models.asked
    with SQLiteStore.open(Path(".replaykit/store.db"), read_only=True) as store:
        run = store.load(store.headers()[0].id)
    made = _replaykit("scaffold", run.id, "--out", "cases/agent")
    assert made.returncode == 0, made.stderr
    assert "sk-of-the-user" not in "".join(file.read_text() for file in Path("cases").rglob("*.*"))
    before_replay()
    with _listening(models.port) as knocks:
        began = time.monotonic()
        replayed = _replaykit("replay", "cases/agent", "--json", "--", *command, env=known if same_addresses else {})
        took = time.monotonic() - began
    (result,) = json.loads(replayed.stdout)["results"]
    evidence = Path(result["evidence"])
    return Told(
        run=run,
        recorded=recorded.stdout,
        replayed=(evidence / "stdout.log").read_text(),
        stderr=(evidence / "stderr.log").read_text(),
        verdict=result["verdict"],
        deviations=[deviation["kind"] for deviation in result["deviations"]],
        connections=len(knocks),
        seconds=took,
    )


def _replaykit(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return subprocess.run(
        [sys.executable, "-m", "replaykit", *arguments],
        env={**own, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )


@contextmanager
def _listening(port: int) -> Iterator[list[object]]:
    knocks: list[object] = []
    with socket.create_server(("127.0.0.1", port)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                knocks.append(address)
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield knocks
        server.shutdown(socket.SHUT_RDWR)
