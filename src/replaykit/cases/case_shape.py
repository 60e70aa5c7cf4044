"""The shape of a case file: its keys, their values, and which keys go together."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.rule import BadAssertion
from replaykit.config import MAX_TIMEOUT_S
from replaykit.documents.shape import (
    ANYTHING,
    FLAG,
    SOME_TEXT,
    Choice,
    Either,
    Flaw,
    Flaws,
    ListOf,
    MapOf,
    Number,
    Record,
    Text,
    optional,
)
from replaykit.model.json_positions import DocumentPath
from replaykit.model.jsonpath import parse_path
from replaykit.model.matching import MatchMode, ModelMatch, OnMiss, ToolErrors, ToolMode
from replaykit.model.pins import Clock
from replaykit.model.values import Json, JsonObject

CASE_FORMAT = 2
"""Version of the case file; readers accept every older one."""
DEFAULT_TIMEOUT_S = 60
TAKE_NAME = r"[a-z0-9][a-z0-9_.-]{0,59}"
"""A pattern for names of takes: valid directory names on every system, and easy to type."""
MAX_SEED = 2**53  # larger integers lose digits in some JSON readers


class ModelMode(StrEnum):
    """Where a model's answers come from in a replay."""

    RECORDED = "recorded"  # from the case's fixtures
    LIVE = "live"  # from the model itself


class EvidenceMode(StrEnum):
    """What a verdict may rest on."""

    TAPE = "tape"  # recorded answers that the candidate used
    OUTPUT = "output"  # its output alone


class AssertionShape:
    """A mapping with one key: the kind of an assertion, and its value."""

    expected = "one assertion, as in `status_is: success`"

    def fits(self, value: Json) -> bool:
        return isinstance(value, dict)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if len(value) != 1:
            message = f"expected {self.expected}, got {len(value)} keys"
            yield Flaw(path, "wrong-type", message, "Begin each assertion with a dash of its own.")
            return
        ((kind, inner),) = value.items()
        try:
            parse_assertion(kind, inner)
        except BadAssertion as error:
            message = error.message if repr(kind) in error.message else f"{kind}: {error.message}"
            yield Flaw((*path, kind, *error.path), "bad-assertion", message, error.hint or "Correct it.")

    def schema(self) -> JsonObject:
        return {"$ref": "#/$defs/assertion"}


class Version:
    """The version of the case format; newer ones are refused before."""

    expected = f"the format version {CASE_FORMAT}"

    def fits(self, value: Json) -> bool:
        return type(value) is int and 1 <= value <= CASE_FORMAT

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        return iter(())

    def schema(self) -> JsonObject:
        return {"type": "integer", "minimum": 1, "maximum": CASE_FORMAT}


def parse_clock(text: str) -> tuple[dt.datetime | None, Clock]:
    """Parse a case's clock, `MOMENT`, `tick [MOMENT]` or `live`, into its start, if it has one, and its kind.

    Raise `ValueError` for anything else, and for a moment without a time zone.
    """
    word, _, rest = text.partition(" ")
    if text in (Clock.LIVE, Clock.TICK, Clock.FROZEN):
        return None, Clock(text)
    clock, moment_text = (Clock.TICK, rest) if word == Clock.TICK else (Clock.FROZEN, text)
    try:
        moment = dt.datetime.fromisoformat(moment_text.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"expected a time with a zone, as in '2024-03-12T14:32:00Z', with `tick` before it to let it run,"
            f" or `live`, got {text[:40]!r}"
        )
    return moment, clock


def _match_flaws(match: JsonObject) -> Flaws:
    on_miss = match.get("on_miss")
    if on_miss == OnMiss.LIVE and not match.get("live"):
        yield Flaw(("on_miss",), "missing-key", "on_miss is live, but no name may be", "Add live: [names].")
    if on_miss == OnMiss.FAULT and "fault" not in match:
        message = "on_miss is fault, but the fault is missing"
        yield Flaw(("on_miss",), "missing-key", message, "Add fault: {type: TimeoutError, message: ...}.")


_MATCH = Record(
    {
        "mode": Choice(MatchMode),
        "ignore": ListOf(Text("a JSON path", check=parse_path)),
        "on_miss": Choice(OnMiss),
        "live": ListOf(SOME_TEXT),
        "network": ListOf(SOME_TEXT),
        "fault": Record({"type": SOME_TEXT, "message": Text()}, required=("type",)),
        "model": Choice(ModelMatch),
        "redaction_key_id": Text("8 hex digits", pattern=r"^[0-9a-f]{8}$"),
    },
    notes={
        "mode": "What must match before a recorded outcome is served.",
        "ignore": "JSON paths left out of the comparison; `tool:$.path` limits one to a tool.",
        "on_miss": "What happens to a call that was not recorded.",
        "live": "Names that the case asks to be done for real when on_miss is live. Allow each when you run it.",
        "fault": "What is raised when on_miss is fault.",
        "model": "Whether the model and its parameters are compared, beside messages and tools. By default they are "
        "where the bytes of a call were recorded, and are not where only a trace tells of it.",
        "network": "Hosts, or host:port, that the case asks to be reached. Allow each when you run it.",
        "redaction_key_id": "Which redaction key the recording was made with; it says nothing about the key itself.",
    },
    cross=_match_flaws,
)

