"""Agents that throw dice."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
from collection import every_way, failing, main, ran, took

import replaykit as rk

REGIONS = ("eu-west", "us-east", "ap-south", "sa-east", "af-north", "me-central")
SET_ORDER = dict.fromkeys(("agent", "script", "in_process"), "PYTHONHASHSEED")
SECRETS = every_way("secrets")
SHARDS = 3
drawn_shard = 0
"""The shard that the agent drew, for the tool: it is in none of its arguments."""


class Unavailable(Exception):
    """The region is down."""


@rk.tool
def deploy(region: str, *, request_id: str = ""):
    ran("deploy")
    raise Unavailable(f"{region} is not available")


@rk.tool
def submit(payload: dict):
    ran("submit")
    return {"accepted": False, "id": payload["id"]}


@rk.tool
def healthy_shard() -> int:
    ran("healthy_shard")
    return (drawn_shard + 1) % SHARDS


def ask_shard(shard: int) -> str:
    """Fail in every recording, whatever was drawn; a replay that draws something else may not."""
    global drawn_shard
    drawn_shard = shard
    if shard != healthy_shard():
        took("unhealthy")
        raise Unavailable("the shard is down")
    took("healthy")
    return "answered"


def rejected(receipt: dict, identifier: object) -> str:
    took(f"same id {receipt['id'] == identifier}")
    if not receipt["accepted"]:
        raise RuntimeError("the payload was rejected")
    return "accepted"


@failing("Deploy somewhere")
def uuid4_in_argument(question: str) -> str:
    request_id = str(uuid.uuid4())
    try:
        deploy("eu-west", request_id=request_id)
    except Unavailable as error:
        took("unavailable")
        raise RuntimeError(f"deployment failed: {error}") from error
    return "deployed"


@failing("Deploy anywhere")
def random_choice(question: str) -> str:
    region = random.choice(REGIONS)
    took(region)
    deploy(region)
    return "deployed"


@failing("Try the regions in any order")
def shuffled(question: str) -> str:
    order = list(REGIONS)
    random.Random().shuffle(order)
    took(" ".join(order))
    failures = 0
    for region in order:
        try:
            deploy(region)
        except Unavailable:
            failures += 1
    raise RuntimeError(f"all {failures} regions failed")


@failing("Sample the measurements")
def numpy_generator(question: str) -> str:
    sample = np.random.default_rng().integers(0, 1_000_000, size=3).tolist()
    took(str(sample))
    return rejected(submit({"id": sample}), sample)


@failing("Sample with the old interface")
def numpy_global(question: str) -> str:
    value = float(np.random.rand())
    took(str(value))
    return rejected(submit({"id": value}), value)


@failing("Make a session token", may_be_inconclusive=SECRETS)
def secret_token(question: str) -> str:
    token = secrets.token_hex(8)
    return rejected(submit({"id": token}), token)


@failing("Tag the findings", may_be_inconclusive=SET_ORDER)
def set_order(question: str) -> str:
    tags = {"billing", "refund", "urgent", "vip", "angry", "french"}
    joined = ",".join(tags)
    return rejected(submit({"id": joined}), joined)


@failing("Shard the customers", may_be_inconclusive=SET_ORDER)
def hash_of_text(question: str) -> str:
    shard = hash("customer-4711") % 1000
    return rejected(submit({"id": shard}), shard)


@failing("Ask any shard", may_be_inconclusive=SECRETS)
def secret_decides(question: str) -> str:
    return ask_shard(secrets.randbelow(SHARDS))


@failing("Ask any shard of the system's choice", may_be_inconclusive=SECRETS)
def system_random_decides(question: str) -> str:
    return ask_shard(random.SystemRandom().choice(range(SHARDS)))


@failing("Ask the shard of the customer", may_be_inconclusive=SET_ORDER)
def hash_decides(question: str) -> str:
    return ask_shard(hash("customer-4711") % SHARDS)


@failing("Show the draft", inconclusive=every_way("address"))
def address_in_argument(question: str) -> str:
    draft = str(object())
    return rejected(submit({"id": draft}), draft)


@failing("Name the worker", may_be_inconclusive=every_way("id of the process"))
def process_in_argument(question: str) -> str:
    worker = f"worker {os.getpid()}"
    return rejected(submit({"id": worker}), worker)


@failing("Draw by the time")
def seeded_by_the_time(question: str) -> str:
    number = random.Random(time.time_ns()).randrange(10**9)
    return rejected(submit({"id": number}), number)


@failing("Draw by the time for all")
def module_seeded_by_the_time(question: str) -> str:
    random.seed(int(time.time()))
    number = random.randrange(10**9)
    return rejected(submit({"id": number}), number)


@failing("Back off with jitter")
def jittered_backoff(question: str) -> str:
    waited = []
    for attempt in range(3):
        pause_s = random.uniform(0.01, 0.05)
        waited.append(round(pause_s, 6))
        time.sleep(pause_s)
        try:
            deploy(f"attempt-{attempt}")
        except Unavailable:
            continue
    took(str(waited))
    raise RuntimeError("three attempts failed")


@failing("Write a draft")
def temporary_file(question: str) -> str:
    with tempfile.TemporaryDirectory() as directory:
        draft = Path(directory) / "draft.txt"
        draft.write_text(question, encoding="utf-8")
        return rejected(submit({"id": draft.name, "size": draft.stat().st_size}), draft.name)


@failing("Explore or exploit")
def epsilon_greedy(question: str) -> str:
    arm = "explore" if random.random() < 0.5 else "exploit"
    took(arm)
    return rejected(submit({"id": arm}), arm)


if __name__ == "__main__":
    main(globals())
