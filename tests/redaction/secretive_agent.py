"""An agent that handles secrets in every way there is. What it handles is in a file outside of its project."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

import replaykit as rk

RUN: Any = None
"""The run that is being recorded, where it is recorded in this process."""


def values() -> dict[str, dict[str, str]]:
    return json.loads(Path(os.environ["SECRETS_FILE"]).read_text(encoding="utf-8"))


@rk.tool
def use(kind: str, text: str, data: dict[str, str]) -> dict[str, Any]:
    """Gives back what it was given, nested, and as JSON inside of JSON."""
    return {"kind": kind, "seen": text, "nested": {"list": [dict(data)]}, "as_json": json.dumps({"body": data})}


@rk.tool
def refuse(kind: str, text: str) -> None:
    """Fails, and says why at length."""
    raise ValueError(f"{kind} was refused: {text}")


@rk.tool
def spell(kind: str, text: str) -> Iterator[str]:
    """Gives a text in pieces that are cut anywhere."""
    size = max(1, len(text) // 5)
    yield from (text[at : at + size] for at in range(0, len(text), size))


def answer(question: str) -> str:
    """Handle all of it; the answer tells how many were seen, and the first of them."""
    seen = []
    for kind, one in values().items():
        text, data = one["says"], {one["key"]: one["value"]}
        given = use(kind=kind, text=text, data=data)
        seen.append(given["seen"])
        try:
            refuse(kind=kind, text=text)
        except Exception as error:
            told = f"{error}\n{traceback.format_exc()}"
        seen.append("".join(spell(kind=kind, text=text)))
        if RUN is not None:
            keep(kind, text, data, told)
    seen += fetch()
    print(f"checked: {seen[0]}")
    print(f"diagnosis: {seen[-1]}", file=sys.stderr)
    return f"{len(seen)} seen, the first was {seen[0]}"


def keep(kind: str, text: str, data: dict[str, str], told: str) -> None:
    """What only the agent itself knows: messages, notes, decisions, states."""
    RUN.message("user", text)
    RUN.note("seen", {"of": kind, **data})
    RUN.decide({"use": text})
    RUN.message("tool", told)
    with RUN.step(state={"so_far": text, "data": [data], "log": told}) as step:
        step.done({"so_far": text, "data": [data, data], "log": told})


def fetch() -> list[str]:
    """Ask a service: secrets in the URL, in headers, in the body, and in a stream that tells them in deltas."""
    base, seen = os.environ["SERVICE_URL"], []
    with httpx.Client(timeout=30) as client:
        for kind, one in values().items():
            said = client.post(
                f"{base}/ask",
                params={"kind": kind, one["key"]: one["value"].replace("\n", " ")},
                headers={"Authorization": "Bearer " + values()["bearer"]["value"]},
                json={"text": one["says"], one["key"]: one["value"]},
            )
            seen.append(said.json()["text"])
            with client.stream("GET", f"{base}/stream?kind={kind}") as stream:
                lines = [line for line in stream.iter_lines() if line.startswith("data: {")]
            seen.append("".join(json.loads(line[6:])["choices"][0]["delta"]["content"] for line in lines))
    return seen


def main() -> None:
    print(answer(sys.argv[1] if len(sys.argv) > 1 else "hello"))


if __name__ == "__main__":
    main()
