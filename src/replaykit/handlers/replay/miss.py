"""Explain a miss: which call, the nearest recorded one, and the differences."""

from __future__ import annotations

import orjson

from replaykit.errors import Divergence, Unreplayable
from replaykit.handlers.replay.keys import key_of
from replaykit.handlers.replay.tape import LastMiss, Matcher, Tape
from replaykit.model.diff import Difference, call_text, differences
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode
from replaykit.model.values import Json
from replaykit.redaction.keys import VARIABLE
from replaykit.seam.scope import MODEL, PendingCall

_CANDIDATES = 50  # number of recorded calls compared to find the nearest
_COMPARED_BYTES = 2_000_000  # comparison stops after this much, which takes 20 ms
_ALL_SERVED = "  the same call was recorded, but every recording of it has been served"
_PROMPT_HINT = (
    "A changed prompt needs new answers: run the candidate with its model once, --live models, and keep what it is "
    "answered; or undo the change."
)
_WORDS = {"tool_call": "tool", "llm_call": "model", "exchange": "request"}


def explain(tape: Tape, matcher: Matcher, call: PendingCall, index: int) -> Divergence:
    """Return the error for a call that the tape does not answer. `index` counts the candidate's calls from 0."""
    if index < len(tape):
        place = f"at call {index + 1} of {len(tape)}"
    else:
        place = f"after its {len(tape)} recorded calls"
    lines = [f"{_whose(tape)} left its recording {place}, {_WORDS[call.kind]} `{call.name}`"]
    changed, prompt = _prompt(matcher, call)
    if prompt:
        return Divergence("\n".join([*lines, *prompt]), index=index, nearest=changed, hint=_PROMPT_HINT)
    near = _nearest(matcher, call, index)
    now = f"  now       {call_text(call.name, orjson.loads(call.arguments))}"
    if near is None:
        lines += [now, f"  recorded  {', '.join(matcher.names(call.kind)) or 'nothing of this kind'}"]
        return Divergence("\n".join(lines), index=index, hint=_hint(call, near))
    recorded, changes = near
    lines += [f"  recorded  {call_text(recorded.name, recorded.arguments)}", now]
    lines += [f"  {change}" for change in changes[:5]]
    if not changes and recorded.name == call.name:
        lines.append(_ALL_SERVED)
    return Divergence("\n".join(lines), index=index, nearest=recorded, hint=_hint(call, near))


def _prompt(matcher: Matcher, call: PendingCall) -> tuple[Call | None, list[str]]:
    """Return the nearest model call and how its prompt differs; no lines if the prompt is not the problem."""
    if call.kind != MODEL:
        return None, []
    from replaykit.handlers.replay.prompts import prompt_difference  # noqa: PLC0415 (misses of models are rare)

    last = matcher.last_outcome(call) if matcher.has_traced else None
    if last is not None:
        return matcher.calls[last], [_ALL_SERVED]
    found = matcher.nearest_model(call)
    if found is None:
        return None, []
    recorded, now = found
    return recorded.call, prompt_difference(recorded.conversation, now)


def blocked(tape: Tape, call: PendingCall, index: int) -> Divergence:
    """Return the error for a call that the scenario blocks."""
    return Divergence(
        f"{_whose(tape)}: the case blocks the {_WORDS[call.kind]} `{call.name}` (call {index + 1})\n"
        f"  now       {call_text(call.name, orjson.loads(call.arguments))}",
        index=index,
        hint="Allow it in the case: `scenario.tools`.",
    )


def ambiguous(call: PendingCall, fitting: int, index: int) -> Divergence:
    """Return the error for a call that several recorded ones may answer because they were redacted with another key."""
    return Divergence(
        f"`{call.name}` (call {index + 1}) cannot be told from its like: the recording was redacted with another key, "
        f"and {fitting} recorded calls differ in redacted values alone\n"
        f"  now       {call_text(call.name, orjson.loads(call.arguments))}",
        index=index,
        hint=f"Set {VARIABLE} to the key that the recording was made with.",
    )


