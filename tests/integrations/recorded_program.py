"""Record a program against fake models, stop them, replay it, and count who still tries to reach them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.closed_port import connections_to
from tests.integrations.fake_models import FakeModels

from replaykit.model.run import TraceRun
from replaykit.store.sqlite import SQLiteStore


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
    assert made.returncode == 3, "nothing failed in the recording"
    assert "sk-of-the-user" not in "".join(file.read_text() for file in Path("cases").rglob("*.*"))
    before_replay()
    with connections_to(models.port) as seen:
        began = time.monotonic()
        replayed = _replaykit("replay", "cases/agent", "--json", "--", *command, env=known if same_addresses else {})
        took = time.monotonic() - began
    (result,) = json.loads(replayed.stdout)["results"]
    evidence = Path(result["directory"])
    return Told(
        run=run,
        recorded=recorded.stdout,
        replayed=(evidence / "stdout.log").read_text(),
        stderr=(evidence / "stderr.log").read_text(),
        verdict=result["verdict"],
        deviations=[deviation["kind"] for deviation in result["deviations"]],
        connections=len(seen),
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
