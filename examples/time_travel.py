"""Time-travel debugging: stand at a step of a recorded run, change the state, go on from there, and compare.

python examples/time_travel.py --run-id RUN_ID --step-id step_3 --modify '{"max_retries": 3}'
"""

from __future__ import annotations

import argparse
import json

from agents import weather

import replaykit as rk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--step-id", default="step_3")
    parser.add_argument("--modify", default="{}", help="keys of the state to change, as JSON")
    options = parser.parse_args()

    checkpoint = rk.CheckpointStore().load_checkpoint(options.run_id, options.step_id)
    print(f"state after {options.step_id}: {checkpoint.state}")

    fork_id, result = rk.fork_run(options.run_id, options.step_id, json.loads(options.modify), agent=weather.agent)
    print(f"fork {fork_id}: {result.status.value}, {result.output}")

    divergence = rk.compare_runs(options.run_id, fork_id)
    print(divergence.first.text if divergence.first else "the runs are identical")


if __name__ == "__main__":
    main()