def unanswerable(call: PendingCall, why: str, source_format: str = "") -> Unreplayable:
    """Return the error for a call whose recorded answer cannot be served."""
    hint = "Return plain data, a dataclass or a pydantic model from the tool, and record it again."
    if call.kind == MODEL:
        hint = advice_on_capture(source_format)
    return Unreplayable(f"`{call.name}` cannot be answered from the recording: {why}", hint=hint)


def advice_on_capture(source_format: str) -> str:
    """Return advice on how to capture a more complete trace."""
    from replaykit.formats.core.replayability import capture_advice  # noqa: PLC0415 (few replays need importers)

    return capture_advice(source_format)


def unasked(call: PendingCall, source_format: str) -> Unreplayable:
    """Return the error for a model call when the trace lacks the requests of its model calls."""
    return Unreplayable(
        f"`{call.name}` cannot be found on the tape: the trace does not hold the messages that its models were sent",
        hint=advice_on_capture(source_format),
    )


def is_repeated_by_client(call: PendingCall) -> bool:
    """Return whether an SDK sent the request as a retry and says so."""
    return call.request is not None and call.request.header("x-stainless-retry-count") not in ("", "0")


def _hint(call: PendingCall, near: tuple[Call, list[Difference]] | None) -> str:
    import shlex  # noqa: PLC0415 (few candidates miss a call)

    from replaykit.terminal import visible  # noqa: PLC0415

    ways = ["set `match.on_miss` to `repeat` or `fault`, or `match.mode` to another mode"]
    if near is not None and near[1] and near[0].name == call.name:  # ignoring fields does not help if the names differ
        ways.insert(0, "name what may differ in `match.ignore`")
    live = shlex.quote(visible(call.name))
    return f"Let it pass: in the case {', '.join(ways)}. Or have it done for real: --live {live}"


def _whose(tape: Tape) -> str:
    if tape.name:
        return f"run {tape.name!r}"
    return "the candidate"


def _nearest(matcher: Matcher, call: PendingCall, index: int) -> tuple[Call, list[Difference]] | None:
    """Return the most similar recorded call with its differences: unused calls first, then by fewest differences.

    Fields that do not take part in matching, such as provider ids, are no difference. If a call is repeated right after
    its miss, the result is reused, because agents may retry indefinitely.
    """
    question = call.kind, call.name, call.key
    last = matcher.last_miss
    if last is not None and last.question == question and last.number == index - 1:
        near = last.near
    else:
        near = _compared_calls(matcher, call)
    matcher.last_miss = LastMiss(question, index, near)
    return near


def _compared_calls(matcher: Matcher, call: PendingCall) -> tuple[Call, list[Difference]] | None:
    if matcher.mode is MatchMode.STRICT:
        expected = matcher.expected()
        candidates = [] if expected is None else [expected]
    else:
        candidates = matcher.some_of_name(call, _CANDIDATES)
        if not candidates and call.kind == MODEL:
            candidates = matcher.some_of_kind(MODEL, _CANDIDATES)
    nearest: tuple[Call, list[Difference]] | None = None
    compared_bytes = 0
    for index in candidates:
        recorded = matcher.calls[index]
        changes = differences(*_compared(matcher, index, call))
        if nearest is None or len(changes) < len(nearest[1]):
            nearest = recorded, changes
        compared_bytes += len(bytes(recorded.request_json)) + len(call.key)
        if compared_bytes > _COMPARED_BYTES:
            break
    return nearest


def _compared(matcher: Matcher, index: int, call: PendingCall) -> tuple[Json, Json]:
    """Return the compared parts of a recorded call and of this one."""
    recorded = matcher.calls[index]
    before_key, now_key = matcher.key(recorded.name, key_of(recorded)), matcher.key(call.name, call.key)
    before, now = orjson.loads(before_key), orjson.loads(now_key)
    if call.parameters is None or recorded.span is not None or type(before) is not dict or type(now) is not dict:
        return before, now
    # For a foreign trace, drop arguments that are equivalent and show the rest unchanged.
    written = orjson.loads(call.parameters.model_arguments(before_key, is_recorded=True))
    arguments = orjson.loads(call.parameters.model_arguments(now_key))
    same = {name for name in before.keys() | now.keys() if written.get(name) == arguments.get(name)}
    return {n: v for n, v in before.items() if n not in same}, {n: v for n, v in now.items() if n not in same}
