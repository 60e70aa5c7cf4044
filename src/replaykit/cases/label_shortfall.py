"""Labels: what a run lacks of what a label expects, and what a good run would show, as assertions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from replaykit.checks.compare import within
from replaykit.checks.failures import call_failed
from replaykit.checks.output import gives_answer
from replaykit.checks.reading import output_text
from replaykit.checks.trajectory import paired
from replaykit.formats.core.labels import ExpectedCall, Label, labels_of
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import cut
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, as_text

Spelled: TypeAlias = tuple[str, Json]
"""An assertion: its kind and its value."""

_DIGITS_IN_A_ROW = 3
_REASON_CHARS = 500
_REASON_WORDS = 3


class Shortfall(Struct, frozen=True, kw_only=True):
    """The difference between a run and the expectations of a label."""

    missing: tuple[ExpectedCall, ...] = ()
    """Expected calls that were not made, or failed."""
    extra: tuple[ToolCall, ...] = ()
    """Unexpected calls that changed something."""
    unsaid: tuple[str, ...] = ()
    """Expected output that is missing from the agent's."""


def bad_labels(run: TraceRun) -> list[Label]:
    """Return the labels that call the run a failure."""
    return [label for label in labels_of(run) if label.failed]


def shortfall(run: TraceRun, label: Label) -> Shortfall:
    """Return what the run lacks in the eyes of a label, as far as the label tells."""
    expected = label.expected_calls or ()
    successful_calls = [call for call in run.tool_calls if call_failed(call) is None]
    pairs = paired(expected, successful_calls, _is_made)
    met = set(pairs.values())
    texts = [output_text(run)]
    if label.said_anywhere:
        texts = [*map(answer_content, run.llm_calls), *texts]
    agent_text = _plain(" ".join(texts))
    extra = []
    for index, call in enumerate(successful_calls):
        if index not in met and call.name in label.changing_tools:
            extra.append(call)
    return Shortfall(
        missing=tuple(call for index, call in enumerate(expected) if index not in pairs),
        extra=tuple(extra),
        unsaid=tuple(text for text in label.expected_output if _plain(text) not in agent_text),
    )


def mistakes(run: TraceRun, label: Label) -> Iterator[Spelled]:
    """Yield the mistakes of the run according to the label."""
    expected, lacks = label.expected_calls or (), shortfall(run, label)
    for missing in lacks.missing:
        value, same = _call(missing.name, missing.arguments), _times(missing, expected)
        if same > 1:
            yield "not", {"tool.called": {**value, "min": same}}
        elif any(_is_made(missing, call) for call in run.tool_calls):  # but it failed
            yield "not", {"effect.exactly_once": value}
        else:
            yield "tool.not_called", value
    for extra in lacks.extra:
        value = _call(extra.name, extra.arguments)
        if any(_is_made(call, extra) for call in expected):  # expected, but made too often
            alike = ExpectedCall(name=extra.name, arguments=extra.arguments)
            value["min"] = sum(map(partial(_is_made, alike), run.tool_calls))
        yield "tool.called", value
    for text in lacks.unsaid:
        yield "not", {"output.contains_any": _saying(text)}
    if label.expected_answer and not gives_answer(output_text(run), label.expected_answer):
        yield "not", {"output.answer": label.expected_answer}


def wishes(run: TraceRun, label: Label) -> Iterator[Spelled]:
    """Yield assertions about a good run: expected calls, no other changes, expected output."""
    expected = label.expected_calls or ()
    for call in expected:
        value, same = _call(call.name, call.arguments), _times(call, expected)
        if call.name not in label.changing_tools:
            yield "tool.called", value
        elif same == 1:
            yield "effect.exactly_once", value
        else:
            yield "tool.called", {**value, "min": same, "max": same}
    times = Counter(call.name for call in expected)
    for tool in label.changing_tools:
        if times[tool] == 1:
            yield "effect.exactly_once", tool
        elif times[tool]:
            yield "max_tool_calls", {"tool": tool, "count": times[tool]}
    if never := [tool for tool in label.changing_tools if not times[tool]]:
        yield "effect.none", never
    expected_texts = shortfall(run, label).unsaid if label.said_anywhere else label.expected_output
    for text in filter(None, expected_texts):
        yield "output.contains_any", _saying(text)
    if label.expected_answer:
        yield "output.answer", label.expected_answer


def is_explained(label: Label) -> bool:
    """True if the label describes a good run, so that assertions can check it."""
    return bool(label.expected_calls or label.expected_output or label.expected_answer)


def criteria(run: TraceRun, label: Label) -> Iterator[str]:
    """Yield sentences about a good run: the label's own, and its judge's criticism."""
    yield from filter(None, map(str.strip, label.criteria))
    reason = " ".join(label.why.split())
    # Some scorers repeat the answer instead of giving a reason.
    if len(reason.split()) >= _REASON_WORDS and reason not in " ".join(output_text(run).split()):
        yield f"The run no longer has the fault that {label.name} names: {cut(reason, _REASON_CHARS)}"


def _times(call: ExpectedCall, expected: Sequence[ExpectedCall]) -> int:
    """Return how many of the expected calls match this one's arguments."""
    return sum(other.name == call.name and within(call.arguments, other.arguments) for other in expected)


def _is_made(expected: ExpectedCall, call: ToolCall) -> bool:
    """True if the call is the expected one, possibly with more arguments."""
    return call.name == expected.name and within(expected.arguments, call.arguments)


def _call(tool: str, arguments: Json) -> JsonObject:
    """Return the call as assertions name it; arguments that are not an object are left out."""
    return {"tool": tool} | ({"arguments": arguments} if isinstance(arguments, dict) else {})


def _saying(text: str) -> Json:
    """Match the text in any case; a large number also with thousands separators."""
    is_large = text.isascii() and text.isdigit() and len(text) > _DIGITS_IN_A_ROW
    return {"texts": [text, f"{int(text):,}"] if is_large else [text], "ignore_case": True}


def answer_content(call: LlmCall) -> str:
    """Return the text of a model's answer, if it is a message."""
    return as_text(as_object(call.result).get("content"))


def _plain(text: str) -> str:
    return text.replace(",", "").casefold()
