"""Replay a recorded run: the agent runs again, its tools answer from the recording, nothing is executed.

python examples/replay_run.py --run-id RUN_ID
"""

from __future__ import annotations

import argparse

from agents import weather

import replaykit as rk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-id", required=True)
    run_id = parser.parse_args().run_id

    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        run = store.load(run_id)
    for step in rk.step_events(run):
        result = step.error or step.tool_result
        print(f"{step.step_id}: {step.decision} → {step.tool_name}({step.tool_args}) = {result}")

    with rk.replaying(rk.Tape.of(run)) as replayer:
        answer = weather.agent(run.input)
    print(f"replayed: {answer}")
    print(f"same answer: {'yes' if answer == run.output else 'no'}, deviations: {len(replayer.all_deviations())}")


if __name__ == "__main__":
    main()
