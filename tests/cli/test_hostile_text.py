"""Recorded text is data: no verb hands a terminal a control character out of a store, a file or an argument."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Ran

import replaykit as rk
from replaykit.cli import VERBS
from replaykit.cli.help import TOPICS
from replaykit.cli.store import COMMANDS
from replaykit.model.run import encode_run

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[32mfixed\x1b[0m\x9b2J\x7f\u202eevil\u2066\u200b\u200d\ufeff\u3164\U000e0041\x08\r"
)
NEVER = {char for char in HOSTILE if not char.isalnum() and char not in "[]0;"} | {"\u3164"}
AGENT = "hostile_agent:answer"
CI = f"replaykit: 1\nagent: {{type: python, endpoint: '{AGENT}'}}\ncases: [cases]\n"
PRUNE = "replaykit: 1\nretention: {max_runs: 1}\n"
STEP = f"plan{HOSTILE}"

Call = Callable[..., Ran]


@rk.tool
def look(what: str) -> dict[str, str]:
    return {HOSTILE: HOSTILE}


@pytest.fixture
def run_id(own_directory: Path) -> str:
    """A failed run that has the hostile text wherever text can be, and the files that verbs ask for."""
    with (
        pytest.raises(RuntimeError),
        rk.record(f"shop {HOSTILE}", input=HOSTILE, tags=[HOSTILE], agent=HOSTILE) as run,
    ):
        run.message("user", HOSTILE)
        with run.step(STEP) as step:
            step.decide(HOSTILE)
            step.done({HOSTILE: HOSTILE})
        look(HOSTILE)
        run.note(HOSTILE, HOSTILE)
        raise RuntimeError(HOSTILE)
    (own_directory / "hostile_agent.py").write_text(
        f"import replaykit as rk\n\ndef answer(question):\n    raise RuntimeError({HOSTILE!r})\n"
    )
    with rk.Store.open(".replaykit/store.db") as store:
        (own_directory / f"trace{HOSTILE}.json").write_bytes(encode_run(store.load(run.id)))
    (own_directory / "ci.yaml").write_text(CI)
    (own_directory / "prune.yaml").write_text(PRUNE)
    (own_directory / f"config{HOSTILE}.yaml").write_text(f"replaykit: 1\n{json.dumps(HOSTILE[:-3])}: 1\n")
    return run.id


LINES: dict[str, list[str]] = {
    "scaffold": ["RUN --out cases/hostile", "TRACE --out cases/traced", "RUN --out cases/text --json"],
    "lint": ["cases/hostile", "cases", HOSTILE, "--upgrade cases/hostile", f"--upgrade {HOSTILE}"],
    "replay": [f"cases/hostile --agent {AGENT}", f"cases/hostile --agent {AGENT} --json", HOSTILE],
    "contract": ["run --config CONFIG", f"lint {HOSTILE}"],
    "judge": ["cases/hostile", HOSTILE],
    "judge review": ["cases/hostile", HOSTILE],
    "retape": [f"cases/hostile --agent {AGENT}", f"cases/hostile --agent {AGENT} --answers {HOSTILE}", HOSTILE],
    "prove": [f"cases/hostile --bad {AGENT} --good {AGENT}", f"{HOSTILE} --bad {AGENT} --good {AGENT}"],
    "chaos": [
        f"run --case cases/hostile --agent {AGENT} --profile {HOSTILE}",
        f"run --input {HOSTILE} --agent {AGENT}",
    ],
    "ci": ["--config CONFIG", "--config ci.yaml", "--config ci.yaml --json"],
    "record": [f"-- {HOSTILE}", f"--recover --store {HOSTILE}"],
    "import": ["TRACE", "TRACE --json", HOSTILE],
    "serve": [f"--host {HOSTILE}"],
    "runs": ["", "--json", f"--name {HOSTILE}"],
    "show": [
        *("RUN", "RUN --json", "RUN --step 0", "RUN --step 3", f"RUN --step {HOSTILE}", HOSTILE),
        *("RUN --steps", "RUN --steps --json", f"{HOSTILE} --steps"),
        *("RUN --forks", "RUN --forks --json", f"{HOSTILE} --forks"),
    ],
    "view": [
        "RUN --share run.html",
        "RUN RUN --share compared.html --json",
        HOSTILE,
        f"{HOSTILE}/x",
        f"--port {HOSTILE}",
    ],
    "resume": [f"RUN --step {STEP} --agent {AGENT}", f"RUN --step {HOSTILE} --agent {AGENT}"],
    "fork": [f"RUN --step {STEP} --agent {AGENT} --input {HOSTILE}", f"RUN --step {HOSTILE} --agent {AGENT}"],
    "debug": ["RUN", HOSTILE],
    "compare": ["RUN RUN", "RUN TRACE", "RUN RUN --json", f"RUN {HOSTILE}"],
    "golden": ["RUN", f"RUN --name x --agent {AGENT}", HOSTILE],
    "mcp": [f"--name {HOSTILE} -- {HOSTILE}"],
    "export": ["RUN", "RUN --format otlp", "RUN --format replaykit", f"RUN --format {HOSTILE}", f"RUN -o {HOSTILE}/a"],
    "redact scan": ["TRACE", "TRACE --json", HOSTILE],
    "redact": ["TRACE --dry-run", HOSTILE],
    "store keep": ["RUN", HOSTILE],
    "store prune": ["--dry-run --config prune.yaml", "--dry-run --config prune.yaml --json", f"--store {HOSTILE}"],
    "store stats": ["", "--json", "--prometheus"],
    "store backup": [f"{HOSTILE}.db"],
    "store restore": [f"{HOSTILE}.nothing"],
    "store verify": ["", f"--store {HOSTILE}"],
    "doctor": [f"--store {HOSTILE}", f"--store {HOSTILE} --json", "--config CONFIG"],
    "init": [HOSTILE],
    "demo": [HOSTILE],
    "examples": ["copy " + HOSTILE, HOSTILE],
    "help completion": [HOSTILE],
    "help": [HOSTILE],
    "help formats": [HOSTILE],
    "help assertions": [HOSTILE],
    "help schema": [HOSTILE],
}
"""What each verb is tried with; RUN, TRACE and CONFIG are the hostile ones."""


def words(line: str, run_id: str) -> list[str]:
    names = {"RUN": run_id, "TRACE": f"trace{HOSTILE}.json", "CONFIG": f"config{HOSTILE}.yaml"}
    return [names.get(word, word) for word in line.split(" ") if word]


def test_every_verb_is_tried() -> None:
    groups = {"store": COMMANDS, "help": TOPICS}
    commands = {f"{group} {name}" for group, names in groups.items() for name in names}

    assert set(LINES) == VERBS.keys() - {"store"} | commands | {"judge review", "redact scan"}


def test_no_verb_prints_a_control_character_that_came_out_of_data(replaykit: Call, run_id: str) -> None:
    raw = {}
    for verb, lines in LINES.items():
        for line in lines:
            ran = replaykit(*verb.split(), *words(line, run_id))
            found = NEVER & set(ran.out + ran.err)
            if found:
                raw[f"{verb} {line!a}"] = sorted(map(ascii, found))

    assert raw == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [("runs --json", lambda shown: shown["runs"][0]["name"]), ("show RUN --json", lambda shown: shown["run"]["name"])],
)
def test_json_says_the_same_in_escapes(replaykit: Call, run_id: str, line: str, name: Callable[..., str]) -> None:
    ran = replaykit(*words(line, run_id))

    assert name(ran.json) == f"shop {HOSTILE}"
    assert "\\u009b2J" in ran.out


def test_text_spells_control_characters_out(replaykit: Call, run_id: str) -> None:
    assert (
        r"\x1b]0;owned\x07\x1b[2J\x1b[32mfixed\x1b[0m\u009b2J\u007f\u202eevil"
        in replaykit("show", "--forks", run_id).out
    )


def test_on_a_terminal_our_own_colours_stay_and_those_of_data_are_spelled_out(run_id: str) -> None:
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "replaykit", "show", run_id]
    with subprocess.Popen(command, stdout=writer, stderr=writer, env={**os.environ, "TERM": "xterm"}) as shown:
        os.close(writer)
        written = b"".join(iter(lambda: _read(reader), b"")).decode()
    os.close(reader)

    assert shown.returncode == 0, written
    assert "\x1b[31m\x1b[1merror\x1b[0m" in written
    assert set(re.findall(r"\x1b[^A-Za-z]*.", written)) == {"\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"}
    assert not any(unicodedata.category(char) in ("Cf", "Cc") for char in written if char not in "\x1b\r\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:  # the other end is closed
        return b""


def test_notes_of_a_case_hold_no_control_character(replaykit: Call, run_id: str) -> None:
    assert replaykit("scaffold", run_id, "--out", "cases/hostile").code == 0

    written = Path("cases/hostile/notes.md").read_text(encoding="utf-8")
    assert not NEVER & set(written)
    assert "u009b" in written
