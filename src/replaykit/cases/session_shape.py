"""The shape of a session file: its keys, their values, and the keys by which it is recognised."""

from __future__ import annotations

from replaykit.cases.case_shape import EvidenceMode
from replaykit.cases.tagged_values import TAGGED
from replaykit.documents.shape import (
    ANYTHING,
    FLAG,
    Choice,
    Flaw,
    Flaws,
    ListOf,
    MapOf,
    Number,
    Record,
    Text,
    optional,
)
from replaykit.model.values import Json, JsonObject

MAX_STATUS = 999
MAX_LATENCY_MS = 86_400_000
FOLLOWED = "file"
"""The key that names another session file."""

# Names appear in reports and as names of directories.
_NAME = Text(
    "a name of up to 200 characters, without control characters",
    pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$(?!\n)",
    max_length=200,
)
_TEXT = optional(Text())

ANSWER = Record(
    {
        "tool": _NAME,
        "response": ANYTHING,
        "status": optional(Number(above=-1, at_most=MAX_STATUS, whole=True)),
        "latency_ms": optional(Number(above=-1, at_most=MAX_LATENCY_MS, whole=True)),
        "arguments": optional(MapOf(ANYTHING)),
    },
    required=("tool",),
    notes={
        "tool": "The tool that gave the answer.",
        "response": "What it answered: any JSON value.",
        "status": "400 and more, or 0 where no answer came: the tool failed.",
        "latency_ms": "How long it took, for assertions. A replay does not wait.",
        "arguments": "What it was called with, where that is known.",
    },
)


def _session_flaws(value: JsonObject) -> Flaws:
    if FOLLOWED in value:
        return
    for key in ("id", "input"):
        if key not in value:
            hint = f"Add {key}, or name the file that holds the session: file: PATH."
            yield Flaw((), "missing-key", f"the key {key!r} is missing", hint)


SESSION = Record(
    {
        "id": _NAME,
        "name": _TEXT,
        "source": _TEXT,
        "captured_at": _TEXT,
        "input": ANYTHING,
        "context": ANYTHING,
        "tool_responses": optional(ListOf(ANSWER)),
        "expected_failure": _TEXT,
        "contract": optional(_NAME),
        "evidence": optional(Choice(EvidenceMode)),
        TAGGED: optional(FLAG),
        FOLLOWED: Text("a path", pattern=r"\S"),
    },
    notes={
        "id": "What the session is called in results.",
        "name": "What happened, in one line.",
        "source": "Where it was captured, such as manual or langsmith.",
        "captured_at": "When it was captured.",
        "input": "The agent's input: any JSON value.",
        "context": "What else the agent knew: messages of the conversation, say.",
        "tool_responses": "What the tools answered, in order.",
        "expected_failure": "What went wrong, in words.",
        "contract": "The contract that the agent must keep: its name, or the path of its file.",
        "evidence": "What a verdict may rest on: recorded answers that were used (tape), or the output alone (output).",
        TAGGED: "True where values have tagged forms, such as {$date: 2026-02-15}, for what JSON cannot say.",
        FOLLOWED: "Another file that holds the session.",
    },
    cross=_session_flaws,
)

_TELLING = frozenset({"input", "tool_responses", "expected_failure", "contract"})


def looks_like_session(value: Json) -> bool:
    """True for anything meant as a session, mistakes included."""
    if not isinstance(value, dict):
        return False
    known = value.keys() & SESSION.members.keys()
    return value.keys() == {FOLLOWED} or "tool_responses" in known or bool(known & _TELLING and len(known) > 1)