_CHANGED_FILE = Record(
    {"path": SOME_TEXT, "before": SOME_TEXT, "tool": SOME_TEXT, "after": SOME_TEXT},
    notes={
        "path": "The file, relative to where the run was started; absent where more were changed than are named.",
        "before": "`absent`, `directory`, or the size and the hash of its content before the run changed it.",
        "tool": "The tool that changed it; absent where the agent did.",
        "after": "Where a tool changed it: the state in which the agent found it.",
    },
)

_SCENARIO = Record(
    {
        "input": ANYTHING,
        "stdin": FLAG,
        "tools": Either((Choice(ToolMode), MapOf(Choice(ToolMode)))),
        "tool_errors": Either((Choice(ToolErrors), MapOf(Choice(ToolErrors)))),
        "models": Choice(ModelMode),
        "match": _MATCH,
        "clock": optional(Text(check=parse_clock)),
        "seed": Either((Number(above=-1, at_most=MAX_SEED, whole=True), SOME_TEXT)),
        "not_held": ListOf(SOME_TEXT),
        "held_up_s": Number(above=0, at_most=MAX_TIMEOUT_S),
        "after_calls_s": Number(above=0, at_most=MAX_TIMEOUT_S),
        "changed_files": ListOf(_CHANGED_FILE),
        "environment": MapOf(Text(expected="text without NUL", pattern=r"^[^\x00]*$")),
        "timeout_s": Number(above=0, at_most=MAX_TIMEOUT_S),
        "take": Text("the name of a take", pattern=rf"^{TAKE_NAME}$(?!\n)"),
    },
    notes={
        "input": "The agent's input: any JSON value.",
        "stdin": "True if a program gets the input on its standard input.",
        "tools": "Where the tools' answers come from: for all, or by name with * for the rest.",
        "tool_errors": "Whether tools that failed return the error's text or raise it: for all, or by name.",
        "models": "Where the models' answers come from.",
        "match": "How a call finds its recorded answer.",
        "clock": "The time the agent sees: ISO 8601 with a zone (`tick` before it lets it run), `tick`, or `live`.",
        "seed": "What random, uuid4, NumPy and os.urandom are seeded with: a number, or the text of a recorded run.",
        "not_held": "What of chance the recording could not keep: a call that differs by it alone is inconclusive, "
        "and so is a fix that another draw takes back.",
        "held_up_s": "How long a busy machine delayed the recorded run: the order of events this close is uncertain.",
        "after_calls_s": "How long the recorded run lasted after its last call: times that it read then are uncertain.",
        "changed_files": "Files that the recorded run changed: a candidate that finds one changed is inconclusive.",
        "environment": "Variables, with the values they had when the run was recorded.",
        "timeout_s": f"Seconds until the candidate is stopped; default: {DEFAULT_TIMEOUT_S}.",
        "take": "The take that a candidate is tried with first: `recorded`, or one that `retape` made.",
    },
)

_SOURCE = Record(
    {"trace": SOME_TEXT, "run": SOME_TEXT, "format": SOME_TEXT},
    notes={
        "trace": "The original trace, as a path inside the case's directory.",
        "run": "The id of the run in the trace.",
        "format": "The format of the trace.",
    },
)

# The id is the name of directories, so it must be valid on every system.
CASE_ID = Text(
    'an id of up to 80 characters, without blanks and / \\ : * ? " < > |, that does not begin with . or -',
    pattern=r"""^[^\x00-\x20\x7f/\\:*?"<>|.-][^\x00-\x20\x7f/\\:*?"<>|]*$(?!\n)""",
    max_length=80,
)

CASE = Record(
    {
        "replaykit": Version(),
        "id": CASE_ID,
        "title": Text(),
        "source": _SOURCE,
        "scenario": _SCENARIO,
        "observed": ListOf(AssertionShape()),
        "desired": ListOf(AssertionShape()),
        "semantic": ListOf(SOME_TEXT),
        "evidence": Choice(EvidenceMode),
        "tags": ListOf(SOME_TEXT),
        "notes": Text(),
    },
    required=("replaykit", "id"),
    notes={
        "replaykit": "The version of this format.",
        "id": "The name of the case; the name of its directory as well.",
        "title": "What went wrong, in one line.",
        "source": "Where the case came from.",
        "scenario": "The world the candidate is put into.",
        "observed": "Failure signatures: does it still go wrong this way?",
        "desired": "What a fix must show.",
        "semantic": "Sentences that need judgement.",
        "evidence": "What a verdict may rest on: recorded answers that were used (tape), or the output alone (output).",
        "tags": "Words to select cases by.",
        "notes": "Anything else worth knowing.",
    },
)
