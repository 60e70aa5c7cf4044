"""Records runs into a store until it is killed; every acknowledged step is written to a file."""

from __future__ import annotations

import os
import random
import sys

import replaykit as rk


@rk.tool
def work(n: int, size: int, token: str) -> dict[str, str]:
    return {"n": str(n), "data": os.urandom(size).hex(), "token": token}


def main(path: str, seed: str, acknowledged: str) -> None:
    rng, secret = random.Random(seed), os.environ["CRASH_SECRET"]
    store = rk.Store.open(path)
    file = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        with rk.record("crash", store=store) as run:
            messages: list[str] = []
            for n in range(rng.randrange(40, 200)):
                work(n, rng.choice([10, 10, 200, 200, 2_000, 40_000]), secret)
                messages.append(f"step {n} with {secret}")
                run.checkpoint({"messages": messages})
                os.write(file, f"{run.id} {n}\n".encode())


main(*sys.argv[1:4])
