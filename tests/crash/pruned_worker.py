"""Records runs until its input is closed, and says which of them have to stay: `id events`, one per line."""

from __future__ import annotations

import os
import random
import sys
import threading

import replaykit as rk


@rk.tool
def work(n: int, size: int) -> dict[str, str]:
    return {"n": str(n), "data": os.urandom(size).hex()}


def record(store: rk.Store, rng: random.Random) -> None:
    """One run: most succeed and may go; those that fail or are tagged stay."""
    fate = rng.choice(["goes", "goes", "goes", "fails", "kept"])
    steps = rng.randrange(1, 80)
    try:
        with rk.record("pruned", store=store, tags=["keep"] if fate == "kept" else []) as run:
            for n in range(steps):
                work(n, rng.choice([10, 200, 2_000, 40_000] if n == 3 else [10, 200]))
            if fate == "fails":
                raise RuntimeError("it went wrong")
    except RuntimeError:
        pass
    if fate != "goes":
        os.write(1, f"{run.id} {steps}\n".encode())


def main(path: str, seed: int) -> None:
    rng, stop = random.Random(seed), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    with rk.Store.open(path) as store:
        while not stop.is_set():
            record(store, rng)


main(sys.argv[1], int(sys.argv[2]))
