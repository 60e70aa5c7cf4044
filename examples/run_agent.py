"""Run the agent with checkpointing: every step is on disk when it ends, and the run id is printed for what follows.

python examples/run_agent.py --query "What's the weather in San Francisco?"
"""

from __future__ import annotations

import argparse

from agents import weather

import replaykit as rk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", default="What's the weather in San Francisco?")
    answer = weather.agent(parser.parse_args().query)

    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        run = store.load("weather")
    for step in rk.step_events(run):
        print(f"{step.step_id}: {step.decision}")
    print(f"answer: {answer}")
    print(f"run_id: {run.id}")


if __name__ == "__main__":
    main()
