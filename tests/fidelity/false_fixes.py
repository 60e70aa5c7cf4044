"""Candidates that did not fix anything, though their answer looks like it: none may be called `fixed`.

python -m tests.fidelity.false_fixes [SAFEGUARD]
"""

from __future__ import annotations

import inspect
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from tests.fidelity.harness import PYTHONPATH, ROOT
from tests.fidelity.safeguards import SAFEGUARDS

import replaykit as rk

STRANGER = socket.create_server(("127.0.0.1", 0))
"""A server that no candidate has started."""


@rk.tool
def look_up(order: str):
    """The tool of the recorded agent."""
    return {"order": order, "state": "lost"}


def the_agent(question: str) -> str:
    """Fail as recorded."""
    if look_up("17")["state"] == "lost":
        raise RuntimeError("the order is lost")
    return "delivered"


def fixes_it(question: str) -> str:
    """Use the recorded answer, and say what it means."""
    return f"Your order is {look_up('17')['state']}."


def does_nothing(question: str) -> str:
    """Answer without having looked."""
    return "Your order is on its way."


def asks_for_something_else(question: str) -> str:
    """Look up what was never recorded, and go on when it is stopped."""
    try:
        look_up("18")
    except Exception:
        pass
    return "Your order is on its way."


def asks_for_more(question: str) -> str:
    """Look up what was recorded, and then what was not."""
    look_up("17")
    try:
        look_up("18")
    except Exception:
        pass
    return "Your order is on its way."


def calls_the_real_tool(question: str) -> str:
    """Use the tool without its decorator."""
    return f"Your order is {inspect.unwrap(look_up)('17')['state']}."


def asks_a_server_beside_the_tape(question: str) -> str:
    """Use the recorded answer, and a connection that nobody recorded."""
    try:
        socket.create_connection(STRANGER.getsockname(), timeout=1).close()
    except OSError:
        pass
    return fixes_it(question)


def has_a_typo(question: str) -> str:
    """Fail before the first call."""
    return lookup("17")["state"]  # type: ignore[name-defined]  # noqa: F821


def fails_in_another_way(question: str) -> str:
    """Use the recorded answer, and fail."""
    return look_up("17")["status"]


EXPECTED = {
    "the_agent": "reproduced",
    "fixes_it": "fixed",
    "does_nothing": "inconclusive",
    "asks_for_something_else": "diverged",
    "asks_for_more": "diverged",
    "calls_the_real_tool": "inconclusive",
    "asks_a_server_beside_the_tape": "diverged",
    "has_a_typo": "inconclusive",
    "fails_in_another_way": "broken",
}


def misjudged(*, without: str = "") -> dict[str, str]:
    """The candidates that get another verdict than they should, each with the one it got; in a process of its own."""
    command = [sys.executable, "-m", "tests.fidelity.false_fixes", *([without] if without else [])]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    printed = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return {name: word for name, word in json.loads(printed.stdout).items() if word != EXPECTED[name]}


def verdicts() -> dict[str, str]:
    """Record the agent, and let each candidate have a try at the case."""
    candidates: dict[str, Callable[[str], Any]] = {name: globals()[name] for name in EXPECTED}
    with tempfile.TemporaryDirectory(prefix="fidelity-") as place:
        os.chdir(place)
        try:
            with rk.record("false_fixes", input="Where is order 17?") as run:
                run.output = the_agent("Where is order 17?")
        except RuntimeError:
            pass
        with rk.Store.open(".replaykit/store.db", read_only=True) as store:
            rk.scaffold(store.load(run.id), "case")
        found = {name: rk.replay("case", candidate).verdict.value for name, candidate in candidates.items()}
        os.chdir("/")
    return found


def main() -> None:
    """Print the verdicts, without a safeguard where one is named."""
    for name in sys.argv[1:]:
        SAFEGUARDS[name].patch()
    print(json.dumps(verdicts()))


if __name__ == "__main__":
    main()
