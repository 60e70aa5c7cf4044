"""Writes the frozen files of the current formats. Run once per format version, then never again for that version."""

from __future__ import annotations

import shutil
import sys
import traceback
from pathlib import Path

import replaykit as rk
from replaykit import demo
from replaykit.model.run import encode_run

sys.path.insert(0, str(Path(__file__).parent))
from agents import chatting_agent

traceback.format_exception = lambda error: [f"{error!r}\n"]  # type: ignore[assignment]  # no paths of this machine


def main(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with rk.Store.open(directory / "store.db") as store:
        try:
            with rk.record("billing", input=demo.QUESTION, store=store, tags=["frozen"]) as run:
                for n in range(70):
                    run.checkpoint({"messages": [f"m{i}" for i in range(n)], "n": n})
                run.output = demo.looping_agent(demo.QUESTION)
        except RuntimeError:
            pass
        with rk.record("large", store=store) as large:
            large.message("user", "0123456789abcdef" * 6000)
        try:
            with rk.record("conversation", input="Where is my order?", store=store) as run_of_conversation:
                run_of_conversation.output = chatting_agent("Where is my order?")
        except RuntimeError:
            pass
        billing = store.load(run.id)
        conversation = store.load(run_of_conversation.id)
    (directory / "run-log.json").write_bytes(encode_run(billing))
    rk.scaffold(billing, directory / "case", case_id="frozen")
    rk.scaffold(conversation, directory / "conversation", case_id="conversation")


main(Path(sys.argv[1]))
