"""Records runs into a store until it is killed; every acknowledged step is written to standard output."""

from __future__ import annotations

import os
import random
import sys

import replaykit as rk


@rk.tool
def work(n: int, size: int) -> dict[str, str]:
    return {"n": str(n), "data": os.urandom(size).hex()}


def main(path: str, seed: int) -> None:
    rng = random.Random(seed)
    store = rk.Store.open(path)
    while True:
        with rk.record("crash", store=store) as run:
            messages: list[str] = []
            for n in range(rng.randrange(40, 200)):
                work(n, rng.choice([10, 10, 200, 200, 2_000, 40_000]))
                messages.append(f"step {n}")
                run.checkpoint({"messages": messages})
                os.write(1, f"{run.id} {n}\n".encode())


main(sys.argv[1], int(sys.argv[2]))
